"""The world of slots, as environments drive it: episodes are whole jobsets.

action    slot * placements + placement, or the void action (the last)
end       every job has ended, or `limit` rows have passed
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from jobwise.workload import Workload
from jobwise.worlds.jobset_episodes import JobsetEpisodes
from jobwise.worlds.slots.tables import build, jobsets
from jobwise.worlds.slots.world import SlotsSettings, SlotsWorld


class SlotsEpisodes(JobsetEpisodes, SlotsWorld):
    """E simulations of jobsets for one cluster, submits and lengths in whole rows, cut after `limit`. Raises InputError."""

    ends = {"slowdown": "total", "wait": "all_waited", "max_wait": "longest", "jobs": "started", "dropped": "dropped"}

    def __init__(self, count: int, sets: Sequence[Workload], settings: SlotsSettings, rows: int, limit: int, each: bool):
        tables = jobsets(list(sets))
        state, table = build(tables, sets[0], count, replace(settings, rows=rows), limit)
        SlotsWorld.__init__(self, settings, state, table, sets[0].cluster)
        self._hold(count, sets, tables, table.report, limit, each)
        self.masks = self.mask

    def _after(self, first: int, last: int) -> None:
        """The mask is brought up to date where observations are made."""

    def encode(self, encoder, out: np.ndarray, first: int = 0, last: int | None = None) -> None:
        """Fill out[first:last] with the observations of simulations."""
        self.look(first, len(self.done) if last is None else last)
        super().encode(encoder, out, first, last)

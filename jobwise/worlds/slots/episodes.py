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
from jobwise.worlds.slots.passes import RENEW, go
from jobwise.worlds.slots.tables import build, jobsets
from jobwise.worlds.slots.world import SlotsSettings, SlotsWorld

KEPT = ("moment", "slot", "backlog", "canvas", "free", "colour", "used", "promised", "held", "report", "mask")


class SlotsEpisodes(JobsetEpisodes, SlotsWorld):
    """E simulations of jobsets for one cluster, submits and lengths in whole rows, cut after `limit`. Raises InputError."""

    ends = {"slowdown": "total", "wait": "all_waited", "max_wait": "longest", "jobs": "started", "dropped": "dropped"}

    def __init__(self, count: int, sets: Sequence[Workload], settings: SlotsSettings, rows: int, limit: int, each: bool):
        tables = jobsets(list(sets))
        state, table = build(tables, sets[0], count, replace(settings, rows=rows), limit)
        SlotsWorld.__init__(self, settings, state, table, sets[0].cluster)
        self._hold(count, sets, tables, table.report, limit, each)
        self.counts, self.actions, self.masks = np.full(count, settings.actions), settings.actions, self.mask
        self._asked = np.full(count, RENEW)

    def _renew(self, first: int, last: int) -> None:
        go(self.state, self.grid, self._sets, self._asked, self.which, self._last, first, last)

    def step(self, actions: np.ndarray, autoreset: bool, first: int, last: int) -> None:
        """Place, or let a row pass, and go on."""
        go(self.state, self.grid, self._sets, actions, self.which, self.done, first, last)
        self._report[first:last] = self.grid.report[first:last]

    def encode(self, encoder, out: np.ndarray, first: int = 0, last: int | None = None) -> None:
        """Fill out[first:last] with the observations of simulations."""
        self.look(first, len(self.done) if last is None else last)
        encoder.encode(self.state, self.grid, out, first, last)

    def blank_mask(self) -> np.ndarray:
        """[A] the void action; where nothing is masked, all."""
        void = np.arange(self.actions) == self.void
        return void.astype(np.int8) if self.settings.masked else np.ones_like(self.mask[0])

    def _tables(self) -> dict[str, np.ndarray]:
        return {f"grid_{k}": getattr(self.grid, k) for k in KEPT}

    def seed_rules(self, seed: int) -> None:
        """Seed what the rule `random` draws."""
        self.grid.moment["seed"] = np.arange(len(self.which)) + seed * 1_000_003

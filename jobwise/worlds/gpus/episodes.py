"""The world of assignments, as environments drive it: episodes are whole job sequences.

action    for each GPU a place or none; or for each place how many GPUs (`counts`)
end       every job has ended, or `limit` rows have passed
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from jobwise.workload import Workload
from jobwise.worlds.gpus.passes import ACT, RENEW, go
from jobwise.worlds.gpus.tables import gpus
from jobwise.worlds.gpus.world import GpusSettings, GpusWorld
from jobwise.worlds.jobset_episodes import JobsetEpisodes
from jobwise.worlds.slots.tables import jobsets, room


class GpusEpisodes(JobsetEpisodes, GpusWorld):
    """E simulations of job sequences on one cluster; cut after `limit` rows of `row_s` seconds. Raises InputError."""

    ends = {"slowdown": "total", "wait": "all_waited", "max_wait": "longest", "jobs": "started", "done": "done"}
    ends |= {"throughput": "all_speed", "idle": "all_idle", "short": "all_short", "rows": "all_rows", "restarts": "all_changes"}

    def __init__(
        self, count: int, sets: Sequence[Workload], settings: GpusSettings, row_s: float, cost_s: float, limit: int, each: bool
    ):
        cluster, tables = sets[0].cluster, jobsets(list(sets))
        settings.check(cluster)
        state = room(tables, sets[0], count, tick=row_s, restart_cost_s=cost_s)
        GpusWorld.__init__(self, settings, state, gpus(state, cluster, settings, limit), cluster)
        self._hold(count, sets, tables, self.gpus.report, limit, each)

    def _renew(self, first: int, last: int) -> None:
        go(self.state, self.gpus, self._sets, RENEW, self._none, self.which, self._last, first, last)

    def step(self, actions: np.ndarray, autoreset: bool, first: int, last: int) -> None:
        """Assign the GPUs, and let a row pass."""
        actions = self._placed(actions, first, last)
        go(self.state, self.gpus, self._sets, ACT, actions, self.which, self.done, first, last)
        self._report[first:last] = self.gpus.report[first:last]

    def blank_mask(self) -> np.ndarray:
        """[M, P + 1] nothing; where nothing is masked, all."""
        none = np.broadcast_to(
            np.arange(self.actions) == (0 if self.settings.counts else self.actions - 1), self.mask.shape[1:]
        )
        return none.astype(np.int8) if self.settings.masked else np.ones_like(self.mask[0])

    def _tables(self) -> dict[str, np.ndarray]:
        return {f"gpus_{k}": getattr(self.gpus, k) for k in ("moment", "place", "has", "want", "report")}

    def seed_rules(self, seed: int) -> None:
        """Seed what the rule `random` draws."""
        self.gpus.moment["seed"] = np.arange(len(self.which)) + seed * 1_000_003

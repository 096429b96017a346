"""The world of assignments, as environments drive it: episodes are whole job sequences.

action    for each GPU a place or none; or for each place how many GPUs (`counts`)
end       every job has ended, or `limit` rows have passed
"""

from __future__ import annotations

from collections.abc import Sequence

from jobwise.workload import Workload
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

"""A pool whose jobs are more than memory holds: a table of those that wait, run or come next.

A log arrives in parts (`add`). The pool runs to just before the first submit of the part that follows (`run`); jobs that have
ended leave the table (`take`), and the others move up. Their order stays, and with it every tie, so that the schedule is that
of the whole log in one table.
"""

from __future__ import annotations

import numpy as np

from jobwise.cluster import Cluster
from jobwise.compiled import kernel
from jobwise.jobs import DONE
from jobwise.sim.measures import add
from jobwise.sim.pool import pool
from jobwise.sim.pool.pool import PoolScheduler
from jobwise.sim.reset import go_on, room
from jobwise.sim.state import HEAP

BLOCKED, IDLE = range(2)  # rows of `area`


@kernel
def _run(s, p, until, area):
    """Run the pool to time `until`; add to `area` the s in which jobs waited, and the processor-seconds idle in them."""
    sim, node = s.sims[0], s.nodes[0, 0]
    more = True
    while more:
        before, queued, free = sim["now"], sim["queued"], node["free"][0]
        more = pool.run(s, 0, p, 1, until)
        if queued > 0:
            add(area[BLOCKED], sim["now"] - before)
            add(area[IDLE], (sim["now"] - before) * free)


class Moving:
    """The moving table of one simulation. `state`: where it stands. `rows` [J]: the jobs' rows in the log; `known`: how many
    were added. `area` [2, 2]: see `_run`, as sums of two numbers."""

    def __init__(self, cluster: Cluster, origin: float = 0.0):
        self.state, self.rows, self.area = room(1, cluster), np.zeros(0, np.int64), np.zeros((2, 2))
        self.known, self._cluster = 0, cluster
        for key, value in (("wake", np.inf), ("head", -1), ("tail", -1), ("origin", origin)):
            self.state.sims[key] = value
        self.state.nodes["free"] = self.state.nodes["capacity"]

    def add(self, jobs: np.ndarray, truth: np.ndarray) -> None:
        """Put the jobs [K] that follow in the log behind those of the table."""
        first, last = len(self.rows), len(self.rows) + len(jobs)
        if last > self.state.jobs.shape[1]:
            old, self.state = self.state, room(max(last, 2 * first), self._cluster)
            go_on(self.state, old)
        self.state.jobs[0, first:last], self.state.truth[0, first:last] = jobs, truth
        self.rows = np.concatenate([self.rows, np.arange(self.known, self.known + len(jobs))])
        self.known += len(jobs)
        self.state.sims["jobs"] = last

    def run(self, p: PoolScheduler, until: float) -> None:
        """Let a fresh scheduler of this table run the pool to time `until`, s."""
        pool.resume(self.state, 0, p)
        _run(self.state, p, until, self.area)

    def take(self) -> tuple[np.ndarray, np.ndarray]:
        """Let the jobs leave that have ended: (their rows in the log [K], start and end [K, 2], s)."""
        s, sim, J = self.state, self.state.sims[0], len(self.rows)
        over = s.jobs["status"][0, :J] >= DONE
        rows, times = self.rows[over], np.stack([s.jobs["start"][0, :J][over], s.jobs["end"][0, :J][over]], axis=1)
        keep = np.flatnonzero(~over)
        place = np.full(J + 1, -1, np.int32)  # the last one stands for none
        place[keep] = np.arange(len(keep))
        self.rows, sim["next"] = self.rows[keep], int(np.searchsorted(keep, sim["next"]))
        s.jobs[0, : len(keep)], s.truth[0, : len(keep)] = s.jobs[0, keep], s.truth[0, keep]
        truth, running = s.truth[0, : len(keep)], int(sim["running"])
        truth["next"], truth["prev"] = place[truth["next"]], place[truth["prev"]]
        sim["head"], sim["tail"] = place[sim["head"]], place[sim["tail"]]
        s.lists[0, HEAP, :running] = place[s.lists[0, HEAP, :running]]
        sim["jobs"], sim["ended"], sim["entered"], sim["left"], sim["acting"] = len(keep), 0, 0, 0, 0
        return rows, times

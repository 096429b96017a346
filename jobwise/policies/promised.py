"""Start deadlines and a short-job lane for a policy that is asked view by view, in a simulation or on a live cluster.

It does the same as the compiled loop (`sim/pool/promise.py`, `sim/pool/scored_pool.py`), with the same kernels, on tables that
grow. It may begin in the middle: then the virtual schedule takes up all jobs of the view at once.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jobwise.cluster import pool as cluster_of
from jobwise.decision import View
from jobwise.errors import InputError
from jobwise.jobs import RUNNING
from jobwise.policies.memory import RunMemory
from jobwise.policies.replay import past_waits
from jobwise.sim.lists.list_pass import Rule
from jobwise.sim.memory import memory
from jobwise.sim.pool import promise, promised_pass, scored_pool
from jobwise.sim.pool.promise import Promise
from jobwise.sim.reset import empty, enter, stand
from jobwise.sim.state import State, allocate
from jobwise.workload import workload

ROOM = 1024  # jobs, at first


class Promised:
    """The virtual schedule of one simulation or cluster, bounds and plan, and who is express."""

    def __init__(self, view: View, memory: RunMemory, express: float, slack: float):
        self._lane_and_slack = express, slack
        self._memory, self._total, self._noted = memory, view.cluster.processors, view.events
        self._waits = past_waits(view.past, self._total)
        self._s, self._q = self._tables(max(ROOM, 2 * len(view.jobs)))
        self._enter(view, 0)
        for j, job in enumerate(view.table):
            promise.come(self._q, memory.tables, j, view.now)
            if not np.isnan(job["end"]):
                promise.ended(self._q, j, float(job["ran"]))
        promise.catch_up(self._q, view.now)

    def _tables(self, room: int) -> tuple[State, Promise]:
        """Return tables for `room` jobs, of which none is known."""
        cluster = cluster_of(self._total)
        s = allocate([workload(np.zeros(room), np.ones(room, int), np.ones(room), cluster=cluster)], cluster)
        q = promise.begin(s, 0, self._waits, *self._lane_and_slack)
        empty(s)
        empty(q.s)
        return s, q

    def _enter(self, view: View, first: int) -> None:
        """Let the virtual schedule know jobs `first` … of a view."""
        if len(view.edges):
            raise InputError("start deadlines and short-job lanes are for jobs that wait for no others")
        for j in range(first, len(view.jobs)):
            enter(self._q.s, 0, j, view.table[j])

    def note(self, view: View) -> None:
        """Let the virtual schedule come to the time of a view, once; the memory has taken note of its events."""
        if view.events is not self._noted:  # the same array in all views of one instant
            self._noted = view.events
            self._make_room(len(view.jobs))
            self._enter(view, int(self._q.s.sims["jobs"][0]))  # those that are not known yet
            promise.note(self._q, self._memory.tables, view.table, view.events, view.now)
        self._keep_express(view)

    def _keep_express(self, view: View) -> None:
        """In the lane, and holding its processors, is who runs of those that a pass started as express jobs."""
        q = self._q
        express = view.running[q.lane[view.running] > 0]  # who runs: a start that was wanted may have been refused
        q.lane[:] = 0
        q.lane[express] = 1
        q.memory["held"] = int(view.jobs["request"][express, 0].sum())

    def _make_room(self, jobs: int) -> None:
        """Make the tables larger, where they do not hold `jobs` jobs."""
        if len(self._q.lane) < jobs:
            self._s, new = self._tables(2 * jobs)
            promise.take_over(new, self._q)
            self._q = new

    def plan(self, view: View, rule: Rule, score: np.ndarray) -> list[int]:
        """Rows of the queue that start now under a rule. `score` [Q] by its order."""
        self._pass(view, rule, score, True)
        return [int(j) for j in view.queue if self._s.jobs["status"][0, j] == RUNNING]

    def why(self, view: View, scheduler: Any, score: np.ndarray) -> list[tuple[float, str]]:
        """Return [Q] of the queue: each job's score with start deadlines, and the reason for its place ("": by its order)."""
        before = self._q.memory.copy(), self._q.due.copy()  # to explain changes nothing
        b = self._pass(view, scheduler.rule, score, False)
        items, late = b.item[: len(view.queue)], np.empty(len(view.queue), np.int64)
        if scheduler.promise < np.inf:
            promised_pass.reasons(self._s, 0, b, late)
        reasons = {
            int(x["row"]): (float(x["score"]), self._reason(view, scheduler, x, int(i)))
            for x, i in zip(items, late, strict=True)
        }
        self._q.memory[:], self._q.due[:] = before
        return [reasons[int(j)] for j in view.queue]

    def _reason(self, view: View, scheduler: Any, x: np.ndarray, late: int) -> str:
        """Return the reason for a job's place in the queue; `late`: as in `promised_pass.reasons`."""
        due = self._q.due[x["row"]]
        if x["score"] == -np.inf:
            return "guarded"
        if promise.is_express(x["score"]):
            text = f"express: among the smallest jobs that make {100 * scheduler.express:.3g}% of the work"
        elif scheduler.promise == np.inf or due["deadline"] == np.inf:
            return ""
        else:
            hours = [(due[key] - view.now) / 3600 for key in ("deadline", "planned")]
            text = f"{'urgent: ' * bool(due['urgent'])}must start in {hours[0]:.1f} h, would in {max(hours[1], 0.0):.1f} h"
        if scheduler.promise < np.inf and late >= 0:
            text += f"; not now: job {late} would be late"
        return text

    def _pass(self, view: View, rule: Rule, score: np.ndarray, starts: bool) -> scored_pool.ScoredPool:
        """A pass on a copy of the view; its queue [Q]."""
        s, c, queue, running = self._s, self._memory.tables, view.queue, view.running
        stand(s, view.now, view.table, queue, running, int(view.free[:, 0].sum()))
        rows = queue[view.now - view.jobs["submit"][queue] <= rule.guard]
        memory.forecast_all(c, rows, view.now)
        b = scored_pool.scheduler(s, 0, memory=c, promised=self._q)
        scored_pool.plan(s, 0, b, rule, queue.astype(np.int64), np.ascontiguousarray(score, float), starts)
        return b

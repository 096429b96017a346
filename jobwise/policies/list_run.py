"""The run of a list scheduler where it is asked pass by pass: in a simulation, or on a live cluster."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from jobwise.decision import Decision, Reserve, Start, View
from jobwise.errors import InputError, failed, raised_in
from jobwise.policies import parts
from jobwise.policies.loglinear import Index
from jobwise.policies.memory import RunMemory
from jobwise.policies.promised import Promised
from jobwise.sim.lists import list_pass, orders
from jobwise.sim.lists.conservative import plan_conservative
from jobwise.sim.lists.flows import NONE, Flows, flows, score_flows
from jobwise.sim.lists.list_pass import CONSERVATIVE, Instant, blank
from jobwise.sim.spans import room_like, separate


class ListRun:
    """The memory of a `ListScheduler` in one simulation: run times of jobs that have ended, start deadlines.

    It begins with the content of its first view, which may be in the middle of a simulation.
    """

    def __init__(self, policy: Any, view: View):
        policy.check(view.cluster)
        self.policy, promises = policy, policy.promises
        learns = isinstance(policy.order, Index) or policy.estimate == "predicted"
        memory = RunMemory(view, promises) if learns or promises else None
        self._memory: Any = memory
        self._promised: Any = Promised(view, memory, policy.express, policy.promise - 1.0) if memory and promises else None

    def ended(self, view: View, rows: np.ndarray) -> None:
        """Take note of the events of a view."""
        if self._memory:
            self._memory.note(view)
        if self._promised:
            self._promised.note(view)

    def decide(self, view: View) -> Iterable[Decision]:
        """One pass over the queue."""
        self.ended(view, view.ended)
        return self._plan(view)

    def explain(self, view: View) -> list[dict]:
        """Return each queued job's row and score, smallest first; of a log-linear order also its features and their effects;
        with start deadlines also `why` it goes first."""
        self.ended(view, view.ended)
        ranked = self._explained(view)
        if self.policy.promises:
            place = {int(j): i for i, j in enumerate(view.queue)}
            scores = np.array([x["score"] for x in sorted(ranked, key=lambda x: place[x["job"]])])
            why = self._promised.why(view, self.policy, scores)
            ranked = [x | {"why": why[place[x["job"]]][1]} for x in ranked]
            ranked.sort(key=lambda x: (why[place[x["job"]]][0], x["job"]))
        return ranked

    def _explained(self, view: View) -> list[dict]:
        """Return the ranking that holds without start deadlines."""
        scheduler = self.policy
        if isinstance(scheduler.order, Index):
            return self._memory.explain(scheduler.order, view)
        out = self._scores(view)
        code = scheduler.rule.order
        if code in orders.FLOWS:
            units, none = view.cluster.processors, np.empty(0, np.int32)
            score_flows(code, _flows(scheduler, view), view.table, view.queue, view.running, none, units, out)
        elif isinstance(scheduler.order, str):
            orders.score_rows(code, view.now, view.origin, np.uint64(view.seed), view.table, view.queue, out)
        every = np.lexsort((view.queue, out))
        return [{"job": int(view.queue[i]), "score": float(out[i]), "features": {}, "moved": {}} for i in every]

    def _scores(self, view: View) -> np.ndarray:
        """The given scores of the queue [Q]; empty where the order is built in. Raises InputError for nonsense."""
        order, name = self.policy.order, self.policy.name
        if isinstance(order, str):
            return np.empty(len(view.queue))
        if isinstance(order, Index):
            return self._memory.scores(order, view)
        try:
            out = np.asarray(order(view.jobs[view.queue], view.now))
            if np.iscomplexobj(out):
                raise TypeError("scores are complex numbers")
            out = out.astype(float)
        except (Exception, SystemExit) as error:  # a user's function may raise anything
            reason = failed(error, view.jobs.dtype.names or ())
            raise InputError(f"{raised_in(error, order)}order {name!r} failed at time {view.now:g} s: {reason}") from error
        if out.shape != (len(view.queue),):
            raise InputError(f"order {name!r} returned shape {out.shape} for {len(view.queue)} jobs; one score per job")
        if np.isnan(out).any():
            raise InputError(f"order {name!r} returned NaN for job {view.queue[np.isnan(out)][0]} at time {view.now:g} s")
        return out

    def _plan(self, view: View) -> list[Decision]:
        scheduler, rule = self.policy, self.policy.rule
        parts.check_place(scheduler, parts.ASKED)
        if len(view.queue) == 0:
            return []
        known = isinstance(scheduler.order, Index) or self._promised
        if known and view.jobs["request"][view.queue, 0].min() > view.free[:, 0].sum():
            return []  # nothing is forecast where nothing can start
        capacity, queue = view.cluster.capacity, view.queue
        if isinstance(scheduler.order, Index):
            rule = rule._replace(order=orders.GIVEN)
        p = blank(len(queue), *capacity.shape)
        due, est, free = view.jobs["due"][view.running], np.empty(0), view.free.copy()
        scores, seed = self._scores(view), np.uint64(view.seed)
        if rule.estimate:
            table = self._memory.predicted(view)
            orders.score_rows(rule.order, view.now, view.origin, seed, table, queue, scores)
            scores[view.now - view.jobs["submit"][queue] > rule.guard] = -np.inf
            rule = rule._replace(order=orders.GIVEN)
        elif self._promised and rule.order >= 0:
            orders.score_rows(rule.order, view.now, view.origin, seed, view.table, queue, scores)
        if self._promised:
            return [Start(j) for j in self._promised.plan(view, rule, scores)]
        f, nodes = _flows(scheduler, view), separate(free, capacity)
        x = Instant(
            now=view.now,
            origin=view.origin,
            seed=seed,
            jobs=view.table,
            est=est,
            queue=queue,
            score=scores,
            running=view.running,
            due=due,
            free=nodes,
            later=room_like(nodes),
            units=capacity.sum(axis=0),
            flows=f,
            steps=view.steps.copy(),
            step=0,
        )
        if rule.backfill == CONSERVATIVE:
            plan_conservative(rule, x, bool((view.jobs["due"][view.ended] > view.now).any()), p)
        else:
            list_pass.plan_pass(rule, x, view.held, p)
        return _decisions(p, view.cluster.is_pool)


def _flows(scheduler: Any, view: View) -> Flows:
    """The workflows of a view, where the order is one of workflows."""
    return flows(view.jobs) if scheduler.rule.order in orders.FLOWS else NONE


def _decisions(p: list_pass.Plan, is_pool: bool) -> list[Decision]:
    """Return the decisions of a plan."""
    starts, promises = p.count
    out: list[Decision] = []
    for i in range(starts):
        held = None
        if not is_pool:
            a, b = p.first[i], p.first[i + 1]
            held = tuple((int(n), tuple(x.tolist())) for n, x in zip(p.node[a:b], p.amount[a:b], strict=True))
        out.append(Start(int(p.row[i]), held))
    return out + [Reserve(int(p.promised[i]), float(p.at[i])) for i in range(promises)]

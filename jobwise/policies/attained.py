"""Least attained service with preemption: Tiresias' discretised 2D-LAS (Gu et al., NSDI 2019, section 3.2).

A job has attained units x seconds so far, of the resource named last (GPUs). Below `service` it stands in the first queue,
else in the second; in a queue the first to have been submitted goes first. A job of the second queue that has waited `patience`
times as long as it has run comes back to the first, with nothing attained. Jobs are taken in this order; those behind a job
that does not fit are tried, too. A running job that is not taken is stopped, and keeps what it has done.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import numpy as np

from jobwise.cluster import Cluster
from jobwise.decision import Decision, Preempt, Start, View, Wait
from jobwise.errors import InputError, unknown
from jobwise.jobs import STARTED
from jobwise.policies.scheduler import Scheduler
from jobwise.sim.lists.placement import PLACEMENTS, fits, place, placed_by

SECONDS = 3600.0  # unit-seconds that the first queue is for, where a name does not say it
PATIENCE = 8.0


@dataclass(frozen=True)
class AttainedService(Scheduler):
    """Preemptive LAS on any cluster: `service` unit-seconds in the first queue, `patience` as above, a placement by name.
    Raises InputError."""

    service: float = SECONDS
    patience: float = PATIENCE
    placement: str = "first"

    def __post_init__(self):
        if not (0 < self.service < 1e15 and 0 < self.patience < 1e6):
            raise InputError(f"a queue for {self.service:g} unit-seconds and a patience of {self.patience:g} cannot be")
        if self.placement not in PLACEMENTS:
            raise unknown("placement", self.placement, PLACEMENTS)

    @property
    def name(self) -> str:
        """The name that `resolve` reads."""
        return f"tiresias:{self.service:.15g}+{self.placement}"

    @classmethod
    def named(cls, name: str) -> AttainedService:
        """Return the policy of a name `tiresias[:UNIT_SECONDS][+PLACEMENT]`. Raises InputError."""
        head, _, placement = name.partition("+")
        _, _, service = head.partition(":")
        try:
            seconds = float(service or SECONDS)
        except ValueError:
            raise InputError(f"policy {name!r}: {service!r} is no number of unit-seconds, as in tiresias:3600+pack") from None
        return cls(seconds, placement=placement or "first")

    def check(self, cluster: Cluster) -> None:
        """Raises InputError where a site's scheduler has rules of its own."""
        if cluster.site is not None:
            raise InputError(f"policy {self.name} is for pools and nodes, not for a site with queues of its own")

    def begin(self, view: View) -> _Run:
        """Its run in one simulation."""
        return _Run(self, view)


class _Run:
    """The policy in one simulation: it knows when each running job started last, and what those that came back to the first
    queue had run by then."""

    def __init__(self, policy: AttainedService, view: View):
        policy.check(view.cluster)
        self.policy, self._before = policy, dict[int, float]()
        self._since = {int(j): float(np.nan_to_num(view.jobs["start"][j], nan=view.now)) for j in view.running}

    def ended(self, view: View, rows: np.ndarray) -> None:
        """Forget jobs that have ended."""
        for j in rows.tolist():
            self._since.pop(j, None)
            self._before.pop(j, None)

    def decide(self, view: View) -> list[Decision]:
        """Stop who stands lower, start who stands higher; asked again when a job changes its queue."""
        p, jobs, running = self.policy, view.jobs, view.running
        started = view.events[view.events["kind"] == STARTED]
        self._since.update(zip(started["job"].tolist(), started["time"].tolist(), strict=True))
        rows = np.concatenate([running, view.queue]).astype(int)
        if not len(rows):
            return []
        request, on = jobs["request"][rows], np.arange(len(rows)) < len(running)
        units = np.maximum(np.where(request[:, -1] > 0, request[:, -1], request[:, 0]), 1)
        ran, waited = jobs["ran"][rows], np.where(on, 0.0, view.now - jobs["queued"][rows])
        ran[: len(running)] += view.now - np.array([self._since[int(j)] for j in running])
        of_queue = ran - np.array([self._before.get(int(j), 0.0) for j in rows])  # s since it came back to the first one
        low = units * of_queue >= p.service - 1e-6
        back = low & (waited >= p.patience * ran - 1e-6)
        self._before.update(zip(rows[back].tolist(), ran[back].tolist(), strict=True))
        of_queue[back], low = 0.0, low & ~back
        order = np.lexsort((rows, jobs["submit"][rows], low))
        decisions, chosen = self._turn(view, rows, on, order)
        sinks = np.where(chosen & ~low, p.service / units - of_queue, inf)  # s until it has had its share of the first queue
        rises = np.where(~chosen & low, p.patience * ran - waited, inf)
        after = float(np.minimum(sinks, rises).min())
        return [*decisions, Wait(view.now + after)] if after < inf else decisions

    def _turn(self, view: View, rows: np.ndarray, on: np.ndarray, order: np.ndarray) -> tuple[list[Decision], np.ndarray]:
        """Return the stops and starts that make jobs run in this order, and [J] bool the jobs whose turn it is. A job goes
        behind the others where its chunks fit on no nodes, with all possible stops."""
        request, able = view.jobs["request"][rows], np.ones(len(rows), bool)
        while True:
            free, chosen = view.free.sum(axis=0) + request[on].sum(axis=0), np.zeros(len(rows), bool)
            for i in order[able[order]]:
                if (request[i] <= free).all():
                    chosen[i], free = True, free - request[i]
            stopped, left = rows[on & ~chosen], view.free.copy()
            for j in stopped.tolist():
                for node, amount in view.nodes_of(j):
                    left[node] += amount
            decisions: list[Decision] = [Preempt(j) for j in stopped.tolist()]
            for i in order[(chosen & ~on)[order]].tolist():
                start = _started(self.policy.placement, view, int(rows[i]), left)
                able[i] = bool(start)
                decisions += start
            if able[chosen].all():
                return decisions, chosen


def _started(placement: str, view: View, j: int, left: np.ndarray) -> list[Decision]:
    """The start of a job on free units `left` [N, R], which are taken; nothing where its chunks do not fit."""
    job, capacity = view.jobs[j], view.cluster.capacity
    if not fits(left, job["request"], job["chunks"]):
        return []
    if view.cluster.is_pool:
        left -= job["request"]
        return [Start(j)]
    node, amount = np.zeros(len(capacity), np.int32), np.zeros(capacity.shape, np.int64)
    code = placed_by(PLACEMENTS[placement], job["kind"])
    k = place(code, left, capacity, job["request"], job["chunks"], node, amount)
    return [Start(j, tuple((int(n), tuple(u.tolist())) for n, u in zip(node[:k], amount[:k], strict=True)))]

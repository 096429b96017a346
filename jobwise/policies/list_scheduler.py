"""List schedulers: an order, a backfill rule, a placement and a guard against starvation, chosen independently."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf
from typing import Any

import numpy as np

from jobwise.cluster import Cluster
from jobwise.decision import View
from jobwise.errors import InputError, unknown
from jobwise.policies import loglinear, parts
from jobwise.policies.list_run import ListRun
from jobwise.policies.loglinear import INDICES, Index
from jobwise.policies.replay import fresh, replay
from jobwise.policies.scheduler import Scheduler
from jobwise.policies.slurm import SiteLoop, loop_of, replay_on_site
from jobwise.sim.lists import orders
from jobwise.sim.lists.list_pass import Rule
from jobwise.sim.pool import scored_pool
from jobwise.sim.pool.pool import PoolScheduler
from jobwise.sim.state import State

Scores = Callable[[np.ndarray, float], np.ndarray]  # (rows of the job table in the queue [Q], now s) -> scores [Q]


@dataclass(frozen=True)
class ListScheduler(Scheduler):
    """A list scheduler: a Policy, which compiled loops replay as a whole where its order is built in.

    `order`: a name, or a function of the queued jobs' table and the time that returns one score per job (smaller starts
    first). `guard`: s of waiting after which a job goes before all others, oldest first. `commit`: a picked job stays picked
    until it starts (as RLScheduler does; re-deciding is the default). `estimate`: the run time that the order uses:
    as requested, predicted from history, or actual (unknown in practice: simulations of pools only).
    Reservations always use requests, so that no prediction delays the head. `reserve` (share, s): jobs that ask for
    longer hold no more than the rest of the units, but one alone may always run. `promise`: the start deadline of a job as a
    multiple of the longest wait of FCFS with EASY; others go ahead only while it can be met (measured, not guaranteed).
    `express`: the smallest jobs that together are this share of the work go first (`jobwise.sim.pool.promise`; pools only).
    `trial` (s, share): waiting jobs run in idle processors, to be stopped and begun again where a start needs them; a first
    run is left alone for so long, starts leave this share of the processors to such runs (`jobwise.sim.pool.trials`).
    `shift` (s): a job is held while it is cheaper to start later within this time of its submit (pools with prices only).
    """

    order: str | Scores | Index = "fcfs"
    backfill: str = "none"
    placement: str = "first"
    guard: float = inf
    commit: bool = False
    reserve: tuple[float, float] = (0.0, inf)
    estimate: str = "requested"
    label: str = ""
    promise: float = inf
    express: float = 0.0
    trial: tuple[float, float] = (0.0, 0.0)
    shift: float = 0.0

    def __post_init__(self):
        if isinstance(self.order, str) and self.order in INDICES:
            object.__setattr__(self, "order", INDICES[self.order])
        if isinstance(self.order, str) and self.order not in orders.CODES:
            raise unknown("order", self.order, [*orders.CODES, *INDICES])
        if not (isinstance(self.order, str | Index) or callable(self.order)):
            raise InputError(f"{self.order!r} is no order: a name, or a function of (jobs, now)")
        parts.check(self)

    @property
    def name(self) -> str:
        """The canonical name, ORDER[+OPTION…], options in the order of `parts.PARTS`."""
        own = self.order if isinstance(self.order, str) else getattr(self.order, "label", None)
        own = own or getattr(self.order, "__name__", "order")
        return "+".join([self.label or str(own), *(word for _, word in self.used)])

    @cached_property
    def used(self) -> list[tuple[parts.Part, str]]:
        """The parts that it has beside its order, each with its word."""
        return parts.used(self)

    def __getstate__(self) -> dict:
        return {k: v for k, v in self.__dict__.items() if k != "used"}  # parts have functions that no process can be sent

    @property
    def learns(self) -> bool:
        """True if its order knows the run times of jobs that have ended."""
        return isinstance(self.order, Index)

    @property
    def promises(self) -> bool:
        """Return whether it has start deadlines or a short-job lane."""
        return self.promise < inf or self.express > 0

    @property
    def tries(self) -> bool:
        """Return whether waiting jobs have trial runs."""
        return self.trial[0] > 0

    @property
    def shifts(self) -> bool:
        """Return whether it holds jobs for cheaper hours."""
        return self.shift > 0

    @property
    def keeps_caps(self) -> bool:
        """Return whether it starts jobs under a cap on power: start deadlines and trial runs know of none."""
        return not (self.promises or self.tries)

    @cached_property
    def rule(self) -> Rule:
        """The scheduler as numbers, for compiled loops."""
        code = orders.CODES[self.order] if isinstance(self.order, str) else getattr(self.order, "code", orders.GIVEN)
        return Rule(
            order=code,
            backfill=parts.number("backfill", self.backfill),
            placement=parts.number("placement", self.placement),
            guard=float(self.guard),
            commit=self.commit,
            estimate=parts.number("estimate", self.estimate),
            reserve=float(self.reserve[0]),
            short=float(self.reserve[1]),
            express=float(self.express),
            slack=float(self.promise) - 1.0,
            quantum=float(self.trial[0]),
            kept=float(self.trial[1]),
            shift=float(self.shift),
        )

    @property
    def is_static(self) -> bool:
        """Return whether the order depends on the job alone."""
        static = isinstance(self.order, str) and orders.kind(self.rule.order) == orders.STATIC
        return static and self.estimate == "requested" and not (self.reserve[0] or self.promises or self.tries or self.shifts)

    @property
    def about(self) -> dict:
        """The data that a trained order was trained on; empty for others."""
        return getattr(self.order, "about", {})

    def begin(self, view: View) -> ListRun:
        """Return its run in the simulation of a view."""
        return ListRun(self, view)

    def promising(self, bound: float) -> ListScheduler:
        """Return the same with start deadlines of `bound`, without a guard. Raises InputError where it can have none."""
        return replace(self, promise=bound, guard=inf)

    def check(self, cluster: Cluster) -> None:
        """Raises InputError where it cannot schedule this cluster."""
        place = parts.SITE if cluster.site is not None else parts.POOL if cluster.is_pool else parts.NODES
        if place == parts.SITE and orders.kind(self.rule.order) not in (orders.STATIC, orders.WAITING) and not self.learns:
            raise InputError(f"policy {self.name}: on a site an order is one that no start changes, built in or trained")
        parts.check_place(self, place)

    def stream(self, s: State) -> PoolScheduler:
        """Return its empty scheduler for the jobs that are in the table of simulation 0, of a log that streams."""
        return fresh(s, 0, self)

    def check_stream(self) -> None:
        """Raises InputError where it cannot schedule a log of which it sees a part at a time."""
        if not isinstance(self.order, str) or orders.kind(self.rule.order) != orders.STATIC:
            static = ", ".join(row.label for row in orders.Order if row.kind == orders.STATIC)
            raise InputError(f"policy {self.name}: logs stream under orders that depend on the job alone: {static}")
        parts.check_place(self, parts.STREAM)

    def is_compiled(self, cluster: Cluster) -> bool:
        """Is it run whole by a compiled loop on this cluster? Else it is asked, pass by pass."""
        if cluster.site is not None:
            return True
        if isinstance(self.order, Index) or self.estimate != "requested" or self.promises or self.tries or self.shifts:
            return cluster.is_pool and scored_pool.suits(self.rule)
        return isinstance(self.order, str)

    def replay(self, s: State, cluster: Cluster, pasts: Sequence[np.ndarray], after: Any = None) -> Generator[None, None, None]:
        """Whole simulations, one after the other, by compiled loops."""
        for e, past in enumerate(pasts):
            if cluster.site is not None:
                yield from replay_on_site(s, e, self, cluster, past)
                continue
            yield from replay(s, e, self, cluster, past)

    def on_site(self, cluster: Cluster, jobs: np.ndarray, past: np.ndarray) -> SiteLoop:
        """Return its compiled loop on a site, for jobs [J]; `past` [K]: the jobs that ended before."""
        return loop_of(self, cluster, jobs, past)

    def resumes(self, cluster: Cluster) -> bool:
        """Does a compiled loop carry on simulations of this pool that stand in the middle of a queue?"""
        return self.is_compiled(cluster) and not (self.promises or self.tries or self.shifts)

    def resume(self, s: State, cluster: Cluster, past: np.ndarray, steps: int) -> Generator[None, None, None]:
        """Carry on simulation 0, which stands in the middle; yields every `steps` instants of choice."""
        yield from replay(s, 0, self, cluster, past, steps)

    def explain(self, view: View) -> list[dict]:
        """Per queued job its row and score, smallest first; of a log-linear order also its features and what they moved."""
        return self.begin(view).explain(view)


def index_from_file(meta: dict, weights: dict[str, np.ndarray], label: str) -> ListScheduler:
    """Return the list scheduler of a file with a log-linear order. Raises KeyError, TypeError, ValueError for damaged ones."""
    return ListScheduler(loglinear.from_file(meta, weights, label), "easy")

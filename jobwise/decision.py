"""Decisions, views and policies: what a scheduler sees, says, and is.

Read this file first. A policy is asked at every instant of choice; it sees a `View` and answers with decisions, which are
data: they can be logged, replayed, explained, and carried out by a simulation or by a live cluster.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import numpy as np

from jobwise.cluster import Cluster, step_dtype
from jobwise.jobs import event_dtype, past_dtype


@dataclass(frozen=True)
class Start:
    """Start queued (or resume paused) job `job` (a row) now.

    `placement`: (node, units [R]) pairs that together give the request; None lets the cluster choose (lowest nodes first).
    `rate`: work per second, 1 for a rigid job.
    """

    job: int
    placement: tuple[tuple[int, tuple[int, ...]], ...] | None = None
    rate: float = 1.0


@dataclass(frozen=True)
class Preempt:
    """Pause running job `job`: its work is kept, it stands in the queue again."""

    job: int


@dataclass(frozen=True)
class Reserve:
    """Reserve a start at time `at` (s) for queued job `job`; the simulation stops there. NaN cancels the reservation."""

    job: int
    at: float


@dataclass(frozen=True)
class Wait:
    """Do nothing, at most until time `until` (s; inf: until something happens)."""

    until: float = float("inf")


Decision = Start | Preempt | Reserve | Wait


@dataclass(frozen=True, eq=False)
class View:
    """The knowledge of a scheduler at one instant. All arrays are read only.

    Attributes
    ----------
    now : float, s
        The time.
    jobs : structured array [J] of `jobwise.jobs.job_dtype`
        The jobs submitted so far; their rows are their numbers.
    queue, running : array, rows of `jobs`
        Who waits, in order of entry; who runs, ascending.
    ended : array, rows of `jobs`
        Who stopped running since the last view.
    free : array [N, R], units
        What is free on each node; 0 on one that is down.
    cluster : Cluster
        The machine as it is known now, without outages to come.
    slices, table, held : structured arrays
        Who holds what where (``jobs["held"]`` is a job's first slice), and the memory of `jobs` and `slices` for compiled code;
        writing to them, or to `events`, is a bug.
    origin : float, s
        Trace time of time 0.
    seed : int
        Of policies that draw random numbers.
    events : structured array [K] of `jobwise.jobs.event_dtype`
        Submits, starts and stops since the last view; stops first, at the time when they are seen; on a live cluster also who
        waited and is gone. The same array in all views of one instant.
    past : structured array [K] of `jobwise.jobs.past_dtype`
        Jobs that ended before time 0, in order of end.
    edges : array [M, 2]
        (parent, child) rows.
    steps : structured array [K] of `jobwise.sim.power.step_dtype`
        The cap on what jobs draw, and what they draw, now and from each later change of it on; empty: there is none.
    """

    now: float
    jobs: np.ndarray
    queue: np.ndarray
    running: np.ndarray
    ended: np.ndarray
    free: np.ndarray
    cluster: Cluster
    slices: np.ndarray
    table: np.ndarray
    held: np.ndarray
    origin: float = 0.0
    seed: int = 0
    events: np.ndarray = field(default_factory=lambda: np.zeros(0, event_dtype))
    past: np.ndarray = field(default_factory=lambda: np.zeros(0, past_dtype))
    edges: np.ndarray = field(default_factory=lambda: np.zeros((0, 2), np.int64))
    steps: np.ndarray = field(default_factory=lambda: np.zeros(0, step_dtype))

    def nodes_of(self, job: int) -> list[tuple[int, tuple[int, ...]]]:
        """The (node, units [R]) pairs that running job `job` holds."""
        if self.cluster.is_pool:
            return [(0, tuple(self.jobs["request"][job].tolist()))]
        held, at = [], self.jobs["held"][job]
        while at >= 0:
            held.append((int(self.slices["node"][at]), tuple(self.slices["amount"][at].tolist())))
            at = self.slices["next"][at]
        return sorted(held)


class Run(Protocol):
    """A policy in one simulation, or on one cluster: it remembers what it saw there. One that reads `view.events` is shown
    every view, by `ended` or `decide`."""

    def decide(self, view: View) -> Iterable[Decision]:
        """Return what to do now."""

    def ended(self, view: View, rows: np.ndarray) -> None:
        """These jobs have stopped running."""


@runtime_checkable
class Policy(Protocol):
    """A scheduler, as a user writes one: only `decide` does anything by necessity.

    What else it may have (a name, a tick, a check of the machine, a run of its own) is in
    `jobwise.policies.scheduler.Scheduler`.

    Methods
    -------
    reset(view)
        A new simulation begins.
    decide(view)
        Return `Start`, `Preempt`, `Reserve` and `Wait`, in the order in which they are carried out.
    ended(view, rows)
        Jobs have stopped running.

    Examples
    --------
    >>> import jobwise as jw
    >>> class OneByOne:
    ...     def reset(self, view): pass
    ...     def ended(self, view, rows): pass
    ...     def decide(self, view):
    ...         return [] if len(view.running) or not len(view.queue) else [jw.Start(int(view.queue[0]))]
    >>> jw.simulate(jw.lublin(jobs=20, procs=16, seed=1), OneByOne()).policy
    'OneByOne'
    """

    def reset(self, view: View) -> None:
        """A new simulation begins; `view` is its first, with an empty queue."""

    def decide(self, view: View) -> Iterable[Decision]:
        """Return what to do now. Called once at every instant of choice; decisions are applied in order."""

    def ended(self, view: View, rows: np.ndarray) -> None:
        """These jobs have stopped running (their `end` is known): learn from them if you wish."""

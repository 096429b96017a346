"""Decisions, views and policies: what a scheduler sees, says, and is.

Read this file first. A policy is asked at every instant of choice; it sees a `View` and answers with decisions, which are
data: they can be logged, replayed, explained, and carried out by a simulation or by a live cluster.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import numpy as np

from jobwise.cluster import Cluster
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
    """Promise queued job `job` a start at time `at` (s); the simulation stops there. NaN takes the promise back."""

    job: int
    at: float


@dataclass(frozen=True)
class Wait:
    """Do nothing, at most until time `until` (s; inf: until something happens)."""

    until: float = float("inf")


Decision = Start | Preempt | Reserve | Wait


@dataclass(frozen=True, eq=False)
class View:
    """The knowledge of a scheduler at one instant; all arrays are read-only.

    `jobs`: the table of the jobs submitted so far; rows are job numbers. `queue`, `running`: rows, in order of entry and
    ascending. `ended`: rows that stopped running since the last view. `events`: [K] of `event_dtype`: submits, starts and
    stops since the last view; stops first, at the time when they are seen; on a live cluster also who waited and is gone.
    The same array in all views of one instant. `free`: [N, R] units (0 on a node that is down). `cluster`: as it is known
    now, without outages to come. `slices`: who holds what where (`jobs["held"]` is a job's first slice). `table`, `held`:
    the memory of `jobs` and `slices` for compiled code; writing to them, or to `events`, is a bug. `origin`: trace time of
    time 0 (s). `past`: [K] of `past_dtype`, ended before time 0, by end. `edges`: [M, 2] rows (parent, child).
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
    """A scheduler, as a user writes one: three methods, only `decide` does anything by necessity. What else it may have is in
    `jobwise.policies.scheduler.Scheduler`."""

    def reset(self, view: View) -> None:
        """A new simulation begins; `view` is its first, with an empty queue."""

    def decide(self, view: View) -> Iterable[Decision]:
        """Return what to do now. Called once at every instant of choice; decisions are applied in order."""

    def ended(self, view: View, rows: np.ndarray) -> None:
        """These jobs have stopped running (their `end` is known): learn from them if you wish."""

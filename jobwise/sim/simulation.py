"""One simulation to hold in the hand: advance, look, apply. Policies and tests drive the kernel through it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from jobwise.cluster import Cluster
from jobwise.decision import Decision, Preempt, Reserve, Start, View, Wait
from jobwise.errors import InputError
from jobwise.jobs import PAUSED, QUEUED, STATUS_NAMES, event_dtype
from jobwise.sim import events, kernel
from jobwise.sim.lists.list_loop import queued_rows
from jobwise.sim.lists.placement import PLACEMENTS, fits, place
from jobwise.sim.state import HEAP, LEFT, State, Tables, allocate


class Simulation:
    """A workload on a cluster, at some time. Settings are those of `simulate`."""

    def __init__(self, workload: Tables, cluster: Cluster | None = None, **settings: Any):
        self._hold(allocate([workload], cluster or workload.cluster, **settings), workload, cluster or workload.cluster)

    @classmethod
    def of(cls, state: State, workload: Tables, cluster: Cluster) -> Simulation:
        """The one simulation of a state that is there already."""
        sim = cls.__new__(cls)
        sim._hold(state, workload, cluster)
        return sim

    def _hold(self, state: State, workload: Tables, cluster: Cluster) -> None:
        self.workload, self.cluster, self.state = workload, cluster, state
        self._sim = self.state.sims[0]
        self._jobs = self.state.jobs[0]
        self._node = np.empty(len(self.cluster.capacity), np.int32)
        self._amount = np.empty(self.cluster.capacity.shape, np.int64)
        self._public = self._jobs.view()
        self._public.flags.writeable = False
        self._slices = self.state.slices[0].view()
        self._slices.flags.writeable = False
        self._known = self.cluster.public
        self._submitted = -1, self.workload.edges[:0]
        self._events, self._viewed, self._stale = np.zeros(0, event_dtype), False, True
        self._told = [0, 0, 0]  # places of the kernel's lists (acts, left, entered) whose events are told already

    @property
    def now(self) -> float:
        """The simulated time, in s."""
        return float(self._sim["now"])

    @property
    def done(self) -> bool:
        """True once every job has ended."""
        return bool(self._sim["ended"] == self._sim["jobs"])

    def advance(self, until: float = np.inf) -> bool:
        """On to the next instant of choice, at most to `until` s. False where nothing will ever happen again."""
        self._gather()
        if self._viewed:
            self._events, self._viewed = self._events[:0], False
        self._stale = True
        return kernel.advance(self.state, 0, float(until)) != kernel.OVER

    def _gather(self) -> None:
        """Add the events of the last advance to the events for the next view."""
        if self._stale:
            self._add(events.since(self.state, 0, act=self._told[0]))
            self._stale, self._told = False, [0, int(self._sim["left"]), int(self._sim["entered"])]

    def _add(self, new: np.ndarray) -> None:
        if self._viewed:
            self._events, self._viewed = new, False
        else:
            self._events = np.concatenate([self._events, new]) if len(self._events) else new

    def view(self) -> View:
        """Return the view of now, as a scheduler may know it."""
        s, sim = self.state, self._sim
        self._gather()
        self._viewed = True
        return View(
            now=float(sim["now"]),
            jobs=self._public[: sim["next"]],
            queue=queued_rows(s, 0),
            running=np.sort(s.lists[0, HEAP, : sim["running"]]),
            ended=s.lists[0, LEFT, : sim["left"]].copy(),
            free=s.nodes[0]["free"].copy(),
            cluster=self._known,
            table=s.jobs[0, : sim["next"]],
            slices=self._slices,
            held=s.slices[0],
            origin=float(sim["origin"]),
            seed=int(sim["seed"]),
            events=self._events,
            past=self.workload.past,
            edges=self._edges(),
            steps=s.steps[0, sim["step"] :],
        )

    def _edges(self) -> np.ndarray:
        """Return the edges between jobs that have been submitted."""
        if self._submitted[0] != int(self._sim["next"]):
            every = self.workload.edges
            self._submitted = int(self._sim["next"]), every[(every < int(self._sim["next"])).all(axis=1)]
        return self._submitted[1]

    def apply(self, decisions: Iterable[Decision], by: str = "policy") -> float:
        """Carry the decisions out, in order; the time (s) at which the policy wants to be asked again at the latest.

        Raises InputError, naming `by`, for a decision that cannot be carried out.
        """
        self._gather()
        until = np.inf
        for d in decisions if decisions is not None else ():
            match d:
                case Start():
                    self._start(d, by)
                case Preempt():
                    if not kernel.preempt(self.state, 0, self._row(d.job, by)):
                        raise InputError(f"{by}: cannot preempt job {d.job}: it is {self._status(d.job)}, not running")
                case Reserve():
                    if not kernel.reserve(self.state, 0, self._row(d.job, by), float(d.at)):
                        raise InputError(f"{by}: cannot reserve for job {d.job}: it is {self._status(d.job)}, not queued")
                case Wait():
                    if not isinstance(d.until, int | float | np.number) or np.isnan(d.until):
                        raise InputError(f"{by}: cannot wait until {d.until!r}; a time in seconds is expected")
                    until = min(until, d.until)
                case _:
                    raise InputError(f"{by} returned {d!r}; a decision is Start, Preempt, Reserve or Wait")
        return until

    def set_rate(self, job: int, rate: float) -> None:
        """Change the speed of a running job from now on (work per second)."""
        if not rate >= 0 or not kernel.set_rate(self.state, 0, self._row(job, "set_rate"), float(rate)):
            raise InputError(f"cannot set rate {rate} for job {job}: it is {self._status(job)}; rates are >= 0")

    def fail(self, node: int) -> None:
        """Take a node down now."""
        self._gather()
        kernel.fail(self.state, 0, int(node))
        sim, (act, left, entered) = self._sim, self._told
        self._add(events.since(self.state, 0, act, left, entered, last=int(sim["acting"])))
        self._told = [int(sim["acting"]), int(sim["left"]), int(sim["entered"])]

    def repair(self, node: int) -> None:
        """Bring a node back now."""
        kernel.repair(self.state, 0, int(node))

    def _row(self, job: Any, by: str) -> int:
        try:
            row = int(job)
        except (TypeError, ValueError):
            row = -1
        if not 0 <= row < self._sim["next"]:
            raise InputError(f"{by}: there is no job {job!r}; submitted so far: 0 to {self._sim['next'] - 1}")
        return row

    def _status(self, job: int) -> str:
        return STATUS_NAMES[self._jobs["status"][job]]

    def _start(self, d: Start, by: str) -> None:
        j = self._row(d.job, by)
        job, free = self._jobs[j], self.state.nodes[0]["free"]
        if job["status"] not in (QUEUED, PAUSED):
            raise InputError(f"{by}: cannot start job {j}: it is {self._status(j)}, not queued")
        if not d.rate >= 0:
            raise InputError(f"{by}: cannot start job {j} at rate {d.rate}; rates are >= 0")
        k = 0
        if d.placement is None or self.cluster.is_pool:
            if not fits(free, job["request"], job["chunks"]):
                raise InputError(
                    f"{by}: cannot start job {j}: it requests {job['request'].tolist()}, free are {free.sum(axis=0).tolist()}"
                )
            if not self.cluster.is_pool:
                k = place(
                    PLACEMENTS["first"],
                    free.copy(),
                    self.cluster.capacity,
                    job["request"],
                    job["chunks"],
                    self._node,
                    self._amount,
                )
        else:
            amounts = np.zeros_like(self._amount)
            for node, units in d.placement:
                if not 0 <= node < len(amounts) or np.shape(units) != amounts[0].shape:
                    raise InputError(f"{by}: placement of job {j} names {node}: {units}; it takes (node, units [R]) pairs")
                amounts[node] += units
            total = amounts.sum(axis=0)
            least, most = (job["least"], max(job["most"], job["least"])) if job["least"] > 0 else (job["request"],) * 2
            if (amounts < 0).any() or (amounts > free).any() or (total < least).any() or (total > most).any():
                got, asked = total.tolist(), job["request"].tolist() if job["least"] <= 0 else f"{least} to {most}"
                raise InputError(f"{by}: placement of job {j} gives {got} of {asked}, or more than is free")
            used = np.flatnonzero(amounts.any(axis=1))
            k = len(used)
            self._node[:k], self._amount[:k] = used, amounts[used]
        if not kernel.start(self.state, 0, j, float(d.rate), self._node, self._amount, k):
            why = f": it would draw {job['draw'] / 1e3:,.0f} W, beyond the cap" if self.state.steps.shape[1] else ""
            raise InputError(f"{by}: cannot start job {j} now{why}")

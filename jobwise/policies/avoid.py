"""A policy that keeps away from nodes that are likely to fail: any other policy, which does not see them as free.

drain    no new jobs on a node at risk
move     and the jobs that run there are stopped, what they have done is kept, and they start again elsewhere
save     and the jobs that run there are stopped and started again at once: what they have done is kept (a checkpoint)

What stopping costs is the simulation's `restart_cost_s`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from jobwise.cluster import Cluster
from jobwise.decision import Policy, Preempt, Start, View, Wait
from jobwise.errors import InputError
from jobwise.policies.scheduler import Scheduler, scheduler

SAVED = 5  # steps of the forecast for which a job that was saved is safe
HOW = ("drain", "move", "save")


@dataclass(frozen=True, eq=False)
class Risks:
    """`value` [T, N] of each node from `begin` s on, every `step` s: what was known then."""

    value: np.ndarray
    begin: float = 0.0
    step: float = 60.0

    def at(self, now: float) -> np.ndarray:
        """[N] the last that was known."""
        return self.value[int(np.clip((now - self.begin) // self.step, 0, len(self.value) - 1))]

    def after(self, now: float) -> float:
        """Return the time of the next risks."""
        return self.begin + ((now - self.begin) // self.step + 1) * self.step


@dataclass(frozen=True, eq=False)
class Avoid(Scheduler):
    """`inner` decides on the nodes whose risk is at most `theta`; `how`: one of HOW. With `save` a job is saved once for each
    time that its node is at risk. Raises InputError."""

    inner: Policy
    risks: Any  # Risks, or of a live cluster jobwise.telemetry.live.LiveRisks
    theta: float
    how: str = "drain"

    def __post_init__(self):
        if self.how not in HOW or not self.theta >= 0:
            raise InputError(f"jobs at risk: {', '.join(HOW)}, above a risk >= 0; not {self.how!r}, {self.theta}")

    @property
    def name(self) -> str:
        """The name as in `fcfs+easy, move above 0.2`."""
        return f"{scheduler(self.inner).name}, {self.how} above {self.theta:g}"

    def check(self, cluster: Cluster) -> None:
        """Raises InputError where there are other nodes."""
        if self.risks.value.shape[1] != len(cluster.capacity):
            raise InputError(f"risks of {self.risks.value.shape[1]} nodes for a cluster of {len(cluster.capacity)}")
        scheduler(self.inner).check(cluster)

    def begin(self, view: View) -> _Run:
        """Its run in one simulation."""
        return _Run(self, view)


class _Run:
    def __init__(self, policy: Avoid, view: View):
        policy.check(view.cluster)
        self.policy, self._inner = policy, scheduler(policy.inner).begin(view)
        self._next_save: dict[int, float] = {}  # job: before then what it did is thought to be safe

    def ended(self, view: View, rows: np.ndarray) -> None:
        """Tell the inner policy which jobs have ended."""
        for j in rows.tolist():
            self._next_save.pop(j, None)
        self._inner.ended(view, rows)

    def decide(self, view: View) -> list:
        """Return what happens to jobs on nodes at risk (nothing, a stop, or a stop and a start in place, which saves them),
        then what the inner policy starts elsewhere; asked again when risks are known anew."""
        p = self.policy
        risky = p.risks.at(view.now) > p.theta
        free, out = view.free.copy(), list[Any]()
        free[risky] = 0
        if p.how != "drain" and risky.any():
            for j in view.running:
                held = view.nodes_of(int(j))
                if any(risky[n] for n, _ in held) and view.now >= self._next_save.get(int(j), 0.0):
                    out.append(Preempt(int(j)))
                    if p.how == "save":
                        out.append(Start(int(j), tuple(held)))
                        self._next_save[int(j)] = view.now + SAVED * p.risks.step
        shown = replace(view, free=free) if risky.any() else view
        return [*out, *self._inner.decide(shown), Wait(p.risks.after(view.now))]  # the earliest of several waits counts

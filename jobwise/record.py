"""Records: what a finished simulation leaves."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from jobwise import metrics
from jobwise.cluster import Cluster, idle_dtype
from jobwise.extensions import imported
from jobwise.power.energy import Energy, energy
from jobwise.workload import Workload


@dataclass(frozen=True, eq=False, repr=False)
class Record:
    """A finished simulation.

    Attributes
    ----------
    jobs : structured array [J] of `jobwise.jobs.job_dtype`
        The jobs as they ended, in the workload's order; times in s from the first submit.
    runtime : array [J], s
        How long each job had to run.
    cluster : Cluster
        The machine.
    policy : str
        The scheduler's name.
    workload : Workload
        The jobs as they came.
    preemptions, events : int
        How often a job was paused; how many events there were.
    lost : float, unit-s
        Work that failures and ends of trial runs undid.
    trials, shown : int
        How many trial runs were begun; in how many of them the job ended.
    idles : structured array [I] of `jobwise.sim.power.idle_dtype`
        When nodes were idle, where they go off.
    """

    jobs: np.ndarray
    runtime: np.ndarray
    cluster: Cluster
    policy: str
    workload: Workload
    preemptions: int = 0
    events: int = 0
    lost: float = 0.0
    trials: int = 0
    shown: int = 0
    idles: np.ndarray = field(default_factory=lambda: np.zeros(0, idle_dtype))

    def frame(self) -> Any:
        """Return the schedule as a pandas.DataFrame, a row a job. Raises InputError without pandas."""
        return imported("jobwise.report.frames:schedule")(self)

    def __repr__(self) -> str:
        """The scheduler, the log, and three numbers."""
        s = self.summary()
        numbers = (
            f"mean slowdown {s['bounded_slowdown']:,.1f}, longest wait {s['max_wait'] / 3600:,.1f} h"
            if s["jobs"]
            else "none ran"
        )
        return f"Record of {len(self.jobs):,} jobs of {self.workload.name} under {self.policy}: {numbers}; .frame() for pandas"

    def summary(self) -> dict[str, float]:
        """The usual metrics: see `jobwise.metrics.summary`; with trial runs, how many, and the work done twice; where it is
        known what jobs draw, the energy."""
        return (
            metrics.summary(self) | (self._of_trials() if self.trials else {}) | (self.energy.summary() if self.energy else {})
        )

    @cached_property
    def energy(self) -> Energy | None:
        """What the schedule costs in energy; None where nothing is known of it."""
        return energy(self) if self.cluster.power else None

    def _of_trials(self) -> dict[str, float]:
        size = self.jobs["request"][:, 0]
        held = float(np.nansum(size * self.jobs["ran"])) + self.lost
        counts = {"trial_runs": self.trials, "ended_in_a_trial_run": self.shown, "stopped_trial_runs": self.preemptions}
        return {k: float(v) for k, v in counts.items()} | {
            "work_done_twice": self.lost / max(float((size * self.runtime).sum()), 1e-9),
            "processor_hours_held": held / 3600.0,
        }

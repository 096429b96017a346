"""The interface of a policy, and its defaults."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from jobwise.cluster import Cluster
from jobwise.decision import Decision, Policy, Run, View
from jobwise.errors import InputError
from jobwise.workload import Workload


class Scheduler:
    """All that jobwise asks a policy for, and what holds where it says nothing. Our policies begin with it; `scheduler` gives
    it to any other.

    `name`; `about`: what a trained one was trained on; `tick`: s between instants of choice (0: every event);
    `single_events`: it decides after every single event; `chooses`: its replay tells `after` of every round of choices;
    `limit`: rows after the last arrival after which its replay is cut; `spec`: the name of its world; `jobsets`: it plays
    whole jobsets, in rows of time; `on_nodes`: it sees the processors of a pool as equal nodes; `moves_jobs`: it may move
    running jobs (None: it is not for GPUs); `order`: what ranks its jobs; `looks`: it is a network, which decides by what
    an encoder shows it; `tries`: waiting jobs run in idle processors, and may be stopped; `keeps_caps`: it starts jobs
    under a cap on power, too; `shifts`: it knows the price of energy, and holds jobs for cheaper hours; `on_site`: a method
    (cluster, jobs [J], past [K]) -> its compiled loop on a site.
    """

    name: Any = ""
    about: Any = {}  # noqa: RUF012 # read only
    tick: Any = 0.0
    single_events: Any = False
    chooses = False
    limit: Any = np.inf
    spec = ""
    jobsets = False
    on_nodes = False
    moves_jobs: Any = None
    order: Any = None
    looks: Any = False
    on_site: Any = None
    tries: Any = False
    keeps_caps: Any = False
    shifts: Any = False

    def check(self, cluster: Cluster) -> None:
        """Raises InputError where it cannot schedule this cluster."""

    def begin(self, view: View) -> Run:
        """Return its run in the simulation, or on the cluster, of a view: what is asked from then on."""
        self.reset(view)
        return self

    def reset(self, view: View) -> None:
        """Nothing to forget: what it remembers is in its run."""
        self.check(view.cluster)

    def ended(self, view: View, rows: np.ndarray) -> None:
        """Nothing to learn here: see `begin`."""

    def decide(self, view: View) -> Iterable[Decision]:
        """Return decisions for a view where nothing was seen before."""
        return self.begin(view).decide(view)

    def assumes(self, workload: Workload) -> str:
        """Return what its schedules of these jobs take for granted, in a sentence; "" where it is nothing."""
        every = f"all {len(workload):,} jobs"
        if self.shifts and not np.isfinite(workload.jobs["patience"]).any():
            return f"{self.name} takes {every} as ones that may be held (--flexible 0.3: 30 %)"
        if not self.tries or not workload.jobs["restartable"].all():
            return ""
        return f"{self.name} takes {every} as ones that may be stopped and begun again (--restartable 0.3: 30 %)"

    def is_compiled(self, cluster: Cluster) -> bool:
        """Does it carry out whole simulations of this cluster itself (`replay`)? Else it is asked at each instant."""
        return False

    def replay(self, s: Any, cluster: Cluster, pasts: Any, after: Any = None) -> Any:
        """Carry out the simulations of `s`; a generator that yields now and then."""
        raise NotImplementedError

    def resumes(self, cluster: Cluster) -> bool:
        """Does a compiled loop carry on simulations of this pool that stand in the middle of a queue?"""
        return False

    def check_stream(self) -> None:
        """Raises InputError where it cannot schedule a log of which it sees a part at a time."""
        raise InputError(f"policy {self.name}: only list schedulers stream")

    def promising(self, bound: float) -> Any:
        """Return the same with start deadlines of `bound`. Raises InputError where it can have none."""
        raise InputError(f"policy {self.name} takes no start deadlines")

    def with_options(self, chosen: dict) -> Any:
        """Return the same with other options of the name grammar; None: it decides everything itself. Raises InputError for
        options that cannot be."""
        return None


class Wrapped(Scheduler):
    """A policy of another author: its own attributes go before those of `Scheduler`."""

    def __init__(self, policy: Any):
        self.policy, self.name, self.keeps_caps = policy, type(policy).__name__, True
        for word in vars(Scheduler):
            if not word.startswith("_") and (own := getattr(policy, word, None)) is not None:
                setattr(self, word, own)


def scheduler(policy: Any) -> Any:
    """Return a policy with all that jobwise asks it for."""
    return policy if isinstance(policy, Scheduler) else Wrapped(policy)


def begin(policy: Policy, view: View) -> Run:
    """Return the run of a policy in the simulation (or on the cluster) of a view: what is asked from now on."""
    return scheduler(policy).begin(view)

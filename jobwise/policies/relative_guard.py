"""What changes while a simulation runs or a cluster lives: who decides, and under which guard.

A relative guard (`+guard0.8x`) is a multiple of the longest wait that first-come, first-served with EASY would have caused
lately. That is found by replaying the jobs submitted lately: those that have ended with the run times they had, the others with
what such jobs use of their requests on average, or what they have run already if that is more. It asks for nothing a live
cluster does not know.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import numpy as np

from jobwise.cluster import Cluster
from jobwise.cluster import pool as pool_of
from jobwise.jobs import past_dtype
from jobwise.policies.refit import Refit
from jobwise.policies.replay import STEPS, adopt, remembering, renewed
from jobwise.sim import easy, pool, scored_pool
from jobwise.sim.forest import Forest
from jobwise.sim.list_pass import Rule
from jobwise.sim.state import State, allocate
from jobwise.workload import workload

LATELY = 8000  # jobs
EVERY = 200  # jobs that arrive between two looks


class Lately:
    """The longest wait (s) that FCFS with EASY would have caused among the last LATELY jobs on a pool."""

    def __init__(self, past: np.ndarray, cluster: Cluster):
        recent = np.sort(past[past["size"] <= cluster.processors], order="submit")[-LATELY:]
        self._past, self._cluster = recent, cluster
        used = np.minimum(recent["runtime"] / np.maximum(recent["walltime"], 1.0), 1.0)
        self._used = float(used.mean()) if len(used) else 0.5

    def look(self, jobs: np.ndarray, now: float) -> float:
        """The longest wait (s) by time `now`; `jobs`: the table of all submitted so far."""
        jobs = jobs[-LATELY:]
        old = self._past[max(len(self._past) + len(jobs) - LATELY, 0) :]
        ran = np.maximum(now - jobs["start"], 0.0)  # NaN: not started
        run = np.where(np.isnan(jobs["end"]), np.fmax(self._used * jobs["walltime"], ran), jobs["ran"])
        submit = np.concatenate([old["submit"], jobs["submit"]])
        if not len(submit):
            return 0.0
        w = workload(
            submit - submit[0],
            np.concatenate([old["size"], jobs["request"][:, 0]]),
            np.concatenate([old["runtime"], run]),
            np.concatenate([old["walltime"], jobs["walltime"]]),
            cluster=self._cluster,
        )
        s = allocate([w], self._cluster)
        pool.replay(s, 0)
        return float((np.minimum(s.jobs[0]["start"], now - submit[0]) - s.jobs[0]["submit"]).max())


class Steering:
    """Run-time adaptation of one simulation of a pool under a `ListScheduler` or a `Gate`. `look` is due when `next` jobs have
    arrived."""

    def __init__(self, policy, past: np.ndarray, cluster: Cluster):
        cluster = pool_of(cluster.processors)  # what is replayed knows of no outages, least of all of those to come
        self._policy, self._past, self._cluster = policy, past, cluster
        self._lately, self._longest = Lately(past, cluster), 0.0
        self._due: list[float] = [0, 0]  # of the two kinds of look: at candidates, at waits
        self._refit = Refit(policy.refit, cluster.processors) if policy.refit else None
        self.forest: Forest | None = None  # new trees, to be taken
        self.scheduler: Any = None
        self.looks: list = []  # of a gate
        self.next: float = 1

    def look(self, jobs: np.ndarray, now: float) -> None:
        """Look at the table of all jobs submitted so far."""
        arrived = len(jobs)
        if arrived >= self._due[0]:
            self.scheduler, look = self._policy.choose(ended(jobs, self._past), self._cluster, arrived)
            self.looks += [look] if look else []
            self._due = [arrived + self._policy.every, 0]
        if arrived >= self._due[1]:
            relative = self.scheduler.times < np.inf
            self._longest = self._lately.look(jobs, now) if relative else 0.0
            self._due[1] = arrived + EVERY if relative else np.inf
        if self._refit:
            self.forest = self._refit.look(ended(jobs, self._past), arrived)
        self.next = min(*self._due, self._refit.next if self._refit else np.inf)

    def aside(self) -> None:
        """Learn in a thread from now on: a live cluster does not wait."""
        if self._refit:
            self._refit.aside = True

    @property
    def rule(self) -> Rule:
        """The rule of the scheduler that decides now."""
        if self.scheduler is None:  # before the first job has arrived
            return self._policy.rule
        rule, times = self.scheduler.rule, self.scheduler.times
        if times == np.inf:
            return rule
        return rule._replace(guard=easy.relative(rule.guard, times, self._longest))


def steered(s: State, e: int, policy, cluster: Cluster, past: np.ndarray) -> Generator[None, None, list]:
    """Simulation e to its end under a `ListScheduler` or a `Gate` that looks now and then who decides, how, by which trees;
    yields now and then. The looks of a gate."""
    steering = Steering(policy, past, cluster)
    b, more = remembering(s, e, policy, past), True
    while more:
        one = s.sims[e]
        if one["next"] >= steering.next:
            steering.look(s.jobs[e, : one["next"]], float(one["now"]))
            adopt(b, steering.scheduler)
            if steering.forest is not None:
                b = renewed(b, steering.forest)
        more = scored_pool.run(s, e, b, steering.rule, STEPS // 100, int(min(steering.next, scored_pool.MANY)))
        yield
    return steering.looks


def ended(jobs: np.ndarray, past: np.ndarray) -> np.ndarray:
    """`past` and those of the job table [J] that have ended, in order of end, of past_dtype."""
    done = jobs[~np.isnan(jobs["end"])]
    new = np.empty(len(done), past_dtype)
    new["runtime"], new["walltime"], new["size"] = done["ran"], done["walltime"], done["request"][:, 0]
    for key in ("user", "submit", "end", "app", "queue", "memory"):
        new[key] = done[key]
    return np.concatenate([past, new[np.argsort(new["end"], kind="stable")]])

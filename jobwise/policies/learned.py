"""`+learned`: where jobs go is learnt from how long jobs like them took there (`jobwise.policies.factors`).

A list scheduler says which jobs start; each of them goes to the free nodes of the class where its group (its kind, else its
application, else its user) is expected to run shortest, a little less where little is known. Nodes of a class are alike
(`Cluster.classes`); where nothing is said of classes each node is one. Nobody waits for a better node.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from jobwise.cluster import Cluster
from jobwise.decision import Start, View
from jobwise.errors import InputError
from jobwise.jobs import DONE
from jobwise.policies.factors import Factors
from jobwise.policies.list_run import ListRun
from jobwise.policies.list_scheduler import ListScheduler
from jobwise.policies.scheduler import Scheduler
from jobwise.sim.lists.placement import PLACEMENTS, fits, place

CURIOUS = 0.5  # standard errors that are taken off what is expected of a class
SHARED = (
    0.5  # how much counts what a class is for all groups: where nodes are scarce a fast one is worth most to those it suits
)


@dataclass(frozen=True)
class Learned(Scheduler):
    """`inner` decides who starts, what was learnt where. Raises InputError."""

    inner: ListScheduler
    curious: float = CURIOUS

    def __post_init__(self):
        if not isinstance(self.inner, ListScheduler) or self.inner.placement != "first":
            raise InputError("+learned is for list schedulers, and is their placement: no other beside it")

    @property
    def name(self) -> str:
        """The name as in `fcfs+easy+learned`."""
        return f"{self.inner.name}+learned"

    def check(self, cluster: Cluster) -> None:
        """Raises InputError for a pool."""
        if cluster.is_pool:
            raise InputError(f"policy {self.name}: a pool of processors has no places; +learned is for clusters of nodes")
        self.inner.check(cluster)

    def begin(self, view: View) -> LearnedRun:
        """Its run in one simulation, or on one cluster."""
        return LearnedRun(self, view)

    def with_options(self, chosen: dict) -> Learned:
        """Return a copy with other options of the list scheduler."""
        return replace(self, inner=replace(self.inner, **chosen))


def group_of(job: np.void) -> int:
    """The group of a job: its kind, else its application, else its user; -1: nothing is known."""
    for k, key in enumerate(("kind", "app", "user")):
        if job[key] >= 0:
            return int(job[key]) * 3 + k
    return -1


class LearnedRun:
    """The memory of one simulation: where jobs ran, how long they took."""

    def __init__(self, policy: Learned, view: View):
        policy.check(view.cluster)
        self._policy, self._inner = policy, ListRun(policy.inner, view)
        classes = view.cluster.classes
        self._class = np.arange(len(view.free)) if classes is None else np.asarray(classes)
        self.factors, self._where = Factors(int(self._class.max()) + 1), dict[int, set[int]]()
        self._look(view, view.running)

    def _look(self, view: View, rows: np.ndarray) -> None:
        """Take note where these jobs run, or ran, where the view still says so."""
        for j in rows.tolist():
            if j not in self._where and (view.cluster.is_pool or view.jobs["held"][j] >= 0):
                self._where[j] = {int(self._class[n]) for n, _ in view.nodes_of(j)}

    def ended(self, view: View, rows: np.ndarray) -> None:
        """Jobs that are done tell how long their kind takes where they ran."""
        self._look(view, rows)
        for j in rows.tolist():
            kinds, job = self._where.pop(j, set()), view.jobs[j]
            if len(kinds) == 1 and job["status"] == DONE and job["restarts"] == 0 and job["ran"] > 0:
                self.factors.add(group_of(job), next(iter(kinds)), float(job["ran"]), float(job["walltime"]))
        self._inner.ended(view, rows)

    def explain(self, view: View) -> list[dict]:
        """Return the ranking of the list scheduler."""
        return self._inner.explain(view)

    def decide(self, view: View) -> list:
        """Return the starts of the list scheduler, on other nodes."""
        self._look(view, view.running)
        made, free, moved = list(self._inner.decide(view)), view.free.copy(), {}
        for i, d in enumerate(made):
            if isinstance(d, Start):
                held = self._placed(view, d.job, free)
                if held is None:  # what is left does not take all of them this way
                    self._where |= {
                        int(x.job): {int(self._class[n]) for n, _ in x.placement or ()} for x in made if isinstance(x, Start)
                    }
                    return made
                moved[i] = replace(d, placement=held)
        for i, d in enumerate(made):
            if isinstance(d, Start):
                self._where[int(d.job)] = {int(self._class[n]) for n, _ in moved[i].placement or ()}
        return [moved.get(i, d) for i, d in enumerate(made)]

    def _placed(self, view: View, j: int, free: np.ndarray) -> tuple | None:
        """The nodes and units of job j, taken from `free`; None where it does not fit."""
        job, capacity = view.jobs[j], view.cluster.capacity
        if not fits(free, job["request"], job["chunks"]):
            return None
        every, own, error = self.factors.of(group_of(job))
        score = (SHARED * every + own - self._policy.curious * error)[self._class]
        whole = (free >= job["request"]).all(axis=1)
        if job["chunks"] <= 1 and whole.any():
            n = int(np.lexsort((free.sum(axis=1), np.where(whole, score, np.inf)))[0])
            free[n] -= job["request"]
            return ((n, tuple(job["request"].tolist())),)
        order = np.argsort(score, kind="stable")
        some, N, R = free[order], *free.shape
        node, amount = np.zeros(N, np.int32), np.zeros((N, R), np.int64)
        k = place(PLACEMENTS["first"], some, capacity[order], job["request"], job["chunks"], node, amount)
        free[order] = some
        return tuple((int(order[node[i]]), tuple(amount[i].tolist())) for i in range(k))

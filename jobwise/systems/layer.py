"""Algorithm 3 at work: workflows on one machine, each plan's tasks ordered by its own scheduler.

Workflows that have come are planned together as soon as earlier plans leave a core, so that one is merged with those that came
while the machine was full, and never with later ones. Plans go first come, first served: what the first starts, the second
finds taken. A plan of several parts has its parts done one after the other. Workflows that are alike to those that a model of
the store has learnt from are scheduled by what that model says, also small ones; else the model of a plan is the general one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from jobwise.cluster import Cluster
from jobwise.decision import Decision, Policy, Start, View
from jobwise.errors import InputError
from jobwise.jobs import DONE, RUNNING
from jobwise.policies.names import load, resolve, with_options
from jobwise.policies.scheduler import Scheduler, begin
from jobwise.systems.mars import LARGE, MODEL, MOST, TOGETHER, WorkflowPlan, decide, parts
from jobwise.systems.store import Store
from jobwise.workload import Workload
from jobwise.workloads.bundles import EVEN, Weights
from jobwise.workloads.demands import demands
from jobwise.workloads.signatures import ALIKE, signature
from jobwise.workloads.streams import flows_of
from jobwise.workloads.workflows import Workflow

GENERAL = "general+easy"  # the model where nothing alike has been learnt from
MOST_OF = 0.75  # of the machine: workflows with a task that needs more are scheduled by fcfs+easy


@dataclass(frozen=True, eq=False)
class Layer(Scheduler):
    """Algorithm 3 on a stream of workflows, as a policy for that stream. `flow` [J]: the workflow of each job; `cluster`: one
    pool of each resource; `made`: the last run. Whoever asks plans when something can start, from the workflows that have
    come by then and have no plan."""

    flows: tuple[Workflow, ...]
    flow: np.ndarray
    cluster: Cluster
    store: Store | None = None
    model: bool = True
    together: int = TOGETHER
    most: int = MOST
    weights: Weights = EVEN
    cost: float = 0.0
    made: list[LayerRun] = field(default_factory=list)

    @property
    def name(self) -> str:
        """mars, and who has scheduled in the last run."""
        return ": ".join(filter(None, ["mars", ", ".join(dict.fromkeys(p.name for p in self.deciders))]))

    @property
    def plans(self) -> list[WorkflowPlan]:
        """The plans of the last run."""
        return self.made[0].plans if self.made else []

    @property
    def deciders(self) -> list[Any]:
        """The schedulers of the plans, one each."""
        return self.made[0].deciders if self.made else []

    @property
    def models(self) -> list[str]:
        """Return per plan of the last run the model of the store that chose its scheduler; "": none."""
        return self.made[0].models if self.made else []

    @property
    def part(self) -> np.ndarray:
        """[J] the part of its plan that each job was in."""
        return self.made[0].part

    def begin(self, view: View) -> LayerRun:
        """Its run in one simulation, or on one cluster."""
        more = len(view.jobs) > len(self.flow)  # an engine has asked for tasks that no file foretold
        self.made[:] = [LayerRun(self, view.jobs["flow"].copy() if more else None)]
        return self.made[0]

    def check(self, cluster: Cluster) -> None:
        """Raises InputError where it cannot schedule this cluster."""
        if not cluster.is_bag or cluster.resources != self.cluster.resources:
            names, others = (", ".join(c.resources) for c in (self.cluster, cluster))
            raise InputError(f"this layer is for one pool of {names}; this one has {others} on {len(cluster.capacity)} nodes")

    def is_large(self, flow: Workflow) -> bool:
        """Return whether a task needs most (MOST_OF) of a resource that all tasks of its workflow need."""
        asked = demands(flow.tasks, self.cluster)
        return bool((asked > MOST_OF * self.cluster.total)[:, (asked > 0).all(axis=0)].any())


class LayerRun:
    """A layer in one simulation, or on one cluster."""

    def __init__(self, layer: Layer, flow: np.ndarray | None = None):
        """`flow` [J]: the workflow of each job, where there are more than the layer knows of."""
        self._layer, self._flow = layer, layer.flow if flow is None else flow
        self.plans: list[WorkflowPlan] = []
        self.deciders: list[Any] = []
        self.models: list[str] = []  # of the store, that say who schedules a plan; "": none
        self._runs: list = []
        self._noted, self._events = np.empty(0), list[np.ndarray]()  # the events of the last view, and of each run
        self.plan, self.part = np.full(len(self._flow), -1), np.zeros(len(self._flow), np.int64)

    def ended(self, view: View, rows: np.ndarray) -> None:
        """Tell each scheduler of its own."""
        if view.events is self._noted:
            return
        self._noted = view.events
        of_event, of_row = self.plan[view.events["job"]], self.plan[rows]
        for k in np.unique(np.concatenate([of_event, of_row])).tolist():
            if 0 <= k < len(self._runs):
                self._events[k] = view.events[of_event == k]
                self._runs[k].ended(replace(view, events=self._events[k]), rows[of_row == k])

    def decide(self, view: View) -> Iterable[Decision]:
        """Plan by plan, on what those before have left: their starts stand in the table while the others are asked."""
        self.ended(view, view.ended)
        table = view.table
        before = table[["status", "start", "due"]][view.queue].copy()
        try:
            return [Start(int(j)) for j in self._starts(view, table)]
        finally:
            for name in before.dtype.names:
                table[name][view.queue] = before[name]

    def _take_up(self, view: View) -> None:
        """Plan the workflows that have come and have no plan, in the order of their arrivals."""
        x = self._layer
        new = list(dict.fromkeys(self._flow[j] for j in np.sort(view.queue) if self.plan[j] < 0))
        if not new:
            return
        sizes = [len(x.flows[i]) for i in new]

        for p in decide(sizes, large=lambda i: x.is_large(x.flows[new[i]]), model=x.model, together=x.together, most=x.most):
            p = replace(p, flows=tuple(int(new[i]) for i in p.flows))
            for i in p.flows:
                rows = np.flatnonzero(self._flow == i)
                self.plan[rows] = len(self.plans)
                if len(p.parts) > 1:
                    self.part[rows[: len(x.flows[i])]] = parts(x.flows[i], x.most)
            self.plans.append(p)
            decider, model = _decider(p, x)
            self.deciders.append(decider)
            self.models.append(model)
            self._runs.append(begin(self.deciders[-1], view))
            self._events.append(view.events)

    def _starts(self, view: View, table: np.ndarray) -> np.ndarray:
        """The plans that there are, and, where they leave a core, those of the workflows that have come since."""
        starts, free = self._asked(range(len(self.plans)), view, table, np.empty(0, np.int32), view.free)
        if (self.plan[view.queue] < 0).any() and free[..., 0].any():
            last = len(self.plans)
            self._take_up(view)
            starts, _ = self._asked(range(last, len(self.plans)), view, table, starts, free)
        return starts

    def _asked(self, which: range, view: View, table: np.ndarray, starts: np.ndarray, free: np.ndarray) -> tuple:
        """(rows that start, what is then free), beside `starts`."""
        of = self.plan[view.queue]
        for k in np.unique(of[(of >= which.start) & (of < which.stop)]):
            own = view.queue[of == k]
            if len(self.plans[k].parts) > 1:
                own = own[self.part[own] == self._part(k, table)]
            if not len(own):
                continue
            running = np.sort(np.concatenate([view.running, starts])).astype(np.int32)
            mine = replace(view, queue=own, running=running, free=free, events=self._events[k])
            rows = np.array([d.job for d in self._runs[k].decide(mine) if isinstance(d, Start)], np.int32)
            table["status"][rows], table["start"][rows] = RUNNING, view.now
            table["due"][rows] = view.now + np.maximum(table["walltime"][rows], 1.0)
            free, starts = free - table["request"][rows].sum(axis=0), np.concatenate([starts, rows])
        return starts, free

    def _part(self, k: int, table: np.ndarray) -> int:
        """The first part of a plan that is not done."""
        own = self.plan[: len(table)] == k
        return int(self.part[: len(table)][own & (table["status"] < DONE)].min())


def layer(
    w: Workload,
    flows: list[Workflow] | None = None,
    store: Store | None = None,
    *,
    model: bool = True,
    together: int = TOGETHER,
    most: int = MOST,
    weights: Weights = EVEN,
    cost: float = 0.0,
) -> Layer:
    """MARS for a stream of these workflows (by default as `flows_of` tells them). Without a `model` rules do all; `together`,
    `most`: see `jobwise.systems.mars.decide`; `weights` of CPU, memory and I/O: see `jobwise.workloads.bundles.classes`;
    `cost`: how much the price of a task weighs where a network of the store schedules."""
    return Layer(tuple(flows or flows_of(w)), w.jobs["flow"], w.cluster, store, model, together, most, weights, cost)


def _decider(p: WorkflowPlan, x: Layer) -> tuple[Policy, str]:
    """(who schedules a plan, the model of the store that says so or "")."""
    largest = max((x.flows[i] for i in p.flows), key=len)
    near, alike = x.store.nearest(signature(largest, x.cluster, x.weights), x.cluster) if x.store else (None, 0.0)
    if near and alike >= ALIKE and p.by != LARGE:
        serves, is_net = load(near.folder), near.about.serves >= 0
        return with_options(serves, {"cost": x.cost}) if x.cost and is_net else serves, f"{near.folder.name} ({near.serves})"
    if p.by != MODEL:
        return resolve(p.by if "+" in p.by else f"{p.by}+easy"), ""
    return resolve(GENERAL), ""

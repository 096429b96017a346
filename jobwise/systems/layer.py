"""Algorithm 3 at work: workflows on one machine, each plan's tasks ordered by its own scheduler.

Plans go first come, first served: what the first starts, the second finds taken. A plan of several parts has its parts done
one after the other. The model of a plan is the most similar one of a model store, else the general one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from jobwise import decision
from jobwise.cluster import Cluster
from jobwise.decision import Decision, Policy, Start, View
from jobwise.errors import InputError
from jobwise.jobs import DONE, RUNNING
from jobwise.policies.names import load, resolve
from jobwise.systems.mars import MODEL, MOST, TOGETHER, Plan, decide, parts
from jobwise.systems.store import Store
from jobwise.workload import Workload
from jobwise.workloads.signatures import ALIKE, signature
from jobwise.workloads.streams import flows_of
from jobwise.workloads.workflows import Workflow

GENERAL = "general+easy"  # the model where nothing alike has been learnt from
MOST_OF = 0.75  # of the machine: workflows with a task that needs more are scheduled by fcfs+easy


@dataclass(frozen=True, eq=False)
class Layer:
    """The plans of a stream of workflows, as a policy for that stream.

    `deciders`: a policy per plan. `plan`, `part`: [J] of each job its plan, and its part there.
    """

    plans: tuple[Plan, ...]
    deciders: tuple[Policy, ...]
    plan: np.ndarray
    part: np.ndarray

    @property
    def name(self) -> str:
        """mars, and who schedules."""
        return "mars: " + ", ".join(dict.fromkeys(p.name for p in self.deciders))

    def begin(self, view: View) -> LayerRun:
        """Its run in one simulation, or on one cluster."""
        return LayerRun(self, view)

    def check(self, cluster: Cluster) -> None:
        """Raises InputError where it cannot schedule this cluster."""
        if not cluster.is_pool:
            raise InputError("MARS takes pools of processors")

    def reset(self, view: View) -> None:
        """Nothing to forget."""

    def ended(self, view: View, rows: np.ndarray) -> None:
        """Nothing to learn."""

    def decide(self, view: View) -> Iterable[Decision]:
        """What to do in a view where nothing was seen before."""
        return self.begin(view).decide(view)


class LayerRun:
    """A layer in one simulation, or on one cluster."""

    def __init__(self, layer: Layer, view: View):
        self._layer = layer
        self._runs = [decision.begin(p, view) for p in layer.deciders]

    def ended(self, view: View, rows: np.ndarray) -> None:
        """Tell each scheduler of its own."""
        for k, run in enumerate(self._runs):
            if len(own := rows[self._layer.plan[rows] == k]):
                run.ended(view, own)

    def decide(self, view: View) -> Iterable[Decision]:
        """Plan by plan, on what those before have left: their starts stand in the table while the others are asked."""
        table = view.table
        before = table[["status", "start", "due"]][view.queue].copy()
        try:
            return [Start(int(j)) for j in self._starts(view, table)]
        finally:
            for name in before.dtype.names:
                table[name][view.queue] = before[name]

    def _starts(self, view: View, table: np.ndarray) -> np.ndarray:
        layer, starts, free, of = self._layer, np.empty(0, np.int32), view.free, self._layer.plan[view.queue]
        for k in np.unique(of):
            own = view.queue[of == k]
            if len(layer.plans[k].parts) > 1:
                own = own[layer.part[own] == self._part(k, table)]
            if not len(own):
                continue
            running = np.sort(np.concatenate([view.running, starts])).astype(np.int32)
            mine = replace(view, queue=own, running=running, free=free)
            rows = np.array([d.job for d in self._runs[k].decide(mine) if isinstance(d, Start)], np.int32)
            table["status"][rows], table["start"][rows] = RUNNING, view.now
            table["due"][rows] = view.now + np.maximum(table["walltime"][rows], 1.0)
            free, starts = free - table["request"][rows].sum(axis=0), np.concatenate([starts, rows])
        return starts

    def _part(self, k: int, table: np.ndarray) -> int:
        """The first part of a plan that is not done."""
        own = self._layer.plan[: len(table)] == k
        return int(self._layer.part[: len(table)][own & (table["status"] < DONE)].min())


def layer(
    w: Workload,
    flows: list[Workflow] | None = None,
    store: Store | None = None,
    *,
    model: bool = True,
    together: int = TOGETHER,
    most: int = MOST,
) -> Layer:
    """MARS for a stream of these workflows (by default as `flows_of` tells them). Without a `model` rules do all; `together`,
    `most`: see `jobwise.systems.mars.decide`."""
    flows = flows or flows_of(w)
    cores = w.cluster.processors

    def large(i: int) -> bool:
        return bool((flows[i].tasks["cores"] > MOST_OF * cores).any())

    plans = tuple(decide([len(f) for f in flows], large=large, model=model, together=together, most=most))
    plan, part, deciders = np.zeros(len(w), np.int64), np.zeros(len(w), np.int64), []
    for k, p in enumerate(plans):
        for i in p.flows:
            rows = np.flatnonzero(w.jobs["flow"] == i)
            plan[rows], part[rows] = k, parts(flows[i], most) if len(p.parts) > 1 else 0
        deciders.append(_decider(p, flows, cores, store))
    return Layer(plans, tuple(deciders), plan, part)


def _decider(p: Plan, flows: list[Workflow], cores: int, store: Store | None) -> Policy:
    if p.by != MODEL:
        return resolve(p.by if "+" in p.by else f"{p.by}+easy")
    largest = max((flows[i] for i in p.flows), key=len)
    model, alike = store.nearest(signature(largest, cores), cores) if store else (None, 0.0)
    return load(model.folder) if model and alike >= ALIKE else resolve(GENERAL)

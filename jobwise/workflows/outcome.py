"""Workflows as they ran: their tasks with the run times that were measured, for a model store to learn from."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from jobwise.workflows.engines.desk import step_of
from jobwise.workflows.follow import Following
from jobwise.workloads.workflows import Workflow


def outcomes(f: Following, flows: list[Workflow]) -> list[Workflow | None]:
    """Return each of the followed workflows as it ran; None for one that has not ended well. Tasks that its file does not list
    (copies of a scattered step) have the place in the graph of the listed task."""
    sizes = [len(x) for x in flows]
    first = np.cumsum(sizes) - sizes
    return [_one(f, k, x, int(at)) for k, (x, at) in enumerate(zip(flows, first, strict=True))]


def _one(f: Following, k: int, flow: Workflow, first: int) -> Workflow | None:
    foretold = list(range(first, first + len(flow)))
    rows = [i for i in foretold if not f.asks.is_silent(i)]
    added = [i for i in range(len(f.workload), len(f.tasks)) if f.asks.flow[i] == k and not f.asks.is_silent(i)]
    if not rows + added or any(f.tasks[i].state != "done" for i in rows + added):
        return None
    of_step: dict[str, int] = {}
    for i in foretold:
        of_step.setdefault(step_of(flow.names[i - first]), i - first)
    like = [i - first for i in rows] + [of_step.get(f.asks.task[i].step, 0) for i in added]
    tasks, edges = flow.tasks[like].copy(), []
    ran = np.array([f.tasks[i].end - f.tasks[i].start for i in rows + added])
    tasks["runtime"] = np.maximum(ran, 0.001)
    copies: dict[int, list[int]] = {}
    for new, old in enumerate(like):
        copies.setdefault(old, []).append(new)
    for a, b in flow.edges.tolist():
        edges += [(x, y) for x in copies.get(a, ()) for y in copies.get(b, ())]
    names = tuple(f"{flow.names[old]}#{new}" if len(copies[old]) > 1 else flow.names[old] for new, old in enumerate(like))
    return replace(flow, tasks=tasks, edges=np.array(edges, np.int64).reshape(-1, 2), names=names, source="run")

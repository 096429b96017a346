"""Workflows that arrive over time as one workload: a stream. Generated ones replicate real instances, their sizes jittered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from jobwise.cluster import Cluster, pool
from jobwise.errors import InputError
from jobwise.workload import Workload, workload
from jobwise.workloads.demands import demands, fill
from jobwise.workloads.workflows import Workflow, task_dtype

READING = (
    "Jobs are tasks of workflows; a task may start when its parents have ended. All tasks of a workflow arrive with it.",
)


def stream(
    flows: Sequence[Workflow], submit: Sequence[float] | None = None, cluster: Cluster | int = 64, name: str = "workflows"
) -> Workload:
    """Return workflows as a workload: their tasks are jobs with edges.

    `Workload.names["flow"]` has the names of the workflows by the number in the column flow.

    Parameters
    ----------
    flows : sequence of Workflow
        The workflows. Tasks request their cores and what there is of the other resources, and run as long as their files say;
        schedulers see their estimates.
    submit : sequence of float, s, optional
        When each workflow arrives; by default all at 0.
    cluster : Cluster or int
        A pool of that many cores, or one pool each of several resources, such as
        ``jobwise.resources(processors=64, memory=256_000, gpus=4, io=2_000)``: cores, MB, GPUs, MB/s.
    name : str
        The name that reports use.

    Returns
    -------
    Workload

    Raises
    ------
    InputError
        A task is larger than the cluster.
    """
    cluster = pool(cluster) if isinstance(cluster, int) else cluster
    if not len(flows):
        raise InputError("a stream has one workflow at least")
    begins = np.zeros(len(flows)) if submit is None else np.asarray(submit, float)
    sizes = np.array([len(f) for f in flows])
    first = np.cumsum(sizes) - sizes
    tasks = np.concatenate([f.tasks for f in flows])
    edges = np.concatenate([f.edges + at for f, at in zip(flows, first, strict=True)])
    flow = np.repeat(np.arange(len(flows)), sizes)
    programs = sorted({p for f in flows for p in f.programs})
    number = {p: i for i, p in enumerate(programs)}
    app = np.concatenate([np.array([number[p] for p in f.programs])[f.tasks["program"]] for f in flows])
    memory = np.where(tasks["memory"] > 0, tasks["memory"] * 1e6 / 1024 / tasks["cores"], -1.0)
    made = workload(
        np.repeat(begins, sizes), demands(tasks, cluster), tasks["runtime"], tasks["estimate"], cluster=cluster, edges=edges,
        name=name, flow=flow, app=app, memory=memory,
    )  # fmt: skip
    names = {"flow": {i: f.name for i, f in enumerate(flows)}, "app": dict(enumerate(programs))}
    return replace(made, names=names, reading=READING)


def jittered(w: Workflow, rng: np.random.Generator, size: float = 0.5, task: float = 0.2, estimate: float = 0.0) -> Workflow:
    """A replica: all run times times one lognormal number (σ `size`), each times one of its own (σ `task`); estimates are off
    by a lognormal factor (σ `estimate`)."""
    tasks = w.tasks.copy()
    tasks["runtime"] *= rng.lognormal(0.0, size) * rng.lognormal(0.0, task, len(w))
    tasks["estimate"] = tasks["runtime"] * rng.lognormal(0.0, estimate, len(w))
    return replace(w, tasks=tasks)


def arrivals(
    flows: Sequence[Workflow],
    count: int,
    cluster: Cluster | int,
    load: float = 0.9,
    seed: int | Sequence[int] = 0,
    *,
    size: float = 0.0,
    task: float = 0.0,
    estimate: float = 0.5,
    name: str = "workflows",
) -> Workload:
    """`count` workflows drawn from `flows`, as `jittered`, that arrive by a Poisson process such that their mean work fills the
    share `load` of the cores, or of the resource that they need most of. Raises InputError."""
    cluster = pool(cluster) if isinstance(cluster, int) else cluster
    if not (count >= 1 and load > 0):
        raise InputError(f"a stream of {count} workflows at load {load:g} on {cluster.processors} cores cannot be")
    rng = np.random.default_rng(seed)
    made = [jittered(flows[i], rng, size, task, estimate) for i in rng.integers(0, len(flows), count)]
    work = [[(f.tasks["runtime"] * column).sum() for column in demands(f.tasks, cluster).T] for f in flows]
    gap = float(np.max(np.mean(work, axis=0) / (load * np.maximum(cluster.total, 1))))
    return stream(made, np.cumsum(rng.exponential(gap, count)).tolist(), cluster, name)


def has_flows(w: Workload) -> bool:
    """Return whether a workload is a stream of workflows."""
    return bool((w.jobs["flow"] >= 0).any())


def flows_of(w: Workload) -> list[Workflow]:
    """The workflows of a stream, by number; jobs of none are no part of any."""
    flow, flows, new = w.jobs["flow"], [], np.full(len(w), -1)
    for i in range(int(flow.max(initial=-1)) + 1):
        rows = np.flatnonzero(flow == i)
        new[rows] = np.arange(len(rows))
        tasks = np.zeros(len(rows), task_dtype)
        tasks["runtime"], tasks["estimate"] = w.truth["runtime"][rows], w.jobs["walltime"][rows]
        tasks["cores"] = w.jobs["request"][rows, 0]
        fill(tasks, w.jobs["request"][rows], w.cluster)
        tasks["memory"] = np.maximum(w.jobs["memory"][rows], 0.0) * tasks["cores"] * 1024 / 1e6
        own = w.edges[np.isin(w.edges[:, 0], rows)]
        flows.append(Workflow(w.names.get("flow", {}).get(i, f"{i}"), tasks, new[own], tuple(map(str, rows)), ("",)))
    return flows

"""Jobs of a pool on the nodes of a site: for trials, and for measuring speed and what settings do."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from jobwise.cluster import Cluster
from jobwise.errors import InputError
from jobwise.jobs import job_dtype
from jobwise.site import (
    RESOURCES,
    TICKING,
    Site,
    ask_dtype,
    association,
    association_dtype,
    partition_dtype,
    qos_dtype,
    settings,
)
from jobwise.workload import Workload, in_order
from jobwise.workloads.lublin import lublin

MEMORY = (1024, 2048, 4096, 7168)  # MiB of a CPU that generated jobs ask for
NODE_MEMORY = 6144  # MiB of a node for each of its CPUs


def on_site(w: Workload, nodes: int, cpus: int, **known: float) -> Workload:
    """The jobs of `w`, a task for each processor, on `nodes` nodes of `cpus` CPUs in one partition; all users have equal shares
    of one account. `known`: settings of the scheduler that are not Slurm's own (`jobwise.site.settings_dtype`), e.g. age=1000.
    Raises InputError for jobs that do not fit."""
    sizes, kind = np.unique(w.jobs["request"][:, 0], return_inverse=True)
    if nodes < 1 or cpus < 1 or sizes[-1] > nodes * cpus:
        raise InputError(f"{w.name}: a job of {sizes[-1]} processors does not fit {nodes} nodes of {cpus} CPUs")
    asks = np.zeros(len(sizes), ask_dtype)
    asks["tasks"], asks["cpus"] = sizes, 1
    batch = np.array([(0, 1.0, 1, np.inf, np.inf, 1)], partition_dtype)
    capacity = np.tile(np.array([cpus, 1, 0], np.int64), (nodes, 1))
    site = _site(nodes, np.ones((1, nodes), np.uint8), asks, batch, ("batch",), known)
    return _with(w, site, capacity, asks, kind, np.zeros(len(w), np.int32))


def generated(
    jobs: int = 10_000, nodes: int = 1000, cpus: int = 32, load: float = 0.8, seed: int = 0, users: int = 200, **known: float
) -> Workload:
    """Jobs after Lublin and Feitelson on a site of three partitions: `batch` on all nodes, `large` (jobs of more than four
    nodes) on all but the first quarter, `gpu` on the last tenth, whose nodes have 4 GPUs. Jobs ask for 1 to 7 GiB of each CPU
    and, in `gpu`, for a GPU for each 8 CPUs. Settings as `on_site`."""
    if nodes < 10 or cpus < 8:
        raise InputError(f"{nodes} nodes of {cpus} CPUs: at least 10 of 8 are needed")
    w = lublin(jobs, max(nodes // 16, 2) * cpus, seed, load=load * nodes / max(nodes // 16, 2), estimates="users", users=users)
    rng, size = np.random.default_rng([seed, 1]), w.jobs["request"][:, 0]
    memory = rng.choice(len(MEMORY), len(w), p=(0.4, 0.35, 0.2, 0.05))
    queue = np.where(size > 4 * cpus, 1, np.where((size <= cpus // 2) & (rng.random(len(w)) < 0.15), 2, 0)).astype(np.int32)
    shapes, kind = np.unique(np.stack([size, memory, queue == 2], axis=1), axis=0, return_inverse=True)
    asks = np.zeros(len(shapes), ask_dtype)
    asks["tasks"], asks["cpus"] = shapes[:, 0], 1
    asks["memory_cpu"] = np.array(MEMORY)[shapes[:, 1]]
    asks["gpus_node"] = np.where(shapes[:, 2], np.minimum((shapes[:, 0] + 7) // 8, 4), 0)
    asks["most"] = np.where(shapes[:, 2], 1, 0)
    sets = np.ones((3, nodes), np.uint8)
    sets[1, : nodes // 4] = 0
    sets[2, : nodes - nodes // 10] = 0
    queues = np.array([(k, factor, 1, np.inf, np.inf, 1) for k, factor in enumerate((1, 4, 2))], partition_dtype)
    capacity = np.tile(np.array([cpus, cpus * NODE_MEMORY, 0], np.int64), (nodes, 1))
    capacity[sets[2] > 0, 2] = 4
    site = _site(nodes, sets, asks, queues, ("batch", "large", "gpu"), {"memory": 1} | known)
    return _with(w, site, capacity, asks, kind.reshape(-1), queue)


IDLE = 1.0  # s, how often the backfill thread looks while no cycle is due
SHORTEST = 0.05  # s, a run
TICK = 0.01  # s, how late in a second the loop of the main passes wakes


def phase(w: Workload, seed: int, at_tick: np.ndarray) -> tuple[Workload, np.ndarray]:
    """(the jobs of a site as they may have been, where accounting tells whole seconds alone: submits, starts and ends anywhere
    in their second, but jobs of the same second in the order of rows; clocks at any phase; its rows as rows of `w` [J]).
    From 23.11 on main passes begin with a second; `at_tick` [J]: which jobs they start."""
    rng, x = np.random.default_rng([17, seed]), w.cluster.known_site.settings[0]
    jobs, truth = w.jobs.copy(), w.truth.copy()
    part = rng.random(len(w))
    jobs["submit"] += part[np.lexsort((part, w.jobs["submit"]))]  # in each second the smaller parts first
    ticks, ended, begun = x["version"] >= TICKING, rng.random(len(w)), rng.random(len(w))  # parts of their second
    begun = np.where(ticks & at_tick, TICK, begun)
    truth["runtime"] = np.maximum(truth["runtime"] + ended - begun, SHORTEST)
    phases = {"look_phase": x["loop"], "whole_phase": x["sched_interval"], "cycle_phase": max(x["bf_interval"], IDLE)}
    phases["price_phase"] = x["calc_period"]
    clocks = {k: rng.random() * period for k, period in phases.items()} | ({"look_phase": TICK} if ticks else {})
    site = w.cluster.known_site.changed(**clocks)
    order = np.argsort(jobs["submit"], kind="stable")
    return in_order(replace(w, jobs=jobs, truth=truth, cluster=replace(w.cluster, site=site)), order), order


def _site(
    nodes: int, sets: np.ndarray, asks: np.ndarray, queues: np.ndarray, names: tuple[str, ...], known: dict[str, float]
) -> Site:
    names_of_settings = settings().dtype.names or ()
    if wrong := sorted(set(known) - set(names_of_settings)):
        raise InputError(f"there is no setting {wrong[0]!r}; there are {', '.join(names_of_settings)}")
    return Site(
        weight=np.ones(nodes, np.int64),
        sets=sets,
        asks=asks,
        partitions=queues,
        queues=np.arange(len(queues), dtype=np.int32)[:, None],
        qos=np.zeros(0, qos_dtype),
        associations=np.zeros(0, association_dtype),
        leaf=np.zeros((0, 0), np.int32),
        settings=settings(**known),
        names=tuple(f"node{i + 1}" for i in range(nodes)),
        partition_names=names,
    )


def _with(w: Workload, site: Site, capacity: np.ndarray, asks: np.ndarray, kind: np.ndarray, queue: np.ndarray) -> Workload:
    """The jobs on the nodes; all users have equal shares of one account."""
    users = np.unique(w.jobs["user"], return_inverse=True)[1]
    leaves = [association(1, 1.0, 1)] * (int(users.max()) + 1)
    tree = np.array([association(-1, 1.0, 0), association(0, 1.0, 0), *leaves], association_dtype)
    leaf = 2 + np.arange(int(users.max()) + 1, dtype=np.int32)[:, None]
    jobs = np.zeros(len(w), job_dtype(len(RESOURCES)))
    for key in w.jobs.dtype.names or ():
        if key != "request":
            jobs[key] = w.jobs[key]
    cpus = asks["tasks"].astype(np.int64) * asks["cpus"]
    jobs["request"] = np.stack([cpus, cpus * asks["memory_cpu"], np.maximum(asks["gpus"], asks["gpus_node"])], axis=1)[kind]
    jobs["ask"], jobs["user"], jobs["group"], jobs["partition"], jobs["queue"] = kind, users, 0, queue, -1
    names = {"partition": dict(enumerate(site.partition_names))}
    cluster = Cluster(capacity, RESOURCES, site=replace(site, associations=tree, leaf=leaf))
    return replace(w, jobs=jobs, cluster=cluster, names=names, name=f"{w.name} on {len(capacity)} nodes")

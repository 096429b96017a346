"""A log of a pool as jobs of a site with equal nodes and Slurm's own settings: for trials and for measuring speed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from jobwise.cluster import Cluster
from jobwise.errors import InputError
from jobwise.jobs import job_dtype
from jobwise.site import RESOURCES, Site, ask_dtype, association_dtype, partition_dtype, qos_dtype, settings
from jobwise.workload import Workload


def on_site(w: Workload, nodes: int, cpus: int, **known: float) -> Workload:
    """The jobs of `w`, a task for each processor, on `nodes` nodes of `cpus` CPUs; all users have equal shares of one account.
    `known`: settings of the scheduler that are not Slurm's own (`jobwise.site.settings_dtype`), e.g. age=1000. Raises
    InputError for jobs that do not fit."""
    sizes, kind = np.unique(w.jobs["request"][:, 0], return_inverse=True)
    if nodes < 1 or cpus < 1 or sizes[-1] > nodes * cpus:
        raise InputError(f"{w.name}: a job of {sizes[-1]} processors does not fit {nodes} nodes of {cpus} CPUs")
    if wrong := sorted(set(known) - set(settings().dtype.names)):
        raise InputError(f"there is no setting {wrong[0]!r}; there are {', '.join(settings().dtype.names)}")
    asks = np.zeros(len(sizes), ask_dtype)
    asks["tasks"], asks["cpus"] = sizes, 1
    users = np.unique(w.jobs["user"], return_inverse=True)[1]
    tree = np.array([(-1, 1.0, 0), (0, 1.0, 0), *[(1, 1.0, 1)] * (int(users.max()) + 1)], association_dtype)
    batch = np.array([(0, 1.0, 1, np.inf, np.inf, 1)], partition_dtype)
    leaf = 2 + np.arange(int(users.max()) + 1, dtype=np.int32)[:, None]
    site = Site(
        np.ones(nodes, np.int64), np.ones((1, nodes), np.uint8), asks, batch, np.zeros((1, 1), np.int32),
        np.zeros(0, qos_dtype), tree, leaf, settings(**known), tuple(f"node{i + 1}" for i in range(nodes)), ("batch",),
    )  # fmt: skip
    jobs = np.zeros(len(w), job_dtype(len(RESOURCES)))
    for key in w.jobs.dtype.names:
        if key != "request":
            jobs[key] = w.jobs[key]
    jobs["request"][:, 0], jobs["ask"], jobs["user"], jobs["group"] = sizes[kind], kind, users, 0
    jobs["partition"], jobs["queue"] = 0, -1
    capacity = np.tile(np.array([cpus, 1, 0], np.int64), (nodes, 1))
    return replace(w, jobs=jobs, cluster=Cluster(capacity, RESOURCES, site=site), name=f"{w.name} on {nodes} nodes")

"""The machine as a policy sees it in a view of a cluster in use: a pool of cores, or nodes where the policy places jobs."""

from __future__ import annotations

from typing import Any

import numpy as np

from jobwise.cluster import Cluster, pool
from jobwise.errors import InputError
from jobwise.jobs import blank_jobs
from jobwise.live.view import takes
from jobwise.sim.state import slice_dtype
from jobwise.slurm.client import Node
from jobwise.workflows.simulated import ResourceManager


class Machine:
    """The cores of `manager` for tasks, and the other counted resources of `asked`, the machine of the tasks. `policy` decides
    its own view: pools of all of them, of cores alone, or nodes, where it takes no pool (`+learned`, `+pack`). In a pool there
    are `ahead` times more than in truth, so that jobs are at hand, but not of what the manager does not count itself (`io`); on
    nodes a job is submitted where there is room. Raises InputError where the policy takes neither.

    `cluster`; `names`: of its nodes, empty for a pool; `classes`: nodes with the same features are alike (`Cluster.classes`).
    """

    def __init__(self, manager: ResourceManager, policy: Any, ahead: float, asked: Cluster):
        self.manager, self.names = manager, []
        known = {asked.resources[0], *manager.pools()}
        units = [
            int(round(n * (1.0 + ahead))) if name in known else int(n)
            for name, n in zip(asked.resources, asked.total, strict=True)
        ]
        units[0] = max(int(round(manager.cores()[0] * (1.0 + ahead))), 1)
        self.cluster = Cluster(np.array([units], np.int64), asked.resources)
        if takes(policy, pool(units[0])):
            self.cluster = self.cluster if takes(policy, self.cluster) else pool(units[0])
            return
        every = manager.nodes()
        kinds = sorted({n.kind for n in every})
        classes = np.array([kinds.index(n.kind) for n in every]) if kinds != [""] else None
        cores = np.array([[n.cores] for n in every], np.int64)
        placed = Cluster(cores, ("cores",), classes=classes) if every else pool(units[0])
        if takes(policy, self.cluster) and not takes(policy, placed):
            return  # it counts all resources, in a pool
        if every and placed.is_pool:
            raise InputError(f"policy {policy.name}: there is one node, {every[0].name}: nothing to choose from")
        policy.check(placed)
        self.names, self.cluster = [n.name for n in every], placed

    def row(self, name: str) -> int:
        """The node of this name; -1: none, or a pool."""
        return self.names.index(name) if name in self.names else -1

    def free(self, held: np.ndarray, running: np.ndarray) -> np.ndarray:
        """[N, R] units that are free: `held` [N, R] are those of our jobs that were submitted, `running` [N, R] of those among
        them that run. Cores that others use, and nodes that are down, are not."""
        if not self.names:
            return np.maximum(self.cluster.capacity - held, 0)
        now: dict[str, Node] = {n.name: n for n in self.manager.nodes()}
        free = np.array([now[name].free if name in now else 0 for name in self.names])[:, None]
        return np.maximum(free - (held - running), 0) * (free > 0)

    def held(self, node: np.ndarray, request: np.ndarray, which: np.ndarray) -> np.ndarray:
        """[N, R] what the jobs `which` [J] of `request` [J, R] hold of each node."""
        out = np.zeros(self.cluster.capacity.shape, np.int64)
        np.add.at(out, np.maximum(node[which], 0), request[which])
        return out

    def slices(self, node: np.ndarray, request: np.ndarray) -> np.ndarray:
        """[J] of `slice_dtype`: job j holds `request[j]` of `node[j]`."""
        out = np.zeros(len(node), slice_dtype(request.shape[1]))
        out["node"], out["next"], out["amount"] = np.maximum(node, 0), -1, request
        return out

    def seen(self, jobs: np.ndarray) -> np.ndarray:
        """A copy of a table of jobs with the resources that the policy sees."""
        out = blank_jobs(len(jobs), len(self.cluster.resources))
        for name in jobs.dtype.names or ():
            out[name] = jobs[name][:, : len(self.cluster.resources)] if name == "request" else jobs[name]
        return out

"""The machine as a policy sees it in a view of a cluster in use: a pool of cores, or nodes where the policy places jobs."""

from __future__ import annotations

from typing import Any

import numpy as np

from jobwise.cluster import Cluster, pool
from jobwise.errors import InputError
from jobwise.sim.state import slice_dtype
from jobwise.slurm.client import Node
from jobwise.slurm.simulated import ResourceManager


class Machine:
    """Which cores of `manager` tasks may have. `policy` decides whether it sees nodes: it does where it takes no pool
    (`+learned`, `+pack`). In a pool there are `ahead` times more cores than in truth, so that jobs are at hand; on nodes a job
    is submitted where there is room. Raises InputError where the policy takes neither.

    `cluster`; `names`: of its nodes, empty for a pool; `classes`: nodes with the same features are alike (`Cluster.classes`).
    """

    def __init__(self, manager: ResourceManager, policy: Any, ahead: float):
        self.manager, self.names = manager, []
        self.cluster = pool(max(int(round(manager.cores()[0] * (1.0 + ahead))), 1))
        try:
            getattr(policy, "check", lambda cluster: None)(self.cluster)
        except InputError:
            every = manager.nodes()
            if not every:
                raise
            self.names = [n.name for n in every]
            kinds = sorted({n.kind for n in every})
            classes = np.array([kinds.index(n.kind) for n in every]) if kinds != [""] else None
            self.cluster = Cluster(np.array([[n.cores] for n in every], np.int64), ("cores",), classes=classes)
            if self.cluster.is_pool:
                raise InputError(f"policy {policy.name}: there is one node, {every[0].name}: nothing to choose from") from None
            policy.check(self.cluster)

    def row(self, name: str) -> int:
        """The node of this name; -1: none, or a pool."""
        return self.names.index(name) if name in self.names else -1

    def free(self, held: np.ndarray, running: np.ndarray) -> np.ndarray:
        """[N, 1] cores that are free: `held` [N] are those of our jobs that were submitted, `running` [N] of those among them
        that run. Cores that others use, and nodes that are down, are not."""
        if not self.names:
            return np.maximum(self.cluster.capacity - held.sum(), 0)
        now: dict[str, Node] = {n.name: n for n in self.manager.nodes()}
        free = np.array([now[name].free if name in now else 0 for name in self.names])
        return np.maximum(free - (held - running), 0)[:, None] * (free > 0)[:, None]

    def slices(self, node: np.ndarray, cores: np.ndarray) -> np.ndarray:
        """[J] of `slice_dtype`: job j holds `cores[j]` of `node[j]`."""
        out = np.zeros(len(node), slice_dtype(1))
        out["node"], out["next"], out["amount"][:, 0] = np.maximum(node, 0), -1, cores
        return out

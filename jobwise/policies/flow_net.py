"""An order of workflows by a graph network that may keep tasks waiting (`jobwise.sim.flow_net`), and its policy file."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import numpy as np

from jobwise.errors import InputError
from jobwise.policies import files
from jobwise.sim.flow_net import ALL, FLOW, OWN, D, N
from jobwise.sim.flows import Flows, flows, with_net
from jobwise.sim.orders import CODES, FLOW_NET

BASES = ("flow-work", "flow-sjf", "flow-bound", "flow-path", "flow-work-path")  # what it may begin from
SHAPE = [OWN, FLOW, ALL, D, N]


@dataclass(frozen=True, eq=False)
class FlowNet:
    """`net` [N] numbers of the network, which corrects the order `base`. Raises InputError."""

    label: str
    net: np.ndarray
    base: str
    about: dict = field(default_factory=dict)
    code: ClassVar[int] = FLOW_NET  # of the kernels

    def __post_init__(self):
        if self.base not in BASES:
            raise InputError(f"order {self.label}: begins from {self.base!r}; it may begin from {', '.join(BASES)}")
        if np.shape(self.net) != (N,) or not np.isfinite(self.net).all():
            raise InputError(f"order {self.label}: {N} finite numbers are needed")

    def attach(self, jobs: np.ndarray, edges: np.ndarray, units: int) -> Flows:
        """The workflows of a job table, with the network's view of their tasks. `edges` [M, 2]: rows (parent, child)."""
        edges = edges[(edges < len(jobs)).all(axis=1)]
        return with_net(flows(jobs), np.asarray(self.net, float), CODES[self.base], jobs, edges, units)


def save(order: FlowNet, reserve: tuple[float, float], path: str | Path) -> None:
    """Write its policy file, whole or not at all; `reserve`: of the list scheduler that it is the order of."""
    meta = {"kind": "flow-net", "shape": SHAPE, "label": order.label, "base": order.base, "about": order.about}
    meta["reserve"] = [reserve[0], reserve[1] if reserve[0] else 0.0]
    files.write(path, meta, {"net": np.asarray(order.net, float)})


def from_file(parts: dict, tensors: dict[str, np.ndarray], label: str) -> tuple[FlowNet, tuple[float, float]]:
    """(the order of a policy file that has been read, the reserve). Raises ValueError for one of another version."""
    if parts["shape"] != SHAPE:
        raise ValueError(f"its network has the shape {parts['shape']}; this version has {SHAPE}")
    share, short = map(float, parts["reserve"])
    return FlowNet(label, tensors["net"], parts["base"], dict(parts["about"])), (share, short) if share else (0.0, np.inf)

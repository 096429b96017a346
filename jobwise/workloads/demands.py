"""Requests of workflow tasks on a machine with a pool of each of its resources. A new resource is a row of DEMANDS."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from jobwise.cluster import Cluster
from jobwise.errors import unknown


class Demand(NamedTuple):
    """A resource: `units` [N] of a table of tasks, before they are rounded up; `field` of that table, which `of_units` makes of
    units [N] and the table again. `shared`: a task that could take more than there is takes all, and waits for no more."""

    field: str
    units: Callable[[np.ndarray], np.ndarray]
    of_units: Callable[[np.ndarray, np.ndarray], np.ndarray] = lambda units, tasks: units
    shared: bool = False


def _expected(tasks: np.ndarray) -> np.ndarray:
    """[N] s that tasks are expected to take, 1 at least."""
    return np.maximum(tasks["estimate"], 1.0)


_CORES = Demand("cores", lambda t: t["cores"])
DEMANDS = {  # by the names of resources
    "processors": _CORES,
    "cores": _CORES,
    "memory": Demand("memory", lambda t: t["memory"]),  # MB
    "gpus": Demand("gpus", lambda t: t["gpus"]),
    "io": Demand("io", lambda t: t["io"] / _expected(t), lambda units, t: units * _expected(t), shared=True),  # MB/s
}


def demands(tasks: np.ndarray, cluster: Cluster) -> np.ndarray:
    """[N, R] what tasks request of each resource. Raises InputError for resources that tasks know nothing of."""
    out = np.zeros((len(tasks), len(cluster.resources)), np.int64)
    for r, name in enumerate(cluster.resources):
        if name not in DEMANDS:
            raise unknown("resource", name, DEMANDS, "workflows: ")
        out[:, r] = np.ceil(DEMANDS[name].units(tasks))
        if DEMANDS[name].shared:
            out[:, r] = np.minimum(out[:, r], cluster.total[r])
    return out


def fill(tasks: np.ndarray, request: np.ndarray, cluster: Cluster) -> None:
    """Write into a table of tasks what jobs that request [N, R] ask for; other resources stay as they are."""
    for r, name in enumerate(cluster.resources):
        if demand := DEMANDS.get(name):
            tasks[demand.field] = demand.of_units(request[:, r], tasks)


def needed(tasks: np.ndarray, units: dict[str, int]) -> dict[str, int]:
    """Return those of these resources, with their units, that a task of the table asks for."""
    return {name: n for name, n in units.items() if DEMANDS[name].units(tasks).any()}

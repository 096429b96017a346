"""Generated jobs by name: the unseen jobset of a number, of each world that has some."""

from __future__ import annotations

from jobwise.cluster import Cluster
from jobwise.workload import Workload
from jobwise.workloads import affinity, dnn, jobsets
from jobwise.workloads.failing import failing
from jobwise.workloads.jobsets import TEST


def slots(name: str, number: int, machine: Cluster | None) -> Workload:
    """Return the unseen jobset `number` of deeprm or cush."""
    return jobsets.unseen(name, number)


def gpus(name: str, number: int, machine: Cluster | None) -> Workload:
    """Return the unseen sequence `number` of rl-taps, on `machine` if it is given."""
    return dnn.rltaps(seed=[TEST, number], machine=machine)


def nodes(name: str, number: int, machine: Cluster | None) -> Workload:
    """Return the unseen jobset `number` of distances, affinities or failing."""
    make = failing if name == "failing" else getattr(affinity, name)
    return make(seed=[TEST, number])

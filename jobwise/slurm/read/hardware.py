"""The nodes of a site: what jobs can have of them, in which pieces, and which partitions share them or give them whole."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from jobwise.cluster import Cluster
from jobwise.site import RESOURCES, Site, ask_dtype, association_dtype, partition_dtype, qos_dtype
from jobwise.slurm.read.requests import types_of
from jobwise.slurm.read.text import gpus, nodes, said
from jobwise.slurm.read.unsimulated import UNSIMULATED


class Sets:
    """Node sets, each once; the first is that of all nodes."""

    def __init__(self, count: int):
        self.count, self.known = count, {np.ones(count, np.uint8).tobytes(): 0}

    def add(self, members: Iterable[int]) -> int:
        """The number of a set of nodes."""
        row = np.zeros(self.count, np.uint8)
        row[list(members)] = 1
        return self.known.setdefault(row.tobytes(), len(self.known))

    def table(self) -> np.ndarray:
        """[M, N] of 0 and 1."""
        return np.array([np.frombuffer(k, np.uint8) for k in self.known])


def nodes_of(machines: list[dict], set_: np.void) -> tuple[Site, Cluster, Sets, list[set[str]]]:
    """(the site so far, its cluster, its node sets, the features of each node)."""
    names = tuple(r["NodeName"] for r in machines)
    capacity = np.array([_capacity(r) for r in machines], np.int64)
    weight = np.array([int(r.get("Weight", 1)) for r in machines], np.int64)
    features = [set(said(r.get("AvailableFeatures", "")).split(",")) for r in machines]
    sets = Sets(len(names))
    site = Site(
        weight=weight,
        sets=sets.table(),
        asks=np.zeros(0, ask_dtype),
        partitions=np.zeros(0, partition_dtype),
        queues=np.zeros((0, 1), np.int32),
        qos=np.zeros(0, qos_dtype),
        associations=np.zeros(0, association_dtype),
        leaf=np.zeros((0, 0), np.int32),
        settings=np.array([set_]),
        names=names,
    )
    return site, Cluster(capacity, RESOURCES), sets, features


def _capacity(r: dict[str, str]) -> tuple[int, int, int]:
    """What jobs can have of a node: CPUs, memory (MiB), GPUs; some CPUs and memory may be kept for the system. Raises
    ValueError, KeyError."""
    cpus, memory = int(r["CPUTot"]), int(r["RealMemory"])
    kept = int(said(r.get("CoreSpecCount", "")) or 0) * max(int(r.get("ThreadsPerCore") or 1), 1)
    cpus = int(x) if (x := said(r.get("CPUEfctv", ""))) and int(x) > 0 else cpus - kept
    return cpus, memory - int(said(r.get("MemSpecLimit", "")) or 0), gpus(said(r.get("Gres", "")))


def _unit(r: dict[str, str], parameters: str) -> int:
    """The CPUs of a node that one job has together: a core (CR_Core), a socket (CR_Socket), one (CR_CPU)."""
    threads, cores = max(int(r.get("ThreadsPerCore") or 1), 1), max(int(r.get("CoresPerSocket") or 1), 1)
    which = parameters.lower()
    return 1 if "cr_cpu" in which else threads * cores if "cr_socket" in which else threads


@dataclass(frozen=True)
class Sharing:
    """How jobs share nodes. `unit`: CPUs of a node that one job has together; `whole`: partitions whose jobs have whole nodes;
    `times` [N]: how many jobs may have each CPU at once; `types` of GPUs of each node; `notes`: remarks."""

    unit: int = 1
    whole: frozenset[str] = frozenset()
    times: tuple[int, ...] = ()
    types: tuple[dict[str, int], ...] = ()
    notes: tuple[str, ...] = ()


def sharing(machines: list[dict[str, str]], queues: list[dict[str, str]], known: dict[str, str]) -> Sharing:
    """Return how jobs share nodes, by the records of nodes and partitions and the configuration. Raises ValueError."""
    parameters, linear, notes = known.get("selecttypeparameters", ""), known.get("selecttype", "").endswith("linear"), []
    units = [_unit(r, parameters) for r in machines]
    if (unit := min(units, default=1)) > 1:
        what = "socket" if "socket" in parameters.lower() else "core"
        note = (
            f"{what}s of {unit} CPUs: jobs have whole {what}s, as AllocTRES has them; where in a node they lie does not count"
        )
        notes.append(note + f" (some nodes have {what}s of {max(units)}: the smallest is taken)" * (max(units) > unit))
    types = tuple(types_of(said(r.get("Gres", ""))) for r in machines)
    if mixed := [r for r, x in zip(machines, types, strict=True) if len(x) > 1]:
        first = f"Gres={mixed[0]['Gres'][:40]} of {mixed[0]['NodeName']} ({len(mixed)} nodes)"
        notes.append(f"{UNSIMULATED}{first}: GPUs of several types in a node are counted together")
    whole = [r["PartitionName"] for r in queues if linear or "EXCLUSIVE" in r.get("OverSubscribe", "") or _by_node(r)]
    times = {r["NodeName"]: 1 for r in machines}
    for r in queues:
        kind, _, most = r.get("OverSubscribe", "").partition(":")
        if kind == "FORCE" and most.isdigit() and int(most) > 1:
            notes.append(f"OverSubscribe=FORCE:{most} of {r['PartitionName']}: each CPU of its nodes counts {most} times")
            times |= {n: max(times.get(n, 1), int(most)) for n in nodes(r["Nodes"])}
    return Sharing(unit, frozenset(whole), tuple(times[r["NodeName"]] for r in machines), types, tuple(notes))


def _by_node(r: dict[str, str]) -> bool:
    """Has a partition whole nodes, as 25.05 and later print it?"""
    return r.get("Exclusive", "").upper() == "NODE"

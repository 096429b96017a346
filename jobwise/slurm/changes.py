"""Changes of a site that can be tried: a line of slurm.conf, a partition, a QOS, more or fewer nodes, better time limits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from jobwise.errors import InputError, unknown
from jobwise.sim.node_choice import choose, rooms
from jobwise.sim.node_sets import packed
from jobwise.site import LIMITS
from jobwise.slurm import conf
from jobwise.slurm.startable import check
from jobwise.slurm.text import pairs, resources, said, seconds
from jobwise.workload import Workload
from jobwise.workloads.transform import limited


def changed(w: Workload, lines: Sequence[str] = (), nodes: int = 0, limits: float | None = None) -> Workload:
    """The same jobs on a changed site. `lines`: of slurm.conf (`PriorityWeightAge=1000`, `bf_window=2880`,
    `PartitionName=batch MaxTime=1-0`) or of sacctmgr (`QOS=long MaxTRESPU=cpu=64`); `nodes`: so many more, like the last, or
    fewer; `limits`: no time limit above so many times the run time. Raises InputError."""
    if w.cluster.site is None:
        raise InputError(f"{w.name}: is no site; `jobwise slurm site` prints the commands that fill a folder")
    for text in lines:
        w = _line(w, text)
    if nodes:
        w = _resized(w, nodes)
    if limits is not None:
        w = limited(w, limits)
    check(w)
    return w


def _line(w: Workload, text: str) -> Workload:
    site = w.cluster.site
    word = text.partition("=")[0].strip().lower()
    if word in ("partitionname", "partition"):
        site = replace(site, partitions=_row(site.partitions, site.partition_names, text, PARTITION))
    elif word in ("qos", "qosname", "name"):
        site = replace(site, qos=_row(site.qos, site.qos_names, text, QOS))
    else:
        site = replace(site, settings=conf.change(site.settings, text))
    return replace(w, cluster=replace(w.cluster, site=site))


def _limit(column: str, at: int):
    def put(row: np.void, value: str) -> None:
        row[column][at] = float(value) if said(value) else np.inf

    return put


def _tres(column: str):
    def put(row: np.void, value: str) -> None:
        found = resources(value)
        for i, key in enumerate(("cpu", "mem", "gpu", "node"), 1):
            if f"{key}=" in value:
                row[column][i] = found[key]

    return put


def _put(column: str, read):
    def put(row: np.void, value: str) -> None:
        row[column] = read(value)

    return put


def _any(value: str) -> float:
    return float(value) if said(value) else np.inf


PARTITION = {
    "MaxTime": _put("max_time", seconds),
    "MaxNodes": _put("max_nodes", _any),
    "PriorityJobFactor": _put("factor", float),
    "PriorityTier": _put("tier", int),
    "State": _put("up", lambda x: x.upper() == "UP"),
}
QOS = {
    "Priority": _put("priority", float),
    "MaxWall": _put("max_wall", seconds),
    "MaxJobsPU": _limit("user", LIMITS.index("jobs")),
    "GrpJobs": _limit("all", LIMITS.index("jobs")),
    "MaxTRESPU": _tres("user"),
    "GrpTRES": _tres("all"),
}


def _row(table: np.ndarray, names: Sequence[str], text: str, keys: dict) -> np.ndarray:
    (_, name), *rest = pairs(text).items()
    if name not in names:
        raise unknown("name", name, list(names), f"{text!r}: ")
    found = table.copy()
    if not rest:
        raise InputError(f"{text!r}: what of it changes? e.g. {next(iter(keys))}=…")
    for key, value in rest:
        if key not in keys:
            raise unknown("key that is simulated", key, list(keys), f"{text!r}: ")
        try:
            keys[key](found[names.index(name)], value)
        except ValueError:
            raise InputError(f"{text!r}: {value!r} is no value of {key}") from None
    return found


def _resized(w: Workload, more: int) -> Workload:
    """So many nodes more, each like the last one, in its partitions; or fewer, the last ones are gone."""
    site, capacity = w.cluster.site, w.cluster.capacity
    count = len(capacity) + more
    if count < 1:
        raise InputError(f"a site of {len(capacity)} nodes cannot lose {-more}")
    if len(w.cluster.outages):
        raise InputError("nodes are neither added to nor taken from a site with outages")
    rows = np.minimum(np.arange(count), len(capacity) - 1)
    names = tuple(site.names[i] if i < len(site.names) else f"more{i - len(capacity) + 1}" for i in range(count))
    site = replace(site, weight=site.weight[rows], sets=site.sets[:, rows], names=names)
    w = replace(w, cluster=replace(w.cluster, capacity=capacity[rows], site=site))
    if more < 0:
        fits = fitting(w)
        if not fits.all():
            n = int((~fits).sum())
            raise InputError(f"{n:,} job{'s' * (n > 1)} could never start on {count} nodes (the first: row {np.argmin(fits)})")
    return w


def fitting(w: Workload) -> np.ndarray:
    """[J] could each job start on the empty nodes of one of its partitions?"""
    site, capacity = w.cluster.site, w.cluster.capacity
    kinds, which = np.unique(np.stack([w.jobs["ask"], w.jobs["partition"]], axis=1), axis=0, return_inverse=True)
    sets, room, node = packed(site.sets), rooms(len(capacity)), np.zeros(len(capacity), np.int32)

    def one(ask: np.void, queue: int) -> bool:
        for p in site.queues[queue]:
            mask = sets[site.partitions[p]["set"]] & sets[ask["set"]]
            if p >= 0 and choose(ask, mask, mask, capacity, capacity, site.weight, room, node) > 0:
                return True
        return False

    return np.array([one(site.asks[a], q) for a, q in kinds])[which.reshape(-1)]

"""Changes of a site that can be tried: a line of slurm.conf, a partition, a QOS, more or fewer nodes, better time limits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from jobwise.errors import InputError, unknown
from jobwise.sim.site.node_choice import choice_of
from jobwise.sim.site.node_sets import packed
from jobwise.site import LIMITS, Site
from jobwise.slurm.read import conf
from jobwise.slurm.read.startable import check
from jobwise.slurm.read.text import amount, memory, pairs, said, seconds
from jobwise.slurm.read.text import nodes as nodes_of
from jobwise.workload import Workload
from jobwise.workloads.transform import ended_at, limited, stretch

MOST_NODES = 100_000


def changed(
    w: Workload, lines: Sequence[str] = (), nodes: int = 0, limits: float | None = None, demand: float | None = None
) -> Workload:
    """Return the jobs on a changed site. Jobs that ask for more time than a new MaxTime or MaxWall lets them end at it; the
    workload's notes count them.

    Parameters
    ----------
    w : Workload
        The jobs on the site as it is.
    lines : sequence of str
        Lines of slurm.conf (`PriorityWeightAge=1000`, `bf_window=2880`, `PartitionName=batch MaxTime=1-0 Nodes=n[1-8]`) or of
        sacctmgr (`QOS=long MaxTRESPU=cpu=64`).
    nodes : int
        Number of nodes that are added, like the last one, or (< 0) taken away.
    limits : float, optional
        No time limit above this multiple of the run time.
    demand : float, optional
        This many times as many jobs in the same time: the gaps between submits shrink.

    Raises
    ------
    InputError
        A line is none, or jobs could never start.
    """
    if w.cluster.site is None:
        raise InputError(f"{w.name}: is no site; `jobwise slurm site` prints the commands that fill a folder")
    sets = len(w.cluster.known_site.sets)
    for text in lines:
        w = _line(w, text)
    if len(w.cluster.known_site.sets) > sets and not (fits := fitting(w)).all():
        n = int((~fits).sum())
        raise InputError(f"{n:,} of {len(w):,} jobs could never start on the nodes of their partitions then")
    if nodes:
        w = _resized(w, nodes)
    if limits is not None:
        w = limited(w, limits)
    if demand is not None:
        if not 0 < demand < 1000:
            raise InputError(f"a demand of {demand:g} times the present one cannot be tried")
        w = stretch(w, 1 / demand)
    w = _ended(w)
    check(w)
    return w


def _ended(w: Workload) -> Workload:
    """The jobs with the time that their partitions and QOS let them have at most, at which they end; noted with counts."""
    site, queues = w.cluster.known_site, w.cluster.known_site.queues[w.jobs["partition"]]
    most = np.where(queues >= 0, site.partitions["max_time"][queues], 0.0).max(axis=1)
    if len(site.qos):
        own = w.jobs["queue"]
        known = (own >= 0) & (own < len(site.qos))
        most = np.minimum(most, np.where(known, site.qos["max_wall"][np.where(known, own, 0)], np.inf))
    return ended_at(w, most)


def _line(w: Workload, text: str) -> Workload:
    site = w.cluster.known_site
    word = text.partition("=")[0].strip().lower()
    if word in ("partitionname", "partition"):
        site, text = _moved(site, text)
        if text:
            site = replace(site, partitions=_row(site.partitions, site.partition_names, text, PARTITION))
    elif word in ("qos", "qosname", "name"):
        site = replace(site, qos=_row(site.qos, site.qos_names, text, QOS))
    else:
        site = replace(site, settings=conf.change(site.settings, text))
    return replace(w, cluster=replace(w.cluster, site=site))


def _moved(site: Site, text: str) -> tuple[Site, str]:
    """(the site with the nodes that `Nodes=` gives a partition, the rest of the line, "" for none). Raises InputError."""
    keys = pairs(text)
    name, value = next(iter(keys.values()), ""), next((v for k, v in keys.items() if k.lower() == "nodes"), None)
    if value is None or name not in site.partition_names:
        return site, text
    try:
        members = list(site.names) if value.upper() == "ALL" else nodes_of(value)
    except ValueError as error:
        raise InputError(f"{text!r}: {error}") from None
    if not members or (lost := sorted(set(members) - set(site.names))):
        raise unknown("node", lost[0] if members else value, list(site.names), f"{text!r}: ")
    partitions = site.partitions.copy()
    partitions["set"][site.partition_names.index(name)] = len(site.sets)
    sets = np.concatenate([site.sets, np.isin(site.names, members)[None].astype(site.sets.dtype)])
    rest = " ".join(f"{k}={v}" for k, v in keys.items() if k.lower() != "nodes")
    return replace(site, sets=sets, partitions=partitions), rest if len(keys) > 2 else ""


def _most(text: str) -> float:
    """A limit; none where the text says so, or -1. Raises ValueError."""
    if not text:
        raise ValueError("nothing")
    return amount(text) if said(text) else np.inf


def _limit(column: str, at: int) -> Any:
    def put(row: np.void, value: str) -> None:
        row[column][at] = _most(value)

    return put


TRES = ("cpu", "mem", "gres/gpu", "node")


def _tres(column: str) -> Any:
    def put(row: np.void, value: str) -> None:
        for word in value.split(","):
            key, has, text = word.partition("=")
            if not has or key not in TRES:
                raise ValueError(word)
            most = float(memory(text)) if key == "mem" and said(text) else _most(text)
            row[column][1 + TRES.index(key)] = most

    return put


def _put(column: str, read: Any) -> Any:
    def put(row: np.void, value: str) -> None:
        row[column] = read(value)

    return put


def _time(text: str) -> float:
    if not text:
        raise ValueError("nothing")
    return seconds(text)


def _tier(text: str) -> int:
    if not 0 <= int(text) < 65_534:
        raise ValueError(text)
    return int(text)


def _state(text: str) -> bool:
    if text.upper() not in ("UP", "DOWN", "INACTIVE", "DRAIN"):
        raise ValueError(text)
    return text.upper() == "UP"


PARTITION = {
    "Nodes": None,  # by _moved: of the site, not of the row
    "MaxTime": _put("max_time", _time),
    "MaxNodes": _put("max_nodes", _most),
    "PriorityJobFactor": _put("factor", amount),
    "PriorityTier": _put("tier", _tier),
    "State": _put("up", _state),
}
QOS = {
    "Priority": _put("priority", amount),
    "MaxWall": _put("max_wall", _time),
    "MaxJobsPU": _limit("user", LIMITS.index("jobs")),
    "GrpJobs": _limit("all", LIMITS.index("jobs")),
    "MaxTRESPU": _tres("user"),
    "GrpTRES": _tres("all"),
}


def _row(table: np.ndarray, names: Sequence[str], text: str, keys: dict) -> np.ndarray:
    known = {k.lower(): k for k in keys}
    (_, name), *rest = pairs(text).items() or [("", "")]
    if name not in names:
        raise unknown("name", name, list(names), f"{text!r}: ")
    changed = table.copy()
    if not rest:
        raise InputError(f"{text!r}: what of it changes? e.g. {next(iter(keys))}=…")
    for key, value in rest:
        if key.lower() not in known:
            raise unknown("key", key, list(keys), f"{text!r}: ")
        try:
            keys[known[key.lower()]](changed[names.index(name)], value)
        except (ValueError, OverflowError):
            raise InputError(f"{text!r}: {value!r} is no value of {key}") from None
    return changed


def _resized(w: Workload, more: int) -> Workload:
    """Add `more` nodes like the last one, in its partitions; or (`more` < 0) take away the last nodes."""
    site, capacity = w.cluster.known_site, w.cluster.capacity
    count = len(capacity) + more
    if count < 1:
        raise InputError(f"a site of {len(capacity)} nodes cannot lose {-more}")
    if count > MOST_NODES:
        raise InputError(f"{count:,} nodes are too many; at most {MOST_NODES:,}")
    if len(w.cluster.outages):
        raise InputError("nodes are neither added to nor taken from a site with outages")
    rows = np.minimum(np.arange(count), len(capacity) - 1)
    names = tuple(site.names[i] if i < len(site.names) else f"more{i - len(capacity) + 1}" for i in range(count))
    sets, closures = site.sets[:, rows], site.closures.copy()
    broken = closures["announced"] == 0
    if more > 0 and broken.any():  # what breaks one node does not break those that are like it
        own = sets[closures["set"][broken]]
        own[:, len(capacity) :] = 0
        closures["set"][broken] = len(sets) + np.arange(len(own))
        sets = np.concatenate([sets, own])
    site = replace(site, weight=site.weight[rows], sets=sets, names=names, closures=closures)
    w = replace(w, cluster=replace(w.cluster, capacity=capacity[rows], site=site))
    if more < 0:
        fits = fitting(w)
        if not fits.all():
            n = int((~fits).sum())
            raise InputError(f"{n:,} job{'s' * (n > 1)} could never start on {count} nodes (the first: row {np.argmin(fits)})")
    return w


def fitting(w: Workload) -> np.ndarray:
    """[J] could each job start on the empty nodes of one of its partitions?"""
    site, capacity = w.cluster.known_site, w.cluster.capacity
    kinds, which = np.unique(np.stack([w.jobs["ask"], w.jobs["partition"]], axis=1), axis=0, return_inverse=True)
    sets, choice = packed(site.sets), choice_of(capacity, capacity, site.weight)

    def one(ask: np.void, queue: int) -> bool:
        for p in site.queues[queue]:
            mask = sets[site.partitions[p]["set"]] & sets[ask["set"]]
            if p >= 0 and len(choice(ask, mask)):
                return True
        return False

    return np.array([one(site.asks[a], q) for a, q in kinds])[which.reshape(-1)]

"""Guesses about a site without data of its own, from the jobs that ran there."""

from __future__ import annotations

from collections import defaultdict
from functools import partial

import numpy as np

from jobwise.errors import InputError
from jobwise.slurm.read.text import nodes, resources
from jobwise.workloads.accounting import Accounting
from jobwise.workloads.sacct import elapsed, ran

MOST_HELD = 20_000_000  # names in all lists of nodes of a file


def _amount(key: str, text: str) -> float:
    return resources(text).get(key, 0)


def _held(a: Accounting) -> tuple[np.ndarray, list[list[str]]]:
    """([J] which list of nodes each job ran on, the lists). Raises InputError."""
    which, texts = a.distinct("NodeList")
    held, count = [], 0
    for i, text in enumerate(texts):
        try:
            held.append([] if "assigned" in text else nodes(text))  # None assigned
            count += len(held[-1])
            if count > MOST_HELD:
                raise ValueError(f"lists up to here name {count:,} nodes, more than {MOST_HELD:,}")
        except ValueError as error:
            raise a.wrong(np.flatnonzero(which == i), str(error)) from None
    return which, held


def machines(a: Accounting) -> list[dict[str, str]]:
    """Records of nodes, no larger than what jobs prove. A job on one node held there all that it got: a node has at least the
    most that such jobs held of it at once. How the share of a job on several nodes is spread is not recorded: those nodes
    together have at least what it got, and all nodes what all jobs held at once; where more is needed the smallest grow."""
    a, start, _ = ran(a)
    held, lists = _held(a)
    got = np.stack([a.map(partial(_amount, key), "AllocTRES") for key in ("cpu", "mem", "gpu")], 1)
    when = np.concatenate([start, start + elapsed(a, start)])
    sign = np.repeat([1, -1], len(a))
    order = np.lexsort((sign, when))  # ends first
    names = sorted({n for x in lists for n in x})
    if not names:
        raise InputError(f"{a.where}: no job names its nodes, and scontrol_node.txt is missing; the machine is unknown")
    place = {n: i for i, n in enumerate(names)}
    where = [np.array([place[n] for n in lists[h]], int) for h in held]
    most = np.tile([1.0, 1.0, 0.0], (len(names), 1))
    now = np.zeros_like(most)
    for i in order:
        j = i % len(a)
        if len(where[j]) == 1:
            n = where[j][0]
            now[n] += sign[i] * got[j]
            most[n] = np.maximum(most[n], now[n])
    for j in sorted(range(len(a)), key=lambda j: len(where[j])):
        if len(where[j]) > 1:
            most[where[j]] = _grown(most[where[j]], got[j])
    most = _grown(most, np.cumsum(sign[order, None] * got[order % len(a)], axis=0).max(axis=0))
    return [
        {"NodeName": n, "CPUTot": f"{c:.0f}", "RealMemory": f"{m:.0f}", "Gres": f"gpu:{g:.0f}" if g else ""}
        for n, (c, m, g) in zip(names, most, strict=True)
    ]


def _grown(nodes: np.ndarray, needed: np.ndarray) -> np.ndarray:
    """Nodes [N, 3] that have together at least what is needed [3]: the smallest grow, alike."""
    nodes = nodes.copy()
    for k in range(3):
        while (lacking := needed[k] - nodes[:, k].sum()) > 0:
            low = np.flatnonzero(nodes[:, k] == nodes[:, k].min())
            above = nodes[:, k][nodes[:, k] > nodes[:, k].min()]
            step = min((above.min() if len(above) else np.inf) - nodes[low[0], k], max(lacking // len(low), 1.0))
            nodes[low[: int(max(min(len(low), np.ceil(lacking / step)), 1))], k] += step
    return nodes


def partitions_of(machines: list[dict[str, str]]) -> list[dict[str, str]]:
    """Records of partitions by what the records of nodes say: `Partitions=batch,debug`."""
    users: dict[str, list[str]] = defaultdict(list)
    for r in machines:
        for p in filter(None, r.get("Partitions", "").split(",")):
            users[p].append(r["NodeName"])
    return [{"PartitionName": p, "Nodes": ",".join(names)} for p, names in users.items()]


def partitions(a: Accounting) -> list[dict[str, str]]:
    """Records of partitions: the nodes that their jobs ran on."""
    a, _, _ = ran(a)
    held, lists = _held(a)
    which, names = a.distinct("Partition")
    users: dict[str, set[str]] = defaultdict(set)
    for p, k in np.unique(np.stack([which, held], axis=1), axis=0):
        for name in names[p].split(","):
            users[name].update(lists[k])
    return [{"PartitionName": p, "Nodes": ",".join(sorted(x))} for p, x in users.items() if p]

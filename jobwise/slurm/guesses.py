"""What a site must have, by the jobs that ran there, where it says nothing itself."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from jobwise.errors import InputError
from jobwise.slurm.text import nodes, resources
from jobwise.workloads.accounting import Accounting
from jobwise.workloads.sacct import elapsed, ran

MOST_HELD = 20_000_000  # names in all lists of nodes of a file


def _held(a: Accounting) -> tuple[np.ndarray, list[list[str]]]:
    """([J] which list of nodes each job ran on, the lists). Raises InputError."""
    which, texts = a.distinct("NodeList")
    found, count = [], 0
    for i, text in enumerate(texts):
        try:
            found.append([] if "assigned" in text else nodes(text))  # None assigned
            count += len(found[-1])
            if count > MOST_HELD:
                raise ValueError(f"lists up to here name {count:,} nodes, more than {MOST_HELD:,}")
        except ValueError as error:
            raise a.wrong(int(np.flatnonzero(which == i)[0]), str(error)) from None
    return which, found


def machines(a: Accounting) -> list[dict[str, str]]:
    """Records of nodes: as large as the most that jobs held of each at once. How a job's share is spread over its nodes is not
    recorded: each is taken to have given an equal share, rounded down, and nodes grow beyond that only where a job that ran
    there would not fit, so that no more is there than jobs have used."""
    a, start, _ = ran(a)
    held, lists = _held(a)
    got = np.stack([a.map(lambda text, key=key: resources(text).get(key, 0), "AllocTRES") for key in ("cpu", "mem", "gpu")], 1)
    share = np.floor(got / np.maximum([len(x) for x in lists], 1)[held][:, None])
    when = np.concatenate([start, start + elapsed(a, start)])
    begins = np.repeat([1, 0], len(a))
    now, most = defaultdict(lambda: np.zeros(3)), defaultdict(lambda: np.array([1.0, 1.0, 0.0]))
    for i in np.lexsort((begins, when)):
        j, sign = i % len(a), 1 if begins[i] else -1
        for n in lists[held[j]]:
            now[n] += sign * share[j]
            most[n] = np.maximum(most[n], now[n])
    _grown(most, got, [lists[h] for h in held])
    if not most:
        raise InputError(f"{a.where}: no job names its nodes, and scontrol_node.txt is missing; the machine is unknown")
    return [
        {"NodeName": n, "CPUTot": f"{c:.0f}", "RealMemory": f"{m:.0f}", "Gres": f"gpu:{g:.0f}" if g else ""}
        for n, (c, m, g) in sorted(most.items())
    ]


def _grown(most: dict[str, np.ndarray], got: np.ndarray, lists: list[list[str]]) -> None:
    """Let nodes grow until every job fits the nodes that it ran on, the ones with the least first. `got` [J, 3]."""
    for job, names in sorted(zip(map(tuple, got), lists, strict=True), key=lambda x: len(x[1])):
        for k in range(3):
            lacking = int(job[k] - sum(most[n][k] for n in names)) if names else 0
            each, rest = divmod(max(lacking, 0), max(len(names), 1))
            for i, n in enumerate(sorted(names, key=lambda n: most[n][k]) if lacking > 0 else ()):
                most[n][k] += each + (i < rest)


def partitions_of(machines: list[dict[str, str]]) -> list[dict[str, str]]:
    """Records of partitions by what the records of nodes say: `Partitions=batch,debug`."""
    found: dict[str, list[str]] = defaultdict(list)
    for r in machines:
        for p in filter(None, r.get("Partitions", "").split(",")):
            found[p].append(r["NodeName"])
    return [{"PartitionName": p, "Nodes": ",".join(names)} for p, names in found.items()]


def partitions(a: Accounting) -> list[dict[str, str]]:
    """Records of partitions: the nodes that their jobs ran on."""
    a, _, _ = ran(a)
    held, lists = _held(a)
    which, names = a.distinct("Partition")
    found: dict[str, set[str]] = defaultdict(set)
    for p, k in np.unique(np.stack([which, held], axis=1), axis=0):
        for name in names[p].split(","):
            found[name].update(lists[k])
    return [{"PartitionName": p, "Nodes": ",".join(sorted(x))} for p, x in found.items() if p]

"""What a site must have, by the jobs that ran there, where it says nothing itself."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from jobwise.errors import InputError
from jobwise.slurm.jobs import ran
from jobwise.slurm.text import nodes, resources
from jobwise.workloads.sacct import stamp


def _held(r: dict[str, str], where: str) -> list[str]:
    """The nodes that a job ran on. Raises InputError."""
    text = r.get("NodeList", "")
    try:
        return [] if "assigned" in text else nodes(text)  # None assigned
    except ValueError as error:
        raise InputError(f"{where}: {error}") from None


def machines(rows: list[dict], where: str) -> list[dict[str, str]]:
    """Records of nodes: as large as the most that jobs held of each at once, if what a job got is shared by its nodes alike."""
    happened, now, most = [], defaultdict(lambda: np.zeros(3)), defaultdict(lambda: np.array([1.0, 1.0, 0.0]))
    for _, r in ran(rows, where)[0]:
        got = resources(r.get("AllocTRES", ""))
        held = _held(r, where)
        share = np.ceil([got.get(key, 0) / max(len(held), 1) for key in ("cpu", "mem", "gpu")])
        begin = stamp(r["Start"], where, 0, "Start")
        happened += [(begin, 1, held, share), (begin + float(r["ElapsedRaw"]), 0, held, share)]
    for _, begins, held, share in sorted(happened, key=lambda x: x[:2]):
        for n in held:
            now[n] += share if begins else -share
            most[n] = np.maximum(most[n], now[n])
    if not most:
        raise InputError(f"{where}: no job names its nodes, and scontrol_node.txt is missing; the machine is unknown")
    return [
        {"NodeName": n, "CPUTot": f"{c:.0f}", "RealMemory": f"{m:.0f}", "Gres": f"gpu:{g:.0f}" if g else ""}
        for n, (c, m, g) in sorted(most.items())
    ]


def partitions(rows: list[dict], where: str) -> list[dict[str, str]]:
    """Records of partitions: the nodes that their jobs ran on."""
    found: dict[str, set[str]] = defaultdict(set)
    for _, r in ran(rows, where)[0]:
        for p in r["Partition"].split(","):
            found[p].update(_held(r, where))
    return [{"PartitionName": p, "Nodes": ",".join(sorted(x))} for p, x in found.items() if p]

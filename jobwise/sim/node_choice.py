"""Which nodes a job gets on a site, as Slurm chooses them (select/cons_tres, one or several resources, no topology).

Usable nodes of one weight that lie beside each other are a run. Of the lightest runs that with the fewest CPUs that suffice
gives the nodes, else that with the most, and then the next; inside a run a single node that suffices with the fewest CPUs to
spare, else the lowest numbers first. Tasks fill the chosen nodes one after the other, each has at least one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from jobwise.sim.compiled import inlined, kernel

CPUS, MEMORY, GPUS = range(3)
MANY = 1 << 40


@inlined
def room(ask, free, capacity, i):
    """CPUs of node i that tasks of the job could have; 0: it is of no use."""
    if ask["whole"]:
        for r in range(free.shape[1]):
            if free[i, r] != capacity[i, r]:
                return np.int64(0)
    if ask["memory"] > free[i, MEMORY] or ask["gpus_node"] > free[i, GPUS] or (ask["gpus"] > 0 and free[i, GPUS] == 0):
        return np.int64(0)
    tasks = free[i, CPUS] // ask["cpus"]
    if ask["memory_cpu"] > 0:
        tasks = min(tasks, free[i, MEMORY] // (ask["memory_cpu"] * ask["cpus"]))
    return np.int64(tasks * ask["cpus"])


class Room(NamedTuple):
    """What `choose` writes to."""

    have: np.ndarray  # [N] i8
    best: np.ndarray  # [2] i8
    sums: np.ndarray  # [2] i8: CPUs to be had, nodes that have some


def rooms(nodes: int) -> Room:
    """Of so many nodes."""
    return Room(np.zeros(nodes, np.int64), np.zeros(2, np.int64), np.zeros(2, np.int64))


@kernel
def _runs(have, best, need, least, gpus, free, weight):
    """The run [first, behind the last) to take from, and whether it suffices. `have` [N]: CPUs to be had; 0: no more."""
    N, at, found = len(have), 0, False
    size, lightest = np.int64(-1), np.int64(0)
    best[0], best[1] = -1, -1
    while at < N:
        if have[at] <= 0:
            at += 1
            continue
        first, cpus, cards = at, np.int64(0), np.int64(0)
        while at < N and have[at] > 0 and weight[at] == weight[first]:
            cpus += have[at]
            cards += free[at, GPUS]
            at += 1
        suffices = cpus >= need and at - first >= least and cards >= gpus
        better = (suffices and (not found or cpus < size)) or (not suffices and not found and cpus > size)
        if best[0] < 0 or weight[first] < lightest or (weight[first] == lightest and better):
            best[0], best[1], size, lightest, found = first, at, cpus, weight[first], suffices
    return found


@kernel
def measure(ask, mask, free, capacity, w):
    """w.have [N] = the CPUs that the job could have of the nodes of mask [N], and w.sums of them. Do they suffice?"""
    w.sums[0] = w.sums[1] = 0
    for i in range(len(mask)):
        w.have[i] = room(ask, free, capacity, i) if mask[i] else 0
        w.sums[0] += w.have[i]
        w.sums[1] += w.have[i] > 0
    return enough(ask, w)


@inlined
def again(ask, free, capacity, w, i):
    """More has become free on node i."""
    now = room(ask, free, capacity, i)
    w.sums[0] += now - w.have[i]
    w.sums[1] += np.int64(now > 0) - np.int64(w.have[i] > 0)
    w.have[i] = now


@inlined
def enough(ask, w):
    """Could there be enough CPUs and nodes?"""
    return w.sums[0] >= np.int64(ask["tasks"]) * ask["cpus"] and w.sums[1] >= max(ask["nodes"], 1)


@kernel
def pick(ask, free, weight, w, node):
    """Nodes for a job by what was measured, which is used up: node[:k]; k = 0 where it does not fit."""
    have, best = w.have, w.best
    cpus, least = np.int64(ask["tasks"]) * ask["cpus"], np.int64(max(ask["nodes"], 1))
    most, gpus, k = np.int64(ask["most"] if ask["most"] > 0 else MANY), np.int64(ask["gpus"]), 0
    while (cpus > 0 or least > 0 or gpus > 0) and k < most:
        suffices = _runs(have, best, cpus, least, gpus, free, weight)
        if best[0] < 0:
            return 0
        single = -1
        if suffices and least <= 1:
            for i in range(best[0], best[1]):
                if have[i] >= cpus and free[i, GPUS] >= gpus and (single < 0 or have[i] < have[single]):
                    single = i
        for i in range(best[0] if single < 0 else single, best[1] if single < 0 else single + 1):
            if (cpus <= 0 and least <= 0 and gpus <= 0) or k >= most:
                break
            node[k] = i
            k += 1
            least -= 1
            cpus -= min(have[i], max(cpus - max(least, 0) * ask["cpus"], np.int64(ask["cpus"])))
            gpus -= free[i, GPUS]
            have[i] = 0
    return k if cpus <= 0 and least <= 0 and gpus <= 0 else 0


@kernel
def choose(ask, mask, free, capacity, weight, w, node):
    """Nodes for a job out of mask [N]: node[:k], k = 0 where it does not fit. `w`: room."""
    return pick(ask, free, weight, w, node) if measure(ask, mask, free, capacity, w) else 0


@kernel
def deal(ask, free, capacity, node, k, amount):
    """amount[i] = what the job takes of node[i]: tasks from the first node on, GPUs in turn, memory by node or CPU."""
    tasks, cards = np.int64(ask["tasks"]), np.int64(ask["gpus"])
    for i in range(k):
        for r in range(3):
            amount[i, r] = capacity[node[i], r] if ask["whole"] else 0
    if ask["whole"]:
        return
    for i in range(k):  # one task for each node, the first node is filled first
        most = room(ask, free, capacity, node[i]) // ask["cpus"]
        here = max(min(most, tasks - (k - 1 - i)), min(tasks, 1))
        amount[i, CPUS] = here * ask["cpus"]
        tasks -= here
    while cards > 0:
        before = cards
        for i in range(k):
            if cards > 0 and amount[i, GPUS] < free[node[i], GPUS]:
                amount[i, GPUS] += 1
                cards -= 1
        if cards == before:
            break
    for i in range(k):
        amount[i, MEMORY] = ask["memory"] if ask["memory"] > 0 else ask["memory_cpu"] * amount[i, CPUS]
        amount[i, GPUS] += ask["gpus_node"]

"""The nodes of a site as its scheduler keeps them from pass to pass: in cells, each of neighbours that are alike and that the
same running jobs are on, and the pieces that running jobs hold of them.

A cell begins where hardware or weight change, or where a piece of a running job begins or ends (`edges` counts both); so every
piece covers whole cells, and what is free is the same on all nodes of a cell. Their `total` is not kept. The kernel keeps the
same per node; where that has changed by itself (an outage, a state from elsewhere) the cells are made anew.
"""

from __future__ import annotations

import numpy as np

from jobwise.compiled import inlined, kernel
from jobwise.sim.site.node_sets import NOTHING, add, next_out
from jobwise.sim.spans import at, cut
from jobwise.sim.state import HEAP, LEFT

KNOWN, OUTAGES, SETTLED, JOIN_AT = range(
    4
)  # of `Work.marks`: are the cells up to date, as of how many outages? do searches know
# them? how many there may be before neighbours are joined
SPARE = 64  # cells beyond twice what there were when neighbours were joined last, from which on they are joined again
RESOURCES = 3  # of a node of a site: CPUs, memory, GPUs


@kernel
def look(s, e, slurm):
    """Bring slurm.work.cells up to now."""
    work, outage = slurm.work, s.sims[e]["outage"]
    if not work.marks[KNOWN] or work.marks[OUTAGES] != outage:
        work.marks[KNOWN], work.marks[OUTAGES] = _rebuild(s, e, slurm), outage


@kernel
def _rebuild(s, e, slurm):
    """Make the cells anew from what the kernel keeps of each node. Will they stay right: does no running job hold a node that
    is down?"""
    work, cells, N = slurm.work, slurm.work.cells, s.nodes.shape[1]
    for x in range(len(work.working)):
        work.working[x] = NOTHING
    for i in range(N):
        node = s.nodes[e, i]
        cells.first[i] = i
        work.edges[i] = i == 0 or slurm.site.weight[i] != slurm.site.weight[i - 1] or node["up"] != s.nodes[e, i - 1]["up"]
        for r in range(RESOURCES):
            cells.free[i, r], cells.capacity[i, r] = node["free"][r], node["capacity"][r]
            if i > 0 and node["capacity"][r] != s.nodes[e, i - 1]["capacity"][r]:
                work.edges[i] = 1
        if node["up"]:
            add(work.working, i)
    cells.first[N], cells.size[0], work.edges[N] = N, N, 1
    work.spare[0], work.spare[1] = -1, 0
    for i in range(s.sims[e]["running"]):
        _from_slices(s, e, slurm, s.lists[e, HEAP, i])
    _join(slurm)
    for i in range(s.sims[e]["running"]):
        where = work.part[s.lists[e, HEAP, i]]
        while where >= 0:
            part = work.parts[where]
            until = np.int64(part["node"] + part["more"] + 1)
            if next_out(work.working, np.int64(part["node"]), until) < until:
                return False
            where = part["next"]
    return True


@kernel
def _from_slices(s, e, slurm, j):
    """The pieces of running job j, from the slices of the kernel: those of nodes beside each other are one."""
    work, last = slurm.work, -1
    work.part[j] = -1
    where = s.jobs[e, j]["held"]
    while where >= 0:
        piece = s.slices[e, where]
        node = piece["node"]
        if last >= 0 and work.parts[last]["node"] == node + 1 and _same(work.parts[last]["amount"], piece["amount"]):
            work.parts[last]["node"] = node
            work.parts[last]["more"] += 1
        else:
            last = _part(slurm, j, node, 0, piece["amount"])
        where = piece["next"]
    where = work.part[j]
    while where >= 0:
        _bound(slurm, work.parts[where]["node"], work.parts[where]["more"], 1)
        where = work.parts[where]["next"]


@inlined
def _same(some, other):
    for r in range(RESOURCES):
        if some[r] != other[r]:
            return False
    return True


@kernel
def _part(slurm, j, node, more, amount):
    """Enter a piece of job j; where it is."""
    work, here = slurm.work, slurm.work.spare[0]
    if here >= 0:
        work.spare[0] = work.parts[here]["next"]
    else:
        here = work.spare[1]
        work.spare[1] += 1
    part = work.parts[here]
    part["node"], part["more"], part["next"] = node, more, work.part[j]
    for r in range(RESOURCES):
        part["amount"][r] = amount[r]
    work.part[j] = here
    return here


@inlined
def _bound(slurm, node, more, sign):
    slurm.work.edges[node] += sign
    slurm.work.edges[node + more + 1] += sign


@kernel
def _join(slurm):
    """Make one cell of neighbours between which nothing begins or ends."""
    cells, k, slurm.work.marks[SETTLED] = slurm.work.cells, 0, 0
    size = cells.size[0]
    for i in range(1, size):
        if slurm.work.edges[cells.first[i]] == 0:
            continue
        k += 1
        if k < i:
            cells.first[k] = cells.first[i]
            for r in range(RESOURCES):
                cells.free[k, r], cells.capacity[k, r] = cells.free[i, r], cells.capacity[i, r]
    cells.first[k + 1] = cells.first[size]
    cells.size[0] = k + 1
    slurm.work.marks[JOIN_AT] = 2 * cells.size[0] + SPARE


@kernel
def _change(slurm, node, more, amount, sign):
    """Add to (sign 1) or take from (-1) what is free on the cells of a piece."""
    cells = slurm.work.cells
    c = at(cells, node)
    while c < cells.size[0] and cells.first[c] <= node + more:
        for r in range(RESOURCES):
            cells.free[c, r] += sign * amount[r]
        c += 1


@kernel
def take(slurm, j, n):
    """Job j has got slurm.work.amount[:n] of nodes slurm.work.each[:n]."""
    work, i, slurm.work.marks[SETTLED] = slurm.work, 0, 0
    work.part[j] = -1
    while i < n:
        k = i + 1
        while k < n and work.each[k] == work.each[k - 1] + 1 and _same(work.amount[k], work.amount[i]):
            k += 1
        node, more = work.each[i], k - i - 1
        _part(slurm, j, node, more, work.amount[i])
        cut(work.cells, node)
        if node + more + 1 < work.cells.first[work.cells.size[0]]:
            cut(work.cells, node + more + 1)
        _bound(slurm, node, more, 1)
        _change(slurm, node, more, work.amount[i], -1)
        i = k


@kernel
def gone(s, e, slurm):
    """Jobs have ended in the last advance: their nodes are free."""
    work = slurm.work
    if not work.marks[KNOWN] or work.marks[OUTAGES] != s.sims[e]["outage"]:
        return
    for i in range(s.sims[e]["left"]):
        give_back(slurm, s.lists[e, LEFT, i])
    if s.sims[e]["left"] and work.cells.size[0] > work.marks[JOIN_AT]:
        _join(slurm)


@kernel
def give_back(slurm, j):
    """Job j has left its nodes."""
    work, here, slurm.work.marks[SETTLED] = slurm.work, slurm.work.part[j], 0
    while here >= 0:
        part = work.parts[here]
        _change(slurm, part["node"], part["more"], part["amount"], 1)
        _bound(slurm, part["node"], part["more"], -1)
        after = part["next"]
        part["next"], work.spare[0] = work.spare[0], here
        here = after
    work.part[j] = -1


@kernel
def expand(slurm, k):
    """slurm.work.each[:n] = the nodes of slurm.work.node[:k], slurm.work.cell[:n] = their cells; n."""
    work, n = slurm.work, 0
    for i in range(k):
        node, c = np.int64(work.node[i]), at(work.cells, work.node[i])
        for x in range(node, node + work.more[i] + 1):
            if x == work.cells.first[c + 1]:
                c += 1
            work.each[n], work.cell[n] = x, c
            n += 1
    return n


@inlined
def how_many(slurm, k):
    """Return the number of nodes in slurm.work.node[:k]."""
    n = np.int64(k)
    for i in range(k):
        n += slurm.work.more[i]
    return n

"""Room for a job on the nodes of a site: the number of CPUs in each cell, and the order of nodes with GPUs.

Nodes are looked at in cells (`spans.Spans`): neighbours that are alike. A search looks at the cells that have nodes for the job
and free CPUs, and at those that running jobs would give back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from jobwise.compiled import inlined, kernel
from jobwise.sim.site.cells import SETTLED
from jobwise.sim.site.node_sets import BITS, NOTHING, ONE, add, add_all, drop, lowest, next_in, size_of
from jobwise.sim.spans import at

if TYPE_CHECKING:
    from jobwise.sim.site.switches import Switches

CPUS, MEMORY, GPUS = range(3)
RANKS = 256  # of nodes of one weight by their GPUs,
WEIGHT = 2 * RANKS  # and those that are completing behind the others
HAD, NODES, WHATEVER, RANKED, SEARCH, FIRST = range(6)  # of `Room.sums`


@inlined
def of_gpus(ask):
    """Does a job ask for GPUs?"""
    return ask["gpus"] > 0 or ask["gpus_node"] > 0


@inlined
def free_cpus(ask, free, capacity, i):
    """CPUs of node i that are free for a job, for one task or more; 0: it is of no use."""
    if ask["whole"]:
        for r in range(free.shape[1]):
            if free[i, r] != capacity[i, r]:
                return np.int64(0)
    if ask["gpus_node"] > free[i, GPUS] or (ask["gpus"] > 0 and free[i, GPUS] == 0):
        return np.int64(0)
    if ask["memory"] > free[i, MEMORY] or (ask["memory"] < 0 and free[i, MEMORY] < capacity[i, MEMORY]):
        return np.int64(0)
    cpus = free[i, CPUS]
    if cpus * ask["memory_cpu"] > free[i, MEMORY]:  # rounded to tasks only where memory is short
        cpus = free[i, MEMORY] // ask["memory_cpu"] // ask["cpus"] * ask["cpus"]
    return np.int64(cpus) if cpus >= ask["cpus"] else np.int64(0)


@inlined
def room(ask, free, capacity, i):
    """CPUs of node i that the job could have. Where it asks for GPUs: of whole tasks, all of them on the only node that it may
    have, and one where it has one for each node."""
    cpus = free_cpus(ask, free, capacity, i)
    if not of_gpus(ask) or cpus == 0:
        return cpus
    tasks = cpus // ask["cpus"]
    if ask["most"] == 1:
        return np.int64(ask["tasks"]) * ask["cpus"] if tasks >= ask["tasks"] else np.int64(0)
    return ask["cpus"] * (1 if ask["tasks"] == 1 or ask["tasks"] == ask["nodes"] == ask["most"] else tasks)


class Room(NamedTuple):
    """Arrays that `choose` writes to."""

    have: np.ndarray  # [N] CPUs to be had of each node of a cell; 0: it is of no use
    nodes: np.ndarray  # [N] nodes of a cell that the job may use
    asked: np.ndarray  # [N] the last search that looked at the cell: what the others say of it is old
    vacant: np.ndarray  # [W] nodes with free CPUs
    offered: np.ndarray  # [W] those of them that it may use
    usable: np.ndarray  # [W] the cells of which some CPUs are to be had
    mask: np.ndarray  # [W] the nodes that it may use
    sums: np.ndarray  # [6] HAD: CPUs to be had, NODES: usable nodes, WHATEVER: free CPUs of whatever use,
    # RANKED: nodes have been ranked, SEARCH: searches so far, FIRST: a job of one node takes the first that suffices
    first: np.ndarray  # [N] stretches: the first node,
    until: np.ndarray  # [N] the node behind the last,
    cell: np.ndarray  # [N] the cell
    run: np.ndarray  # [N + 1] the first stretch of a run
    cpus: np.ndarray  # [N] of a run, to be had; 0: taken
    cards: np.ndarray  # [N] GPUs of a run
    rank: np.ndarray  # [N] behind the weight: smaller with more GPUs, as the last job with GPUs that was tested left it
    ranked: np.ndarray  # [W] nodes that may have one other than the last
    tree: Switches


def rooms(nodes: int, tree: Switches, at_first: bool = False) -> Room:
    """Return room for `nodes` nodes below switches; `at_first`: a job of one node takes the first that suffices."""
    have, usable_nodes, asked, first, until, cell, cpus, cards = np.zeros((8, nodes), np.int64)
    vacant, offered, mask, usable_cells, ranked = np.zeros((5, -(-nodes // BITS)), np.uint64)
    sums, rank, run = np.zeros(6, np.int64), np.full(nodes, RANKS - 1), np.zeros(nodes + 1, np.int64)
    sums[FIRST] = at_first
    stretches, runs = (first, until, cell), (run, cpus, cards)
    return Room(have, usable_nodes, asked, vacant, offered, usable_cells, mask, sums, *stretches, *runs, rank, ranked, tree)


@inlined
def cell_of(cells, i, c):
    """The cell of node i, which is in cell c or behind it."""
    if i < cells.first[c + 1]:
        return c
    if i < cells.first[c + 2]:
        return c + 1
    return i if i < cells.size[0] and cells.first[i] == i else at(cells, i)


@kernel
def unranked(space, nodes):
    """Forget the ranks of nodes, as Slurm does when it chooses nodes for a job that could use them."""
    for x in range(len(nodes) if space.sums[RANKED] else 0):
        word = nodes[x] & space.ranked[x]
        space.ranked[x] &= ~word
        while word != NOTHING:
            space.rank[lowest(x, word)] = RANKS - 1
            word &= word - ONE


@kernel
def last_of(nodes, mask, space):
    """Put the nodes of a set, those of the mask, behind the others of their weight, until they are `unranked`."""
    for x in range(len(nodes)):
        word = nodes[x] & mask[x]
        if word != NOTHING:
            space.sums[RANKED] = 1
            space.ranked[x] |= word
        while word != NOTHING:
            space.rank[lowest(x, word)] = WEIGHT - 1
            word &= word - ONE


@kernel
def rank(ask, nodes, cells, free, space):
    """Each test for a job with GPUs ranks the nodes that have some for it, whether they have CPUs or not: those with more of
    what it asks for come first, for later jobs, too. `free`: units of each node of a cell."""
    N, c, memory = cells.first[cells.size[0]], 0, max(ask["memory"], ask["memory_cpu"] * ask["cpus"])
    space.sums[RANKED] = 1
    i = next_in(nodes, 0, N)
    while i < N:
        c = cell_of(cells, i, c)
        until, cards = cells.first[c + 1], free[c, GPUS]
        suits = cards >= max(ask["gpus_node"], 1) and free[c, MEMORY] >= memory and cells.capacity[c, CPUS] >= ask["cpus"]
        if ask["whole"] == 0:
            cards = min(cards, ask["gpus_node"] if ask["gpus_node"] > 0 else ask["gpus"])
        elif free[c, CPUS] < cells.capacity[c, CPUS]:
            suits = False
        while i < until:
            if suits:
                space.rank[i] = max(RANKS - 1 - cards, 0) + (RANKS if space.rank[i] >= RANKS else 0)
                add(space.ranked, i)
            i = next_in(nodes, i + 1, until)
        i = next_in(nodes, until, N)


@kernel
def note_vacant(cells, space):
    """space.vacant = the nodes with free CPUs."""
    for x in range(len(space.vacant)):
        space.vacant[x] = NOTHING
    for c in range(cells.size[0]):
        if cells.free[c, CPUS] > 0:
            add_all(space.vacant, cells.first[c], cells.first[c + 1])


@inlined
def look_at(cells, space, c):
    """Return the number of nodes of cell c that the job may use, at least one."""
    if space.asked[c] != space.sums[SEARCH]:
        first, until = cells.first[c], cells.first[c + 1]
        space.nodes[c] = 1 if until == first + 1 else size_of(space.mask, first, until)
        space.asked[c], space.have[c] = space.sums[SEARCH], 0
    return space.nodes[c]


@kernel
def measure(ask, mask, cells, space):
    """Write the nodes of the set `mask` that the job could use, and its possible CPUs on each, into `space`, which holds the
    nodes with free CPUs. Return whether they suffice."""
    space.sums[HAD] = space.sums[NODES] = space.sums[WHATEVER] = 0
    space.sums[SEARCH] += 1
    for x in range(len(mask)):
        space.mask[x], space.offered[x], space.usable[x] = mask[x], mask[x] & space.vacant[x], NOTHING
    N, c = cells.first[cells.size[0]], 0
    i = next_in(space.offered, 0, N)
    while i < N:
        c = cell_of(cells, i, c)
        space.sums[WHATEVER] += cells.free[c, CPUS] * look_at(cells, space, c)
        again(ask, cells.free, cells.capacity, space, c)
        i = next_in(space.offered, cells.first[c + 1], N)
    return enough(ask, space)


@inlined
def again(ask, free, capacity, space, c):
    """Look again at the changed free units on the nodes of cell c, which was looked at before."""
    now, before, n = room(ask, free, capacity, c), space.have[c], space.nodes[c]
    space.sums[HAD] += (now - before) * n
    space.have[c] = now
    if now > 0 and before == 0:
        add(space.usable, c)
        space.sums[NODES] += n
    elif now == 0 and before > 0:
        drop(space.usable, c)
        space.sums[NODES] -= n


@kernel
def some_free(slurm):
    """Has a node that is in service a free CPU?"""
    cells = slurm.work.cells
    for c in range(cells.size[0]):
        if cells.free[c, CPUS] > 0 and next_in(slurm.work.up, cells.first[c], cells.first[c + 1]) < cells.first[c + 1]:
            return True
    return False


@inlined
def enough(ask, space):
    """Could there be enough CPUs and nodes?"""
    return space.sums[HAD] >= np.int64(ask["tasks"]) * ask["cpus"] and space.sums[NODES] >= max(ask["nodes"], 1)


@kernel
def settle(slurm):
    """Take note of what has become free, or is not free any more, since the last search."""
    work = slurm.work
    if not work.marks[SETTLED]:
        note_vacant(work.cells, work.room)
        for x in range(len(work.up)):
            work.room.vacant[x] &= work.up[x]
        for c in range(work.cells.size[0]):
            work.cell_at[work.cells.first[c]] = c
            for r in range(work.later.shape[1]):
                work.later[c, r] = work.cells.free[c, r]
        work.cell_at[work.cells.first[work.cells.size[0]]] = work.cells.size[0]
        work.marks[SETTLED] = 1

"""Which nodes a job gets on a site, as Slurm chooses them (select/cons_tres, one or several resources, no topology).

Usable nodes of one weight that lie beside each other are a run. Of the lightest runs that with the fewest CPUs that suffice
gives the nodes, else that with the most, and then the next; inside a run a single node that suffices with the fewest CPUs to
spare, else the lowest numbers first. Tasks fill the chosen nodes one after the other, each has at least one.

Nodes are looked at in cells (`spans.Spans`): neighbours that are alike. Those of a cell that a job may use, and that lie beside
each other, are a stretch; a run is one stretch or several.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from jobwise.compiled import inlined, kernel
from jobwise.sim.node_sets import BITS, NOTHING, ONE, add, add_all, drop, lowest, next_in, next_out, size_of
from jobwise.sim.spans import at, separate

CPUS, MEMORY, GPUS = range(3)
MANY = 1 << 40
RANKS = 256  # of nodes of one weight


@inlined
def of_gpus(ask):
    """Does a job ask for GPUs?"""
    return ask["gpus"] > 0 or ask["gpus_node"] > 0


@inlined
def _free(ask, free, capacity, i):
    """CPUs of node i that are free for a job, for one task or more; 0: it is of no use."""
    if ask["whole"]:
        for r in range(free.shape[1]):
            if free[i, r] != capacity[i, r]:
                return np.int64(0)
    if ask["gpus_node"] > free[i, GPUS] or (ask["gpus"] > 0 and free[i, GPUS] == 0):
        return np.int64(0)
    if ask["memory"] > free[i, MEMORY]:
        return np.int64(0)
    cpus = free[i, CPUS]
    if cpus * ask["memory_cpu"] > free[i, MEMORY]:  # rounded to tasks only where memory is short
        cpus = free[i, MEMORY] // ask["memory_cpu"] // ask["cpus"] * ask["cpus"]
    return np.int64(cpus) if cpus >= ask["cpus"] else np.int64(0)


@inlined
def room(ask, free, capacity, i):
    """CPUs of node i that the job could have. Where it asks for GPUs: of whole tasks, all of them on the only node that it may
    have, and one where it has one for each node."""
    cpus = _free(ask, free, capacity, i)
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
    some: np.ndarray  # [W] nodes with free CPUs
    both: np.ndarray  # [W] those of them that it may use
    usable: np.ndarray  # [W] the cells of which some CPUs are to be had
    mask: np.ndarray  # [W] the nodes that it may use
    sums: np.ndarray  # [5] CPUs to be had, usable nodes, free CPUs of whatever use, have nodes been ranked?, searches
    first: np.ndarray  # [N] stretches: the first node,
    until: np.ndarray  # [N] the node behind the last,
    cell: np.ndarray  # [N] the cell
    run: np.ndarray  # [N + 1] the first stretch of a run
    cpus: np.ndarray  # [N] of a run, to be had; 0: taken
    cards: np.ndarray  # [N] GPUs of a run
    rank: np.ndarray  # [N] behind the weight: smaller with more GPUs, as the last job with GPUs that was tested left it
    ranked: np.ndarray  # [W] nodes that may have one other than the last


def rooms(nodes: int) -> Room:
    """Return room for so many nodes."""
    have, usable_nodes, asked, first, until, cell, cpus, cards = np.zeros((8, nodes), np.int64)
    some, both, mask, usable, ranked = np.zeros((5, -(-nodes // BITS)), np.uint64)
    sums, rank, run = np.zeros(5, np.int64), np.full(nodes, RANKS - 1), np.zeros(nodes + 1, np.int64)
    return Room(have, usable_nodes, asked, some, both, usable, mask, sums, first, until, cell, run, cpus, cards, rank, ranked)


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
    for x in range(len(nodes) if space.sums[3] else 0):
        word = nodes[x] & space.ranked[x]
        space.ranked[x] &= ~word
        while word != NOTHING:
            space.rank[lowest(x, word)] = RANKS - 1
            word &= word - ONE


@kernel
def rank(ask, nodes, cells, free, space):
    """Each test for a job with GPUs ranks the nodes that have some for it, whether they have CPUs or not: those with more of
    what it asks for come first, for later jobs, too. `free`: units of each node of a cell."""
    N, c, memory = cells.first[cells.size[0]], 0, max(ask["memory"], ask["memory_cpu"] * ask["cpus"])
    space.sums[3] = 1
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
                space.rank[i] = max(RANKS - 1 - cards, 0)
                add(space.ranked, i)
            i = next_in(nodes, i + 1, until)
        i = next_in(nodes, until, N)


@kernel
def note_free(cells, space):
    """space.some = the nodes with free CPUs."""
    for x in range(len(space.some)):
        space.some[x] = NOTHING
    for c in range(cells.size[0]):
        if cells.free[c, CPUS] > 0:
            add_all(space.some, cells.first[c], cells.first[c + 1])


@inlined
def look_at(cells, space, c):
    """How many nodes of cell c the job may use, one at least."""
    if space.asked[c] != space.sums[4]:
        first, until = cells.first[c], cells.first[c + 1]
        space.nodes[c] = 1 if until == first + 1 else size_of(space.mask, first, until)
        space.asked[c], space.have[c] = space.sums[4], 0
    return space.nodes[c]


@kernel
def measure(ask, mask, cells, space):
    """Which nodes of the set `mask` the job could use, and how many CPUs it could have of each, into `space`, which knows the
    nodes with free CPUs. Do they suffice?"""
    space.sums[:3] = 0
    space.sums[4] += 1
    for x in range(len(mask)):
        space.mask[x], space.both[x], space.usable[x] = mask[x], mask[x] & space.some[x], NOTHING
    N, c = cells.first[cells.size[0]], 0
    i = next_in(space.both, 0, N)
    while i < N:
        c = cell_of(cells, i, c)
        space.sums[2] += cells.free[c, CPUS] * look_at(cells, space, c)
        again(ask, cells.free, cells.capacity, space, c)
        i = next_in(space.both, cells.first[c + 1], N)
    return enough(ask, space)


@inlined
def again(ask, free, capacity, space, c):
    """What is free on the nodes of cell c, which was looked at, is not as it was."""
    now, before, n = room(ask, free, capacity, c), space.have[c], space.nodes[c]
    space.sums[0] += (now - before) * n
    space.have[c] = now
    if now > 0 and before == 0:
        add(space.usable, c)
        space.sums[1] += n
    elif now == 0 and before > 0:
        drop(space.usable, c)
        space.sums[1] -= n


@kernel
def some_free(slurm):
    """Has a node that is in service a free CPU?"""
    cells = slurm.work.cells
    for c in range(cells.size[0]):
        if cells.free[c, CPUS] > 0 and next_in(slurm.work.up, cells.first[c], cells.first[c + 1]) < cells.first[c + 1]:
            return True
    return False


@inlined
def enough(ask, room):
    """Could there be enough CPUs and nodes?"""
    return room.sums[0] >= np.int64(ask["tasks"]) * ask["cpus"] and room.sums[1] >= max(ask["nodes"], 1)


@kernel
def _runs(space, cells, free, weight):
    """The runs of usable nodes of one weight that lie beside each other; how many."""
    runs, stretches, last = 0, 0, np.int64(-1)
    size = cells.size[0]
    c = next_in(space.usable, 0, size)
    while c < size:
        until = cells.first[c + 1]
        i = cells.first[c] if until == cells.first[c] + 1 else next_in(space.mask, cells.first[c], until)
        while i < until:
            end = next_out(space.mask, i, until)
            if space.sums[3]:  # nodes of a cell may have been ranked otherwise
                k = i + 1
                while k < end and space.rank[k] == space.rank[i]:
                    k += 1
                end = k
            if runs == 0 or i != last or weight[i] != weight[last - 1] or space.rank[i] != space.rank[last - 1]:
                space.run[runs], space.cpus[runs], space.cards[runs] = stretches, 0, 0
                runs += 1
            space.first[stretches], space.until[stretches], space.cell[stretches] = i, end, c
            stretches += 1
            last = end
            space.cpus[runs - 1] += space.have[c] * (end - i)
            space.cards[runs - 1] += free[c, GPUS] * (end - i)
            i = next_in(space.mask, end, until)
        c = next_in(space.usable, c + 1, size)
    space.run[runs] = stretches
    return runs


@kernel
def _best(space, runs, need, least, gpus, weight):
    """(the run to take from, whether it suffices); -1: there is none left."""
    best, any_node, size, lightest = -1, False, np.int64(0), np.int64(0)
    for x in range(runs):
        begin, end = space.first[space.run[x]], space.until[space.run[x + 1] - 1]
        cpus, heavy = space.cpus[x], weight[begin] * RANKS + space.rank[begin]
        if cpus == 0 or (best >= 0 and heavy > lightest):
            continue
        suffices = cpus >= need and end - begin >= least and space.cards[x] >= gpus
        better = (suffices and (not any_node or cpus < size)) or (not suffices and not any_node and cpus > size)
        if best < 0 or heavy < lightest or better:
            best, size, lightest, any_node = x, cpus, heavy, suffices
    return best, any_node


@inlined
def cap(ask, have, rest, owed):
    """CPUs that are taken of a node with `have`, where the job needs `rest` more on `owed` nodes at least, with this one."""
    return min(have, max(rest - max(owed - 1, 0), np.int64(ask["cpus"])))


@kernel
def pick(ask, cells, free, weight, space, node, more):
    """Nodes for a job by what was measured: node[:k], each with the more[:k] nodes behind it; k = 0 where it does not fit.
    Where the choice fails, the nodes with the least are left out, and it is made again. `free`: of each node of a cell."""
    least = np.int64(1)
    while enough(ask, space):
        k = _pick(ask, cells, free, weight, space, node, more)
        if k > 0:
            return k
        if _too_small(ask, cells, space):
            return 0
        left, size = MANY, cells.size[0]
        c = next_in(space.usable, 0, size)
        while c < size:
            own = _free(ask, free, cells.capacity, c) + (free[c, GPUS] if of_gpus(ask) else 0)
            if own <= least:
                space.sums[0] -= space.have[c] * space.nodes[c]
                space.sums[1] -= space.nodes[c]
                space.have[c] = 0
                drop(space.usable, c)
            else:
                left = min(left, own)
            c = next_in(space.usable, c + 1, size)
        least = max(left, least + 1)
        if left == MANY:
            break
    return 0


@kernel
def _too_small(ask, cells, space):
    """Are even the largest nodes too small for so many of them to hold the job?"""
    most, largest = np.int64(ask["most"] if ask["most"] > 0 else max(ask["tasks"], ask["nodes"], 1)), np.int64(0)
    c = next_in(space.usable, 0, cells.size[0])
    while c < cells.size[0]:
        largest = max(largest, space.have[c])
        c = next_in(space.usable, c + 1, cells.size[0])
    return most * largest < np.int64(ask["tasks"]) * ask["cpus"]


@kernel
def _smallest(space, free, run, cpus, gpus):
    """The stretch of a run whose nodes hold all of a job and have the fewest CPUs to spare; -1: none does."""
    best = np.int64(-1)
    for x in range(space.run[run], space.run[run + 1]):
        have = space.have[space.cell[x]]
        if have >= cpus and free[space.cell[x], GPUS] >= gpus and (best < 0 or have < space.have[space.cell[best]]):
            best = np.int64(x)
    return best


@inlined
def _entered(node, more, k, first, count):
    """Enter `count` nodes from `first` on behind the k entries so far; how many there are then."""
    if k > 0 and node[k - 1] + more[k - 1] + 1 == first:
        more[k - 1] += count
        return k
    node[k], more[k] = first, count - 1
    return k + 1


@kernel
def _pick(ask, cells, free, weight, space, node, more):
    runs, have = _runs(space, cells, free, weight), space.have
    cpus, least = np.int64(ask["tasks"]) * ask["cpus"], np.int64(max(ask["nodes"], 1))
    most, gpus, k = np.int64(ask["most"] if ask["most"] > 0 else max(ask["tasks"], least)), np.int64(ask["gpus"]), 0
    taken = np.int64(0)
    while (cpus > 0 or least > 0 or gpus > 0) and taken < most:
        run, suffices = _best(space, runs, cpus, least, gpus, weight)
        if run < 0:
            return 0
        single = _smallest(space, free, run, cpus, gpus) if suffices and least <= 1 else np.int64(-1)
        begin, end = (single, single + 1) if single >= 0 else (space.run[run], space.run[run + 1])
        for x in range(begin, end):
            c = space.cell[x]
            i, until = space.first[x], space.first[x] + 1 if single >= 0 else space.until[x]
            while i < until and (cpus > 0 or least > 0 or gpus > 0) and taken < most:
                if taken + 1 == most and have[c] < cpus:  # the last that it may have must hold all of the rest
                    break
                full = min((cpus - max(least - 1, 0)) // have[c], until - i, most - 1 - taken)  # nodes that are taken whole
                n = max(full, np.int64(1))
                k = _entered(node, more, k, i, n)
                cpus -= have[c] * n if full > 0 else cap(ask, have[c], cpus, least)
                i, taken, least, gpus = i + n, taken + n, least - n, gpus - free[c, GPUS] * n
        space.cpus[run] = 0  # all of it is taken, or the job has what it needs
    return k if cpus <= 0 and least <= 0 and gpus <= 0 else 0


def choice_of(free: np.ndarray, capacity: np.ndarray, weight: np.ndarray) -> Callable[[np.void, np.ndarray], np.ndarray]:
    """Return a function of a row of `ask_dtype` and a set [W] of nodes: the nodes that the job would get [K], in the order in
    which they are chosen. `free`, `capacity` [N, 3], `weight` [N]."""
    cells, space = separate(free.astype(np.int64), capacity.astype(np.int64)), rooms(len(weight))
    node, more = np.zeros((2, len(weight)), np.int32)
    note_free(cells, space)

    def chosen(ask: np.void, mask: np.ndarray) -> np.ndarray:
        k = choose(ask, mask, cells, weight, space, node, more)
        return np.concatenate([np.arange(i, i + n + 1) for i, n in zip(node[:k], more[:k], strict=True)] or [node[:0]])

    return chosen


@kernel
def choose(ask, mask, cells, weight, space, node, more):
    """Nodes for a job out of the set `mask`: node[:k], each with the more[:k] nodes behind it; k = 0 where it does not fit.
    `space`: room that knows the nodes with free CPUs (`note_free`)."""
    return pick(ask, cells, cells.free, weight, space, node, more) if measure(ask, mask, cells, space) else 0


@kernel
def settle(slurm):
    """Take note of what has become free, or is not free any more, since the last search."""
    work = slurm.work
    if not work.fresh[2]:
        note_free(work.cells, work.room)
        for x in range(len(work.up)):
            work.room.some[x] &= work.up[x]
        for c in range(work.cells.size[0]):
            work.cell_at[work.cells.first[c]] = c
            for r in range(work.later.shape[1]):
                work.later[c, r] = work.cells.free[c, r]
        work.cell_at[work.cells.first[work.cells.size[0]]] = work.cells.size[0]
        work.fresh[2] = 1


@kernel
def choose_now(slurm, ask, mask):
    """Nodes of a site (slurm.work.node) for a job out of the set `mask`, as they are now: how many entries."""
    work = slurm.work
    settle(slurm)
    unranked(work.room, mask)
    if of_gpus(ask):
        rank(ask, mask, work.cells, work.cells.free, work.room)
    return choose(ask, mask, work.cells, slurm.site.weight, work.room, work.node, work.more)


@kernel
def _whole_tasks(ask, free, node, k, tasks, amount):
    """amount[i, CPUS], what node[i] was taken for, as CPUs of whole tasks: one for each node, then in turn as far as it goes;
    the rest shares what is free."""
    cpus, left = np.int64(ask["cpus"]), tasks
    for i in range(k):
        amount[i, MEMORY] = 1 if left > 0 else 0
        left -= amount[i, MEMORY]
    for full in range(2):  # then beyond what the node was taken for
        before = left + 1
        while 0 < left < before:
            before = left
            for i in range(k):
                most = amount[i, CPUS] if full == 0 else free[node[i], CPUS]
                if left > 0 and (amount[i, MEMORY] * cpus < most if full else (amount[i, MEMORY] + 1) * cpus <= most):
                    amount[i, MEMORY] += 1
                    left -= 1
    for i in range(k):
        amount[i, CPUS] = min(amount[i, MEMORY] * cpus, free[node[i], CPUS])


@kernel
def deal(ask, free, capacity, node, k, amount):
    """amount[i] = what the job takes of node[i]: CPUs as the node was taken for, tasks and GPUs in turn, memory by node or
    CPU."""
    tasks, cards = np.int64(ask["tasks"]), np.int64(ask["gpus"])
    for i in range(k):
        for r in range(3):
            amount[i, r] = capacity[node[i], r] if ask["whole"] else 0
    if ask["whole"]:
        return
    rest, owed = tasks * ask["cpus"], np.int64(max(ask["nodes"], 1))
    for i in range(k):
        amount[i, CPUS] = cap(ask, room(ask, free, capacity, node[i]), rest, owed)
        rest -= amount[i, CPUS]
        owed -= 1
    if ask["cpus"] > 1 or rest < 0:
        _whole_tasks(ask, free, node, k, tasks, amount)
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

"""Choose the nodes of a job on a site as Slurm does (select/cons_tres, one or several resources).

Usable nodes of one weight that lie beside each other are a run. Of the lightest runs that with the fewest CPUs that suffice
gives the nodes, else that with the most, and then the next; inside a run a single node that suffices with the fewest CPUs to
spare, else the lowest numbers first. Tasks fill the chosen nodes one after the other, each has at least one.

Where the site has switches, these are the first to count (`switches.py`).

What a job could have of which cells says `node_room.py`. Nodes of a cell that it may use, and that lie beside each other, are a
stretch; a run is one stretch or several.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from jobwise.compiled import inlined, kernel
from jobwise.sim.site.node_room import (
    CPUS,
    FIRST,
    GPUS,
    HAD,
    MEMORY,
    NODES,
    RANKED,
    SEARCH,
    WEIGHT,
    again,
    enough,
    free_cpus,
    measure,
    note_vacant,
    of_gpus,
    rank,
    room,
    rooms,
    settle,
    unranked,
)
from jobwise.sim.site.node_sets import drop, next_in, next_out
from jobwise.sim.site.switches import PATIENT, by_switches, pick_below, switches
from jobwise.sim.spans import Spans, separate
from jobwise.site import NOT_EMPTY, Site

MANY = 1 << 40


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
            if space.sums[RANKED]:  # nodes of a cell may have been ranked otherwise
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
        cpus, heavy = space.cpus[x], weight[begin] * WEIGHT + space.rank[begin]
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


@inlined
def most_nodes(ask):
    """The nodes that a job may have."""
    return np.int64(ask["most"] if ask["most"] > 0 else max(ask["tasks"], ask["nodes"], 1))


@kernel
def pick(ask, cells, free, weight, space, node, more):
    """Nodes for a job by what was measured: node[:k], each with the more[:k] nodes behind it; k = 0 where it does not fit.
    Where the choice fails, the nodes with the least are left out, and it is made again. `free`: of each node of a cell."""
    least, k = np.int64(1), 0
    if enough(ask, space) and by_switches(ask, space.tree) and not (space.sums[FIRST] and most_nodes(ask) == 1):
        return pick_below(ask, cells, free, weight, space, node, more)
    while enough(ask, space):
        k = _pick(ask, cells, free, weight, space, node, more)
        if k > 0:
            break
        if _too_small(ask, cells, space):
            break
        left, size = MANY, cells.size[0]
        c = next_in(space.usable, 0, size)
        while c < size:
            own = free_cpus(ask, free, cells.capacity, c) + (free[c, GPUS] if of_gpus(ask) else 0)
            if own <= least:
                space.sums[HAD] -= space.have[c] * space.nodes[c]
                space.sums[NODES] -= space.nodes[c]
                space.have[c] = 0
                drop(space.usable, c)
            else:
                left = min(left, own)
            c = next_in(space.usable, c + 1, size)
        least = max(left, least + 1)
        if left == MANY:
            break
    if k == 0 and least > 1:  # the next search begins with all of them
        for c in range(cells.size[0]):
            if space.asked[c] == space.sums[SEARCH]:
                again(ask, free, cells.capacity, space, c)
    return k


@kernel
def _too_small(ask, cells, space):
    """Return whether the allowed number of nodes cannot hold the job, even of the largest size."""
    most, largest = most_nodes(ask), np.int64(0)
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


@kernel
def _first(space, free, weight, runs, cpus, gpus, node, more):
    """node[0] = the first of the lightest nodes that hold all of a job; 1, or 0 where none does."""
    k, lightest = 0, np.int64(0)
    for x in range(space.run[runs]):
        i, c = space.first[x], space.cell[x]
        heavy = weight[i] * WEIGHT + space.rank[i]
        if space.have[c] >= cpus and free[c, GPUS] >= gpus and (k == 0 or heavy < lightest):
            k, lightest = 1, heavy
            node[0], more[0] = i, 0
    return k


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
    most, gpus, k = most_nodes(ask), np.int64(ask["gpus"]), 0
    taken = np.int64(0)
    if space.sums[FIRST] and most == 1:
        return _first(space, free, weight, runs, cpus, gpus, node, more)
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


def choice_of(free: np.ndarray, capacity: np.ndarray, site: Site) -> Callable[[np.void, np.ndarray], np.ndarray]:
    """Return a function of a row of `ask_dtype` and a set [W] of nodes: the nodes that the job would get [K], in the order in
    which they are chosen. `free`, `capacity` [N, 3]."""
    weight = site.weight
    cells, space = separate(free.astype(np.int64), capacity.astype(np.int64)), rooms(len(weight), switches(site))
    node, more = np.zeros((2, len(weight)), np.int32)
    note_vacant(cells, space)

    def chosen(ask: np.void, mask: np.ndarray) -> np.ndarray:
        k = choose(ask, mask, cells, weight, space, node, more)
        return np.concatenate([np.arange(i, i + n + 1) for i, n in zip(node[:k], more[:k], strict=True)] or [node[:0]])

    return chosen


@kernel
def note_unfit(asks, sets, partition, pairs, cells, weight, space, node, more, mask, unfit):
    """unfit[a, p] = 1 for those of the pairs [K, 2] (row of `asks`, row of `partition`) where not even all nodes of the
    partition, when they are empty, hold what is asked. `cells`: of an empty machine."""
    note_vacant(cells, space)
    for k in range(len(pairs)):
        a, p = pairs[k, 0], pairs[k, 1]
        for x in range(len(mask)):
            mask[x] = sets[partition[p]["set"], x] & sets[asks[a]["set"], x] & sets[asks[a]["types"], x]
        unfit[a, p] = choose(asks[a], mask, cells, weight, space, node, more) == 0


@kernel
def choose(ask, mask, cells, weight, space, node, more):
    """Nodes for a job out of the set `mask`: node[:k], each with the more[:k] nodes behind it; k = 0 where it does not fit.
    `space`: room that knows the nodes with free CPUs (`note_vacant`)."""
    return pick(ask, cells, cells.free, weight, space, node, more) if measure(ask, mask, cells, space) else 0


@inlined
def of_types(slurm, ask, mask):
    """slurm.work.typed = the nodes of the set `mask` that have GPUs of the types that a job asks for."""
    typed, sets, row = slurm.work.typed, slurm.site.sets, ask["types"]
    for x in range(len(mask)):
        typed[x] = mask[x] & sets[row, x] if row > 0 else mask[x]


@kernel
def must_wait(slurm, ask, mask):
    """Would a job that waits for few switches be on more, were all nodes of the set empty? Before 24.05 that is tried first."""
    work, cells = slurm.work, slurm.work.cells
    if work.room.tree.marks[PATIENT] or slurm.site.settings[0]["version"] >= NOT_EMPTY:
        return False
    empty = Spans(cells.first, cells.capacity, cells.capacity, cells.total, cells.size)
    return choose(ask, mask, empty, slurm.site.weight, work.empty, work.node, work.more) == 0


@kernel
def choose_now(slurm, ask, mask):
    """Nodes of a site (slurm.work.node) for a job out of the set `mask`, as they are now: how many entries."""
    work = slurm.work
    settle(slurm)
    unranked(work.room, mask)
    of_types(slurm, ask, mask)
    if of_gpus(ask):
        rank(ask, work.typed, work.cells, work.cells.free, work.room)
    if must_wait(slurm, ask, work.typed):
        return 0
    k = choose(ask, work.typed, work.cells, slurm.site.weight, work.room, work.node, work.more)
    return 0 if too_many(ask, work.node, work.more, k) else k


@kernel
def too_many(ask, node, more, k):
    """Are node[:k] more nodes than a job may have? On switches that can be planned, but not started."""
    n = np.int64(k)
    for i in range(k):
        n += more[i]
    return n > ask["most"] > 0


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
        of_node = capacity[node[i], MEMORY] if ask["memory"] < 0 else ask["memory"]
        amount[i, MEMORY] = of_node if of_node > 0 else ask["memory_cpu"] * amount[i, CPUS]
        amount[i, GPUS] += ask["gpus_node"]

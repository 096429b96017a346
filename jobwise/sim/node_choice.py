"""Which nodes a job gets on a site, as Slurm chooses them (select/cons_tres, one or several resources, no topology).

Usable nodes of one weight that lie beside each other are a run. Of the lightest runs that with the fewest CPUs that suffice
gives the nodes, else that with the most, and then the next; inside a run a single node that suffices with the fewest CPUs to
spare, else the lowest numbers first. Tasks fill the chosen nodes one after the other, each has at least one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from jobwise.compiled import inlined, kernel
from jobwise.sim.node_sets import BITS, NOTHING, ONE, add, drop, has, lowest

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

    have: np.ndarray  # [N] CPUs to be had of usable nodes
    usable: np.ndarray  # [W] nodes of which some are to be had
    sums: np.ndarray  # [4] CPUs to be had, usable nodes, free CPUs of whatever use, have nodes been ranked?
    first: np.ndarray  # [N] runs of usable nodes: the first node,
    until: np.ndarray  # [N] the node behind the last,
    cpus: np.ndarray  # [N] CPUs to be had; 0: taken
    cards: np.ndarray  # [N] GPUs
    rank: np.ndarray  # [N] behind the weight: smaller with more GPUs, as the last job with GPUs that was tested left it


def rooms(nodes: int) -> Room:
    """Return room for so many nodes."""
    first, until, cpus, cards, have = np.zeros((5, nodes), np.int64)
    usable, sums, rank = np.zeros(-(-nodes // BITS), np.uint64), np.zeros(4, np.int64), np.full(nodes, RANKS - 1)
    return Room(have, usable, sums, first, until, cpus, cards, rank)


@kernel
def unranked(space, nodes):
    """Forget the ranks of nodes, as Slurm does when it chooses nodes for a job that could use them."""
    for x in range(len(nodes) if space.sums[3] else 0):
        word = nodes[x]
        while word != NOTHING:
            space.rank[lowest(x, word)] = RANKS - 1
            word &= word - ONE


@kernel
def rank(ask, nodes, free, capacity, space):
    """Each test for a job with GPUs ranks the nodes that have some for it, whether they have CPUs or not: those with more of
    what it asks for come first, for later jobs, too."""
    space.sums[3] = 1
    for x in range(len(nodes)):
        word = nodes[x]
        while word != NOTHING:
            i = lowest(x, word)
            word &= word - ONE
            cards, memory = free[i, GPUS], max(ask["memory"], ask["memory_cpu"] * ask["cpus"])
            if cards < max(ask["gpus_node"], 1) or free[i, MEMORY] < memory or capacity[i, CPUS] < ask["cpus"]:
                continue
            if ask["whole"] == 0:
                cards = min(cards, ask["gpus_node"] if ask["gpus_node"] > 0 else ask["gpus"])
            elif free[i, CPUS] < capacity[i, CPUS]:
                continue
            space.rank[i] = max(RANKS - 1 - cards, 0)


@kernel
def measure(ask, mask, some, free, capacity, space):
    """Which nodes of the set `mask` the job could use, and how many CPUs it could have of each, into `space`. Do they suffice?
    `some`: the nodes that have free CPUs."""
    space.sums[:3] = 0
    for x in range(len(mask)):
        word = mask[x] & some[x]
        space.usable[x] = NOTHING
        while word != NOTHING:
            i = lowest(x, word)
            word &= word - ONE
            have = room(ask, free, capacity, i)
            space.sums[2] += free[i, CPUS]
            if have > 0:
                space.have[i] = have
                add(space.usable, i)
                space.sums[0] += have
                space.sums[1] += 1
    return enough(ask, space)


@inlined
def again(ask, free, capacity, space, i):
    """More has become free on node i."""
    now = room(ask, free, capacity, i)
    if has(space.usable, i):
        space.sums[0] += now - space.have[i]
    elif now > 0:
        add(space.usable, i)
        space.sums[0] += now
        space.sums[1] += 1
    space.have[i] = now


@inlined
def enough(ask, room):
    """Could there be enough CPUs and nodes?"""
    return room.sums[0] >= np.int64(ask["tasks"]) * ask["cpus"] and room.sums[1] >= max(ask["nodes"], 1)


@kernel
def _runs(room, free, weight):
    """The runs of usable nodes of one weight that lie beside each other; how many."""
    count, last = 0, NOTHING
    for x in range(len(room.usable)):
        word = room.usable[x]
        while word != NOTHING:
            i = lowest(x, word)
            word &= word - ONE
            if count == 0 or i != last + ONE or weight[i] != weight[last] or room.rank[i] != room.rank[last]:
                room.first[count], room.cpus[count], room.cards[count] = i, 0, 0
                count += 1
            last = i
            room.until[count - 1] = i + ONE
            room.cpus[count - 1] += room.have[i]
            room.cards[count - 1] += free[i, GPUS]
    return count


@kernel
def _best(room, count, need, least, gpus, weight):
    """(the run to take from, whether it suffices); -1: there is none left."""
    best, any_node, size, lightest = -1, False, np.int64(0), np.int64(0)
    for x in range(count):
        cpus, heavy = room.cpus[x], weight[room.first[x]] * RANKS + room.rank[room.first[x]]
        if cpus == 0 or (best >= 0 and heavy > lightest):
            continue
        suffices = cpus >= need and room.until[x] - room.first[x] >= least and room.cards[x] >= gpus
        better = (suffices and (not any_node or cpus < size)) or (not suffices and not any_node and cpus > size)
        if best < 0 or heavy < lightest or better:
            best, size, lightest, any_node = x, cpus, heavy, suffices
    return best, any_node


@inlined
def cap(ask, have, rest, owed):
    """CPUs that are taken of a node with `have`, where the job needs `rest` more on `owed` nodes at least, with this one."""
    return min(have, max(rest - max(owed - 1, 0), np.int64(ask["cpus"])))


@kernel
def pick(ask, free, capacity, weight, room, node):
    """Nodes for a job by what was measured: node[:k]; k = 0 where it does not fit. Where the choice fails, the nodes with the
    least are left out, and it is made again."""
    least = np.int64(1)
    while enough(ask, room):
        k = _pick(ask, free, weight, room, node)
        if k > 0:
            return k
        if _too_small(ask, room):
            return 0
        left = MANY
        for x in range(len(room.usable)):
            word = room.usable[x]
            while word != NOTHING:
                i = lowest(x, word)
                word &= word - ONE
                own = _free(ask, free, capacity, i) + (free[i, GPUS] if of_gpus(ask) else 0)
                if own <= least:
                    drop(room.usable, i)
                    room.sums[0] -= room.have[i]
                    room.sums[1] -= 1
                else:
                    left = min(left, own)
        least = max(left, least + 1)
        if left == MANY:
            break
    return 0


@kernel
def _too_small(ask, room):
    """Are even the largest nodes too small for so many of them to hold the job?"""
    most, largest = np.int64(ask["most"] if ask["most"] > 0 else max(ask["tasks"], ask["nodes"], 1)), np.int64(0)
    for x in range(len(room.usable)):
        word = room.usable[x]
        while word != NOTHING:
            largest = max(largest, room.have[lowest(x, word)])
            word &= word - ONE
    return most * largest < np.int64(ask["tasks"]) * ask["cpus"]


@kernel
def _pick(ask, free, weight, room, node):
    have, count = room.have, _runs(room, free, weight)
    cpus, least = np.int64(ask["tasks"]) * ask["cpus"], np.int64(max(ask["nodes"], 1))
    most, gpus, k = np.int64(ask["most"] if ask["most"] > 0 else max(ask["tasks"], least)), np.int64(ask["gpus"]), 0
    while (cpus > 0 or least > 0 or gpus > 0) and k < most:
        x, suffices = _best(room, count, cpus, least, gpus, weight)
        if x < 0:
            return 0
        begin, until, single = room.first[x], room.until[x], np.int64(-1)
        if suffices and least <= 1:
            for i in range(begin, until):
                if have[i] >= cpus and free[i, GPUS] >= gpus and (single < 0 or have[i] < have[single]):
                    single = i
        if single >= 0:
            begin, until = single, single + 1
        for i in range(begin, until):
            if (cpus <= 0 and least <= 0 and gpus <= 0) or k >= most:
                break
            if k + 1 == most and have[i] < cpus:  # the last that it may have must hold all of the rest
                continue
            node[k] = i
            k += 1
            cpus -= cap(ask, have[i], cpus, least)
            least -= 1
            gpus -= free[i, GPUS]
        room.cpus[x] = 0  # all of it is taken, or the job has what it needs
    return k if cpus <= 0 and least <= 0 and gpus <= 0 else 0


@kernel
def choose(ask, mask, some, free, capacity, weight, room, node):
    """Nodes for a job out of the set `mask`: node[:k], k = 0 where it does not fit. `space`: room."""
    return pick(ask, free, capacity, weight, room, node) if measure(ask, mask, some, free, capacity, room) else 0


@kernel
def choose_now(slurm, ask, mask):
    """Nodes of a site (slurm.work.node) for a job out of the set `mask`, as they are now: how many."""
    site, work = slurm.site, slurm.work
    unranked(work.room, mask)
    if of_gpus(ask):
        rank(ask, mask, work.free, site.capacity, work.room)
    return choose(ask, mask, work.some, work.free, site.capacity, site.weight, work.room, work.node)


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

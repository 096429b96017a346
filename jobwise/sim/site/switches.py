"""Choose the nodes of a job on few leaf switches, as Slurm's topology/tree does.

All nodes of a job are below one switch. Those of the smallest weights are taken first; where some of one weight are enough, the
leaf switches that would serve are tried in turn: nearest to those that the job is on already, then the one with the fewest
nodes that suffices, else the one with the most. Nodes of a leaf are taken in their order. A job may ask to be on few leaf
switches (`--switches`): until it has waited for so long, other nodes do not count.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from jobwise.compiled import inlined, kernel
from jobwise.sim.site.node_room import GPUS, WEIGHT, cell_of, of_gpus
from jobwise.sim.site.node_sets import BITS, NOTHING, ONE, add, drop, next_in, packed
from jobwise.sim.site.slurm_time import is_exact, whole
from jobwise.site import ONE_NODE, WINDOWED, Site

PATIENT, RECENT, OPTIONAL, BOUND = range(4)  # of `Switches.marks`
CPUS_LEFT, NODES_LEFT, MOST_LEFT, GPUS_LEFT, PICKED = range(5)  # of `Switches.left`
NOWHERE = 1 << 30  # distance of switches that do not reach each other
REFUSED = -1  # nodes were found, on too many switches


class Switches(NamedTuple):
    """The tree of a site, and arrays that `pick_below` writes to."""

    nodes: np.ndarray  # [S, W] below each switch
    level: np.ndarray  # [S] 0: a leaf
    parent: np.ndarray  # [S] the switch itself: it has none
    apart: np.ndarray  # [S, S] links between two of them
    marks: np.ndarray  # [4] PATIENT: the job takes any number of leaves; RECENT: 24.11 or later; OPTIONAL: for those who ask;
    # BOUND: it never gets more nodes than it may have (from 26.05 on)
    own: np.ndarray  # [S, W] nodes below each switch that the job could have
    many: np.ndarray  # [S] how many, as far as they are left
    cpus: np.ndarray  # [S] the CPUs of all of them
    taken: np.ndarray  # [S] does the job have nodes below it that it must have?
    far: np.ndarray  # [S] links from all leaves that it is on
    offered: np.ndarray  # [W] nodes that the job could have
    units: np.ndarray  # [N] CPUs of each of them; of one that was tried, those that it was taken for
    best: np.ndarray  # [W] those of the smallest weights that suffice
    must: np.ndarray  # [W] those of them that it needs all
    chosen: np.ndarray  # [W]
    left: np.ndarray  # [5] what it still needs, and the entries of its nodes so far


def switches(site: Site) -> Switches:
    """Return the tree of a site, without switches where it has none."""
    S, words, parent, x = len(site.switches), -(-len(site.weight) // BITS), site.switch_parent, site.settings[0]
    return Switches(
        nodes=packed(site.switches) if S else np.zeros((0, words), np.uint64),
        level=levels(parent),
        parent=parent,
        apart=_apart(parent),
        marks=np.array([1, x["version"] >= WINDOWED, x["topo_optional"], x["version"] >= ONE_NODE], np.int64),
        own=np.zeros((S, words), np.uint64),
        many=np.zeros(S, np.int64),
        cpus=np.zeros(S, np.int64),
        taken=np.zeros(S, np.int64),
        far=np.zeros(S, np.int64),
        offered=np.zeros(words, np.uint64),
        units=np.zeros(len(site.weight), np.int64),
        best=np.zeros(words, np.uint64),
        must=np.zeros(words, np.uint64),
        chosen=np.zeros(words, np.uint64),
        left=np.zeros(5, np.int64),
    )


def levels(parent: np.ndarray) -> np.ndarray:
    """[S] the longest way down from each switch to a leaf."""
    level = np.zeros(len(parent), np.int64)
    for _ in range(len(parent)):
        for i, p in enumerate(parent):
            if p != i:
                level[p] = max(level[p], level[i] + 1)
    return level


def _apart(parent: np.ndarray) -> np.ndarray:
    """[S, S] the number of links between each two switches."""
    apart = np.where(np.eye(len(parent), dtype=bool), 0, NOWHERE)
    for i, p in enumerate(parent):
        apart[i, p] = apart[p, i] = int(i != p)
    for k in range(len(parent)):
        apart = np.minimum(apart, apart[:, k, None] + apart[None, k])
    return apart.astype(np.int64)


@inlined
def by_switches(ask, tree):
    """Are nodes chosen by switches for a job?"""
    return len(tree.level) > 0 and (tree.marks[OPTIONAL] == 0 or ask["switches"] > 0)


@inlined
def wait_for_few(slurm, job, now):
    """Note whether a job has waited long enough to take nodes on any number of leaf switches. List schedulers let none wait."""
    ask, most = slurm.site.ask[job["ask"]], slurm.site.settings[0]["max_switch_wait"]
    waited = whole(slurm, now) - whole(slurm, job["submit"])
    enough = ask["switches"] == 0 or is_exact(slurm) or waited >= min(np.float64(ask["switch_wait"]), most)
    slurm.work.room.tree.marks[PATIENT] = enough


@kernel
def _offer(cells, space):
    """tree.offered = the nodes that were measured, tree.units = their CPUs; how many there are."""
    tree, size, count = space.tree, cells.size[0], 0
    for x in range(len(tree.offered)):
        tree.offered[x] = NOTHING
    c = next_in(space.usable, 0, size)
    while c < size:
        i = next_in(space.mask, cells.first[c], cells.first[c + 1])
        while i < cells.first[c + 1]:
            add(tree.offered, i)
            tree.units[i], count = space.have[c], count + 1
            i = next_in(space.mask, i + 1, cells.first[c + 1])
        c = next_in(space.usable, c + 1, size)
    return count


@kernel
def _measure(ask, weight, space):
    """tree.own, tree.many, tree.cpus of what is offered; the highest switch that could serve; -1: none could."""
    tree, top, lightest = space.tree, -1, np.int64(0)
    need, least = np.int64(ask["tasks"]) * ask["cpus"], np.int64(max(ask["nodes"], 1))
    for s in range(len(tree.level)):
        tree.many[s] = tree.cpus[s] = tree.taken[s] = tree.far[s] = 0
        for x in range(len(tree.offered)):
            tree.own[s, x] = tree.nodes[s, x] & tree.offered[x]
        own, light = tree.own[s], np.int64(-1)
        i = next_in(own, 0, len(weight))
        while i < len(weight):
            tree.many[s] += 1
            tree.cpus[s] += tree.units[i]
            heavy = _heavy(space, weight, i)
            light = heavy if light < 0 or heavy < light else light
            i = next_in(own, i + 1, len(weight))
        if tree.many[s] < least or (tree.marks[RECENT] and tree.cpus[s] < need):
            continue
        if top < 0 or (tree.level[s] >= tree.level[top] and light <= lightest):
            top, lightest = s, light
    for s in range(len(tree.level) if top >= 0 else 0):
        for x in range(len(tree.offered)):
            tree.own[s, x] &= tree.own[top, x]
    return top


@inlined
def _heavy(space, weight, i):
    return weight[i] * WEIGHT + space.rank[i]


@kernel
def _lightest(cells, free, weight, space, top):
    """tree.best = the nodes below a switch of the smallest weights that suffice, tree.must = those of all weights but the last;
    (do they suffice, are there such that it must have)."""
    tree, N, last, cpus, count, cards = space.tree, len(weight), np.int64(-1), np.int64(0), np.int64(0), np.int64(0)
    for x in range(len(tree.best)):
        tree.best[x] = tree.must[x] = NOTHING
    while True:
        light = np.int64(-1)
        i = next_in(tree.own[top], 0, N)
        while i < N:
            heavy = _heavy(space, weight, i)
            light = heavy if heavy > last and (light < 0 or heavy < light) else light
            i = next_in(tree.own[top], i + 1, N)
        if light < 0:
            return False, count > 0
        for x in range(len(tree.best)):
            tree.must[x] |= tree.best[x]
        must_have, c = count > 0, 0
        i = next_in(tree.own[top], 0, N)
        while i < N:
            if _heavy(space, weight, i) == light:
                c = cell_of(cells, i, c)
                add(tree.best, i)
                cpus, count, cards = cpus + tree.units[i], count + 1, cards + free[c, GPUS]
            i = next_in(tree.own[top], i + 1, N)
        if cpus >= tree.left[CPUS_LEFT] and count >= tree.left[NODES_LEFT] and cards >= tree.left[GPUS_LEFT]:
            return True, must_have
        last = light


@inlined
def _served(tree):
    return tree.left[CPUS_LEFT] <= 0 and tree.left[NODES_LEFT] <= 0 and tree.left[GPUS_LEFT] <= 0


@kernel
def _take(ask, cells, free, space, i, c, node, more):
    """The job takes node i, of cell c."""
    left, units = space.tree.left, space.tree.units
    units[i] = min(units[i], max(left[CPUS_LEFT] - max(left[NODES_LEFT] - 1, 0), np.int64(ask["cpus"])))
    left[CPUS_LEFT] -= units[i]
    left[NODES_LEFT] -= 1
    left[MOST_LEFT] -= 1
    left[GPUS_LEFT] -= free[c, GPUS]
    add(space.tree.chosen, i)
    k = left[PICKED]
    if k > 0 and node[k - 1] + more[k - 1] + 1 == i:
        more[k - 1] += 1
    else:
        node[k], more[k] = i, 0
        left[PICKED] += 1


@kernel
def _take_all(ask, cells, free, space, own, bound, node, more):
    """The job takes nodes of the set `own` in their order until it is served, no more than it may have where `bound`; how many,
    and whether it is served."""
    tree, N, c, count = space.tree, cells.first[cells.size[0]], 0, 0
    i = next_in(own, 0, N)
    while i < N and (not bound or tree.left[MOST_LEFT] > 0):
        if tree.chosen[i >> 6] >> np.uint64(i & 63) & ONE == NOTHING:
            c = cell_of(cells, i, c)
            _take(ask, cells, free, space, i, c, node, more)
            count += 1
            if _served(tree):
                return count, True
        i = next_in(own, i + 1, N)
    return count, False


@kernel
def _gone(tree, s, count):
    """`count` nodes of switch s, and of those above it, are no longer left (24.11)."""
    while True:
        tree.many[s] = max(tree.many[s] - count, 0)
        if tree.parent[s] == s:
            return
        s = tree.parent[s]


@kernel
def _add_far(tree, s):
    for t in range(len(tree.far)):
        tree.far[t] = min(tree.far[t] + tree.apart[s, t], NOWHERE)


@kernel
def _fits(tree, s):
    """Does what is left below a switch serve the job?"""
    enough_cpus = not tree.marks[RECENT] or tree.cpus[s] >= tree.left[CPUS_LEFT]
    return tree.many[s] >= tree.left[NODES_LEFT] and enough_cpus


@kernel
def _compare(tree, i, j):
    """(1: switch i is the better one, -1: switch j, 0: neither; does the last of i's that was looked at serve?)."""
    while True:
        first, second = _fits(tree, i), _fits(tree, j)
        if first and second:
            if tree.many[i] != tree.many[j]:
                return 1 if tree.many[i] < tree.many[j] else -1, first
            break
        if first or second:
            return 1 if first else -1, first
        if (tree.parent[i] == i and tree.parent[j] == j) or tree.parent[i] == tree.parent[j]:
            break
        i, j = tree.parent[i], tree.parent[j]
    if tree.many[i] != tree.many[j]:
        return 1 if tree.many[i] > tree.many[j] else -1, first
    if tree.level[i] != tree.level[j]:
        return 1 if tree.level[i] < tree.level[j] else -1, first
    return 0, first


@kernel
def _best_leaf(tree):
    """The leaf switch from which nodes are taken next; -1: none."""
    best = -1
    for s in range(len(tree.level)):
        if tree.taken[s] or tree.level[s] > 0 or tree.many[s] == 0 or tree.far[s] >= NOWHERE:
            continue
        if best < 0:
            best = s
            continue
        better, serves = _compare(tree, s, best)
        nearer = serves if tree.marks[RECENT] else better >= 0
        if (tree.far[s] < tree.far[best] and nearer) or (tree.far[s] == tree.far[best] and better > 0):
            best = s
    return best


@kernel
def _leaves(tree):
    """On how many leaf switches is the job?"""
    count = 0
    for s in range(len(tree.level)):
        is_on = False
        for x in range(len(tree.chosen)):
            is_on |= tree.level[s] == 0 and tree.own[s, x] & tree.chosen[x] != NOTHING
        count += is_on
    return count


@kernel
def _chosen(ask, cells, free, weight, space, top, node, more):
    """Is the job served by nodes below a switch? They are entered."""
    tree = space.tree
    suffice, must_have = _lightest(cells, free, weight, space, top)
    if not suffice:
        return False
    if must_have:
        _take_all(ask, cells, free, space, tree.must, True, node, more)
        for s in range(len(tree.level)):
            for x in range(len(tree.must)):
                tree.taken[s] |= tree.must[x] & tree.own[s, x] != NOTHING
        for x in range(len(tree.must)):
            tree.chosen[x] |= tree.must[x]
        if _served(tree):
            return True
        if tree.left[MOST_LEFT] <= 0:
            return False
    for s in range(len(tree.level)):
        tree.many[s] = 0
        for x in range(len(tree.best)):
            tree.own[s, x] &= tree.best[x] | tree.chosen[x]
        i = next_in(tree.own[s], 0, len(weight))
        while i < len(weight):
            tree.many[s] += 1
            i = next_in(tree.own[s], i + 1, len(weight))
    count = 0
    for s in range(len(tree.level) if must_have else 0):  # what else there is on the leaves that it is on
        if tree.taken[s] and tree.level[s] == 0:
            taken, done = _take_all(ask, cells, free, space, tree.own[s], tree.marks[BOUND], node, more)
            count += taken
            if done:
                return True
            if tree.marks[BOUND] and tree.left[MOST_LEFT] <= 0:
                return False
            if tree.marks[RECENT]:
                _gone(tree, s, count)
    for s in range(len(tree.level)):
        if tree.taken[s]:
            _add_far(tree, s)
    while True:
        s = _best_leaf(tree)
        if s < 0:
            break
        _add_far(tree, s)
        before = tree.left[NODES_LEFT]
        _, done = _take_all(ask, cells, free, space, tree.own[s], True, node, more)
        if done:
            return True
        if tree.marks[RECENT]:
            _gone(tree, s, tree.many[s])
        tree.many[s] = 0
        if tree.left[NODES_LEFT] == before:  # nothing more
            break
    return _served(tree)


@kernel
def _try(ask, cells, free, weight, space, node, more):
    """The same, of what is offered. REFUSED: the job is on too many switches."""
    tree = space.tree
    top = _measure(ask, weight, space)
    if top < 0:
        return 0
    least = np.int64(max(ask["nodes"], 1))
    tree.left[CPUS_LEFT], tree.left[NODES_LEFT] = np.int64(ask["tasks"]) * ask["cpus"], least
    tree.left[MOST_LEFT] = ask["most"] if ask["most"] > 0 else max(ask["tasks"], least)
    tree.left[GPUS_LEFT], tree.left[PICKED] = ask["gpus"], 0
    for x in range(len(tree.chosen)):
        tree.chosen[x] = NOTHING
    if not _chosen(ask, cells, free, weight, space, top, node, more):
        return 0
    if not tree.marks[PATIENT] and _leaves(tree) > ask["switches"]:
        return REFUSED
    return tree.left[PICKED]


@kernel
def pick_below(ask, cells, free, weight, space, node, more):
    """Nodes for a job by what was measured: node[:k], each with the more[:k] nodes behind it; k = 0 where it does not fit.
    Where the choice fails, nodes with the least are left out in their order, as many as it can do without, and it is made
    again."""
    tree, N = space.tree, len(weight)
    left, least, largest, count = _offer(cells, space), np.int64(max(ask["nodes"], 1)), np.int64(0), np.int64(1)
    k = _try(ask, cells, free, weight, space, node, more)
    if k != 0 or left <= least:
        return max(k, 0)
    i, c = next_in(tree.offered, 0, N), 0
    while i < N:
        c = cell_of(cells, i, c)
        largest = max(largest, tree.units[i] + (free[c, GPUS] if of_gpus(ask) else 0))
        i = next_in(tree.offered, i + 1, N)
    while count < largest and k == 0:
        changed, c = False, 0
        i = next_in(tree.offered, 0, N)
        while i < N and left > least:
            c = cell_of(cells, i, c)
            if tree.units[i] + (free[c, GPUS] if of_gpus(ask) else 0) <= count:
                count -= 1 if tree.marks[RECENT] and not changed else 0
                drop(tree.offered, i)
                changed, left = True, left - 1
            i = next_in(tree.offered, i + 1, N)
        if changed or count == 1:
            k = _try(ask, cells, free, weight, space, node, more)
        if left <= least:
            break
        count += 1
    return max(k, 0)

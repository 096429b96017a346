"""When could a job start? Running jobs are taken away, as their limits say, in groups of half a minute and more, until it fits.

After Slurm 22.05, as measured on a real one (docs/systems/slurm.md).
"""

from __future__ import annotations

import numpy as np

from jobwise.compiled import allocating, inlined, kernel
from jobwise.sim.conservative import copy_row
from jobwise.sim.node_choice import CPUS, again, enough, measure, pick
from jobwise.sim.node_sets import BITS, NOTHING, ONE, add, has, lowest
from jobwise.sim.slurm_time import floored, is_exact, whole
from jobwise.sim.state import HEAP

GROUP = 30.0  # s: running jobs whose ends lie so close to the first of a group are taken away together


@kernel
def mask_of(m, job, partition, mask):
    """The nodes that a job may use in a partition."""
    own, ask = m.partition[partition]["set"], m.ask[job["ask"]]["set"]
    for x in range(len(mask)):
        mask[x] = m.sets[own, x] & m.sets[ask, x] & m.up[x]


@kernel
def take_free(s, e, m):
    """m.free = what is free now, m.some = the nodes with free CPUs, m.up = those that work."""
    for x in range(len(m.some)):
        m.some[x] = m.up[x] = NOTHING
    for i in range(len(m.free)):
        node = s.nodes[e, i]
        for r in range(m.free.shape[1]):
            m.free[i, r] = node["free"][r]
        if node["up"]:
            add(m.up, i)
            if node["free"][CPUS] > 0:
                add(m.some, i)


@inlined
def _expected(s, e, m, j, now):
    """When job j ends by its limit; soon, where it is over that."""
    t = whole(m, s.jobs[e, j]["due"])
    return t if t > now else now + 1.0


@allocating
def expected_ends(s, e, m, now):
    """m.ends[:n] = the running jobs by expected end, m.end their ends (s), m.on the nodes that they are on; n."""
    n = s.sims[e]["running"]
    rows = np.sort(s.lists[e, HEAP, :n])
    t = np.empty(n)
    for i in range(n):
        t[i] = _expected(s, e, m, rows[i], now)
    order = np.argsort(t, kind="mergesort")
    for i in range(n):
        m.ends[i], m.end[i] = rows[order[i]], t[order[i]]
        _mark(s, e, m, i)
    return n


@kernel
def _mark(s, e, m, i):
    """m.on[i] = the nodes of running job m.ends[i]."""
    for x in range(m.on.shape[1]):
        m.on[i, x] = NOTHING
    at = s.jobs[e, m.ends[i]]["held"]
    while at >= 0:
        add(m.on[i], s.slices[e, at]["node"])
        at = s.slices[e, at]["next"]


@kernel
def insert(s, e, m, n, j, now):
    """Job j has started, too; how many run."""
    k, t = n, _expected(s, e, m, j, now)
    while k > 0 and (m.end[k - 1] > t or (m.end[k - 1] == t and m.ends[k - 1] > j)):
        m.end[k], m.ends[k] = m.end[k - 1], m.ends[k - 1]
        copy_row(m.on, k - 1, k)
        k -= 1
    m.end[k], m.ends[k] = t, j
    _mark(s, e, m, k)
    return n + 1


@inlined
def _touches(m, i, mask, words):
    """Is running job m.ends[i] on a node of the mask, whose words m.words[:words] are not empty?"""
    for x in range(words):
        if m.on[i, m.words[x]] & mask[m.words[x]] != NOTHING:
            return True
    return False


@kernel
def _free_later(m, mask):
    """m.later = what is free now on nodes of the mask; in how many words it has some."""
    words = 0
    for x in range(len(mask)):
        word = mask[x]
        if word != NOTHING:
            m.words[words] = x
            words += 1
        while word != NOTHING:
            i = np.int64(x * BITS) + lowest(word)
            word &= word - ONE
            for r in range(m.free.shape[1]):
                m.later[i, r] = m.free[i, r]
    return words


@kernel
def _give_back(s, e, m, ask, j, mask):
    """Job j is taken away from m.later."""
    at = s.jobs[e, j]["held"]
    while at >= 0:
        piece = s.slices[e, at]
        node = piece["node"]
        if has(mask, node):
            for r in range(m.later.shape[1]):
                m.later[node, r] += piece["amount"][r]
            again(ask, m.later, m.capacity, m.room, node)
        at = piece["next"]


@kernel
def will_run(s, e, m, ask, mask, n, now):
    """(nodes chosen into m.node, when the job could start on nodes of the mask); none: (0, inf)."""
    if measure(ask, mask, m.some, m.free, m.capacity, m.room):
        k = pick(ask, m.free, m.weight, m.room, m.node)
        if k > 0:
            return k, now
    words, at, bound = _free_later(m, mask), 0, 0.0
    while at < n:
        first, last = np.inf, -1.0
        while at < n:
            j, t = m.ends[at], m.end[at]
            at += 1
            if not _touches(m, at - 1, mask, words):
                continue
            if first == np.inf:
                first = t
                bound = first if is_exact(m) else floored(m, first, GROUP) + 2.0 * GROUP
            last = t
            _give_back(s, e, m, ask, j, mask)
            if at < n and m.end[at] > bound:  # asked only behind a job that counts
                break
        if last < 0:
            break
        if enough(ask, m.room):
            k = pick(ask, m.later, m.weight, m.room, m.node)
            if k > 0:
                return k, last
    return 0, np.inf

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

GROUP = 30.0  # s: the first group of running jobs that are taken away together ends so long after the first end; then twice it


@kernel
def mask_of(slurm, job, partition, mask):
    """The nodes that a job may use in a partition."""
    own, ask = slurm.site.partition[partition]["set"], slurm.site.ask[job["ask"]]["set"]
    for x in range(len(mask)):
        mask[x] = slurm.site.sets[own, x] & slurm.site.sets[ask, x] & slurm.work.up[x]


@kernel
def take_free(s, e, slurm):
    """slurm.work.free = what is free now, slurm.work.some = the nodes with free CPUs, slurm.work.up = those that work."""
    for x in range(len(slurm.work.some)):
        slurm.work.some[x] = slurm.work.up[x] = NOTHING
    for i in range(len(slurm.work.free)):
        node = s.nodes[e, i]
        for r in range(slurm.work.free.shape[1]):
            slurm.work.free[i, r] = node["free"][r]
        if node["up"]:
            add(slurm.work.up, i)
            if node["free"][CPUS] > 0:
                add(slurm.work.some, i)


@inlined
def _expected(s, e, slurm, j, now):
    """When job j ends by its limit; a list scheduler expects soon what is over it."""
    t = whole(slurm, s.jobs[e, j]["due"])
    return now + 1.0 if t <= now and is_exact(slurm) else t


@inlined
def _free_at(slurm, t, now):
    """When a job is gone that ends at t by its limit: where it is over that, once it has been killed."""
    return t if t > now else max(t + slurm.site.settings[0]["kill_wait"], now + 1.0)


@allocating
def expected_ends(s, e, slurm, now):
    """slurm.work.ends[:n] = the running jobs by expected end, slurm.work.end their ends (s), slurm.work.on the nodes that they
    are on; n."""
    n = s.sims[e]["running"]
    rows = s.lists[e, HEAP, :n].copy()
    rows = rows[np.argsort(slurm.ledger.turn[rows])]
    t = np.empty(n)
    for i in range(n):
        t[i] = _expected(s, e, slurm, rows[i], now)
    order = np.argsort(t, kind="mergesort")
    for i in range(n):
        slurm.work.ends[i], slurm.work.end[i] = rows[order[i]], t[order[i]]
        _mark(s, e, slurm, i)
    return n


@kernel
def _mark(s, e, slurm, i):
    """slurm.work.on[i] = the nodes of running job slurm.work.ends[i]."""
    for x in range(slurm.work.on.shape[1]):
        slurm.work.on[i, x] = NOTHING
    at = s.jobs[e, slurm.work.ends[i]]["held"]
    while at >= 0:
        add(slurm.work.on[i], s.slices[e, at]["node"])
        at = s.slices[e, at]["next"]


@kernel
def insert(s, e, slurm, n, j, now):
    """Job j has started, too; how many run."""
    k, t, turn = n, _expected(s, e, slurm, j, now), slurm.ledger.turn
    while k > 0 and (slurm.work.end[k - 1] > t or (slurm.work.end[k - 1] == t and turn[slurm.work.ends[k - 1]] > turn[j])):
        slurm.work.end[k], slurm.work.ends[k] = slurm.work.end[k - 1], slurm.work.ends[k - 1]
        copy_row(slurm.work.on, k - 1, k)
        k -= 1
    slurm.work.end[k], slurm.work.ends[k] = t, j
    _mark(s, e, slurm, k)
    return n + 1


@inlined
def _touches(slurm, i, mask, words):
    """Is running job slurm.work.ends[i] on a node of the mask, whose words slurm.work.words[:words] are not empty?"""
    for x in range(words):
        if slurm.work.on[i, slurm.work.words[x]] & mask[slurm.work.words[x]] != NOTHING:
            return True
    return False


@kernel
def _free_later(slurm, mask):
    """slurm.work.later = what is free now on nodes of the mask; in how many words it has some."""
    words = 0
    for x in range(len(mask)):
        word = mask[x]
        if word != NOTHING:
            slurm.work.words[words] = x
            words += 1
        while word != NOTHING:
            i = np.int64(x * BITS) + lowest(word)
            word &= word - ONE
            for r in range(slurm.work.free.shape[1]):
                slurm.work.later[i, r] = slurm.work.free[i, r]
    return words


@kernel
def _give_back(s, e, slurm, ask, j, mask):
    """Job j is taken away from slurm.work.later."""
    at = s.jobs[e, j]["held"]
    while at >= 0:
        piece = s.slices[e, at]
        node = piece["node"]
        if has(mask, node):
            for r in range(slurm.work.later.shape[1]):
                slurm.work.later[node, r] += piece["amount"][r]
            again(ask, slurm.work.later, slurm.site.capacity, slurm.work.room, node)
        at = piece["next"]


@kernel
def will_run(s, e, slurm, ask, mask, n, now, until):
    """(nodes chosen into slurm.work.node, when the job could start on nodes of the mask); none, or not by `until`: (0, inf)."""
    if measure(ask, mask, slurm.work.some, slurm.work.free, slurm.site.capacity, slurm.work.room):
        k = pick(ask, slurm.work.free, slurm.site.weight, slurm.work.room, slurm.work.node)
        if k > 0:
            return k, now
    words, at, origin, window, last = _free_later(slurm, mask), 0, np.inf, 0.0 if is_exact(slurm) else GROUP, np.inf
    while at < n:
        gone = False
        while at < n:
            t = slurm.work.end[at]
            at += 1
            if t > until and not gone:
                return 0, np.inf
            if not _touches(slurm, at - 1, mask, words):
                continue
            if t > until:
                return 0, np.inf
            if origin == np.inf:
                origin = t if is_exact(slurm) else floored(slurm, t, GROUP) + GROUP
            if is_exact(slurm):
                origin = t if not gone else origin
            last, gone = t, True
            _give_back(s, e, slurm, ask, slurm.work.ends[at - 1], mask)
            if at < n and slurm.work.end[at] > origin + window:  # asked only behind a job that counts
                break
        if not gone:
            break
        window *= 2.0
        while window > 0.0 and at < n and slurm.work.end[at] > origin + window:
            window *= 2.0
        if enough(ask, slurm.work.room):
            k = pick(ask, slurm.work.later, slurm.site.weight, slurm.work.room, slurm.work.node)
            if k > 0:
                return k, _free_at(slurm, last, now)
    return 0, np.inf

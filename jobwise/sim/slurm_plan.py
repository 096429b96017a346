"""A cycle of Slurm's backfill scheduler: every waiting job, by priority, gets a planned start; those whose start is now, start.

A plan holds whole nodes from its start until start + time limit; a job of lower priority may use the nodes of a plan only
before or after it. When a job could start is found out by taking the running jobs away, as their limits say, in groups of half
a minute and more (`will_run`). After Slurm 22.05, sched/backfill, as measured on a real one (docs/systems/slurm.md).
"""

from __future__ import annotations

import numpy as np

from jobwise.sim.compiled import allocating, inlined, kernel
from jobwise.sim.conservative import copy_row
from jobwise.sim.node_choice import again, deal, enough, measure, pick
from jobwise.sim.state import HEAP

GROUP = 30.0  # s: running jobs whose ends lie so close to the first of a group are taken away together


@inlined
def whole(t):
    """The scheduler counts in whole seconds."""
    return np.floor(t)


@kernel
def mask_of(s, e, m, j, partition, mask):
    """The nodes [N] that job j may use in a partition."""
    own, ask = m.partition[partition]["set"], m.ask[s.jobs[e, j]["ask"]]["set"]
    for i in range(len(mask)):
        mask[i] = m.sets[own, i] and m.sets[ask, i] and s.nodes[e, i]["up"]


@kernel
def take_free(s, e, free):
    """free [N, R] = what is free now."""
    for i in range(len(free)):
        for r in range(free.shape[1]):
            free[i, r] = s.nodes[e, i]["free"][r]


@inlined
def _expected(s, e, j, now):
    """When job j ends by its limit; soon, where it is over that."""
    t = whole(s.jobs[e, j]["due"])
    return t if t > now else now + 1.0


@allocating
def expected_ends(s, e, m, now):
    """m.ends[:n] = the running jobs by expected end, m.end their ends (s); n."""
    n = s.sims[e]["running"]
    rows = np.sort(s.lists[e, HEAP, :n])
    t = np.empty(n)
    for i in range(n):
        t[i] = _expected(s, e, rows[i], now)
    order = np.argsort(t, kind="mergesort")
    for i in range(n):
        m.ends[i], m.end[i] = rows[order[i]], t[order[i]]
    return n


@kernel
def insert(s, e, m, n, j, now):
    """Job j has started, too; how many run."""
    k, t = n, _expected(s, e, j, now)
    while k > 0 and (m.end[k - 1] > t or (m.end[k - 1] == t and m.ends[k - 1] > j)):
        m.end[k], m.ends[k] = m.end[k - 1], m.ends[k - 1]
        k -= 1
    m.end[k], m.ends[k] = t, j
    return n + 1


@kernel
def _touches(s, e, j, mask):
    at = s.jobs[e, j]["held"]
    while at >= 0:
        if mask[s.slices[e, at]["node"]]:
            return True
        at = s.slices[e, at]["next"]
    return False


@kernel
def _give_back(s, e, m, ask, j, mask):
    """Job j is taken away from m.later."""
    at = s.jobs[e, j]["held"]
    while at >= 0:
        piece = s.slices[e, at]
        node = piece["node"]
        for r in range(m.later.shape[1]):
            m.later[node, r] += piece["amount"][r]
        if mask[node]:
            again(ask, m.later, m.capacity, m.room, node)
        at = piece["next"]


@inlined
def _floor(m, t, step):
    """The last whole multiple of the step, as clocks show it."""
    zero = m.clock[0]["zero"]
    return np.floor((t + zero) / step) * step - zero


@kernel
def will_run(s, e, m, ask, mask, n, now):
    """(nodes chosen into m.node, when the job could start on nodes of the mask); none: (0, inf)."""
    if measure(ask, mask, m.free, m.capacity, m.room):
        k = pick(ask, m.free, m.weight, m.room, m.node)
        if k > 0:
            return k, now
        measure(ask, mask, m.free, m.capacity, m.room)
    for i in range(len(m.free)):
        for r in range(m.free.shape[1]):
            m.later[i, r] = m.free[i, r]
    at, bound = 0, 0.0
    while at < n:
        first, last = np.inf, -1.0
        while at < n:
            j, t = m.ends[at], m.end[at]
            at += 1
            if not _touches(s, e, j, mask):
                continue
            if first == np.inf:
                first = t
                bound = _floor(m, first, GROUP) + 2.0 * GROUP
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
            measure(ask, mask, m.later, m.capacity, m.room)
    return 0, np.inf


@kernel
def _split(m, count, at, t):
    """Cut record `at` at time t in two; how many records there are then."""
    for i in range(count, at + 1, -1):
        m.begin[i], m.until[i] = m.begin[i - 1], m.until[i - 1]
        copy_row(m.open, i - 1, i)
    m.begin[at + 1], m.until[at + 1] = t, m.until[at]
    m.until[at] = t
    copy_row(m.open, at, at + 1)
    return count + 1


@kernel
def hold_back(m, count, start, end, k):
    """Keep nodes m.node[:k] for a plan from start to end; how many records of the calendar there are then."""
    for cut in (start, end):
        for i in range(count):
            if m.begin[i] < cut < m.until[i]:
                count = _split(m, count, i, cut)
                break
    for i in range(count):
        if m.begin[i] >= start and m.until[i] <= end:
            for x in range(k):
                m.open[i, m.node[x]] = 0
    return count


@kernel
def overlaps(m, count, start, end, k):
    """Is one of the nodes m.node[:k] kept for somebody between start and end?"""
    for i in range(count):
        if m.until[i] > start and m.begin[i] < end:
            for x in range(k):
                if not m.open[i, m.node[x]]:
                    return True
    return False


@kernel
def plan(s, e, m, j, partition, count, n, now):
    """(when job j may start, nodes chosen into m.node); (inf, 0) where it gets no plan in the window."""
    x, ask, limit = m.settings[0], m.ask[s.jobs[e, j]["ask"]], max(s.jobs[e, j]["walltime"], 1.0)
    mask_of(s, e, m, j, partition, m.mask)
    later = now
    while True:
        begin, later = later, 0.0
        for y in range(len(m.mask)):
            m.open_mask[y] = m.mask[y]
        for i in range(count):
            if m.until[i] > begin and i + 1 < count and later == 0.0:
                later = m.until[i]
            if m.until[i] > begin:
                if m.begin[i] >= begin + limit:
                    break
                for y in range(len(m.mask)):
                    m.open_mask[y] &= m.open[i, y]
        k, t = will_run(s, e, m, ask, m.open_mask, n, now)
        if k == 0:
            if later > 0.0:
                continue
            return np.inf, 0
        t = max(t, begin)
        if t <= now:
            return t, k
        if later > 0.0 and t > later:
            continue
        if t > now + x["bf_window"]:
            return np.inf, 0
        if overlaps(m, count, t, _end(m, t, limit), k):
            later = t
            continue
        return t, k


@inlined
def _end(m, start, limit):
    """Plans end at whole multiples of the resolution."""
    return _floor(m, start + limit, m.settings[0]["bf_resolution"])


@kernel
def calendar(m, now):
    """Nothing is planned yet."""
    m.begin[0], m.until[0] = now, now + m.settings[0]["bf_window"]
    for y in range(m.open.shape[1]):
        m.open[0, y] = 1
    return 1


@kernel
def keep(m, ask, count, t, limit, k, j):
    """Enter the plan of job j into the calendar."""
    if ask["whole"]:
        m.planned[j] = 0.0
        for i in range(k):
            m.planned[j] += m.capacity[m.node[i], 0]
    begin = max(_floor(m, t, m.settings[0]["bf_resolution"]), m.begin[0])
    return hold_back(m, count, begin, _end(m, t, limit), k)


@kernel
def amounts(m, ask, free, k):
    """What a job takes of the nodes that were chosen for it into m.amount."""
    deal(ask, free, m.capacity, m.node, k, m.amount)

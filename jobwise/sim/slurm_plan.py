"""A cycle of Slurm's backfill scheduler: every waiting job, by priority, gets a planned start; those whose start is now, start.

A plan holds whole nodes from its start until start + time limit; a job of lower priority may use the nodes of a plan only
before or after it. When a job could start is found out by taking the running jobs away, as their limits say, in groups of half
a minute and more (`will_run`). After Slurm 22.05, sched/backfill, as measured on a real one (docs/systems/slurm.md).
"""

from __future__ import annotations

import numpy as np

from jobwise.sim.compiled import allocating, inlined, kernel
from jobwise.sim.conservative import copy_row
from jobwise.sim.node_choice import CPUS, again, deal, enough, measure, pick
from jobwise.sim.node_sets import BITS, NOTHING, ONE, add, has, lowest, size
from jobwise.sim.state import HEAP

GROUP = 30.0  # s: running jobs whose ends lie so close to the first of a group are taken away together


@inlined
def is_exact(m):
    """Does it count in parts of a second? A list scheduler does, Slurm in whole ones."""
    return m.settings[0]["bf_resolution"] == 0


@inlined
def whole(m, t):
    """The scheduler counts in whole seconds."""
    return t if is_exact(m) else np.floor(t)


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


@inlined
def _floor(m, t, step):
    """The last whole multiple of the step, as clocks show it."""
    zero = m.clock[0]["zero"]
    return np.floor((t + zero) / step) * step - zero


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
                bound = first if is_exact(m) else _floor(m, first, GROUP) + 2.0 * GROUP
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
def _chosen(m, k):
    """m.chosen = the set of nodes m.node[:k]."""
    for x in range(len(m.chosen)):
        m.chosen[x] = NOTHING
    for i in range(k):
        add(m.chosen, m.node[i])


@kernel
def hold_back(m, count, start, end, k):
    """Keep nodes m.node[:k] for a plan from start to end; how many records of the calendar there are then."""
    for cut in (start, end):
        for i in range(count):
            if m.begin[i] < cut < m.until[i]:
                count = _split(m, count, i, cut)
                break
    _chosen(m, k)
    for i in range(count):
        if m.begin[i] >= start and m.until[i] <= end:
            for x in range(len(m.chosen)):
                m.open[i, x] &= ~m.chosen[x]
    return count


@kernel
def overlaps(m, count, start, end, k):
    """Is one of the nodes m.node[:k] kept for somebody between start and end?"""
    _chosen(m, k)
    for i in range(count):
        if m.until[i] > start and m.begin[i] < end:
            for x in range(len(m.chosen)):
                if m.chosen[x] & ~m.open[i, x] != NOTHING:
                    return True
    return False


@kernel
def left_open(m, count, at, begin, limit):
    """m.open_mask = the nodes of m.mask that are kept for nobody from begin to begin + limit; record `at` holds begin."""
    for x in range(len(m.mask)):
        m.open_mask[x] = m.mask[x]
    for i in range(at, count):
        if m.begin[i] >= begin + limit:
            break
        for x in range(len(m.mask)):
            m.open_mask[x] &= m.open[i, x]


@inlined
def _hopeless(m, ask):
    """Are there too few nodes in m.open_mask, were they all free?"""
    count = size(m.open_mask)
    return count < max(ask["nodes"], 1) or count * m.largest[0] < np.int64(ask["tasks"]) * ask["cpus"]


@inlined
def _inside(a, b):
    """Is set a a part of set b?"""
    for x in range(len(a)):
        if a[x] & ~b[x] != NOTHING:
            return False
    return True


@kernel
def plan(s, e, m, j, partition, count, n, now, since):
    """(when job j may start, nodes chosen into m.node, up to where in time nothing was to be had for sure) by a search that
    begins at `since`; (inf, 0, .) where the job gets no plan in the window."""
    x, ask, limit = m.settings[0], m.ask[s.jobs[e, j]["ask"]], max(s.jobs[e, j]["walltime"], 1.0)
    mask_of(m, s.jobs[e, j], partition, m.mask)
    later, at, known, sure, plain = since, 0, -1.0, -1.0, m.clock[0]["plain"]
    while True:
        begin, later = later, 0.0
        while at + 1 < count and m.until[at] <= begin:
            at += 1
        if at + 1 < count:
            later = m.until[at]
        left_open(m, count, at, begin, limit)
        if later > 0.0 and known > later and ask["most"] == 0 and not plain and _inside(m.open_mask, m.tried):
            continue  # of fewer nodes it could not start before, and that was too late already
        k, t = 0, np.inf
        if not _hopeless(m, ask):
            k, t = will_run(s, e, m, ask, m.open_mask, n, now)
        known = t
        for y in range(len(m.tried)):
            m.tried[y] = m.open_mask[y]
        if k == 0:
            if later > 0.0:
                continue
            return np.inf, 0, begin if sure < 0 else sure
        t = max(t, begin)
        if t <= now:
            return t, k, begin
        if later > 0.0 and t > later:
            continue
        if t > now + x["bf_window"]:
            return np.inf, 0, begin if sure < 0 else sure
        if overlaps(m, count, t, _end(m, t, limit), k):
            later = t
            sure = begin if sure < 0 else sure  # other nodes might have been free
            continue
        return t, k, begin if sure < 0 else sure


@inlined
def _end(m, start, limit):
    """Plans end at whole multiples of the resolution."""
    return start + limit if is_exact(m) else _floor(m, start + limit, m.settings[0]["bf_resolution"])


@kernel
def calendar(m, now):
    """Nothing is planned yet."""
    m.begin[0], m.until[0] = now, now + m.settings[0]["bf_window"]
    for x in range(m.open.shape[1]):
        m.open[0, x] = ~NOTHING
    return 1


@kernel
def keep(m, ask, count, t, limit, k, j):
    """Enter the plan of job j into the calendar."""
    if ask["whole"]:
        m.planned[j] = 0.0
        for i in range(k):
            m.planned[j] += m.capacity[m.node[i], 0]
    begin = t if is_exact(m) else max(_floor(m, t, m.settings[0]["bf_resolution"]), m.begin[0])
    return hold_back(m, count, begin, _end(m, t, limit), k)


# ------------------------------------------------------------------ what earlier plans of a cycle tell

NOTES = 64  # plans that are looked up


@inlined
def _asks_more(a, b):
    """Does b ask for at least what a asks for? Jobs that want few nodes may fail where more nodes are free: never of them."""
    return (
        (a["set"] == b["set"] or a["set"] == 0) and a["nodes"] <= b["nodes"] and a["most"] == 0 and b["most"] == 0
        and a["tasks"] <= b["tasks"] and a["cpus"] == b["cpus"]
        and a["memory_cpu"] <= b["memory_cpu"] and a["memory"] <= b["memory"] and a["gpus"] <= b["gpus"]
        and a["gpus_node"] <= b["gpus_node"] and a["whole"] <= b["whole"]
    )  # fmt: skip


@kernel
def known_from(m, count, ask, partition, limit, now):
    """From when on a search for this job has to look: one that asked for less, of higher priority, found nothing before."""
    since = now
    for i in range(0 if m.clock[0]["plain"] else count):
        x = m.notes[i]
        counts = x["begin"] > since and x["partition"] == partition and x["limit"] <= limit
        if counts and _asks_more(m.ask[x["ask"]], m.ask[ask]):
            since = x["begin"]
    return since


@kernel
def remember(m, count, ask, partition, limit, begin):
    """Note how far a search had to go; how many notes there are."""
    x = m.notes[count % NOTES]
    x["ask"], x["partition"], x["limit"], x["begin"] = ask, partition, limit, begin
    return count + 1


@kernel
def amounts(m, ask, free, k):
    """What a job takes of the nodes that were chosen for it into m.amount."""
    deal(ask, free, m.capacity, m.node, k, m.amount)

"""The calendar of a cycle: which nodes are kept for plans, from when until when. A plan holds whole nodes until its end."""

from __future__ import annotations

from jobwise.compiled import kernel
from jobwise.sim.conservative import copy_row
from jobwise.sim.node_sets import NOTHING, add
from jobwise.sim.slurm_time import floored, is_exact, plan_end


@kernel
def calendar(m, now):
    """Empty the calendar of planned nodes."""
    m.begin[0], m.until[0] = now, now + m.settings[0]["bf_window"]
    for x in range(m.open.shape[1]):
        m.open[0, x] = ~NOTHING
    return 1


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


@kernel
def keep(m, ask, count, t, limit, k, j):
    """Enter the plan of job j into the calendar."""
    if ask["whole"]:
        m.planned[j] = 0.0
        for i in range(k):
            m.planned[j] += m.capacity[m.node[i], 0]
    begin = t if is_exact(m) else max(floored(m, t, m.settings[0]["bf_resolution"]), m.begin[0])
    return hold_back(m, count, begin, plan_end(m, t, limit), k)

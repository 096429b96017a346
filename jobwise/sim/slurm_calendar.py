"""The calendar of a cycle: which nodes are kept for plans, from when until when. A plan holds whole nodes until its end."""

from __future__ import annotations

from jobwise.compiled import kernel
from jobwise.sim.conservative import copy_row
from jobwise.sim.node_sets import NOTHING, add
from jobwise.sim.slurm_time import floored, is_exact, plan_end


@kernel
def calendar(slurm, now):
    """Empty the calendar of planned nodes."""
    slurm.work.begin[0], slurm.work.until[0] = now, now + slurm.site.settings[0]["bf_window"]
    for x in range(slurm.work.open.shape[1]):
        slurm.work.open[0, x] = ~NOTHING
    return 1


@kernel
def _split(slurm, count, at, t):
    """Cut record `at` at time t in two; how many records there are then."""
    for i in range(count, at + 1, -1):
        slurm.work.begin[i], slurm.work.until[i] = slurm.work.begin[i - 1], slurm.work.until[i - 1]
        copy_row(slurm.work.open, i - 1, i)
    slurm.work.begin[at + 1], slurm.work.until[at + 1] = t, slurm.work.until[at]
    slurm.work.until[at] = t
    copy_row(slurm.work.open, at, at + 1)
    return count + 1


@kernel
def _chosen(slurm, k):
    """slurm.work.chosen = the set of nodes slurm.work.node[:k]."""
    for x in range(len(slurm.work.chosen)):
        slurm.work.chosen[x] = NOTHING
    for i in range(k):
        add(slurm.work.chosen, slurm.work.node[i])


@kernel
def hold_back(slurm, count, start, end, k):
    """Keep nodes slurm.work.node[:k] for a plan from start to end; how many records of the calendar there are then."""
    for cut in (start, end):
        for i in range(count):
            if slurm.work.begin[i] < cut < slurm.work.until[i]:
                count = _split(slurm, count, i, cut)
                break
    _chosen(slurm, k)
    for i in range(count):
        if slurm.work.begin[i] >= start and slurm.work.until[i] <= end:
            for x in range(len(slurm.work.chosen)):
                slurm.work.open[i, x] &= ~slurm.work.chosen[x]
    return count


@kernel
def overlaps(slurm, count, start, end, k):
    """Is one of the nodes slurm.work.node[:k] kept for somebody between start and end?"""
    _chosen(slurm, k)
    for i in range(count):
        if slurm.work.until[i] > start and slurm.work.begin[i] < end:
            for x in range(len(slurm.work.chosen)):
                if slurm.work.chosen[x] & ~slurm.work.open[i, x] != NOTHING:
                    return True
    return False


@kernel
def left_open(slurm, count, at, begin, limit):
    """slurm.work.open_mask = the nodes of slurm.work.mask that are kept for nobody from begin to begin + limit; record `at`
    holds begin."""
    for x in range(len(slurm.work.mask)):
        slurm.work.open_mask[x] = slurm.work.mask[x]
    for i in range(at, count):
        if slurm.work.begin[i] >= begin + limit:
            break
        for x in range(len(slurm.work.mask)):
            slurm.work.open_mask[x] &= slurm.work.open[i, x]


@kernel
def keep(slurm, ask, count, t, limit, k, j):
    """Enter the plan of job j into the calendar."""
    if ask["whole"]:
        slurm.ledger.planned[j] = 0.0
        for i in range(k):
            slurm.ledger.planned[j] += slurm.site.capacity[slurm.work.node[i], 0]
    begin = t if is_exact(slurm) else max(floored(slurm, t, slurm.site.settings[0]["bf_resolution"]), slurm.work.begin[0])
    return hold_back(slurm, count, begin, plan_end(slurm, t, limit), k)

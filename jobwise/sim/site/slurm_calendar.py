"""The calendar of a cycle: which nodes are kept for plans, from when until when. A plan holds whole nodes until its end."""

from __future__ import annotations

import numpy as np

from jobwise.compiled import inlined, kernel
from jobwise.sim.lists.conservative import copy_row
from jobwise.sim.site.closures import nodes_of
from jobwise.sim.site.node_sets import NOTHING, add_all
from jobwise.sim.site.slurm_time import floored, is_exact, is_windowed, plan_end, planned_from, resolution

WORDS = 32  # of node sets that are compared at once


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
        add_all(slurm.work.chosen, np.int64(slurm.work.node[i]), np.int64(slurm.work.node[i] + slurm.work.more[i] + 1))


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
    return count if is_exact(slurm) else _joined(slurm, count)


@kernel
def _same(slurm, i):
    """Are the same nodes left open in record i and the next?"""
    for x in range(slurm.work.open.shape[1]):
        if slurm.work.open[i, x] != slurm.work.open[i + 1, x]:
            return False
    return True


@kernel
def _joined(slurm, count):
    """Join the first two records beside each other that leave the same nodes open, as Slurm does after each plan; how many
    records there are then."""
    for i in range(count - 1):
        if _same(slurm, i):
            slurm.work.until[i] = slurm.work.until[i + 1]
            for y in range(i + 1, count - 1):
                slurm.work.begin[y], slurm.work.until[y] = slurm.work.begin[y + 1], slurm.work.until[y + 1]
                copy_row(slurm.work.open, y + 1, y)
            return count - 1
    return count


@kernel
def calendar(slurm, now):
    """Empty the calendar of planned nodes."""
    begin = now if is_exact(slurm) else floored(slurm, now, slurm.site.settings[0]["bf_resolution"])
    slurm.ledger.clock[0]["plans"] = 0
    slurm.work.begin[0], slurm.work.until[0] = begin, now + slurm.site.settings[0]["bf_window"]
    for x in range(slurm.work.open.shape[1]):
        slurm.work.open[0, x] = ~NOTHING
    count = 1
    for i in range(slurm.ledger.clock[0]["over"], len(slurm.site.closures) if is_exact(slurm) else 0):  # Slurm asks job by job
        c, zero = slurm.site.closures[i], slurm.ledger.clock[0]["zero"]
        if c["announced"] and c["known"] - zero <= now < c["end"] - zero and c["begin"] - zero < slurm.work.until[count - 1]:
            count = hold_back(slurm, count, max(c["begin"] - zero, begin), c["end"] - zero, nodes_of(slurm, i))
    return count


@kernel
def overlaps(slurm, count, start, end, k):
    """Return whether one of the nodes slurm.work.node[:k] is kept for another job between start and end."""
    _chosen(slurm, k)
    for i in range(count):
        if slurm.work.until[i] > start and slurm.work.begin[i] < end:
            for x in range(len(slurm.work.chosen)):
                if slurm.work.chosen[x] & ~slurm.work.open[i, x] != NOTHING:
                    return True
    return False


@kernel
def left_open(slurm, partition, count, at, begin, limit):
    """slurm.work.open_mask = the nodes of slurm.work.mask that are kept for no job from begin to begin + limit; record `at`
    holds begin. Returns when another node of the partition, whether it suits the job or not, is next left open; 0: never. From
    24.11 on it may be a time behind the job's end, and none is left open then."""
    later, mask, left, every, exact = 0.0, slurm.work.mask, slurm.work.open_mask, slurm.work.chosen, is_exact(slurm)
    own = slurm.work.own
    if exact and at + 1 < count:
        later = slurm.work.until[at]
    for x in range(len(mask)):
        left[x] = mask[x] & slurm.work.unreserved[x]
        own[x] = slurm.site.sets[slurm.site.partition[partition]["set"], x] & slurm.work.up[x] & slurm.work.unreserved[x]
        every[x] = own[x]
    for i in range(at, count):
        if later == 0.0 and i + 1 < count:
            later = _offers(slurm, i, every)
        if slurm.work.begin[i] > begin + limit or (exact and slurm.work.begin[i] >= begin + limit):
            if later == 0.0 and i + 2 < count and is_windowed(slurm):
                later = slurm.work.until[i + 1]
            break
        some = NOTHING
        for x in range(len(mask)):
            left[x] &= slurm.work.open[i, x]
            some |= left[x]
        if later > 0.0:
            if some == NOTHING:
                break  # nothing is left: the rest of the calendar changes nothing
            continue
        for x in range(len(mask)):
            every[x] &= slurm.work.open[i, x]
    return later


@inlined
def _offers(slurm, i, every):
    """The end of record i where the next one leaves a node of the partition, slurm.work.own, open that is not among `every` in
    this one; else 0."""
    own, now, after = slurm.work.own, slurm.work.open[i], slurm.work.open[i + 1]
    for first in range(0, len(own), WORDS):
        more = NOTHING
        for x in range(first, min(first + WORDS, len(own))):
            more |= after[x] & own[x] & ~(every[x] & now[x])
        if more != NOTHING:
            return slurm.work.until[i]
    return 0.0


@kernel
def keep(slurm, ask, count, t, limit, k, j):
    """Enter the plan of job j into the calendar."""
    if ask["whole"]:
        slurm.ledger.planned[j] = 0.0
        for i in range(k):
            for x in range(slurm.work.node[i], slurm.work.node[i] + slurm.work.more[i] + 1):
                slurm.ledger.planned[j] += slurm.site.capacity[x, 0]
    n = slurm.ledger.clock[0]["plans"]
    slurm.work.plans[n]["job"], slurm.work.plans[n]["start"] = j, t
    _chosen(slurm, k)
    for x in range(len(slurm.work.chosen)):
        slurm.work.planned[n, x] = slurm.work.chosen[x]
    slurm.ledger.clock[0]["plans"] = n + 1
    begin, end = planned_from(slurm, t), plan_end(slurm, t, limit)
    return hold_back(slurm, count, begin, end if is_exact(slurm) else max(end, begin + resolution(slurm)), k)


@kernel
def keep_whole(slurm, count, now, limit, k):
    """Keep whole nodes slurm.work.node[:k], which a job has just got, until its limit."""
    return hold_back(slurm, count, slurm.work.begin[0], plan_end(slurm, now, limit), k)

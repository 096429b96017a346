"""A cycle of Slurm's backfill scheduler: every waiting job, by priority, gets a planned start; those whose start is now, start.

A plan holds whole nodes from its start until start + time limit (`slurm_calendar.py`); a job of lower priority may use
the nodes of a plan only before or after it. After Slurm 22.05, sched/backfill, as measured (docs/systems/slurm.md).
"""

from __future__ import annotations

import numpy as np

from jobwise.compiled import inlined, kernel
from jobwise.sim.site.closures import reserved
from jobwise.sim.site.node_sets import NOTHING, next_in, size
from jobwise.sim.site.slurm_calendar import left_open, overlaps
from jobwise.sim.site.slurm_ends import mask_of, will_run
from jobwise.sim.site.slurm_time import floored, is_exact, is_windowed, plan_end, planned_from, resolution
from jobwise.sim.site.switches import wait_for_few


@inlined
def _hopeless(slurm, ask):
    """Are there too few nodes in slurm.work.open_mask, were they all free?"""
    count = size(slurm.work.open_mask)
    return count < max(ask["nodes"], 1) or count * slurm.site.largest[0] < np.int64(ask["tasks"]) * ask["cpus"]


@inlined
def _inside(first, second):
    """Is set a a part of set b?"""
    for x in range(len(first)):
        if first[x] & ~second[x] != NOTHING:
            return False
    return True


@inlined
def _some_completing(slurm, k):
    """Has one of the nodes slurm.work.node[:k] just lost a job, and takes no other yet?"""
    for i in range(k):
        until = np.int64(slurm.work.node[i] + slurm.work.more[i] + 1)
        if next_in(slurm.work.completing, np.int64(slurm.work.node[i]), until) < until:
            return True
    return False


@kernel
def plan(s, e, slurm, j, partition, count, n, now, since):
    """(when job j may start, nodes chosen into slurm.work.node, before which time nothing was to be had for sure); (inf, 0, .)
    where the job gets no plan in the window. The search begins at `since`: now, but for a list scheduler (`exact`: times are
    not rounded) that found nothing before it, and for a part of a heterogeneous job whose other parts come later. `count`:
    entries of the table of plans; `n`: expected ends.

    It tries one time after another: with the nodes that are open to the job from `begin` on, when would it start? A start
    that comes only after `later`, when other nodes are open (0: never), or that runs into a plan of before, is tried again
    from there.
    """
    job, exact = s.jobs[e, j], is_exact(slurm)
    ask, limit, window = slurm.site.ask[job["ask"]], max(job["walltime"], 1.0), now + slurm.site.settings[0]["bf_window"]
    mask_of(slurm, job, partition, slurm.work.mask)
    wait_for_few(slurm, job, now)
    windowed = is_windowed(slurm)
    has_gpus = ask["gpus"] != 0 or ask["gpus_node"] != 0  # tests for GPUs leave the nodes in another order
    later, at = since, 0
    slurm.ledger.het.tried[0] = np.inf
    last = -1.0  # the start that the nodes tried last would have given
    nothing_before = -1.0  # the first time at which other nodes might have been free; below 0: no such time yet
    while True:
        begin = later
        while at + 1 < count and slurm.work.until[at] <= begin:
            at += 1
        later = _next_try(s, e, slurm, j, partition, count, at, begin, limit, window)
        too_late = exact and 0.0 < later < last and ask["most"] == 0 and not slurm.ledger.clock[0]["plain"]
        if too_late and _inside(slurm.work.open_mask, slurm.work.tried):
            continue  # among fewer nodes than the last time it could not start sooner (`plain`, in tests: try all the same)
        k, start = 0, np.inf
        if not _hopeless(slurm, ask):
            cut = later > 0.0 and (windowed or not (has_gpus or exact))
            until = later if cut else np.inf  # what is later is tried again then
            k, start = will_run(s, e, slurm, ask, slurm.work.open_mask, n, now, begin, until)
        last = start
        for y in range(len(slurm.work.tried)):
            slurm.work.tried[y] = slurm.work.open_mask[y]
        if k == 0:
            if later > 0.0:
                continue
            return np.inf, 0, begin if nothing_before < 0 else nothing_before
        start = max(start, begin)
        if not windowed or start <= now:
            slurm.ledger.het.tried[0] = min(slurm.ledger.het.tried[0], start)
        if start <= now:
            return now + 1.0 if _some_completing(slurm, k) else start, k, begin  # those are free a second later
        if later > 0.0 and start > later:
            continue
        if start > window:
            return np.inf, 0, begin if nothing_before < 0 else nothing_before
        if overlaps(slurm, count, planned_from(slurm, start), plan_end(slurm, start, limit), k):
            later = start + (resolution(slurm) if windowed and start == begin else 0.0)
            nothing_before = begin if nothing_before < 0 else nothing_before  # other nodes might have been free
            continue
        slurm.ledger.het.tried[0] = min(slurm.ledger.het.tried[0], start)  # from 24.11 on, what it comes to counts
        return start, k, begin if nothing_before < 0 else nothing_before


@inlined
def _next_try(s, e, slurm, j, partition, count, at, begin, limit, window):
    """Find the nodes that are open to job j from `begin` on, into slurm.work.open_mask; when others are open, 0.0 never."""
    end = 0.0  # of a reservation that is in its way
    if len(slurm.site.closures) and not is_exact(slurm):
        slurm.work.unreserved[:] = ~NOTHING
        end = reserved(slurm, s.jobs[e, j], s.sims[e]["now"], begin, slurm.work.unreserved)
    later = left_open(slurm, partition, count, at, begin, limit)
    if end > 0.0:
        again = floored(slurm, end + resolution(slurm) - 1.0, resolution(slurm)) + 1.0  # its end, rounded up
        if again < window and (later == 0.0 or again < later):
            later = again
    return later

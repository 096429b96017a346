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
from jobwise.sim.site.slurm_time import floored, is_exact, plan_end, planned_from, resolution


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
    """(when job j may start, nodes chosen into slurm.work.node, up to where in time nothing was to be had for sure) by a
    search that begins at `since`; (inf, 0, .) where the job gets no plan in the window."""
    x, ask, limit = slurm.site.settings[0], slurm.site.ask[s.jobs[e, j]["ask"]], max(s.jobs[e, j]["walltime"], 1.0)
    mask_of(slurm, s.jobs[e, j], partition, slurm.work.mask)
    later, at, known, sure, plain = since if is_exact(slurm) else now, 0, -1.0, -1.0, slurm.ledger.clock[0]["plain"]
    while True:
        begin = later
        while at + 1 < count and slurm.work.until[at] <= begin:
            at += 1
        end = 0.0
        if len(slurm.site.closures) and not is_exact(slurm):
            slurm.work.unreserved[:] = ~NOTHING
            end = reserved(slurm, s.jobs[e, j], s.sims[e]["now"], begin, slurm.work.unreserved)
        later = left_open(slurm, partition, count, at, begin, limit)
        if end > 0.0:
            again = floored(slurm, end + resolution(slurm) - 1.0, resolution(slurm)) + 1.0  # its end, rounded up
            if again < now + x["bf_window"] and (later == 0.0 or again < later):
                later = again
        if (
            later > 0.0
            and known > later
            and ask["most"] == 0
            and is_exact(slurm)
            and not plain
            and _inside(slurm.work.open_mask, slurm.work.tried)
        ):
            continue  # of fewer nodes it could not start before, and that was too late already
        k, t = 0, np.inf
        if not _hopeless(slurm, ask):
            plain_ask = ask["gpus"] == 0 and ask["gpus_node"] == 0  # tests for GPUs leave the nodes in another order
            until = later if later > 0.0 and plain_ask and not is_exact(slurm) else np.inf  # what is later is tried again then
            k, t = will_run(s, e, slurm, ask, slurm.work.open_mask, n, now, until)
        known = t
        for y in range(len(slurm.work.tried)):
            slurm.work.tried[y] = slurm.work.open_mask[y]
        if k == 0:
            if later > 0.0:
                continue
            return np.inf, 0, begin if sure < 0 else sure
        t = max(t, begin)
        if t <= now:
            if _some_completing(slurm, k):
                return now + 1.0, k, begin
            return t, k, begin
        if later > 0.0 and t > later:
            continue
        if t > now + x["bf_window"]:
            return np.inf, 0, begin if sure < 0 else sure
        if overlaps(slurm, count, planned_from(slurm, t), plan_end(slurm, t, limit), k):
            later = t
            sure = begin if sure < 0 else sure  # other nodes might have been free
            continue
        return t, k, begin if sure < 0 else sure

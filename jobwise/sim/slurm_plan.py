"""A cycle of Slurm's backfill scheduler: every waiting job, by priority, gets a planned start; those whose start is now, start.

A plan holds whole nodes from its start until start + time limit (`slurm_calendar.py`); a job of lower priority may use
the nodes of a plan only before or after it. After Slurm 22.05, sched/backfill, as measured (docs/systems/slurm.md).
"""

from __future__ import annotations

import numpy as np

from jobwise.compiled import inlined, kernel
from jobwise.sim.node_sets import NOTHING, size
from jobwise.sim.slurm_calendar import left_open, overlaps
from jobwise.sim.slurm_ends import mask_of, will_run
from jobwise.sim.slurm_time import plan_end


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
        if overlaps(m, count, t, plan_end(m, t, limit), k):
            later = t
            sure = begin if sure < 0 else sure  # other nodes might have been free
            continue
        return t, k, begin if sure < 0 else sure

"""List scheduling on a site: nodes with CPUs, memory and GPUs, partitions as node sets, limits; decided at every event.

Without backfilling the first job of a partition that does not fit closes its nodes. With EASY it gets a plan (the nodes that it
will have, and when), and others may use them until then; the head of each partition has one. Conservative: every job has.
Limits hold jobs back without blocking others, and so do partitions whose nodes can never hold a job. The plans are those of
`slurm_plan.py`, counted in parts of a second.
"""

from __future__ import annotations

import numpy as np

from jobwise.compiled import allocating, kernel
from jobwise.jobs import QUEUED
from jobwise.sim.kernel import CHOICE, OVER, advance
from jobwise.sim.lists.list_pass import CONSERVATIVE, NONE
from jobwise.sim.power import may_draw
from jobwise.sim.site import site_order
from jobwise.sim.site.closures import next_change
from jobwise.sim.site.node_choice import choose_now
from jobwise.sim.site.node_room import some_free
from jobwise.sim.site.slurm_calendar import calendar, keep, left_open
from jobwise.sim.site.slurm_ends import expected_ends, insert, mask_of, take_free
from jobwise.sim.site.slurm_limits import allowed
from jobwise.sim.site.slurm_loop import begin, note
from jobwise.sim.site.slurm_notes import NOTES, known_from, remember
from jobwise.sim.site.slurm_plan import plan
from jobwise.sim.site.switches import wait_for_few
from jobwise.site import LIMITS


@kernel
def _fits_now(s, e, slurm, j, partition, held, now):
    """Return the number of entries (slurm.work.node) on which job j could start now without changing others' plans; 0: none."""
    mask_of(slurm, s.jobs[e, j], partition, slurm.work.mask)
    wait_for_few(slurm, s.jobs[e, j], now)
    left_open(slurm, partition, held, 0, now, max(s.jobs[e, j]["walltime"], 1.0))
    return choose_now(slurm, slurm.site.ask[s.jobs[e, j]["ask"]], slurm.work.open_mask)


@allocating
def site_pass(s, e, slurm, o):
    """Start what the order, the backfilling and the limits let start now."""
    now, rule, notes = s.sims[e]["now"], o.rule, 0
    take_free(s, e, slurm)
    rows, where = site_order.waiting(s, e, slurm, o)
    out, headed, heads = np.zeros(len(LIMITS)), np.zeros(len(slurm.site.partition), np.bool_), 0
    held, n = calendar(slurm, now), -1
    for i in range(len(rows)):
        if heads == len(headed) and rule.backfill != CONSERVATIVE and (rule.backfill == NONE or not some_free(slurm)):
            return
        j, p = rows[i], where[i]
        job = s.jobs[e, j]
        if job["status"] != QUEUED or (rule.backfill == NONE and headed[p]) or not allowed(slurm, j, job, p, out):
            continue
        limit = max(job["walltime"], 1.0)
        if not may_draw(s, e, j, limit):
            continue
        since = known_from(slurm, min(notes, NOTES), job["ask"], p, limit, now)
        k = _fits_now(s, e, slurm, j, p, held, now) if since <= now else 0
        if k > 0:
            if begin(s, e, slurm, j, p, k, out) and n >= 0:
                n = insert(s, e, slurm, n, j, now)
            continue
        if slurm.site.unfit[job["ask"], p]:  # no nodes of this partition can ever hold it: it may start in another one
            continue
        if rule.backfill == CONSERVATIVE or not headed[p]:
            heads += not headed[p]
            headed[p] = True
            if rule.backfill == NONE:
                for x in range(slurm.work.open.shape[1]):
                    slurm.work.open[0, x] &= ~slurm.site.sets[slurm.site.partition[p]["set"], x]
                continue
            if held + 2 > len(slurm.work.begin):  # the calendar is full
                return
            if n < 0:
                n = expected_ends(s, e, slurm, now)
            t, k, since = plan(s, e, slurm, j, p, held, n, now, since)
            if t < np.inf:
                held = keep(slurm, slurm.site.ask[job["ask"]], held, t, limit, k, j)
        notes = remember(slurm, notes, job["ask"], p, limit, max(since, now + 1e-6))


@allocating
def run(s, e, slurm, o, steps):
    """Run simulation e under the list scheduler of a site (`o`: its order) for up to `steps` stops, each an instant of choice
    or a change of the site. True while there is more to do."""
    for _ in range(steps):
        until = next_change(slurm, s.sims[e]["now"]) if s.sims[e]["queued"] > 0 else np.inf
        code = advance(s, e, until)
        if code == OVER:
            return False
        if code == CHOICE:
            site_order.note(s, e, o)  # what the order remembers of jobs that have ended
            note(s, e, slurm)  # what the site's limits count
        if s.sims[e]["queued"] > 0:
            site_pass(s, e, slurm, o)
    return True

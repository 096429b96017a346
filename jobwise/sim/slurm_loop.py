"""Slurm's scheduler, compiled whole: the clocks of its passes, its main pass. What it plans: `slurm_plan.py`.

A job that comes starts nothing. A loop looks once a second whether something has happened since the last main pass; the main
pass goes strictly by priority and stops, in each partition, at the first job that does not fit. Backfill cycles come on their
own clock, and so do the passes over all priorities (`multifactor.py`).
"""

from __future__ import annotations

import numpy as np

from jobwise.compiled import allocating, inlined, kernel
from jobwise.jobs import QUEUED
from jobwise.sim import site_order
from jobwise.sim.fair_share import used
from jobwise.sim.kernel import CHOICE, OVER, advance, start
from jobwise.sim.multifactor import price, price_all
from jobwise.sim.node_choice import CPUS, choose, deal
from jobwise.sim.node_sets import drop
from jobwise.sim.slurm_calendar import calendar, keep
from jobwise.sim.slurm_ends import expected_ends, insert, mask_of, take_free
from jobwise.sim.slurm_limits import allowed, asked, count, within
from jobwise.sim.slurm_notes import NOTES, known_from, remember
from jobwise.sim.slurm_plan import plan
from jobwise.sim.slurm_time import whole
from jobwise.sim.state import ENTERED, LEFT
from jobwise.site import LIMITS

SHORT_SLEEP = 1.0  # s: the backfill thread looks again so soon where no cycle was due
LATE = 0.001  # s: how late a thread wakes


@kernel
def begin(s, e, m, j, k, out):
    """Start job j on m.node[:k]; False where its limits forbid it after all."""
    job, ask = s.jobs[e, j], m.ask[s.jobs[e, j]["ask"]]
    deal(ask, m.free, m.capacity, m.node, k, m.amount)
    asked(m, ask, k, out)
    if not within(m, job, out) or not start(s, e, j, 1.0, m.node[:k], m.amount[:k], k):
        return False
    count(m, job, out, 1.0)
    for x in range(len(out)):
        m.counted[j, x] = out[x]
    m.clock[0]["updated"] = whole(m, s.sims[e]["now"])
    for i in range(k):
        for r in range(3):
            m.free[m.node[i], r] -= m.amount[i, r]
        if m.free[m.node[i], CPUS] <= 0:
            drop(m.some, m.node[i])
    return True


@allocating
def main_pass(s, e, m, o, depth):
    """Start by priority; a partition whose first waiting job does not fit starts nothing more, nor do its nodes."""
    rows, where = site_order.waiting(s, e, m, o)
    blocked, out, left = np.zeros(len(m.partition), np.bool_), np.zeros(len(LIMITS)), len(m.partition)
    closed, tried = np.zeros(len(m.mask), np.uint64), 0
    take_free(s, e, m)
    for i in range(len(rows)):
        j, p = rows[i], where[i]
        if blocked[p] or s.jobs[e, j]["status"] != QUEUED or not allowed(m, s.jobs[e, j], p, out):
            continue
        tried += 1
        if tried > depth:
            break
        mask_of(m, s.jobs[e, j], p, m.mask)
        for y in range(len(closed)):
            m.mask[y] &= ~closed[y]
        k = choose(m.ask[s.jobs[e, j]["ask"]], m.mask, m.some, m.free, m.capacity, m.weight, m.room, m.node)
        if k > 0:
            begin(s, e, m, j, k, out)
            continue
        blocked[p], left = True, left - 1
        if left == 0:
            return
        for y in range(len(closed)):
            closed[y] |= m.sets[m.partition[p]["set"], y]


@allocating
def backfill(s, e, m, o):
    """Carry out one backfill cycle."""
    x, now = m.settings[0], whole(m, s.sims[e]["now"])
    rows, where = site_order.waiting(s, e, m, o)
    out, held, n = np.zeros(len(LIMITS)), calendar(m, now), expected_ends(s, e, m, now)
    notes, tested = 0, np.zeros(m.by_user.shape[1] + 1, np.int64)  # of each user; jobs of nobody are the last
    take_free(s, e, m)
    for i in range(min(len(rows), np.int64(min(x["bf_max_test"], 1e9)))):
        j, p = rows[i], where[i]
        job = s.jobs[e, j]
        if job["status"] != QUEUED or not allowed(m, job, p, out):
            continue
        tested[job["user"]] += 1
        if job["user"] >= 0 and tested[job["user"]] > x["bf_max_user"]:
            continue
        if held + 2 > len(m.begin):  # the calendar is full
            break
        since = known_from(m, min(notes, NOTES), job["ask"], p, job["walltime"], now)
        t, k, since = plan(s, e, m, j, p, held, n, now, since)
        if since > now:
            notes = remember(m, notes, job["ask"], p, job["walltime"], since)
        if t == np.inf:
            continue
        if t <= now:
            if begin(s, e, m, j, k, out):
                n = insert(s, e, m, n, j, now)
            continue
        if t != m.start_at[j]:
            m.start_at[j], m.clock[0]["updated"] = t, now
        held = keep(m, m.ask[job["ask"]], held, t, max(job["walltime"], 1.0), k, j)


@kernel
def note(s, e, m):
    """Price the jobs that have come, and charge those that have ended."""
    sim = s.sims[e]
    for i in range(sim["entered"]):
        price(s, e, m, s.lists[e, ENTERED, i], 0.0)
    for i in range(sim["left"]):
        j = s.lists[e, LEFT, i]
        used(s, e, m, j, sim["now"], m.counted[j, 1])
        count(m, s.jobs[e, j], m.counted[j], -1.0)
    if sim["entered"] or sim["left"]:
        m.clock[0]["news"], m.clock[0]["updated"] = 1, whole(m, sim["now"])


@inlined
def _next(t, now, step):
    """The next tick of a clock after now."""
    return t + step * max(np.ceil((now - t) / step), 1.0)


@kernel
def _wind(m, now):
    """Bring clocks that lie behind up to now."""
    c, x = m.clock[0], m.settings[0]
    if c["look"] < now:
        c["look"] = _next(c["look"], now, x["loop"])
    if c["backfill"] < now:
        c["backfill"] = _next(c["backfill"], now, SHORT_SLEEP)
    if c["price"] < now:
        c["price"] = _next(c["price"], now, x["calc_period"])
        c["priced"] = c["price"] - x["calc_period"]


@allocating
def run(s, e, m, o, steps):
    """Run simulation e for up to `steps` events or passes. True while there is more to do."""
    c, x = m.clock[0], m.settings[0]
    for _ in range(steps):
        sim = s.sims[e]
        if sim["ended"] == sim["jobs"]:
            return False
        until = np.inf
        if sim["queued"] > 0 or (sim["running"] > 0 and x["fair_share"] > 0):
            until = c["price"]
        if sim["queued"] > 0:
            until = min(until, c["look"])
        if x["backfill"] and (sim["queued"] > 0 or c["updated"] >= c["cycled"]):
            until = min(until, c["backfill"])
        code = advance(s, e, until)
        if code == OVER:
            return False
        site_order.note(s, e, o)
        if code == CHOICE:
            _wind(m, sim["now"])
            note(s, e, m)
            continue
        now, stuck = sim["now"], False
        if now >= c["price"]:
            price_all(s, e, m)
            c["price"] = _next(c["price"], now, x["calc_period"])
        if now >= c["look"]:
            if now - c["whole"] >= x["sched_interval"] - 1e-6:
                c["whole"] = c["passed"] = now
                c["news"] = 0
                main_pass(s, e, m, o, np.inf)
                stuck = not x["backfill"]
            elif c["news"] and now - c["passed"] >= x["batch_delay"] - 1e-6:
                c["passed"], c["news"] = now, 0
                main_pass(s, e, m, o, x["depth"])
            c["look"] += x["loop"] + LATE
        if x["backfill"] and now >= c["backfill"]:
            due = whole(m, now) - c["cycled"] >= x["bf_interval"] and c["updated"] >= c["cycled"]
            if due:
                backfill(s, e, m, o)
                c["cycled"], stuck = whole(m, now), True
            c["backfill"] += LATE + (x["bf_interval"] if due else SHORT_SLEEP)
        if stuck and sim["running"] == 0 and sim["next"] == sim["jobs"] and sim["queued"] > 0:
            return False  # on an empty machine nothing could start, and nothing will come
    return True

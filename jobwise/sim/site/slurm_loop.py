"""Slurm's scheduler, compiled whole: the clocks of its passes, its main pass. What it plans: `slurm_plan.py`.

A job that comes starts nothing. A loop looks once a second whether something has happened since the last main pass; the main
pass goes strictly by priority and stops, in each partition, at the first job that does not fit. Backfill cycles come on their
own clock, and so do the passes over all priorities (`multifactor.py`).
"""

from __future__ import annotations

import numpy as np

from jobwise.compiled import allocating, inlined, kernel
from jobwise.jobs import QUEUED
from jobwise.sim.kernel import CHOICE, OVER, advance, start
from jobwise.sim.power import may_draw
from jobwise.sim.site import site_order
from jobwise.sim.site.cells import expand, gone, look, take
from jobwise.sim.site.closures import next_change, reserved
from jobwise.sim.site.distinct_nodes import settled_on
from jobwise.sim.site.fair_share import used
from jobwise.sim.site.het_jobs import forget, not_before, note_part, ready
from jobwise.sim.site.multifactor import price, price_all
from jobwise.sim.site.node_choice import choose_now, deal, of_types, too_many
from jobwise.sim.site.node_room import RANKED, cell_of, of_gpus, rank, room, unranked
from jobwise.sim.site.node_sets import NOTHING, add_all, next_in, ones
from jobwise.sim.site.preemption import end_grace, find_candidates, make_room
from jobwise.sim.site.slurm_calendar import calendar, keep, keep_whole
from jobwise.sim.site.slurm_ends import expected_ends, insert, mask_of, take_free
from jobwise.sim.site.slurm_limits import allowed, asked, begun_elsewhere, count, within
from jobwise.sim.site.slurm_notes import NOTES, known_from, remember
from jobwise.sim.site.slurm_plan import plan
from jobwise.sim.site.slurm_time import whole
from jobwise.sim.site.switches import wait_for_few
from jobwise.sim.state import ENTERED, LEFT
from jobwise.site import LIMITS, TICKING

SHORT_SLEEP = 1.0  # s: the backfill thread looks again so soon where no cycle was due
LATE = 0.001  # s: how late a thread wakes


@kernel
def _dealt(slurm, ask, k, out):
    """Deal the job its part of each of slurm.work.node[:k], and the amounts for limits. Return the number of nodes."""
    n = expand(slurm, k)
    deal(ask, slurm.work.cells.free, slurm.work.cells.capacity, slurm.work.cell, n, slurm.work.amount)
    asked(slurm, ask, n, out)
    return n


@kernel
def begin(s, e, slurm, j, p, k, out):
    """Start job j in partition p on slurm.work.node[:k]; False where its limits forbid it after all."""
    job, ask = s.jobs[e, j], slurm.site.ask[s.jobs[e, j]["ask"]]
    n = _dealt(slurm, ask, k, out)
    if not within(slurm, j, job, p, out, n) or not start(s, e, j, 1.0, slurm.work.each[:n], slurm.work.amount[:n], n):
        return False
    settled_on(slurm, j, n)
    slurm.ledger.place[j] = p
    count(slurm, j, job, p, out, 1.0)
    for x in range(len(out)):
        slurm.ledger.counted[j, x] = out[x]
    slurm.ledger.clock[0]["updated"] = whole(slurm, s.sims[e]["now"])
    take(slurm, j, n)
    return True


@kernel
def see_released(s, e, slurm):
    """A pass sees which jobs have nothing left to wait for: they are eligible from now on."""
    j = s.sims[e]["head"] if slurm.ledger.clock[0]["released"] else np.int32(-1)
    while j >= 0:
        first = max(s.sims[e]["now"], slurm.ledger.preempt.not_before[j])
        slurm.ledger.since[j] = min(slurm.ledger.since[j], first)
        j = s.truth[e, j]["next"]
    slurm.ledger.clock[0]["released"] = 0


@allocating
def main_pass(s, e, slurm, o, depth):
    """Start by priority; a partition whose first waiting job does not fit starts nothing more, nor do its nodes. A job that the
    nodes of a partition can never hold is passed over there."""
    see_released(s, e, slurm)
    if not slurm.site.settings[0]["main"]:
        return
    take_free(s, e, slurm)
    rows, where = site_order.waiting(s, e, slurm, o)
    blocked, out, left = np.zeros(len(slurm.site.partition), np.bool_), np.zeros(len(LIMITS)), len(slurm.site.partition)
    closed, tried = np.zeros(len(slurm.work.mask), np.uint64), 0
    slurm.work.begun_in[:] = -1
    for i in range(len(rows)):
        j, p = rows[i], where[i]
        if blocked[p] or s.jobs[e, j]["status"] != QUEUED or not allowed(slurm, j, s.jobs[e, j], p, out):
            continue
        if not may_draw(s, e, j, max(s.jobs[e, j]["walltime"], 1.0)):  # as Slurm has licences: it holds back no others
            continue
        if slurm.ledger.preempt.not_before[j] > s.sims[e]["now"]:
            continue
        if begun_elsewhere(slurm, s.jobs[e, j]["ask"], p):
            continue
        tried += 1
        if tried > depth:
            break
        mask_of(slurm, s.jobs[e, j], p, slurm.work.mask)
        wait_for_few(slurm, s.jobs[e, j], s.sims[e]["now"])
        for y in range(len(closed)):
            slurm.work.mask[y] &= ~(closed[y] | slurm.work.completing[y])
        reserved(slurm, s.jobs[e, j], s.sims[e]["now"], s.sims[e]["now"], slurm.work.mask)
        is_part = slurm.site.ask[s.jobs[e, j]["ask"]]["het"] > 0
        k = 0 if is_part else choose_now(slurm, slurm.site.ask[s.jobs[e, j]["ask"]], slurm.work.mask)
        if k > 0:
            if begin(s, e, slurm, j, p, k, out):
                _note_array(slurm, s.jobs[e, j]["ask"], p)
            continue
        if not is_part:
            make_room(s, e, slurm, j, p, slurm.work.mask, s.sims[e]["now"])
        if slurm.site.ask[s.jobs[e, j]["ask"]]["reservation"] > 0:
            continue
        if of_gpus(slurm.site.ask[s.jobs[e, j]["ask"]]):  # could it ever?
            ask, cells = slurm.site.ask[s.jobs[e, j]["ask"]], slurm.work.cells
            rank(ask, slurm.work.mask, cells, cells.capacity, slurm.work.room)
        if slurm.site.unfit[s.jobs[e, j]["ask"], p]:  # it may start in another partition
            continue
        own = slurm.site.sets[slurm.site.partition[p]["set"]]
        ask = slurm.site.ask[s.jobs[e, j]["ask"]]
        if ask["named"]:  # the nodes that it names are kept for it, and no others
            for y in range(len(closed)):
                closed[y] |= slurm.site.sets[ask["set"], y]
            continue
        if not is_part and _out_of_reach(slurm, ask, own, closed):
            continue
        blocked[p], left = True, left - 1
        if left == 0:
            return
        for y in range(len(closed)):
            closed[y] |= own[y]


@kernel
def _out_of_reach(slurm, ask, own, closed):
    """Could the nodes of slurm.work.mask, left of those of a partition, never hold a job, though there are enough of them?"""
    count, some, cpus, nodes = 0, False, np.int64(0), np.int64(0)
    for y in range(len(closed)):
        some |= own[y] & closed[y] != NOTHING
        count += ones(own[y] & slurm.work.up[y] & ~closed[y])
    if not some or count < max(ask["nodes"], 1):
        return False
    of_types(slurm, ask, slurm.work.mask)
    cells, N, c = slurm.work.cells, len(slurm.site.weight), 0
    i = next_in(slurm.work.typed, 0, N)
    while i < N:
        c = cell_of(cells, i, c)
        have = room(ask, cells.capacity, cells.capacity, c)
        cpus, nodes = cpus + have, nodes + (have > 0)
        i = next_in(slurm.work.typed, i + 1, N)
    return nodes < max(ask["nodes"], 1) or cpus < np.int64(ask["tasks"]) * ask["cpus"]


@inlined
def _note_array(slurm, ask, partition):
    """A task of an array has started in a partition."""
    if slurm.site.ask[ask]["array"] > 0:
        slurm.work.begun_in[slurm.site.ask[ask]["array"]] = partition


@kernel
def _may_have(slurm, j, job, p, k, out):
    """Do limits let the job have whole nodes slurm.work.node[:k] beside what runs now? Else it gets no plan."""
    ask = slurm.site.ask[job["ask"]]
    n = _dealt(slurm, ask, k, out)
    return within(slurm, j, job, p, out, n)


@allocating
def backfill(s, e, slurm, o):
    """Carry out one backfill cycle."""
    x, now = slurm.site.settings[0], whole(slurm, s.sims[e]["now"])
    see_released(s, e, slurm)
    take_free(s, e, slurm)
    rows, where = site_order.waiting(s, e, slurm, o)
    out, held, n = np.zeros(len(LIMITS)), calendar(slurm, now), expected_ends(s, e, slurm, now)
    notes, tested = 0, np.zeros(slurm.ledger.by_user.shape[1] + 1, np.int64)  # of each user; jobs of nobody are the last
    slurm.work.begun_in[:] = -1
    forget(slurm)
    array, of_array = 0, 0  # the array whose tasks were planned last, and how many
    for i in range(min(len(rows), np.int64(min(x["bf_max_test"], 1e9)))):
        j, p = rows[i], where[i]
        job = s.jobs[e, j]
        mine = slurm.site.ask[job["ask"]]["array"]
        if job["status"] != QUEUED or not allowed(slurm, j, job, p, out) or begun_elsewhere(slurm, job["ask"], p):
            continue
        if mine > 0 and mine == array and of_array >= x["bf_max_array"]:
            continue
        if slurm.ledger.preempt.not_before[j] > now or not may_draw(s, e, j, max(job["walltime"], 1.0)):
            continue
        tested[job["user"]] += 1
        if job["user"] >= 0 and tested[job["user"]] > x["bf_max_user"]:
            continue
        if held + 2 > len(slurm.work.begin):  # the calendar is full
            break
        since, het = (
            known_from(slurm, min(notes, NOTES), job["ask"], p, job["walltime"], now),
            slurm.site.ask[job["ask"]]["het"],
        )
        since = not_before(slurm, het, j, now) if het > 0 else since
        stoppable = find_candidates(s, e, slurm, j, p, s.sims[e]["now"]) if het == 0 else 0
        t, k, since = plan(s, e, slurm, j, p, held, n, now, since)
        if het > 0:
            note_part(slurm, het, j, t)
        if since > now and slurm.site.ask[job["ask"]]["switches"] == 0:  # each has waited for another time
            notes = remember(slurm, notes, job["ask"], p, job["walltime"], since)
        if t == np.inf:
            continue
        at_once = t <= now and not too_many(slurm.site.ask[job["ask"]], slurm.work.node, slurm.work.more, k)
        if at_once and het == 0:
            planned = k
            for i in range(k if stoppable else 0):
                slurm.work.each[i], slurm.work.cell[i] = slurm.work.node[i], slurm.work.more[i]
            if slurm.work.room.sums[RANKED] or stoppable:  # it chooses again, by ranks of its own
                for y in range(len(slurm.work.open_mask)):
                    slurm.work.open_mask[y] &= ~slurm.work.completing[y]
                k = choose_now(slurm, slurm.site.ask[job["ask"]], slurm.work.open_mask)
            if k == 0 and stoppable and make_room(s, e, slurm, j, p, slurm.work.open_mask, s.sims[e]["now"]):
                for i in range(planned):  # as if all that it may stop were gone
                    slurm.work.node[i], slurm.work.more[i] = slurm.work.each[i], slurm.work.cell[i]
                n = expected_ends(s, e, slurm, now)
                held = keep(slurm, slurm.site.ask[job["ask"]], held, now, max(job["walltime"], 1.0), planned, j)
                continue
            if k > 0 and begin(s, e, slurm, j, p, k, out):
                n = insert(s, e, slurm, n, j, now)
                _note_array(slurm, job["ask"], p)
                if slurm.site.ask[job["ask"]]["whole"]:
                    held = keep_whole(slurm, held, now, max(job["walltime"], 1.0), k)
            continue
        if slurm.site.ask[job["ask"]]["whole"] and not _may_have(slurm, j, job, p, k, out):
            continue
        if t != slurm.ledger.start_at[j]:
            slurm.ledger.start_at[j], slurm.ledger.clock[0]["updated"] = t, now
        if mine > 0:
            array, of_array = mine, of_array + 1 if mine == array else 1
        held = keep(slurm, slurm.site.ask[job["ask"]], held, t, max(job["walltime"], 1.0), k, j)
    _begin_het_jobs(s, e, slurm, now, out)


@allocating
def _begin_het_jobs(s, e, slurm, now, out):
    """Start the heterogeneous jobs all of whose parts have nodes now."""
    het = slurm.ledger.het
    for h in range(1, len(het.parts)):
        if not ready(slurm, h, now) or s.jobs[e, het.job[h, 0]]["status"] != QUEUED:
            continue
        for y in range(len(slurm.work.chosen)):
            slurm.work.chosen[y] = NOTHING
        for x in range(het.parts[h]):  # they choose again, of all nodes but those of the parts before
            j = het.job[h, x]
            p = slurm.site.queues[max(s.jobs[e, j]["partition"], 0), 0]
            mask_of(slurm, s.jobs[e, j], p, slurm.work.mask)
            wait_for_few(slurm, s.jobs[e, j], now)
            reserved(slurm, s.jobs[e, j], s.sims[e]["now"], s.sims[e]["now"], slurm.work.mask)
            for y in range(len(slurm.work.mask)):
                slurm.work.mask[y] &= ~slurm.work.chosen[y]
            k = choose_now(slurm, slurm.site.ask[s.jobs[e, j]["ask"]], slurm.work.mask)
            for i in range(k):
                first = np.int64(slurm.work.node[i])
                add_all(slurm.work.chosen, first, first + slurm.work.more[i] + 1)
            if k > 0:
                begin(s, e, slurm, j, p, k, out)


@kernel
def _tested(s, e, slurm, j):
    """A job that comes is tested against its empty nodes: that ranks them anew."""
    ask = slurm.site.ask[s.jobs[e, j]["ask"]]
    if not of_gpus(ask) and slurm.work.room.sums[RANKED] == 0:
        return
    for w in range(slurm.site.queues.shape[1]):
        p = slurm.site.queues[max(s.jobs[e, j]["partition"], 0), w]
        if p >= 0:
            mask_of(slurm, s.jobs[e, j], p, slurm.work.mask)
            unranked(slurm.work.room, slurm.work.mask)
            if of_gpus(ask):
                rank(ask, slurm.work.mask, slurm.work.cells, slurm.work.cells.capacity, slurm.work.room)


@kernel
def note(s, e, slurm):
    """Price the jobs that have come, and charge those that have ended."""
    sim = s.sims[e]
    gone(s, e, slurm)
    look(s, e, slurm)
    for i in range(sim["entered"]):
        j = s.lists[e, ENTERED, i]
        price(s, e, slurm, j, 0.0)
        slurm.ledger.since[j] = sim["now"]
        if s.jobs[e, j]["queued"] == s.jobs[e, j]["submit"]:
            _tested(s, e, slurm, j)
        else:
            slurm.ledger.since[j], slurm.ledger.clock[0]["released"] = np.inf, 1
    for i in range(sim["left"]):
        j = s.lists[e, LEFT, i]
        used(s, e, slurm, j, sim["now"], slurm.ledger.counted[j, 1])
        count(slurm, j, s.jobs[e, j], slurm.ledger.place[j], slurm.ledger.counted[j], -1.0)
    if sim["entered"] or sim["left"] or sim["stepped"]:
        slurm.ledger.clock[0]["news"], slurm.ledger.clock[0]["updated"] = 1, whole(slurm, sim["now"])


@inlined
def _next(t, now, step):
    """The next tick of a clock after now."""
    return t + step * max(np.ceil((now - t) / step), 1.0)


@kernel
def wind(slurm, now):
    """Bring clocks that lie behind up to now."""
    c, x = slurm.ledger.clock[0], slurm.site.settings[0]
    if c["look"] < now:
        c["look"] = _next(c["look"], now, x["loop"])
    if c["backfill"] < now:
        c["backfill"] = _next(c["backfill"], now, SHORT_SLEEP)
    if c["price"] < now:
        c["price"] = _next(c["price"], now, x["calc_period"])
        c["priced"] = c["price"] - x["calc_period"]


@inlined
def _waited(s, e, slurm):
    """When no job waits for few switches any more."""
    last = s.jobs[e, s.sims[e]["jobs"] - 1]["submit"]
    return last + slurm.site.settings[0]["max_switch_wait"] if len(slurm.work.room.tree.level) else last


@allocating
def run(s, e, slurm, o, steps):
    """Run simulation e for up to `steps` events or passes. True while there is more to do."""
    c, x = slurm.ledger.clock[0], slurm.site.settings[0]
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
        until = min(until, slurm.ledger.preempt.next[0], slurm.ledger.preempt.next[2])
        until = min(until, c["change"]) if sim["queued"] > 0 else until
        code = advance(s, e, until)
        if code == OVER:
            return False
        site_order.note(s, e, o)
        if code == CHOICE:
            wind(slurm, sim["now"])
            note(s, e, slurm)
            if x["epilog"] and sim["left"] > 0 and sim["queued"] > 0:  # it leaves the clocks of the other passes as they are
                main_pass(s, e, slurm, o, x["depth"])
            continue
        now, stuck = sim["now"], False
        if now >= slurm.ledger.preempt.next[0]:
            end_grace(s, e, slurm, now)
        if now >= slurm.ledger.preempt.next[2]:
            slurm.ledger.preempt.next[2] = np.inf
            main_pass(s, e, slurm, o, x["depth"])
        slurm.work.completing[:] = NOTHING
        if now >= c["change"]:
            c["updated"], c["news"], c["change"] = whole(slurm, now), 1, next_change(slurm, now)
        if now >= c["price"]:
            price_all(s, e, slurm)
            c["price"] = _next(c["price"], now, x["calc_period"])
        if now >= c["look"]:
            if now - c["whole"] >= x["sched_interval"] - 1e-6:
                c["whole"] = c["passed"] = now
                c["news"] = 0
                main_pass(s, e, slurm, o, np.inf)
                stuck = not x["backfill"]
            elif c["news"] and now - c["passed"] >= x["batch_delay"] - 1e-6:
                c["passed"], c["news"] = now, 0
                main_pass(s, e, slurm, o, x["depth"])
            c["look"] += x["loop"] + (LATE if x["version"] < TICKING else 0.0)  # from 23.11 on it wakes with a second
        if x["backfill"] and now >= c["backfill"]:
            due = whole(slurm, now) - c["cycled"] >= x["bf_interval"] and c["updated"] >= c["cycled"]
            if due:
                backfill(s, e, slurm, o)
                c["cycled"], stuck = whole(slurm, now), True
            c["backfill"] += LATE + (x["bf_interval"] if due else SHORT_SLEEP)
        stuck = stuck and now >= slurm.ledger.preempt.next[1] and now > _waited(s, e, slurm)
        if stuck and c["change"] == np.inf and sim["running"] == 0 and sim["next"] == sim["jobs"] and sim["queued"] > 0:
            return False  # on an empty machine nothing could start, and nothing will come
    return True

"""A pass with start deadlines: jobs go ahead of the order of submit only while the deadlines of all others can be met.

The waiting jobs have a plan, by requests, in order of submit (`deadlines.py`). A job whose planned start comes near its
deadline is urgent: urgent jobs go first, in order of submit, with up to two reservations. Another job that would start now
may do so if a plan with it, for as long as it is forecast to run, keeps every deadline; a job that is late already may not be
made later. Express jobs may make a planned start that is near its deadline a little later, each and together.

The plan is made anew when it is old, or when a job needs more room than it leaves. Room: delaying every planned start by the
run of one job is a plan, too, so a job that runs for less than all have to spare needs no other look.
"""

from __future__ import annotations

import numpy as np

from jobwise.compiled import kernel
from jobwise.sim.lists.list_pass import EASY_SJBF, NONE
from jobwise.sim.pool import deadlines, promise
from jobwise.sim.pool.deadlines import PLAN
from jobwise.sim.pool.items import ITEMS, before, end_of, launch, need, reachable
from jobwise.sim.pool.promise import RESERVED, URGENT

# all of these in bounds
FRESH = 0.001  # a plan is not older
SPARE = 0.2  # what plans keep back before a deadline, for what arrivals and requests change
LEAD, WIDER, MOST = 0.1, 0.4, 0.5  # how long before that a job is urgent; the more, the wider it is (of the machine); at most
NEAR = 0.1  # how long before that a planned start is near its deadline
ALLOWED, CREEP = 0.01, 0.1  # what express jobs may delay a start that is near: one of them, all of them
SECOND = 1.0  # s
FITS, AGAIN = -1, -2


@kernel
def renew(s, e, b):
    """Make the plan of the queue, its limits, and who is urgent, at this instant."""
    q, now = b.promise, s.sims[e]["now"]
    m, total = q.memory[0], np.float64(b.memory.total[0])
    promise.foresee(q, now)
    size = deadlines.of_requests(q.steps, b.running, reachable(s, e, b), now)
    size = deadlines.copied(q.steps, size)
    m["renewed"], m["room"], m["soft_room"] = now, np.inf, np.inf
    for i in range(b.count[ITEMS]):
        x = b.item[i]
        due = q.due[x["row"]]
        at, size = deadlines.place(q.steps, size, x["size"], x["est"])
        bound = due["bound"] if x["row"] < m["bounded"] else m["longest"]
        aim = x["submit"] + (1.0 + m["slack"] - SPARE) * bound
        due["planned"], due["deadline"], due["limit"] = at, aim + SPARE * bound, max(aim, at)
        lead = min(LEAD + WIDER * x["size"] / total, MOST)
        due["urgent"] = 1 if at > aim - lead * bound else 0
        near = aim - NEAR * bound
        if np.isnan(due["anchor"]) and at > near:
            due["anchor"] = at
        soft = at + ALLOWED * bound
        if not np.isnan(due["anchor"]):
            soft = max(min(soft, due["anchor"] + CREEP * bound), at)
        due["soft"] = max(near, soft)
        m["room"] = min(m["room"], due["limit"] - at)
        m["soft_room"] = min(m["soft_room"], due["soft"] - at)
    _mark(b)


@kernel
def _mark(b):
    """Give urgent jobs of the queue their scores."""
    for i in range(b.count[ITEMS]):
        x = b.item[i]
        if x["score"] > -np.inf and b.promise.due[x["row"]]["urgent"]:
            x["plain"] = URGENT * (1e12 - x["submit"])
            if not promise.is_express(x["score"]):
                x["score"] = x["plain"]


@kernel
def look(s, e, b):
    """Before a pass: a new plan where the last one is old, else the scores of the urgent jobs alone."""
    m = b.promise.memory[0]
    if s.sims[e]["now"] >= m["renewed"] + FRESH * m["longest"]:
        renew(s, e, b)
    else:
        _mark(b)


@kernel
def keeps(s, e, b, i, express):
    """Return FITS where a plan in which item i starts now keeps the limits of all others, whose room is then that of this plan;
    else the row of the first job that would be late."""
    q, m, x = b.promise, b.promise.memory[0], b.item[i]
    size = deadlines.of_requests(q.steps, b.running, reachable(s, e, b), s.sims[e]["now"])
    size = deadlines.copied(q.steps, size)
    size = deadlines.occupy(q.steps, size, PLAN, 0, x["size"], x["run"])
    room, soft = np.inf, np.inf
    for k in range(b.count[ITEMS]):
        y = b.item[k]
        if k == i:
            continue
        due = q.due[y["row"]]
        at, size = deadlines.place(q.steps, size, y["size"], y["est"])
        if at > (due["soft"] if express else due["limit"]) + SECOND:
            return y["row"]
        room, soft = min(room, due["limit"] - at), min(soft, due["soft"] - at)
    m["room"], m["soft_room"] = room, soft
    return FITS


@kernel
def late_by(s, e, b, i):
    """Return the row of a job that would be late if item i, which fits, started now; FITS: it may start; AGAIN: there is a new
    plan, by which others may go first."""
    q, now, x = b.promise, s.sims[e]["now"], b.item[i]
    m, express = q.memory[0], promise.is_express(x["score"])
    if x["score"] == -np.inf or x["plain"] <= URGENT or q.due[x["row"]]["planned"] <= now:
        return FITS
    if x["run"] > (m["soft_room"] if express else m["room"]):
        if m["renewed"] < now:
            renew(s, e, b)
            return AGAIN
        return keeps(s, e, b, i, express)
    m["room"] -= x["run"]
    m["soft_room"] -= x["run"]
    return FITS


@kernel
def _next(s, e, b, now, free, by_length):
    """Index of the first in order that has not been tried, and either may start or may get a reservation; -1: none."""
    q, item, best, best_key = b.promise, b.item, -1, 0.0
    slots = q.memory[0]["slots"]
    for i in range(b.count[ITEMS]):
        x = item[i]
        if x["tried"] or x["score"] == np.inf:
            continue
        if need(s, e, b, x) > free:
            if slots > 0 and not (-np.inf < x["plain"] <= URGENT and slots < RESERVED):
                continue
        elif slots > 0 and not promise.may_start(q, x["size"], end_of(x, now), free):
            continue
        key = x["seen"] if by_length and slots > 0 and x["score"] > URGENT else x["score"]
        if best < 0 or before(x, key, item[best], best_key):
            best, best_key = i, key
    return best


@kernel
def promised_pass(s, e, b, rule):
    """Start what order, backfilling and deadlines let start."""
    q, now = b.promise, s.sims[e]["now"]
    m = q.memory[0]
    m["slots"] = 0
    for i in range(b.count[ITEMS]):
        b.item[i]["tried"] = 0
    while b.count[ITEMS] > 0:
        free = reachable(s, e, b)
        i = _next(s, e, b, now, free, rule.backfill == EASY_SJBF) if free > 0 else -1
        if i < 0:
            return
        x = b.item[i]
        x["tried"], n = 1, need(s, e, b, b.item[i])
        if n > free:
            if rule.backfill == NONE:
                return
            promise.reserve(q, b.running, n, x["est"], free, now)
            continue
        late = late_by(s, e, b, i)
        if late == AGAIN:
            x["tried"] = 0
        elif late == FITS:
            promise.charge(q, x["size"], end_of(x, now))
            launch(s, e, b, i)


@kernel
def reasons(s, e, b, out):
    """out[i]: the row of a job that would be late if item i started now; below 0: none, or it does not fit."""
    renew(s, e, b)
    for i in range(b.count[ITEMS]):
        out[i] = late_by(s, e, b, i) if b.item[i]["size"] <= reachable(s, e, b) else FITS

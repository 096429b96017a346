"""Scheduling on a grid of time: E simulations side by side, rows of time by units of the cluster, as DeepRM and CuSH see it.

A few waiting jobs stand in slots, the others in a backlog behind them, first come first served; what finds no place there is
turned away. An action names a slot and a placement. If the job can be placed it is, time stands still and the head of the
backlog takes the slot; else (and for the void action) a row of time passes. All of it is done with the kernel's verbs:
`start`, `reserve`, `cancel`, `advance`. A row is a tick of the simulation. `tables.py` has what is remembered,
`canvas.py` the picture of it.

    reserve   with reservations a job takes the first row from which it fits for its whole length, now or later (DeepRM); run
              times must be known. Without, it must fit now (CuSH).
"""

from __future__ import annotations

import numpy as np

from jobwise.compiled import allocating, inlined, kernel
from jobwise.jobs import RUNNING
from jobwise.sim.kernel import advance, cancel, reserve, start
from jobwise.sim.lists.placement import fits, place, placed_by
from jobwise.sim.rates import sigma
from jobwise.sim.reset import renew
from jobwise.sim.state import ENTERED, HEAP, LEFT
from jobwise.worlds.slots.canvas import draw, pieces, roll
from jobwise.worlds.slots.tables import COLOURS

BEGIN, RENEW, NOTHING, LOOK = -1, -2, -3, -4  # what else than an action can be asked of a simulation

# ------------------------------------------------------------------ placing


@kernel
def _begin(s, g, e, j, k):
    """Start job j on the k nodes in g.node, g.amount: compiled once, not into every caller."""
    return start(s, e, j, 1.0, g.node[e], g.amount[e], k)


@inlined
def rows(s, e, job):
    """The rows that a job is expected to take, at least one."""
    return max(np.int64(np.ceil(job["walltime"] / s.sims[e]["tick"] - 1e-9)), 1)


@kernel
def first_row(g, e, request, length, last):
    """The first row 0 .. last from which the request [R] fits on the only node for `length` rows; -1: none."""
    fit = 0
    for row in range(min(last + length, g.free.shape[1])):
        ok = True
        for r in range(g.free.shape[3]):
            ok = ok and request[r] <= g.free[e, row, 0, r]
        fit = fit + 1 if ok else 0
        if fit == length:
            return row - length + 1
    return -1


@allocating
def _now(s, g, e, j, code):
    """Place job j on what is free now, into g.node, g.amount; how many nodes (it fits)."""
    N, R = g.capacity.shape
    if N == 1:
        g.node[e, 0] = 0
        for r in range(R):
            g.amount[e, 0, r] = s.jobs[e, j]["request"][r]
        return 1
    free = np.empty((N, R), np.int64)
    for i in range(N):
        for r in range(R):
            free[i, r] = s.nodes[e, i]["free"][r]
    job = s.jobs[e, j]
    return place(placed_by(code, job["kind"]), free, g.capacity, job["request"], job["chunks"], g.node[e], g.amount[e])


@kernel
def fits_now(s, g, e, j):
    """Would job j fit on what is free now?"""
    R = g.amount.shape[2]
    for r in range(R):
        need = s.jobs[e, j]["request"][r]
        for i in range(s.nodes.shape[1]):
            need -= s.nodes[e, i]["free"][r]
        if need > 0:
            return False
    return True


@allocating
def _later(s, g, e, j, code):
    """(the first row at which job j can be placed for all of its length, nodes, rows it takes); (-1, 0, 0): none."""
    H, (N, R) = g.canvas.shape[1], g.capacity.shape
    job, L = s.jobs[e, j], rows(s, e, s.jobs[e, j])
    if N == 1:
        row = first_row(g, e, job["request"], L, H - L - g.moment[e]["compat"])
        return (row, _now(s, g, e, j, code), L) if row >= 0 else (-1, 0, 0)
    least = np.empty((N, R), np.int64)
    for row in range(H - L + 1 - g.moment[e]["compat"]):
        for i in range(N):
            for r in range(R):
                least[i, r] = g.free[e, row, i, r]
                for x in range(row + 1, row + L):
                    least[i, r] = min(least[i, r], g.free[e, x, i, r])
        if not fits(least, job["request"], job["chunks"]):
            continue
        k = place(placed_by(code, job["kind"]), least, g.capacity, job["request"], job["chunks"], g.node[e], g.amount[e])
        whole = np.int64(np.ceil(L * sigma(s, e, job["kind"], s.truth[e, j], job["walltime"], k) - 1e-9))
        ok = row + whole <= H
        for x in range(row + L, min(row + whole, H)):
            for i in range(k):
                for r in range(R):
                    ok = ok and g.amount[e, i, r] <= g.free[e, x, g.node[e, i], r]
        if ok:
            return row, k, whole
    return -1, 0, 0


@allocating
def can_place(s, g, e, j):
    """Could job j be placed by some action?"""
    if g.moment[e]["reserve"] == 0:
        return fits_now(s, g, e, j)
    if g.capacity.shape[0] == 1:
        L = rows(s, e, s.jobs[e, j])
        return first_row(g, e, s.jobs[e, j]["request"], L, g.canvas.shape[1] - L - g.moment[e]["compat"]) >= 0
    for code in g.codes:
        if _later(s, g, e, j, code)[0] >= 0:
            return True
    return False


@allocating
def _weigh(s, g, e, j):
    """Write the factor of each placement on the run time of job j, which fits now, to g.sigma."""
    for p in range(len(g.codes)):
        k = _now(s, g, e, j, g.codes[p])
        g.sigma[e, p] = sigma(s, e, s.truth[e, j]["kind"], s.truth[e, j], s.truth[e, j]["runtime"], k)


@kernel
def _colour(g, e):
    """The first colour that is free (the last one where none is), taken."""
    c = 0
    while c < COLOURS - 1 and g.used[e, c] > 0:
        c += 1
    g.used[e, c] += 1
    return c


@allocating
def _place(s, g, e, slot, placement):
    """Place the job in slot m; False where that cannot be."""
    j, now = np.int64(g.slot[e, slot]), s.sims[e]["now"]
    if j < 0:
        return False
    N, R = g.capacity.shape
    row, z = np.int64(0), g.report[e]
    if g.moment[e]["reserve"]:
        row, k, whole = _later(s, g, e, j, g.codes[placement])
        if row < 0:
            return False
    elif not fits_now(s, g, e, j):
        return False
    if len(g.codes) > 1 and row == 0:
        _weigh(s, g, e, j)
        best, mean = g.sigma[e, 0], 0.0
        for q in range(len(g.codes)):
            best = min(best, g.sigma[e, q])
            mean += g.sigma[e, q] / len(g.codes)
        z["penalty"], z["mean"] = g.sigma[e, placement] - best, mean - best
    if row == 0:
        k = _now(s, g, e, j, g.codes[placement])
        _begin(s, g, e, j, k)
        whole = np.int64(np.ceil((s.jobs[e, j]["due"] - now) / s.sims[e]["tick"] - 1e-9))
    else:
        reserve(s, e, j, now + row * s.sims[e]["tick"])
        g.promised[e, g.moment[e]["promised"]] = j
        g.moment[e]["promised"] += 1
        for i in range(N):
            for r in range(R):
                g.held[e, j, i, r] = 0
        for i in range(k):
            for r in range(R):
                g.held[e, j, g.node[e, i], r] = g.amount[e, i, r]
    g.colour[e, j] = _colour(g, e)
    draw(g, e, j, row, row + whole, k)
    z["placed"] = 1.0
    b = g.moment[e]["backlog"]
    if b > 0:
        g.slot[e, slot] = g.backlog[e, 0]
        for i in range(b - 1):
            g.backlog[e, i] = g.backlog[e, i + 1]
        g.moment[e]["backlog"] = b - 1
        _let_in(g, e)
    else:
        g.slot[e, slot] = -1
    return True


# ------------------------------------------------------------------ time


@kernel
def _let_in(g, e):
    """There is a place in the backlog: the first that waits outside takes it."""
    m = g.moment[e]
    if m["first_outside"] < m["outside"]:
        g.backlog[e, m["backlog"]] = g.outside[e, m["first_outside"]]
        m["backlog"] += 1
        m["first_outside"] += 1


@kernel
def _arrive(s, g, e, arrived, count):
    """The first `count` jobs of arrived [K] have come: into a slot, the backlog, or away (or to wait outside)."""
    m = g.moment[e]
    for i in range(count):
        j, at = np.int64(arrived[i]), -1
        for k in range(g.slot.shape[1]):
            if g.slot[e, k] < 0:
                at = k
                break
        if at >= 0:
            g.slot[e, at] = j
        elif m["backlog"] < g.backlog.shape[1]:
            g.backlog[e, m["backlog"]] = j
            m["backlog"] += 1
        elif m["reject"] == 0:
            g.outside[e, m["outside"]] = j
            m["outside"] += 1
        else:
            cancel(s, e, j)
            g.report[e]["dropped"] += 1.0


@kernel
def _due(s, g, e):
    """Start the jobs whose row has come."""
    m, now, n = g.moment[e], s.sims[e]["now"], 0
    for i in range(m["promised"]):
        j = g.promised[e, i]
        if s.jobs[e, j]["reserved"] > now:
            g.promised[e, n] = j
            n += 1
            continue
        k = 0
        for node in range(g.held.shape[2]):
            some = False
            for r in range(g.held.shape[3]):
                some = some or g.held[e, j, node, r] > 0
            if some:
                g.node[e, k] = node
                for r in range(g.held.shape[3]):
                    g.amount[e, k, r] = g.held[e, j, node, r]
                k += 1
        _begin(s, g, e, j, k)
    m["promised"] = n


@kernel
def _pay(s, g, e):
    """Take note of the jobs in the system: on the machine, with a later start, in a slot, in the backlog."""
    m, z, total, count = g.moment[e], g.report[e], 0.0, 0
    truth = s.truth[e]
    for i in range(s.sims[e]["running"]):
        total += 1.0 / truth[s.lists[e, HEAP, i]]["runtime"]
        count += 1
    for i in range(m["promised"]):
        total += 1.0 / truth[g.promised[e, i]]["runtime"]
        count += 1
    for i in range(g.slot.shape[1]):
        if g.slot[e, i] >= 0:
            total += 1.0 / truth[g.slot[e, i]]["runtime"]
            count += 1
    for i in range(m["backlog"]):
        total += 1.0 / truth[g.backlog[e, i]]["runtime"]
        count += 1
    for i in range(m["first_outside"], m["outside"]):
        total += 1.0 / truth[g.outside[e, i]]["runtime"]
        count += 1
    z["slow"] += total * s.sims[e]["tick"]
    z["present"] += count


@kernel
def _pass(s, g, e):
    """A row of time passes."""
    m, z, sim = g.moment[e], g.report[e], s.sims[e]
    advance(s, e, sim["now"] + sim["tick"])
    m["now"] = np.round(sim["now"] / sim["tick"])
    for i in range(sim["left"]):
        j = s.lists[e, LEFT, i]
        job, run = s.jobs[e, j], s.truth[e, j]["runtime"]
        z["total"] += (job["end"] - job["submit"]) / run
        z["started"] += 1.0
        wait = job["end"] - job["submit"] - min(job["ran"], run)  # what a slow place takes beyond the work is waiting
        z["all_waited"] += wait
        z["longest"] = max(z["longest"], wait)
        z["stretched"] += (job["end"] - job["start"]) / run - 1.0
    roll(s, g, e, sim["now"], sim["left"])
    if m["promised"] > 0:
        _due(s, g, e)
    _arrive(s, g, e, s.lists[e, ENTERED], sim["entered"])
    m["since"] = 0 if sim["entered"] > 0 else m["since"] + 1
    _pay(s, g, e)
    z["rows"] += 1.0


@kernel
def catch_up(s, g, e, rows, arrived):
    """Follow a cluster outside the simulation by `rows` rows, to its present state `s`: the picture moves up, jobs whose row
    has come start, the jobs `arrived` [K] stand in line. Jobs that have stopped running are in s.lists[e, LEFT]."""
    m, sim = g.moment[e], s.sims[e]
    for i in range(rows):
        before = rows - 1 - i
        roll(s, g, e, sim["now"] - before * sim["tick"], sim["left"] if before == 0 else 0)
    if m["promised"] > 0:
        _due(s, g, e)
    _arrive(s, g, e, arrived, len(arrived))
    m["since"] = 0 if len(arrived) > 0 else m["since"] + rows
    m["now"] = np.round(sim["now"] / sim["tick"])


@kernel
def stand(s, g, e):
    """Stand at the present instant of a cluster that was not followed until now: draw its running jobs."""
    _blank(s, g, e)
    for j in range(s.jobs.shape[1]):
        if s.jobs[e, j]["status"] == RUNNING:
            g.colour[e, j] = _colour(g, e)
            long = np.int64(np.ceil((s.jobs[e, j]["due"] - s.sims[e]["now"]) / s.sims[e]["tick"] - 1e-9))
            draw(g, e, j, 0, max(long, 1), pieces(s, g, e, j))


@kernel
def _is_over(s, g, e):
    sim, m = s.sims[e], g.moment[e]
    return sim["ended"] == sim["jobs"] or m["now"] > m["limit"] or (m["until_arrivals"] and sim["next"] == sim["jobs"])


@allocating
def _mask(s, g, e):
    """Mark the actions with an effect. Return whether one would place a job. Where jobs must not wait for ever (no `stall`),
    letting time pass has no effect on an empty machine without arrivals in all the rows that are shown."""
    P, some = len(g.codes), False
    for i in range(g.slot.shape[1]):
        ok = g.slot[e, i] >= 0 and can_place(s, g, e, np.int64(g.slot[e, i]))
        some = some or ok
        for p in range(P):
            g.mask[e, i * P + p] = ok
    m = g.moment[e]
    idle = s.sims[e]["running"] == 0 and m["promised"] == 0 and m["since"] >= g.canvas.shape[1]
    g.mask[e, g.slot.shape[1] * P] = not (some and idle and m["stall"] == 0)
    return some


@kernel
def show_waiting(s, g, first, last):
    """Copy the public rows of the jobs in the slots of simulations first .. last - 1 to g.waiting, their times in rows."""
    for e in range(first, last):
        for m in range(g.slot.shape[1]):
            if g.slot[e, m] >= 0:
                g.waiting[e, m] = s.jobs[e, g.slot[e, m]]
                g.waiting[e, m]["walltime"] = rows(s, e, s.jobs[e, g.slot[e, m]])
                g.waiting[e, m]["submit"] = s.jobs[e, g.slot[e, m]]["submit"] / s.sims[e]["tick"]


@kernel
def _blank(s, g, e):
    """Empty the picture, the slots and the backlog."""
    (N, R), m = g.capacity.shape, g.moment[e]
    for row in range(g.canvas.shape[1]):
        for x in range(g.canvas.shape[2]):
            g.canvas[e, row, x] = 0
        for i in range(N):
            for r in range(R):
                g.free[e, row, i, r] = g.capacity[i, r]
    for c in range(COLOURS):
        g.used[e, c] = 0
    for i in range(g.slot.shape[1]):
        g.slot[e, i] = -1
    m["backlog"], m["promised"], m["since"], m["over"], m["now"] = 0, 0, 0, 0, 0.0
    m["outside"] = m["first_outside"] = 0


@kernel
def _begin_episode(s, g, e):
    """Simulation e has been filled, and nothing has happened in it yet."""
    _blank(s, g, e)
    z = g.report[e]
    z["total"] = z["started"] = z["longest"] = z["all_waited"] = z["stretched"] = z["dropped"] = 0.0
    z["rows"] = z["slow"] = z["present"] = z["placed"] = z["penalty"] = z["mean"] = z["over"] = 0.0
    advance(s, e, 0.0)
    _arrive(s, g, e, s.lists[e, ENTERED], s.sims[e]["entered"])
    _pay(s, g, e)
    g.moment[e]["first"] = 1


@allocating
def go(s, g, sets, asked, which, over, first, last):
    """Do asked[e] in simulations first .. last - 1, and go on to their next choices. How many have one.

    asked[e]: an action (slot P + placement; M P and beyond: void), RENEW to begin jobset which[e], BEGIN the simulation as it
    is filled, LOOK (the picture has been brought up to date outside), or NOTHING. over[e]: 1 where the episode has ended (or
    had: such simulations are left alone), or, on a cluster that lives elsewhere, where a row is to pass there.
    """
    more, P, M = 0, len(g.codes), g.slot.shape[1]
    for e in range(first, last):
        a, m, z = asked[e], g.moment[e], g.report[e]
        if a == RENEW or a == BEGIN:
            if a == RENEW:
                renew(s, e, sets, which[e])
            _begin_episode(s, g, e)
        elif a == LOOK:
            m["over"] = 0
        elif a == NOTHING or m["over"]:
            over[e] = m["over"]
            continue
        else:
            if m["first"]:
                m["first"] = 0  # what came before the first choice counts to the first interval
            else:
                z["rows"] = z["slow"] = z["present"] = 0.0
            z["placed"] = z["penalty"] = z["mean"] = 0.0
            if not (0 <= a < M * P and _place(s, g, e, a // P, a % P)):
                if m["live"]:
                    m["over"] = over[e] = 1
                    continue
                _pass(s, g, e)
        some = _mask(s, g, e)
        while not some and m["ask_always"] == 0 and not m["live"] and not _is_over(s, g, e):
            _pass(s, g, e)
            some = _mask(s, g, e)
        m["over"] = not (some or m["ask_always"]) if m["live"] else _is_over(s, g, e)
        z["over"], over[e] = m["over"], m["over"]
        more += 1 - over[e]
    return more

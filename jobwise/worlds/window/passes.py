"""The pass that stops at choices: `go` carries them out and goes on to the next ones.

One compiled function for a learner's environment, a network in a whole replay, and one pass for a live cluster. All of a
pass is put into it (`inlined`), each part once: a call would hand over two hundred numbers, the bundles of arrays.
"""

from __future__ import annotations

import numpy as np

from jobwise.compiled import inlined, kernel
from jobwise.sim.kernel import OVER, advance
from jobwise.sim.lists import easy, ranked
from jobwise.sim.reset import NO_PLAN, refill
from jobwise.sim.state import ENTERED, HEAP, LEFT, State
from jobwise.worlds.window import prices, several, waiting
from jobwise.worlds.window.queue import begin_trial, end_of, enter, reachable, running, start_item, take_back, trial_ended
from jobwise.worlds.window.tables import (
    BEHIND,
    CHOSEN,
    GREEDY,
    HEADS,
    MIXED,
    NONE,
    PASSED,
    TRIED,
    TRYING,
    Choices,
    show_mixed,
)

BEGIN, REFILL, NOTHING = -1, -2, -3  # what else than a slot can be asked of a simulation
PASS, STARTED, ENDED = range(3)  # where to stop where there is no choice: the pass is over, all jobs have started, or ended
ASK, NOBODY = -2, -1  # where a place in the queue is expected


# ------------------------------------------------------------------ the window


@inlined
def _shown(s, e, c, k):
    m = c.moment[e]
    m["count"], m["now"], m["running"] = k, s.sims[e]["now"], s.sims[e]["running"] - m["trying"]
    m["free"] = s.nodes[e, 0]["free"][0] if m["phase"] == TRYING else reachable(s, e, c)
    for r in range(1, c.amount.shape[1]):
        m["more_free"][r - 1] = s.nodes[e, 0]["free"][r]
    if s.steps.shape[1] > 0 and k > 0:
        waiting.priced(s, e, c, k)


@inlined
def _show_queue(s, e, c):
    """Show who can be the next in order."""
    m, W, slots = c.moment[e], c.slots.shape[1], c.slots[e]
    if m["queued"] > W and m["fill"] == MIXED:
        show_mixed(c.queue[e], slots, c.key[e], m["queued"])
        k = W
    else:
        k = min(m["queued"], W)
        for i in range(k):
            slots[i] = i
    _shown(s, e, c, waiting.offer(s, e, c, k))


@inlined
def _show_behind(s, e, c):
    """Show who may start behind the reservation; how many."""
    W, slots, item = c.slots.shape[1], c.slots[e], c.queue[e]
    now, free, k = s.sims[e]["now"], reachable(s, e, c), 0
    for i in range(c.moment[e]["queued"]):
        if _may(s, c, e, item[i], now, free):
            slots[k] = i
            k += 1
            if k == W:
                break
    k = waiting.offer(s, e, c, k)
    _shown(s, e, c, k)
    return k


@inlined
def _try(s, e, c):
    """ASK which job is tried next in what is idle, or NOBODY: one was, or nobody can be."""
    m, W, free, k = c.moment[e], c.slots.shape[1], s.nodes[e, 0]["free"][0], 0
    for i in range(m["queued"] if free > 0 else 0):
        x = c.queue[e, i]
        if np.isnan(x["began"]) and x["size"] <= free and s.jobs[e, x["row"]]["restartable"]:
            c.slots[e, k] = i
            k += 1
            if k == W:
                break
    _shown(s, e, c, k)
    if k > 1:
        return ASK
    if k == 1:
        begin_trial(s, e, c, np.int64(c.slots[e, 0]))
    else:
        m["phase"] = TRIED
    return NOBODY


# ------------------------------------------------------------------ the pass


@inlined
def _head(s, e, c):
    """The place of the job whose turn it is, if it fits. Else NOBODY (it has its reservation now), or ASK."""
    m, now, free = c.moment[e], s.sims[e]["now"], reachable(s, e, c)
    if m["queued"] == 0:
        m["phase"] = PASSED
        return NOBODY
    i = ASK
    if m["head"] >= 0:
        i = np.int64(m["place"])
    elif easy.overdue(now, c.queue[e, 0]["submit"], m["guard"]):
        i = 0
    elif not m["sticky"]:
        if m["queued"] == 1 and not m["waits"]:
            i = 0
        fits, limit = False, m["queued"] if m["fill"] == MIXED else min(m["queued"], c.slots.shape[1])
        for k in range(limit):
            if several.fits(s, e, c, c.queue[e, k], free):
                fits = True
                break
        if not fits:
            m["phase"] = PASSED
            return NOBODY
    if i == ASK:
        _show_queue(s, e, c)
        return ASK
    row, n = c.queue[e, i]["row"], np.int64(c.queue[e, i]["size"])
    if several.fits(s, e, c, c.queue[e, i], free):
        m["head"] = -1
        return i
    new = m["head"] != row or m["shadow"] < 0 or m["backfill"] != GREEDY  # RLScheduler keeps the first shadow time
    m["head"], m["place"], m["phase"], m["tried"] = row, i, BEHIND, 0
    if new and m["backfill"] != NONE:  # the reservation: when it can start, and what is left beside it then
        if c.amount.shape[1] == 1:
            m["shadow"], m["extra"] = easy.reserve(running(c, e), n, free, now)
        else:
            several.reserve(s, e, c, running(c, e), c.queue[e, i])
    return NOBODY


@inlined
def _may(s, c, e, x, now, free):
    """May this job of the queue start behind the reservation?"""
    m = c.moment[e]
    if not several.fits(s, e, c, x, free) or x["row"] == m["head"]:
        return False
    if m["backfill"] == GREEDY:
        return now + x["est"] < m["shadow"]
    if not easy.may_start(x["size"], end_of(x, now), free, m["shadow"], m["extra"]):
        return False
    for r in range(1, c.amount.shape[1]):
        if now + x["est"] > m["shadow"] and x["more"][r - 1] > m["more_extra"][r - 1]:
            return False
    return True


@inlined
def _beside(s, e, c, i):
    """Account for the i-th of the queue, which starts behind the reservation."""
    m, x = c.moment[e], c.queue[e, i]
    m["extra"] = easy.charge(x["size"], end_of(x, s.sims[e]["now"]), m["shadow"], m["extra"])
    for r in range(1, c.amount.shape[1]):
        extra = m["more_extra"][r - 1]
        m["more_extra"][r - 1] = easy.charge(x["more"][r - 1], s.sims[e]["now"] + x["est"], m["shadow"], extra)


@inlined
def _behind(s, e, c):
    """The place of the next job to backfill, or ASK, or NOBODY: the pass is over."""
    m, now, free = c.moment[e], s.sims[e]["now"], reachable(s, e, c)
    best = NOBODY
    if m["backfill"] != NONE and (free > 0 or c.amount.shape[1] > 1):
        i = np.int64(m["tried"])
        while i < m["queued"] and best == NOBODY:
            if m["backfill"] == CHOSEN and not easy.overdue(now, c.queue[e, i]["submit"], m["guard"]):
                break
            if _may(s, c, e, c.queue[e, i], now, free):
                best = i
            else:
                i += 1
        m["tried"] = i
        if best == NOBODY and m["backfill"] == CHOSEN:
            k = _show_behind(s, e, c)
            if k > 1:
                return ASK
            if k == 1:
                best = np.int64(c.slots[e, 0])
    if best == NOBODY:
        m["phase"] = PASSED
    else:
        _beside(s, e, c, best)
    return best


@inlined
def _pass_time(s, e, c):
    """Advance to the next event and take note of it; False where nothing will happen again."""
    m, z, sim = c.moment[e], c.interval[e], s.sims[e]
    before = sim["now"]
    if advance(s, e, np.inf) == OVER:
        return False
    dt = sim["now"] - before
    z["seconds"] += dt
    z["waited"] += dt * (m["queued"] - m["trying"])
    z["slowed"] += dt * z["inverse"]
    z["ideal_seconds"] += dt * z["present"]
    for i in range(sim["left"]):
        j = s.lists[e, LEFT, i]
        is_trial = m["trying"] > 0 and trial_ended(s, e, c, j)
        if not is_trial:
            ranked.remove(running(c, e), s.jobs[e, j]["due"], j)
        if np.isnan(s.jobs[e, j]["end"]):
            if not is_trial:
                take_back(s, e, c, j)
        else:
            z["present"] -= 1.0 / max(s.truth[e, j]["runtime"], 1.0)
    if sim["running"] == 0 and m["queued"] == 0:
        z["present"] = 0.0
    for i in range(sim["entered"]):
        enter(s, e, c, s.lists[e, ENTERED, i])
    m["phase"] = HEADS
    if not m["sticky"]:
        m["head"] = -1
    return True


@inlined
def _pick(s, e, c, slot):
    """Choose the job in a slot of the window: its place if it starts, else NOBODY: it is the head."""
    m, z, sim = c.moment[e], c.interval[e], s.sims[e]
    i, capacity = np.int64(c.slots[e, slot]), s.nodes[e, 0]["capacity"][0]
    free = s.nodes[e, 0]["free"][0] if m["phase"] == TRYING else reachable(s, e, c)
    x, n = c.queue[e, i], np.int64(c.queue[e, i]["size"])
    if z["first"]:
        z["first"] = 0.0
    else:
        z["seconds"] = z["waited"] = z["slowed"] = z["late_bounds"] = z["ideal_seconds"] = z["dear_waits"] = z["paid"] = 0.0
    z["picked_wait"], z["longest_wait"] = sim["now"] - x["submit"], sim["now"] - c.queue[e, 0]["submit"]
    z["picked_size"], z["size"], z["ideal"] = n, capacity, z["present"]
    fits = several.fits(s, e, c, x, free)
    z["used"] = capacity - free + (n if fits else 0)
    if c.amount.shape[1] > 1:
        several.shares(s, e, c, x, fits)
    if m["phase"] == TRYING:
        begin_trial(s, e, c, i)
        return NOBODY
    if i == m["queued"]:  # nobody: the pass is over
        m["phase"] = PASSED
        return NOBODY
    if m["phase"] == BEHIND:
        _beside(s, e, c, i)
    elif not fits:
        m["head"], m["place"], m["shadow"] = x["row"], i, -1.0
        return NOBODY
    return i


@inlined
def _clear(s, e, c):
    """Simulation e has been filled anew: forget the last one."""
    m, z, q = c.moment[e], c.interval[e], c.running
    m["phase"], m["head"], m["queued"], m["count"] = PASSED, -1, 0, 0
    m["held"] = m["trying"] = 0
    z["seconds"] = z["waited"] = z["slowed"] = z["late_bounds"] = z["ideal_seconds"] = z["ideal"] = 0.0
    z["dear_waits"], z["price"], z["paid"], z["par"] = 0.0, prices.mean(s, e), 0.0, waiting.par(s, e)
    z["total"] = z["started"] = z["longest"] = z["all_waited"] = z["over"] = 0.0
    z["inverse"], z["present"], z["first"] = 0.0, 0.0, 1.0
    z["jobs"], z["size"] = s.sims[e]["jobs"], s.nodes[e, 0]["capacity"][0]
    several.totals(s, e, c)
    q.count[e, 0] = q.count[e, 1] = 0


@inlined
def _proceed(s, e, c, i, until):
    """Start the i-th of the queue (or NOBODY), and go on: True at a choice, False where there is none until there."""
    m, z, sim = c.moment[e], c.interval[e], s.sims[e]
    while True:
        if i >= 0:
            start_item(s, e, c, i)
            i = np.int64(NOBODY)
        if m["phase"] == HEADS:
            i = _head(s, e, c)
        elif m["phase"] == BEHIND:
            i = _behind(s, e, c)
        elif m["phase"] == PASSED and m["trials"] and until != PASS:
            m["phase"] = TRYING
        elif m["phase"] == TRYING:
            i = _try(s, e, c)
        else:
            started = m["queued"] == 0 and sim["ended"] + sim["running"] == sim["jobs"]
            if until == PASS or (until == STARTED and started) or not _pass_time(s, e, c):
                m["count"], m["now"], m["running"], z["over"] = 0, sim["now"], sim["running"] - m["trying"], 1.0
                return False
        if i == ASK:
            return True


@inlined
def _mask(c, e, before):
    for i in range(max(before, 1), c.moment[e]["count"]):
        c.mask[e, i] = 1
    for i in range(max(c.moment[e]["count"], 1), before):
        c.mask[e, i] = 0


@inlined
def _report(c, e):
    z, r = c.interval[e], c.report[e]
    r["seconds"], r["waited"], r["slowed"], r["late_bounds"] = z["seconds"], z["waited"], z["slowed"], z["late_bounds"]
    r["ideal"], r["ideal_seconds"], r["used"] = z["ideal"], z["ideal_seconds"], z["used"]
    r["picked_wait"], r["longest_wait"], r["picked_size"] = z["picked_wait"], z["longest_wait"], z["picked_size"]
    r["size"], r["jobs"], r["total"], r["started"] = z["size"], z["jobs"], z["total"], z["started"]
    r["longest"], r["all_waited"], r["over"] = z["longest"], z["all_waited"], z["over"]
    r["dear_waits"], r["price"], r["paid"], r["par"] = z["dear_waits"], z["price"], z["paid"], z["par"]
    if c.amount.shape[1] > 1:
        for k in range(c.amount.shape[1]):
            r["shares"][k] = z["shares"][k]


@kernel
def go(s, c, plan, asked, over, until, again, first, last):
    """Do asked[e] in simulations first .. last - 1 and go on to their next choices. How many have one.

    asked[e]: a slot of the window (beyond the last from the first again); BEGIN the simulation as it is filled; REFILL it
    with what is planned and begin; NOTHING. over[e]: 0 there is a choice; 1 there is none until PASS, STARTED or ENDED
    (`again`: and the planned episode has begun, has one); 2 that has none either. Simulations without a choice to make are
    left alone where a slot is asked of them.
    """
    more = 0
    for e in range(first, last):
        what, before, i = asked[e], c.moment[e]["count"], np.int64(NOBODY)
        over[e] = 0
        if what >= 0 and before == 0:
            over[e] = 1
            continue
        if what >= 0:
            i = _pick(s, e, c, what if what < before else what % before)
        for episode in range(2 if again else 1):
            if episode > 0 or what == REFILL:
                refill(s, e, plan, e)
            if episode > 0 or what == REFILL or what == BEGIN:
                _clear(s, e, c)
                i = np.int64(NOBODY)
            slot = _proceed(s, e, c, i, until)
            if episode == 0 and what >= 0:
                _report(c, e)
            if slot:
                more += 1
                break
            over[e] += 1
        _mask(c, e, before)
    return more


def ask(s: State, c: Choices, asked: np.ndarray | int, until: int = ENDED) -> int:
    """`go` without planned episodes: asked [E] or one for all. How many simulations have a choice."""
    E = len(s.sims)
    asked = np.broadcast_to(np.asarray(asked, np.int64), E).copy()
    return go(s, c, NO_PLAN, asked, np.zeros(E, np.int8), until, False, 0, E)


@kernel
def resume(s, e, c):
    """Stand at the present instant of simulation e, which was not begun here: a pass over what waits is due."""
    m, z, sim, q = c.moment[e], c.interval[e], s.sims[e], c.running
    m["phase"], m["head"], m["queued"], m["count"] = HEADS, -1, 0, 0
    z["size"], z["jobs"] = s.nodes[e, 0]["capacity"][0], sim["jobs"]
    several.totals(s, e, c)
    q.count[e, 0] = q.count[e, 1] = 0
    for i in range(sim["running"]):
        j = s.lists[e, HEAP, i]
        ranked.insert(running(c, e), s.jobs[e, j]["due"], j, s.jobs[e, j]["request"][0], 0.0)
    j = sim["head"]
    while j >= 0:
        enter(s, e, c, j)
        if m["sticky"] and not np.isnan(s.jobs[e, j]["reserved"]):
            m["head"], m["place"], m["shadow"] = j, m["queued"] - 1, s.jobs[e, j]["reserved"]
        j = s.truth[e, j]["next"]


@kernel
def show_running(s, c, out, first, last):
    """out[e] = the running jobs of simulations first .. last - 1, by estimated end; `moment["running"]` says how many."""
    for e in range(first, last):
        q, k = running(c, e), 0
        for b in range(q.count[0]):
            block = q.order[b]
            for i in range(q.block[block]["used"]):
                j = q.entry[block, i]["row"]
                x, job = out[e, k], s.jobs[e, j]
                x["row"], x["size"], x["start"], x["due"] = j, job["request"][0], job["start"], job["due"]
                x["user"], x["group"], x["app"] = job["user"], job["group"], job["app"]
                x["share"] = job["request"][0] / max(s.nodes[e, 0]["capacity"][0], 1)
                for r in range(1, c.amount.shape[1]):
                    x["more"][r - 1] = job["request"][r]
                    x["share"] = max(x["share"], job["request"][r] / max(s.nodes[e, 0]["capacity"][r], 1))
                k += 1

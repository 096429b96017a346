"""Scheduling with the choices left open: E simulations side by side, each stopped where somebody must choose a job.

The general loop (`listing.py`) has an order and decides by itself; here the pass stops wherever there is a choice and
shows a window of jobs; `pick` carries the choice out, `proceed` goes on to the next one. A learner's environment, a
network in a whole replay, and one pass for a live cluster are all driven through these two.

A pass has two phases. HEADS: the next job in order is chosen; if it fits it starts, else it is the head and has the
reservation. BEHIND: of the jobs that may start beside or before the reservation one is chosen, and so on.

    mode      the head that does not fit       behind it                      asked
    pick      is forgotten at the next event   EASY, the chooser chooses      where two jobs or more could be, and one fits
    reserve   keeps its turn until it starts   EASY in order of arrival       whenever the turn is free and a job waits
    commit    keeps its turn                   nobody, or RLScheduler's rule  the same, after every single event

A pool of processors is assumed. With a guard, a job that has waited longer goes first, unasked.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from jobwise.sim import blocks
from jobwise.sim.compiled import inlined, kernel
from jobwise.sim.filling import refill
from jobwise.sim.kernel import OVER, advance, start
from jobwise.sim.state import ENTERED, HEAP, LEFT, State

HEADS, BEHIND, PASSED = range(3)
BACKFILLS = ("none", "chosen", "easy", "greedy")
NONE, CHOSEN, EASY, GREEDY = range(4)
FILLS = ("oldest", "mixed")
OLDEST, MIXED = range(2)
TAU = 10.0  # s, of the bounded slowdown

moment_dtype = np.dtype(  # what an encoder may see of it: all that a scheduler knows
    [
        ("now", "f8"),
        ("free", "i8"),
        ("total", "i8"),
        ("running", "i8"),
        ("queued", "i8"),
        ("count", "i8"),  # jobs in the window
        ("phase", "i1"),
        ("sticky", "i1"),  # a head keeps its turn until it starts
        ("backfill", "i1"),
        ("fill", "i1"),  # which jobs the window shows where more wait
        ("head", "i4"),  # the row that has the reservation; -1 none
        ("place", "i4"),  # its place in the queue
        ("shadow", "f8"),
        ("extra", "i8"),
        ("guard", "f8"),  # s; inf without
        ("bound", "f8"),  # s of waiting after which a job counts as late
    ],
    align=True,
)
item_dtype = np.dtype(  # a queued job as the pass and the encoders need it, side by side in memory
    [
        ("submit", "f8"),  # s
        ("est", "f8"),  # s, walltime less what has run, at least 1
        ("row", "i4"),
        ("size", "i4"),  # processors
        ("user", "i4"),
        ("group", "i4"),
        ("app", "i4"),
    ],
    align=True,
)

# What happened between two choices: rewards are functions of it. Sums are over jobs.
interval_dtype = np.dtype(
    [
        ("seconds", "f8"),  # simulated time passed
        ("waited", "f8"),  # job-seconds of waiting
        ("slowed", "f8"),  # increase of the jobs' bounded slowdowns (TAU)
        ("late_bounds", "f8"),  # waits beyond the bound, in bounds, of jobs that started
        ("ideal", "f8"),  # sum of 1 / run time over jobs in the system, after the choice
        ("ideal_seconds", "f8"),  # its integral over time
        ("picked_wait", "f8"),  # s, of the chosen job
        ("longest_wait", "f8"),  # s, in the queue at the choice
        ("picked_size", "f8"),  # processors
        ("used", "f8"),  # processors occupied after the choice
        ("size", "f8"),  # processors of the machine
        ("jobs", "f8"),  # jobs of the episode
        ("total", "f8"),  # sum of bounded slowdowns of the jobs started so far in the episode
        ("started", "f8"),  # how many
        ("longest", "f8"),  # s, the longest wait of those
        ("all_waited", "f8"),  # s, the sum of their waits
        ("over", "f8"),  # 1 where every job has started
        ("first", "f8"),  # 1 before the first choice: what came before it counts to the first interval
        ("inverse", "f8"),  # now: sum over the queue of 1 / max(run, TAU)
        ("present", "f8"),  # now: sum over queue and machine of 1 / max(run, 1)
    ],
    align=True,
)


class Choices(NamedTuple):
    """What the pass in progress needs to remember. E simulations, J jobs, W jobs in a window."""

    moment: np.ndarray  # [E] of moment_dtype
    queue: np.ndarray  # [E, J] of item_dtype, in order of entry
    words: np.ndarray  # [E, J, 5] the same memory as numbers of eight bytes
    interval: np.ndarray  # [E] of interval_dtype, in progress
    report: np.ndarray  # [E] the last one that is complete
    mask: np.ndarray  # [E, W] i1: 1 for the slots that show a job, slot 0 always
    slots: np.ndarray  # [E, W] places in the queue that the window shows: the first `count`
    running: blocks.Blocks  # [E, ...] running jobs by estimated end
    key: np.ndarray  # [E, J] room for a selection
    node: np.ndarray  # an empty placement
    amount: np.ndarray


def allocate(
    s: State, window: int, *, sticky: bool, backfill: str, fill: str = "oldest", guard: float = np.inf, bound: float = 86400.0
) -> Choices:
    """Memory for the simulations of `s`, to be begun with `begin`."""
    E, J = s.jobs.shape
    one = blocks.build(min(J, int(s.nodes["capacity"].max())))
    moment = np.zeros(E, moment_dtype)
    moment["sticky"], moment["backfill"], moment["fill"] = sticky, BACKFILLS.index(backfill), FILLS.index(fill)
    moment["guard"], moment["bound"] = guard, bound
    running = blocks.Blocks(*(np.repeat(a[None], E, axis=0) for a in one))
    node, amount = np.empty(0, np.int32), np.empty((0, 1), np.int64)
    interval, key = np.zeros(E, interval_dtype), np.zeros((E, J if fill == "mixed" and window < J else 1))
    queue = np.zeros((E, J), item_dtype)
    mask = np.zeros((E, window), np.int8)
    mask[:, 0] = 1
    words = queue.view(np.int64).reshape(E, J, item_dtype.itemsize // 8)
    return Choices(
        moment, queue, words, interval, interval.copy(), mask, np.zeros((E, window), np.int32), running, key, node, amount
    )


@inlined
def _running(c, e):
    q = c.running
    return blocks.Blocks(q.entry[e], q.block[e], q.shortest[e], q.order[e], q.count[e])


# ------------------------------------------------------------------ the queue


@inlined
def _enter(s, e, c, j):
    m, z, job = c.moment[e], c.interval[e], s.jobs[e, j]
    x = c.queue[e, m["queued"]]
    x["row"], x["size"], x["submit"] = j, job["request"][0], job["submit"]
    x["user"], x["group"], x["app"] = job["user"], job["group"], job["app"]
    x["est"] = max(max(job["walltime"], 1.0) - job["ran"], 1.0)
    m["queued"] += 1
    run = s.truth[e, j]["runtime"]
    z["inverse"] += 1.0 / max(run, TAU)
    if np.isnan(job["start"]):
        z["present"] += 1.0 / max(run, 1.0)


@kernel
def _start(s, e, c, i):
    """Start the i-th of the queue now."""
    m, z, now, item = c.moment[e], c.interval[e], s.sims[e]["now"], c.queue[e]
    j, n, wait = item[i]["row"], np.int64(item[i]["size"]), now - item[i]["submit"]
    start(s, e, j, 1.0, c.node, c.amount, 0)
    blocks.insert(_running(c, e), s.jobs[e, j]["due"], j, n, 0.0)
    last = m["queued"] - 1
    words = c.words[e]
    for k in range(i, last):
        for word in range(5):
            words[k, word] = words[k + 1, word]
    m["queued"] = last
    if i < m["place"]:
        m["place"] -= 1
    run = s.truth[e, j]["runtime"]
    z["inverse"] = z["inverse"] - 1.0 / max(run, TAU) if last > 0 else 0.0
    if run < TAU:  # the first seconds of such a job's wait cost nothing
        z["slowed"] -= min(wait, TAU - run) / TAU
    z["late_bounds"] += max(wait - m["bound"], 0.0) / m["bound"]
    z["longest"] = max(z["longest"], wait)
    z["total"] += max((wait + run) / max(run, TAU), 1.0)
    z["all_waited"] += wait
    z["started"] += 1.0


@inlined
def _reserve(s, e, c, i, n):
    """The i-th of the queue is the head; its reservation: shadow time and what is left beside it then."""
    m = c.moment[e]
    m["head"], m["place"], m["phase"] = c.queue[e, i]["row"], i, BEHIND
    if m["backfill"] == NONE:
        return
    t, got = blocks.shadow(_running(c, e), n, s.nodes[e, 0]["free"][0], s.sims[e]["now"])
    m["shadow"], m["extra"] = t, got - n if t < np.inf else blocks.ALL


@inlined
def _may(c, e, x, now, free):
    """May this job of the queue start behind the reservation?"""
    m = c.moment[e]
    if x["size"] > free or x["row"] == m["head"]:
        return False
    if m["backfill"] == GREEDY:
        return now + x["est"] < m["shadow"]
    return x["size"] <= m["extra"] or now + x["est"] <= m["shadow"]


@inlined
def _backfill(s, e, c, i):
    """Start the i-th of the queue behind the reservation."""
    m, x = c.moment[e], c.queue[e, i]
    if s.sims[e]["now"] + x["est"] > m["shadow"]:
        m["extra"] -= x["size"]
    _start(s, e, c, i)


# ------------------------------------------------------------------ the window


@kernel
def _smallest(x, n, k):
    """The k-th smallest (from 1) of x[:n], which is disordered (Hoare's selection)."""
    low, high = 0, n - 1
    while low < high:
        pivot, i, j = x[(low + high) >> 1], low, high
        while i <= j:
            while x[i] < pivot:
                i += 1
            while x[j] > pivot:
                j -= 1
            if i <= j:
                x[i], x[j] = x[j], x[i]
                i += 1
                j -= 1
        if k - 1 <= j:
            high = j
        elif k - 1 >= i:
            low = i
        else:
            break
    return x[k - 1]


@kernel
def _show_mixed(c, e, count):
    """The window where more wait than it holds: a third the oldest, of the others a third the shortest, a third the smallest.

    A shown item is marked by the complement of its row, and unmarked at the end. Ties: the older.
    """
    item, slots, W, key = c.queue[e], c.slots[e], c.slots.shape[1], c.key[e]
    third = W // 3
    oldest = W - 2 * third
    for i in range(oldest):
        item[i]["row"] = ~item[i]["row"]
    for by_size in range(2 if third > 0 else 0):
        n = 0
        for i in range(oldest, count):
            if item[i]["row"] >= 0:
                key[n] = item[i]["size"] if by_size else item[i]["est"]
                n += 1
        most, ties = _smallest(key, n, third), third
        for i in range(n):
            ties -= key[i] < most
        for i in range(oldest, count):
            x = item[i]
            value = np.float64(x["size"]) if by_size else x["est"]
            if x["row"] >= 0 and (value < most or (value == most and ties > 0)):
                ties -= value == most
                x["row"] = ~x["row"]
    k = 0
    for i in range(count):  # in order of arrival again
        if item[i]["row"] < 0:
            item[i]["row"] = ~item[i]["row"]
            slots[k] = i
            k += 1


@inlined
def _show(s, e, c):
    """Fill the window with the jobs that can be chosen now; how many."""
    m, W, item, slots = c.moment[e], c.slots.shape[1], c.queue[e], c.slots[e]
    if m["phase"] == BEHIND:
        now, free, k = s.sims[e]["now"], s.nodes[e, 0]["free"][0], 0
        for i in range(m["queued"]):
            if _may(c, e, item[i], now, free):
                slots[k] = i
                k += 1
                if k == W:
                    break
    elif m["queued"] > W and m["fill"] == MIXED:
        _show_mixed(c, e, m["queued"])
        k = W
    else:
        k = min(m["queued"], W)
        for i in range(k):
            slots[i] = i
    m["count"], m["now"], m["free"], m["running"] = k, s.sims[e]["now"], s.nodes[e, 0]["free"][0], s.sims[e]["running"]
    return k


# ------------------------------------------------------------------ the pass


@kernel
def _heads(s, e, c):
    """Heads start while they fit; True where one must be chosen."""
    m, now = c.moment[e], s.sims[e]["now"]
    while m["queued"] > 0:
        free, forced = s.nodes[e, 0]["free"][0], -1
        if m["head"] >= 0:
            forced = np.int64(m["place"])
        elif now - c.queue[e, 0]["submit"] > m["guard"]:
            forced = 0
        elif not m["sticky"]:
            if m["queued"] == 1:
                forced = 0
            fits, seen = False, m["queued"] if m["fill"] == MIXED else min(m["queued"], c.slots.shape[1])
            for i in range(seen):
                if c.queue[e, i]["size"] <= free:
                    fits = True
                    break
            if not fits:
                m["phase"] = PASSED
                return False
        if forced < 0:
            _show(s, e, c)
            return True
        row, n = c.queue[e, forced]["row"], np.int64(c.queue[e, forced]["size"])
        if n > free:
            if m["head"] == row and m["backfill"] == GREEDY:  # RLScheduler keeps the first shadow time
                m["phase"] = BEHIND
            else:
                _reserve(s, e, c, forced, n)
            return False
        m["head"] = -1
        _start(s, e, c, forced)
    m["phase"] = PASSED
    return False


@kernel
def _behind(s, e, c):
    """Backfill; True where a job must be chosen."""
    m, now = c.moment[e], s.sims[e]["now"]
    i = 0
    while m["backfill"] != NONE and i < m["queued"] and s.nodes[e, 0]["free"][0] > 0:
        guarded = now - c.queue[e, i]["submit"] > m["guard"]
        if (m["backfill"] != CHOSEN or guarded) and _may(c, e, c.queue[e, i], now, s.nodes[e, 0]["free"][0]):
            _backfill(s, e, c, i)
        elif m["backfill"] != CHOSEN or guarded:
            i += 1
        else:
            break
    if m["backfill"] == CHOSEN and s.nodes[e, 0]["free"][0] > 0:
        k = _show(s, e, c)
        if k > 1:
            return True
        if k == 1:
            _backfill(s, e, c, c.slots[e, 0])
    m["phase"] = PASSED
    return False


@inlined
def _pass_time(s, e, c):
    """Advance to the next event and take note of it; False where nothing will happen again."""
    m, z, sim = c.moment[e], c.interval[e], s.sims[e]
    before = sim["now"]
    if advance(s, e, np.inf) == OVER:
        return False
    dt = sim["now"] - before
    z["seconds"] += dt
    z["waited"] += dt * m["queued"]
    z["slowed"] += dt * z["inverse"]
    z["ideal_seconds"] += dt * z["present"]
    for i in range(sim["left"]):
        j = s.lists[e, LEFT, i]
        blocks.remove(_running(c, e), s.jobs[e, j]["due"], j)
        if not np.isnan(s.jobs[e, j]["end"]):
            z["present"] -= 1.0 / max(s.truth[e, j]["runtime"], 1.0)
    if sim["running"] == 0 and m["queued"] == 0:
        z["present"] = 0.0
    for i in range(sim["entered"]):
        _enter(s, e, c, s.lists[e, ENTERED, i])
    m["phase"] = HEADS
    if not m["sticky"]:
        m["head"] = -1
    return True


@kernel
def proceed(s, e, c, drain):
    """Go on to the next choice: True there; False where every job has started (`drain`: where every job has ended)."""
    m, z, sim = c.moment[e], c.interval[e], s.sims[e]
    while True:
        if m["phase"] == HEADS and _heads(s, e, c):
            return True
        if m["phase"] == BEHIND and _behind(s, e, c):
            return True
        started = m["queued"] == 0 and sim["next"] == sim["jobs"]
        if (started and not drain) or not _pass_time(s, e, c):
            m["count"], m["now"], m["running"], z["over"] = 0, sim["now"], sim["running"], 1.0
            return False


@kernel
def pick(s, e, c, slot):
    """Choose the job in a slot of the window: it starts, or is the head and has the reservation."""
    m, z, sim = c.moment[e], c.interval[e], s.sims[e]
    i, free = c.slots[e, slot], s.nodes[e, 0]["free"][0]
    x, n = c.queue[e, i], np.int64(c.queue[e, i]["size"])
    capacity = s.nodes[e, 0]["capacity"][0]
    if z["first"]:
        z["first"] = 0.0
    else:
        z["seconds"] = z["waited"] = z["slowed"] = z["late_bounds"] = z["ideal_seconds"] = 0.0
    z["picked_wait"], z["longest_wait"] = sim["now"] - x["submit"], sim["now"] - c.queue[e, 0]["submit"]
    z["picked_size"], z["size"], z["ideal"] = n, capacity, z["present"]
    if m["phase"] == BEHIND:
        _backfill(s, e, c, i)
    elif n <= free:
        _start(s, e, c, i)
    else:
        _reserve(s, e, c, i, n)
    z["used"] = capacity - s.nodes[e, 0]["free"][0]


@kernel
def begin(s, e, c):
    """Simulation e has been filled anew: forget the last one and go to the first choice. False if there is none."""
    m, z, q = c.moment[e], c.interval[e], c.running
    m["phase"], m["head"], m["queued"], m["count"] = PASSED, -1, 0, 0
    z["seconds"] = z["waited"] = z["slowed"] = z["late_bounds"] = z["ideal_seconds"] = z["ideal"] = 0.0
    z["total"] = z["started"] = z["longest"] = z["all_waited"] = z["over"] = 0.0
    z["inverse"], z["present"], z["first"] = 0.0, 0.0, 1.0
    z["jobs"], z["size"] = s.sims[e]["jobs"], s.nodes[e, 0]["capacity"][0]
    m["total"] = s.nodes[e, 0]["capacity"][0]
    q.count[e, 0] = q.count[e, 1] = 0
    return proceed(s, e, c, False)


@inlined
def _masked(c, e, before):
    for i in range(max(before, 1), c.moment[e]["count"]):
        c.mask[e, i] = 1
    for i in range(max(c.moment[e]["count"], 1), before):
        c.mask[e, i] = 0


@kernel
def restart(s, c, plan, e):
    """Begin simulation e with what is planned for it. False if it has no choice to make."""
    before = c.moment[e]["count"]
    refill(s, e, plan)
    more = begin(s, e, c)
    _masked(c, e, before)
    return more


@kernel
def step(s, c, plan, actions, over, again, first, last):
    """Carry out actions[e] (slots) in simulations first .. last - 1 and go on to their next choices.

    over[e]: 0 there is one; 1 the episode has ended (`again`: and the planned one has begun); 2 that one has no choice.
    Simulations that were over before are left alone.
    """
    for e in range(first, last):
        if c.moment[e]["count"] == 0:
            over[e] = 1
            continue
        before = c.moment[e]["count"]
        pick(s, e, c, actions[e])
        over[e] = not proceed(s, e, c, False)
        _masked(c, e, before)
        z, r = c.interval[e], c.report[e]
        r["seconds"], r["waited"], r["slowed"], r["late_bounds"] = z["seconds"], z["waited"], z["slowed"], z["late_bounds"]
        r["ideal"], r["ideal_seconds"], r["used"] = z["ideal"], z["ideal_seconds"], z["used"]
        r["picked_wait"], r["longest_wait"], r["picked_size"] = z["picked_wait"], z["longest_wait"], z["picked_size"]
        r["size"], r["jobs"], r["total"], r["started"] = z["size"], z["jobs"], z["total"], z["started"]
        r["longest"], r["all_waited"], r["over"] = z["longest"], z["all_waited"], z["over"]
        if over[e] and again and not restart(s, c, plan, e):
            over[e] = 2


@kernel
def replay(s, c, actions, first, last):
    """Carry out actions[e] where there is a choice, and go on, to the end of the last job. How many still have one."""
    more = 0
    for e in range(first, last):
        if c.moment[e]["count"] > 0:
            pick(s, e, c, actions[e])
            more += proceed(s, e, c, True)
    return more


@kernel
def begin_all(s, c):
    """Begin all simulations, to the first choice or the end of the last job. How many have a choice."""
    more = 0
    for e in range(len(s.sims)):
        more += begin(s, e, c) or proceed(s, e, c, True)
    return more


@kernel
def resume(s, e, c):
    """Stand at the present instant of simulation e, which was not begun here: a pass over what waits is due."""
    m, z, sim, q = c.moment[e], c.interval[e], s.sims[e], c.running
    m["phase"], m["head"], m["queued"], m["count"] = HEADS, -1, 0, 0
    m["total"], z["size"], z["jobs"] = s.nodes[e, 0]["capacity"][0], s.nodes[e, 0]["capacity"][0], sim["jobs"]
    q.count[e, 0] = q.count[e, 1] = 0
    for i in range(sim["running"]):
        j = s.lists[e, HEAP, i]
        blocks.insert(_running(c, e), s.jobs[e, j]["due"], j, s.jobs[e, j]["request"][0], 0.0)
    j = sim["head"]
    while j >= 0:
        _enter(s, e, c, j)
        if m["sticky"] and not np.isnan(s.jobs[e, j]["reserved"]):
            m["head"], m["place"], m["shadow"] = j, m["queued"] - 1, s.jobs[e, j]["reserved"]
        j = s.truth[e, j]["next"]


@kernel
def within(s, e, c):
    """Go on to the next choice of this instant: True there, False where the pass is over."""
    m = c.moment[e]
    return (m["phase"] == HEADS and _heads(s, e, c)) or (m["phase"] == BEHIND and _behind(s, e, c))

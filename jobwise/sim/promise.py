"""A promise about waits, and an express lane that makes it affordable; for any order on a processor pool.

shadow   a second simulation of the same arrivals under first-come, first-served with EASY, kept up to date event by event. It
         knows how long jobs ran that have ended; of the others it takes the forecast that was made when they came.
         Nothing fails in it.
promise  a job is urgent once it has waited for half of M (a wide one for less, a quarter at least), and `slack` M longer
         than it waits in the shadow, less the time that is needed to make room for it; M: the longest wait in the shadow so
         far, at least half of the longest in the calmest quarter of the past. Urgent jobs go first, in order of submit. Where
         there are some, room is reserved for the first of them, for the next that needs half of the machine, and for the
         first express job that does not fit.
express  jobs whose index (processors E[run] / E[1 / run]) is among the smallest that together made `share` of the work of the
         jobs that ended lately go before urgent ones, in order of index, on half of the machine at most.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from jobwise.cluster import outage_dtype
from jobwise.compiled import inlined, kernel
from jobwise.jobs import STOPPED, SUBMITTED
from jobwise.sim import easy, foresight, pool, ranked
from jobwise.sim.groups import RECENT
from jobwise.sim.memory import index, run_of
from jobwise.sim.reset import believe, go_on
from jobwise.sim.state import HEAP, State

EVERY = 50  # jobs that end between two looks at who is express
HALF = 0.5  # of M that a job must have waited; of the machine that express jobs may hold
LEAD_WORK, LEAD_WIDE, LEAD_ROOM = 0.25, 0.05, 0.25  # of the work whose turn is sooner, of M, of the time until there is room
URGENT, EXPRESS = -1e100, -1e200

memory_dtype = np.dtype(
    [
        ("on", "i1"),
        ("slack", "f8"),  # of M; inf: nothing is promised
        ("share", "f8"),  # of the work, for the express lane
        ("longest", "f8"),  # s, wait in the shadow so far
        ("least", "f8"),  # s, M is at least so much
        ("limit", "f8"),  # log of the largest index in the lane
        ("looked", "f8"),  # jobs that had ended when that was found
        ("held", "i8"),  # processors that express jobs hold
        ("slots", "i8"),  # reservations of this pass
        ("open", "i8"),  # jobs that have not started in the shadow
    ],
    align=True,
)


slot_dtype = np.dtype([("at", "f8"), ("end", "f8"), ("size", "i8"), ("extra", "i8")], align=True)  # a reservation


class Promise(NamedTuple):
    """The shadow of one simulation, and who is express."""

    memory: np.ndarray  # [1] of memory_dtype
    s: State  # the shadow
    p: pool.PoolScheduler
    open: np.ndarray  # [J] rows of those that have not started in the shadow
    lane: np.ndarray  # [J] i1: it started as an express job
    slot: np.ndarray  # [3] of slot_dtype: reservations of this pass


def _nothing() -> Promise:
    """Return a promise that promises nothing and has no lane."""
    s = State.blank()
    p = pool.scheduler(s, 0, None, None, True, np.inf)
    return Promise(np.zeros(1, memory_dtype), s, p, np.zeros(0, np.int32), np.zeros(0, np.int8), np.zeros(3, slot_dtype))


NOTHING = _nothing()


def begin(s: State, e: int, waits: np.ndarray) -> Promise:
    """For simulation e, which has not begun; nothing is promised yet (`adopt`). `waits` [K] s of jobs of the past under
    first-come, first-served with EASY, in order of submit."""
    one = s.one(e)
    shadow = s._replace(**{k: np.copy(a) for k, a in one._asdict().items() if k != "curve"})
    shadow = shadow._replace(outages=np.zeros((1, 0), outage_dtype))
    jobs = shadow.jobs[0]
    jobs["unmet"] = 0
    shadow.truth["children"], shadow.sims["tick"] = 0, 0.0
    shadow.truth["runtime"][0] = np.maximum(jobs["walltime"], 1.0)
    memory = np.zeros(1, memory_dtype)
    memory["on"], memory["slack"], memory["limit"] = 1, np.inf, -np.inf
    quarters = [q.max() for q in np.array_split(waits, 4) if len(q)]
    memory["least"] = 0.5 * min(quarters, default=0.0)
    p = pool.scheduler(shadow, 0, None, None, True, np.inf)
    return Promise(memory, shadow, p, np.zeros(len(jobs), np.int32), np.zeros(len(jobs), np.int8), np.zeros(3, slot_dtype))


def take_over(new: Promise, old: Promise) -> None:
    """The fresh `new`, with room for more jobs, knows and promises what `old` does."""
    J = len(old.open)
    go_on(new.s, old.s)
    new.memory[:], new.open[:J], new.lane[:J] = old.memory, old.open, old.lane
    pool.resume(new.s, 0, new.p)
    new.p.memory[:] = old.p.memory


def adopt(q: Promise, share: float, slack: float) -> None:
    """From now on: `share` of the work for the lane (0: none), `slack` of M (inf: nothing is promised)."""
    m = q.memory[0]
    if m["on"] and (m["share"] != share or m["slack"] != slack):
        m["share"], m["slack"], m["limit"], m["looked"] = share, slack, -np.inf, 0.0


@inlined
def leave(q, j, size):
    """Job j runs no more: the lane has room again."""
    if q.lane[j]:
        q.memory[0]["held"] -= size
        q.lane[j] = 0


@inlined
def ended(q, j, run):
    """Job j has ended after `run` s: the shadow knows it now."""
    believe(q.s, 0, j, run)


@kernel
def come(q, memory, j, now):
    """Job j has come: the shadow takes the forecast for its run time."""
    m = q.memory[0]
    foresight.forecast(memory, memory.of[j], now)
    believe(q.s, 0, j, max(run_of(memory, j), 1.0))
    q.open[m["open"]] = j
    m["open"] += 1


@kernel
def note(q, memory, jobs, events, now):
    """Take note of events [N] of jobs of a table, at `now` (s): the shadow comes to now, and then learns how long jobs ran."""
    for i in range(len(events)):
        if events[i]["kind"] == STOPPED:
            leave(q, events[i]["job"], jobs[events[i]["job"]]["request"][0])
    for i in range(len(events)):
        if events[i]["kind"] == SUBMITTED:
            come(q, memory, events[i]["job"], now)
    catch_up(q, now)
    for i in range(len(events)):
        if events[i]["kind"] == STOPPED and not np.isnan(events[i]["run"]):
            ended(q, events[i]["job"], events[i]["run"])


@kernel
def catch_up(q, now):
    """Let the shadow go on to `now`."""
    m, s, kept = q.memory[0], q.s, 0
    pool.run(s, 0, q.p, 1 << 60, now)
    for i in range(m["open"]):
        j = q.open[i]
        start = s.jobs[0, j]["start"]
        if np.isnan(start):
            q.open[kept] = j
            kept += 1
            m["longest"] = max(m["longest"], now - s.jobs[0, j]["submit"])
        else:
            m["longest"] = max(m["longest"], start - s.jobs[0, j]["submit"])
    m["open"] = kept


@kernel
def look(q, memory):
    """Find the largest index of the lane anew, where enough jobs have ended since."""
    m = q.memory[0]
    if m["share"] <= 0.0 or memory.ended[0] < m["looked"] + EVERY:
        return
    m["looked"] = memory.ended[0]
    n, total, low, high = min(np.int64(memory.ended[0]), RECENT), 0.0, np.inf, -np.inf
    for i in range(n):
        total += memory.recent[i, 1]
        low, high = min(low, memory.recent[i, 0]), max(high, memory.recent[i, 0])
    for _ in range(30):
        middle, work = 0.5 * (low + high), 0.0
        for i in range(n):
            if memory.recent[i, 0] <= middle:
                work += memory.recent[i, 1]
        if work <= m["share"] * total:
            low = middle
        else:
            high = middle
    m["limit"] = low


@kernel
def _free_at(s, e, memory, need, now):
    """s until so many processors more are free, by predicted ends: the forecast, once that is over 1.5 times what a job has
    run, at most its request."""
    low, high = 0.0, 0.0
    for i in range(s.sims[e]["running"]):
        high = max(high, s.jobs[e, s.lists[e, HEAP, i]]["due"] - now)
    for _ in range(16):
        middle, got = 0.5 * (low + high), 0
        for i in range(s.sims[e]["running"]):
            j = s.lists[e, HEAP, i]
            ran, cell = now - memory.began[j], memory.cell[memory.of[j]]
            if min(max(run_of(memory, j), 1.5 * ran + 60.0), max(cell["request"], ran)) - ran <= middle:
                got += s.jobs[e, j]["request"][0]
        if got >= need:
            high = middle
        else:
            low = middle
    return high


@inlined
def _sooner(first, second):
    return first["deadline"] < second["deadline"] or (first["deadline"] == second["deadline"] and first["row"] < second["row"])


@kernel
def urgency(q, memory, s, e, item, count):
    """Find who is urgent among the queue: with the time that is needed to make room for it and for those whose turn is sooner.
    How many are."""
    m, now, total = q.memory[0], s.sims[e]["now"], np.float64(memory.total[0])
    free, urgent, work = s.nodes[e, 0]["free"][0], 0, 0.0
    longest = max(m["longest"], m["least"])
    for i in range(count):
        x = item[i]
        begun = q.s.jobs[0, x["row"]]["start"]
        x["deadline"] = np.inf if np.isnan(begun) else max(begun + m["slack"] * longest, x["submit"] + HALF * longest)
    last = len(item) - 1  # room for one
    for i in range(1, count):  # nearly in order already
        k = i
        if _sooner(item[i], item[i - 1]):
            item[last] = item[i]
            while k > 0 and _sooner(item[last], item[k - 1]):
                item[k] = item[k - 1]
                k -= 1
            item[k] = item[last]
    for i in range(count):
        x = item[i]
        if x["deadline"] == np.inf or m["slack"] == np.inf:
            break
        n, w = np.float64(x["size"]), now - x["submit"]
        due, least = q.s.jobs[0, x["row"]]["start"] + m["slack"] * longest, HALF * longest * (1.0 - 0.5 * n / total)
        lead = LEAD_WORK * work / total + LEAD_WIDE * longest * n / total
        soon = now + lead + longest > due and w + lead + longest > least
        if n > free and soon and not (now + lead > due and w + lead > least):
            lead += min(LEAD_ROOM * _free_at(s, e, memory, x["size"] - free, now), longest)
        if now + lead > due and w + lead > least and x["score"] > -np.inf:
            x["plain"] = URGENT * (1e12 - x["submit"])
            if not is_express(x["score"]):
                x["score"] = x["plain"]
            urgent += 1
        if not is_express(x["score"]):
            work += n * run_of(memory, x["row"])
    return urgent


@inlined
def express(q, memory, j, size, score):
    """The score of job j of the queue: as an express one, or as it is."""
    m = q.memory[0]
    if m["share"] > 0.0:
        x = index(memory, memory.of[j])
        if x <= m["limit"] and fits_lane(q, memory, size):
            return EXPRESS * (1000.0 - x)
    return score


@inlined
def fits_lane(q, memory, size):
    """Is there room in the lane?"""
    return q.memory[0]["held"] + size <= HALF * memory.total[0]


@inlined
def is_express(score):
    """Is this the score of an express job?"""
    return -np.inf < score <= EXPRESS


@kernel
def reserve(q, running, size, estimate, free, now):
    """Another reservation: when so many processors are free beside those that are reserved, by requests."""
    m, need = q.memory[0], size
    t, got = ranked.shadow(running, need, free, now)
    for _ in range(3):  # what else is reserved then
        need = size
        for k in range(m["slots"]):
            if q.slot[k]["end"] > t:
                need += q.slot[k]["size"]
        t, got = ranked.shadow(running, need, free, now)
    x = q.slot[m["slots"]]
    x["at"], x["end"], x["size"], x["extra"] = t, t + estimate, size, easy.beside(t, got, need)
    m["slots"] += 1


@inlined
def may_start(q, size, end, free):
    """May a job start now that would end at `end`? It fits, and delays no reservation."""
    if size > free:
        return False
    for k in range(q.memory[0]["slots"]):
        if not easy.may_start(size, end, free, q.slot[k]["at"], q.slot[k]["extra"]):
            return False
    return True


@inlined
def charge(q, size, end):
    """Take off the reservations what a starting job uses of them."""
    for k in range(q.memory[0]["slots"]):
        q.slot[k]["extra"] = easy.charge(size, end, q.slot[k]["at"], q.slot[k]["extra"])


@inlined
def started(q, j, size, score):
    """Job j starts, with this score."""
    if is_express(score):
        q.lane[j] = 1
        q.memory[0]["held"] += size

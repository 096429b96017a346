"""Start deadlines, and a short-job lane that makes them affordable; for any order on a processor pool.

virtual  a second simulation of the same arrivals under first-come, first-served with EASY, kept up to date event by event. It
         uses the run times of ended jobs, and for other jobs the forecast made at their submit.
         Nothing fails in it.
bound    of a job: the longest wait in the virtual schedule of all jobs that were submitted up to it, foreseen for those that
         still wait there; at least the longest of the calmest quarter of the past, and ten minutes.
deadline of each job: its submit plus a fixed multiple of its bound. `promised_pass.py` keeps deadlines.
express  jobs whose index (processors E[run] / E[1 / run]) is among the smallest that together made `share` of the work of the
         jobs that ended lately go before others, in order of index, on half of the machine at most.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from jobwise.cluster import outage_dtype
from jobwise.compiled import inlined, kernel
from jobwise.jobs import CANCELLED, STOPPED, SUBMITTED
from jobwise.sim.lists import easy, ranked
from jobwise.sim.memory.groups import RECENT
from jobwise.sim.memory.memory import forecast, index, run_of
from jobwise.sim.pool import deadlines, pool
from jobwise.sim.reset import believe, go_on
from jobwise.sim.state import HEAP, State

EVERY = 50  # jobs that end between two looks at who is express
HALF = 0.5  # of the machine that express jobs may hold
LEAST = 600.0  # s: a bound is at least so long
RESERVED = 2  # reservations of a pass
URGENT, EXPRESS = -1e100, -1e200

memory_dtype = np.dtype(
    [
        ("on", "i1"),
        ("slack", "f8"),  # a deadline is 1 + slack times the bound after the submit; inf: nothing is promised
        ("share", "f8"),  # of the work, for the express lane
        ("longest", "f8"),  # s, the bound of the job that came last
        ("least", "f8"),  # s, bounds are at least so long
        ("limit", "f8"),  # log of the largest index in the lane
        ("looked", "f8"),  # jobs that had ended when that was found
        ("held", "i8"),  # processors that express jobs hold
        ("slots", "i8"),  # reservations of this pass
        ("known", "i8"),  # rows before this one have started in the virtual schedule: their bounds are final
        ("bounded", "i8"),  # rows before this one have a bound
        ("renewed", "f8"),  # s, when the plan was made; -inf: never
        ("room", "f8"),  # s by which jobs may still go ahead of order without another look at the plan
        ("soft_room", "f8"),  # s, express jobs
    ],
    align=True,
)


due_dtype = np.dtype(
    [
        ("bound", "f8"),  # s, the longest wait in the virtual schedule of jobs up to this one
        ("deadline", "f8"),  # s
        ("planned", "f8"),  # s, its start in the plan
        ("anchor", "f8"),  # s, its planned start when that came near its deadline; NaN: it has not
        ("limit", "f8"),  # s, how late others that go ahead of it may make its planned start
        ("soft", "f8"),  # s, express jobs
        ("urgent", "i1"),
    ],
    align=True,
)
slot_dtype = np.dtype([("at", "f8"), ("end", "f8"), ("size", "i8"), ("extra", "i8")], align=True)  # a reservation


class Promise(NamedTuple):
    """The virtual schedule beside one simulation, bounds and plan of its jobs, and who is express."""

    memory: np.ndarray  # [1] of memory_dtype
    s: State  # the virtual schedule
    p: pool.PoolScheduler
    due: np.ndarray  # [J] of due_dtype: bounds, deadlines and the plan
    lane: np.ndarray  # [J] i1: it started as an express job
    slot: np.ndarray  # [RESERVED] of slot_dtype: reservations of this pass
    steps: deadlines.StepFunction


def _nothing() -> Promise:
    """Return a `Promise` without start deadlines and without a lane."""
    s = State.blank()
    p = pool.scheduler(s, 0, None, None, True, np.inf)
    return _around(np.zeros(1, memory_dtype), s, p, 0)


def _around(memory: np.ndarray, s: State, p: pool.PoolScheduler, jobs: int) -> Promise:
    """Return a virtual schedule with fresh tables for `jobs` jobs."""
    due = np.zeros(jobs, due_dtype)
    due["anchor"] = np.nan
    for name in ("deadline", "planned", "limit", "soft"):
        due[name] = np.inf
    return Promise(memory, s, p, due, np.zeros(jobs, np.int8), np.zeros(RESERVED, slot_dtype), deadlines.room_for(jobs))


NOTHING = _nothing()


def begin(s: State, e: int, waits: np.ndarray, share: float, slack: float) -> Promise:
    """For simulation e, which has not begun: `share` of the work for the lane (0: none), deadlines 1 + `slack` bounds after the
    submit (inf: none). `waits` [K] s of jobs of the past under first-come, first-served with EASY, in order of submit."""
    one = s.one(e)
    shadow = s._replace(**{k: np.copy(a) for k, a in one._asdict().items() if k != "curve"})
    shadow = shadow._replace(outages=np.zeros((1, 0), outage_dtype))
    jobs = shadow.jobs[0]
    jobs["unmet"] = 0
    shadow.truth["children"], shadow.sims["tick"] = 0, 0.0
    shadow.truth["runtime"][0] = np.maximum(jobs["walltime"], 1.0)
    memory = np.zeros(1, memory_dtype)
    memory["on"], memory["share"], memory["slack"], memory["limit"] = 1, share, slack, -np.inf
    quarters = [q.max() for q in np.array_split(waits, 4) if len(q)]
    memory["least"] = min(quarters, default=0.0)
    memory["renewed"] = -np.inf
    return _around(memory, shadow, pool.scheduler(shadow, 0, None, None, True, np.inf), len(jobs))


def take_over(new: Promise, old: Promise) -> None:
    """Copy the state and the start deadlines of `old` into the fresh `new`, which has room for more jobs."""
    J = len(old.lane)
    go_on(new.s, old.s)
    new.memory[:] = old.memory
    new.due[:J], new.lane[:J] = old.due, old.lane
    pool.resume(new.s, 0, new.p)
    new.p.memory[:] = old.p.memory


@inlined
def leave(q, j, size):
    """Job j runs no more: the lane has room again."""
    if q.lane[j]:
        q.memory[0]["held"] -= size
        q.lane[j] = 0


@inlined
def ended(q, j, run):
    """Job j has ended after `run` s: the virtual schedule knows it now."""
    believe(q.s, 0, j, run)


@kernel
def come(q, memory, j, now):
    """Job j has come: the virtual schedule takes the forecast for its run time."""
    forecast(memory, memory.of[j], now)
    believe(q.s, 0, j, max(run_of(memory, j), 1.0))


@kernel
def note(q, memory, jobs, events, now):
    """Take note of events [N] of jobs of a table, at `now` (s): the virtual schedule comes to now, then learns how long jobs
    ran; of one that was cancelled, that it takes no time."""
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
        elif events[i]["kind"] == CANCELLED:
            ended(q, events[i]["job"], 0.0)


@kernel
def catch_up(q, now):
    """Let the virtual schedule go on to `now`."""
    pool.run(q.s, 0, q.p, 1 << 60, now)


@kernel
def foresee(q, now):
    """Bring the bounds of all jobs up to date: what waits in the virtual schedule is planned there, in order of submit."""
    m, s = q.memory[0], q.s
    size = deadlines.of_ends(
        q.steps, s.jobs[0], s.truth[0]["finish"], s.lists[0, HEAP], s.sims[0]["running"], s.nodes[0, 0]["free"][0], now
    )
    size, final = deadlines.copied(q.steps, size), True
    longest = q.due[m["known"] - 1]["bound"] if m["known"] > 0 else max(m["least"], LEAST)
    for j in range(m["known"], s.sims[0]["next"]):
        job = s.jobs[0, j]
        at = job["start"]
        if np.isnan(at):
            final = False
            at, size = deadlines.place(q.steps, size, job["request"][0], s.truth[0, j]["runtime"])
        longest = max(longest, at - job["submit"])
        q.due[j]["bound"] = longest
        if final:
            m["known"] = j + 1
    m["longest"], m["bounded"] = longest, s.sims[0]["next"]


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
    """Reserve `size` processors for `estimate` s, from the time when they are free by requests beside earlier reservations.

    The search runs three times: an earlier reservation that ends after the start found so far is in the way, and moves it.
    """
    need = size
    start, there = ranked.shadow(running, need, free, now)
    for _ in range(3):
        need = size
        for k in range(q.memory[0]["slots"]):
            if q.slot[k]["end"] > start:
                need += q.slot[k]["size"]
        start, there = ranked.shadow(running, need, free, now)
    slot = q.slot[q.memory[0]["slots"]]
    slot["at"], slot["end"], slot["size"], slot["extra"] = start, start + estimate, size, easy.beside(start, there, need)
    q.memory[0]["slots"] += 1


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

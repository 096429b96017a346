"""A promise about waits, and an express lane that makes it affordable; for any order on a processor pool.

shadow   a second simulation of the same arrivals under first-come, first-served with EASY, kept up to date event by event. It
         knows how long jobs ran that have ended; of the others it takes the forecast that was made when they came.
promise  a job is urgent once it has waited for half of M, and `slack` M longer than it waits in the shadow; M: the longest
         wait in the shadow so far, at least half of the longest in the calmest quarter of the past. Urgent jobs go first, in
         order of submit.
express  jobs whose index (processors E[run] / E[1 / run]) is among the smallest that together made `share` of the work of the
         jobs that ended lately go before urgent ones, in order of index, on half of the machine at most.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from jobwise.cluster import outage_dtype
from jobwise.jobs import job_dtype, truth_dtype
from jobwise.sim import campaign, pool
from jobwise.sim.campaign import RECENT
from jobwise.sim.compiled import inlined, kernel
from jobwise.sim.reset import believe
from jobwise.sim.state import State, link_dtype, node_dtype, sim_dtype, slice_dtype

EVERY = 50  # jobs that end between two looks at who is express
HALF = 0.5  # of M that a job must have waited; of the machine that express jobs may hold
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
        ("open", "i8"),  # jobs that have not started in the shadow
    ],
    align=True,
)


class Promise(NamedTuple):
    """The shadow of one simulation, and who is express."""

    memory: np.ndarray  # [1] of memory_dtype
    s: State  # the shadow
    p: pool.PoolScheduler
    open: np.ndarray  # [J] rows of those that have not started in the shadow
    lane: np.ndarray  # [J] i1: it started as an express job


def _nothing() -> Promise:
    """Without promise and lane."""
    none = np.zeros(1, sim_dtype), np.zeros((1, 1), job_dtype(1)), np.zeros((1, 1), truth_dtype), np.zeros((1, 3, 1), np.int32)
    s = State(
        *none,
        np.zeros((1, 1), node_dtype(1)),
        np.zeros((1, 1), slice_dtype(1)),
        np.zeros((1, 1), np.int32),
        np.zeros((1, 1), link_dtype),
        np.ones((1, 1, 1)),
        np.zeros((1, 0), outage_dtype),
        np.zeros((1, 0, 1)),
        np.zeros((1, 3)),
    )
    p = pool.scheduler(s, 0, None, None, True, np.inf)
    return Promise(np.zeros(1, memory_dtype), s, p, np.zeros(0, np.int32), np.zeros(0, np.int8))


NOTHING = _nothing()


def begin(s: State, e: int, waits: np.ndarray, share: float, slack: float) -> Promise:
    """For simulation e, which has not begun. `waits` [K] s of jobs of the past under first-come, first-served with EASY, in
    order of submit; `share` of the lane (0: none); `slack` (inf: none)."""
    shadow = State(*(np.copy(a[e : e + 1]) for a in s[:-1]), s[-1])
    jobs = shadow.jobs[0]
    jobs["unmet"] = 0
    shadow.truth["children"], shadow.sims["on_failure"] = 0, s.sims["on_failure"][e]
    shadow.truth["runtime"][0] = np.maximum(jobs["walltime"], 1.0)
    memory = np.zeros(1, memory_dtype)
    memory["on"], memory["slack"], memory["share"], memory["limit"] = 1, slack, share, -np.inf
    quarters = [q.max() for q in np.array_split(waits, 4) if len(q)]
    memory["least"] = 0.5 * min(quarters, default=0.0)
    p = pool.scheduler(shadow, 0, None, None, True, np.inf)
    return Promise(memory, shadow, p, np.zeros(len(jobs), np.int32), np.zeros(len(jobs), np.int8))


@kernel
def ended(q, j, run, size):
    """Job j has ended after `run` s: the shadow knows it now."""
    m, s = q.memory[0], q.s
    if q.lane[j]:
        m["held"] -= size
        q.lane[j] = 0
    believe(s, 0, j, run)


@kernel
def come(q, c, j, now):
    """Job j has come: the shadow takes the forecast for its run time."""
    m, k = q.memory[0], c.of[j]
    campaign.forecast(c, k, now)
    believe(q.s, 0, j, max(campaign.told(c, k)[0] * c.cell[k]["request"], 1.0))
    q.open[m["open"]] = j
    m["open"] += 1


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
def look(q, c):
    """Find the largest index of the lane anew, where enough jobs have ended since."""
    m = q.memory[0]
    if m["share"] <= 0.0 or c.ended[0] < m["looked"] + EVERY:
        return
    m["looked"] = c.ended[0]
    n, total, low, high = min(np.int64(c.ended[0]), RECENT), 0.0, np.inf, -np.inf
    for i in range(n):
        total += c.recent[i, 1]
        low, high = min(low, c.recent[i, 0]), max(high, c.recent[i, 0])
    for _ in range(30):
        middle, work = 0.5 * (low + high), 0.0
        for i in range(n):
            if c.recent[i, 0] <= middle:
                work += c.recent[i, 1]
        if work <= m["share"] * total:
            low = middle
        else:
            high = middle
    m["limit"] = low


@inlined
def index(c, k):
    """The log of processors E[run] / E[1 / max(run, 10)] of the jobs of cell k."""
    ratio, short = campaign.told(c, k)
    return np.log(c.cell[k]["size"] * ratio * c.cell[k]["request"] / short)


@inlined
def urgent(q, j, now, submit, score):
    """The score of job j of the queue: as an urgent one, or as it is."""
    m, start = q.memory[0], q.s.jobs[0, j]["start"]
    longest = max(m["longest"], m["least"])
    if not np.isnan(start) and now > start + m["slack"] * longest and now - submit > HALF * longest:
        return URGENT * (1e12 - submit)
    return score


@inlined
def express(q, c, j, size, score):
    """The score of job j of the queue: as an express one, or as it is."""
    m = q.memory[0]
    if m["share"] > 0.0:
        x = index(c, c.of[j])
        if x <= m["limit"] and fits_lane(q, c, size):
            return EXPRESS * (1000.0 - x)
    return score


@inlined
def fits_lane(q, c, size):
    """Is there room in the lane?"""
    return q.memory[0]["held"] + size <= HALF * c.total[0]


@inlined
def is_express(score):
    """Is this the score of an express job?"""
    return -np.inf < score <= EXPRESS


@inlined
def started(q, j, size, score):
    """Job j starts, with this score."""
    if is_express(score):
        q.lane[j] = 1
        q.memory[0]["held"] += size

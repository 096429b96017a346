"""One scheduling pass: given the queue, its scores and what is free, which jobs start now and where.

A pure function of tables: the compiled loop applies what it returns to a simulation, `ListScheduler.decide` returns it
as decisions from any view, also one that was read from a live cluster.

EASY (Mu'alem & Feitelson 2001): heads start while they fit; the first that does not is the only reservation, at the
shadow time (`shadow.py`); the others start if they fit now and either end by then or leave the head's share alone. On several
nodes or resources "leave alone" is tested on the units that are free at the shadow time.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from jobwise.compiled import allocating, inlined, kernel
from jobwise.sim.lists import orders as sc
from jobwise.sim.lists.easy import overdue
from jobwise.sim.lists.flows import Flows, score_flows
from jobwise.sim.lists.placement import fits_on, place_on, placed_by
from jobwise.sim.lists.resource_orders import score_drf, score_tetris
from jobwise.sim.lists.shadow import back, is_pool, leaves_head, length, shadow_time
from jobwise.sim.power import add, may_add, pencil
from jobwise.sim.spans import Spans

NONE, EASY, EASY_SJBF, EASY_ORACLE, GREEDY, CONSERVATIVE, SLURM = range(7)


REQUESTED, PREDICTED, ACTUAL = range(3)


class Rule(NamedTuple):
    """A list scheduler as numbers for the kernels."""

    order: int
    backfill: int
    placement: int
    guard: float  # s; inf without
    commit: bool  # a picked job stays picked until it starts
    estimate: int = 0  # what the order takes a job's run time to be: REQUESTED, PREDICTED, ACTUAL
    reserve: float = 0.0  # share of the units that jobs of more than `short` s may not hold
    short: float = np.inf
    express: float = 0.0  # share of the work that the express lane takes (`promise.py`)
    slack: float = np.inf  # of the promise
    quantum: float = 0.0  # s for which a first trial run is left alone (`pool/trials.py`); 0: there are none
    kept: float = 0.0  # share of the processors that starts leave to trial runs
    shift: float = 0.0  # s that a job may be held for cheaper hours


class Instant(NamedTuple):
    """The input of a pass: one instant of a simulation, or of a live cluster."""

    now: float  # s
    origin: float  # s, trace time of time 0
    seed: np.uint64
    jobs: np.ndarray  # [J] of job_dtype
    est: np.ndarray  # [J] s, how long jobs are expected to run; empty: as they request
    queue: np.ndarray  # [Q] rows
    score: np.ndarray  # [Q] the scores where the rule's order is GIVEN, else room for them
    running: np.ndarray  # [K] rows
    due: np.ndarray  # [K] s, their estimated ends
    free: Spans  # a pass uses them up
    later: Spans  # room for as many
    units: np.ndarray  # [R] of the whole cluster
    flows: Flows
    steps: np.ndarray  # [K] of `power.step_dtype`; a pass counts its starts in them, and takes them out again
    step: int  # the present one


class Plan(NamedTuple):
    """The decisions of a pass: starts with their placements, and reservations."""

    row: np.ndarray  # [Q] rows to start
    first: np.ndarray  # [Q + 1] placement of start i: first[i] .. first[i + 1]
    node: np.ndarray  # [S]
    more: np.ndarray  # [S] nodes behind it that give as much
    amount: np.ndarray  # [S, R] of each of them
    promised: np.ndarray  # [Q] rows that get a reservation
    at: np.ndarray  # [Q] s
    count: np.ndarray  # type: ignore[assignment] # [2] starts, reservations


def blank(jobs: int, nodes: int, resources: int) -> Plan:
    """Room for the plan of a pass over `jobs` queued jobs."""
    room = 1 if nodes == 1 and resources == 1 else min(jobs * nodes, 1 << 22)
    return Plan(
        np.empty(jobs, np.int32),
        np.zeros(jobs + 1, np.int64),
        np.empty(room, np.int32),
        np.empty(room, np.int32),
        np.empty((room, resources), np.int64),
        np.empty(jobs, np.int32),
        np.empty(jobs),
        np.zeros(2, np.int64),
    )


@inlined
def _take_pool(spans, units):
    spans.free[0, 0] -= units
    spans.total[0] -= units


@allocating
def take(p, rule, x, j):
    """Add the start of job j to the plan, its units taken from what is free, what it draws from the cap."""
    i, free, jobs = p.count[0], x.free, x.jobs
    add(x.steps, x.step, jobs[j]["draw"], x.now + length(jobs, x.est, j))
    at, request = p.first[i], jobs[j]["request"]
    if is_pool(free):
        _take_pool(free, request[0])
        k = 0
    else:
        code = placed_by(rule.placement, jobs[j]["kind"])
        k = place_on(code, free, request, jobs[j]["chunks"], p.node[at:], p.more[at:], p.amount[at:])
    p.row[i] = j
    p.first[i + 1] = at + k
    p.count[0] += 1


@kernel
def promise(p, j, at):
    """Add a reservation to the plan."""
    p.promised[p.count[1]], p.at[p.count[1]] = j, at
    p.count[1] += 1


@allocating
def score_again(rule, x, p):
    """Scores of an Instant x that change with every start of the plan; jobs that have waited beyond the guard get -inf."""
    if rule.order == sc.Order.DRF:
        score_drf(x.jobs, x.queue, x.running, p.row[: p.count[0]], x.units, x.score)
    elif rule.order == sc.Order.TETRIS:
        score_tetris(x.jobs, x.queue, x.free.total, x.units, x.score)
    elif rule.order in sc.FLOWS and (p.count[0] == 0 or rule.order == sc.Order.FLOW_SHARE):
        score_flows(rule.order, x.flows, x.jobs, x.queue, x.running, p.row[: p.count[0]], x.units[0], x.score)
    if rule.guard < np.inf:
        for i in range(len(x.queue)):
            if overdue(x.now, x.jobs[x.queue[i]]["submit"], rule.guard):
                x.score[i] = -np.inf


@kernel
def first_of(queue, score, waiting):
    """Index of the smallest (score, row) among the waiting; -1 if none."""
    best = -1
    for i in range(len(queue)):
        if waiting[i] and (best < 0 or score[i] < score[best] or (score[i] == score[best] and queue[i] < queue[best])):
            best = i
    return best


@inlined
def _fits(x, j):
    job = x.jobs[j]
    if not fits_on(x.free, job["request"], job["chunks"]):
        return False
    return len(x.steps) == 0 or may_add(x.steps, x.step, job["draw"], x.now + length(x.jobs, x.est, j))


@kernel
def _undo(p, x, j):
    """Take the last start out of the plan again."""
    free, jobs = x.free, x.jobs
    p.count[0] -= 1
    add(x.steps, x.step, -jobs[j]["draw"], x.now + length(jobs, x.est, j))
    if is_pool(free):
        _take_pool(free, -jobs[j]["request"][0])
    back(p, p.count[0], free, 1)


@kernel
def _held_long(rule, jobs, rows):
    """Units that jobs hold which the reserve is not for."""
    held = 0
    for j in rows:
        if jobs[j]["walltime"] > rule.short:
            held += jobs[j]["request"][0]
    return held


@kernel
def _keepback(rule, jobs, queue, held, most, waiting):
    """Leave waiting only long jobs that take nothing of the reserve; one alone always may. `held` only grows in a pass."""
    for i in range(len(queue) if rule.reserve > 0 else 0):
        job = jobs[queue[i]]
        if waiting[i] and job["walltime"] > rule.short and held > 0 and held + job["request"][0] > most:
            waiting[i] = False


@kernel
def _picked(jobs, queue):
    for i in range(len(queue)):
        if not np.isnan(jobs[queue[i]]["reserved"]):
            return i
    return -1


@kernel
def _any_fits(x):
    for j in x.queue:
        if _fits(x, j):
            return True
    return False


@kernel
def _candidates(rule, x, t, extra, more, waiting):
    """Leave waiting only those that may start behind the reservation (t, extra, mW), which only shrinks from here."""
    now, jobs, est, queue, score = x.now, x.jobs, x.est, x.queue, x.score
    for i in range(len(queue)):
        if not waiting[i]:
            continue
        job = jobs[queue[i]]
        ok = _fits(x, queue[i])
        if ok and rule.backfill == GREEDY:
            ok = now + length(jobs, est, queue[i]) < t
        elif ok and now + length(jobs, est, queue[i]) > t:
            ok = len(x.steps) == 0 or job["draw"] <= more
            for r in range(len(extra)):
                ok = ok and job["request"][r] <= extra[r]
        waiting[i] = ok
        if rule.backfill == GREEDY:
            score[i] = queue[i]
        elif rule.backfill == EASY_SJBF and score[i] != -np.inf:
            score[i] = length(jobs, est, queue[i])


@allocating
def plan_pass(rule, x, slices, p):
    """Decide one pass of any list scheduler but conservative from the Instant x; the plan `p` is filled, `x.free` is used up.

    `slices` [S]: who holds what where. A reserved row in the queue is the picked one of a committing scheduler.
    """
    head, t = _planned(rule, x, slices, p)
    if len(x.steps):
        give_back(x, p)
        if head >= 0:
            pencil(x.steps, x.step, t, -x.jobs[head]["draw"], length(x.jobs, x.est, head))


@kernel
def give_back(x, p):
    """Take what the starts of the plan draw out of the steps again: who carries it out counts them."""
    for i in range(p.count[0]):
        add(x.steps, x.step, -x.jobs[p.row[i]]["draw"], x.now + length(x.jobs, x.est, p.row[i]))


@allocating
def _planned(rule, x, slices, p):
    """Fill the plan. Return (the job that has the reservation, its time); -1: there is none."""
    now, jobs, est, queue, score, free = x.now, x.jobs, x.est, x.queue, x.score, x.free
    nobody = np.int32(-1), np.inf
    p.count[:] = 0
    n = len(queue)
    picked = _picked(jobs, queue) if rule.commit else -1
    if not _any_fits(x) and (picked >= 0 or not rule.commit or n == 0):
        return nobody
    waiting = np.ones(n, np.bool_)
    if rule.order >= 0:
        sc.score_rows(rule.order, now, x.origin, x.seed, jobs, queue, score)
    score_again(rule, x, p)
    head, promised = -1, np.nan
    held, most = _held_long(rule, jobs, x.running), (1.0 - rule.reserve) * x.units[0]
    _keepback(rule, jobs, queue, held, most, waiting)
    while True:
        head = picked if picked >= 0 else first_of(queue, score, waiting)
        if head < 0:
            return nobody
        j = queue[head]
        if not _fits(x, j):
            promised = jobs[j]["reserved"] if picked >= 0 else np.nan
            break
        take(p, rule, x, j)
        waiting[head] = False
        picked = -1
        if jobs[j]["walltime"] > rule.short:
            held += jobs[j]["request"][0]
            _keepback(rule, jobs, queue, held, most, waiting)
        score_again(rule, x, p)
    if rule.backfill == NONE:
        if rule.commit and np.isnan(promised):
            promise(p, queue[head], now)
        return nobody
    j = queue[head]
    shadow = shadow_time(x, p, j, slices)
    t, sure, exact, before = shadow.time, shadow.sure, shadow.exact, p.count[0]
    if rule.commit and np.isnan(promised):
        promise(p, j, t)
        promised = t
    if rule.backfill == GREEDY and rule.commit:
        t = promised  # RLScheduler computes it once
    loose = jobs[j]["chunks"] == 0 or is_pool(free)
    extra, more = shadow.total - jobs[j]["request"], shadow.more
    if len(x.steps):
        pencil(x.steps, x.step, shadow.time, jobs[j]["draw"], length(jobs, est, j))
    waiting[head] = False
    _candidates(rule, x, t, extra, more, waiting)
    while True:
        i = first_of(queue, score, waiting)
        if i < 0:
            return j, shadow.time
        c = queue[i]
        waiting[i] = False
        if not _fits(x, c):
            continue
        late = now + length(jobs, est, c) > t
        if late:
            ok = len(x.steps) == 0 or jobs[c]["draw"] <= more
            for r in range(len(extra)):
                ok = ok and jobs[c]["request"][r] <= extra[r]
            if not ok:
                continue
        take(p, rule, x, c)
        if late:
            more -= jobs[c]["draw"]
            if not loose:
                ok, sure, exact = leaves_head(x, p, before, shadow, sure, exact, jobs[j], slices)
                if not ok:
                    _undo(p, x, c)
                    more += jobs[c]["draw"]
                    continue
            for r in range(len(extra)):
                extra[r] -= jobs[c]["request"][r]
        if jobs[c]["walltime"] > rule.short:
            held += jobs[c]["request"][0]
            _keepback(rule, jobs, queue, held, most, waiting)
        if rule.backfill == EASY or rule.backfill == EASY_ORACLE:
            score_again(rule, x, p)

"""One scheduling pass: given the queue, its scores and what is free, which jobs start now and where.

A pure function of tables: the compiled loop applies what it returns to a simulation, `ListScheduler.decide` returns it
as decisions from any view, also one that was read from a live cluster.

EASY (Mu'alem & Feitelson 2001): heads start while they fit; the first that does not is the only reservation, at the
shadow time; the others start if they fit now and either end by then or leave the head's share alone. On several nodes or
resources "leave alone" is tested on the units that are free at the shadow time.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from jobwise.compiled import allocating, kernel
from jobwise.sim import orders as sc
from jobwise.sim.easy import overdue
from jobwise.sim.flows import Flows, score_flows
from jobwise.sim.placement import fits, place, placed_by
from jobwise.sim.rates import expected
from jobwise.sim.resource_orders import score_drf, score_tetris

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
    foreseen: bool = False  # the order goes by the forecasts of a forest


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
    free: np.ndarray  # [N, R] units; a pass uses them up
    capacity: np.ndarray  # [N, R] units
    flows: Flows


class Plan(NamedTuple):
    """The decisions of a pass: starts with their placements, and reservations."""

    row: np.ndarray  # [Q] rows to start
    first: np.ndarray  # [Q + 1] placement of start i: first[i] .. first[i + 1]
    node: np.ndarray  # [S]
    amount: np.ndarray  # [S, R]
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
        np.empty((room, resources), np.int64),
        np.empty(jobs, np.int32),
        np.empty(jobs),
        np.zeros(2, np.int64),
    )


@kernel
def length(jobs, est, j):
    """Expected run of job j if it started now (s): its estimate less what has run already, at least 1."""
    return expected(jobs[j]) if len(est) == 0 else max(max(est[j], 1.0) - jobs[j]["ran"], 1.0)


@allocating
def take(p, rule, free, capacity, jobs, j):
    """Add the start of job j to the plan, its units taken from `free`."""
    i = p.count[0]
    at = p.first[i]
    if free.size == 1:
        free[0, 0] -= jobs[j]["request"][0]
        k = 0
    else:
        code = placed_by(rule.placement, jobs[j]["kind"])
        k = place(code, free, capacity, jobs[j]["request"], jobs[j]["chunks"], p.node[at:], p.amount[at:])
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
        score_drf(x.jobs, x.queue, x.running, p.row[: p.count[0]], x.capacity, x.score)
    elif rule.order == sc.Order.TETRIS:
        score_tetris(x.jobs, x.queue, x.free, x.capacity, x.score)
    elif rule.order in sc.FLOWS and (p.count[0] == 0 or rule.order == sc.Order.FLOW_SHARE):
        started, units = p.row[: p.count[0]], x.capacity[:, 0].sum()
        score_flows(rule.order, x.flows, x.jobs, x.queue, x.running, started, units, x.score)
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


@kernel
def _fits(free, job):
    if free.size == 1 and job["chunks"] == 0:
        return job["request"][0] <= free[0, 0]
    return fits(free, job["request"], job["chunks"])


@kernel
def _give_back(jobs, slices, j, free):
    if free.size == 1:
        free[0, 0] += jobs[j]["request"][0]
        return
    at = jobs[j]["held"]
    while at >= 0:
        for r in range(free.shape[1]):
            free[slices[at]["node"], r] += slices[at]["amount"][r]
        at = slices[at]["next"]


@allocating
def shadow_time(x, p, head, slices, free):
    """T: first instant at which `head` fits by the estimates. `free` [N, R] becomes what is free then, head not placed.

    x.due[i] is the estimated end of x.running[i]; the jobs of plan `p` started now and end after their estimates.
    """
    now, jobs, running, due, started = x.now, x.jobs, x.running, x.due, p.row[: p.count[0]]
    k, n = len(running), len(started)
    ends = np.empty(k + n)
    for i in range(k):
        ends[i] = max(due[i], now)
    for i in range(n):
        ends[k + i] = now + length(jobs, x.est, started[i])
    order = np.argsort(ends, kind="mergesort")
    i = 0
    while i < k + n:
        t = ends[order[i]]
        while i < k + n and ends[order[i]] == t:
            which = order[i]
            if which < k:
                _give_back(jobs, slices, running[which], free)
            elif free.size == 1:
                free[0, 0] += jobs[started[which - k]]["request"][0]
            else:
                for a in range(p.first[which - k], p.first[which - k + 1]):
                    for r in range(free.shape[1]):
                        free[p.node[a], r] += p.amount[a, r]
            i += 1
        if _fits(free, jobs[head]):
            return t
    return np.inf


@kernel
def _undo(p, free, j, jobs):
    """Take the last start out of the plan again."""
    p.count[0] -= 1
    i = p.count[0]
    if free.size == 1:
        free[0, 0] += jobs[j]["request"][0]
    for x in range(p.first[i], p.first[i + 1]):
        for r in range(free.shape[1]):
            free[p.node[x], r] += p.amount[x, r]


@kernel
def _shares(later, request, chunks, p, sign):
    """Take the last start of the plan from (or give it back to) what is free at the shadow time; does the head still fit?"""
    i = p.count[0] - 1
    for x in range(p.first[i], p.first[i + 1]):
        for r in range(later.shape[1]):
            later[p.node[x], r] -= sign * p.amount[x, r]
    return fits(later, request, chunks)


@kernel
def _held_long(rule, jobs, rows):
    """Units that jobs hold which the reserve is not for."""
    held = 0
    for j in rows:
        if jobs[j]["walltime"] > rule.short:
            held += jobs[j]["request"][0]
    return held


@kernel
def _keep_back(rule, jobs, queue, held, most, waiting):
    """Leave waiting only long jobs that take nothing of the reserve; one alone always may. `held` only grows in a pass."""
    for i in range(len(queue) if rule.reserve > 0 else 0):
        job = jobs[queue[i]]
        if waiting[i] and job["walltime"] > rule.short and held > 0 and held + job["request"][0] > most:
            waiting[i] = False


@kernel
def _leave_free(rule, x, started, free, waiting):
    """Leave waiting what would not leave as many units free as the network asks; where nothing runs, one may always start."""
    if rule.order == sc.FLOW_NET and len(x.running) + started > 0:
        units = x.capacity[:, 0].sum()
        for i in range(len(x.queue)):
            j = x.queue[i]
            asked = x.flows.free[j] * units
            if waiting[i] and asked > 0 and free[0, 0] - x.jobs[j]["request"][0] < asked:
                waiting[i] = False


@kernel
def _picked(jobs, queue):
    for i in range(len(queue)):
        if not np.isnan(jobs[queue[i]]["reserved"]):
            return i
    return -1


@kernel
def _any_fits(free, jobs, queue):
    for i in range(len(queue)):
        if _fits(free, jobs[queue[i]]):
            return True
    return False


@kernel
def _candidates(rule, x, t, extra, waiting):
    """Leave waiting only those that may start behind the reservation (t, extra), which only shrinks from here."""
    now, jobs, est, queue, score, free = x.now, x.jobs, x.est, x.queue, x.score, x.free
    for i in range(len(queue)):
        if not waiting[i]:
            continue
        job = jobs[queue[i]]
        ok = _fits(free, job)
        if ok and rule.backfill == GREEDY:
            ok = now + length(jobs, est, queue[i]) < t
        elif ok and now + length(jobs, est, queue[i]) > t:
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
    now, jobs, est, queue, score = x.now, x.jobs, x.est, x.queue, x.score
    running, free, capacity = x.running, x.free, x.capacity
    p.count[:] = 0
    n = len(queue)
    picked = _picked(jobs, queue) if rule.commit else -1
    if not _any_fits(free, jobs, queue) and (picked >= 0 or not rule.commit or n == 0):
        return
    waiting = np.ones(n, np.bool_)
    if rule.order >= 0:
        sc.score_rows(rule.order, now, x.origin, x.seed, jobs, queue, score)
    score_again(rule, x, p)
    head, promised = -1, np.nan
    held, most = _held_long(rule, jobs, running), (1.0 - rule.reserve) * capacity[:, 0].sum()
    _keep_back(rule, jobs, queue, held, most, waiting)
    _leave_free(rule, x, 0, free, waiting)
    while True:
        head = picked if picked >= 0 else first_of(queue, score, waiting)
        if head < 0:
            return
        j = queue[head]
        if not _fits(free, jobs[j]):
            promised = jobs[j]["reserved"] if picked >= 0 else np.nan
            break
        take(p, rule, free, capacity, jobs, j)
        waiting[head] = False
        picked = -1
        if jobs[j]["walltime"] > rule.short:
            held += jobs[j]["request"][0]
            _keep_back(rule, jobs, queue, held, most, waiting)
        score_again(rule, x, p)
        _leave_free(rule, x, p.count[0], free, waiting)
    if rule.backfill == NONE:
        if rule.commit and np.isnan(promised):
            promise(p, queue[head], now)
        return
    j = queue[head]
    later = free.copy()
    t = shadow_time(x, p, j, slices, later)
    if rule.commit and np.isnan(promised):
        promise(p, j, t)
        promised = t
    if rule.backfill == GREEDY and rule.commit:
        t = promised  # RLScheduler computes it once
    loose = jobs[j]["chunks"] == 0
    extra = later.sum(axis=0) - jobs[j]["request"]
    waiting[head] = False
    _candidates(rule, x, t, extra, waiting)
    while True:
        i = first_of(queue, score, waiting)
        if i < 0:
            return
        c = queue[i]
        waiting[i] = False
        if not _fits(free, jobs[c]):
            continue
        late = now + length(jobs, est, c) > t
        if late:
            ok = True
            for r in range(len(extra)):
                ok = ok and jobs[c]["request"][r] <= extra[r]
            if not ok:
                continue
        take(p, rule, free, capacity, jobs, c)
        if late:
            if not loose and not _shares(later, jobs[j]["request"], jobs[j]["chunks"], p, 1):
                _shares(later, jobs[j]["request"], jobs[j]["chunks"], p, -1)
                _undo(p, free, c, jobs)
                continue
            for r in range(len(extra)):
                extra[r] -= jobs[c]["request"][r]
        if jobs[c]["walltime"] > rule.short:
            held += jobs[c]["request"][0]
            _keep_back(rule, jobs, queue, held, most, waiting)
        if rule.backfill == EASY or rule.backfill == EASY_ORACLE:
            score_again(rule, x, p)

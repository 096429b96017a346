"""The reservation of EASY: when the first job that does not fit would fit by the estimates, and what is free beside it then.

What fits is counted as far as counting decides it: totals, and chunks that given-back units hold by themselves. Only beyond
that are nodes looked at (`x.later`). `x`: an Instant, `p`: a Plan of `list_pass.py`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from jobwise.cluster import UNCAPPED
from jobwise.compiled import allocating, inlined, kernel
from jobwise.sim.lists.placement import fits_on, slots
from jobwise.sim.power import beside
from jobwise.sim.rates import expected
from jobwise.sim.spans import copy, count, give


@kernel
def length(jobs, est, j):
    """Expected run of job j if it started now (s): its estimate less what has run already, at least 1."""
    return expected(jobs[j]) if len(est) == 0 else max(max(est[j], 1.0) - jobs[j]["ran"], 1.0)


@inlined
def is_pool(spans):
    """Does it not matter where a job runs?"""
    return spans.first[spans.size[0]] == 1 and len(spans.total) == 1


@inlined
def pieces(p, i):
    """Return the place of the pieces of start i of the plan."""
    return range(p.first[i], p.first[i + 1])


@kernel
def back(p, i, spans, sign):
    """Give back (sign 1) or take (-1) the pieces of start i of the plan."""
    for a in pieces(p, i):
        give(spans, p.node[a], p.more[a], p.amount[a], sign)


@kernel
def _free_then(x, p, over, slices):
    """x.later becomes what is free once the running jobs and the starts of the plan in `over` have ended (a start i: K + i)."""
    copy(x.free, x.later)
    for k in over:
        _ended(x, p, k, slices)


@kernel
def _ended(x, p, k, slices):
    K = len(x.running)
    if k >= K:
        back(p, k - K, x.later, 1)
        return
    piece = x.jobs[x.running[k]]["held"]
    while piece >= 0:
        give(x.later, slices[piece]["node"], slices[piece]["more"], slices[piece]["amount"], 1)
        piece = slices[piece]["next"]


@kernel
def _free_beside(x, p, first, shadow, slices):
    """x.later becomes what is free at a shadow time, less the starts of the plan from `first` on that run on then."""
    _free_then(x, p, shadow.over, slices)
    for i in range(first, p.count[0]):
        if x.now + length(x.jobs, x.est, p.row[i]) <= shadow.time:
            back(p, i, x.later, 1)


@kernel
def _holds(x, p, k, slices, request, chunks, total):
    """Add what running job k (or start k - K of the plan) holds to `total` [R]. How many chunks of another job does it hold by
    itself?"""
    K, R, sum_ = len(x.running), len(total), np.int64(0)
    if is_pool(x.free):
        total[0] += x.jobs[x.running[k] if k < K else p.row[k - K]]["request"][0]
    elif k >= K:
        for a in pieces(p, k - K):
            for r in range(R):
                total[r] += p.amount[a, r] * (p.more[a] + 1)
            sum_ += min(slots(p.amount[a], request, max(chunks, 1)), chunks) * (p.more[a] + 1)
    else:
        piece = x.jobs[x.running[k]]["held"]
        while piece >= 0:
            for r in range(R):
                total[r] += slices[piece]["amount"][r] * (slices[piece]["more"] + 1)
            have = min(slots(slices[piece]["amount"], request, max(chunks, 1)), chunks)
            sum_ += have * (slices[piece]["more"] + 1)
            piece = slices[piece]["next"]
    return sum_


class Reservation(NamedTuple):
    """A reservation: of the first job that does not fit."""

    time: float  # s, T: when it fits by the estimates; inf: never
    total: np.ndarray  # [R] units that are free then, the job not placed
    sure: int  # chunks of the job that fit then at least
    over: np.ndarray  # [E] who has ended by then: running jobs k, and starts K + i of the plan
    exact: bool  # is x.later what is free then?
    more: int  # mW that are left beside the job then


@kernel
def _chunks_now(spans, request, chunks):
    have = np.int64(0)
    for i in range(spans.size[0]):
        have += min(slots(spans.free[i], request, chunks), chunks) * count(spans, i)
    return have


@allocating
def shadow_time(x, p, head, slices):
    """The Shadow of job `head`: T is the first instant at which it fits by the estimates.

    x.due[i] is the estimated end of x.running[i]; the jobs of plan `p` started now and end after their estimates.
    """
    now, jobs, K, n = x.now, x.jobs, len(x.running), p.count[0]
    request, chunks, total = jobs[head]["request"], np.int64(jobs[head]["chunks"]), x.free.total.copy()
    chunks = np.int64(0) if is_pool(x.free) else chunks
    ends = np.empty(K + n)
    for i in range(K):
        ends[i] = max(x.due[i], now)
    for i in range(n):
        ends[K + i] = now + length(jobs, x.est, p.row[i])
    order = np.argsort(ends, kind="mergesort")
    sure = _chunks_now(x.free, request, chunks) if chunks > 0 else np.int64(0)
    i, exact, step, used = 0, False, x.step, x.steps[x.step]["load"] if len(x.steps) else np.int64(0)
    change = x.steps[step + 1]["time"] if step + 1 < len(x.steps) else np.inf
    while i < K + n or change < np.inf:
        t = min(ends[order[i]], change) if i < K + n else change
        if t == change:
            step += 1
            change = x.steps[step + 1]["time"] if step + 1 < len(x.steps) else np.inf
        while i < K + n and ends[order[i]] == t:
            sure += _holds(x, p, order[i], slices, request, chunks, total)
            if len(x.steps):
                used -= jobs[x.running[order[i]] if order[i] < K else p.row[order[i] - K]]["draw"]
            if exact:
                _ended(x, p, order[i], slices)
            i += 1
        enough = True
        for r in range(len(total)):
            enough = enough and request[r] <= total[r]
        if len(x.steps):
            enough = enough and beside(x.steps, step, used, jobs[head]["draw"], t + length(jobs, x.est, head))
        if enough and sure < chunks:
            if not exact:
                _free_then(x, p, order[:i], slices)
            exact = True
            enough = fits_on(x.later, request, chunks)
        if enough:
            more = x.steps[step]["cap"] - used - jobs[head]["draw"] if len(x.steps) else np.int64(0)
            return Reservation(t, total, sure, order[:i], exact, more)
    return Reservation(np.inf, total, sure, order[:i], exact, np.int64(UNCAPPED))


@kernel
def _most_chunks(p, i, request, chunks):
    """Return the most chunks of another job that start i of the plan can block."""
    sum_ = np.int64(0)
    for a in pieces(p, i):
        most = np.int64(0)
        for r in range(len(request)):
            each = request[r] // chunks
            if each > 0:
                most = max(most, -(-p.amount[a, r] // each))
        sum_ += most * (p.more[a] + 1)
    return sum_


@kernel
def leaves_head(x, p, first, shadow, sure, exact, head, slices):
    """(does the reserved job still fit at the shadow time beside the last start of the plan?, chunks of it that surely do, is
    x.later what is free then?). `first`: the first start of the plan behind the reservation."""
    request, chunks, last = head["request"], np.int64(head["chunks"]), p.count[0] - 1
    sure -= _most_chunks(p, last, request, chunks)
    if exact:
        back(p, last, x.later, -1)
    if sure >= chunks:
        return True, sure, exact
    if not exact:
        _free_beside(x, p, first, shadow, slices)
    ok = fits_on(x.later, request, chunks)
    if not ok:
        back(p, last, x.later, 1)
    return ok, sure, True

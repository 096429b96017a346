"""Who is next on a site: Slurm's own priority, or the order of a list scheduler, which may have history and a forest."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from jobwise.compiled import allocating, kernel
from jobwise.jobs import job_dtype, past_dtype
from jobwise.sim import campaign, foresight
from jobwise.sim.campaign import NO_CAMPAIGN, Campaign
from jobwise.sim.easy import overdue
from jobwise.sim.history import SHORT, Known, expect, known, observe_at
from jobwise.sim.list_pass import Rule
from jobwise.sim.loglinear import F, linear
from jobwise.sim.multifactor import priority
from jobwise.sim.orders import LINEAR, Order, begin, score, uniform
from jobwise.sim.state import ENTERED, LEFT

OWN = -2  # the order of Slurm itself


class SiteOrder(NamedTuple):
    """The order of one simulation on a site."""

    rule: Rule
    weights: np.ndarray  # [F + 1] of a log-linear order; else empty
    known: Known  # what history says of the jobs
    campaign: Campaign  # what a forest sees of them


def slurms() -> SiteOrder:
    """Return the order of Slurm itself, by priority."""
    nothing = known(np.zeros(0, job_dtype(1)), np.zeros(0, past_dtype))
    return SiteOrder(Rule(OWN, 0, 0, np.inf, False), np.empty(0), nothing, NO_CAMPAIGN)


@kernel
def note(s, e, o):
    """What a history and a forest learn of jobs that have come and of those that have stopped."""
    sim = s.sims[e]
    for i in range(sim["left"]):
        j = s.lists[e, LEFT, i]
        job = s.jobs[e, j]
        ended = not np.isnan(job["end"])
        if len(o.campaign.of) > 0:
            campaign.stopped(o.campaign, j, sim["now"], job["ran"] if ended else np.nan)
        if len(o.weights) and ended:
            observe_at(o.known.entry, o.known.of_class[j], o.known.of_user[j], job["walltime"], job["ran"])
    for i in range(sim["entered"]):
        j = s.lists[e, ENTERED, i]
        if len(o.campaign.of) > 0 and np.isnan(s.jobs[e, j]["start"]):
            campaign.submitted(o.campaign, j, s.jobs[e, j]["queued"])


@kernel
def started(s, e, o, j):
    """Take note that job j has started."""
    if len(o.campaign.of) > 0:
        campaign.started(o.campaign, j, s.sims[e]["now"])


@kernel
def _score(s, e, m, o, j, free):
    """The smaller, the sooner; `free`: CPUs."""
    sim, job = s.sims[e], s.jobs[e, j]
    now, w, r, n = sim["now"], sim["now"] - job["submit"], max(job["walltime"], 1.0), np.float64(job["request"][0])
    if overdue(now, job["submit"], o.rule.guard):
        return -np.inf
    if o.rule.order == Order.RANDOM:
        return uniform(sim["seed"], now, j)
    if o.rule.order != LINEAR:
        return score(o.rule.order, begin(o.rule.order, job["submit"], sim["origin"]), w, r, n, 0.0)
    ratio, short, log, count = expect(o.known.entry, o.known.of_class[j], o.known.of_user[j], r)
    if o.rule.foreseen:
        foresight.forecast(o.campaign, o.campaign.of[j], now)
        ratio, short = campaign.told(o.campaign, o.campaign.of[j])
    logs = np.log(r), np.log(max(n, 1.0))
    value = linear(o.weights, ratio, short, log, count, logs[0], logs[1], r, n, w, np.float64(sim["queued"]), free, m.cpus[0])
    return value - (o.weights[F] * np.log1p(w * short / SHORT) if o.rule.foreseen else 0.0)


@allocating
def waiting(s, e, m, o):
    """(rows, partitions) of what waits, by tier, then the order, then row; a job that may run in several partitions comes
    several times."""
    n, j, free = 0, s.sims[e]["head"], 0.0
    W = m.queues.shape[1]
    room = s.sims[e]["queued"] * W
    row, where = np.empty(room, np.int64), np.empty(room, np.int64)
    key, tier, tiers = np.empty(room), np.empty(room, np.int64), False
    if o.rule.order == LINEAR:
        for i in range(s.nodes.shape[1]):
            free += s.nodes[e, i]["free"][0]
    while j >= 0:
        q, own = max(s.jobs[e, j]["partition"], 0), 0.0
        if o.rule.order != OWN:
            own = _score(s, e, m, o, j, free)
        for w in range(W):
            p = m.queues[q, w]
            if p >= 0:
                row[n], where[n], tier[n] = j, p, -m.partition[p]["tier"]
                key[n] = own if o.rule.order != OWN else -priority(m, j, s.jobs[e, j], p)
                tiers = tiers or tier[n] != tier[0]
                n += 1
        j = s.truth[e, j]["next"]
    order = np.argsort(row[:n], kind="mergesort")
    order = order[np.argsort(key[:n][order], kind="mergesort")]
    if tiers:
        order = order[np.argsort(tier[:n][order], kind="mergesort")]
    return row[:n][order], where[:n][order]

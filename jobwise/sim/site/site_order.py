"""Choose the next job on a site: by Slurm's own priority, or by the order of a list scheduler, which may have history."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from jobwise.compiled import allocating, kernel
from jobwise.sim.lists.easy import overdue
from jobwise.sim.lists.list_pass import Rule
from jobwise.sim.lists.orders import LINEAR, Order, begin, score, uniform
from jobwise.sim.memory.groups import NO_MEMORY, Memory
from jobwise.sim.memory.loglinear import linear
from jobwise.sim.memory.memory import expect_job, note_advance
from jobwise.sim.site.multifactor import priority
from jobwise.sim.spans import count
from jobwise.site import BY_QOS

OWN = -2  # the order of Slurm itself


class SiteOrder(NamedTuple):
    """The order of one simulation on a site."""

    rule: Rule
    weights: np.ndarray  # [F] of a log-linear order; else empty
    memory: Memory  # how long jobs ran


def slurms() -> SiteOrder:
    """Return the order of Slurm itself, by priority."""
    return SiteOrder(Rule(OWN, 0, 0, np.inf, False), np.empty(0), NO_MEMORY)


@kernel
def note(s, e, o):
    """Take note of the events of the last advance."""
    if len(o.memory.of) > 0:
        note_advance(o.memory, s, e)


@kernel
def _score(s, e, slurm, o, j, free):
    """The smaller, the sooner; `free`: CPUs."""
    sim, job = s.sims[e], s.jobs[e, j]
    now, w, r, n = sim["now"], sim["now"] - job["submit"], max(job["walltime"], 1.0), np.float64(job["request"][0])
    if overdue(now, job["submit"], o.rule.guard):
        return -np.inf
    if o.rule.order == Order.RANDOM:
        return uniform(sim["seed"], now, j)
    if o.rule.order != LINEAR:
        return score(o.rule.order, begin(o.rule.order, job["submit"], sim["origin"]), w, r, n, 0.0)
    logs = np.log(r), np.log(max(n, 1.0))
    machine = np.float64(sim["queued"]), free, np.float64(slurm.site.cpus[0])
    return linear(o.weights, expect_job(o.memory, j, r), logs, (r, n, w), machine)


@allocating
def waiting(s, e, slurm, o):
    """(rows, partitions) of what waits, by tier, then the order, then who came first (`ledger.came`, `turn`); a job that may
    run in several partitions comes several times. The cells of nodes are up to date."""
    most = slurm.site.queues.shape[1]  # partitions of a job
    room = s.sims[e]["queued"] * most
    row, where = np.empty(room, np.int64), np.empty(room, np.int64)
    key, tier, has_tiers = np.empty(room), np.empty(room, np.int64), False
    free = 0.0  # CPUs; LINEAR scores by it
    if o.rule.order == LINEAR:
        for c in range(slurm.work.cells.size[0]):
            free += slurm.work.cells.free[c, 0] * count(slurm.work.cells, c)
    n, j = 0, s.sims[e]["head"]  # along the queue
    while j >= 0:
        queue, score = max(s.jobs[e, j]["partition"], 0), 0.0
        if o.rule.order != OWN:
            score = _score(s, e, slurm, o, j, free)
        for k in range(most):
            p = slurm.site.queues[queue, k]
            if p >= 0:
                row[n], where[n], tier[n] = j, p, -slurm.site.partition[p]["tier"]
                key[n] = score if o.rule.order != OWN else -priority(slurm, j, s.jobs[e, j], p)
                has_tiers = has_tiers or tier[n] != tier[0]
                n += 1
        j = s.truth[e, j]["next"]
    order = np.argsort(slurm.ledger.turn[row[:n]], kind="mergesort")  # stable sorts: the last is the first key
    if slurm.site.settings[0]["preempt"] > 0:
        order = order[np.argsort(slurm.ledger.came[row[:n]][order], kind="mergesort")]
    order = order[np.argsort(key[:n][order], kind="mergesort")]
    if has_tiers:
        order = order[np.argsort(tier[:n][order], kind="mergesort")]
    if slurm.site.settings[0]["preempt"] == BY_QOS and o.rule.order == OWN:  # those that stop others come first
        level = np.zeros(n, np.int64)
        for i in range(n):
            q = s.jobs[e, row[i]]["queue"]
            level[i] = -slurm.ledger.preempt.level[q] if 0 <= q < len(slurm.ledger.preempt.level) else 0
        order = order[np.argsort(level[order], kind="mergesort")]
    return row[:n][order], where[:n][order]

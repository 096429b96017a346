"""EASY on a pool under a cap on what jobs draw: as `lists/easy.py`, with watts beside the processors.

The head's reservation is at the first instant at which its processors are free and its watts, too; behind it a job may start
that ends before, or that takes neither processors nor watts of it. Without a cap all of it is that of `lists/easy.py`.
"""

from __future__ import annotations

import numpy as np

from jobwise.cluster import UNCAPPED
from jobwise.compiled import inlined, kernel
from jobwise.sim import power
from jobwise.sim.lists import easy
from jobwise.sim.rates import expected


@kernel
def reserve(s, e, running, j, n, free):
    """(shadow time, extra processors, extra mW) of head j of n processors."""
    now = s.sims[e]["now"]
    if s.steps.shape[1] == 0:
        t, extra = easy.reserve(running, n, free, now)
        return t, extra, np.int64(0)
    draw, length = s.jobs[e, j]["draw"], s.sims[e]["boot"] + expected(s.jobs[e, j])
    t, got, more = power.reserve(s.steps[e], s.sims[e]["step"], running, n, draw, length, free, now)
    return t, easy.beside(t, got, n), more if t < np.inf else np.int64(UNCAPPED)


@inlined
def keep(s, e, j, shadow, sign):
    """Keep what head j draws after its shadow time (1), or no longer (-1)."""
    if s.steps.shape[1] > 1:
        sim, job = s.sims[e], s.jobs[e, j]
        power.pencil(s.steps[e], sim["step"], shadow, sign * job["draw"], sim["boot"] + expected(job))


@inlined
def may_start(s, e, j, end, shadow, more):
    """May job j start now by the cap, and end at `end`, beside a head that leaves `more` mW at its shadow time?"""
    if s.steps.shape[1] == 0:
        return True
    draw = s.jobs[e, j]["draw"]
    return (end <= shadow or draw <= more) and power.may_add(s.steps[e], s.sims[e]["step"], draw, end + s.sims[e]["boot"])


@inlined
def charge(s, e, j, end, shadow, more):
    """The mW that are left beside the head once such a job has started."""
    return more - s.jobs[e, j]["draw"] if end > shadow and s.steps.shape[1] > 0 else more


@inlined
def reachable(s, e, free):
    """The processors that a job can have at most, of `free`, with what every job draws a processor at least."""
    if s.steps.shape[1] == 0 or s.sims[e]["least"] <= 0.0:
        return free
    x = s.steps[e, s.sims[e]["step"]]
    return min(free, np.int64(np.float64(x["cap"] - x["load"]) / s.sims[e]["least"] + 1e-6))

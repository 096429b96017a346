"""Rate models: how fast a job runs where it is. The kernel asks them at two moments, and knows nothing else of them.

    at_start     a job has got its units: its rate, and the end that its request makes us expect
    on_change    an allocation has changed (where rates are `shared`): the rate of a running job from now on

    RIGID        rate 1 everywhere
    SLOWDOWN     `cluster.Slowdown` (CuSH, DRL4KDD'19): rate_setting = (network, compute, share)

A new model is a code in `state.py`, a branch in each of the two functions, and what it reads in `rate_setting`.
"""

from __future__ import annotations

import numpy as np

from jobwise.jobs import COMPUTE, NETWORK
from jobwise.sim.allocations import on_node
from jobwise.sim.compiled import inlined, kernel
from jobwise.sim.state import HEAP, SLOWDOWN

OF_NETWORK, OF_COMPUTE, OF_SHARE = range(3)  # places in rate_setting


@inlined
def at_start(s, e, j, k, rate):
    """The rate of job j, which has just got units of k nodes; `rate` is what it would be at its best place. Sets `due`."""
    sim, job, truth = s.sims[e], s.jobs[e, j], s.truth[e, j]
    if sim["rate_model"] == SLOWDOWN:
        truth["sigma"] = sigma(sim, truth["kind"], truth, truth["runtime"], k)
        longer = sigma(sim, job["kind"], truth, job["walltime"], k)
        job["due"] = sim["now"] + max((max(job["walltime"], 1.0) - job["ran"]) * longer, 1.0)
        rate /= truth["sigma"]
    return rate


@kernel
def on_change(s, e, j):
    """The rate of running job j now that others have started or stopped."""
    sim, truth = s.sims[e], s.truth[e, j]
    if sim["rate_model"] == SLOWDOWN and truth["kind"] == NETWORK and truth["rate"] > 0.0:
        others, k = _sharers(s, e, j)
        return 1.0 / (truth["sigma"] + sim["rate_setting"][OF_SHARE] * others / max(k, 1))
    return truth["rate"]


@inlined
def sigma(sim, kind, truth, length, k):
    """How many times as long a job of this kind runs on k nodes as at its best (`cluster.Slowdown`).

    Where there are ticks, a job of `length` s (at its best) runs for whole ones.
    """
    room = max(1.0, np.float64(truth["most"] - truth["least"]))
    x = 1.0
    if k > 0 and kind == NETWORK:
        x += sim["rate_setting"][OF_NETWORK] * min(max((k - truth["least"]) / room, 0.0), 1.0)
    elif k > 0 and kind == COMPUTE:
        x += sim["rate_setting"][OF_COMPUTE] * min(max((truth["most"] - k) / room, 0.0), 1.0)
    if sim["tick"] > 0.0 and x > 1.0 and length > 0.0:
        x = np.ceil(length * x / sim["tick"] - 1e-9) * sim["tick"] / length
    return x


@kernel
def _sharers(s, e, row):
    """(how many other network-intensive jobs share a node with running job `row`, how many nodes it holds)."""
    others, k = 0, 0
    at = s.jobs[e, row]["held"]
    while at >= 0:
        k += 1
        at = s.slices[e, at]["next"]
    for i in range(s.sims[e]["running"]):
        other = s.lists[e, HEAP, i]
        if other == row or s.truth[e, other]["kind"] != NETWORK:
            continue
        at, met = s.jobs[e, row]["held"], False
        while at >= 0 and not met:
            met = on_node(s, e, other, s.slices[e, at]["node"])
            at = s.slices[e, at]["next"]
        others += met
    return others, k


@inlined
def expected(job):
    """How long a job is expected to run if it started now (s): its request less what has run already, at least 1."""
    return max(max(job["walltime"], 1.0) - job["ran"], 1.0)


@inlined
def finish(sim, truth):
    """When the work left is done at the present rate (s). What floating numbers miss of a tick is made up for."""
    if truth["rate"] <= 0.0:
        return np.inf
    t = sim["now"] + truth["left"] / truth["rate"]
    if sim["tick"] > 0.0:
        near = np.round(t / sim["tick"]) * sim["tick"]
        if abs(t - near) < 1e-6 * sim["tick"]:
            t = near
    return t

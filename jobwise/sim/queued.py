"""The queue of a simulation, in order of entry, and the list of what the scheduler did: the kernel's alone."""

from __future__ import annotations

import numpy as np

from jobwise.compiled import inlined, kernel
from jobwise.sim.state import ACTS, ENTERED


@inlined
def enter(s, e, j, status):
    """Put job j at the end of the queue, with a status that waits."""
    sim, truth = s.sims[e], s.truth[e]
    s.jobs[e, j]["status"] = status
    s.jobs[e, j]["queued"] = sim["now"]
    tail = sim["tail"]
    truth[j]["prev"], truth[j]["next"] = tail, -1
    if tail >= 0:
        truth[tail]["next"] = j
    else:
        sim["head"] = j
    sim["tail"] = j
    sim["queued"] += 1
    if sim["entered"] < s.lists.shape[2]:  # else a scheduler pauses the same jobs again and again at one instant
        s.lists[e, ENTERED, sim["entered"]] = j
        sim["entered"] += 1


@inlined
def act(s, e, what):
    """List an act of the scheduler: a start (row) or a pause (~row); one that undoes the last takes it off the list."""
    sim = s.sims[e]
    n = sim["acting"]
    if n > 0 and s.lists[e, ACTS, n - 1] == ~what:
        sim["acting"] = n - 1
    elif n < s.lists.shape[2]:
        s.lists[e, ACTS, n] = what
        sim["acting"] = n + 1


@inlined
def unqueue(s, e, j):
    """Take job j off the queue."""
    sim, truth = s.sims[e], s.truth[e]
    before, after = truth[j]["prev"], truth[j]["next"]
    if before >= 0:
        truth[before]["next"] = after
    else:
        sim["head"] = after
    if after >= 0:
        truth[after]["prev"] = before
    else:
        sim["tail"] = before
    sim["queued"] -= 1


@kernel
def wake(s, e):
    """Stop next at the earliest reservation still to come."""
    sim = s.sims[e]
    sim["wake"] = np.inf
    j = sim["head"]
    while j >= 0:
        at = s.jobs[e, j]["reserved"]
        if at > sim["now"] and at < sim["wake"]:
            sim["wake"] = at
        j = s.truth[e, j]["next"]

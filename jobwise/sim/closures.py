"""Nodes of a site that take no jobs for a while: out of service, or reserved, which the scheduler knows ahead."""

from __future__ import annotations

import numpy as np

from jobwise.compiled import kernel
from jobwise.sim.node_sets import NOTHING, ONE, lowest


@kernel
def out_of_service(slurm, now):
    """Take nodes that are out of service now out of slurm.work.up and slurm.work.some."""
    zero = slurm.ledger.clock[0]["zero"]
    for i in range(len(slurm.site.closures)):
        c = slurm.site.closures[i]
        if not c["announced"] and c["begin"] - zero <= now < c["end"] - zero:
            for x in range(len(slurm.work.up)):
                slurm.work.up[x] &= ~slurm.site.sets[c["set"], x]
                slurm.work.some[x] &= ~slurm.site.sets[c["set"], x]


@kernel
def reserved(slurm, job, at, now, mask):
    """Leave in the mask the nodes on which the job, begun at `now`, would not run into a reservation of others
    that is known at the time `at`; a job of a reservation has its nodes alone until that ends. Returns when the first
    reservation ends, should the job run into one on whatever nodes; else 0."""
    zero, own = slurm.ledger.clock[0]["zero"], slurm.site.ask[job["ask"]]["reservation"]
    first, overlap = np.inf, False
    for i in range(len(slurm.site.closures)):
        c = slurm.site.closures[i]
        begin, end = c["begin"] - zero, c["end"] - zero
        if own == i + 1:
            for x in range(len(mask) if now < end else 0):
                mask[x] &= slurm.site.sets[c["set"], x] if begin <= now else NOTHING
        elif c["announced"] and c["known"] - zero <= at and begin < now + max(job["walltime"], 1.0) and now < end:
            for x in range(len(mask)):
                overlap |= slurm.work.up[x] & slurm.site.sets[c["set"], x] != NOTHING
                mask[x] &= ~slurm.site.sets[c["set"], x]
        if c["announced"] and c["known"] - zero <= at and now < end:
            first = min(first, end)
    return first if overlap else 0.0


@kernel
def nodes_of(slurm, closure):
    """How many nodes a closure has; they are put into slurm.work.node."""
    k = 0
    for x in range(slurm.site.sets.shape[1]):
        word = slurm.site.sets[slurm.site.closures[closure]["set"], x]
        while word != NOTHING:
            slurm.work.node[k] = lowest(x, word)
            word &= word - ONE
            k += 1
    return k


@kernel
def next_change(slurm, now):
    """When the next node goes out of service or comes back, after now; inf: never."""
    zero, next_ = slurm.ledger.clock[0]["zero"], np.inf
    for i in range(len(slurm.site.closures)):
        for t in (slurm.site.closures[i]["begin"] - zero, slurm.site.closures[i]["end"] - zero):
            if now < t < next_:
                next_ = t
    return next_

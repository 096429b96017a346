"""Nodes of a site that take no jobs for a while: out of service, or reserved, which the scheduler knows ahead."""

from __future__ import annotations

import numpy as np

from jobwise.compiled import inlined, kernel
from jobwise.sim.site.node_sets import NOTHING, next_in, next_out


@kernel
def out_of_service(slurm, now):
    """Take nodes that are out of service now out of slurm.work.up; pass over closures that have ended."""
    table, clock, zero = slurm.site.closures, slurm.ledger.clock[0], slurm.ledger.clock[0]["zero"]
    while clock["over"] < len(table) and table[clock["over"]]["end"] - zero <= now:
        clock["over"] += 1
    for i in range(clock["over"], len(table)):
        if table[i]["begin"] - zero > now:
            return
        if not table[i]["announced"] and now < table[i]["end"] - zero:
            for x in range(len(slurm.work.up)):
                slurm.work.up[x] &= ~slurm.site.sets[table[i]["set"], x]


@inlined
def _known(slurm, c, at):
    """Is a closure a reservation that the scheduler knows at the time `at`?"""
    return c["announced"] and c["known"] - slurm.ledger.clock[0]["zero"] <= at


@kernel
def reserved(slurm, job, at, now, mask):
    """Leave in the mask the nodes on which the job, begun at `now`, would not run into a reservation of others that is known at
    the time `at`; a job of a reservation waits for its begin, and has its nodes alone until it ends. Returns when the first
    reservation ends, should the job run into one on whatever nodes; else 0."""
    zero, own = slurm.ledger.clock[0]["zero"], slurm.site.ask[job["ask"]]["reservation"]
    first, overlap, waits, limit = np.inf, False, False, max(job["walltime"], 1.0)
    for i in range(slurm.ledger.clock[0]["over"], len(slurm.site.closures)):
        c = slurm.site.closures[i]
        begin, end = c["begin"] - zero, c["end"] - zero
        if now >= end or not _known(slurm, c, at):
            continue
        first = min(first, end)
        if own > 0 and c["group"] == own:
            waits = waits or begin > now
            for x in range(len(mask) if begin <= now else 0):
                mask[x] &= slurm.site.sets[c["set"], x]
            own = 0 if begin <= now else own
        elif begin < now + limit:
            for x in range(len(mask)):
                overlap |= slurm.work.up[x] & slurm.site.sets[c["set"], x] != NOTHING
                mask[x] &= ~slurm.site.sets[c["set"], x]
    if own > 0 and waits:
        for x in range(len(mask)):
            mask[x] = NOTHING
    return first if overlap else 0.0


@kernel
def nodes_of(slurm, closure):
    """Put the nodes of a closure into slurm.work.node; how many entries."""
    own, N, k = slurm.site.sets[slurm.site.closures[closure]["set"]], len(slurm.site.weight), 0
    i = next_in(own, 0, N)
    while i < N:
        end = next_out(own, i, N)
        slurm.work.node[k], slurm.work.more[k] = i, end - i - 1
        k += 1
        i = next_in(own, end, N)
    return k


@kernel
def next_change(slurm, now):
    """Return the time after now when the next node goes out of service or comes back; inf: never."""
    zero, next_ = slurm.ledger.clock[0]["zero"], np.inf
    for i in range(slurm.ledger.clock[0]["over"], len(slurm.site.closures)):
        begin, end = slurm.site.closures[i]["begin"] - zero, slurm.site.closures[i]["end"] - zero
        if now < end < next_:
            next_ = end
        if begin > now:
            return min(next_, begin)
    return next_

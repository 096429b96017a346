"""Heterogeneous jobs: their parts, jobs of their own, start together, in a backfill cycle alone.

After Slurm's backfill: each part is planned by itself, not before those of its other parts that this cycle has planned; where a
cycle finds nodes for all of them that are free now, it starts all at its end. A main pass stops at a part as at a job that does
not fit.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from jobwise.compiled import inlined, kernel
from jobwise.sim.site.node_sets import NOTHING, add_all
from jobwise.site import Site


class HetJobs(NamedTuple):
    """By the number of a heterogeneous job; row 0 is of no job."""

    parts: np.ndarray  # [H + 1] how many it has
    job: np.ndarray  # [H + 1, most] their jobs
    start: np.ndarray  # [H + 1, most] when each could start by this cycle's plan; inf: it has none
    nodes: np.ndarray  # [H + 1, most, W] and on which nodes


def het_jobs(site: Site, asks: np.ndarray, words: int) -> HetJobs:
    """Return the table of jobs that ask for rows `asks` [J] of the site's requests."""
    number = site.asks["het"][asks]
    parts = np.bincount(number, minlength=int(site.asks["het"].max(initial=0)) + 1)
    parts[0] = 0
    most = int(parts.max(initial=0))
    job = np.full((len(parts), most), -1)
    for h in np.flatnonzero(parts).tolist():
        job[h, : parts[h]] = np.flatnonzero(number == h)
    return HetJobs(parts, job, np.full(job.shape, np.inf), np.zeros((*job.shape, words), np.uint64))


@inlined
def _part(slurm, h, j):
    """Which part of heterogeneous job h is j?"""
    x = 0
    while slurm.ledger.het.job[h, x] != j:
        x += 1
    return x


@kernel
def forget(slurm):
    """A cycle begins: no part has a plan."""
    if len(slurm.ledger.het.parts) > 1:
        slurm.ledger.het.start[:, :] = np.inf


@kernel
def not_before(slurm, h, j, now):
    """Return when part j can start at the earliest, as the others have been planned."""
    start, het = now, slurm.ledger.het
    for x in range(het.parts[h]):
        if het.job[h, x] != j and het.start[h, x] < np.inf:
            start = max(start, het.start[h, x])
    return start


@kernel
def note_part(slurm, h, j, t, k):
    """Part j could start at t (inf: never) on nodes slurm.work.node[:k]."""
    x, het = _part(slurm, h, j), slurm.ledger.het
    het.start[h, x] = t
    for y in range(het.nodes.shape[2]):
        het.nodes[h, x, y] = NOTHING
    for i in range(k if t < np.inf else 0):
        first = np.int64(slurm.work.node[i])
        add_all(het.nodes[h, x], first, first + slurm.work.more[i] + 1)


@kernel
def ready(slurm, h, now):
    """Could all parts start now?"""
    for x in range(slurm.ledger.het.parts[h]):
        if slurm.ledger.het.start[h, x] > now:
            return False
    return slurm.ledger.het.parts[h] > 0

"""Heterogeneous jobs: their parts, jobs of their own, start together, in a backfill cycle alone.

After Slurm's backfill: each part is planned by itself, not before those of its other parts that this cycle has planned; where a
cycle finds nodes for all of them that are free now, it starts all at its end. A main pass stops at a part as at a job that does
not fit.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from jobwise.compiled import kernel
from jobwise.site import Site


class HetJobs(NamedTuple):
    """By the number of a heterogeneous job; row 0 is of no job."""

    parts: np.ndarray  # [H + 1] how many it has
    job: np.ndarray  # [H + 1, most] their jobs
    start: np.ndarray  # [H + 1, most] when each could start as this cycle found first, others' plans aside; inf: it has none
    tried: np.ndarray  # [1] that time of the last plan


def het_jobs(site: Site, asks: np.ndarray) -> HetJobs:
    """Return the table of jobs that ask for rows `asks` [J] of the site's requests."""
    number = site.asks["het"][asks]
    parts = np.bincount(number, minlength=int(site.asks["het"].max(initial=0)) + 1)
    parts[0] = 0
    most = int(parts.max(initial=0))
    job = np.full((len(parts), most), -1)
    for h in np.flatnonzero(parts).tolist():
        job[h, : parts[h]] = np.flatnonzero(number == h)
    return HetJobs(parts, job, np.full(job.shape, np.inf), np.full(1, np.inf))


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
def note_part(slurm, h, j, t):
    """Part j has a plan from t on (inf: none)."""
    x = 0
    while slurm.ledger.het.job[h, x] != j:
        x += 1
    slurm.ledger.het.start[h, x] = slurm.ledger.het.tried[0] if t < np.inf else t


@kernel
def ready(slurm, h, now):
    """Could all parts start now?"""
    for x in range(slurm.ledger.het.parts[h]):
        if slurm.ledger.het.start[h, x] > now:
            return False
    return slurm.ledger.het.parts[h] > 0

"""Sums and bins over finished jobs that ran in one go, for logs that stream (`streaming/totals.py`)."""

from __future__ import annotations

import numpy as np

from jobwise.compiled import kernel
from jobwise.jobs import TAU
from jobwise.sim.measures import add, bounded

ERROR = 0.005  # relative, of quantiles
LEAST = 1e-9  # smaller values count as 0
BINS = 1 << 13  # up to LEAST * GAMMA ** BINS
GAMMA = (1 + ERROR) / (1 - ERROR)


@kernel
def add_all(jobs, sums, wait, slow):
    """Add the measures of finished jobs that ran in one go to `sums` [8, 2], in the order of `totals.MEANS`, then the
    processor-seconds used, and those times turnaround and times wait; wait[j] s and slow[j], the bounded slowdown, of each.
    Formulas: `metrics`."""
    for j in range(len(jobs)):
        job = jobs[j]
        run, n = job["end"] - job["start"], max(job["request"][0], 1)
        wait[j] = job["start"] - job["submit"]
        slow[j] = bounded(wait[j], run)
        add(sums[0], slow[j])
        add(sums[1], (wait[j] + run) / max(run, 1e-9))
        add(sums[2], max((wait[j] + run) / (n * max(run, TAU)), 1.0))
        add(sums[3], wait[j])
        add(sums[4], wait[j] + run)
        area = job["request"][0] * run
        add(sums[5], area)
        add(sums[6], area * (wait[j] + run))
        add(sums[7], area * wait[j])


@kernel
def count(values, bins):
    """Count values in logarithmic bins (DDSketch); all below LEAST are in the first one."""
    for x in values:
        place = np.ceil(np.log(x / LEAST) / np.log(GAMMA)) if x > LEAST else 0.0
        bins[min(int(place), BINS - 1)] += 1

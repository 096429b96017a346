"""Bounded slowdown in compiled code: `metrics.bounded` is the same formula for arrays of Python."""

from __future__ import annotations

import numpy as np

from jobwise.compiled import allocating, inlined
from jobwise.jobs import TAU


@inlined
def bounded(wait, run):
    """Return the bounded slowdown max((wait + run) / max(run, TAU), 1) of one job; both in s."""
    return max((wait + run) / max(run, TAU), 1.0)


@allocating
def bounded_all(wait, run):
    """Return the bounded slowdowns [J] of jobs that waited `wait` [J] s and ran `run` [J] s."""
    slowdown = np.empty(len(wait))
    for j in range(len(wait)):
        slowdown[j] = bounded(wait[j], run[j])
    return slowdown


@inlined
def add(total, x):
    """Add x to a sum total[2] of two numbers, the rounded sum and what rounding lost (Knuth): twice the precision."""
    whole = total[0] + x
    own = whole - total[0]
    total[1] += (total[0] - (whole - own)) + (x - own)
    total[0] = whole

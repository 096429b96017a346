"""Costs of jobs: the price list that MARS's encoder and rewards share, in money an hour."""

from __future__ import annotations

from jobwise.compiled import inlined

CORE_HOUR, GB_HOUR = 0.05, 0.005  # of a processor, of a GB of memory


@inlined
def price(est, size, memory, core_hour, gb_hour):
    """Return the price of `size` processors for `est` s, with `memory` kB each (-1: unknown, free)."""
    return size * est / 3600.0 * (core_hour + gb_hour * max(memory, 0.0) / 1e6)


@inlined
def listed(est, size, memory):
    """The same by the price list."""
    return price(est, size, memory, CORE_HOUR, GB_HOUR)


@inlined
def mean(s, e):
    """The mean price of the jobs of simulation e."""
    total, count = 0.0, s.sims[e]["jobs"]
    for j in range(count):
        job = s.jobs[e, j]
        total += listed(max(job["walltime"], 1.0), job["request"][0], job["memory"])
    return total / max(count, 1)

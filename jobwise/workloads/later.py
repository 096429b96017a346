"""The later months of a log, as a benchmark shows them to all schedulers, also to other simulators."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from jobwise.workload import Workload
from jobwise.workloads.transform import split


def later_months(w: Workload, share: float, most: int) -> tuple[Workload, Workload]:
    """Return the first `share` of the jobs, and at most `most` of those behind: jobs end at their request, times are whole s,
    and columns of the source are left out. Raises InputError where nothing is left."""
    earlier, later = split(w, share)
    later = later.take(slice(0, most))
    out = replace(later, jobs=later.jobs.copy(), truth=later.truth.copy(), columns={}, header=())
    limit = out.jobs["walltime"] = np.maximum(np.ceil(later.jobs["walltime"]), 1.0)
    out.truth["runtime"] = np.minimum(np.maximum(np.ceil(later.truth["runtime"]), 1.0), limit)
    return earlier, out


def with_other_runs(w: Workload, start: np.ndarray, at: float, seed: int = 0) -> Workload:
    """Return the jobs with other run times, within their requests, of all that have not ended at a time `at` (s) in a schedule:
    what runs then goes on. `start`: [J] s."""
    run, limit = w.truth["runtime"], np.maximum(w.jobs["walltime"], w.truth["runtime"])
    least = np.maximum(np.floor(at - start), 0.0) + 1.0
    drawn = np.floor(least + np.random.default_rng(seed).random(len(w)) * np.maximum(limit - least, 0.0))
    truth = w.truth.copy()
    truth["runtime"] = np.where(start + run > at, np.minimum(drawn, limit), run)
    return replace(w, truth=truth, columns={}, header=())

"""The later months of a log, as a benchmark shows them to all schedulers; schedules that other simulators make of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from jobwise.errors import InputError
from jobwise.jobs import DONE
from jobwise.record import Record
from jobwise.workload import Workload
from jobwise.workloads.transform import split

ENDED = "are ended at their request"
ROUNDED_S = 0.5  # others may round times to whole s


def later_months(w: Workload, share: float, most: int) -> tuple[Workload, Workload]:
    """Return the first `share` of the jobs, and at most `most` of those behind: jobs end at their request, which the notes
    count, times are whole s, and columns of the source are left out. Raises InputError where nothing is left."""
    earlier, later = split(w, share)
    later = later.take(slice(0, most))
    out = replace(later, jobs=later.jobs.copy(), truth=later.truth.copy(), columns={}, header=())
    limit = out.jobs["walltime"] = np.maximum(np.ceil(later.jobs["walltime"]), 1.0)
    run = np.maximum(np.ceil(later.truth["runtime"]), 1.0)
    out.truth["runtime"] = np.minimum(run, limit)
    return earlier, replace(out, notes={ENDED: int((run > limit).sum())})


def with_other_runs(w: Workload, start: np.ndarray, at: float, share: float | None = None, seed: int = 0) -> Workload:
    """Return the jobs with other run times, within their requests, of all that have not ended at a time `at` (s) in a schedule:
    what runs then goes on. `start`: [J] s; `share` of what each may run: 0 the least, 1 its request, None drawn."""
    run, limit = w.truth["runtime"], np.maximum(w.jobs["walltime"], w.truth["runtime"])
    least = np.maximum(np.floor(at - start), 0.0) + 1.0
    shares = np.random.default_rng(seed).random(len(w)) if share is None else share
    drawn = np.floor(least + shares * np.maximum(limit - least, 0.0))
    truth = w.truth.copy()
    truth["runtime"] = np.where(start + run > at, np.minimum(drawn, limit), run)
    return replace(w, truth=truth, columns={}, header=())


def scheduled(w: Workload, start: np.ndarray, name: str) -> Record:
    """Return the record of a schedule that somebody else made of a pool's jobs, without a pause.

    Parameters
    ----------
    w : Workload
        The jobs.
    start : array [J], s
        When each begins to run.
    name : str
        Whose schedule it is.

    Raises
    ------
    InputError
        A job is missing, starts before its submit or too late, or jobs hold more processors than there are.
    """
    submit, run, size = w.jobs["submit"], w.truth["runtime"], w.jobs["request"][:, 0]
    if (missing := ~np.isfinite(start)).any():
        raise InputError(f"{name}: {missing.sum():,} jobs do not start (the first: {np.argmax(missing) + 1})")
    if (early := start < submit - ROUNDED_S).any():
        j = int(np.argmax(early))
        raise InputError(f"{name}: job {j + 1} starts at {start[j]:g} s, before its submit at {submit[j]:g} s")
    if (late := start > submit.max(initial=0.0) + run.sum()).any():
        j = int(np.argmax(late))
        raise InputError(f"{name}: job {j + 1} starts at {start[j]:g} s, later than if all ran one after the other")
    start = np.maximum(start, submit)
    when, amount = np.concatenate([start + run, start]), np.concatenate([-size, size])
    held = np.cumsum(amount[np.lexsort((amount, np.round(when)))])  # what ends in a second is free in it
    if held.max(initial=0) > w.cluster.processors:
        raise InputError(f"{name}: its jobs hold {held.max():,} of {w.cluster.processors:,} processors")
    jobs = w.jobs.copy()
    jobs["start"], jobs["end"], jobs["ran"], jobs["status"] = start, start + run, run, DONE
    return Record(jobs, run.copy(), w.cluster, name, w, events=2 * len(w))

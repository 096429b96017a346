"""Plan the start of every waiting job, first come, first served, by requests, on the steps in which processors are free.

The plan gives each job, in order of submit, the earliest time at which it fits for its requested time (conservative
backfilling: Mu'alem & Feitelson, IEEE TPDS 12(6), 2001). A plan with another job put first shows whether the others would still
start in time after that job goes ahead; slack-based backfilling (Talby & Feitelson, IPPS 1999) makes this check on
reservations.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from jobwise.compiled import inlined, kernel


class StepFunction(NamedTuple):
    """Free processors from each time on: row RUNNING as the running jobs end, row PLAN with the planned jobs beside them."""

    time: np.ndarray  # [2, J + 8] s
    free: np.ndarray  # [2, J + 8]
    placed: np.ndarray  # [SIZES] of placed_dtype: the last job of each size that the plan has placed, by powers of two


RUNNING, PLAN = range(2)
SIZES = 32
placed_dtype = np.dtype([("size", "i8"), ("run", "f8"), ("step", "i8")], align=True)


def room_for(jobs: int) -> StepFunction:
    """Return room for the steps of `jobs` jobs (memory is touched only as it is used)."""
    return StepFunction(np.empty((2, jobs + 8)), np.empty((2, jobs + 8), np.int64), np.zeros(SIZES, placed_dtype))


@kernel
def of_requests(steps, running, free, now):
    """Make the steps of running jobs (`ranked.Blocks` by estimated end; one that has outlived it ends now); how many."""
    time, level, size = steps.time[RUNNING], steps.free[RUNNING], 1
    time[0], level[0] = now, free
    for i in range(running.count[0]):
        b = running.order[i]
        for k in range(running.block[b]["used"]):
            x = running.entry[b, k]
            end = max(x["key"], now + 1.0)
            if end > time[size - 1]:
                time[size], level[size] = end, level[size - 1]
                size += 1
            level[size - 1] += x["size"]
    return size


@kernel
def of_ends(steps, jobs, finish, rows, count, free, now):
    """Make the steps of running jobs rows[: count] of a table, which end at finish[row], nearly in order; how many."""
    time, level, size = steps.time[RUNNING], steps.free[RUNNING], 1
    time[0], level[0] = now, free
    for i in range(count):
        end, n = max(finish[rows[i]], now + 1.0), jobs[rows[i]]["request"][0]
        k = size
        while time[k - 1] > end:
            k -= 1
        if time[k - 1] < end:
            for m in range(size, k, -1):
                time[m], level[m] = time[m - 1], level[m - 1]
            time[k], level[k] = end, level[k - 1]
            size += 1
            k += 1
        for m in range(k - 1, size):
            level[m] += n
    return size


@kernel
def copied(steps, size):
    """Begin a plan at the steps of the running jobs; how many."""
    for i in range(size):
        steps.time[PLAN, i], steps.free[PLAN, i] = steps.time[RUNNING, i], steps.free[RUNNING, i]
    for i in range(SIZES):
        steps.placed[i]["size"] = 0
    return size


@inlined
def _size_class(n):
    """Index of the power of two of a size, in `placed`."""
    c = 0
    while n > 1 and c < SIZES - 1:
        n, c = n >> 1, c + 1
    return c


@kernel
def earliest(steps, size, n, run):
    """Index of the first step of the plan from which n processors are free for `run` s; -1: never. No job starts before one
    that was placed earlier and is neither larger nor longer: as the plan grows, steps have ever less free."""
    time, level, i, top = steps.time[PLAN], steps.free[PLAN], 0, _size_class(n)
    for c in range(top + 1):
        x = steps.placed[c]
        if 0 < x["size"] <= n and x["run"] <= run:
            i = max(i, x["step"])
    while i < size:
        if level[i] < n:
            i += 1
            continue
        k, end = i + 1, time[i] + run
        while k < size and time[k] < end and level[k] >= n:
            k += 1
        if k == size or time[k] >= end:
            x = steps.placed[top]
            x["size"], x["run"], x["step"] = n, run, i
            return i
        i = k + 1
    return -1


@kernel
def occupy(steps, size, row, i, n, run):
    """Take n processors from step i of a row on, for `run` s; how many steps there are then."""
    time, level = steps.time[row], steps.free[row]
    k, end = i, time[i] + run
    while k < size and time[k] < end:
        level[k] -= n
        k += 1
    if k < size and time[k] == end:
        return size
    for m in range(size, k, -1):
        time[m], level[m] = time[m - 1], level[m - 1]
    time[k], level[k] = end, level[k - 1] + n
    return size + 1


@inlined
def place(steps, size, n, run):
    """(planned start in s, steps) of one more job of the plan; inf where it never fits: part of the machine is down."""
    i = earliest(steps, size, n, run)
    if i < 0:
        return np.inf, size
    at = steps.time[PLAN, i]
    return at, occupy(steps, size, PLAN, i, n, run)

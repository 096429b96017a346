"""The state as one matrix of rows of two: SEM (Li, Fan, Papka, Lan) and DRAS (Fan et al., IPDPS'21).

Both begin with the window, two rows a job: `[size / N, walltime]`, `[priority, wait]`. DRAS adds a row per node,
`[available, time until free]`; SEM a row per *running job*, `[size / N, remaining time]`. Times are days, at most 10
(`norm="raw"`: seconds and processors, as DRAS's code). Priority is 1 where a job takes at least 20 % of the machine;
or, with `priority = "queue"` (QOS of accounting), `partition`, `group`, `user` or `app`, where that number of the job is one
of `urgent`. On a machine of R resources SEM's rows have R sizes in front of the time (its future work: nodes, GPUs, burst
buffers), and the largest running jobs are those with the largest share of one. `levels` adds a last row `[1 where a job is
chosen to be backfilled, else 0; 0]`: DRAS has a network for each.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from jobwise.cluster import Cluster
from jobwise.compiled import inlined, kernel
from jobwise.errors import InputError
from jobwise.worlds.encoder import Groups, Index
from jobwise.worlds.window.encoder import Encoder
from jobwise.worlds.window.tables import BEHIND

PRIORITY = 0.2  # share of the machine from which on a job has priority
COLUMNS = ("queue", "partition", "group", "user", "app")  # that may say it instead
QUEUE, PARTITION, GROUP, USER, APP = range(5)
MOST_URGENT = 64  # numbers of them
DAY, LONGEST = 86400.0, 10.0


def sem(
    cluster: Cluster,
    jobs: np.ndarray | None = None,
    window: int = 50,
    minimum: int = 0,
    largest: int = 40,
    rest: bool = False,
    norm: str = "day",
    levels: bool = False,
    priority: str = "size",
    urgent: Sequence[int] = (),
) -> Encoder:
    """SEM. `minimum` > 0: zero-padding, K = N // minimum rows in order of start, for a machine whose smallest job has
    `minimum` processors. Else: the `largest` running jobs, by size. `rest` adds a row for the running jobs that did not get
    one: their summed size, their size-weighted mean remaining time."""
    N, R = cluster.processors, len(cluster.resources)
    if minimum < 0 or minimum > N or largest < 1:
        raise InputError(f"encoder sem: minimum is 0 to {N} processors and largest at least 1, not {minimum} and {largest}")
    K = N // minimum if minimum else min(largest, N)
    settings = {"minimum": minimum, "largest": largest, "rest": rest, "norm": norm, "levels": levels}
    own, more = _priorities(priority, urgent)
    settings, scale = settings | own, (*_norm(norm), float(levels), float(K), float(minimum > 0), float(rest), *more)
    shape, work, nodes = (2 * window + K + rest + levels, R + 1), K + 1, N if minimum else 0
    return Encoder(
        name="sem",
        version=1,
        window=window,
        shape=shape,
        kernel=encode_sem,
        per_job=False,
        features=(),
        settings=settings,
        scale=scale,
        work=work,
        sees_running=True,
        nodes=nodes,
        bounds=_bounds(norm),
        groups=_groups(window, levels),
    )


def _groups(window: int, levels: bool) -> Groups:
    """Two rows of each waiting job, of which the wait is about time; the rest is about running jobs, or nodes."""
    wait = (slice(1, 2 * window, 2), -1)
    jobs: list[Index] = [(slice(0, 2 * window, 2), slice(None)), (slice(1, 2 * window, 2), slice(0, 1))]
    return {"queue": jobs, "time": [wait], "running": [(slice(2 * window, -1 if levels else None), slice(None))]}


def dras(
    cluster: Cluster, jobs: np.ndarray | None = None, window: int = 50, norm: str = "day", levels: bool = False,
    priority: str = "size", urgent: Sequence[int] = (),
) -> Encoder:  # fmt: skip
    """DRAS. A pool has no node numbers: running jobs fill the rows in order of start, free nodes follow."""
    N = cluster.processors
    if 2 * window + N > 1 << 20:
        raise InputError(f"encoder dras has a row per node; {N:,} are too many")
    shape, settings = (2 * window + N + levels, 2), {"norm": norm, "levels": levels}
    own, more = _priorities(priority, urgent)
    settings, scale = settings | own, (*_norm(norm), float(levels), *more)
    return Encoder(
        name="dras",
        version=1,
        window=window,
        shape=shape,
        kernel=encode_dras,
        per_job=False,
        features=(),
        settings=settings,
        scale=scale,
        work=N + 1,
        sees_running=True,
        nodes=N,
        bounds=_bounds(norm),
        groups=_groups(window, levels),
    )


def _priorities(priority: str, urgent: Sequence[int]) -> tuple[dict, tuple[float, ...]]:
    """(settings, numbers for the kernel) of who has priority; nothing where sizes say it. Raises InputError."""
    if priority == "size" and not len(urgent):
        return {}, ()
    if priority not in COLUMNS or not 1 <= len(urgent) <= MOST_URGENT or not all(isinstance(x, int) and x >= 0 for x in urgent):
        raise InputError(
            f"priority is {priority!r} with urgent = {list(urgent)[:8]}; expected is 'size' without, or one of "
            f"{', '.join(COLUMNS)} with 1 to {MOST_URGENT} numbers >= 0"
        )
    return {"priority": priority, "urgent": list(urgent)}, (float(COLUMNS.index(priority)), *map(float, urgent))


def _norm(norm: str) -> tuple[float, float]:
    if norm not in ("day", "raw"):
        raise InputError(f"norm is {norm!r}; it must be 'day' or 'raw'")
    return (DAY, 0.0) if norm == "day" else (1.0, 1.0)


def _bounds(norm: str) -> tuple[float, float]:
    return (0.0, LONGEST) if norm == "day" else (0.0, 1e12)


@inlined
def _time(t, unit):
    return t if unit == 1.0 else min(t / unit, LONGEST)


@inlined
def _number(job, column):
    """The number that a job has in a column."""
    if column == QUEUE:
        return job["queue"]
    if column == PARTITION:
        return job["partition"]
    if column == GROUP:
        return job["group"]
    return job["user"] if column == USER else job["app"]


@inlined
def _priority(job, moment, scale, at):
    """1 where a job has priority; scale[at:]: the column that says it, and its urgent numbers."""
    if len(scale) <= at:
        return 1.0 if np.float64(job["size"]) >= PRIORITY * moment["total"] else 0.0
    number, hit = np.float64(_number(job, scale[at])), 0.0
    for i in range(at + 1, len(scale)):
        if scale[i] == number:
            hit = 1.0
    return hit


@inlined
def _sizes(job, moment, raw, row):
    """Write a job's request or holding of each resource, as shares of the machine (or raw), in front of its time."""
    row[0] = np.float64(job["size"]) / (1.0 if raw else np.float64(moment["total"]))
    for r in range(1, len(row) - 1):
        row[r] = np.float64(job["more"][r - 1]) / (1.0 if raw else max(np.float64(moment["more_total"][r - 1]), 1.0))


@inlined
def _waiting(queue, moment, slots, e, unit, scale, at, rows):
    """The first 2 W rows of an observation."""
    W, last = slots.shape[1], rows.shape[1] - 1
    for i in range(W):
        for k in range(last + 1):
            rows[2 * i, k] = rows[2 * i + 1, k] = 0.0
        if i < moment["count"]:
            job = queue[e, slots[e, i]]
            _sizes(job, moment, scale[1] != 0.0, rows[2 * i])
            rows[2 * i, last] = _time(job["est"], unit)
            rows[2 * i + 1, 0] = _priority(job, moment, scale, at)
            rows[2 * i + 1, 1] = _time(moment["now"] - job["submit"], unit)


@inlined
def _level(moment, x):
    """The last row of x: is a job chosen to be backfilled?"""
    x[-1, :] = 0.0
    x[-1, 0] = 1.0 if moment["phase"] == BEHIND else 0.0


@inlined
def _before(x, y, by_size):
    if by_size and x["share"] != y["share"]:
        return x["share"] > y["share"]
    return x["start"] < y["start"] or (x["start"] == y["start"] and x["row"] < y["row"])


@kernel
def _first_running(running, count, most, by_size, order):
    """order[:k] = places of the first `most` running jobs by start, or by size and start; k."""
    k = 0
    for i in range(count):
        x = running[i]
        if k == most and not _before(x, running[order[k - 1]], by_size):
            continue
        at = min(k, most - 1)
        while at > 0 and _before(x, running[order[at - 1]], by_size):
            order[at] = order[at - 1]
            at -= 1
        order[at] = i
        k = min(k + 1, most)
    return k


@kernel
def _rest(running, moment, order, k, raw, row):
    """Write the holdings of running jobs without a row, of the resources besides the first, as shares."""
    row[:] = 0.0
    for r in range(1, len(row) - 1):
        units = 0.0
        for i in range(moment["running"]):
            units += running[i]["more"][r - 1]
        for i in range(k):
            units -= running[order[i]]["more"][r - 1]
        row[r] = units / (1.0 if raw else max(np.float64(moment["more_total"][r - 1]), 1.0))


@kernel
def encode_sem(running, moment, queue, slots, scale, work, out, first, last):
    """SEM's rows of two (Li, Fan, Papka, Lan): W waiting jobs take two rows each, K running jobs one each, the rest one. With R
    resources rows have R + 1 numbers: the sizes (or shares of each resource), then the time; in rows 2 i + 1 zeros behind two.

        2 i        size / N (or size), estimate / 1 day (or s)                of waiting job i
        2 i + 1    1 where it has priority, wait / 1 day (or s)            of waiting job i
        2 W + k    size / N (or size), time to the estimated end / 1 day      of running job k
        then       the other running jobs: their size / N, their mean time to the estimated end, by size (`rest`)
        last       1 behind a reservation, 0                                  (`levels`)

    Times in days are at most LONGEST. scale: time unit, raw?, levels?, K, zero-padding?, rest? Parameters: see `Encoder`.
    """
    unit, K, W = scale[0], np.int64(scale[3]), slots.shape[1]
    for e in range(first, last):
        m, x, order, last_column = moment[e], out[e], work[e], out.shape[2] - 1
        size = 1.0 if scale[1] else np.float64(m["total"])
        _waiting(queue, m, slots, e, unit, scale, 6, x)
        k = _first_running(running[e], m["running"], K, not scale[4], order)
        n_all = rest_all = 0.0
        if scale[5]:
            for i in range(m["running"]):
                job = running[e, i]
                n = np.float64(job["size"])
                n_all += n
                rest_all += n * _time(max(job["due"] - m["now"], 0.0), unit)
        for i in range(K):
            n = left = 0.0
            x[2 * W + i, :] = 0.0
            if i < k:
                job = running[e, order[i]]
                n, left = np.float64(job["size"]), _time(max(job["due"] - m["now"], 0.0), unit)
                _sizes(job, m, scale[1] != 0.0, x[2 * W + i])
                x[2 * W + i, last_column] = left
            n_all -= n
            rest_all -= n * left
        if scale[2]:
            _level(m, x)
        if scale[5]:
            _rest(running[e], m, order, k, scale[1] != 0.0, x[2 * W + K])
            x[2 * W + K, 0] = max(n_all, 0.0) / size
            x[2 * W + K, last_column] = max(rest_all, 0.0) / n_all if n_all > 0.5 else 0.0


@kernel
def encode_dras(running, moment, queue, slots, scale, work, out, first, last):
    """DRAS's rows of two (Fan et al., IPDPS'21): W waiting jobs take two rows each as in SEM, then a row per processor.

        2 W + p    1 where processor p is free, else 0; time to its estimated end / 1 day (or s; free: 0)
        last       1 behind a reservation, 0                                  (`levels`)

    scale: time unit, raw?, levels? Parameters: see `Encoder`.
    """
    unit, W = scale[0], slots.shape[1]
    for e in range(first, last):
        m, x, order = moment[e], out[e], work[e]
        _waiting(queue, m, slots, e, unit, scale, 3, x)
        k = _first_running(running[e], m["running"], m["total"], False, order)
        at = 2 * W
        for i in range(k):
            job = running[e, order[i]]
            left = _time(max(job["due"] - m["now"], 0.0), unit)
            for _ in range(job["size"]):
                x[at, 0], x[at, 1] = 0.0, left
                at += 1
        while at < out.shape[1]:
            x[at, 0], x[at, 1] = 1.0, 0.0
            at += 1
        if scale[2]:
            _level(m, x)

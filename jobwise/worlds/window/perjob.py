"""One row of features per job of the window: for networks that look at every job with the same eyes.

`rls`: the eight features of RLScheduler (Zhang et al., SC'20), as its code has them. `perjob`: our richer set, free of
scales, so that a policy can move from one machine to another.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from jobwise.cluster import Cluster
from jobwise.compiled import inlined, kernel
from jobwise.worlds.encoder import Groups, columns
from jobwise.worlds.window.encoder import Encoder
from jobwise.worlds.window.tables import BEHIND

RLS = ("wait", "walltime", "processors", "memory", "user", "group", "app", "fits")
RICH = (
    "log_walltime",
    "log_processors",
    "share",
    "log_area",
    "log_wait",
    "waited_part",
    "fits",
    "share_of_free",
    "queue",
    "free",
    "behind",
    "ends_in_time",
    "walltime_rank",
    "area_rank",
    "wait_rank",
)


PRICED = (*RICH, "price", "cheapest", "soon", "draw", "gain", "nobody")


TIME = ("wait", "log_wait", "waited_part", "wait_rank")  # what features are about: the jobs' waits,
RUNNING = ("fits", "share_of_free", "free", "running", "behind", "ends_in_time")  # what runs; all else: the jobs that wait


def about(features: Sequence[str]) -> Groups:
    """Return which features of a job are about the queue, about time, and about what runs."""
    kind = ["time" if f in TIME else "running" if f in RUNNING or f.startswith("free ") else "queue" for f in features]
    return columns({g: [k for k, x in enumerate(kind) if x == g] for g in ("queue", "time", "running")})


def rls(cluster: Cluster, jobs: np.ndarray | None = None, window: int = 128) -> Encoder:
    """RLScheduler's eight features, each clipped to 1 - 1e-5: wait / 12 h, walltime, processors, requested memory, user, group
    and executable as parts of the largest in the log (1 where the log has none), fits now."""
    scale = [1.0, -1.0, -1.0, -1.0, -1.0]
    if jobs is not None:
        scale = [max(float(jobs["walltime"].max()), 1.0)] + [float(jobs[k].max()) for k in ("user", "group", "app", "memory")]
    return Encoder(
        "rls", 2, window, (window, 8), encode_rls, features=RLS, scale=tuple(scale), bounds=(0.0, 1.0), groups=about(RLS)
    )


def rich(cluster: Cluster, jobs: np.ndarray | None = None, window: int = 128) -> Encoder:
    """Logarithms of walltime (s / 15 e-folds), processors, area (machine-hours), wait; the job against what is free and
    against the mean of the window; the queue, the machine, and the reservation it would start behind."""
    return Encoder("perjob", 1, window, (window, len(RICH)), encode_rich, features=RICH, groups=about(RICH))


def priced(cluster: Cluster, jobs: np.ndarray | None = None, window: int = 128) -> Encoder:
    """`perjob`, and what energy costs: the price now, the lowest of the next day and when it is; what each job draws against
    the mean of the log, a processor, and would save; whether a slot stands for nobody."""
    each = 1.0 if jobs is None else float(np.mean(jobs["draw"] / np.maximum(jobs["request"][:, 0], 1))) / 1e3
    more = columns({"price": [len(RICH) + k for k in range(5)]})
    scale, groups = (max(each, 1e-9),), about(RICH) | more
    return Encoder("priced", 1, window, (window, len(PRICED)), encode_priced, features=PRICED, scale=scale, groups=groups)


@inlined
def clear(out, work, e, count):
    """Zero the rows that the last observation filled and this one does not."""
    for i in range(count, work[e, 0]):
        for k in range(out.shape[2]):
            out[e, i, k] = 0.0
    work[e, 0] = count


TOP = 1.0 - 1e-5


@inlined
def _part(x, share):
    """x times share, at most TOP; TOP where the log has no such thing."""
    return np.float32(min(x * share, TOP)) if x >= 0 else np.float32(TOP)


@inlined
def _share(most):
    return 1.0 / most if most > 0 else np.inf


@kernel
def encode_rls(running, moment, queue, slots, scale, work, out, first, last):
    """RLScheduler's eight features of a job (SC'20, doi:10.1109/SC41405.2020.00035, and its code), each in 0 .. TOP.

        0  wait / 43,200 s                          4  user / largest user number of the log
        1  est / longest request of the log         5  group / largest group number
        2  size / processors                        6  app / largest app number
        3  memory / largest request for memory      7  TOP where the job fits now, else 0.00001

    3 to 6 are TOP where the log or the job has no such number. Parameters: see `Encoder`.
    """
    for e in range(first, last):
        m = moment[e]
        now, free = m["now"], m["free"]
        longest, machine = _share(scale[0]), _share(np.float64(m["total"]))
        users, groups, apps, memory = _share(scale[1]), _share(scale[2]), _share(scale[3]), _share(scale[4])
        clear(out, work, e, m["count"])
        for i in range(m["count"]):
            job, x = queue[e, slots[e, i]], out[e, i]
            n = job["size"]
            x[0] = np.float32(min((now - job["submit"]) * (1.0 / 43200.0), TOP))
            x[1] = _part(job["est"], longest)
            x[2] = _part(np.float64(n), machine)
            x[3] = _part(np.float64(job["memory"]), memory) if memory < np.inf else np.float32(TOP)
            x[4] = _part(np.float64(job["user"]), users) if users < np.inf else np.float32(TOP)
            x[5] = _part(np.float64(job["group"]), groups) if groups < np.inf else np.float32(TOP)
            x[6] = _part(np.float64(job["app"]), apps) if apps < np.inf else np.float32(TOP)
            x[7] = np.float32(TOP) if n <= free else np.float32(1e-5)


@kernel
def encode_rich(running, moment, queue, slots, scale, work, out, first, last):
    """Ours: 15 features of a job with size n, estimate r (s), wait w (s), on a machine of N processors, F of them free.

        0  ln r / 15                                          8  ln(1 + jobs queued) / 8
        1  ln n / ln N                                        9  F / N
        2  n / N                                             10  1 behind a reservation, else 0
        3  (ln r + ln n - ln N - 8.2) / 10 (8.2 = ln 1 h)    11  1 behind one where the job ends before it, else 0
        4  (ln(w + 60 s) - 4) / 10                           12  feature 0 less its mean over the window
        5  w / (w + r)                                       13  feature 3 less its mean
        6  1 where it fits now, else 0                       14  feature 4 less its mean
        7  n / F, at most 2

    All lie in -4 .. 4. Parameters: see `Encoder`.
    """
    for e in range(first, last):
        m = moment[e]
        now, free, total, count = m["now"], np.float64(m["free"]), np.float64(m["total"]), m["count"]
        clear(out, work, e, count)
        behind = m["phase"] == BEHIND
        size, crowd = np.log(max(total, 2.0)), np.log(1.0 + m["queued"]) / 8.0
        mean_r = mean_a = mean_w = 0.0
        for i in range(count):
            job, x = queue[e, slots[e, i]], out[e, i]
            n, r, w = np.float64(job["size"]), job["est"], now - job["submit"]
            log_r, log_n, log_w = np.log(r), np.log(max(n, 1.0)), np.log(w + 60.0)
            x[0] = log_r / 15.0
            x[1] = log_n / size
            x[2] = n / total
            x[3] = (log_r + log_n - size - 8.2) / 10.0
            x[4] = (log_w - 4.0) / 10.0
            x[5] = w / (w + r)
            x[6] = 1.0 if n <= free else 0.0
            x[7] = min(n / max(free, 1.0), 2.0)
            x[8] = crowd
            x[9] = free / total
            x[10] = 1.0 if behind else 0.0
            x[11] = 1.0 if behind and now + r <= m["shadow"] else 0.0
            mean_r += x[0]
            mean_a += x[3]
            mean_w += x[4]
        for i in range(count):
            x = out[e, i]
            x[12] = x[0] - mean_r / count
            x[13] = x[3] - mean_a / count
            x[14] = x[4] - mean_w / count


@kernel
def encode_priced(running, moment, queue, slots, scale, work, out, first, last):
    """The 15 features of `encode_rich`, and of the price p of a kWh, with m its mean over the next day:

        15  p / m - 1                                        18  W a processor / the mean of the log - 1
        16  its lowest of that day / m - 1                   19  the part of the job's cost that it would save then
        17  days until then                                  20  1 where the slot stands for nobody, else 0

    18 is at most 4. Parameters: see `Encoder`.
    """
    encode_rich(running, moment, queue, slots, scale, work, out, first, last)
    for e in range(first, last):
        m = moment[e]
        for i in range(m["count"]):
            job, x = queue[e, slots[e, i]], out[e, i]
            x[15] = min(max(m["price"] - 1.0, -4.0), 4.0)
            x[16] = min(max(m["cheapest"] - 1.0, -4.0), 4.0)
            x[17] = m["soon"]
            x[18] = min(job["draw"] / max(np.float64(job["size"]), 1.0) / scale[0] - 1.0, 4.0)
            x[19] = min(max(job["gain"], -4.0), 4.0)
            x[20] = 1.0 if job["row"] < 0 else 0.0


@kernel
def gather(out, counts, rows):
    """rows[:sum(counts)] = the rows of out [E, W, F] that show a job, one observation after the other; how many."""
    at = 0
    for e in range(len(counts)):
        for i in range(counts[e]):
            for k in range(out.shape[2]):
                rows[at, k] = out[e, i, k]
            at += 1
    return at


@kernel
def select(rows, first, counts, which, out):
    """out = the rows of the observations `which`, whose rows begin at first[which]; how many."""
    at = 0
    for b in range(len(which)):
        begin = first[which[b]]
        for i in range(begin, begin + counts[which[b]]):
            for k in range(rows.shape[1]):
                out[at, k] = rows[i, k]
            at += 1
    return at

"""Observation of MARS's model (Baheri, Guan, arXiv:2005.01584): RLScheduler's eight features, its cost, its class, its
bytes, and of the cluster five numbers, the same for every job of the window."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from jobwise.cluster import Cluster
from jobwise.compiled import inlined, kernel
from jobwise.errors import InputError
from jobwise.sim.random import mixed, unit
from jobwise.worlds.window.encoder import Encoder
from jobwise.worlds.window.perjob import RLS, about, clear
from jobwise.worlds.window.prices import CORE_HOUR, GB_HOUR, price
from jobwise.worlds.window.tables import BEHIND

FEATURES = (*RLS, "cost", "cpu", "memory_bound", "io_bound", "io", "free", "queue", "running", "behind", "ends_in_time")
OF_FLOWS = ("way", "longest_way", "ready_work", "ready_tasks")  # of a task's workflow
COSTS = ("price", "drawn")
PRICE, DRAWN = range(2)
TOP = 1.0 - 1e-5
COST, FITS = FEATURES.index("cost"), FEATURES.index("fits")


def mars(
    cluster: Cluster,
    jobs: np.ndarray | None = None,
    window: int = 128,
    logs: bool = True,
    cost: str = "price",
    core_hour: float = CORE_HOUR,
    gb_hour: float = GB_HOUR,
    flows: bool = False,
    resources: Sequence[str] = (),
) -> Encoder:
    """13 features of a job and 5 of the cluster; with `flows` 4 of its workflow, and 2 for each resource of the machine beside
    the first (`resources`, which must be the machine's where they are named), ours. `logs`: wait, walltime and processors as
    logarithms (False: as parts of 12 h and of the largest, as RLScheduler has them). `cost`: "price" (processors x walltime x
    the prices of a core-hour and of the memory requested, 0 to 1 over the window) or "drawn" (N(0.5, 0.15), as in the paper's
    experiments). Raises InputError."""
    if cost not in COSTS:
        raise InputError(f"encoder mars: cost is {cost!r}; it must be one of {', '.join(COSTS)}")
    if not (core_hour >= 0 and gb_hour >= 0 and core_hour + gb_hour < np.inf):
        raise InputError(f"encoder mars: prices are >= 0, not {core_hour:g} and {gb_hour:g}")
    further = cluster.resources[1:]
    if resources and tuple(resources) != further:
        raise InputError(f"encoder mars was made for {', '.join(resources)}; this machine has {', '.join(further) or 'none'}")
    scale, mean = [1.0, -1.0, -1.0, -1.0, -1.0], 0.0
    if jobs is not None and len(jobs):
        scale = [max(float(jobs["walltime"].max()), 1.0)] + [float(jobs[k].max()) for k in ("user", "group", "app", "memory")]
        known = jobs["memory"][jobs["memory"] > 0]
        mean = float(known.mean()) if len(known) else 0.0
    settings = {"logs": logs, "cost": cost, "core_hour": core_hour, "gb_hour": gb_hour} | ({"flows": True} if flows else {})
    settings |= {"resources": list(further)} if further else {}
    more = (float(flows), float(len(further))) if further else (1.0,) if flows else ()
    scaling = (float(logs), float(COSTS.index(cost)), core_hour, gb_hour, mean, *more)
    features = (*FEATURES, *(OF_FLOWS if flows else ()), *(f"{kind} {name}" for name in further for kind in ("asks", "free")))
    shape = (window, len(features))
    how: dict = {"settings": settings, "scale": (*scale, *scaling), "groups": about(features)}
    return Encoder("mars", 1, window, shape, encode_mars, features=features, **how)


@inlined
def _part(x, most):
    """x as a part of the most there is; TOP where the job or the log has no such number."""
    return min(x / most, TOP) if x >= 0 and most > 0 else TOP


@inlined
def drawn(est, size, user, app):
    """A cost from N(0.5, 0.15), in 0 to 1, that depends on these four alone."""
    x = np.uint64(np.int64(est * 8.0)) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(size) * np.uint64(0xD1B54A32D192ED03)
    x += np.uint64(np.int64(user) + 2) * np.uint64(0x2545F4914F6CDD1D) + np.uint64(np.int64(app) + 2)
    a, b = unit(mixed(x)), unit(mixed(x + np.uint64(0x9E3779B97F4A7C15)))
    z = np.sqrt(-2.0 * np.log(max(a, 1e-12))) * np.cos(2.0 * np.pi * b)
    return min(max(0.5 + 0.15 * z, 0.0), 1.0)


@kernel
def _costs(est, size, user, app, memory, kind, core_hour, gb_hour, out):
    for i in range(len(est)):
        if kind == DRAWN:
            out[i] = drawn(est[i], size[i], user[i], app[i])
        else:
            out[i] = price(est[i], np.float64(size[i]), memory[i], core_hour, gb_hour)


def costs(jobs: np.ndarray, encoder: Encoder) -> np.ndarray:
    """[J] what jobs cost, 0 to 1; prices as parts between the cheapest and the dearest of these jobs."""
    s, out = encoder.settings, np.empty(len(jobs))
    columns = [
        np.maximum(jobs["walltime"], 1.0),
        jobs["request"][:, 0],
        jobs["user"],
        jobs["app"],
        jobs["memory"].astype(float),
    ]
    _costs(*(np.ascontiguousarray(x) for x in columns), COSTS.index(s["cost"]), s["core_hour"], s["gb_hour"], out)
    if s["cost"] == "price":
        out = (out - out.min()) / max(np.ptp(out), 1e-12)
    return out


@kernel
def encode_mars(running, moment, queue, slots, scale, work, out, first, last):
    """18 numbers of a job with size n, estimate r (s), wait w (s), on a machine of N processors, F of them free.

         0  ln(w + 60 s), (x - 4) / 10; or w / 12 h         8  cost, 0 to 1
         1  ln r / 15; or r / longest request               9  1 where 10 and 11 are 0
         2  ln n / ln N; or n / N                          10  1 where it asks for more memory than the mean job, a processor
         3  memory / largest request                       11  1 where the bytes' are: never, for logs do not say
         4  user / largest user number                     12  bytes read and written / most: 0, the same
         5  group, 6 app: the same                         13  F / N                      14  jobs queued / 128, at most 4
         7  1 where it fits now, else 0                    15  jobs running / 128, at most 4
                                                           16  1 behind a reservation     17  1 if it ends before it

    18  ln(longest way from its begin) / 15              20  ln(work of the workflow's ready tasks, core-s) / 25
    19  the same of the workflow's ready task that has most   21  how many these are / jobs in the window

    and of each further resource, last: units asked for / units of the machine; units free / units of the machine.
    3 to 6 are TOP where the log or the job has no such number. Parameters: see `Encoder`.
    """
    logs, kind, core, gb = scale[5] > 0, scale[6], scale[7], scale[8]
    flows = len(scale) > 10 and scale[10] > 0
    for e in range(first, last):
        m = moment[e]
        now, free, total, count = m["now"], np.float64(m["free"]), np.float64(m["total"]), m["count"]
        clear(out, work, e, count)
        behind, wide = m["phase"] == BEHIND, np.log(max(total, 2.0))
        least, most = np.inf, 0.0
        for i in range(count):
            job = queue[e, slots[e, i]]
            p = price(job["est"], np.float64(job["size"]), np.float64(job["memory"]), core, gb)
            least, most = min(least, p), max(most, p)
        for i in range(count):
            job, x = queue[e, slots[e, i]], out[e, i]
            n, r, w = np.float64(job["size"]), job["est"], now - job["submit"]
            memory = np.float64(job["memory"])
            if logs:
                x[0], x[1], x[2] = (np.log(w + 60.0) - 4.0) / 10.0, np.log(r) / 15.0, np.log(max(n, 1.0)) / wide
            else:
                x[0], x[1], x[2] = min(w / 43200.0, TOP), min(r / scale[0], TOP), min(n / total, TOP)
            x[3] = _part(memory, scale[4])
            x[4] = _part(np.float64(job["user"]), scale[1])
            x[5] = _part(np.float64(job["group"]), scale[2])
            x[6] = _part(np.float64(job["app"]), scale[3])
            x[7] = 1.0 if n <= free else 0.0
            at, more = len(FEATURES) + (len(OF_FLOWS) if flows else 0), np.int64(scale[11]) if len(scale) > 11 else 0
            for r in range(more):
                most = max(np.float64(m["more_total"][r]), 1.0)
                x[at + 2 * r], x[at + 2 * r + 1] = job["more"][r] / most, m["more_free"][r] / most
                if job["more"][r] > m["more_free"][r]:
                    x[7] = 0.0
            if kind == DRAWN:
                x[8] = drawn(r, job["size"], job["user"], job["app"])
            else:
                p = price(r, n, memory, core, gb)
                x[8] = (p - least) / (most - least) if most > least else 0.0
            bound = scale[9] > 0 and memory > scale[9]
            x[9], x[10], x[11], x[12] = 0.0 if bound else 1.0, 1.0 if bound else 0.0, 0.0, 0.0
            x[13], x[14], x[15] = free / total, min(m["queued"] / 128.0, 4.0), min(m["running"] / 128.0, 4.0)
            x[16] = 1.0 if behind else 0.0
            x[17] = 1.0 if behind and now + r <= m["shadow"] else 0.0
            if flows:
                most_way, ready, tasks = np.float64(job["rank"]), 0.0, 0.0
                for k in range(count):
                    other = queue[e, slots[e, k]]
                    if k == i or (job["flow"] >= 0 and other["flow"] == job["flow"]):
                        most_way, tasks = max(most_way, np.float64(other["rank"])), tasks + 1.0
                        ready += other["est"] * other["size"]
                x[18], x[19] = np.log(np.float64(job["rank"]) + 1.0) / 15.0, np.log(most_way + 1.0) / 15.0
                x[20], x[21] = np.log(ready + 1.0) / 25.0, tasks / count

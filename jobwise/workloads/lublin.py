"""The Lublin-Feitelson workload model (JPDC 63(11), 2003, doi:10.1016/S0743-7315(03)00108-4):
sizes, run times, and arrivals with a daily cycle."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import lgamma

import numpy as np

from jobwise.cluster import pool
from jobwise.compiled import kernel
from jobwise.errors import InputError
from jobwise.sim.random import Seed
from jobwise.workload import Workload, workload


@dataclass(frozen=True)
class JobClass:
    """Parameters of one class of jobs, named as in the authors' program."""

    serial: float
    pow2: float
    ulow: float
    below: float  # log2 of the machine less log2 of the largest size
    umed: float  # log2 of the largest size less log2 of the middle one
    uprob: float
    a1: float
    b1: float
    a2: float
    b2: float
    pa: float
    pb: float
    aarr: float
    barr: float
    anum: float
    bnum: float
    arar: float


# fmt: off
BATCH = JobClass(
    serial=0.2927, pow2=0.6686, ulow=1.2, below=0.0, umed=2.0, uprob=0.875, a1=6.57, b1=0.823,
    a2=639.1, b2=0.0156, pa=-0.003, pb=0.6986, aarr=6.0415, barr=0.8531, anum=6.1271, bnum=5.2740, arar=1.0519)
INTERACTIVE = JobClass(
    serial=0.1541, pow2=0.625, ulow=1.0, below=1.5, umed=2.5, uprob=0.705, a1=3.8351, b1=0.6605,
    a2=7.073, b2=0.6856, pa=-0.0118, pb=0.9156, aarr=6.5510, barr=0.6621, anum=8.9186, bnum=3.6680, arar=0.9797)
TYPELESS = JobClass(
    serial=0.244, pow2=0.576, ulow=0.8, below=0.0, umed=2.5, uprob=0.86, a1=4.2, b1=0.94,
    a2=312.0, b2=0.03, pa=-0.0054, pb=0.78, aarr=10.2303, barr=0.4871, anum=8.1737, bnum=3.9631, arar=1.0225)
# fmt: on
LONGEST = 12.0  # ln of the longest run time (s)
WIDEST_GAP = 13.0  # ln of the longest time between two arrivals


def lublin(
    jobs: int = 10_000,
    procs: int = 256,
    seed: Seed = 0,
    *,
    classes: str = "typeless",
    umed: float | None = None,
    load: float | None = None,
    estimates: str = "exact",
    users: int = 0,
) -> Workload:
    """Return jobs of the model of Lublin and Feitelson for a pool of processors (JPDC 63(11), 2003).

    Parameters
    ----------
    jobs : int
        How many jobs.
    procs : int
        Processors of the machine.
    seed : int or sequence of int
        The same seed gives the same jobs.
    classes : {"typeless", "two"}
        One class of jobs, or batch and interactive ones (the column app says 0 or 1).
    umed : float, optional
        Log2 of the largest size less log2 of the middle one, 1.5 to 3.5; by default 2.5, of batch jobs 2.
    load : float, optional
        Offered load to which the gaps between arrivals are scaled; by default they stay as the model has them.
    estimates : {"exact", "users"}
        Jobs ask for their run time, or for it times U(1, 5), rounded up to 5, 15, 30, 60 minutes, then to hours.
    users : int
        How many users there are, Zipf-distributed; 0: users are unknown.

    Returns
    -------
    Workload

    Raises
    ------
    InputError
        A setting cannot be.
    """
    if jobs > 30_000_000:
        raise InputError(f"{jobs:,} jobs are too many to generate; at most 30,000,000")
    _check(jobs, procs, classes, estimates, umed, load)
    rng = np.random.default_rng(seed)
    parts = [TYPELESS] if classes == "typeless" else [BATCH, INTERACTIVE]
    times = [_arrivals(c, jobs, rng) for c in parts]
    kind = np.repeat(np.arange(len(parts)), jobs)
    submit = np.concatenate(times)
    if len(parts) > 1:
        order = np.argsort(submit, kind="stable")[:jobs]
        submit, kind = submit[order], kind[order]
    size, run = np.empty(jobs, np.int64), np.empty(jobs)
    for i, c in enumerate(parts):
        k = kind == i
        size[k] = _sizes(c, int(k.sum()), procs, umed, rng)
        run[k] = _run_times(c, size[k], rng)
    submit = np.floor(submit)
    if load is not None and jobs > 1:
        offered = float((size * run).sum() / (procs * max(submit[-1] - submit[0], 1.0)))
        submit = np.floor((submit - submit[0]) * offered / load)
    walltime = run if estimates == "exact" else user_estimate(run, rng)
    named = {"app": kind} if len(parts) > 1 else {}
    if users:
        named["user"] = _users(users, jobs, rng)
    return workload(submit, size, run, walltime, cluster=pool(procs), name=f"lublin-{procs}", **named)


def lublin_parts(
    jobs: int,
    procs: int,
    seed: int = 0,
    *,
    load: float | None = None,
    estimates: str = "exact",
    users: int = 0,
    rows: int = 1 << 20,
) -> Iterator[dict[str, np.ndarray]]:
    """The columns (submit, runtime, processors, walltime, user) of typeless jobs as `lublin` has them, `rows` at a time, each
    part with random numbers of its own: other jobs than `lublin` draws. With a `load` they are drawn twice."""
    _check(jobs, procs, "typeless", estimates, None, load)
    factor, first, last, work = 1.0, 0.0, 0.0, 0.0
    if load is not None:
        for k, part in enumerate(lublin_parts(jobs, procs, seed, rows=rows)):
            first = part["submit"][0] if k == 0 else first
            last, work = part["submit"][-1], work + float((part["processors"] * part["runtime"]).sum())
        factor = work / (procs * max(last - first, 1.0)) / load
    at = np.zeros(4)
    for k, count in enumerate(min(rows, jobs - done) for done in range(0, jobs, rows)):
        rng = np.random.default_rng([seed, k])
        submit = np.floor(_arrivals(TYPELESS, count, rng, at))
        size = _sizes(TYPELESS, count, procs, None, rng)
        run = _run_times(TYPELESS, size, rng)
        part = {"submit": np.floor((submit - first) * factor), "runtime": run, "processors": size}
        part["walltime"] = user_estimate(run, rng) if estimates == "users" else run
        if users:
            part["user"] = _users(users, count, rng).astype(np.int32)
        yield part


def _check(jobs: int, procs: int, classes: str, estimates: str, umed: float | None, load: float | None) -> None:
    """Raises InputError for jobs that the model cannot make."""
    if jobs < 1 or procs < 2:
        raise InputError(f"cannot generate {jobs} jobs for {procs} processors; at least 1 and 2 are needed")
    if classes not in ("typeless", "two") or estimates not in ("exact", "users"):
        raise InputError(f"classes is 'typeless' or 'two', estimates 'exact' or 'users'; got {classes!r}, {estimates!r}")
    if not 1.5 <= (umed or 2.5) <= 3.5 or (load is not None and not 0 < load < np.inf):
        raise InputError(f"umed must be 1.5 to 3.5 and load above 0; got {umed} and {load}")


def user_estimate(run: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Walltimes as users ask for them: run * U(1, 5), rounded up to 5, 15, 30, 60 minutes, then to hours (s)."""
    asked = run * rng.uniform(1, 5, len(run))
    steps = np.array([300.0, 900.0, 1800.0, 3600.0])
    small = steps[np.minimum(np.searchsorted(steps, asked), 3)]
    return np.where(asked <= 3600, small, np.ceil(asked / 3600) * 3600)


def _users(users: int, count: int, rng: np.random.Generator) -> np.ndarray:
    """Return numbers [count] of `users` users, Zipf-distributed."""
    weight = 1 / np.arange(1, users + 1)
    return rng.choice(users, count, p=weight / weight.sum())


def _sizes(c: JobClass, count: int, procs: int, umed: float | None, rng: np.random.Generator) -> np.ndarray:
    high = max(np.log2(procs) - c.below, c.ulow)
    middle = max(high - (umed or c.umed), c.ulow)
    u = rng.random(count)
    low = rng.random(count) < c.uprob
    x = np.where(low, rng.uniform(c.ulow, middle, count), rng.uniform(middle, high, count))
    x = np.where(u <= c.serial + c.pow2, np.round(x), x)
    size = np.where(u <= c.serial, 1, np.round(2.0**x))
    return np.clip(size, 1, procs).astype(np.int64)


def _gamma(shape: np.ndarray, scale: np.ndarray, limit: float, rng: np.random.Generator) -> np.ndarray:
    """Gamma variates, redrawn while above `limit`."""
    out = rng.gamma(shape, scale)
    while (bad := np.flatnonzero(out > limit)).size:
        out[bad] = rng.gamma(shape[bad], scale[bad])
    return out


def _run_times(c: JobClass, size: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    first = rng.random(len(size)) < np.clip(c.pa * size + c.pb, 0, 1)
    h = _gamma(np.where(first, c.a1, c.a2), np.where(first, c.b1, c.b2), LONGEST, rng)
    return np.maximum(np.floor(np.exp(h)), 1.0)


def _arrivals(c: JobClass, count: int, rng: np.random.Generator, at: np.ndarray | None = None) -> np.ndarray:
    """Arrival times (s from midnight): e^Gamma spread over half-hours in proportion to their share of the day's jobs. `at`
    [4]: where those before have ended, and then where these end."""
    weight = np.zeros(48)
    weight[(np.arange(11, 59) - 1) % 48] = _gamma_shares(c.anum, c.bnum, np.arange(11, 60) - 0.5)
    gaps = np.exp(_gamma(np.full(count, c.aarr * c.arar), np.full(count, c.barr), WIDEST_GAP, rng)) / 1800.0
    out = np.empty(count)
    _walk(gaps, weight / weight.mean(), np.zeros(4) if at is None else at, out)
    return out


def _gamma_shares(shape: float, scale: float, edges: np.ndarray) -> np.ndarray:
    """F(b) - F(a) between edges of the Gamma distribution, by Gauss-Legendre quadrature of its density."""
    nodes, weights = np.polynomial.legendre.leggauss(16)
    a, b = edges[:-1, None], edges[1:, None]
    x = (b - a) / 2 * nodes + (a + b) / 2
    density = np.exp((shape - 1) * np.log(x) - x / scale - lgamma(shape) - shape * np.log(scale))
    return ((b - a) / 2 * weights * density).sum(axis=1)


@kernel
def _walk(gaps, weight, at, out):
    """Spend each gap (in mean half-hours) along the day's half-hours, from `at` (0: midnight) on; out[i] s."""
    points, reminder, bucket, time = at[0], at[1], int(at[2]), at[3]
    for i in range(len(gaps)):
        points += gaps[i]
        d = 0.0
        while points > weight[bucket]:
            points -= weight[bucket]
            bucket = (bucket + 1) % 48
            d += 1800.0
        r = points / weight[bucket]
        time += d + 1800.0 * (r - reminder)
        reminder = r
        out[i] = time
    at[0], at[1], at[2], at[3] = points, reminder, bucket, time

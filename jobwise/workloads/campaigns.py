"""A generated log of a site with users: campaigns of jobs that resemble one another, requests that are far too long.

A *campaign* is a user's series of jobs of one application, submitted within hours, of one size and of nearly one run time. What
users ask for is a round limit per application, or the longest there is. Such habits are what forecasts of run times learn from
(Tsafrir, Etsion, Feitelson, TPDS 18(6), 2007; Zrigui et al., JPDC 2022); the Lublin-Feitelson model has none. The parameters
are assumptions, chosen by hand so that sizes, run times and requests look like those of public logs.
"""

from __future__ import annotations

import numpy as np

from jobwise.cluster import pool
from jobwise.errors import InputError
from jobwise.workload import Workload, workload

DAY, WEEK = 86_400.0, 604_800.0
LIMITS = 3600.0 * np.array([0.25, 0.5, 1, 2, 4, 8, 12, 24, 48])  # s that are asked for
LOOSE = (1.3, 2.0, 4.0, 10.0)  # times what an application usually takes
HOURS = np.array([1] * 7 + [2, 4, 6, 7, 7, 6, 7, 7, 7, 6, 5, 4, 3, 3, 2, 2, 1], float)  # campaigns that begin in each hour
SERIES = 15  # jobs of a campaign, on average
LARGEST = 4 * 3600.0  # s of the whole machine: a campaign is hardly larger
ALWAYS = 0.25  # of the users ask for the longest there is
WEEKEND = 0.35  # of the campaigns of a working day


def campaigns(jobs: int = 20_000, procs: int = 256, seed: int = 0, *, load: float = 0.9, users: int = 60) -> Workload:
    """Return a log of users who submit series of alike jobs, for a pool of processors.

    Parameters
    ----------
    jobs : int
        How many jobs.
    procs : int
        Processors of the machine.
    seed : int
        The same seed gives the same jobs.
    load : float
        Offered load.
    users : int
        How many users there are.

    Returns
    -------
    Workload

    Raises
    ------
    InputError
        A setting cannot be.
    """
    if not (1 <= jobs <= 10_000_000 and procs >= 2 and 1 <= users <= jobs and 0 < load < np.inf):
        raise InputError(
            f"cannot generate {jobs:,} jobs of {users:,} users for {procs} processors at a load of {load:g}; 1 to 10,000,000 "
            "jobs, at least as many as users, and 2 processors are needed"
        )
    rng = np.random.default_rng(seed)
    user, size, typical, spread, request = _applications(users, procs, rng)
    share = (1.0 / (1 + user) ** 0.8) * rng.exponential(1.0, len(user))  # how busy an application is: few users have most jobs
    count = rng.geometric(1 / SERIES, max(jobs, 64))
    app = rng.choice(len(user), len(count), p=share / share.sum())
    median = typical[app] * np.exp(0.35 * rng.standard_normal(len(count)))
    most = LARGEST * procs / np.maximum(size[app] * median, 1.0)
    count = np.maximum(np.minimum(count, most.astype(int)), 1)
    count = count[: int(np.searchsorted(np.cumsum(count), jobs)) + 1]
    app, median, of = app[: len(count)], median[: len(count)], np.repeat(np.arange(len(count)), count)[:jobs]
    fails = rng.beta(0.4, 3.0, len(count))  # share of a campaign's jobs that end at once
    run = median[of] * np.exp(spread[app][of] * rng.standard_normal(jobs))
    broken = rng.random(jobs) < fails[of]
    run = np.where(broken, rng.uniform(1.0, 60.0, jobs), run)
    walltime = request[app][of]
    run = np.round(np.clip(run, 1.0, walltime))
    wide = np.clip(size[app] * 2.0 ** rng.choice([-1, 0, 1], len(count), p=[0.15, 0.7, 0.15]), 1, procs // 2).astype(int)[of]
    span = float((run * wide).sum()) / (procs * load)
    gap = np.exp(rng.uniform(np.log(2.0), np.log(1200.0), len(count)))[of] * rng.exponential(1.0, jobs)
    first = np.concatenate([[0], np.cumsum(count)[:-1]])
    since = np.cumsum(gap)
    submit = _begins(len(count), span, rng)[of] + since - since[first[of]]
    order = np.argsort(submit, kind="stable")
    columns = {"user": user[app][of][order] + 1, "app": app[of][order] + 1}
    return workload(
        np.round(submit[order]), wide[order], run[order], walltime[order], cluster=pool(procs), name="campaigns", **columns
    )


def _applications(users: int, procs: int, rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    """Of each application: its user, size, typical run time (s), spread of run times in a campaign (of the logarithm), request
    (s)."""
    user = np.repeat(np.arange(users), rng.integers(1, 5, users))
    n = len(user)
    most = np.log2(max(procs // 4, 2))
    size = 2.0 ** np.clip(np.round(rng.gamma(1.6, 1.5, n)), 0, np.floor(most))
    typical = np.exp(np.clip(rng.normal(np.log(2400.0), 1.6, n), np.log(20.0), np.log(100_000.0)))
    asked = LIMITS[np.minimum(np.searchsorted(LIMITS, typical * rng.choice(LOOSE, n)), len(LIMITS) - 1)]
    longest = (rng.random(users) < ALWAYS)[user]  # who always asks for the longest
    return user, size, typical, rng.uniform(0.05, 0.45, n), np.where(longest, LIMITS[-1], asked)


def _begins(count: int, span: float, rng: np.random.Generator) -> np.ndarray:
    """[count] s: when campaigns begin within `span` s, by the hour of the day and the day of the week."""
    edges = np.arange(0.0, span + 3600.0, 3600.0)
    hour = (edges[:-1] // 3600 % 24).astype(int)
    weight = HOURS[hour] * np.where(edges[:-1] // DAY % 7 >= 5, WEEKEND, 1.0)
    whole = np.concatenate([[0.0], np.cumsum(weight)])
    return np.sort(np.interp(rng.uniform(0.0, whole[-1], count), whole, edges))

"""Predicted starts at a moment of a log that is replayed under a policy; what came of earlier predictions calibrates them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from jobwise.errors import InputError
from jobwise.jobs import blank_jobs
from jobwise.policies.names import resolve
from jobwise.simulate import simulate
from jobwise.starts.futures import FUTURES, PoolPlayer
from jobwise.starts.history import History
from jobwise.starts.predictor import Predictor, Starts
from jobwise.workload import Workload

EARLIER, FEW = 400, 16  # moments before at which starts are predicted, to calibrate by; of policies that are slow to play
MOST = 40_000  # jobs before that are remembered


@dataclass(frozen=True, eq=False)
class Moment:
    """A moment of a replayed log: predictions for those that wait, which row of the log is the first of the predictor's
    history, and when the waiting jobs started there [Q], s from now."""

    starts: Starts
    predictor: Predictor
    first: int
    came: np.ndarray


def when(
    log: Workload,
    policy: Any,
    at: float,
    *,
    more: tuple[int, float, int] | None = None,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> Moment:
    """Replay a log on a pool under `policy`, its jobs ended at their request, and predict the starts of the jobs that wait
    `at` s after its first submit. `more`: (processors, s, user) of one more job, which comes then. Raises InputError."""
    chosen = resolve(policy)
    if not log.cluster.is_pool:
        raise InputError(f"{log.name}: starts are predicted on pools of processors")
    if not 0 < at <= log.jobs["submit"][-1]:
        raise InputError(f"{log.name}: its jobs come from 0 to {log.jobs['submit'][-1]:,.0f} s; {at:,.0f} s is not in it")
    if more and more[0] > log.cluster.processors:
        raise InputError(f"{log.name}: the machine has {log.cluster.processors:,} processors; {more[0]:,} do not fit")
    r = simulate(log, chosen, kill_at_walltime=True)
    come = int(np.searchsorted(r.jobs["submit"], at, side="right"))
    first = max(come - MOST, 0)
    jobs = r.jobs[first:come]
    if more:
        jobs = np.append(jobs, _asked(jobs, at, *more))
    history, player = History(jobs, past=log.past if first == 0 else None), PoolPlayer(chosen, log.cluster, log.past)
    predictor = Predictor(history, player, FUTURES if player.fast else FUTURES // 4, seed)
    waited = np.flatnonzero((jobs["start"] > jobs["submit"] + 1.0) & (jobs["submit"] < at))[-EARLIER if player.fast else -FEW :]
    for n, j in enumerate(waited):
        predictor.at(float(jobs["submit"][j]), waited[n : n + 1])
        if progress:
            progress(n, len(waited))
    starts = predictor.at(at)
    return Moment(starts, predictor, first, jobs["start"][starts.rows] - at)


def _asked(like: np.ndarray, at: float, size: int, walltime: float, user: int) -> np.ndarray:
    """A row for a job that is submitted now."""
    job = blank_jobs(1).astype(like.dtype)
    job["submit"], job["walltime"], job["request"], job["user"] = at, walltime, size, user
    return job


def rows_of(m: Starts) -> list[dict]:
    """The predictions as JSON takes them, the first to start first; times in s from now."""
    table, out = m.drawn.history.jobs, []
    chances = {f"within_{h}h": m.within(3600.0 * h) for h in (1, 4, 24)}
    for i in np.argsort(m.quantiles[:, 2], kind="stable").tolist():
        job, q = table[m.rows[i]], m.quantiles[i]
        row: dict[str, Any] = {"job": int(m.rows[i]), "procs": int(job["request"][0]), "limit": float(job["walltime"])}
        row |= {"waited": float(m.now - job["submit"]), "start": float(q[2]), "start_80": [float(q[1]), float(q[3])]}
        row |= {"start_90": [float(q[0]), float(q[4])], **{k: float(x[i]) for k, x in chances.items()}}
        row |= {"end": float(m.ends[i]), "by_requests": float(m.requested[i])}
        out.append(row | {"ahead": m.ahead(i), "frees": m.frees(i)})
    return out

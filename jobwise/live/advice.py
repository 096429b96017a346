"""Advice for a site, from what its Slurm prints: whose rank a policy would change, whose time limits are too long, which lines
of slurm.conf would have done better. Nothing is written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from jobwise import metrics
from jobwise.errors import InputError
from jobwise.live.sources import Now
from jobwise.live.starts import Predicted
from jobwise.live.wishes import Wishes
from jobwise.policies.names import resolve
from jobwise.simulate import simulate
from jobwise.slurm.judge.tune import tune
from jobwise.slurm.read import conf
from jobwise.workload import Workload
from jobwise.workloads.transform import shake

FEW, USERS = 20, 5  # jobs of a user below which nothing is said; users that are looked at
ROOM, WORTH = 1.2, 0.6  # times the longest run; a limit is called too long where so much of it would do
REPLICAS, SHAKE_S = 4, 600.0
GAIN, GAIN_S = 0.05, 60.0  # of the mean wait, in every replica, that is worth telling


@dataclass(frozen=True)
class Limit:
    """A user whose jobs ask for far longer than they run. `share` of their limits would do for all of them; mean waits (s) of
    the user's recorded jobs as they are and with such limits, over replicas: (least, mean, most) of the change."""

    user: str
    jobs: int
    share: float
    present: float
    change: tuple[float, float, float]

    def words(self) -> str:
        """A paragraph for a mail to the user."""
        most, mean, least = (-x / 60.0 for x in self.change)
        used, ask = 100 * self.share / ROOM, 100 * self.share
        return (
            f"Dear {self.user}, your last {self.jobs:,} jobs ran for at most {used:.0f} % of their time limits. Had each asked "
            f"for {ask:.0f} % of it (a fifth more than the longest of them took), they would have waited {mean:,.0f} min less "
            f"on average ({least:,.0f} to {most:,.0f} in replays; {self.present / 60:,.0f} min now), for short jobs fit into "
            "more gaps."
        )


def ended(c: Now) -> Workload:
    """The jobs of a cluster that have ended, on its site, as if nothing of them had happened yet. Raises InputError where there
    are none."""
    rows = np.flatnonzero(~np.isnan(c.workload.jobs["end"]))
    if not len(rows):
        raise InputError(f"{c.name}: sacct tells of no job that has ended")
    w = c.workload.take(rows)
    w.jobs["start"] = w.jobs["end"] = np.nan
    return w


def limits(w: Workload, progress: Callable[[int, int], None] | None = None) -> list[Limit]:
    """Find users who would have waited less with shorter limits, alone: their recorded jobs are replayed under the site's
    Slurm, with the limits of one user changed at a time. `w`: jobs that have ended."""
    run, jobs = w.ends["runtime"], w.jobs
    used = run / np.maximum(jobs["walltime"], 1.0)
    candidates, names = [], w.names["user"]
    users, count = np.unique(jobs["user"], return_counts=True)
    for u in users[count >= FEW][np.argsort(-count[count >= FEW], kind="stable")][:USERS]:
        share = ROOM * float(used[jobs["user"] == u].max())
        if share <= WORTH:
            candidates.append((int(u), share))
    if not candidates:
        return []
    seeds = range(REPLICAS)
    base = [metrics.wait(simulate(shake(w, SHAKE_S, k), "slurm")) for k in seeds]
    out = []
    for n, (u, share) in enumerate(candidates):
        jobs = w.jobs.copy()
        mine = jobs["user"] == u
        jobs["walltime"][mine] = np.maximum(np.ceil(jobs["walltime"][mine] * share / 60.0) * 60.0, 60.0)
        other = replace(w, jobs=jobs)
        after, before = [], []
        for k in seeds:
            x = shake(other, SHAKE_S, k)
            of = x.jobs["user"] == u
            after.append(float(metrics.wait(simulate(x, "slurm"))[of].mean()))
            before.append(float(base[k][of].mean()))
        change = np.array(after) - before
        if (change < -np.maximum(GAIN * np.array(before), GAIN_S)).all():
            span = float(change.min()), float(change.mean()), float(change.max())
            out.append(Limit(names.get(u, str(u)), int(mine.sum()), share, float(np.mean(before)), span))
        if progress:
            progress(n + 1, len(candidates))
    return out


def moves(p: Predicted, policy: Any) -> list[dict]:
    """The waiting jobs whose place a policy would change: place by expected start now, place by the policy, the larger moves
    first. Raises InputError."""
    ids = [x["job"] for x in p.rows()]
    place = {id: k + 1 for k, id in enumerate(ids)}
    user = {x["job"]: x["user"] for x in p.rows()}
    ranked = [x for x in Wishes(resolve(policy), p.cluster).order if x["job"] in place]
    rows = [
        {"job": x["job"], "user": user[x["job"]], "place": place[x["job"]], "wanted": k + 1, "why": x["why"]}
        for k, x in enumerate(ranked)
        if place[x["job"]] != k + 1
    ]
    return sorted(rows, key=lambda x: -abs(x["place"] - x["wanted"]))


def lines(w: Workload, scale: float = 0.1, progress: Callable[[int, int], None] | None = None) -> tuple[list[str], str]:
    """(lines of a diff of slurm.conf, the verdict in words): what `tune` proposes; no lines where nothing is. Raises
    InputError."""
    tuned = tune(w, scale=scale, progress=progress)
    if not tuned.proposed:
        return [], tuned.sentence()
    old = conf.lines(tuned.settings, w.cluster.known_site.settings)
    return [*(f"-{x}" for x in old), *(f"+{x}" for x in tuned.proposed)], tuned.sentence()

"""The content of a page after one cycle: the models of the JSON API, and their filling."""

from __future__ import annotations

import time
from collections import defaultdict
from typing import Annotated

import numpy as np
from pydantic import BaseModel, Field

from jobwise.live.cycle import Turn
from jobwise.live.shadow import Shadow
from jobwise.live.starts import Predicted, in_words
from jobwise.policies.names import resolve
from jobwise.workload import Workload

Seconds = Annotated[float, Field(description="s from the cycle")]
LATELY_S = 86_400.0  # predictions of so long are scored; waits of so long are summed up
WAITS_S = (60, 600, 3600, 4 * 3600, 12 * 3600, 86_400, 3 * 86_400, 7 * 86_400)  # bounds of a histogram of waits


class Job(BaseModel):
    """A job that waits and may start; an array is shown by its first task."""

    job: int
    tasks: int
    name: str
    user: str
    partition: str
    qos: str
    cpus: int
    limit: Annotated[float, Field(description="time limit, s")]
    waited: Annotated[float, Field(description="s since it was submitted")]
    start: Seconds
    start_80: tuple[Seconds, Seconds]
    start_90: tuple[Seconds, Seconds]
    within_1h: Annotated[float, Field(description="probability that it starts within an hour")]
    within_4h: float
    within_24h: float
    end: Seconds
    slurm: Annotated[Seconds | None, Field(description="the start that Slurm plans; null: it plans none")]
    reason: Annotated[str, Field(description="why it waits, Slurm's word")]
    why: Annotated[str, Field(description="why it waits, in plain words")]
    ahead: Annotated[int, Field(description="jobs that start before it in most futures")]
    frees: Annotated[list[int], Field(description="running jobs that end before it starts in nearly all futures")]
    rank: Annotated[int | None, Field(description="1: the policy would start it first")]
    starts_now: Annotated[bool, Field(description="the policy would start it at once")]


class Held(BaseModel):
    """A job that waits and may not start yet."""

    job: int
    name: str
    user: str
    why: str


class User(BaseModel):
    """A user with jobs that wait. `rises`: places by which the policy would move them ahead on average (below 0: back)."""

    user: str
    jobs: int
    cpus: int
    start: Annotated[float, Field(description="median of their expected starts, s from the cycle")]
    rises: float | None


class Waits(BaseModel):
    """Waits of the jobs of a partition and a QOS that started within a day. `counts`: of those up to WAITS_S each, then above;
    `seconds`: of all together (null: a private page does not say); `users`: of how many."""

    partition: str
    qos: str
    counts: list[int]
    seconds: float | None
    users: int


class Score(BaseModel):
    """Scores of the predicted starts of the last day: median errors (s), shares of starts within the intervals."""

    predictions: int
    error: float | None = None
    error_planned: float | None = None
    slurm_error: float | None = None
    cover80: float | None = None
    cover90: float | None = None


class Steering(BaseModel):
    """The part of steering in the cycle."""

    span: int
    dry: bool
    changed: int


class State(BaseModel):
    """State and predictions of a cycle. `answers`: false while Slurm does not answer; all else is then of the last cycle."""

    cluster: str
    policy: str
    under: Annotated[str, Field(description="who is taken to decide where starts are predicted")]
    cycle: int
    time: Annotated[float, Field(description="s since 1970")]
    seconds: Annotated[float, Field(description="what the cycle took")]
    answers: bool = True
    problem: str = ""
    waiting: int
    held: int
    running: int
    cpus: int
    used: Annotated[int, Field(description="CPUs of running jobs")]
    slurm: Annotated[
        dict[str, float], Field(description="sdiag: threads, last main and backfill pass (s), jobs looked at")
    ] = {}
    score: Score | None = None
    steering: Steering | None = None
    jobs: list[Job] = []
    cannot_start: list[Held] = []
    users: list[User] = []
    waits: list[Waits] = []


def state_of(turn: Turn, p: Predicted, shadow: Shadow, steering: Steering | None = None) -> State:
    """Return what a page shows of a look at a cluster, its predictions and what a shadow made of it."""
    c = turn.now
    w, now = c.workload, c.now + c.workload.origin
    rank = {x["job"]: k + 1 for k, x in enumerate(shadow.order)}
    rows = p.rows()
    jobs = [Job(**x, rank=rank.get(x["job"]), starts_now=x["job"] in shadow.begin) for x in rows]
    running = c.live[~np.isnan(w.jobs["start"][c.live])]
    score = Score(**shadow.journal.score(now - LATELY_S)) if shadow.journal else None
    return State(
        cluster=c.name, policy=turn.wishes.policy.name, under=resolve(shadow.site).name, cycle=turn.n, time=now,
        seconds=time.monotonic() - turn.begun, problem=turn.problem,
        waiting=len(c.waiting), held=len(c.out), running=len(running), cpus=int(w.cluster.total[0]),
        used=int(w.jobs["request"][running, 0].sum()), slurm=c.diagnosis, score=score, steering=steering, jobs=jobs,
        cannot_start=[Held(job=x.id, name=x.name, user=x.user, why=in_words(x.reason)) for x in c.out.values()],
        users=_users(jobs), waits=waits_of(w, c.now),
    )  # fmt: skip


def waits_of(w: Workload, now: float) -> list[Waits]:
    """Return the waits of jobs that started within a day before `now` (s), by partition and QOS."""
    jobs, out = w.jobs[w.jobs["start"] > now - LATELY_S], []
    keys = np.stack([jobs["partition"], jobs["queue"]], axis=1)
    for partition, queue in np.unique(keys, axis=0).tolist():
        own = jobs[(keys == (partition, queue)).all(axis=1)]
        wait = own["start"] - own["submit"]
        counts = np.bincount(np.searchsorted(WAITS_S, wait), minlength=len(WAITS_S) + 1).tolist()
        names = [w.names.get(k, {}).get(x, "") for k, x in (("partition", partition), ("queue", queue))]
        out.append(
            Waits(partition=names[0], qos=names[1], counts=counts, seconds=float(wait.sum()), users=len(np.unique(own["user"])))
        )
    return out


def _users(jobs: list[Job]) -> list[User]:
    """Return the users of jobs (in order of expected start); users that the policy moves ahead most come first."""
    own: dict[str, list[tuple[Job, int | None]]] = defaultdict(list)
    ranked = sorted(x.rank for x in jobs if x.rank is not None)
    place = {rank: k for k, rank in enumerate(ranked)}  # of the jobs that are shown
    at = 0
    for x in jobs:
        own[x.user].append((x, None if x.rank is None else at - place[x.rank]))
        at += x.rank is not None
    out = []
    for user, items in own.items():
        rises = [r for _, r in items if r is not None]
        own_jobs = [x for x, _ in items]
        out.append(
            User(
                user=user,
                jobs=sum(x.tasks for x in own_jobs),
                cpus=sum(x.cpus * x.tasks for x in own_jobs),
                start=float(np.median([x.start for x in own_jobs])),
                rises=float(np.mean(rises)) if rises else None,
            )
        )
    return sorted(out, key=lambda u: (-(u.rises or 0.0), u.user))

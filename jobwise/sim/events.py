"""Events of jobs: submitted, started, stopped, in the order in which a scheduler learns of them; on a live cluster also
cancelled, while they waited.

The kernel lists the rows of the last advance (ENTERED, LEFT) and those that the scheduler started or paused before it (ACTS).
Compiled loops read the lists; a view carries the same as an array (`since`), and tables of jobs tell it, too (`of_table`).
"""

from __future__ import annotations

import numpy as np

from jobwise.compiled import inlined, kernel
from jobwise.jobs import CANCELLED, DONE, FAILED, QUEUED, RUNNING, STARTED, STOPPED, SUBMITTED, event_dtype
from jobwise.sim.state import ACTS, ENTERED, LEFT, State


@inlined
def run_time(job):
    """The run time (s) of a job that has stopped; NaN where it waits again."""
    return np.nan if np.isnan(job["end"]) else job["ran"]


@kernel
def at_advance(s, e, left, entered, out):
    """Write the stops and submits of the last advance into `out` [N], from these places of the kernel's lists on; how many."""
    sim, n = s.sims[e], 0
    for i in range(left, sim["left"]):
        j = s.lists[e, LEFT, i]
        out[n]["time"], out[n]["run"], out[n]["job"], out[n]["kind"] = sim["now"], run_time(s.jobs[e, j]), j, STOPPED
        n += 1
    for i in range(entered, sim["entered"]):
        j = s.lists[e, ENTERED, i]
        if np.isnan(s.jobs[e, j]["start"]):  # else it has been submitted before
            out[n]["time"], out[n]["run"], out[n]["job"], out[n]["kind"] = s.jobs[e, j]["queued"], np.nan, j, SUBMITTED
            n += 1
    return n


@kernel
def acts(s, e, first, last, time, out):
    """Write what the scheduler started and paused at `time`, from place `first` to `last` of the kernel's list, into `out`."""
    for i in range(first, last):
        act, x = s.lists[e, ACTS, i], out[i - first]
        x["time"], x["run"] = time, np.nan
        x["job"], x["kind"] = act if act >= 0 else ~act, STARTED if act >= 0 else STOPPED


def since(s: State, e: int, act: int = 0, left: int = 0, entered: int = 0, last: int | None = None) -> np.ndarray:
    """Return the events [N] in the lists of simulation `e`, from these places on: acts before the last advance (with `last`:
    the first `last` acts of this instant), stops, and submits."""
    sim = s.sims[e]
    count, time = (int(sim["acted"]), sim["before"]) if last is None else (last, sim["now"])
    out = np.empty(max(count - act, 0) + int(sim["left"] - left + sim["entered"] - entered), event_dtype)
    acts(s, e, act, count, float(time), out)
    first = max(count - act, 0)
    return out[: first + at_advance(s, e, left, entered, out[first:])]


def of_table(submit: np.ndarray, start: np.ndarray, end: np.ndarray, run: np.ndarray, until: float = np.inf) -> np.ndarray:
    """Return the events [N] of `event_dtype` in columns [J] of jobs, up to time `until` (s), in order: at one time
    stops (by row), submits, then starts. NaN: not yet."""
    J = len(submit)
    time = np.concatenate([end, submit, start])
    kind, job = np.repeat([STOPPED, SUBMITTED, STARTED], J), np.tile(np.arange(J), 3)
    past = np.flatnonzero(time <= until)
    turn = np.where((kind == STOPPED) & (np.tile(start, 3) == time), 3, kind)  # a job that ran for no time ends after its start
    order = past[np.lexsort((job[past], turn[past], time[past]))]
    out = np.empty(len(order), event_dtype)
    out["time"], out["kind"], out["job"] = time[order], kind[order], job[order]
    out["run"] = np.where(out["kind"] == STOPPED, run[out["job"]], np.nan)
    return out


def begun(jobs: np.ndarray) -> np.ndarray:
    """Return when the last run of each job [J] of a job table began, s; NaN where none did."""
    begun = np.where(np.isnan(jobs["end"]) | np.isnan(jobs["start"]), np.nan, jobs["end"] - jobs["ran"])
    rows = np.flatnonzero(jobs["status"] == RUNNING)
    begun[rows] = jobs["due"][rows] - np.maximum(np.maximum(jobs["walltime"][rows], 1.0) - jobs["ran"][rows], 1.0)
    return begun


def _eligible(jobs: np.ndarray) -> np.ndarray:
    """Return the time when each job [J] of a job table became eligible to start, s; of a restarted job its submit."""
    return np.where(np.isnan(jobs["queued"]) | (jobs["restarts"] > 0), jobs["submit"], jobs["queued"])


def so_far(jobs: np.ndarray, queue: np.ndarray, now: float) -> np.ndarray:
    """Return the events [N] up to `now` (s) that a job table [J] tells of; `queue`: rows that wait."""
    start = begun(jobs)
    eligible = np.isin(np.arange(len(jobs)), queue) | ~np.isnan(start)
    order = np.argsort(start, kind="stable")  # of jobs that end together the kernel ends the one first that started first
    submit, end = np.where(eligible, _eligible(jobs), np.nan), np.where(np.isnan(start), np.nan, jobs["end"])
    out = of_table(submit[order], start[order], end[order], jobs["ran"][order], now)
    out["job"] = order[out["job"]]
    return out


def between(status: np.ndarray, jobs: np.ndarray, now: float) -> np.ndarray:
    """Return the events [N] of `event_dtype` that lead from an earlier `status` [J] of jobs to their table [J] now, for a
    cluster that is looked at from time to time: starts and submits at their times, stops at `now` (s), when they are seen, in
    the order in which jobs ended; who waited and has failed without a start was cancelled."""
    new = jobs["status"]
    stop = np.flatnonzero((status == RUNNING) & np.isin(new, (QUEUED, DONE, FAILED)))
    quick = np.flatnonzero(~np.isin(status, (RUNNING, DONE, FAILED)) & np.isin(new, (DONE, FAILED)) & ~np.isnan(jobs["start"]))
    start = np.concatenate([np.flatnonzero((status != RUNNING) & (new == RUNNING)), quick])
    submit = np.flatnonzero(~np.isin(status, (QUEUED, RUNNING, DONE, FAILED)) & np.isin(new, (QUEUED, RUNNING, DONE, FAILED)))
    gone = np.flatnonzero((status == QUEUED) & (new == FAILED) & np.isnan(jobs["start"]))
    rows = submit, start, np.concatenate([stop, quick]), gone
    out = np.empty(sum(map(len, rows)), event_dtype)
    out["job"] = np.concatenate(rows)
    out["kind"] = np.repeat([SUBMITTED, STARTED, STOPPED, CANCELLED], [len(x) for x in rows])
    queued, at = _eligible(jobs), begun(jobs)
    out["time"] = np.concatenate([queued[submit], np.fmin(at[start], now), np.full(len(rows[2]) + len(gone), now)])
    out["run"] = np.where(out["kind"] == STOPPED, np.where(np.isnan(jobs["end"]), np.nan, jobs["ran"])[out["job"]], np.nan)
    is_stop, job = out["kind"] == STOPPED, out["job"]
    end, start = (np.where(is_stop, x[job], 0.0) for x in (jobs["end"], at))  # of those that ended together who started first
    return out[np.lexsort((job, start, end, (out["kind"] - 1) % 3, out["time"]))]

"""Windows of a log: many samples of it that do not overlap, and time-shifted replicas that chaos alone tells apart.

A *window* is `size` consecutive jobs. They do not meet an empty machine: as many jobs before them are replayed too, and not
counted (the first window of a log has none before it). No job arrives after the last one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from jobwise import metrics
from jobwise.record import Record
from jobwise.simulate import simulate
from jobwise.workload import Workload
from jobwise.workloads.transform import shake

SIZE, LEAST = 1024, 256  # jobs
SHAKE_S = 300.0  # at most
NUMBERS = ("bounded_slowdown", "wait", "p95_wait", "max_wait", "utilisation")


def size_for(jobs: int) -> int:
    """Jobs per window of a log of `jobs` jobs: SIZE; where that makes fewer than 16 windows fewer jobs, so that there are 16,
    or, of a log of less than 16 LEAST jobs, 12."""
    return max(min(SIZE, jobs // 16), min(LEAST, jobs // 12), min(2, jobs))


def begins(first: int, last: int, size: int, most: int | None = None) -> np.ndarray:
    """[W] first rows of the windows of `size` jobs in rows first .. last - 1; `most`: that many of them, evenly spread."""
    rows = np.arange(first, last - size + 1, size)
    return rows if most is None or len(rows) <= most else rows[np.linspace(0, len(rows) - 1, most).astype(int)]


def shifted(w: Workload, row: int, size: int, replicas: int, jitter_s: float, seed: int) -> list[Workload]:
    """The window of `size` jobs from `row` with what is replayed before it, `replicas` times time-shifted (0: as logged).
    Column `counted` marks the jobs that count."""
    begin = max(row - size, 0)
    part = w.take(slice(begin, row + size))
    part = replace(part, columns={"counted": np.arange(len(part)) >= row - begin})
    return [shake(part, jitter_s, [seed, row, k]) for k in range(replicas)] or [part]


@dataclass(eq=False)
class LogWindows:
    """The windows of a log with their replicas, as `shifted` makes them; each is made once in a process, and kept."""

    log: Workload
    size: int
    replicas: int
    jitter_s: float
    seed: int
    made: dict[int, list[Workload]] = field(default_factory=dict, repr=False)

    def of(self, row: int) -> list[Workload]:
        """Return the replicas of the window from `row`."""
        if row not in self.made:
            self.made[row] = shifted(self.log, row, self.size, self.replicas, self.jitter_s, self.seed)
        return self.made[row]

    def __getstate__(self) -> dict:
        return self.__dict__ | {"made": {}}


def numbers(r: Record) -> dict[str, float]:
    """NUMBERS of the jobs that count (all, where nothing is marked)."""
    counted = r.workload.columns.get("counted", np.ones(len(r.jobs), bool))[metrics.ran(r)]
    if not counted.any():
        return dict.fromkeys(NUMBERS, 0.0) | {"bounded_slowdown": 1.0}
    wait = metrics.wait(r)[counted]
    return {
        "bounded_slowdown": float(metrics.bounded_slowdown(r)[counted].mean()),
        "wait": float(wait.mean()),
        "p95_wait": float(np.quantile(wait, 0.95)),
        "max_wait": float(wait.max()),
        "utilisation": metrics.utilisation(r),
    }


def slowdowns(records: Sequence[Record]) -> np.ndarray:
    """[W] mean bounded slowdowns of the jobs that count."""
    return np.array([numbers(r)["bounded_slowdown"] for r in records])


def in_time(r: Record, blocks: int) -> np.ndarray:
    """[B] mean bounded slowdown of blocks of consecutive jobs; a job that never ran counts as 1."""
    slow = metrics.for_all(r, metrics.bounded_slowdown(r), 1.0)
    edges = np.linspace(0, len(slow), blocks + 1).astype(int)
    return np.add.reduceat(slow, edges[:-1]) / np.diff(edges)


def weighted_in_time(r: Record, blocks: int) -> np.ndarray:
    """[B] area-weighted response time of blocks of consecutive jobs, s; a job that never ran does not count."""
    weight = metrics.for_all(r, metrics.area(r), 0.0)
    response = weight * metrics.for_all(r, metrics.turnaround(r), 0.0)
    edges = np.linspace(0, len(weight), blocks + 1).astype(int)[:-1]
    return np.maximum(np.add.reduceat(response, edges) / np.maximum(np.add.reduceat(weight, edges), 1e-9), 1e-3)


def shake_for(w: Workload) -> float:
    """How far submits may be moved (s): at most SHAKE_S, and no further than the median gap between events (submits and ends)
    while jobs wait under FCFS with EASY. More would smooth the queue of a short log away."""
    r = simulate(w, "fcfs+easy")
    submit, start, end = r.jobs["submit"], np.sort(r.jobs["start"]), r.jobs["end"]
    when = np.unique(np.concatenate([submit, end[~np.isnan(end)]]))
    waiting = np.searchsorted(submit, when, side="right") - np.searchsorted(start, when, side="right")
    gaps = np.diff(when)
    busy = gaps[waiting[:-1] > 0]
    gaps = busy if len(busy) else gaps
    return float(min(SHAKE_S, np.median(gaps))) if len(gaps) else 0.0

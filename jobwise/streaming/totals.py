"""The metrics of a schedule that is seen a part at a time.

Means are exact to rounding: sums are kept in twice the precision. Quantiles are those of a sketch with logarithmic bins
(DDSketch: Masson et al., PVLDB 12(12), 2019), within ERROR of the value. The rest of `metrics.summary` is the same.
"""

from __future__ import annotations

import numpy as np

from jobwise import metrics
from jobwise.jobs import FAILED
from jobwise.record import Record
from jobwise.sim.pool.moving import BLOCKED, IDLE
from jobwise.streaming.sums import BINS, GAMMA, LEAST, add_all, count

MEANS = ("bounded_slowdown", "slowdown", "per_processor_slowdown", "wait", "turnaround")


class Sketch:
    """Quantiles of values >= 0 within ERROR."""

    def __init__(self):
        self._bins, self._smallest, self._largest = np.zeros(BINS, np.int64), np.inf, 0.0

    def add(self, values: np.ndarray) -> None:
        """Count more values [K] >= 0."""
        count(values, self._bins)
        self._smallest = min(self._smallest, float(values.min(initial=np.inf)))
        self._largest = max(self._largest, float(values.max(initial=0.0)))

    def quantile(self, q: float) -> float:
        """The value with a share q of the others below it, as numpy interpolates it."""
        upto = np.cumsum(self._bins)
        place = q * (upto[-1] - 1)
        bins = np.searchsorted(upto, [np.floor(place), np.ceil(place)], side="right")
        low, high = np.where(bins > 0, LEAST * 2 * GAMMA**bins / (GAMMA + 1), 0.0).clip(self._smallest, self._largest)
        return float(low + (high - low) * (place - np.floor(place)))


class Totals:
    """Totals of a schedule so far: `add` its jobs in order of the log, then read the `summary`."""

    def __init__(self):
        self._sums = np.zeros((len(MEANS) + 3, 2))
        self._sketches = {k: Sketch() for k in ("bounded_slowdown", "wait")}
        self._jobs, self._failed, self._backfilled, self._longest = 0, 0, 0, 0.0
        self._late = 0  # jobs that waited over a day
        self._ended, self._last = np.zeros(0), 0.0  # jobs that ended in each day; the last submit
        self._latest, self._end, self._users = -np.inf, 0.0, (np.zeros(0, np.int64), np.zeros(0), np.zeros(0))

    def add(self, r: Record) -> None:
        """Take in the next jobs of the log, as a record of them alone."""
        wait, slow = np.empty(len(r.jobs)), np.empty(len(r.jobs))
        add_all(r.jobs, self._sums, wait, slow)
        self._sketches["wait"].add(wait)
        self._sketches["bounded_slowdown"].add(slow)
        latest = np.maximum.accumulate(np.append(self._latest, r.jobs["start"]))
        self._backfilled += int((r.jobs["start"] < latest[:-1]).sum())
        self._latest, self._end = float(latest[-1]), max(self._end, float(r.jobs["end"].max()))
        self._jobs, self._failed = self._jobs + len(r.jobs), self._failed + int((r.jobs["status"] == FAILED).sum())
        self._longest = max(self._longest, float(wait.max()))
        ended = np.bincount((r.jobs["end"] // metrics.DAY_S).astype(int), minlength=len(self._ended))
        ended[: len(self._ended)] += self._ended.astype(int)
        self._ended, self._last = ended, float(r.jobs["submit"][-1])
        self._late += int((wait > metrics.DAY_S).sum())
        users, counts, slowdowns = self._users
        own = np.unique(r.jobs["user"])
        codes = np.searchsorted(own, r.jobs["user"])
        every, index = np.unique(np.concatenate([users, own]), return_inverse=True)
        self._users = (
            every,
            np.bincount(index, np.concatenate([counts, np.bincount(codes)])),
            np.bincount(index, np.concatenate([slowdowns, np.bincount(codes, slow)])),
        )

    def summary(self, area: np.ndarray, processors: int) -> dict[str, float]:
        """The keys of `metrics.summary`; `area` as a `Moving` keeps it."""
        if not self._jobs:
            return {"jobs": 0.0}
        *sums, used, response, waited = self._sums.sum(axis=1).tolist()
        mean = {k: x / self._jobs for k, x in zip(MEANS, sums, strict=True)}
        q = {k: [s.quantile(x) for x in (0.5, 0.95, 0.99)] for k, s in self._sketches.items()}
        span, blocked = self._end, float(area[BLOCKED].sum())
        _, counts, slowdowns = self._users
        return {
            "jobs": float(self._jobs),
            "bounded_slowdown": mean["bounded_slowdown"],
            "median_bounded_slowdown": q["bounded_slowdown"][0],
            "p95_bounded_slowdown": q["bounded_slowdown"][1],
            "p99_bounded_slowdown": q["bounded_slowdown"][2],
            "slowdown": mean["slowdown"],
            "per_processor_slowdown": mean["per_processor_slowdown"],
            "wait": mean["wait"],
            "median_wait": q["wait"][0],
            "p95_wait": q["wait"][1],
            "p99_wait": q["wait"][2],
            "max_wait": self._longest,
            "over_a_day": self._late / self._jobs,
            "turnaround": mean["turnaround"],
            "area_weighted_response": response / used if used > 0 else 0.0,
            "area_weighted_wait": waited / used if used > 0 else 0.0,
            "makespan": span,
            "utilisation": used / (processors * span) if span > 0 else 0.0,
            "throughput": self._jobs / span * 3600 if span > 0 else 0.0,
            "throughput_spread": metrics.spread(self._ended, int(self._last // metrics.DAY_S)),
            "processor_hours": used / 3600.0,
            "idle_processor_hours": processors * span / 3600.0 - used / 3600.0,
            "queue_length": mean["wait"] * self._jobs / span if span > 0 else 0.0,
            "fragmentation": float(area[IDLE].sum()) / processors / blocked if blocked > 0 else 0.0,
            "backfill_rate": self._backfilled / (self._jobs - 1) if self._jobs > 1 else 0.0,
            "user_fairness": metrics.jain(slowdowns / counts) if len(counts) > 1 else float("nan"),
            "preemptions": 0.0,
            "failed": float(self._failed),
        }

"""Data of a predictor of starts: the jobs seen so far, their groups, and the run times of ended jobs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from jobwise.jobs import FUTURE, QUEUED, RUNNING, past_dtype
from jobwise.starts import bags as bagging
from jobwise.starts.bags import Bags


@dataclass
class History:
    """Jobs in order of submit, as of `now`: `jobs` [J] of job_dtype; starts and ends (NaN where there is none) may lie in the
    future of `now`: they are not looked at until then. Jobs are as large as their first resource."""

    jobs: np.ndarray
    now: float = -np.inf
    past: np.ndarray | None = None  # [K] of past_dtype: ended before the first of `jobs`

    def __post_init__(self):
        before = np.zeros(0, past_dtype) if self.past is None else self.past
        jobs, n = self.jobs, len(before)
        user = np.concatenate([before["user"], jobs["user"]])
        size = np.concatenate([before["size"], jobs["request"][:, 0]])
        request = np.concatenate([before["walltime"], jobs["walltime"]])
        keys = np.stack([user, size, request.astype(np.int64)], axis=1)
        ids = np.stack(
            [
                np.unique(keys, axis=0, return_inverse=True)[1].ravel() if len(keys) else np.zeros(0, np.int64),
                np.unique(user, return_inverse=True)[1],
                np.unique(bagging.class_of(request, size), return_inverse=True)[1],
            ],
            axis=1,
        ).astype(np.int64)
        self.bags: Bags = bagging.empty(*(ids.max(axis=0) + 1 if len(ids) else (1, 1, 1)))
        bagging.learn(self.bags, np.arange(n), ids[:n], before["walltime"].astype(float), before["runtime"].astype(float))
        self.ids = ids[n:]
        self.run = jobs["end"] - jobs["start"]
        ended = np.flatnonzero(~np.isnan(jobs["end"]))
        self._by_end = ended[np.argsort(jobs["end"][ended], kind="stable")]
        self._ends, self._learnt = jobs["end"][self._by_end], 0

    def at(self, now: float) -> History:
        """Go on to `now` (s, not before the last one): what has ended by then is known."""
        to = int(np.searchsorted(self._ends, now, side="right"))
        bagging.learn(self.bags, self._by_end[self._learnt : to], self.ids, self.jobs["walltime"], self.run)
        self.now, self._learnt = now, max(to, self._learnt)
        return self

    def present(self) -> np.ndarray:
        """Rows, ascending, of the jobs that wait or run now."""
        known = slice(0, int(np.searchsorted(self.jobs["submit"], self.now, side="right")))
        return np.flatnonzero(~(self.jobs["end"][known] <= self.now))

    def table(self, rows: np.ndarray) -> np.ndarray:
        """[len(rows)] the jobs `rows` as they are now: waiting or running."""
        x = self.jobs[rows].copy()
        waits = ~(x["start"] <= self.now)
        x["status"] = np.where(waits, QUEUED, RUNNING)
        for key in ("start", "due"):
            x[key][waits] = np.nan
        x["due"][~waits] = x["start"][~waits] + np.maximum(x["walltime"][~waits], 1.0)
        x["queued"], x["end"], x["reserved"], x["ran"], x["held"], x["unmet"] = x["submit"], np.nan, np.nan, 0.0, -1, 0
        return x

    def copies(self, rows: np.ndarray, later: np.ndarray) -> np.ndarray:
        """[len(rows)] jobs like `rows`, submitted `later` [len(rows)] s after them: still to come."""
        x = self.jobs[rows].copy()
        x["submit"] += later
        x["status"], x["ran"], x["held"], x["unmet"] = FUTURE, 0.0, -1, 0
        for key in ("start", "end", "queued", "due", "reserved"):
            x[key] = np.nan
        return x

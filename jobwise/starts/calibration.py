"""Outcomes of earlier predictions: they stretch the intervals of the next, and choose which of two methods to show.

Times are waits from the moment of a prediction; errors are those of log(wait + 60 s), so that a minute counts little for a job
that waits for hours. A job that has not started yet is not left out (who starts soon is known soon, so that would make
intervals too short): its wait is at least its age (right-censored; Kaplan & Meier, JASA 53, 1958).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

OFFSET = 60.0  # s
LEVELS = (0.05, 0.1, 0.5, 0.9, 0.95)  # of the quantiles of a prediction
MIDDLE = 2
KEPT, RESIDUALS = 1500, 400  # predictions that stretch intervals, and that calibrate a forecast by requests
PSEUDO = 600.0  # predictions that say: do not stretch
WIDTH = 0.05  # of an interval's half, in logs, at least
LONGEST = 10  # a factor is at most so, and at least one over it
METHODS = SAMPLED, REQUESTED = range(2)


def logs(wait: np.ndarray) -> np.ndarray:
    """Logarithms of waits (s), a minute added."""
    return np.log(np.maximum(wait, 0.0) + OFFSET)


def waits(log: np.ndarray) -> np.ndarray:
    """The waits (s) of logarithms."""
    return np.maximum(np.exp(log) - OFFSET, 0.0)


def pinball(outcome: np.ndarray, quantiles: np.ndarray) -> np.ndarray:
    """[N] mean pinball loss at 10, 50 and 90 % of quantiles [N, LEVELS] of logarithms."""
    some = [1, 2, 3]
    miss = outcome[:, None] - quantiles[:, some]
    level = np.array(LEVELS)[some]
    return np.maximum(level * miss, (level - 1) * miss).mean(axis=1)


def quantile_of_censored(x: np.ndarray, known: np.ndarray, level: float) -> float:
    """The quantile of a distribution of which x [N] are values, or (where not `known`) what values are larger than."""
    order = np.lexsort((~known, x))
    x, known = x[order], known[order]
    left = np.cumprod(1.0 - known / np.arange(len(x), 0, -1))
    reached = np.flatnonzero((1.0 - left >= level - 1e-12) & known)
    return float(x[reached[0]] if len(reached) else x[-1])


@dataclass
class Calibration:
    """The last predictions: when they were made, of which job, by both methods, and what came of them."""

    job: list[int] = field(default_factory=list)
    made: list[float] = field(default_factory=list)  # s
    sampled: list[np.ndarray] = field(default_factory=list)  # [LEVELS] logarithms, before any stretch
    shown: list[np.ndarray] = field(default_factory=list)  # [METHODS, LEVELS] logarithms, as they would have been shown
    requested: list[float] = field(default_factory=list)  # logarithm
    outcome: list[float] = field(default_factory=list)  # logarithm; NaN: it has not started

    def add(self, now: float, job: int, sampled: np.ndarray, requested: float, shown: np.ndarray) -> None:
        """A prediction has been made; the oldest are forgotten."""
        for column, x in zip(self._columns(), (job, now, sampled, shown, requested, np.nan), strict=True):
            column.append(x)
            if len(column) > 2 * KEPT:
                del column[:KEPT]

    def _columns(self) -> tuple[list, ...]:
        return self.job, self.made, self.sampled, self.shown, self.requested, self.outcome

    def started(self, start: Callable[[int], float], now: float) -> None:
        """Take note of which jobs have started: `start` of a job, s; NaN or after `now` where it has not."""
        for i in [i for i, x in enumerate(self.outcome) if np.isnan(x)]:
            at = start(self.job[i])
            if at <= now:
                self.outcome[i] = float(logs(np.array(at - self.made[i])))

    def gone(self, jobs: set[int]) -> None:
        """These jobs will never start (they were cancelled): predictions about them are taken out."""
        for i in range(len(self.job) - 1, -1, -1):
            if self.job[i] in jobs:
                for column in self._columns():
                    del column[i]

    def factors(self, now: float) -> np.ndarray:
        """[LEVELS] by how much the distance of each quantile from the median is to be stretched."""
        out = np.ones(len(LEVELS))
        last = slice(-KEPT, None)
        outcome, made = np.array(self.outcome[last]), np.array(self.made[last])
        known = ~np.isnan(outcome)
        n = int(known.sum())
        if n == 0:
            return out
        quantiles = np.array(self.sampled[last])
        off = np.where(known, outcome, logs(now - made)) - quantiles[:, MIDDLE]
        for i, level in enumerate(LEVELS):
            if i == MIDDLE:
                continue
            half = np.maximum(np.abs(quantiles[:, i] - quantiles[:, MIDDLE]), WIDTH)
            x = quantile_of_censored(off / half, known, level) * (1 if i > MIDDLE else -1)
            out[i] = np.clip(x, 1 / LONGEST, LONGEST) ** (n / (n + PSEUDO))
        return out

    def stretched(self, sampled: np.ndarray, now: float) -> np.ndarray:
        """Quantiles [N, LEVELS] of logarithms, stretched about their median."""
        middle = sampled[:, MIDDLE : MIDDLE + 1]
        away = sampled - middle
        least = np.sign(np.arange(len(LEVELS)) - MIDDLE) * WIDTH
        away = np.where(np.abs(away) < WIDTH, least, away)
        return np.maximum(middle + away * self.factors(now), np.log(OFFSET))

    def residuals(self) -> np.ndarray:
        """[LEVELS] quantiles of the last errors of forecasts by requests."""
        outcome = np.array(self.outcome)
        known = np.flatnonzero(~np.isnan(outcome))[-RESIDUALS:]
        off = outcome[known] - np.array(self.requested)[known]
        return np.quantile(off, LEVELS) if len(off) else np.zeros(len(LEVELS))

    def better(self) -> int:
        """The method to show: sampled futures, unless requests have been clearly better lately."""
        outcome = np.array(self.outcome)
        known = np.flatnonzero(~np.isnan(outcome))[-RESIDUALS:]
        if len(known) < 30:
            return SAMPLED
        shown = np.array(self.shown)[known]
        worse = pinball(outcome[known], shown[:, SAMPLED]) - pinball(outcome[known], shown[:, REQUESTED])
        return REQUESTED if worse.mean() > 2.0 * worse.std(ddof=1) / np.sqrt(len(known)) else SAMPLED

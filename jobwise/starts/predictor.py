"""Predicted starts of all waiting jobs, with intervals, as time goes on: futures, calibration, the score of two methods."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from jobwise.jobs import RUNNING
from jobwise.starts import futures
from jobwise.starts.calibration import LEVELS, Calibration, logs, waits
from jobwise.starts.futures import Drawn, Player
from jobwise.starts.history import History

NEVER = 1e9  # s
RECORDED = 1  # predictions that are remembered of one instant: those of one queue go wrong together


@dataclass(frozen=True, eq=False)
class Starts:
    """Predictions of one instant for Q waiting jobs. `rows` [Q] of the history; times in s from `now`.

    `quantiles` [Q, LEVELS] of the wait still to come (5, 10, 50, 90, 95 %), of the method that is shown (`method`: SAMPLED or
    REQUESTED); `both` [METHODS, Q, LEVELS] of each; `futures` [K, Q] starts in each future; `requested` [Q] starts by requests;
    `ends` [Q] the median end; `sampled` [Q, LEVELS] quantiles of log waits over futures, not stretched; `recorded`: places of
    those that the calibration remembers. What starts in no future starts at NEVER.
    """

    now: float
    rows: np.ndarray
    quantiles: np.ndarray
    both: np.ndarray
    method: int
    futures: np.ndarray
    requested: np.ndarray
    ends: np.ndarray
    drawn: Drawn
    sampled: np.ndarray
    recorded: np.ndarray

    @property
    def running(self) -> int:
        """Return the number of running jobs."""
        return len(self.drawn.rows) - len(self.drawn.waiting)

    def within(self, seconds: float) -> np.ndarray:
        """Return [Q] the probabilities that jobs start within `seconds` s."""
        return (self.futures <= seconds).mean(axis=0)

    def ahead(self, i: int) -> int:
        """Return the number of other waiting jobs that start before the i-th, by the medians of their starts in the futures."""
        middle, ascending = self._medians
        return int(np.searchsorted(ascending, middle[i]))

    @cached_property
    def _medians(self) -> tuple[np.ndarray, np.ndarray]:
        """([Q] the median start of each job in the futures, the same ascending)."""
        middle = np.median(self.futures, axis=0)
        return middle, np.sort(middle)

    def frees(self, i: int, most: int = 3) -> list[int]:
        """Rows of running jobs that end before the i-th starts in nearly all futures: what it waits for, the largest first."""
        d, running = self.drawn, np.flatnonzero(self.drawn.table["status"] == RUNNING)
        end = d.table["start"][running] + d.run[:, running] - self.now
        sure = running[(end <= self.futures[:, [i]]).mean(axis=0) >= 0.9]
        return d.rows[sure[np.argsort(-d.table["request"][sure, 0], kind="stable")][:most]].tolist()


@dataclass
class Predictor:
    """Predicts starts, by futures that `player` plays; times must not go back. Same seed, same predictions. `calibration` may
    be that of another history: it knows jobs by their numbers `ids` [J] (None: their rows), and times from `origin` on (s)."""

    history: History
    player: Player
    count: int = futures.FUTURES
    seed: int = 0
    calibration: Calibration = field(default_factory=Calibration)
    ids: np.ndarray | None = None
    origin: float = 0.0

    def __post_init__(self):
        self._row = None if self.ids is None else {int(j): i for i, j in enumerate(self.ids)}

    def _start(self, id: int) -> float:
        """Return the start of a job, s from the calibration's time 0; NaN: it has not started, or is not there."""
        row = id if self._row is None else self._row.get(id, -1)
        return float(self.history.jobs["start"][row]) + self.origin if row >= 0 else np.nan

    def at(self, now: float, only: np.ndarray | None = None) -> Starts:
        """Predict the starts of the jobs that wait at `now`, or of those of them whose rows are in `only`."""
        h = self.history.at(now)
        self.calibration.started(self._start, now + self.origin)
        drawn = futures.draw(h, self.count, (self.seed, self._instant(now)))
        among = drawn.waiting
        if only is not None:
            among = among[np.isin(drawn.rows[among], only)]
        play = [self.player.play(x, among) - now for x in (drawn, drawn.alone())]
        starts, requested = np.nan_to_num(play[0], nan=NEVER), np.nan_to_num(play[1][0], nan=NEVER)
        q = np.quantile(logs(starts), LEVELS, axis=0, method="weibull").T if len(among) else np.zeros((0, len(LEVELS)))
        both = np.stack(
            [self.calibration.stretched(q, now + self.origin), logs(requested)[:, None] + self.calibration.residuals()]
        )
        method = self.calibration.better()
        rows = drawn.rows[among]
        rng = np.random.default_rng((self.seed, 1, self._instant(now)))
        recorded = rng.choice(len(rows), min(RECORDED, len(rows)), replace=False)
        for i in recorded.tolist():
            id = int(rows[i] if self.ids is None else self.ids[rows[i]])
            self.calibration.add(now + self.origin, id, q[i], float(logs(requested[i])), both[:, i])
        ends = np.median(starts + drawn.run[:, among], axis=0)
        return Starts(now, rows, waits(both[method]), waits(both), method, starts, requested, ends, drawn, q, recorded)

    @staticmethod
    def _instant(now: float) -> int:
        """A seed for what is drawn at this time."""
        return int(1000 * now) & 0xFFFFFFFFFFFF

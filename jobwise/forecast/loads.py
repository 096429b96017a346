"""Forecasting how a series goes on: what is asked, by which models, and how well they do on its last fifth.

A series is cut in time: 60 % to learn from, 20 % to choose the model and to measure how wide its intervals must be, 20 % to
report. At every sample all that has been seen up to it is known (rolling origin). Models forecast the change from the last
sample, in units of the series' own usual change, so that one model can serve many series.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from jobwise.errors import InputError, library
from jobwise.forecast.online import adaptive, lead

HORIZONS = (1, 6, 12, 36)  # steps
LAGS = 48  # samples that a model sees
EPOCHS = 6  # passes in which a recurrent network learns
COVERAGE = 0.9
PARTS = (0.6, 0.8)  # where learning and choosing end
LEAST = 200  # samples of a series


@dataclass(frozen=True, eq=False)
class Series:
    """A series on a grid: `begin` s, `step` s, `y` [T] with NaN where nothing is known."""

    name: str
    begin: float
    step: float
    y: np.ndarray

    @cached_property
    def known(self) -> np.ndarray:
        """[T] the last known value at each sample, what a scheduler has at hand."""
        at = np.where(np.isnan(self.y), 0, np.arange(len(self.y)))
        first = np.flatnonzero(~np.isnan(self.y))[:1]
        filled = self.y[np.maximum.accumulate(at)]
        return np.where(np.isnan(filled), self.y[first[0]] if len(first) else 0.0, filled)

    @property
    def cuts(self) -> tuple[int, int]:
        """Return the ends of learning and of choosing."""
        a, b = (int(p * len(self.y)) for p in PARTS)
        return a, b

    @property
    def day(self) -> int:
        """Samples in a day; 0 where a series has less than two of them to learn from."""
        day = round(86_400 / self.step)
        return day if day >= 2 and 2 * day <= self.cuts[0] else 0

    @cached_property
    def scale(self) -> float:
        """The usual size of a change, in the part to learn from."""
        x = self.known[: self.cuts[0]]
        usual = float(np.abs(np.diff(x)).mean()) if len(x) > 1 else 0.0
        return usual or float(np.abs(x).mean()) or 1.0

    def target(self, h: int, peak: bool = False) -> np.ndarray:
        """[T] the value h steps later (with `peak` the largest of the next h), NaN where it is not known."""
        T, out = len(self.y), np.full(len(self.y), np.nan)
        if h >= T:
            return out
        if not peak:
            out[: T - h] = self.y[h:]
            return out
        ahead = np.lib.stride_tricks.sliding_window_view(self.y[1:], h)
        some = ~np.isnan(ahead).all(axis=1)
        out[: len(ahead)][some] = np.nanmax(ahead[some], axis=1)
        return out


@dataclass(frozen=True, eq=False)
class Forecast:
    """Forecasts of a model at each sample of a series: point, low and high [T, H], the latter two before they are widened."""

    point: np.ndarray
    low: np.ndarray
    high: np.ndarray


Model = Callable[[Series], Forecast]


@dataclass(frozen=True)
class LoadScore:
    """Scores of a model on part of a series, at one horizon. `mase`: mean absolute error by persistence's; `pinball`: mean over
    the quantiles 0.05, 0.5, 0.95; `coverage` and `width` of the 90 % intervals, width by persistence's error; `under`: share of
    values above the forecast."""

    mae: float
    rmse: float
    mase: float
    pinball: float
    coverage: float
    width: float
    under: float
    samples: int


def intervals(s: Series, f: Forecast, horizons: Sequence[int], peak: bool = False, gamma: float = 0.02) -> np.ndarray:
    """[T, H, 2] intervals that cover 90 % of what comes: those of the forecast, widened (or narrowed) by adaptive conformal
    prediction with what was seen of the series so far."""
    pandas = library("pandas", "forecast")
    out = np.empty((len(s.y), len(horizons), 2))
    change = np.minimum(np.abs(np.diff(s.known, prepend=s.known[0])), 5 * s.scale)  # a jump is no reason for wide intervals
    scale = pandas.Series(change).ewm(alpha=0.05, adjust=False).mean().to_numpy() + 0.1 * s.scale
    least, most = np.minimum.accumulate(s.known), np.maximum.accumulate(s.known)
    room = 0.1 * (most - least) + 1e-12  # beyond all that was seen so far
    for k, h in enumerate(horizons):
        part = np.full((len(s.y), 2), np.nan)
        target = s.target(h, peak)
        late = np.full(len(s.y), np.nan)
        late[h:] = target[:-h] if h else target  # what is known at t of the forecast of t - h
        adaptive(late, f.low[:, k], f.high[:, k], scale, h, COVERAGE, gamma, 500, part)
        low = np.where(least >= 0, np.maximum(least - room, 0.0), least - room)  # shares and counts stay at 0 or above
        out[:, k] = np.clip(part, low[:, None], (most + room)[:, None])
    return out


def leader(s: Series, said: dict[str, Forecast], horizons: Sequence[int], peak: bool = False) -> Forecast:
    """At each sample the forecast of the model that has been nearest of late (errors fade with a time of 100 samples): models
    come and go with the state of what they forecast."""
    parts = list(said.values())
    out = Forecast(*(np.empty((len(s.y), len(horizons))) for _ in range(3)))
    for k, h in enumerate(horizons):
        target, late, at = s.target(h, peak), np.full(len(s.y), np.nan), np.zeros(len(s.y), np.int64)
        late[h:] = target[:-h]
        known = np.where(np.isnan(late), np.roll(np.stack([f.point[:, k] for f in parts]), h, axis=1).mean(axis=0), late)
        lead(known, np.stack([f.point[:, k] for f in parts], axis=1), h, 0.99, at)
        rows = np.arange(len(s.y))
        for array, name in ((out.point, "point"), (out.low, "low"), (out.high, "high")):
            array[:, k] = np.stack([getattr(f, name)[:, k] for f in parts])[at, rows]
    return out


def score(s: Series, f: Forecast, bounds: np.ndarray, k: int, h: int, part: slice, peak: bool = False) -> LoadScore | None:
    """Of horizon k on the samples of `part` whose target lies in it too; None where nothing changes there."""
    rows = np.arange(len(s.y))[part]
    rows = rows[rows + h < rows[-1] + 1] if len(rows) else rows
    y = s.target(h, peak)[rows]
    good = ~np.isnan(y) & ~np.isnan(bounds[rows, k, 0])
    rows, y = rows[good], y[good]
    if len(rows) < 20:
        return None
    base = float(np.abs(y - s.known[rows]).mean())
    if base == 0.0:
        return None
    e, low, high = y - f.point[rows, k], bounds[rows, k, 0], bounds[rows, k, 1]
    pin = [np.maximum(q * d, (q - 1) * d).mean() for q, d in ((0.05, y - low), (0.5, e), (0.95, y - high))]
    inside = (y >= low - 1e-9) & (y <= high + 1e-9)
    return LoadScore(
        float(np.abs(e).mean()), float(np.sqrt((e * e).mean())), float(np.abs(e).mean() / base), float(np.mean(pin)),
        float(inside.mean()), float((high - low).mean() / base), float((e > 0).mean()), len(rows),
    )  # fmt: skip


@dataclass(frozen=True)
class LoadForecasts:
    """Of one series: the model `chosen` on the second part, and for every model its scores by horizon on the second part
    (`choice`) and on the last one (`test`)."""

    series: str
    chosen: str
    choice: dict[str, dict[int, LoadScore]]
    test: dict[str, dict[int, LoadScore]]

    def mase(self, model: str, test: bool = True) -> float:
        """The geometric mean over the horizons."""
        errors = [max(x.mase, 1e-9) for x in (self.test if test else self.choice)[model].values()]
        return float(np.exp(np.log(errors).mean())) if errors else float("inf")


def told(s: Series, models: dict[str, Model], horizons: Sequence[int], peak: bool = False) -> dict[str, Forecast]:
    """Return the forecasts of every model, and where there are several of their leader."""
    said = {name: model(s) for name, model in models.items()}
    return said | ({"leader": leader(s, said, horizons, peak)} if len(said) > 1 else {})


def judged(s: Series, models: dict[str, Model], horizons: Sequence[int] = HORIZONS, peak: bool = False) -> LoadForecasts | None:
    """Forecast a series with every model and their `leader`, and choose one of them; None where the series does not change.
    Raises InputError for series that are too short."""
    if len(s.y) < max(LEAST, 10 * max(horizons)):
        raise InputError(
            f"{s.name}: {len(s.y):,} samples are too few for {max(horizons)} steps ahead: 10 times as many at least"
        )
    a, b = s.cuts
    choice: dict[str, dict] = {}
    test: dict[str, dict] = {}
    said = told(s, models, horizons, peak)
    for name, f in said.items():
        bounds = intervals(s, f, horizons, peak)
        for table, part in ((choice, slice(a, b)), (test, slice(b, None))):
            scores = {h: score(s, f, bounds, k, h, part, peak) for k, h in enumerate(horizons)}
            table[name] = {h: x for h, x in scores.items() if x}
    if not all(choice.values()) or not all(test.values()):
        return None
    judged_all = LoadForecasts(s.name, "", choice, test)
    best = min(said, key=lambda m: judged_all.mase(m, test=False))
    return LoadForecasts(s.name, best, choice, test)

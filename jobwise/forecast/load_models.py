"""Models that forecast series of telemetry: simple ones, and two that are learnt on the first part of many series at once."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from jobwise.errors import InputError, library, unknown
from jobwise.forecast.loads import HORIZONS, LAGS, Forecast, Model, Series
from jobwise.forecast.online import seasonal

ALPHAS = (0.05, 0.1, 0.2, 0.4, 0.7)
QUANTILES = (0.05, 0.5, 0.95)
ROWS = 100_000  # to learn from, at most
TREES = {"num_leaves": 31, "learning_rate": 0.08, "bagging_fraction": 0.7, "bagging_freq": 1, "verbose": -1}
ROUNDS = 120
WARM = 1000  # samples before the part to choose from, for which forecasts are made so that intervals know their errors
STILL = 0.8  # scales: a smaller change is none, for `steady`


def _point(x: np.ndarray) -> Forecast:
    return Forecast(x, x, x)


def persistence(s: Series, horizons: Sequence[int], peak: bool) -> Forecast:
    """Forecast that the load stays as it is now."""
    return _point(np.repeat(s.known[:, None], len(horizons), axis=1))


def naive(s: Series, horizons: Sequence[int], peak: bool) -> Forecast:
    """Forecast the load of a day before, or of now where there is no day before."""
    out = persistence(s, horizons, peak).point.copy()
    if s.day:
        filled = Series(s.name, s.begin, s.step, s.known)
        for k, h in enumerate(horizons):
            days = -(-h // s.day) * s.day
            out[days:, k] = filled.target(h, peak)[: len(s.y) - days]
    return _point(np.where(np.isnan(out), s.known[:, None], out))


def ewma(s: Series, horizons: Sequence[int], peak: bool) -> Forecast:
    """The exponentially weighted mean, as quick as did best on the first part."""
    pandas = library("pandas", "forecast")
    out, a, series = np.empty((len(horizons), len(s.y))), s.cuts[0], pandas.Series(s.y)
    for k, h in enumerate(horizons):
        y, best = s.target(h, peak)[: a - h], np.inf
        for alpha in ALPHAS:
            x = series.ewm(alpha=alpha, adjust=False, ignore_na=True).mean().to_numpy()
            error = np.nanmean(np.abs(y - x[: a - h])) if not np.isnan(y).all() else 0.0
            if error < best:
                best, out[k] = float(error), np.nan_to_num(x, nan=s.known[0])
    return _point(out.T)


def holt_winters(s: Series, horizons: Sequence[int], peak: bool) -> Forecast:
    """Additive, with a damped trend and the season of a day; its parameters from statsmodels, on the last 2,000 samples of the
    first part (four days at most are enough for the season)."""
    from statsmodels.tsa.holtwinters import ExponentialSmoothing

    a, m = s.cuts[0], s.day if 2 <= s.day <= 288 else 0
    x = s.known[max(a - max(2000, 4 * m), 0) : a]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            made = ExponentialSmoothing(
                x,
                trend="add",
                damped_trend=True,
                seasonal="add" if m else None,
                seasonal_periods=m or None,
                initialization_method="heuristic",
            )
            p = made.fit(minimize_kwargs={"options": {"maxiter": 50}}).params
        except (ValueError, FloatingPointError, np.linalg.LinAlgError):
            return ewma(s, horizons, peak)
    number = lambda k, other: float(p[k]) if np.isfinite(p.get(k, np.nan)) else other  # noqa: E731
    season = s.known[: max(m, 1)] - s.known[: max(m, 1)].mean() if m else np.zeros(1)
    out = np.empty((len(s.y), len(horizons)))
    gamma, phi = number("smoothing_seasonal", 0.0) if m else 0.0, number("damping_trend", 0.98)
    smoothing = number("smoothing_level", 0.5), number("smoothing_trend", 0.0), gamma, phi
    seasonal(s.y, smoothing, season.copy(), float(s.known[0]), np.array(horizons), peak, out)
    return _point(out) if np.isfinite(out).all() else ewma(s, horizons, peak)


def five_sigma(s: Series, horizons: Sequence[int], peak: bool) -> Forecast:
    """Mean and five standard deviations of the last LAGS samples: what is usual where memory is overcommitted (peaks alone)."""
    x = np.lib.stride_tricks.sliding_window_view(np.concatenate([np.full(LAGS - 1, s.known[0]), s.known]), LAGS)
    top = x.mean(axis=1) + 5 * x.std(axis=1)
    return _point(np.repeat(top[:, None], len(horizons), axis=1))


# ------------------------------------------------------------------ learnt on many series


def features(s: Series, h: int) -> np.ndarray:
    """[T, F] what a learnt model sees at each sample: the last LAGS values and means, ranges and slopes of them, all relative
    to the last value and by the series' scale; the same hour a day before; the time of the day and of the week."""
    x, scale = s.known, s.scale
    T = len(x)
    window = np.lib.stride_tricks.sliding_window_view(np.concatenate([np.full(LAGS - 1, x[0]), x]), LAGS)[:, ::-1]
    lags = (window - x[:, None]) / scale
    parts = [np.clip(lags[:, 1:], -50, 50)]
    for n in (6, 12, LAGS):
        w = lags[:, :n]
        parts += [w.mean(axis=1)[:, None], w.std(axis=1)[:, None], w.max(axis=1)[:, None], w.min(axis=1)[:, None]]
    day = np.zeros(T)
    if s.day:
        days = -(-h // s.day) * s.day
        day[days - h :] = (x[: T - days + h] - x[days - h :]) / scale  # the value a day before the one asked for
        day[:days] = 0.0
    at = s.begin + s.step * (np.arange(T) + h)
    clock = [f(2 * np.pi * at / period) for period in (86_400.0, 604_800.0) for f in (np.sin, np.cos)]
    level = np.clip(x / scale, -1e3, 1e3)
    return np.column_stack([*parts, np.clip(day, -50, 50), *clock, level]).astype(np.float32)


NAMES = (
    [f"lag {i}" for i in range(1, LAGS)]
    + [f"{what} of {n}" for n in (6, 12, LAGS) for what in ("mean", "spread", "largest", "smallest")]
    + ["a day before", "sin day", "cos day", "sin week", "cos week", "level"]
)


def rows_of(series: Sequence[Series], h: int, peak: bool, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """(features [K, F], changes [K] in scales) of samples of the first parts, ROWS at most, the same share of every series."""
    rng, xs, ys = np.random.default_rng(seed), [], []
    each = max(ROWS // max(len(series), 1), 20)
    for s in series:
        y, a = s.target(h, peak), s.cuts[0]
        rows = np.flatnonzero(~np.isnan(y[: max(a - h, 0)]))
        rows = np.sort(rng.choice(rows, each, replace=False)) if len(rows) > each else rows
        if len(rows):
            xs.append(features(s, h)[rows])
            ys.append(np.clip((y[rows] - s.known[rows]) / s.scale, -50, 50))
    if not xs:
        raise InputError("no series has samples to learn from")
    return np.concatenate(xs), np.concatenate(ys)


@dataclass(frozen=True)
class Ridge:
    """Least squares on the features, of every series by itself, with as much shrinkage as did best on the last quarter of its
    first part."""

    horizons: Sequence[int]
    peak: bool = False

    def __call__(self, s: Series) -> Forecast:
        """Its forecast of a series."""
        out = np.empty((len(s.y), len(self.horizons)))
        for k, h in enumerate(self.horizons):
            x, y, a = features(s, h).astype(float), (s.target(h, self.peak) - s.known) / s.scale, s.cuts[0]
            rows = np.flatnonzero(~np.isnan(y[: a - h]))
            out[:, k] = s.known
            if len(rows) < LAGS:
                continue
            mean, spread = x[rows].mean(axis=0), x[rows].std(axis=0) + 1e-9
            z = np.column_stack([(x - mean) / spread, np.ones(len(x))])
            out[:, k] = s.known + s.scale * (z @ _shrunk(z[rows], np.clip(y[rows], -50, 50)))
        return _point(out)


def _shrunk(z: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The weights [F] of scikit-learn's ridge regression, with the shrinkage that did best on the last quarter."""
    Regression = library("sklearn.linear_model", "forecast").Ridge
    cut = int(0.75 * len(y))
    models = [Regression(alpha=shrink, fit_intercept=False) for shrink in (1.0, 10.0, 100.0, 1000.0, 1e4, 1e6)]
    errors = [np.abs(m.fit(z[:cut], y[:cut]).predict(z[cut:]) - y[cut:]).mean() for m in models]
    return models[int(np.argmin(errors))].fit(z, y).coef_


class Boosted:
    """LightGBM's quantile regression, one model per horizon and quantile for all series."""

    def __init__(
        self,
        series: Sequence[Series],
        horizons: Sequence[int],
        peak: bool = False,
        threads: int = 2,
        progress: Callable[..., None] | None = None,
    ):
        try:
            import lightgbm
        except ImportError:
            raise InputError("boosted trees take lightgbm: pip install 'jobwise[forecast]'") from None
        self.horizons, self.models = horizons, []
        self._last: tuple[Series | None, Forecast | None] = (None, None)
        for k, h in enumerate(horizons):
            x, y = rows_of(series, h, peak)
            data = lightgbm.Dataset(x, y, free_raw_data=False)
            made = [TREES | {"objective": "quantile", "alpha": q, "num_threads": threads, "seed": 0} for q in QUANTILES]
            self.models.append([lightgbm.train(p, data, ROUNDS) for p in made])
            if progress:
                progress(k + 1, len(horizons))

    def __call__(self, s: Series) -> Forecast:
        """Its forecast of a series, from WARM samples before the part to choose from on; before it nothing changes."""
        if self._last[0] is s and self._last[1] is not None:
            return self._last[1]
        first = max(s.cuts[0] - WARM, 0)
        out = np.repeat(s.known[None, :, None], len(QUANTILES), axis=0).repeat(len(self.horizons), axis=2)
        for k, h in enumerate(self.horizons):
            x = features(s, h)[first:]
            for q, m in enumerate(self.models[k]):
                out[q, first:, k] += s.scale * np.asarray(m.predict(x, num_threads=1))
        low, point, high = np.sort(out, axis=0)
        low[:first] = high[:first] = np.nan
        forecast = Forecast(point, low, high)
        self._last = s, forecast
        return forecast

    def steady(self, s: Series) -> Forecast:
        """Return its forecast with small changes taken for none: for series that mostly stand still."""
        f, now = self(s), s.known[:, None]
        return Forecast(np.where(np.abs(f.point - now) < STILL * s.scale, now, f.point), f.low, f.high)

    def explained(self, k: int, count: int = 8) -> list[tuple[str, float]]:
        """The features that the median of horizon k gains most from, with their shares."""
        gain = self.models[k][1].feature_importance("gain").astype(float)
        order = np.argsort(-gain)[:count]
        return [(NAMES[i], float(gain[i] / max(gain.sum(), 1e-12))) for i in order]


SIMPLE = {"persistence": persistence, "seasonal": naive, "ewma": ewma, "holt-winters": holt_winters, "five-sigma": five_sigma}


@dataclass(frozen=True)
class Simple:
    """A model of SIMPLE, by name."""

    name: str
    horizons: Sequence[int]
    peak: bool = False

    def __call__(self, s: Series) -> Forecast:
        """Its forecast of a series."""
        return SIMPLE[self.name](s, self.horizons, self.peak)


def models_for(
    series: Sequence[Series],
    names: Sequence[str],
    horizons: Sequence[int] = HORIZONS,
    peak: bool = False,
    progress: Callable[..., None] | None = None,
) -> dict[str, Model]:
    """The models of these names, those that are learnt fitted to the first parts of the series. Raises InputError."""
    models: dict[str, Model] = {}
    for name in names:
        if name in SIMPLE and (peak or name != "five-sigma"):
            models[name] = Simple(name, tuple(horizons), peak)
        elif name == "ridge":
            models[name] = Ridge(tuple(horizons), peak)
        elif name == "boosted":
            trees = Boosted(series, horizons, peak, progress=progress)
            models |= {name: trees, "steady": trees.steady}
        else:
            raise unknown(
                "model", name, ["persistence", "seasonal", "ewma", "holt-winters", "ridge", "boosted", "gru", "five-sigma"]
            )
    return models

"""Will a node fail within the next H steps? Features of its telemetry, models that say how likely it is, and what they are
worth.

Time is cut as for loads: 60 % to learn from, 20 % to calibrate, 20 % to report. A sample of a node that is down says nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from jobwise.errors import InputError, library, unknown
from jobwise.forecast.loads import PARTS
from jobwise.forecast.worth import Worth, best_theta, calibrated, worth

HORIZON = 20  # steps
SHORT, LONG = 10, 60  # windows of features, steps
ROWS = 300_000  # to learn from, at most; all failures, and of the others as many as have room
OF_METRIC = ("last", "slope", "mean", "spread", "largest", "growth", "ahead")


@dataclass(frozen=True, eq=False)
class NodeSamples:
    """Samples of N nodes: `values` [T, N, M] NaN where a sample is missing, `up` [T, N], `failure` [F, 2] (step, node)."""

    metrics: tuple[str, ...]
    values: np.ndarray
    up: np.ndarray
    failure: np.ndarray

    @property
    def cuts(self) -> tuple[int, int]:
        """Return the ends of learning and of calibration."""
        a, b = (int(p * len(self.values)) for p in PARTS)
        return a, b

    def label(self, horizon: int = HORIZON) -> np.ndarray:
        """[T, N] bool: does the node fail within the next `horizon` steps?"""
        out = np.zeros(self.up.shape, bool)
        for t, n in self.failure:
            out[max(t - horizon, 0) : t, n] = True
        return out & self.up


def features(x: NodeSamples, horizon: int = HORIZON) -> np.ndarray:
    """[T, N, F] of each metric, on the scale of its node in the part to learn from: last value, slope, mean, spread and
    largest of the last SHORT steps, growth of the mean since LONG steps ago, and how far it will be in `horizon` steps at this
    slope; and for how long the node has been up. Nothing after a step is used."""
    T, N, M = x.values.shape
    known = _held(x.values)
    part = known[: x.cuts[0]]
    z = (known - np.nanmedian(part, axis=0)) / (np.nanstd(part, axis=0) + 1e-9)
    z = np.clip(np.nan_to_num(z), -50, 50)
    total, square = (np.concatenate([np.zeros((1, N, M)), np.cumsum(v, axis=0)]) for v in (z, z * z))

    def mean(sums: np.ndarray, n: int) -> np.ndarray:
        first = np.maximum(np.arange(T) + 1 - n, 0)
        return (sums[1:] - sums[first]) / (np.arange(T) + 1 - first)[:, None, None]

    short, long = mean(total, SHORT), mean(total, LONG)
    spread = np.sqrt(np.maximum(mean(square, SHORT) - short**2, 0))
    pad = np.concatenate([np.repeat(z[:1], SHORT - 1, axis=0), z])
    window = np.lib.stride_tricks.sliding_window_view(pad, SHORT, axis=0)  # [T, N, M, SHORT]
    centre = np.arange(SHORT) - (SHORT - 1) / 2
    slope = window @ (centre / (centre**2).sum())
    parts = [z, slope, short, spread, window.max(axis=-1), short - long, short + slope * horizon]
    since = np.zeros((T, N))
    for t in range(1, T):
        since[t] = np.where(x.up[t], since[t - 1] + 1, 0)
    values = np.stack(parts, axis=3).reshape(T, N, M * len(parts))
    return np.concatenate([values, np.log1p(since)[:, :, None]], axis=2).astype(np.float32)


def names(metrics: Sequence[str]) -> list[str]:
    """Return the names of the features."""
    return [f"{m}: {k}" for m in metrics for k in OF_METRIC] + ["steps up"]


def _held(values: np.ndarray) -> np.ndarray:
    """Gaps filled with the last value known."""
    at = np.where(np.isnan(values), 0, np.arange(len(values))[:, None, None])
    return np.take_along_axis(values, np.maximum.accumulate(at, axis=0), axis=0)


# ------------------------------------------------------------------ models

Model = Callable[[np.ndarray], np.ndarray]  # features [K, F] -> scores [K], larger for those that fail


def threshold(x: np.ndarray, y: np.ndarray) -> Model:
    """The one feature, upwards or downwards, that tells failures best alone (area under precision and recall)."""
    average_precision_score = library("sklearn.metrics", "forecast").average_precision_score
    best, chosen = -1.0, (0, 1.0)
    for k in range(x.shape[1]):
        for sign in (1.0, -1.0):
            area = float(average_precision_score(y, sign * x[:, k]))
            if area > best:
                best, chosen = area, (k, sign)
    return lambda z: chosen[1] * z[:, chosen[0]].astype(float)


def logistic(x: np.ndarray, y: np.ndarray, shrink: float = 1.0) -> Model:
    """Logistic regression (scikit-learn's), failures and others of the same weight."""
    LogisticRegression = library("sklearn.linear_model", "forecast").LogisticRegression
    mean, spread = x.mean(axis=0), x.std(axis=0) + 1e-6

    def scaled(q: np.ndarray) -> np.ndarray:
        return np.clip((q - mean) / spread, -10, 10).astype(float)

    model = LogisticRegression(C=0.5 / shrink, class_weight="balanced", max_iter=1000).fit(scaled(x), y)
    return lambda q: model.decision_function(scaled(q))


def boosted(x: np.ndarray, y: np.ndarray) -> Model:
    """Return a model of LightGBM's trees."""
    try:
        import lightgbm
    except ImportError:
        raise InputError("boosted trees take lightgbm: pip install 'jobwise[forecast]'") from None
    how = {"objective": "binary", "num_leaves": 15, "learning_rate": 0.05, "min_data_in_leaf": 100, "verbose": -1, "seed": 0}
    how |= {"bagging_fraction": 0.7, "bagging_freq": 1, "feature_fraction": 0.8, "num_threads": 2}
    model = lightgbm.train(how, lightgbm.Dataset(x, y.astype(float)), 150)
    return lambda q: np.asarray(model.predict(q, raw_score=True))


MODELS = {"threshold": threshold, "logistic": logistic, "boosted": boosted}


@dataclass(frozen=True, eq=False)
class Risk:
    """A model that has been calibrated: `of` features gives the risk; what it is `worth`, and the risk [T, N] of every
    sample."""

    worth: Worth
    risk: np.ndarray

    def to_dict(self) -> dict:
        """Return what the forecasts are worth, as JSON takes it."""
        return asdict(self.worth)


def fitted(
    x: NodeSamples, model: str, horizon: int = HORIZON, step_s: float = 60.0, more: dict[str, Callable] | None = None
) -> Risk:
    """Fit a model to the first part, calibrate it on the second, measure it on the last. Raises InputError."""
    known = MODELS | (more or {})
    if model not in known:
        raise unknown("model", model, known)
    T, (a, b) = len(x.values), x.cuts
    if 2 * horizon > min(b - a, T - b):
        raise InputError(f"{T:,} steps are too few to look {horizon:,} ahead: ten times as many are needed in all")
    f, y = features(x, horizon), x.label(horizon)
    rows = np.flatnonzero(x.up[: a - horizon])
    inputs, failed = f[: a - horizon].reshape(-1, f.shape[2])[rows], y[: a - horizon].reshape(-1)[rows]
    last = y[b:] & x.up[b:]
    if failed.sum() < 20 or y[a:b].sum() < 20 or last.sum() < 20 or failed.all():
        raise InputError("too few failures: each part of the time (60, 20, 20 %) takes some")
    keep = np.flatnonzero(failed | (np.random.default_rng(0).random(len(failed)) < ROWS / len(failed)))
    score = known[model](inputs[keep], failed[keep])(f.reshape(-1, f.shape[2])).reshape(y.shape)
    risk = calibrated(score[a : b - horizon][x.up[a : b - horizon]], y[a : b - horizon][x.up[a : b - horizon]])(score)
    risk = np.where(x.up, risk, 0.0)
    theta = best_theta(y[a : b - horizon][x.up[a : b - horizon]], risk[a : b - horizon][x.up[a : b - horizon]])
    return Risk(worth(x, model, risk, theta, horizon, step_s), risk)

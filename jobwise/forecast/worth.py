"""Measures of failure risks: over samples, and over failures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import isotonic_regression

from jobwise.errors import library


@dataclass(frozen=True)
class Worth:
    """The worth of a model on the last part. `base`: share of samples before a failure. `theta`: the risk from which it is an
    alarm, of the best F1 where it was calibrated; from there on `precision` and `recall` of samples, `caught`: share of
    failures with an alarm before, `lead` median steps from the first of them, `false_alarms` a node and day (alarms in a
    row count once)."""

    model: str
    base: float
    auprc: float
    auroc: float
    brier: float
    theta: float
    precision: float
    recall: float
    f1: float
    caught: float
    lead: float
    false_alarms: float
    failures: int


def calibrated(score: np.ndarray, y: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """Scores as risks: isotonic regression, equal scores together; never quite 0 or 1."""
    s, place, count = np.unique(score, return_inverse=True, return_counts=True)
    p = isotonic_regression(np.bincount(place, y) / count, weights=count).x
    p = np.clip(p, 0.5 / len(y), 1 - 0.5 / len(y))
    return lambda q: np.interp(q, s, p)


def best_theta(y: np.ndarray, risk: np.ndarray) -> float:
    """The risk from which calling it an alarm has the best F1."""
    levels = np.unique(np.quantile(risk, np.linspace(0.5, 1, 200)))
    f1 = [2 * (y & (risk >= t)).sum() / max(y.sum() + (risk >= t).sum(), 1) for t in levels]
    return float(levels[int(np.argmax(f1))])


def worth(x: Any, model: str, risk: np.ndarray, theta: float, horizon: int, step_s: float) -> Worth:
    """Return the worth of risks [T, N] on the last part of `x`, a `failures.Nodes`. Measures of samples are scikit-learn's."""
    measure = library("sklearn.metrics", "forecast")
    b = x.cuts[1]
    end = len(risk) - horizon
    up, y = x.up[b:end], x.label(horizon)[b:end]
    r = risk[b:end]
    alarm = (r >= theta) & up
    leads = []
    events = [(t - b, n) for t, n in x.failure if b + horizon <= t < end]
    for t, n in events:
        before = np.flatnonzero(alarm[t - horizon : t, n])
        leads.append(horizon - before[0] if len(before) else 0)
    begins = alarm & ~np.concatenate([np.zeros((1, alarm.shape[1]), bool), alarm[:-1]])
    wrong = (begins & ~y).sum()
    hit, days = (alarm & y).sum(), up.sum() * step_s / 86_400
    precision, recall = hit / max(alarm.sum(), 1), hit / max(y.sum(), 1)
    caught = np.array(leads) > 0 if leads else np.zeros(1, bool)
    return Worth(
        model=model,
        base=float(y[up].mean()),
        auprc=float(measure.average_precision_score(y[up], r[up])) if y[up].any() else 0.0,
        auroc=float(measure.roc_auc_score(y[up], r[up])) if y[up].any() and not y[up].all() else 0.5,
        brier=float(measure.brier_score_loss(y[up], r[up])) if up.any() else float("nan"),
        theta=theta,
        precision=float(precision),
        recall=float(recall),
        f1=float(2 * precision * recall / max(precision + recall, 1e-12)),
        caught=float(caught.mean()),
        lead=float(np.median(np.array(leads)[caught])) if caught.any() else 0.0,
        false_alarms=float(wrong / max(days, 1e-9)),
        failures=len(events),
    )

"""Predict run times of jobs: requests, run-time history, and gradient-boosted quantiles (LightGBM), and their scores.

Every forecast is made when a job is submitted, from jobs that had ended by then as the log has it. The boosted quantiles are
learnt on the first part of a log; all are judged on the rest: accuracy, calibration, and drift from quarter to quarter.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from jobwise.errors import InputError
from jobwise.jobs import TAU
from jobwise.sim.memory.history import expected_at_submit
from jobwise.workload import Workload
from jobwise.workloads.transform import SEEN

QUANTILES = (0.1, 0.5, 0.9)
FEATURES = ("log request", "log processors", "ratio", "short", "log ratio", "completions", "user", "hour", "weekday")
LEAST = 200  # jobs to learn from


def features(w: Workload) -> np.ndarray:
    """[J, len(FEATURES)] of every job, at its submit."""
    out = np.empty((len(w), len(FEATURES)))
    clock = w.jobs["submit"] + (0.0 if np.isnan(w.origin) else w.origin)
    out[:, 0], out[:, 1] = np.log(np.maximum(w.jobs["walltime"], 1.0)), np.log(np.maximum(w.jobs["request"][:, 0], 1))
    out[:, 2:6], out[:, 6] = expected_at_submit(w.past, w.jobs, w.by_end), w.jobs["user"]
    out[:, 7], out[:, 8] = clock / 3600 % 24, clock / 86400 % 7 // 1
    return out


def calibration(w: Workload, bins: int = 10) -> dict[str, dict[str, dict[str, list[float]]]]:
    """Of what an index is made of, "ratio" (min(run / request, 1)) and "short" (10 / max(run, 10)), and of each forecast, on
    the jobs after the first 70 %: `told` and `was`, means of `bins` groups of jobs by forecast; `loss`, the cross-entropy of
    as many parts of time."""
    cut, last = int(SEEN * len(w)), w.ends
    run, request = last["runtime"], np.maximum(w.jobs["walltime"], 1.0)
    was = {"ratio": np.clip(run / request, 0, 1), "short": TAU / np.maximum(run, TAU)}
    said = {"history": features(w)[:, 2:4]}
    tables: dict = {}
    for k, (what, y) in enumerate(was.items()):
        for name, p in said.items():
            p, y_ = np.clip(p[cut:, k], 1e-4, 1 - 1e-4), y[cut:]
            groups = np.array_split(np.argsort(p, kind="stable"), bins)
            loss = -(y_ * np.log(p) + (1 - y_) * np.log(1 - p))
            tables.setdefault(what, {})[name] = {
                "told": [float(p[g].mean()) for g in groups],
                "was": [float(y_[g].mean()) for g in groups],
                "loss": [float(x.mean()) for x in np.array_split(loss, bins)],
            }
    return tables


def quantiles(
    x: np.ndarray,
    runtime: np.ndarray,
    request: np.ndarray,
    rows: np.ndarray,
    progress: Callable[[int, int], None] | None = None,
) -> np.ndarray:
    """[J, 3] QUANTILES of the run time (s) of every job, learnt on `rows`. Raises InputError without LightGBM."""
    try:
        import lightgbm
    except ImportError:
        raise InputError("boosted forecasts need lightgbm: pip install 'jobwise[forecast]'") from None
    target = np.log(np.maximum(runtime, 1.0)) - np.log(np.maximum(request, 1.0))
    tables = []
    for q in QUANTILES:
        settings = {"objective": "quantile", "alpha": q, "num_leaves": 31, "learning_rate": 0.05, "seed": 0}
        settings |= {"verbosity": -1, "deterministic": True, "force_row_wise": True, "num_threads": 2}
        data = lightgbm.Dataset(x[rows], target[rows], categorical_feature=[FEATURES.index("user")])
        tables.append(lightgbm.train(settings, data, num_boost_round=200).predict(x))
        if progress:
            progress(len(tables), len(QUANTILES))
    return np.exp(np.sort(np.stack(tables, axis=1), axis=1)) * np.maximum(request, 1.0)[:, None]


def judge(w: Workload, progress: Callable[[int, int], None] | None = None) -> list[dict]:
    """Of each forecast, on the jobs after the first 70 %: its accuracy (mean of min(p/a, a/p)), median error as a factor, share
    of jobs it lets run longer than forecast, coverage of its 80 % interval (NaN without), and accuracy by quarter."""
    cut = int(SEEN * len(w))
    if cut < LEAST or len(w) - cut < 8:
        raise InputError(f"{w.name}: {len(w)} jobs are too few to learn forecasts from and to judge them")
    x, request = features(w), np.maximum(w.jobs["walltime"], 1.0)
    last = w.ends
    run = np.maximum(last["runtime"], 1.0)
    rows = np.flatnonzero(last["end"][:cut] <= w.jobs["submit"][cut])
    if len(rows) < LEAST:
        raise InputError(
            f"{w.name}: only {len(rows)} of the first {cut} jobs had ended when the others came; {LEAST} are needed"
        )
    boosted = quantiles(x, run, request, rows, progress)
    said = {"requested": request, "history": x[:, 2] * request}
    said["boosted median"] = boosted[:, 1]
    results = []
    for name, p in said.items():
        accuracy = np.minimum(p / run, run / p)[cut:]
        inside = (run >= boosted[:, 0]) & (run <= boosted[:, 2]) if name.startswith("boosted") else np.full(len(w), np.nan)
        results.append(
            {
                "forecast": name,
                "accuracy": float(accuracy.mean()),
                "median_factor": float(np.exp(np.median(np.abs(np.log(p / run))[cut:]))),
                "exceeded": float((run > p * (1 + 1e-9))[cut:].mean()),
                "coverage": float(np.mean(inside[cut:])),
                "by_quarter": [float(a.mean()) for a in np.array_split(accuracy, 4)],
            }
        )
    return results

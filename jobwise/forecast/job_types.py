"""Predict the kind of a job without a given kind, from how much longer its user's past jobs ran packed and spread.

After CuSH's outlook ("unknown" jobs classified after a few executions). A classifier (LightGBM) sees n measured executions of
a user: the numbers that ran packed and spread, their mean and their largest stretch. Below three it predicts nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from jobwise.jobs import COMPUTE, DONE, NETWORK
from jobwise.simulate import simulate_many
from jobwise.workload import Workload
from jobwise.workloads.jobsets import cush
from jobwise.worlds.slots.policy import SlotsRule
from jobwise.worlds.slots.world import SlotsSettings

ENOUGH = 3  # executions
NOISE = 0.1  # run times are measured against what was expected, and vary: sigma of the log
FEATURES = ("packed", "mean packed", "most packed", "spread", "mean spread", "most spread")


@dataclass(frozen=True)
class Executions:
    """Past executions to draw from: for each kind, stretches (run time / length) where jobs ran packed, and spread."""

    of: dict[tuple[int, int], np.ndarray]

    def draw(self, kind: int, n: int, rng: np.random.Generator) -> np.ndarray:
        """Features [6] of a user of this kind with n executions, each packed or spread by a coin, measured with noise."""
        out = np.full(len(FEATURES), np.nan)
        way = rng.integers(0, 2, n)
        for p in (0, 1):
            known, count = self.of[kind, p], int((way == p).sum())
            x = known[rng.integers(len(known), size=count)] * np.exp(NOISE * rng.standard_normal(count))
            out[3 * p] = len(x)
            if len(x):
                out[3 * p + 1 : 3 * p + 3] = x.mean(), x.max()
        return out


@lru_cache(maxsize=2)
def executions(seed: int = 0, jobsets: int = 40) -> Executions:
    """Return what CuSH's jobs lose packed and spread, measured in simulations under SJF."""
    sets = [cush(50, 0.7, [seed, 77, i]) for i in range(jobsets)]
    runs = {}
    for p, placement in enumerate(("pack", "spread")):
        records = simulate_many(sets, SlotsRule(f"sjf+{placement}", SlotsSettings(reserve=False)))
        for kind in (COMPUTE, NETWORK):
            parts = []
            for r in records:
                good = (r.jobs["status"] == DONE) & (r.jobs["kind"] == kind)
                parts.append((r.jobs["end"] - r.jobs["start"])[good] / r.runtime[good])
            runs[kind, p] = np.concatenate(parts)
    return Executions(runs)


def _users(seed: int, count: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    """(features [count, 6], kinds [count]) of users with n executions."""
    rng, past = np.random.default_rng([seed, n]), executions()
    kinds = rng.integers(0, 2, count)
    return np.array([past.draw(int(k), n, rng) for k in kinds]), kinds


@lru_cache(maxsize=1)
def classifier() -> Any:
    """Trained on users with 1 to 40 executions. Raises InputError without LightGBM."""
    try:
        import lightgbm
    except ImportError:
        from jobwise.errors import InputError

        raise InputError("kinds are classified with lightgbm: pip install 'jobwise[forecast]'") from None
    parts = [_users(1, 400, n) for n in (1, 2, 3, 4, 6, 8, 12, 16, 24, 40)]
    x, y = np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts])
    data = lightgbm.Dataset(x, y, feature_name=[f.replace(" ", "_") for f in FEATURES])
    settings = {
        "objective": "binary",
        "num_leaves": 15,
        "learning_rate": 0.1,
        "verbose": -1,
        "num_threads": 1,
        "deterministic": True,
        "seed": 0,
    }
    return lightgbm.train(settings, data, 120)


def classify(features: np.ndarray) -> np.ndarray:
    """[B] COMPUTE or NETWORK; -1 with fewer than ENOUGH executions. features [B, 6]."""
    features = np.atleast_2d(features)
    said = (classifier().predict(features, num_threads=1) > 0.5).astype(int)
    return np.where(np.nansum(features[:, [0, 3]], axis=1) >= ENOUGH, said, -1)


def learning_curve(counts: Sequence[int] = (1, 2, 3, 5, 10, 20, 40), users: int = 1000) -> list[tuple[int, float, float]]:
    """Return (executions, accuracy over all users, share of users for which it predicts a kind) of unseen users."""
    accuracy = []
    for n in counts:
        x, y = _users(2, users, n)
        right = (classifier().predict(x, num_threads=1) > 0.5).astype(int) == y
        accuracy.append((int(n), float(right.mean()), float((classify(x) >= 0).mean())))
    return accuracy


def told(sets: Sequence[Workload], n: int, seed: int = 3) -> list[Workload]:
    """The jobsets with the kinds that the classifier says after n executions of each job's user (every job its own user)."""
    past, types = executions(), []
    for i, w in enumerate(sets):
        rng = np.random.default_rng([seed, n, i])
        jobs = w.jobs.copy()
        x = np.array([past.draw(int(k), n, rng) for k in w.truth["kind"]])
        jobs["kind"] = classify(x) if n >= ENOUGH else -1
        types.append(replace(w, jobs=jobs))
    return types

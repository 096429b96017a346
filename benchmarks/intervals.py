"""How often does an interval call a rule different from itself? Replicas of one rule, their submits shaken, compared in pairs.

    python -m benchmarks.intervals FOLDER_WITH_LOGS

A fair 95 % interval says so in 5 % of the trials.
"""

from __future__ import annotations

import sys
from itertools import combinations
from pathlib import Path

import numpy as np

import jobwise as jw
from jobwise import metrics
from jobwise.compare import ratio_interval
from jobwise.simulate import simulate_many
from jobwise.workloads.transform import shake, split

LOGS = ("SDSC-SP2-1998", "HPC2N-2002", "LANL-CM5-1994", "ALCF-Theta", "lublin_256")
REPLICAS, TRIALS, SIZE = 40, 200, 1024


def percentiles(base: np.ndarray, ours: np.ndarray) -> tuple[float, float]:
    """The interval that is usual: percentiles of resampled ratios."""
    draws = np.random.default_rng(0).integers(0, len(base), (1000, len(base)))
    low, high = np.quantile(ours[draws].mean(axis=1) / base[draws].mean(axis=1), [0.025, 0.975])
    return float(low), float(high)


def false_claims(log: jw.Workload, rule: str) -> dict[str, float]:
    """Share of the trials in which an interval of rule / rule excludes 1; each window draws its two replicas anew."""
    rows = range(0, len(log) - SIZE + 1, SIZE)
    parts = [log.take(slice(i, i + SIZE)) for i in rows]
    found = []
    for k in range(REPLICAS):
        records = simulate_many([shake(p, 300, [k, i]) for i, p in zip(rows, parts, strict=True)], rule)
        found.append([r.summary()["bounded_slowdown"] for r in records])
    found, rng, false = np.array(found), np.random.default_rng(0), {"bootstrap-t": 0.0, "percentiles": 0.0}
    every = np.arange(len(parts))
    for _ in range(TRIALS):
        one = rng.integers(0, REPLICAS, len(parts))
        other = (one + rng.integers(1, REPLICAS, len(parts))) % REPLICAS
        for name, interval in (("bootstrap-t", ratio_interval), ("percentiles", percentiles)):
            low, high = interval(found[one, every], found[other, every])
            false[name] += (low > 1 or high < 1) / TRIALS
    return false


def false_claims_continuous(log: jw.Workload, rule: str) -> float:
    """The same of continuous replays of the last 30 %, over blocks of time."""
    part = split(log)[1]
    edges = np.linspace(0, len(part), max(len(part) // SIZE // 2, 1) + 1).astype(int)
    found = []
    for k in range(20):
        slow = metrics.bounded_slowdown(jw.simulate(shake(part, 300, [k]), rule))
        found.append(np.add.reduceat(slow, edges[:-1]) / np.diff(edges))
    pairs = list(combinations(found, 2))
    intervals = [ratio_interval(a, b) for a, b in pairs]
    return float(np.mean([low > 1 or high < 1 for low, high in intervals]))


if __name__ == "__main__":
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "traces")
    for name in LOGS:
        for path in sorted(folder.glob(f"{name}*")):
            log = jw.read_swf(path)
            for rule in ("sjf+easy", "unicef+easy"):
                text = ", ".join(f"{name} {share:.1%}" for name, share in false_claims(log, rule).items())
                text += f"; continuous {false_claims_continuous(log, rule):.1%}"
                print(f"{log.name:36s} {rule:10s} {len(log) // SIZE:4d} windows: {text}", flush=True)

"""How often does an interval call a rule different from itself? Replicas of one rule, their submits shaken, compared in pairs.

    python -m benchmarks.intervals FOLDER_WITH_LOGS

A fair 95 % interval says so in 5 % of the trials.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import jobwise as jw
from jobwise.compare import ratio_interval
from jobwise.simulate import simulate_many
from jobwise.workloads.transform import shake

LOGS = ("SDSC-SP2-1998", "HPC2N-2002", "LANL-CM5-1994", "ALCF-Theta", "lublin_256")
REPLICAS, TRIALS, SIZE = 40, 200, 1024


def false_claims(log: jw.Workload, rule: str) -> float:
    """Share of the trials in which the interval of rule / rule excludes 1; each window draws its two replicas anew."""
    rows = range(0, len(log) - SIZE + 1, SIZE)
    parts = [log.take(slice(i, i + SIZE)) for i in rows]
    found = []
    for k in range(REPLICAS):
        records = simulate_many([shake(p, 300, [k, i]) for i, p in zip(rows, parts, strict=True)], rule)
        found.append([r.summary()["bounded_slowdown"] for r in records])
    found, rng, false = np.array(found), np.random.default_rng(0), 0
    every = np.arange(len(parts))
    for _ in range(TRIALS):
        one = rng.integers(0, REPLICAS, len(parts))
        other = (one + rng.integers(1, REPLICAS, len(parts))) % REPLICAS
        low, high = ratio_interval(found[one, every], found[other, every])
        false += low > 1 or high < 1
    return false / TRIALS


if __name__ == "__main__":
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "traces")
    for name in LOGS:
        for path in sorted(folder.glob(f"{name}*")):
            log = jw.read_swf(path)
            for rule in ("sjf+easy", "saf+easy"):
                print(f"{log.name:36s} {rule:10s} {len(log) // SIZE:4d} windows: {false_claims(log, rule):.1%}", flush=True)

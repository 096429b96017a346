"""A cap on power: how long a replay under it takes, and that it is never exceeded, over many simulated hours.

python -m benchmarks.power [--hours 1e6]

Writes benchmarks/POWER.md.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.markdown import page, table
from jobwise.cluster import nodes
from jobwise.power.prices import Stepwise
from jobwise.power.setting import powered
from jobwise.power.table import PowerTable
from jobwise.report.sections import made
from jobwise.simulate import simulate
from jobwise.workload import Workload
from jobwise.workloads.lublin import lublin
from jobwise.workloads.sites import generated
from jobwise.workloads.transform import scale_load

HERE = Path(__file__).parent / "POWER.md"
ORIGIN, HOUR = 1e9, 3600.0
POLICIES = ("fcfs+easy", "saf+easy", "wfp3+easy", "fcfs+conservative")
TABLE = PowerTable(idle=50, core=20, cores=4)


def drawn(seed: int, jobs: int, place: str) -> Workload:
    """A random log, each job of random power, on a pool, on nodes, or on a site; no job outlives its limit."""
    rng = np.random.default_rng(seed)
    if place == "site":
        w = generated(jobs, nodes=20, cpus=8, load=0.7, seed=seed)
    else:
        w = scale_load(lublin(jobs, procs=64, seed=seed, estimates="users"), 0.7)
    w = replace(w, cluster=nodes(16, processors=4)) if place == "nodes" else w
    truth = w.truth.copy()
    truth["runtime"] = np.minimum(truth["runtime"], np.maximum(w.jobs["walltime"], 1.0))
    whole = w.jobs["request"][:, 0] * (12.5 + 20 * rng.uniform(0.5, 1.5, len(w)))
    return replace(w, truth=truth, origin=ORIGIN, columns=w.columns | {"power": whole})


def capped(w: Workload, share: float, steps: int, seed: int = 0, swing: float = 0.1) -> Workload:
    """The log under a cap at a share of the full power; with `steps`, one that changes every few hours."""
    rng = np.random.default_rng(seed)
    value = share * w.cluster.processors * (12.5 + 20)
    time_ = np.array([-np.inf])
    values = np.array([value])
    if steps:
        length = float(w.jobs["submit"][-1]) * 1.2
        time_ = np.append(-np.inf, ORIGIN + np.sort(rng.uniform(0, length, steps)))
        values = value * (1.0 + swing * rng.uniform(-1.0, 1.0, steps + 1))
        values[-1] = value
    return powered(w, TABLE, cap=Stepwise(time_, values), predict=False)


HEADS = ["place", "scheduler", "logs", "simulated hours", "hours above the cap", "within 1 % of it"]


def hours(least: float) -> list[list[str]]:
    """Rows: place, policy, logs, simulated hours, hours above the cap, at the cap (above 99 % of it)."""
    rows = []
    print(" | ".join(HEADS), flush=True)
    every = [("pool", p) for p in POLICIES] + [("nodes", p) for p in POLICIES] + [("site", p) for p in ("slurm", "fcfs+easy")]
    for place, policy in every:
        total = above = close = 0.0
        seed = 0
        while total < least / len(every):
            jobs = {"pool": 20_000, "nodes": 4_000, "site": 4_000}[place] if "conservative" not in policy else 2_000
            x = capped(drawn(seed, jobs, place), 0.75, 0 if seed % 2 == 0 else 40, seed)
            e = simulate(x, policy).energy
            assert e is not None
            total += float(e.edge[-1]) / HOUR
            above += e.over(e.assumed)[0] + e.over(e.watts)[0]
            close += float(np.diff(e.edge)[e.watts > 0.99 * e.power.cap.at(ORIGIN + e.edge[:-1])].sum()) / HOUR
            seed += 1
        rows.append([place, f"`{policy}`", str(seed), f"{total:,.0f}", f"{above:g}", f"{close / total:.0%}"])
        print(" | ".join(rows[-1]), flush=True)
    return rows


def _best(w: Workload, policy: str, times: int = 5) -> float:
    out = []
    for _ in range(times):
        begun = time.perf_counter()
        simulate(w, policy)
        out.append(time.perf_counter() - begun)
    return min(out)


def speed() -> list[list[str]]:
    """Rows: place, policy, jobs, s without a cap, s with one, ratio: a constant one, and one of 40 steps."""
    rows = []
    for place, jobs, policies in (
        ("pool", 100_000, POLICIES[:3]),
        ("nodes", 5_000, POLICIES[1:2]),
        ("site", 10_000, ("slurm",)),
    ):
        w = drawn(1, jobs, place)
        for policy in policies:
            plain = _best(replace(w, columns={}), policy)
            some = [_best(capped(w, 0.9, steps), policy) for steps in (0, 40)]
            rows.append([place, f"`{policy}`", f"{len(w):,}", f"{plain:.3f}", *(f"{x:.3f} ({x / plain:.2f})" for x in some)])
            print(*rows[-1], flush=True)
    return rows


def main() -> int:
    """Write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hours", type=float, default=1e6)
    parser.add_argument("--out", type=page, help="the page; without it benchmarks/POWER.md")
    given = parser.parse_args()
    lines = [
        "# A cap on power",
        "",
        made("python -m benchmarks.power" + (f" --hours {given.hours:g}" if given.hours != 1e6 else "")),
        "",
        "Random logs of random power under caps at 75 % of the full power, without jobs that could never start then; every "
        "other one with a cap that changes 40 times. "
        "Hours above the cap are those by what jobs are assumed to draw and by what they do, which is the same here.",
        "",
        *table(HEADS, hours(given.hours)),
        "",
        "Seconds of a replay, the best of five, without a cap and under one at 90 % of the full power; in brackets how many "
        "times as long.",
        "",
        *table(["place", "scheduler", "jobs", "without", "a constant cap", "a cap of 40 steps"], speed()),
    ]
    (given.out or HERE).write_text("\n".join(lines) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

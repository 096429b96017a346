"""A compressed day on a real Slurm: multifactor priority alone, and steered by `jobwise`; the same jobs, several times.

python -m benchmarks.steer_live [--days 5] [--stretch 6] [--span 0] [--policy jobwise]     # writes benchmarks/STEER_LIVE.md

Private clusters of emulated nodes run side by side; the jobs are those of `benchmarks.when_live` (one seed a day, the same for
both), with all times `--stretch` times as long, so that waits pass the ten minutes below which no promise is made. Steering is
the command itself, `jobwise slurm steer`, every five seconds. Waits are those of accounting. The bound is what the promise of
`jobwise` is made of: 1.2 times the longest wait of the same jobs under FCFS with EASY (simulated, on the CPUs as one pool), and
of ten minutes at least.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from scipy.stats import t as student

from benchmarks.check_slurm import CPUS, NODES
from benchmarks.markdown import table
from benchmarks.slurm_cluster import PATHS, Cluster, folder_for, skipped
from benchmarks.when_live import ACCOUNTS, CONF, jobs
from jobwise import metrics
from jobwise.cluster import pool
from jobwise.report.sections import made
from jobwise.simulate import simulate
from jobwise.workload import workload

TAU = 10.0  # s
COLUMNS = "Submit,Start,End,AllocCPUS,TimelimitRaw"
PROMISE, LEAST = 1.2, 600.0  # of `jobwise`; s


def day(base: Path, seed: int, port: int, steer: list[str], stretch: int) -> dict[str, float]:
    """Run a day; `steer`: options of the command, none: Slurm alone. Mean wait (s), mean bounded slowdown, longest wait and
    the bound of the promise (s)."""
    cluster = Cluster(base / "cluster", port, CONF)
    process = None
    try:
        cluster.start(ACCOUNTS)
        env = cluster.env | {"PATH": f"{Path(sys.executable).parent}:{PATHS}"}
        if steer:
            words = ["jobwise", "slurm", "steer", "--state", str(base / "state"), "--every", "5s", *steer]
            process = subprocess.Popen(words, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(20.0)
        began = time.monotonic()
        for when, words in jobs(seed, stretch):
            time.sleep(max(began + when - time.monotonic(), 0.0))
            cluster.run("sbatch", "--parsable", *words)
        while cluster.run("squeue", "-h", "-o", "%i").split():
            time.sleep(2.0)
        time.sleep(3.0)  # accounting lags
        text = cluster.run("sacct", "-a", "-X", "-P", "-n", "-o", COLUMNS, SLURM_TIME_FORMAT="%s")
    finally:
        if process:
            (base / "state" / "stop").touch()
            process.wait(60)
        cluster.stop()
    x = np.array(sorted(line.split("|") for line in text.split()), float)
    wait, run = x[:, 1] - x[:, 0], x[:, 2] - x[:, 1]
    slow = np.maximum((wait + run) / np.maximum(run, TAU), 1.0)
    out = {"jobs": len(x), "wait": float(wait.mean()), "slowdown": float(slow.mean()), "longest": float(wait.max())}
    w = workload(x[:, 0] - x[0, 0], x[:, 3].astype(int), run, 60.0 * x[:, 4], cluster=pool(NODES * CPUS))
    return out | {"bound": PROMISE * max(float(metrics.wait(simulate(w, "fcfs+easy")).max()), LEAST)}


def over_days(ratios: list[float]) -> str:
    """Return the change in words of one ratio a day: geometric mean, 95 % by Student's t of logarithms."""
    x = np.log(ratios)
    half = float(student.ppf(0.975, len(x) - 1) * x.std(ddof=1) / np.sqrt(len(x))) if len(x) > 1 else np.inf
    low, middle, high = (100 * (np.exp(v) - 1) for v in (x.mean() - half, x.mean(), x.mean() + half))
    return f"{middle:+.0f} % [{low:+.0f}, {high:+.0f}]"


def main() -> int:
    """Run all days side by side, write the page; 0 also where Slurm is absent."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--days", type=int, default=5)
    parser.add_argument("--stretch", type=int, default=6)
    parser.add_argument("--span", type=int, default=0)
    parser.add_argument("--policy", default="jobwise")
    given = parser.parse_args()
    if skipped("steer_live"):
        return 0
    base = folder_for("steer-live")
    options = ["--policy", given.policy, "--span", str(given.span)]
    arms = [(seed, steer) for seed in range(given.days) for steer in ([], options)]

    def one(k: int) -> dict[str, float]:
        (base / f"d{k}").mkdir()
        x = day(base / f"d{k}", arms[k][0], 29_000 + 100 * k, arms[k][1], given.stretch)
        print(arms[k][0], "steered" if arms[k][1] else "alone", x, flush=True)
        return x

    with ThreadPoolExecutor(len(arms)) as workers:
        results = list(workers.map(one, range(len(arms))))
    columns = ["day", "jobs", "wait, s: alone", "steered", "slowdown: alone", "steered"]
    columns += ["longest wait, s: alone", "steered", "bound"]
    command = f"python -m benchmarks.steer_live --days {given.days} --stretch {given.stretch}"
    text = ["# A compressed day, steered", "", made(command)]
    text[-1] += f": `{given.policy}`, " + (
        f"a span of {given.span:,} points." if given.span else "which alone decides the order."
    )
    pairs = list(zip(results[::2], results[1::2], strict=True))
    rows = [
        [f"{seed}", f"{a['jobs']:.0f}", *(f"{x[k]:.1f}" for k in ("wait", "slowdown", "longest") for x in (a, b))]
        + [f"{b['bound']:.0f}"]
        for seed, (a, b) in enumerate(pairs)
    ]
    text += ["", (__doc__ or "").split("\n\n")[2].strip(), "", *table(columns, rows)]
    text += ["", "Change by steering, over days (geometric mean, 95 % by Student's t of logarithms):", ""]
    for name, key in (("mean wait", "wait"), ("mean bounded slowdown", "slowdown"), ("longest wait", "longest")):
        text.append(f"* {name}: {over_days([b[key] / a[key] for a, b in pairs])}")
    (Path(__file__).parent / "STEER_LIVE.md").write_text("\n".join(text) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Trial runs on a real Slurm: a compressed day alone, steered, and steered with trial runs; the same jobs, several times.

python -m benchmarks.steer_trial [--days 3] [--stretch 6] [--policy jobwise]     # writes benchmarks/STEER_TRIAL.md

Private clusters of emulated nodes run side by side, with the jobs of `benchmarks.steer_live`. All users say yes (`--comment
trial`), and Slurm gives ten minutes of slack (OverTimeLimit). The policy alone decides the order (a span of 0), every five
seconds. Waits count from a job's first submit to its last end, less its last run; what runs did that were put back is work done
twice.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from benchmarks.markdown import table
from benchmarks.slurm_cluster import PATHS, Cluster, folder_for, skipped, version
from benchmarks.steer_live import TAU, over_days
from benchmarks.when_live import ACCOUNTS, CONF, jobs
from jobwise.report.sections import made

SLACK, PORT = "OverTimeLimit=10", 30_100
COLUMNS = "JobIDRaw,Submit,Start,End,AllocCPUS,State"
ARMS = {"alone": [], "steered": ["--span", "0"], "with trial runs": ["--span", "0", "--trial", "comment=trial"]}


def day(base: Path, seed: int, port: int, steer: list[str], stretch: int) -> dict[str, float]:
    """Run a day; `steer`: options of the command, none: Slurm alone. What came of it."""
    cluster, process = Cluster(base / "cluster", port, [*CONF, SLACK]), None
    try:
        cluster.start(ACCOUNTS)
        env = cluster.env | {"PATH": f"{Path(sys.executable).parent}:{PATHS}"}
        if steer:
            words = ["jobwise", "slurm", "steer", "--state", str(base / "state"), "--every", "5s", *steer]
            with open(base / "steer.log", "ab") as log:
                process = subprocess.Popen(words, env=env, stdout=log, stderr=log)
            time.sleep(20.0)
        began = time.monotonic()
        for when, words in jobs(seed, stretch):
            time.sleep(max(began + when - time.monotonic(), 0.0))
            cluster.run("sbatch", "--parsable", "--comment", "trial", *words)
        while cluster.run("squeue", "-h", "-o", "%i").split():
            time.sleep(2.0)
        time.sleep(3.0)  # accounting lags
        text = cluster.run("sacct", "-a", "-X", "-D", "-P", "-n", "-o", COLUMNS, SLURM_TIME_FORMAT="%s")
    finally:
        if process:
            (base / "state" / "stop").touch()
            process.wait(120)
        cluster.stop()
    return measured(text)


def measured(text: str) -> dict[str, float]:
    """Return the numbers of a day from what sacct printed, a row a run."""
    runs = defaultdict(list)
    for line in text.split("\n"):
        if line.count("|") == 5:
            id, submit, start, end, cpus, state = line.split("|")
            if start.isdigit() and end.isdigit():
                runs[id].append((float(start), float(end), float(submit), int(cpus), state.split(" ")[0]))
    rows = [sorted(x) for x in runs.values()]
    run = np.array([x[-1][1] - x[-1][0] for x in rows])
    wait = np.array([x[-1][1] - min(y[2] for y in x) for x in rows]) - run
    slow = np.maximum((wait + run) / np.maximum(run, TAU), 1.0)
    work = sum(r * x[-1][3] for r, x in zip(run, rows, strict=True))
    twice = sum((y[1] - y[0]) * y[3] for x in rows for y in x[:-1])
    return {
        "jobs": len(rows),
        "wait": float(wait.mean()),
        "slowdown": float(slow.mean()),
        "longest": float(wait.max()),
        "twice": float(twice / work),
        "put back": float(sum(len(x) - 1 for x in rows)),
        "not completed": float(sum(x[-1][4] != "COMPLETED" for x in rows)),
    }


def main() -> int:
    """Run all days side by side, write the page; 0 also where Slurm is absent."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--days", type=int, default=3)
    parser.add_argument("--stretch", type=int, default=6)
    parser.add_argument("--policy", default="jobwise")
    given = parser.parse_args()
    if skipped("steer_trial"):
        return 0
    base = folder_for("steer-trial")
    tasks = [(seed, arm) for seed in range(given.days) for arm in ARMS]

    def one(k: int) -> dict[str, float]:
        seed, arm = tasks[k]
        (base / f"d{k}").mkdir()
        options = [*ARMS[arm], "--policy", given.policy] if ARMS[arm] else []
        x = day(base / f"d{k}", seed, PORT + 100 * k, options, given.stretch)
        print(seed, arm, x, flush=True)
        return x

    with ThreadPoolExecutor(len(tasks)) as workers:
        results = dict(zip(tasks, workers.map(one, range(len(tasks))), strict=True))
    (Path(__file__).parent / "STEER_TRIAL.md").write_text("\n".join(page(results, given)) + "\n")
    return int(any(x["not completed"] for x in results.values()))


def page(results: dict[tuple[int, str], dict[str, float]], given: argparse.Namespace) -> list[str]:
    """Return the lines of the page."""
    text = ["# Trial runs on a real Slurm", "", made("python -m benchmarks.steer_trial")]
    text[-1] += f": Slurm {version()}, `{given.policy}`, {given.days} days, times {given.stretch} times as long."
    columns = ["day", "", "jobs", "mean wait, s", "mean slowdown", "longest wait, s", "put back", "work done twice"]
    rows = [
        [f"{seed}", arm, f"{x['jobs']:.0f}", *(f"{x[k]:.1f}" for k in ("wait", "slowdown", "longest"))]
        + [f"{x['put back']:.0f}", f"{x['twice']:.1%}", f"{x['not completed']:.0f}"]
        for (seed, arm), x in results.items()
    ]
    text += ["", (__doc__ or "").split("\n\n")[2].strip(), "", *table([*columns, "not completed"], rows)]
    text += ["", "Change over days (geometric mean, 95 % by Student's t of logarithms):", ""]
    pairs = [("steered", "alone"), ("with trial runs", "alone"), ("with trial runs", "steered")]
    for arm, other in pairs:
        for name, key in (("mean slowdown", "slowdown"), ("mean wait", "wait"), ("longest wait", "longest")):
            change = over_days([results[seed, arm][key] / results[seed, other][key] for seed in range(given.days)])
            text.append(f"* {arm} against {other}, {name}: {change}")
    return text


if __name__ == "__main__":
    sys.exit(main())

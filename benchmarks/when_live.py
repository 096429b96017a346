"""Predicted starts on a real Slurm of this machine, beside its own: `squeue --start`.

python -m benchmarks.when_live [--seeds 2] [--keep FOLDER] [--judge FOLDER]     # writes benchmarks/WHEN_LIVE.md

A compressed day on a private cluster of emulated nodes: jobs of a dozen kinds, which sleep for a part of their limit. Every ten
seconds everything that `jobwise slurm when` reads is kept; afterwards each reading is predicted as it would have been then, and
compared with when jobs started. Slurm's own estimate is the planned start that squeue told in the same reading.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks.check_slurm import ACCOUNT, AGE, BATCH, FAST, _nodes, _port
from benchmarks.slurm_cluster import PATHS, Cluster, missing
from jobwise.report.sections import made
from jobwise.slurm.client import Slurm
from jobwise.slurm.live import fetch, look
from jobwise.slurm.starts import predict
from jobwise.starts.calibration import Calibration

JOBS, SPAN, POLL = 330, 300.0, 10.0
USERS = ("daemon", "bin", "sys", "games", "man", "mail", "news", "backup")  # of every Debian; root submits in their name
ACCOUNTS = [*ACCOUNT, *(["add", "user", name, "account=all"] for name in USERS)]
CONF = [*_nodes(), *BATCH, "SelectTypeParameters=CR_Core", *AGE, "PriorityWeightJobSize=1000", FAST]


def jobs(seed: int) -> Iterator[tuple[float, list[str]]]:
    """(s, options of sbatch) of each job."""
    rng = np.random.default_rng(seed)
    sizes, shares = [1, 2, 4, 8, 16], [0.3, 0.25, 0.2, 0.15, 0.1]
    kinds = [  # two or three of each user
        (USERS[k % len(USERS)], int(rng.choice(sizes, p=shares)), int(rng.choice([1, 2, 5, 10])), rng.uniform(3, 28))
        for k in range(20)
    ]
    for when in np.sort(rng.uniform(0, SPAN, JOBS)):
        user, tasks, limit, mean = kinds[int(rng.integers(len(kinds)))]
        run = min(mean * np.exp(0.4 * rng.standard_normal()), 58.0 * limit)
        words = ["--uid", user, "-D", "/", "-n", str(tasks), "-t", str(limit), "-o", "/dev/null"]
        yield float(when), [*words, "--wrap", f"sleep {run:.2f}"]


def record(base: Path, seed: int, port: int) -> Path:
    """Run a day; the folder of its readings."""
    conf = [line if "@" not in line else _port(line, port) for line in CONF]
    cluster, out = Cluster(base / "cluster", port, conf), base / "readings"
    out.mkdir()
    try:
        cluster.start(ACCOUNTS)
        os.environ["SLURM_CONF"], os.environ["PATH"] = cluster.env["SLURM_CONF"], PATHS
        slurm, work, n = Slurm(), list(jobs(seed)), 0
        began, at = time.monotonic(), 0
        while at < len(work) or cluster.run("squeue", "-h", "-o", "%i").split():
            while at < len(work) and began + work[at][0] <= time.monotonic():
                cluster.run("sbatch", "--parsable", *work[at][1])
                at += 1
            if time.monotonic() - began > POLL * (n + 1):
                fetch(slurm, out / f"{n:03d}")
                n += 1
                print(f"seed {seed}: {at} of {len(work)} submitted, {n} readings", file=sys.stderr, flush=True)
            time.sleep(0.05)
        time.sleep(3.0)  # accounting lags
        fetch(slurm, out / "end")
    finally:
        cluster.stop()
    return out


def judged(out: Path) -> dict[str, float]:
    """What came of the predictions of a day, over all jobs that wait in the readings after the first quarter."""
    end = look(out / "end")
    w = end.workload
    start = dict(zip(w.columns["job"].tolist(), (w.jobs["start"] + w.origin).tolist(), strict=True))
    ours, slurms, inside80, inside90, late, took = [], [], [], [], 0, []
    readings, calibration = sorted(out.glob("[0-9]*")), Calibration()
    for n, folder in enumerate(readings):
        begun = time.perf_counter()
        p = predict(look(folder), seed=n, earlier=0, calibration=calibration)
        if n < len(readings) // 4:
            continue
        took.append(time.perf_counter() - begun)
        now = p.cluster.now + p.cluster.workload.origin
        for x in p.rows():
            if (true := start.get(x["job"], np.nan) - now) > 0:
                late += 1
                ours.append(abs(x["start"] - true))
                inside80.append(x["start_80"][0] - 1 <= true <= x["start_80"][1] + 1)
                inside90.append(x["start_90"][0] - 1 <= true <= x["start_90"][1] + 1)
                slurms.append(abs(x["slurm"] - true) if x["slurm"] is not None else np.nan)
    told = ~np.isnan(slurms)
    both = {"ours": np.median(np.array(ours)[told]), "slurm": np.median(np.array(slurms)[told])}
    cover = {"cover80": np.mean(inside80), "cover90": np.mean(inside90)}
    counts = {"jobs": len(w), "predictions": late, "told": int(told.sum()), "seconds": np.median(took)}
    return {k: float(v) for k, v in (counts | both | cover).items()}


def main() -> int:
    """Record, judge, write; 0 also where Slurm is absent."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--keep", help="keep the readings in this folder")
    parser.add_argument("--judge", help="record nothing: judge what --keep has kept in a folder")
    given = parser.parse_args()
    if not given.judge and (missing() or os.geteuid()):
        print(f"when_live: skipped, it needs Slurm ({', '.join(missing()) or 'all there'}) and root", file=sys.stderr)
        return 0
    base = Path(given.judge or given.keep or tempfile.mkdtemp(prefix="when-live."))
    base.mkdir(parents=True, exist_ok=True)
    base.chmod(0o755)  # munge wants its socket to be within reach
    rows = []
    for seed in range(given.seeds):
        day = base.resolve() / f"seed{seed}"
        if not given.judge:
            day.mkdir()
            record(day, seed, 27_600 + 100 * seed)
        x = judged(day / "readings")
        rows.append(x)
        print(x, flush=True)
    columns = ["seed", "jobs", "predictions", "median error, s", "Slurm's own, s", "ratio", "in 80 %", "in 90 %", "s a reading"]
    text = ["# Predicted starts on a real Slurm", "", made("python -m benchmarks.when_live") + "."]
    text += ["", (__doc__ or "").split("\n\n")[2]]
    text += ["", "| " + " | ".join(columns) + " |", "|---" * len(columns) + "|"]
    for seed, x in enumerate(rows):
        cells = [f"{seed}", f"{x['jobs']:.0f}", f"{x['predictions']:,.0f}", f"{x['ours']:.0f}", f"{x['slurm']:.0f}"]
        cells += [f"{x['slurm'] / x['ours']:.1f}", f"{x['cover80']:.0%}", f"{x['cover90']:.0%}", f"{x['seconds']:.1f}"]
        text.append("| " + " | ".join(cells) + " |")
    (Path(__file__).parent / "WHEN_LIVE.md").write_text("\n".join(text) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Predicted starts on a real Slurm of this machine, beside its own: `squeue --start`.

python -m benchmarks.when_live [--seeds 2] [--keep FOLDER] [--judge FOLDER] [--recorded FOLDER…]  # WHEN_LIVE.md

A compressed day on a private cluster of emulated nodes: jobs of a dozen kinds, which sleep for a part of their limit. Every ten
seconds everything that `jobwise slurm when` reads is kept; afterwards each reading is predicted as it would have been then, and
compared with when jobs started. Slurm's own estimate is the planned start that squeue told in the same reading.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from benchmarks.check_slurm import ACCOUNT, AGE, BATCH, FAST, _nodes
from benchmarks.markdown import table
from benchmarks.slurm_cluster import folder_for, running, skipped
from jobwise.live.sources import fetch, look
from jobwise.live.standing import SitePlayer
from jobwise.live.starts import predict
from jobwise.policies.names import resolve
from jobwise.report.sections import made
from jobwise.slurm.client import Slurm
from jobwise.slurm.read.recording import read as read_recording
from jobwise.starts.calibration import Calibration
from jobwise.starts.history import History
from jobwise.starts.predictor import Predictor

JOBS, SPAN, POLL, CYCLES = 330, 300.0, 10.0, 60
USERS = ("daemon", "bin", "sys", "games", "man", "mail", "news", "backup")  # of every Debian; root submits in their name
ACCOUNTS = [*ACCOUNT, *(["add", "user", name, "account=all"] for name in USERS)]
CONF = [*_nodes(), *BATCH, "SelectTypeParameters=CR_Core", *AGE, "PriorityWeightJobSize=1000", FAST]


def jobs(seed: int, stretch: int = 1) -> Iterator[tuple[float, list[str]]]:
    """(s, options of sbatch) of each job. `stretch`: all times are longer by this factor."""
    rng = np.random.default_rng(seed)
    sizes, shares = [1, 2, 4, 8, 16], [0.3, 0.25, 0.2, 0.15, 0.1]
    kinds = [  # two or three of each user
        (USERS[k % len(USERS)], int(rng.choice(sizes, p=shares)), int(rng.choice([1, 2, 5, 10])), rng.uniform(3, 28))
        for k in range(20)
    ]
    for when in np.sort(rng.uniform(0, SPAN, JOBS)):
        user, tasks, limit, mean = kinds[int(rng.integers(len(kinds)))]
        run = min(mean * np.exp(0.4 * rng.standard_normal()), 58.0 * limit)
        words = ["--uid", user, "-D", "/", "-n", str(tasks), "-t", str(stretch * limit), "-o", "/dev/null"]
        yield float(stretch * when), [*words, "--wrap", f"sleep {stretch * run:.2f}"]


def record(base: Path, seed: int, port: int) -> Path:
    """Run a day; the folder of its readings."""
    out = base / "readings"
    out.mkdir()
    with running(base / "cluster", port, CONF, ACCOUNTS) as cluster:
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
    return out


@dataclass
class Judged:
    """Collects what came of predictions: errors of ours and of Slurm's plans (s; NaN: none), what the intervals held."""

    ours: list[float] = field(default_factory=list)
    slurms: list[float] = field(default_factory=list)
    inside80: list[bool] = field(default_factory=list)
    inside90: list[bool] = field(default_factory=list)
    took: list[float] = field(default_factory=list)
    jobs: int = 0

    @staticmethod
    def all(several: Sequence[Judged]) -> Judged:
        """All of them together."""
        lists = ("ours", "slurms", "inside80", "inside90", "took")
        return Judged(*([y for x in several for y in getattr(x, k)] for k in lists), jobs=sum(x.jobs for x in several))

    def add(self, true: float, quantiles: Sequence[float], planned: float | None) -> None:
        """Take a prediction, with the start that came of it and the one that Slurm planned, s from now."""
        q05, q10, q50, q90, q95 = quantiles
        self.ours.append(abs(q50 - true))
        self.inside80.append(q10 - 1 <= true <= q90 + 1)
        self.inside90.append(q05 - 1 <= true <= q95 + 1)
        self.slurms.append(np.nan if planned is None else abs(planned - true))

    def cells(self, name: str) -> list[str]:
        """The row of a table."""
        planned = ~np.isnan(self.slurms)
        ours, slurms = (float(np.median(np.array(x)[planned])) for x in (self.ours, self.slurms))
        cells = [name, f"{self.jobs:,}", f"{len(self.ours):,}", f"{ours:.0f}", f"{slurms:.0f}", f"{slurms / ours:.1f}"]
        return [*cells, f"{np.mean(self.inside80):.0%}", f"{np.mean(self.inside90):.0%}", f"{np.median(self.took):.1f}"]


def judged(out: Path) -> Judged:
    """What came of the predictions of a day, over all jobs that wait in the readings after the first quarter."""
    w = look(out / "end").workload
    start = dict(zip(w.columns["job"].tolist(), (w.jobs["start"] + w.origin).tolist(), strict=True))
    readings, calibration, tally = sorted(out.glob("[0-9]*")), Calibration(), Judged(jobs=len(w))
    for n, folder in enumerate(readings):
        begun = time.perf_counter()
        p = predict(look(folder), seed=n, earlier=0, calibration=calibration)
        if n < len(readings) // 4:
            continue
        tally.took.append(time.perf_counter() - begun)
        now = p.cluster.now + p.cluster.workload.origin
        for x in p.rows():
            if (true := start.get(x["job"], np.nan) - now) > 0:
                (q10, q90), (q05, q95) = x["start_80"], x["start_90"]
                tally.add(true, (q05, q10, x["start"], q90, q95), x["slurm"])
    return tally


def replayed(folder: Path) -> Judged:
    """What came of predictions at 60 cycles of a recorded Slurm, over the jobs that it planned there, after the first third."""
    r = read_recording(folder)
    w, tally = r.workload, Judged(jobs=len(r.workload))
    jobs = w.jobs.copy()
    jobs["start"], jobs["end"] = jobs["submit"] + w.columns["wait"], w.ends["end"]
    predictor = Predictor(History(jobs), SitePlayer(w, resolve("slurm")))
    cycles = [x for x in r.passes if x.kind == "backfill" and x.plans]
    cycles = cycles[:: max(len(cycles) // CYCLES, 1)]
    for n, cycle in enumerate(cycles):
        begun, now = time.perf_counter(), cycle.time + 0.5
        x, plan = predictor.at(now), {p.key: p.start - now for p in cycle.plans}
        if n < len(cycles) // 3:
            continue
        tally.took.append(time.perf_counter() - begun)
        for i, j in enumerate(x.rows.tolist()):
            if j in plan:
                tally.add(jobs["start"][j] - now, x.quantiles[i].tolist(), plan[j])
    return tally


def main() -> int:
    """Record, judge, write; 0 also where Slurm is absent."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--keep", help="keep the readings in this folder")
    parser.add_argument("--judge", help="record nothing: judge what --keep has kept in a folder")
    parser.add_argument("--recorded", nargs="+", default=[], help="folders of recordings, predicted at their cycles")
    given = parser.parse_args()
    if not given.judge and skipped("when_live"):
        return 0
    base = folder_for("when-live", given.judge or given.keep)
    days: list[Judged] = []
    for seed in range(given.seeds):
        day = base.resolve() / f"seed{seed}"
        if not given.judge:
            day.mkdir()
            record(day, seed, 27_600 + 100 * seed)
        days.append(judged(day / "readings"))
        print(days[-1].cells(f"{seed}"), flush=True)
    rows = [x.cells(f"{seed}") for seed, x in enumerate(days)] + [Judged.all(days).cells("both")]
    more = [replayed(Path(x)) for x in given.recorded]
    columns = ["jobs", "predictions", "median error, s", "Slurm's own, s", "ratio", "in 80 %", "in 90 %", "s a reading"]
    text = ["# Predicted starts on a real Slurm", "", made("python -m benchmarks.when_live --recorded FOLDER…") + "."]
    text += ["", (__doc__ or "").split("\n\n")[2].strip(), "", *table(["seed", *columns], rows)]
    if more:
        text += ["", "Recorded elsewhere in the same way, with the plans of Slurm's backfill cycles as its own estimate:", ""]
        names = [f"`{Path(x).name}`" for x in given.recorded]
        cells = [x.cells(name) for x, name in zip(more, names, strict=True)]
        text += table(["recording", *columns], [*cells, Judged.all(more).cells("all")])
    (Path(__file__).parent / "WHEN_LIVE.md").write_text("\n".join(text) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

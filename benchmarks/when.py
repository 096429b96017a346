"""Predicted starts on logs: how far off, how often an interval holds the truth, beside other methods.

python -m benchmarks.when LOG… [--policy NAME …] [--jobs N] [--instants N] [--json]     # else it writes benchmarks/WHEN.md
python -m benchmarks.when --speed LOG…     # how long a prediction takes where 10, 100, 1,000 jobs wait

A log is replayed under a policy, its jobs ended at their request: that is the truth. At arrivals of jobs that do not start at
once, their start and that of up to three other waiting jobs is predicted; a prediction learns what came of earlier ones only
once those jobs have started. The second half of the time between the first and the last of them is judged.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import defaultdict, deque
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

import jobwise as jw
from benchmarks.markdown import table
from jobwise.policies.names import resolve
from jobwise.report.sections import made
from jobwise.starts import futures
from jobwise.starts.bags import class_of
from jobwise.starts.calibration import LEVELS, MIDDLE, logs, pinball
from jobwise.starts.futures import PoolPlayer
from jobwise.starts.history import History
from jobwise.starts.predictor import Predictor
from jobwise.starts.sooner import offers, variants
from jobwise.workloads.transform import first

POLICIES = ("fcfs+easy", "saf+easy+guard24h")
JOBS, INSTANTS, OTHERS = 40_000, 1500, 3
ADVISED, AFTER = 300, 3000  # jobs of each log that are advised; jobs to come that are simulated as they came
LAST, OF_CLASS = 20, 300  # waits of other methods
METHODS = ("requests", "mean of the last 20", "QBETS", "requests, calibrated", "futures", "shown")


@dataclass
class Waits:
    """What methods without a simulator know: the last waits, and those of each class."""

    start: np.ndarray
    wait: np.ndarray
    of: np.ndarray
    last: deque = field(default_factory=lambda: deque(maxlen=LAST))
    of_class: dict = field(default_factory=lambda: defaultdict(lambda: deque(maxlen=OF_CLASS)))

    def __post_init__(self):
        self.order, self.at = np.argsort(self.start, kind="stable"), 0

    def until(self, now: float) -> None:
        """Go on to `now`."""
        while self.at < len(self.order) and self.start[self.order[self.at]] <= now:
            j = self.order[self.at]
            self.last.append(self.wait[j])
            self.of_class[self.of[j]].append(self.wait[j])
            self.at += 1

    def mean(self) -> float:
        """The mean of the last 20 waits."""
        return float(np.mean(self.last)) if self.last else 0.0

    def qbets(self, j: int, waited: float) -> np.ndarray:
        """Quantiles of the last waits of its class that were longer than what it has waited (Nurmi et al., SIGMETRICS 2007)."""
        x = np.array(self.of_class[self.of[j]] or [0.0])
        x = x[x > waited] - waited
        return np.quantile(x, LEVELS) if len(x) else np.full(len(LEVELS), max(waited, 60.0))


def walk(log: jw.Workload, policy: str, instants: int = INSTANTS, seed: int = 0) -> dict:
    """Predictions of one log under one policy: truth [N] and quantiles of each method [N, METHODS, LEVELS], s; which count."""
    r = jw.simulate(log, policy, kill_at_walltime=True)
    jobs, wait = r.jobs, r.jobs["start"] - r.jobs["submit"]
    rng = np.random.default_rng(seed)
    late = np.flatnonzero(wait > 1.0)
    if len(late) == 0:
        return {"truth": np.zeros(0)}
    at = np.sort(rng.choice(late, min(instants, len(late)), replace=False))
    p = Predictor(History(jobs, past=log.past), PoolPlayer(resolve(policy), log.cluster, log.past), seed=seed)
    w = Waits(jobs["start"], wait, class_of(jobs["walltime"], jobs["request"][:, 0]))
    rows, truth, made_at = [], [], []
    for i in at:
        now = float(jobs["submit"][i])
        w.until(now)
        waiting = np.flatnonzero((jobs["submit"][: i + 1] <= now) & (jobs["start"][: i + 1] > now))
        others = waiting[waiting != i]
        some = np.append(rng.choice(others, min(OTHERS, len(others)), replace=False), i)
        x = p.at(now, some)
        for n, j in enumerate(x.rows):
            waited = now - float(jobs["submit"][j])
            plain = [np.full(len(LEVELS), v) for v in (x.requested[n], w.mean())]
            rows.append(np.stack([*plain, w.qbets(int(j), waited), x.both[1, n], x.both[0, n], x.quantiles[n]]))
            truth.append(jobs["start"][j] - now)
            made_at.append(now)
    middle = 0.5 * (made_at[0] + made_at[-1])
    return {"truth": np.array(truth), "quantiles": np.array(rows), "judged": np.array(made_at) > middle}


def advised(log: jw.Workload, policy: str, instants: int, seed: int = 0) -> list[tuple[str, bool, float, float]]:
    """Of jobs that wait: (change, is it told, s by which its start is foretold to be sooner, s by which it would have been)."""
    r, p = jw.simulate(log, policy, kill_at_walltime=True), PoolPlayer(resolve(policy), log.cluster, log.past)
    jobs, rng, out = r.jobs, np.random.default_rng(seed), []
    late = np.flatnonzero((jobs["start"] - jobs["submit"] > 1.0) & (jobs["submit"] > 0.5 * jobs["submit"][-1]))
    h = History(jobs, past=log.past)
    for i in np.sort(rng.choice(late, min(instants, len(late)), replace=False)) if len(late) else ():
        h.at(float(jobs["submit"][i]))
        d = futures.draw(h, seed=(seed, int(i)))
        walltime, size = float(jobs["walltime"][i]), int(jobs["request"][i, 0])
        told = {x.change.words: x for x in offers(d, int(i), p)}
        come = np.arange(np.searchsorted(jobs["submit"], h.now, side="right"), len(jobs))[:AFTER]
        truth = replace(d, run=h.run[d.rows][None], arrivals=[(come, np.zeros(len(come)))], known=True)
        place = np.searchsorted(d.rows, [i])
        for change in variants(walltime, size):
            if x := told.get(change.words):
                start = p.play(truth.changed(int(place[0]), change.fields, change.slower), place)[0, 0]
                out.append((change.words, x.worth_telling, x.gain, float(jobs["start"][i] - start)))
    return out


def judged(x: dict) -> dict[str, dict[str, float]]:
    """The numbers of each method: median error (s), mean log error, pinball loss, shares of truths in 80 and 90 % intervals."""
    truth, out = x["truth"][x["judged"]], {}
    for k, name in enumerate(METHODS):
        q = x["quantiles"][x["judged"], k]
        log = logs(q)
        out[name] = {
            "error": float(np.median(np.abs(q[:, MIDDLE] - truth))),
            "log_error": float(np.abs(log[:, MIDDLE] - logs(truth)).mean()),
            "pinball": float(pinball(logs(truth), log).mean()),
            "cover80": float(((truth >= q[:, 1] - 1) & (truth <= q[:, 3] + 1)).mean()),
            "cover90": float(((truth >= q[:, 0] - 1) & (truth <= q[:, 4] + 1)).mean()),
        }
    return out


def speed(log: jw.Workload, policy: str) -> list[tuple[int, int, float]]:
    """(jobs that wait, jobs that run, ms of a prediction for all that wait) where about 10, 100, 1,000 wait."""
    r = jw.simulate(log, policy, kill_at_walltime=True)
    submit, start, out = r.jobs["submit"], r.jobs["start"], []
    queue = np.arange(1, len(log) + 1) - np.searchsorted(np.sort(start), submit, side="right")
    for n in (10, 100, 1000):
        at = np.flatnonzero(np.abs(queue - n) <= 0.1 * n)
        if not len(at):
            continue
        p, took = Predictor(History(r.jobs, past=log.past), PoolPlayer(resolve(policy), log.cluster, log.past)), []
        for i in at[np.linspace(0, len(at) - 1, 7).astype(int)]:
            begun = time.perf_counter()
            x = p.at(float(submit[i]))
            took.append((len(x.rows), len(x.drawn.rows) - len(x.rows), 1000 * (time.perf_counter() - begun)))
        out.append(tuple(np.median(took, axis=0)))
    return out


def main() -> None:
    """Measure, and print or write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("logs", nargs="+")
    parser.add_argument("--policy", action="append")
    parser.add_argument("--jobs", type=int, default=JOBS)
    parser.add_argument("--instants", type=int, default=INSTANTS)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--speed", action="store_true")
    given, rows, every = parser.parse_args(), [], []
    for path in given.logs:
        log = first(jw.open_log(path), given.jobs)
        if given.speed:
            for policy in given.policy or POLICIES:
                for queue, running, ms in speed(log, policy):
                    print(f"{log.name} {policy}: {queue:.0f} wait, {running:.0f} run: {ms:.1f} ms")
            continue
        for policy in given.policy or POLICIES:
            print(f"{log.name} under {policy} …", file=sys.stderr, flush=True)
            x = walk(log, policy, given.instants)
            if not len(x["truth"]) or not x["judged"].any():
                continue
            numbers = judged(x)
            base, ours = numbers["requests"], numbers["shown"]
            row = {"log": log.name, "policy": policy, "predictions": int(x["judged"].sum())}
            row["ratio"] = ours["error"] / max(base["error"], 1.0)
            row["log_ratio"] = ours["log_error"] / max(base["log_error"], 1e-9)
            row |= {"cover80": ours["cover80"], "cover90": ours["cover90"], "pinball": ours["pinball"]}
            told = np.array([true for _, worth, _, true in advised(log, policy, ADVISED) if worth] or [np.nan])
            row |= {"advice": int((~np.isnan(told)).sum())}
            row |= {"sooner": float((told > 1).mean()), "later": float((told < -1).mean())}
            rows.append(row)
            every.append(numbers)
            print(json.dumps(row), file=sys.stderr, flush=True)
    if given.speed:
        return
    if given.json:
        print(json.dumps(rows, indent=1))
        return
    write(rows, every)


def write(rows: list[dict], every: list[dict]) -> None:
    """The page."""
    text = [
        "# Predicted starts, measured",
        "",
        made("python -m benchmarks.when LOG…") + ".",
        "",
        (__doc__ or "").split("\n\n")[2],
        "",
    ]
    columns = ["log", "policy", "predictions", "median error, of requests'", "log error, of requests'", "in 80 %", "in 90 %"]
    columns += ["pinball", "advised", "sooner", "later"]
    lines = []
    for r in rows:
        cells = [r["log"], f"`{r['policy']}`", f"{r['predictions']:,}", f"{r['ratio']:.2f}", f"{r['log_ratio']:.2f}"]
        cells += [f"{r['cover80']:.0%}", f"{r['cover90']:.0%}", f"{r['pinball']:.3f}", f"{r['advice']:,}"]
        lines.append([*cells, f"{r['sooner']:.0%}", f"{r['later']:.0%}"])
    text += table(columns, lines)
    text += ["", "Geometric means over these, of each method:", ""]
    columns = ["method", "median error, min", "log error", "pinball", "in 80 %", "in 90 %"]
    lines = []
    for name in METHODS:
        mean = {k: np.exp(np.mean([np.log(max(x[name][k], 1e-3)) for x in every])) for k in ("error", "log_error", "pinball")}
        cover = [f"{np.mean([x[name][k] for x in every]):.0%}" for k in ("cover80", "cover90")]
        cover = ["", ""] if name in METHODS[:2] else cover
        lines.append([name, f"{mean['error'] / 60:.0f}", f"{mean['log_error']:.2f}", f"{mean['pinball']:.3f}", *cover])
    text += table(columns, lines)
    (Path(__file__).parent / "WHEN.md").write_text("\n".join(text) + "\n")


if __name__ == "__main__":
    main()

"""THE comparison: several schedulers on the same jobs, paired, with intervals, in words that claim no more than they carry.

Two replays of a log answer two questions. The *whole* log, replayed continuously, is what a site would have seen: it shows
starvation, but it is one sample of a chaotic system. *Windows* of consecutive jobs, each from an empty machine, are many
samples that do not overlap. Both are repeated with submits shaken, the same for all; intervals come from a symmetric
bootstrap-t over windows, and over blocks of consecutive jobs of the continuous replay (`ratio_interval`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from jobwise import baselines, metrics
from jobwise.decision import Policy
from jobwise.errors import InputError
from jobwise.jobs import Workload
from jobwise.loops import is_compiled
from jobwise.policies.listing import ListScheduler
from jobwise.policies.names import resolve
from jobwise.simulate import Record, simulate
from jobwise.workloads.transform import shake, statistics

METRICS = ("bounded_slowdown", "wait", "p95_wait", "max_wait", "utilisation")
RESAMPLES = 2000
REPLAYS = 4  # shaken replicas of the continuous replay, at most
IDLE = 1.3  # where the worst of the schedulers has a lower bounded slowdown in half of the windows, there is no queue


@dataclass(frozen=True, eq=False)
class Comparison:
    """What `compare` found. P policies, W windows.

    `whole`: P summaries of the continuous replay, means over its replicas. `windows`: metric -> [P, W] means over shaken
    replicas. `blocks`: [P, B] mean bounded slowdown of blocks of consecutive jobs of the continuous replay, over replicas.
    `first_row`: [W] first job of each window. `records`: P records of the continuous replay with submits as logged.
    `marks`: P texts: which rule is the fair best, which the best in hindsight. `fair`: place of the fair best, if known.
    """

    workload: Workload
    policies: list[str]
    whole: list[dict[str, float]]
    windows: dict[str, np.ndarray]
    blocks: np.ndarray
    first_row: np.ndarray
    window_jobs: int
    shakes: int
    shake_s: float
    records: list[Record] = field(repr=False)
    marks: list[str]
    fair: int | None = None

    def interval(self, p: int, metric: str = "bounded_slowdown") -> tuple[float, float]:
        """95 % interval of the mean over windows of policy p."""
        x = self.windows[metric][p]
        return ratio_interval(np.ones(len(x)), x)

    def change(self, p: int, metric: str = "bounded_slowdown", base: int = 0) -> tuple[float, float, float]:
        """Relative change of the mean over windows against policy `base`: (change, low, high), paired, 95 %."""
        pair = self.windows[metric][[base, p]]
        if not pair[0].any():
            return 0.0, 0.0, 0.0

        low, high = ratio_interval(*pair)
        return float(pair[1].mean() / max(pair[0].mean(), 1e-300) - 1), low - 1, high - 1

    def change_whole(self, p: int, base: int = 0) -> tuple[float, float, float]:
        """The same of the continuous replay: (change, low, high) of bounded slowdown, 95 % over blocks of time."""
        a, b = (self.whole[k]["bounded_slowdown"] for k in (base, p))
        low, high = ratio_interval(self.blocks[base], self.blocks[p])
        return b / a - 1, low - 1, high - 1

    def geometric(self, p: int, base: int = 0) -> tuple[float, float, float]:
        """Relative change of bounded slowdown, geometric mean over windows: (change, low, high), paired, 95 %."""
        logs = np.log(self.windows["bounded_slowdown"][p] / self.windows["bounded_slowdown"][base])
        low, high = (float(np.exp(np.clip(x, -50, 50)) - 1) for x in mean_interval(logs))
        return float(np.exp(logs.mean()) - 1), low, high

    @property
    def queues(self) -> bool:
        """Is there a queue to speak of? Without one no order matters, and no comparison means anything."""
        return bool(np.median(self.windows["bounded_slowdown"].max(axis=0)) >= IDLE)

    def ranks(self, metric: str = "bounded_slowdown") -> np.ndarray:
        """[P] mean rank over windows (1 is best; ties share)."""
        x = self.windows[metric] * (-1 if metric == "utilisation" else 1)
        less = (x[:, None] > x[None]).sum(axis=1)
        same = (x[:, None] == x[None]).sum(axis=1) - 1
        return (1 + less + same / 2).mean(axis=1)

    def wins(self, p: int, base: int = 0, metric: str = "bounded_slowdown") -> tuple[int, int, int]:
        """Windows in which policy p is better than, equal to (within 0.1 %), worse than `base`."""
        a, b = self.windows[metric][[p, base]]
        near = np.abs(a - b) <= 1e-3 * np.maximum(np.abs(b), 1e-12)
        return int((~near & (a < b)).sum()), int(near.sum()), int((~near & (a > b)).sum())

    def pareto(self) -> list[int]:
        """Policies no other beats on both mean bounded slowdown and longest wait (continuous replay)."""
        points = [(s["bounded_slowdown"], s["max_wait"]) for s in self.whole]
        return [i for i, a in enumerate(points) if not any(b[0] <= a[0] and b[1] <= a[1] and b != a for b in points)]

    def verdict(self, p: int) -> str:
        """Policy p against the first in one sentence; a difference is claimed only where the interval excludes 0."""
        name, base = self.policies[p], self.policies[0]
        if not self.queues:
            return f"{name}: this log has hardly a queue, and says nothing about {name} against {base}."
        if self.first_row.size < 5:
            return f"{name}: {self.first_row.size} windows are too few to tell it from {base}."
        c, low, high = self.change(p)
        longest = self.whole[p]["max_wait"] / max(self.whole[0]["max_wait"], 1.0)
        price = f"its longest wait is {longest:.1f} times that of {base}" if longest > 1.2 else "at no longer waits"
        if longest < 0.8:
            price = f"and its longest wait is {longest:.2f} times that of {base}"
        bounds = f"{abs(c):.0%} [{min(abs(low), abs(high)):.0%}, {max(abs(low), abs(high)):.0%}]"
        if high < 0:
            return f"{name}: mean bounded slowdown {bounds} lower than {base}; {price}."
        if low > 0:
            return f"{name}: mean bounded slowdown {bounds} higher than {base}."
        return f"{name}: no difference from {base} can be claimed ({c:+.0%}{between(low, high, '+.0%')})."

    def to_dict(self) -> dict:
        """Everything but the records, for JSON."""
        rows = []
        for p, name in enumerate(self.policies):
            change = {m: dict(zip(("change", "low", "high"), self.change(p, m), strict=True)) for m in METRICS}
            won, tied, lost = self.wins(p)
            rows.append(
                {
                    "policy": name,
                    "whole": self.whole[p],
                    "windows": {
                        m: {"mean": float(self.windows[m][p].mean()), "interval": self.interval(p, m)} for m in METRICS
                    },
                    "against_first": change,
                    "geometric_against_first": self.geometric(p),
                    "whole_against_first": self.change_whole(p),
                    "mark": self.marks[p],
                    "rank": float(self.ranks()[p]),
                    "windows_won": won,
                    "windows_tied": tied,
                    "windows_lost": lost,
                    "pareto": p in self.pareto(),
                    "verdict": self.verdict(p) if p else "the reference",
                    "by": {by: metrics.breakdown(self.records[p], by) for by in metrics.CLASSES},
                }
            )
        return {
            "workload": self.workload.name,
            "statistics": statistics(self.workload),
            "dropped": self.workload.dropped,
            "conventions": conventions(self),
            "has_a_queue": self.queues,
            "fair_best": None if self.fair is None else self.policies[self.fair],
            "policies": rows,
        }


def compare(
    workload: Workload,
    policies: Sequence[str | Policy],
    *,
    train: Workload | None = None,
    max_wait: float = np.inf,
    window_jobs: int | None = None,
    shakes: int = 8,
    shake_s: float = 300.0,
    seed: int = 0,
    kill_at_walltime: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Comparison:
    """Compare policies (the first is the reference) on the whole log and on consecutive windows of it.

    `train`: earlier jobs; the classic rule × guard that is best on them (`baselines.py`) joins as the fair best, and the one
    that is best on `workload` as the best in hindsight; with `max_wait` those that are best in the continuous replay among
    the rules whose longest wait is at most so many times that of FCFS with EASY.

    `window_jobs`: jobs per window (default: 1,024, fewer where the log
    is short). `shakes`: replicas with submits moved by U(-shake_s, shake_s), the same for all policies, of every window, and
    at most REPLAYS of the whole log; 0: as logged. Raises InputError.
    """
    if len(policies) < 1:
        raise InputError("a comparison needs at least one policy")
    chosen = [resolve(p) for p in policies]
    names = [getattr(p, "name", type(p).__name__) for p in chosen]
    if len(set(names)) < len(names):
        twice = next(n for n in names if names.count(n) > 1)
        raise InputError(f"policy {twice} is named twice")
    if window_jobs is not None and not 2 <= window_jobs <= len(workload):
        raise InputError(f"a window of {window_jobs} jobs does not fit a log of {len(workload)}")
    size = window_jobs or max(min(1024, len(workload) // 8), min(2, len(workload)))
    first_row = np.arange(0, len(workload) - size + 1, size)
    settings = {"kill_at_walltime": kill_at_walltime, "seed": seed}
    marks: dict[str, list[str]] = {}
    done, total = 0, len(chosen) * (len(first_row) + 1)

    def report(count: int = 1) -> None:
        nonlocal done
        done += count
        if progress:
            progress(min(done, total), total)

    if train is not None:
        total += 2 * len(baselines.RULES) + 2 * (len(first_row) + 1)
        within = f" within {max_wait:g}x" if max_wait < np.inf else ""
        few = {"shakes": min(shakes, 2), "shake_s": shake_s, "progress": lambda *_: report()}
        for part, mark in ((train, f"fair best{within}"), (workload, f"best in hindsight{within}")):
            grid = baselines.measure(part, min(size, len(part)), **few, **settings)
            marks.setdefault(grid.best(max_wait), []).append(mark)
        for name in marks:
            if name not in names:
                chosen.append(resolve(name))
                names.append(name)

    def window(row: int) -> list[list[dict[str, float]]]:
        replicas = baselines.shaken(workload, int(row), size, shakes, shake_s, seed)
        return [[_numbers(simulate(x, p, **settings)) for x in replicas] for p in chosen]

    replicas = [shake(workload, shake_s, [seed, k]) for k in range(min(shakes, REPLAYS))]
    edges = np.linspace(0, len(workload), max(len(first_row) // 2, 1) + 1).astype(int)  # long blocks: congestion lasts

    def continuous(p: Policy) -> tuple[Record, dict[str, float], np.ndarray]:
        logged = simulate(workload, p, **settings)
        found = [simulate(x, p, **settings) for x in replicas] or [logged]
        every = [r.summary() for r in found]
        blocks = np.mean([np.add.reduceat(_slow(r), edges[:-1]) / np.diff(edges) for r in found], axis=0)
        report()
        return logged, {k: float(np.mean([s[k] for s in every])) for k in every[0]}, blocks

    compiled = all(is_compiled(p, workload.cluster) for p in chosen)
    with ThreadPoolExecutor(2 if compiled else 1) as workers:
        records, whole, blocks = zip(*workers.map(continuous, chosen), strict=True)
        found = []
        for result in workers.map(window, first_row):
            found.append(result)
            report(len(chosen))
    windows = {m: np.array([[np.mean([x[m] for x in one[p]]) for one in found] for p in range(len(chosen))]) for m in METRICS}
    if train is None:
        rules = [p for p, x in enumerate(chosen) if isinstance(x, ListScheduler) and not x.about]
        if rules:
            marks[names[min(rules, key=lambda p: windows["bounded_slowdown"][p].mean())]] = ["best rule in hindsight"]
    fair = next((p for p, n in enumerate(names) if any(m.startswith("fair best") for m in marks.get(n, []))), None)
    said = [", ".join(marks.get(n, [])) for n in names]
    return Comparison(
        workload, names, list(whole), windows, np.array(blocks), first_row, size, shakes, shake_s, list(records), said, fair
    )


def _slow(r: Record) -> np.ndarray:
    """[J] bounded slowdown, 1 of jobs that never ran."""
    out = np.ones(len(r.jobs))
    out[metrics.ran(r)] = metrics.bounded_slowdown(r)
    return out


def _numbers(r: Record) -> dict[str, float]:
    w = metrics.wait(r)
    return {
        "bounded_slowdown": float(metrics.bounded_slowdown(r).mean()),
        "wait": float(w.mean()),
        "p95_wait": float(np.quantile(w, 0.95)),
        "max_wait": float(w.max()),
        "utilisation": metrics.utilisation(r),
    }


def ratio_interval(base: np.ndarray, ours: np.ndarray) -> tuple[float, float]:
    """95 % interval of mean(ours) / mean(base), paired over windows [W]: symmetric bootstrap-t of the logarithm.

    Window means have heavy tails and windows are few. Percentiles of resampled ratios are then too narrow: they call 4.5 to
    12 % of replicas of one rule different from each other, this interval 0.5 to 8 % (`benchmarks/intervals.py`). NaN for one
    window: it says nothing.
    """
    count = len(base)
    if count < 2:
        return float("nan"), float("nan")
    sums = np.concatenate([np.ones((1, count)), _draws(count)]) @ np.stack([base, ours, base**2, base * ours, ours**2], axis=1)
    mean_a, mean_b = sums[:, 0] / count, sums[:, 1] / count
    if mean_a.min() <= 0 or mean_b.min() <= 0:  # waits may all be 0 in some resample: percentiles are what is left
        low, high = np.quantile(mean_b[1:] / np.maximum(mean_a[1:], 1e-300), [0.025, 0.975])
        return float(low), float(high)
    ratio = mean_b / mean_a
    off = np.maximum(sums[:, 4] - 2 * ratio * sums[:, 3] + ratio**2 * sums[:, 2], 0.0)  # squares of ours - ratio base
    spread = np.sqrt(off / (count - 1) / count) / mean_b  # of the logarithm
    away = np.abs(np.log(ratio[1:] / ratio[0])) / np.maximum(spread[1:], 1e-12)
    half = np.exp(min(np.quantile(away, 0.95) * spread[0], 50.0))
    return float(ratio[0] / half), float(ratio[0] * half)


def mean_interval(x: np.ndarray) -> tuple[float, float]:
    """95 % interval of the mean of x [W]: symmetric bootstrap-t. NaN for one value."""
    if len(x) < 2:
        return float("nan"), float("nan")
    sums = _draws(len(x)) @ np.stack([x, x**2], axis=1)
    mean = sums[:, 0] / len(x)
    spread = np.sqrt(np.maximum(sums[:, 1] - len(x) * mean**2, 1e-24) / (len(x) - 1) / len(x))
    own = x.std(ddof=1) / np.sqrt(len(x))
    half = float(np.quantile(np.abs(mean - x.mean()) / np.maximum(spread, 1e-12), 0.95)) * own
    return float(x.mean() - half), float(x.mean() + half)


@lru_cache(maxsize=2)
def _draws(count: int) -> np.ndarray:
    """[RESAMPLES, count] how often each window is in each resample."""
    drawn = np.random.default_rng(0).integers(0, count, (RESAMPLES, count))
    return np.stack([np.bincount(d, minlength=count) for d in drawn]).astype(float)


def between(low: float, high: float, form: str) -> str:
    """ " [low, high]" in a number format; nothing where one window says nothing, "?" where few say next to nothing."""
    if np.isnan(low):
        return ""
    return f" [{low:{form}}, {high:{form}}]" if high < 1e4 and (high < 10 or not form.endswith("%")) else " [?]"


def conventions(c: Comparison) -> list[str]:
    """How the numbers were made, for people who compare them with others'."""
    w = c.workload
    machine = f"{w.cluster.processors:,} {w.cluster.resources[0]}"
    dropped = ", ".join(f"{n:,} {r}" for r, n in w.dropped.items()) or "none"
    shaken = f"mean of {c.shakes} replicas with submits moved by up to {c.shake_s:g} s" if c.shakes else "submits as logged"
    replays = f"mean of {min(c.shakes, REPLAYS)} shaken replays, figures of the log as it is" if c.shakes else "as logged"
    return [
        f"Machine: {machine}; jobs take any of them. Rows left out: {dropped}.",
        "Processors = requested if > 0, else allocated; walltime = requested time if > 0, else run time.",
        "Jobs run their true time; one that has outlived its estimate is taken to end now.",
        "Schedulers decide anew at every event; EASY reserves for the first job that does not fit.",
        "Bounded slowdown: max((wait + run) / max(run, 10 s), 1).",
        f"Windows: {len(c.first_row)} of {c.window_jobs:,} consecutive jobs, each from an empty machine; {shaken}.",
        f"The whole log in one continuous replay: {replays}.",
        "Intervals: 95 %, symmetric bootstrap-t, paired: over windows; of the continuous replay over blocks twice as long.",
    ]

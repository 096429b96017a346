"""What a comparison has found, in numbers and in words that claim no more than they carry."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from math import inf, isnan
from pathlib import Path
from typing import Any

import numpy as np

from jobwise import metrics
from jobwise.compare.bounds import AtBound
from jobwise.compare.intervals import LEAST, Effect, RatioOfMeans, claims, compared, continuous, holm, totals
from jobwise.extensions import imported
from jobwise.record import Record
from jobwise.workload import Workload
from jobwise.workloads.transform import recorded, statistics

REPLAYS = 4  # time-shifted replicas of the continuous replay, at most
IDLE = 1.3  # where no scheduler has a higher mean bounded slowdown in the continuous replay, there is no queue
LONGER = 1.2  # times the longest wait: what a headline calls kept


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """The result of `compare`. P policies, W windows, K replicas of a window, R replays of the whole.

    `windows`: metric -> [P, W, K]. `blocks`: [P, R, B] mean bounded slowdown of blocks of consecutive jobs of the continuous
    replay. `replays`: P lists of R summaries of it; `logged`: P summaries with submits as logged; `records`: their records.
    `first_row`: [W] first job of each window, in the workload. `marks`: P texts: which rule is the fair best, which the best
    in hindsight. `fair`: place of the fair best, if known. `notes`: what a reader must know of these policies and this log;
    `cautions`: those of them that are to be read before any number. `curves`: policies under promises of several bounds.
    """

    workload: Workload
    policies: list[str]
    windows: dict[str, np.ndarray]
    blocks: np.ndarray
    replays: list[list[dict[str, float]]]
    logged: list[dict[str, float]]
    first_row: np.ndarray
    window_jobs: int
    shakes: int
    shake_s: float
    records: list[Record] = field(repr=False)
    marks: list[str]
    fair: int | None = None
    bound: float = inf
    notes: tuple[str, ...] = ()
    cautions: tuple[str, ...] = ()
    curves: dict[str, list[AtBound]] = field(default_factory=dict)

    @property
    def whole(self) -> list[dict[str, float]]:
        """P summaries of the continuous replay, means over its replicas."""
        return [{k: float(np.mean([s[k] for s in every])) for k in every[0]} for every in self.replays]

    def change(self, p: int, base: int = 0) -> Effect:
        """Bounded slowdown of windows against policy `base`: geometric mean, 95 % by Student's t over blocks of two windows."""
        x = self.windows["bounded_slowdown"]
        return compared(x[base], x[p])

    def change_whole(self, p: int, base: int = 0) -> Effect:
        """Return the change in the continuous replay, over its blocks."""
        return continuous(self.blocks[base], self.blocks[p])

    def totals(self, p: int, metric: str = "bounded_slowdown", base: int = 0) -> RatioOfMeans:
        """Ratio of the means over windows of a metric, its interval, and the largest window's share."""
        return totals(self.windows[metric][base], self.windows[metric][p])

    def wait_ratios(self, p: int, base: int = 0) -> list[float]:
        """Longest wait in the continuous replay / that of `base`: of every replica, and of the log itself."""
        both = [*zip(self.replays[p], self.replays[base], strict=True), (self.logged[p], self.logged[base])]
        return [max(a["max_wait"], 1.0) / max(b["max_wait"], 1.0) for a, b in both]

    def waits(self, p: int, base: int = 0) -> tuple[float, float, float]:
        """(median, least, most) of `wait_ratios`."""
        ratio = self.wait_ratios(p, base)
        return float(np.median(ratio)), min(ratio), max(ratio)

    def keeps(self, p: int, bound: float, base: int = 0) -> bool:
        """Is the longest wait at most `bound` times that of `base` in every replica?"""
        return self.waits(p, base)[2] <= bound

    @cached_property
    def claimed(self) -> list[bool]:
        """[P] may a difference from the first be claimed? By Holm's adjustment over the policies, if sign flips agree."""
        return [False, *claims([self.change(p) for p in range(1, len(self.policies))])]

    @property
    def queues(self) -> bool:
        """Is there a queue to speak of, in the continuous replay? Without one no order matters."""
        return max(s["bounded_slowdown"] for s in self.whole + self.logged) >= IDLE

    def ranks(self, metric: str = "bounded_slowdown") -> np.ndarray:
        """[P] mean rank over windows (1 is best; ties share)."""
        x = self.windows[metric].mean(axis=2) * (-1 if metric == "utilisation" else 1)
        less = (x[:, None] > x[None]).sum(axis=1)
        same = (x[:, None] == x[None]).sum(axis=1) - 1
        return (1 + less + same / 2).mean(axis=1)

    def wins(self, p: int, base: int = 0, metric: str = "bounded_slowdown") -> tuple[int, int, int]:
        """Windows in which policy p is better than, equal to (within 0.1 %), worse than `base`."""
        a, b = self.windows[metric].mean(axis=2)[[p, base]]
        near = np.abs(a - b) <= 1e-3 * np.maximum(np.abs(b), 1e-12)
        return int((~near & (a < b)).sum()), int(near.sum()), int((~near & (a > b)).sum())

    def pareto(self) -> list[int]:
        """Policies no other beats on both mean bounded slowdown and longest wait (continuous replay)."""
        points = [(s["bounded_slowdown"], s["max_wait"]) for s in self.whole]
        return [i for i, a in enumerate(points) if not any(b[0] <= a[0] and b[1] <= a[1] and b != a for b in points)]

    def price(self, p: int, base: int = 0) -> str:
        """The longest wait against that of `base`, in words: a number and its range."""
        middle, least, most = self.waits(p, base)
        over = f" ({least:.2f} to {most:.2f} over {len(self.replays[p]) + 1} replays)" if self.shakes else ""
        return f"longest wait {middle:.2f} times that of {self.policies[base]}{over}"

    def why(self, p: int) -> str:
        """Why a difference of policy p from the first is not claimed."""
        e, count = self.change(p), len(self.policies) - 1
        blocks = f"{len(self.first_row)} windows make {e.blocks} block{'s' * (e.blocks != 1)} of time"
        if isnan(e.low):
            return f"too few windows to claim anything: {blocks}, and {LEAST} are needed"
        if e.low <= 0 <= e.high:
            return "no difference can be claimed, for the interval holds 0"
        if e.flips >= 0.05:
            return f"too few windows to claim it: {blocks}, and the exact test over them gives p = {e.flips:.2f}"
        return f"not to be claimed among {count} comparisons at once (Holm)"

    def verdict(self, p: int) -> str:
        """Policy p against the first in one sentence; a difference is claimed only where the test carries it."""
        name, base = self.policies[p], self.policies[0]
        if not self.queues:
            return f"{name}: this log has hardly a queue, and says nothing about {name} against {base}."
        e = self.change(p)
        if not self.claimed[p]:
            return f"{name}: bounded slowdown {e.text()} against {base}, {self.why(p)}; {self.price(p)}."
        word = "lower" if e.change < 0 else "higher"
        return f"{name}: bounded slowdown {e.text()}, {word} than {base}; {self.price(p)}."

    def __repr__(self) -> str:
        """Five lines at most: the log, the three schedulers with the lowest mean, what else there is."""
        w, x = self.workload, self.windows["bounded_slowdown"].mean(axis=(1, 2))
        head = f"Comparison of {len(x)} schedulers on {w.name}: {len(w):,} jobs, {len(self.first_row)} windows of "
        lines = [f"{head}{self.window_jobs:,}"]
        for p in np.argsort(x, kind="stable")[:3]:
            change = "the reference" if p == 0 else f"{self.change(p).text()}{' (claimed)' * self.claimed[p]}"
            longest = self.whole[p]["max_wait"] / 3600
            lines.append(f"  {self.policies[p]}: bounded slowdown {x[p]:,.2f}, {change}; longest wait {longest:,.1f} h")
        return "\n".join([*lines, "  .verdict(p) in words, .to_dict() all numbers, .write_report('out.html') figures"])

    def to_dict(self) -> dict:
        """Everything but the records, for JSON."""
        whole, claims, ranks, pareto = self.whole, self.claimed, self.ranks(), self.pareto()
        adjusted = [float("nan"), *holm([self.change(p).p for p in range(1, len(self.policies))])]
        rows = []
        for p, name in enumerate(self.policies):
            won, tied, lost = self.wins(p)
            middle, least, most = self.waits(p)
            rows.append(
                {
                    "policy": name,
                    "logged": self.logged[p],
                    "whole": whole[p],
                    "windows": {m: float(x[p].mean()) for m, x in self.windows.items()},
                    "against_first": self.change(p).to_dict() | {"p_holm": adjusted[p], "claimed": claims[p]},
                    "totals_against_first": {m: vars(self.totals(p, m)) for m in self.windows},
                    "whole_against_first": self.change_whole(p).to_dict(),
                    "longest_wait_ratio": {"median": middle, "least": least, "most": most},
                    "mark": self.marks[p],
                    "rank": float(ranks[p]),
                    "windows_won": won,
                    "windows_tied": tied,
                    "windows_lost": lost,
                    "pareto": p in pareto,
                    "verdict": self.verdict(p) if p else "the reference",
                    "by": {by: metrics.breakdown(self.records[p], by) for by in metrics.CLASSES},
                }
            )
        return {
            "workload": self.workload.name,
            "statistics": statistics(self.workload),
            "recorded": recorded(self.workload),
            "dropped": self.workload.dropped,
            "notes": list(self.notes),
            "conventions": conventions(self),
            "has_a_queue": self.queues,
            "fair_best": None if self.fair is None else self.policies[self.fair],
            "policies": rows,
            "bounds": {name: [x._asdict() for x in curve] for name, curve in self.curves.items()},
        }

    def write_report(self, path: str | Path, *, force: bool = False, **settings: Any) -> None:
        """Write the HTML report; settings as `jobwise.report.comparison.write_report`. Raises InputError, also where `path`
        exists, unless `force`."""
        imported("jobwise.report.comparison:write_report")(self, path, force=force, **settings)  # by name: it needs this class


def conventions(c: Comparison) -> list[str]:
    """How the numbers were made, for people who compare them with others'."""
    w = c.workload
    machine = f"{w.cluster.processors:,} {w.cluster.resources[0]}"
    dropped = ", ".join(f"{n:,} {r}" for r, n in w.dropped.items()) or "none"
    moved = f"submits moved by up to {c.shake_s:g} s"
    shifted = f"mean of {c.shakes} replicas with {moved}" if c.shakes else "submits as logged"
    replays = (
        f'mean of {min(c.shakes, REPLAYS)} replays with {moved}; figures and "as logged" with none moved'
        if c.shakes
        else "as logged"
    )
    return [
        f"Machine: {machine}; jobs take any of them. Rows left out: {dropped}.",
        *w.reading,
        "Jobs run their true time; one that has outlived its estimate is taken to end now.",
        "Schedulers decide anew at every event; EASY reserves for the first job that does not fit.",
        "Bounded slowdown: max((wait + run) / max(run, 10 s), 1); run: the time executed, wait: the rest until the job's end.",
        f"Windows: {len(c.first_row)} of {c.window_jobs:,} consecutive jobs, as many before each not counted; {shifted}.",
        f"The whole log in one continuous replay: {replays}.",
        "Changes: geometric mean over windows, 95 % by Student's t over blocks of two windows (in the continuous replay: of as "
        "many jobs); no interval below 6 blocks; a claim needs Holm's adjustment over all policies and the sign-flip test.",
        *c.notes,
    ]

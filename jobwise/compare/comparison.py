"""What a comparison has found, in numbers, and in verdicts that claim no more than they carry.

One effect has one number and one verdict: the change of bounded slowdown in a continuous replay of the log, per block of time.
Windows of the log are a second look, in reports and behind `--all`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import inf, isnan
from pathlib import Path
from typing import Any

import numpy as np

from jobwise import metrics
from jobwise.compare import energy
from jobwise.compare.bounds import AtBound
from jobwise.compare.intervals import LEAST, Effect, RatioOfMeans, claims, compared, continuous, holm, totals
from jobwise.extensions import imported
from jobwise.record import Record
from jobwise.workload import Workload
from jobwise.workloads.transform import recorded, statistics

REPLAYS = 4  # time-shifted replicas of the continuous replay, at most
IDLE = 1.3  # where no scheduler has a higher mean bounded slowdown in the continuous replay, there is no queue
LONGER = 1.2  # times the longest wait: what an answer calls kept
BETTER, WORSE, OPEN, FEW = "better", "worse", "no significant difference", "too few jobs to say"  # the verdicts


def verdict_of(e: Effect, sure: bool) -> tuple[str, str]:
    """(the verdict on an effect that may be claimed, or not; why, where it is not plain from the interval)."""
    if sure:
        return (BETTER if e.change < 0 else WORSE), ""
    if isnan(e.low):
        return FEW, f"they make {several(e.blocks, 'block')} of time, and {LEAST} are needed"
    if e.flips >= 0.05 and (e.low > 0 or e.high < 0):
        return FEW, f"they make {several(e.blocks, 'block')} of time, and an exact test of these gives p = {e.flips:.2f}"
    return OPEN, "" if e.low <= 0 <= e.high else "it does not hold with Holm's adjustment for several comparisons"


def several(count: int, what: str) -> str:
    """Return as in "1 block", "3 blocks"."""
    return f"{count:,} {what}{'s' * (count != 1)}"


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """The result of `compare`. P policies, W windows, K replicas of a window, R replays of the whole.

    `windows`: metric -> [P, W, K]. `blocks`: [P, R, B] mean bounded slowdown of blocks of consecutive jobs of the
    continuous replay; `weighted`: their area-weighted response times, s. `replays`: P lists of R summaries of it; `logged`:
    P summaries with submits as logged; `records`: their records. `first_row`: [W] first job of each window, in the
    workload. `marks`: P texts: which rule is the fair best, which the best in hindsight. `fair`: place of the fair best, if
    known; `joined`: how many such rules nobody had asked for. `notes`: what a reader must know of these policies and this
    log; `cautions`: those of them that are to be read before any number. `curves`: policies under start deadlines of
    several bounds. `spent`: where power is known, [P, R, B] what blocks of time cost: energy (kWh), energy_cost, co2 (g).
    """

    workload: Workload
    policies: list[str]
    windows: dict[str, np.ndarray]
    blocks: np.ndarray
    weighted: np.ndarray
    replays: list[list[dict[str, float]]]
    logged: list[dict[str, float]]
    first_row: np.ndarray
    window_jobs: int
    replicas: int
    jitter_s: float
    records: list[Record] = field(repr=False)
    marks: list[str]
    fair: int | None = None
    joined: int = 0
    bound: float = inf
    notes: tuple[str, ...] = ()
    cautions: tuple[str, ...] = ()
    curves: dict[str, list[AtBound]] = field(default_factory=dict)
    spent: dict[str, np.ndarray] = field(default_factory=dict)

    @cached_property
    def whole(self) -> list[dict[str, float]]:
        """P summaries of the continuous replay, means over its replicas."""
        return [{k: float(np.mean([s[k] for s in every])) for k in every[0]} for every in self.replays]

    def change(self, p: int, base: int = 0) -> Effect:
        """Return the change of bounded slowdown against policy `base` in the continuous replay, in a typical block of time."""
        return continuous(self.blocks[base], self.blocks[p])

    def change_weighted(self, p: int, base: int = 0) -> Effect:
        """Return the change of the area-weighted response time against policy `base` in a typical block of time."""
        return continuous(self.weighted[base], self.weighted[p])

    def change_spent(self, p: int, what: str, base: int = 0) -> RatioOfMeans:
        """Return the change of what the whole replay costs (a key of `spent`) against policy `base`."""
        return energy.change(self.spent[what][base], self.spent[what][p])

    def change_in_windows(self, p: int, base: int = 0) -> Effect:
        """Bounded slowdown of windows against policy `base`: geometric mean, 95 % by Student's t over blocks of two windows."""
        x = self.windows["bounded_slowdown"]
        return compared(x[base], x[p])

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
        """[P] may a difference from the first be claimed? By Holm's adjustment over the policies that were asked for (of a rule
        that joined: over all), if sign flips agree."""
        effects = [self.change(p) for p in range(1, len(self.policies))]
        return [False, *claims(effects[: self.asked - 1]), *claims(effects)[self.asked - 1 :]]

    @property
    def asked(self) -> int:
        """How many policies were asked for; the rules behind them joined."""
        return len(self.policies) - self.joined

    def times(self, p: int, base: int = 0) -> float:
        """Return the longest wait in the continuous replay as a multiple of that of `base`, of means over replicas."""
        return max(self.whole[p]["max_wait"], 1.0) / max(self.whole[base]["max_wait"], 1.0)

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

    def verdict(self, p: int) -> str:
        """Return what policy p is against the first: "better", "worse", "no significant difference", "too few jobs to say"."""
        return self.judged(p)[0]

    def judged(self, p: int) -> tuple[str, str]:
        """(the verdict on policy p against the first, why)."""
        if not self.queues:
            return FEW, "this log has hardly a queue, and without one no order matters"
        return verdict_of(self.change(p), self.claimed[p])

    def frame(self) -> Any:
        """Return the table of the comparison as a pandas.DataFrame, a row a scheduler. Raises InputError without pandas."""
        return imported("jobwise.report.frames:comparison")(self)

    def __repr__(self) -> str:
        """The log, the table of the schedulers, and what else there is."""
        lines = [self.compared, "", *(" ".join(cells).rstrip() for cells in _aligned(HEADS, self.rows()))]
        return "\n".join([*lines, "", ".frame() for pandas, .to_dict() all numbers, .write_report('out.html') figures"])

    @property
    def compared(self) -> str:
        """What was compared, in a sentence."""
        w, replays = self.workload, len(self.replays[0])
        means = f", means of {replays} time-shifted replicas" if self.replicas and replays > 1 else ""
        machine = w.cluster.words
        return f"{len(w):,} jobs of {w.name} on {machine}, in one continuous replay per scheduler{means}."

    def rows(self) -> list[list[str]]:
        """The table of the comparison as text: a row a scheduler, and one of what the site recorded. Columns: HEADS."""
        rows = []
        for p, name in enumerate(self.policies):
            s, first = self.whole[p], p == 0
            row = [name, f"{s['bounded_slowdown']:,.1f}", "reference" if first else self.change(p).text(), hours(s["max_wait"])]
            rows.append([*row, _times(self.times(p)), f"{s['over_a_day']:.1%}", "" if first else self.verdict(p)])
        if site := recorded(self.workload):
            rows.append(["as recorded", f"{site['bounded_slowdown']:,.1f}", "", hours(site["max_wait"]), "", "", ""])
        return rows

    def to_dict(self) -> dict:
        """Everything but the records, for JSON."""
        whole, claims, ranks, pareto = self.whole, self.claimed, self.ranks(), self.pareto()
        p_values = [self.change(p).p for p in range(1, len(self.policies))]
        adjusted = [float("nan"), *holm(p_values[: self.asked - 1]), *holm(p_values)[self.asked - 1 :]]
        in_windows = [self.change_in_windows(p) for p in range(len(self.policies))]
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
                    "verdict": self.verdict(p) if p else "reference",
                    "why": self.judged(p)[1] if p else "",
                    "against_first": self.change(p).to_dict() | {"p_holm": adjusted[p], "claimed": claims[p]},
                    "area_weighted_response_against_first": self.change_weighted(p).to_dict(),
                    "spent_against_first": {what: vars(self.change_spent(p, what)) for what in self.spent},
                    "longest_wait_times": self.times(p),
                    "longest_wait_ratio": {"median": middle, "least": least, "most": most},
                    "windows_against_first": in_windows[p].to_dict(),
                    "totals_against_first": {m: vars(self.totals(p, m)) for m in self.windows},
                    "mark": self.marks[p],
                    "rank": float(ranks[p]),
                    "windows_won": won,
                    "windows_tied": tied,
                    "windows_lost": lost,
                    "pareto": p in pareto,
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


HEADS = ("scheduler", "mean slowdown", "typical change [95 %]", "longest wait h", "x ref", "over 1 day", "verdict")  # of `rows`


def hours(seconds: float) -> str:
    """Return seconds as hours: "0.004", "0.4", "134.9", "12,356"."""
    h = seconds / 3600
    return f"{h:,.0f}" if h >= 1000 else f"{h:,.1f}" if h >= 0.1 or h < 0.0005 else f"{h:.3f}"


def _times(x: float) -> str:
    return f"{x:.2f}" if x < 100 else f"{x:,.0f}"


def _aligned(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[list[str]]:
    """The heads and rows as text of equal width by column: the first and the last column flush left."""
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    left = {0, len(heads) - 1}
    return [
        [f"{x:<{n}}" if i in left else f"{x:>{n}}" for i, (x, n) in enumerate(zip(row, widths, strict=True))]
        for row in (heads, *rows)
    ]


def conventions(c: Comparison) -> list[str]:
    """How the numbers were made, for people who compare them with others'."""
    w = c.workload
    machine = f"{w.cluster.processors:,} {w.cluster.resources[0]}"
    moved = f"submits moved by up to {c.jitter_s:g} s"
    shifted = f"mean of {c.replicas} replicas with {moved}" if c.replicas else "submits as logged"
    replays = (
        f'mean of {min(c.replicas, REPLAYS)} replays with {moved}; figures and "as logged" with none moved'
        if c.replicas
        else "as logged"
    )
    return [
        f"Machine: {machine}; jobs take any of them. Rows left out: {w.left_out}.",
        *w.reading,
        "Jobs run their true time; one that has outlived its estimate is taken to end now.",
        "Schedulers decide anew at every event; EASY reserves for the first job that does not fit.",
        "Bounded slowdown: max((wait + run) / max(run, 10 s), 1); run: the time executed, wait: the rest until the job's end.",
        f"Windows: {len(c.first_row)} of {c.window_jobs:,} consecutive jobs, as many before each not counted; {shifted}.",
        f"The whole log in one continuous replay: {replays}.",
        "Changes: in the continuous replay the geometric mean over blocks of time as long as two windows, 95 % by Student's t "
        "with the correlation of neighbours and the variance over replicas; no interval below 6 blocks. Better and worse need "
        "Holm's adjustment over the schedulers asked for, and a sign-flip test. In windows: the same, blocks of two windows.",
        *c.notes,
    ]

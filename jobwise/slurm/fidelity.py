"""Does a simulation do what the real scheduler did? Recorded waits beside simulated ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from jobwise import metrics
from jobwise.errors import InputError
from jobwise.policies.names import resolve
from jobwise.record import Record
from jobwise.simulate import simulate
from jobwise.workload import Workload

GROUPS = {"partition": "partition", "queue": "QOS", "group": "account", "user": "user"}  # columns of jobs, as Slurm calls them
NEAR_S, NEAR = 3.0, 0.05  # a start is near within so many s and this share of the recorded wait
FEW = 20  # jobs
WELL, POOR = 0.05, 0.25  # error of the mean wait: trusted, not trusted


@dataclass(frozen=True, eq=False)
class Fidelity:
    """Recorded jobs under one policy. `wait`, `recorded` [J] s; `start`: recorded starts [J] s."""

    policy: str
    wait: np.ndarray
    recorded: np.ndarray
    start: np.ndarray
    makespan: tuple[float, float]  # simulated, recorded, s

    @property
    def error(self) -> float:
        """The error of the mean wait, as a share of the recorded one."""
        return float(self.wait.mean() / max(self.recorded.mean(), 1e-9) - 1)

    @property
    def order(self) -> float:
        """Rank correlation (Spearman) of the starts."""
        a, b = (
            np.argsort(np.argsort(x, kind="stable"), kind="stable")
            for x in (self.start, self.start + self.wait - self.recorded)
        )
        return float(np.corrcoef(a, b)[0, 1]) if len(a) > 1 else 1.0

    @property
    def near(self) -> float:
        """Share of the jobs that start within NEAR_S and a share NEAR of their wait of the recorded start."""
        return float((np.abs(self.wait - self.recorded) <= NEAR_S + NEAR * self.recorded).mean())

    @property
    def typical(self) -> float:
        """Median difference of the waits, s."""
        return float(np.median(np.abs(self.wait - self.recorded)))

    def to_dict(self) -> dict[str, float | str]:
        """Return its numbers as JSON takes them."""
        result: dict[str, float | str] = {
            "policy": self.policy,
            "mean_wait": float(self.wait.mean()),
            "error": self.error,
            "order": self.order,
        }
        return result | {
            "near": self.near,
            "median_difference": self.typical,
            "makespan_error": self.makespan[0] / self.makespan[1] - 1,
        }

    def row(self) -> list[str]:
        """Return its cells under COLUMNS."""
        a, b = self.makespan
        return [
            self.policy, f"{self.wait.mean():,.0f}", f"{self.error:+.1%}", f"{self.typical:,.0f}", f"{self.order:.3f}",
            f"{self.near:.0%}", f"{a / max(b, 1e-9) - 1:+.1%}",
        ]  # fmt: skip


POOL = ("fcfs+easy", "fcfs", "sjf+easy", "saf+easy")  # candidates beside a site's own scheduler
COLUMNS = ("policy", "wait s", "error", "median off s", "order", "near", "makespan")
EXPLAINED = (
    "wait: mean; error: of the mean wait; median off: median difference of the waits; order: rank correlation of the starts; "
    "near: share of the jobs within 3 s and 5 % of the recorded wait"
)


def recorded(w: Workload) -> np.ndarray:
    """[J] s, the recorded waits. Raises InputError where the log has none."""
    wait = w.columns.get("wait")
    if wait is None or not (np.asarray(wait) > 0).any():
        raise InputError(f"{w.name}: no wait is recorded; nothing can be compared")
    return np.maximum(np.asarray(wait, float), 0.0)


def fidelity(w: Workload, policies: Sequence[str], progress: Callable[[int, int], None] | None = None) -> list[Fidelity]:
    """Each policy on the recorded jobs, the one that explains the record best first: by the error of the mean wait, in steps of
    WELL, then by the mean difference of the waits. Raises InputError."""
    recorded(w)
    results, known = [], [resolve(name) for name in policies]
    for k, policy in enumerate(known):
        step = None if progress is None else lambda a, b, k=k: progress(k * b + a, len(policies) * b)
        results.append(beside(w, policies[k], simulate(w, policy, progress=step)))
    return sorted(results, key=lambda f: (round(abs(f.error) / WELL), float(np.abs(f.wait - f.recorded).mean())))


def beside(w: Workload, name: str, r: Record) -> Fidelity:
    """A replay of the recorded jobs beside the record. Raises InputError where no waits are recorded."""
    wait, makespan = recorded(w), (float(np.nanmax(r.jobs["end"])), float(w.ends["end"].max()))
    return Fidelity(name, metrics.for_all(r, metrics.wait(r), 0.0), wait, w.jobs["submit"] + wait, makespan)


def by_group(w: Workload, f: Fidelity, most: int = 8) -> list[list[str]]:
    """Rows (what, group, jobs, recorded wait, simulated wait): by partition, size, user, part of the time."""
    rows = []

    def add(what: str, group: str, keep: np.ndarray) -> None:
        if keep.any():
            a, b = f.recorded[keep].mean(), f.wait[keep].mean()
            rows.append([what, group, f"{keep.sum():,}", f"{a:,.0f}", f"{b:,.0f}", f"{b / a - 1:+.0%}" if a > 0 else ""])

    what = GROUPS if w.cluster.site else {k: k for k in GROUPS}  # a log's queues and groups are what its site calls so
    for key, label in what.items():
        ids, count = np.unique(w.jobs[key], return_counts=True)
        if len(ids) > 1:
            for i in ids[np.argsort(-count, kind="stable")][:most]:
                add(label, str(w.names.get(key, {}).get(int(i), i)), w.jobs[key] == i)
    size = w.jobs["request"][:, 0]
    for low in 4 ** np.arange(10):
        add("CPUs" if w.cluster.site else "processors", f"{low:,} to {4 * low - 1:,}", (size >= low) & (size < 4 * low))
    edges = np.linspace(0, len(w), 6).astype(int)
    for k in range(5):
        add("fifth of the jobs", str(k + 1), (np.arange(len(w)) >= edges[k]) & (np.arange(len(w)) < edges[k + 1]))
    return rows


def trusted(f: Fidelity) -> bool:
    """May settings be proposed by this simulation? Not where the record has causes that it does not know."""
    return len(f.wait) >= FEW and abs(f.error) <= POOR


def sentence(results: Sequence[Fidelity]) -> str:
    """How far to trust a what-if, which simulates `slurm` where that is among the candidates, else the one that fits best."""
    best = results[0]
    judged = next((f for f in results if f.policy == "slurm"), best)
    if len(judged.wait) < FEW:
        trust = f"{len(judged.wait)} jobs are too few to say how far a what-if can be trusted"
    elif abs(judged.error) <= WELL and judged.order > 0.95:
        trust = "a what-if on these jobs can be trusted for mean waits, and for differences of more than a few per cent"
    elif abs(judged.error) <= POOR:
        trust = "a what-if tells directions and large differences; small ones may be errors of the simulation"
    else:
        trust = "a what-if is not to be trusted here: the record has causes that the simulation does not know"
    first = "" if judged is best else f"{best.policy} explains the record best, its mean wait is {best.error:+.0%} off. "
    verb = " explains the record best: " if judged is best and len(results) > 1 else ", simulated, against the record: "
    how = f"its mean wait is {judged.error:+.0%} off, the rank correlation of the starts {judged.order:.2f}"
    return f"{first}{judged.policy}{verb}{how}; {trust}."

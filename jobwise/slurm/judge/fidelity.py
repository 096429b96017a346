"""Does a simulation do what the real scheduler did? Recorded waits beside simulated ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from jobwise import metrics
from jobwise.errors import InputError
from jobwise.policies.names import resolve
from jobwise.record import Record
from jobwise.simulate import simulate
from jobwise.workload import Workload
from jobwise.workloads.sites import TICK, phase

GROUPS = {"partition": "partition", "queue": "QOS", "group": "account", "user": "user"}  # columns of jobs, as Slurm calls them
NEAR_S, NEAR = 3.0, 0.05  # a start is near within so many s and this share of the recorded wait
FEW = 20  # jobs
PHASES = 10  # of the scheduler's clocks
WELL, POOR = 0.05, 0.25  # error of the mean wait: trusted, not trusted


@dataclass(frozen=True, eq=False)
class Fidelity:
    """Recorded jobs under one policy. `waits` [K, J] s, in K replays that differ by the phases of the scheduler's clocks, which
    no record tells; `recorded` [J] s; `start`: recorded starts [J] s."""

    policy: str
    waits: np.ndarray
    recorded: np.ndarray
    start: np.ndarray
    makespan: tuple[float, float]  # simulated (mean), recorded, s

    @property
    def wait(self) -> np.ndarray:
        """[J] s, the mean over phases."""
        return self.waits.mean(axis=0)

    @property
    def errors(self) -> np.ndarray:
        """[K] the errors of the mean wait, as shares of the recorded one."""
        return self.waits.mean(axis=1) / max(self.recorded.mean(), 1e-9) - 1

    @property
    def error(self) -> float:
        """The error of the mean wait, the mean over phases."""
        return float(self.errors.mean())

    @property
    def spread(self) -> float:
        """The standard deviation of the errors over phases; 0 of a single replay."""
        return float(self.errors.std(ddof=1)) if len(self.waits) > 1 else 0.0

    @property
    def order(self) -> float:
        """Rank correlation (Spearman) of the starts, the mean over phases."""
        return float(np.mean([correlation(self.start, self.start + x - self.recorded) for x in self.waits]))

    @property
    def near(self) -> float:
        """Share of the jobs that start within NEAR_S and a share NEAR of their wait of the recorded start, mean over phases."""
        return near(self.recorded, self.waits)

    @property
    def typical(self) -> float:
        """Median difference of the waits, s."""
        return float(np.median(np.abs(self.waits - self.recorded)))

    def to_dict(self) -> dict[str, float | str]:
        """Return its numbers as JSON takes them."""
        result: dict[str, float | str] = {
            "policy": self.policy,
            "mean_wait": float(self.wait.mean()),
            "error": self.error,
            "phases": len(self.waits),
            "spread": self.spread,
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
        error = f"{self.error:+.1%}" + (f" ± {self.spread:.1%}" if len(self.waits) > 1 else "")
        return [
            self.policy, f"{self.wait.mean():,.0f}", error, f"{self.typical:,.0f}", f"{self.order:.3f}",
            f"{self.near:.0%}", f"{a / max(b, 1e-9) - 1:+.1%}",
        ]  # fmt: skip


POOL = ("fcfs+easy", "fcfs", "sjf+easy", "saf+easy")  # candidates beside a site's own scheduler
COLUMNS = ("policy", "wait s", "error", "median off s", "order", "near", "makespan")
EXPLAINED = (
    "wait: mean; error: of the mean wait, ± its standard deviation over phases of the scheduler's clocks; median off: median "
    "difference of the waits; order: rank correlation of the starts; "
    "near: share of the jobs within 3 s and 5 % of the recorded wait"
)


def recorded(w: Workload) -> np.ndarray:
    """[J] s, the recorded waits. Raises InputError where the log has none."""
    wait = w.columns.get("wait")
    if wait is None or not (np.asarray(wait) > 0).any():
        raise InputError(f"{w.name}: no wait is recorded; nothing can be compared")
    return np.maximum(np.asarray(wait, float), 0.0)


def correlation(a: np.ndarray, b: np.ndarray) -> float:
    """Spearman's rank correlation, of values of which equal ones stand in the order of rows."""
    first, second = (np.argsort(np.argsort(x, kind="stable"), kind="stable").astype(float) for x in (a, b))
    return float(np.corrcoef(first, second)[0, 1]) if len(a) > 1 else 1.0


def near(first: np.ndarray, waits: np.ndarray) -> float:
    """Share of waits that are within NEAR_S and a share NEAR of the first ones."""
    return float((np.abs(waits - first) <= NEAR_S + NEAR * first).mean())


def fidelity(
    w: Workload, policies: Sequence[str], progress: Callable[[int, int], None] | None = None, phases: int = PHASES
) -> list[Fidelity]:
    """Replay each policy on the recorded jobs. Return them in order of fit to the record: by the error of the mean wait, in
    steps of WELL, then by the mean difference of the waits. A site's own scheduler is replayed with `phases` phases of its
    clocks. Raises InputError."""
    recorded(w)
    results, done = [], 0
    count = {name: phases if name == "slurm" and _in_seconds(w) else 0 for name in policies}
    total = sum(max(n, 1) for n in count.values())
    for name in policies:
        policy, several, at_tick = resolve(name), [], np.ones(len(w), bool)
        for k in range(count[name]) or [-1]:
            part, order = phase(w, k, at_tick) if k >= 0 else (w, np.arange(len(w)))
            step = None if progress is None else lambda a, b, done=done: progress(done * b + a, total * b)
            r = simulate(part, policy, progress=step)
            several.append(beside(w, name, r, order if k >= 0 else None))
            at_tick[order] = r.jobs["start"] % 1 < 2 * TICK  # the next replay takes it that main passes start these
            done += 1
        makespan = float(np.mean([f.makespan[0] for f in several])), several[0].makespan[1]
        results.append(replace(several[0], waits=np.concatenate([f.waits for f in several]), makespan=makespan))
    return sorted(results, key=lambda f: (round(abs(f.error) / WELL), float(np.abs(f.waits - f.recorded).mean())))


def of_present(w: Workload, progress: Callable[[int, int], None] | None = None) -> Fidelity | None:
    """Return how well a site's own scheduler, simulated, explains the record, as `fidelity` judges it; None where no waits are
    recorded."""
    try:
        recorded(w)
    except InputError:
        return None
    return fidelity(w, ["slurm"], progress)[0]


def _in_seconds(w: Workload) -> bool:
    """Does the record tell whole seconds alone, as accounting does?"""
    return w.cluster.site is not None and not (np.append(w.jobs["submit"], recorded(w)) % 1).any()


def beside(w: Workload, name: str, r: Record, order: np.ndarray | None = None) -> Fidelity:
    """A replay of the recorded jobs beside the record. `order`: the rows of `r` as rows of `w`, where submits were spread in
    their second; then starts are cut to whole seconds, as recorded ones are. Raises InputError where no waits are recorded."""
    waited, makespan = recorded(w), (float(np.nanmax(r.jobs["end"])), float(w.ends["end"].max()))
    if order is None:
        wait = metrics.for_all(r, metrics.wait(r), 0.0)
    else:
        wait = np.empty(len(w))
        wait[order] = np.floor(r.jobs["start"])
        wait -= w.jobs["submit"]
    return Fidelity(name, wait[None], waited, w.jobs["submit"] + waited, makespan)


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
    """Return the trust in a what-if in words; it simulates `slurm` where that is a candidate, else the best-fitting policy."""
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

"""Estimate the effect of a change: replay jobs on a site as it is and as it would be, beside each other.

Both are simulations: a change is compared with the *simulated* present, so that causes unknown to the simulation are missing
on both sides. Both use the same time-shifted replicas; intervals are over blocks of time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np

from jobwise import metrics
from jobwise.compare import energy
from jobwise.compare.comparison import BETTER, FEW, OPEN, WORSE, verdict_of
from jobwise.compare.intervals import LEAST, Effect, RatioOfMeans, claims, compared, ratio_interval
from jobwise.compare.windows import shake_for
from jobwise.decision import Policy
from jobwise.parallel import Shared, current
from jobwise.policies.names import resolve
from jobwise.record import Record
from jobwise.simulate import simulate
from jobwise.slurm.judge.fidelity import GROUPS
from jobwise.workload import Workload
from jobwise.workloads.transform import shake

SHAKES, BLOCKS = 5, 16
LEAST_JOBS = 20  # of fewer jobs a group is not told
LARGEST = 6  # groups of a kind that are told


class Unit(NamedTuple):
    """A unit of waits: its name, its length in s."""

    name: str
    s: float

    def text(self, seconds: float) -> str:
        """Return seconds in this unit."""
        x = seconds / self.s
        return f"{x:,.0f}" if x >= 1000 else f"{x:,.1f}" if x >= 10 or x == 0 else f"{x:,.2f}"


UNITS = (Unit("h", 3600.0), Unit("min", 60.0), Unit("s", 1.0))


@dataclass(frozen=True, eq=False)
class Replays:
    """Replays of one scheduler, replica by replica; the first as logged, which counts for the longest wait alone."""

    records: list[Record]

    @property
    def longest(self) -> np.ndarray:
        """The longest waits [K], in s."""
        return np.array([_wait(r).max() for r in self.records])

    @property
    def longest_wait(self) -> float:
        """Mean of the replicas' longest waits, s."""
        return float(np.mean([_wait(r).max() for r in self.replicas]))

    @property
    def unit(self) -> Unit:
        """The unit in which a table has waits as long as these."""
        return next(x for x in UNITS if self.longest_wait >= 2 * x.s or x.s == 1)

    @property
    def wait(self) -> float:
        """Mean of the replicas' mean waits, s."""
        return float(np.mean([_wait(r).mean() for r in self.replicas]))

    @property
    def p95(self) -> float:
        """Mean of the replicas' waits that 95 % of the jobs stay below, s."""
        return float(np.mean([np.quantile(_wait(r), 0.95) for r in self.replicas]))

    @property
    def utilisation(self) -> float:
        """Mean share of the CPUs in use between the first submit and the last end."""
        return float(np.mean([_in_use(r) / (r.cluster.processors * _length(r)) for r in self.replicas]))

    @property
    def node_hours(self) -> float:
        """Mean node-hours between the first submit and the last end: what the nodes cost, in use or not."""
        return float(np.mean([len(r.cluster.capacity) * _length(r) / 3600 for r in self.replicas]))

    @property
    def stopped(self) -> float:
        """Mean number of times that jobs were stopped for others."""
        return float(np.mean([r.preemptions for r in self.replicas]))

    def cells(self, unit: Unit) -> list[str]:
        """The wait of 95 %, utilisation, node-hours, stops, as text."""
        nodes = f"{self.node_hours:,.1f}" if self.node_hours < 100 else f"{self.node_hours:,.0f}"
        return [unit.text(self.p95), f"{self.utilisation:.0%}", nodes, f"{self.stopped:,.0f}"]

    @property
    def energy(self) -> dict[str, float]:
        """Means of what the replays cost in energy; empty where nothing is known of power."""
        every = [r.energy.summary() for r in self.replicas if r.energy]
        return energy.means(every) if every else {}

    @property
    def slowdown(self) -> float:
        """The mean bounded slowdown of the replays."""
        return float(np.mean([metrics.bounded_slowdown(r).mean() for r in self.replicas]))

    @property
    def replicas(self) -> list[Record]:
        """The time-shifted ones, if any."""
        return self.records[1:] or self.records

    def blocks(self, of: Callable[[Record], np.ndarray], keep: Sequence[np.ndarray] = ()) -> np.ndarray:
        """[B, K] means (with `keep`, [J] bool of each replica: sums over those jobs) of blocks of consecutive jobs."""
        means = []
        for k, r in enumerate(self.replicas):
            x = np.where(keep[k], of(r), 0.0) if keep else of(r)
            edges = np.linspace(0, len(x), min(BLOCKS, len(x)) + 1).astype(int)
            means.append(np.add.reduceat(x, edges[:-1]) / (1.0 if keep else np.diff(edges)))
        return np.stack(means, axis=1)


def _sized(low: int, high: int, r: Record) -> np.ndarray:
    return (r.jobs["request"][:, 0] > low) & (r.jobs["request"][:, 0] <= high)


def _same(key: str, value: int, r: Record) -> np.ndarray:
    return r.jobs[key] == value


def _length(r: Record) -> float:
    """s between the first submit and the last end."""
    return max(float(np.nanmax(r.jobs["end"]) - r.jobs["submit"].min()), 1.0)


def _in_use(r: Record) -> float:
    """CPU-seconds of all jobs, of those that were stopped their last runs."""
    return float(np.nansum((r.jobs["end"] - r.jobs["start"]) * r.jobs["request"][:, 0]))


def _wait(r: Record) -> np.ndarray:
    return metrics.for_all(r, metrics.wait(r), 0.0)


@dataclass(frozen=True, eq=False)
class Change:
    """Effect of a change on bounded slowdowns and on mean waits (an effect over blocks of time; a ratio of means), and on the
    longest wait: a multiple of the present one, replica by replica [K]."""

    name: str
    present: Replays
    after: Replays
    slowdown: Effect
    wait: RatioOfMeans
    longest: np.ndarray
    sure: bool | None = None  # may its slowdown be claimed, among all changes that are looked at? None: by itself

    def spent(self, what: str) -> RatioOfMeans:
        """Return the change of what the schedule costs: a key of `compare.energy.CHANGED`."""
        return energy.change(
            *(np.array([energy.spent(r, BLOCKS)[what] for r in x.replicas]) for x in (self.present, self.after))
        )

    def row(self) -> list[str]:
        """Name, mean wait, mean slowdown, its change, the longest wait (also in times the present one), the verdict. Waits are
        in the unit of the present ones."""
        text = self.present.unit.text
        cells = [self.name, text(self.after.wait), f"{self.after.slowdown:,.1f}", self.slowdown.text()]
        return [*cells, text(self.after.longest_wait), f"{self.times:.2f}", self.verdict[0]]

    def more(self) -> list[str]:
        """Name, change of the mean wait, the wait of 95 %, utilisation, node-hours, stops, the verdict on the mean wait."""
        return [self.name, self.wait.text(), *self.after.cells(self.present.unit), self.verdict_of_wait]

    @property
    def verdict_of_wait(self) -> str:
        """Better or worse, of the mean wait, by its interval alone; else that there is no significant difference."""
        x = self.wait
        if np.isnan(x.low) or np.isnan(x.high):
            return FEW
        return BETTER if x.high < 0 else WORSE if x.low > 0 else OPEN

    @property
    def verdict(self) -> tuple[str, str]:
        """(better, worse, or neither; why), of its slowdown against the present one."""
        return verdict_of(self.slowdown, claims([self.slowdown])[0] if self.sure is None else self.sure)

    @property
    def times(self) -> float:
        """The longest wait as a multiple of the present one, of means over replicas."""
        return max(self.after.longest_wait, 1.0) / max(self.present.longest_wait, 1.0)

    def _longest(self) -> tuple[float, float, float]:
        return float(self.longest.min()), float(np.median(self.longest)), float(self.longest.max())

    def to_dict(self) -> dict:
        """Return its numbers as JSON takes them."""
        return {
            "name": self.name,
            "verdict": self.verdict[0],
            "why": self.verdict[1],
            "wait": {"change": self.wait.change, "low": self.wait.low, "high": self.wait.high}
            | {"present_s": self.present.wait, "mean_s": self.after.wait},
            "bounded_slowdown": self.slowdown.to_dict() | {"mean": self.after.slowdown, "claimed": self.sure},
            "wait_verdict": self.verdict_of_wait,
            "p95_wait_h": {"present": self.present.p95 / 3600, "after": self.after.p95 / 3600},
            "utilisation": {"present": self.present.utilisation, "after": self.after.utilisation},
            "node_hours": {"present": self.present.node_hours, "after": self.after.node_hours},
            "stopped_jobs": {"present": self.present.stopped, "after": self.after.stopped},
            **self._energy(),
            "longest_wait_h": {"present": self.present.longest_wait / 3600, "after": self.after.longest_wait / 3600},
            "longest_wait_ratio": dict(zip(("least", "median", "most"), self._longest(), strict=True)),
            "groups": [{k: x for k, x in g.items() if k != "told"} for g in self.groups()],
        }

    def _energy(self) -> dict:
        a, b = self.present.energy, self.after.energy
        return {"energy": {"present": a, "after": b, "change": vars(self.spent(energy.changed(b)))}} if a and b else {}

    def groups(self) -> list[dict]:
        """Return who wins and who loses: what, group, jobs, mean wait at present and after (s), change with interval."""
        return self._groups

    @cached_property
    def _groups(self) -> list[dict]:
        first, rows = self.present.records[0], []
        names = first.workload.names
        for key, what in GROUPS.items():
            ids, count = np.unique(first.jobs[key], return_counts=True)
            for i in ids[np.argsort(-count, kind="stable")][:LARGEST] if len(ids) > 1 else ():
                label = str(names.get(key, {}).get(int(i), i))
                rows += self._group(what, label, partial(_same, key, i))
        edges = [0, 1, 4, 16, 64, 256, 1024, 1 << 40]
        for low, high in zip(edges[:-1], edges[1:], strict=True):
            label = "1" if high == 1 else f"{low + 1:,} to {high:,}" if high < 1 << 40 else f"over {low:,}"
            rows += self._group("CPUs", label, partial(_sized, low, high))
        return rows

    def rows(self) -> list[list[str]]:
        """Return the groups as text, (what, group, jobs, now, then, change)."""
        return [
            [g["what"], g["group"], f"{g['jobs']:,}", f"{g['present_s']:,.0f}", f"{g['after_s']:,.0f}", g["told"]]
            for g in self.groups()
        ]

    def _group(self, what: str, group: str, keep: Callable[[Record], np.ndarray]) -> list[dict]:
        count, members = int(keep(self.present.records[0]).sum()), [keep(r) for r in self.present.replicas]
        if count < LEAST_JOBS:
            return []
        same = len(self.present.records[0].jobs) == len(self.after.records[0].jobs)
        theirs = members if same else [keep(r) for r in self.after.replicas]  # the same jobs, wherever they have moved
        base = self.present.blocks(_wait, members)
        ours = self.after.blocks(_wait, theirs) * count / max(int(theirs[0].sum()), 1)
        a, b = (float(x.sum(axis=0).mean() / count) for x in (base, ours))
        known = {"what": what, "group": group, "jobs": count, "present_s": a, "after_s": b}
        if max(a, b) < 1.0:
            return [known | {"change": None, "low": None, "high": None, "told": ""}]
        x = ratio(base, ours)
        return [known | {"change": x.change, "low": x.low, "high": x.high, "told": x.text()}]

    @property
    def idle(self) -> bool:
        """Does no job start at another time?"""
        pairs = zip(self.present.records, self.after.records, strict=True)
        return all((a.jobs["start"] == b.jobs["start"]).all() for a, b in pairs)

    def sentence(self) -> str:
        """Return the result in a sentence."""
        e = self.slowdown
        if self.idle:
            return f"{self.name}: not one start changes."
        verdict, why = self.verdict
        standing = f"{verdict} {'than' if verdict in (BETTER, WORSE) else 'from'} the present one"
        standing = verdict if verdict == FEW else standing
        now, then, unit = self.present, self.after, self.present.unit
        wait = f"mean wait {unit.text(then.wait)} {unit.name} (now {unit.text(now.wait)})"
        longest = f"longest wait {unit.text(then.longest_wait)} {unit.name} (now {unit.text(now.longest_wait)})"
        change = f"{self.name}: {standing}, slowdown {e.text()}{f' ({why})' if why else ''}; {wait}; {longest}."
        return " ".join([change, *self._who()])

    def _who(self) -> list[str]:
        """Who waits longer and who waits less by it, of groups whose change is sure: of each the one whose jobs together wait
        longer, or less, by most."""
        unit, sure = self.present.unit, [g for g in self.groups() if g["change"] is not None and not np.isnan(g["low"])]
        out = []
        for word, these in (
            ("Most hit", [g for g in sure if g["low"] > 0]),
            ("Most helped", [g for g in sure if g["high"] < 0]),
        ):
            if these:
                g = max(these, key=lambda g: abs(g["after_s"] - g["present_s"]) * g["jobs"])
                name = f"jobs of {g['group']} CPUs" if g["what"] == "CPUs" else f"{g['what']} {g['group']}"
                waits = f"mean wait {unit.text(g['after_s'])} {unit.name} (now {unit.text(g['present_s'])})"
                out.append(f"{word}: {name}, {waits}.")
        return out


def replays(
    w: Workload,
    policy: str | Policy,
    by: float,
    replicas: int = SHAKES,
    seed: int = 0,
    step: Callable[[int], None] | None = None,
) -> Replays:
    """The jobs as logged, and `replicas` times with submits moved by up to `by` s."""
    with current() as workers:
        work = partial(_replayed, workers.put(w), resolve(policy), by, seed)
        return Replays(workers.map(work, [None, *range(replicas)], step))


def _replayed(log: Shared, policy: Policy, by: float, seed: int, k: int | None) -> Record:
    """The record of a replay: of the jobs as logged, or of the k-th replica."""
    w = log.get()
    return simulate(w if k is None else shake(w, by, [seed, k]), policy)


def against(name: str, present: Replays, after: Replays) -> Change:
    """Return the change from the present replays to others."""
    slow = compared(present.blocks(_slow), after.blocks(_slow), size=1)
    wait = ratio(present.blocks(_wait), after.blocks(_wait))
    return Change(name, present, after, slow, wait, np.maximum(after.longest, 1.0) / np.maximum(present.longest, 1.0))


def ratio(base: np.ndarray, ours: np.ndarray) -> RatioOfMeans:
    """The change of a mean over blocks of time [B, K], means of replicas, its interval by bootstrap-t over blocks; none where
    it would be wider than tenfold."""
    a, b = base.mean(axis=1), ours.mean(axis=1)
    if a.sum() <= 0:
        return RatioOfMeans(0.0 if b.sum() <= 0 else np.inf, np.nan, np.nan, 0.0)
    low, high = ratio_interval(a, b) if len(a) >= LEAST else (np.nan, np.nan)
    if not np.isnan(low) and high > 10 * max(low, 1e-12):
        low = high = np.nan
    return RatioOfMeans(float(b.sum() / a.sum()) - 1, low - 1, high - 1, float((a + b).max() / (a + b).sum()))


def _slow(r: Record) -> np.ndarray:
    return metrics.for_all(r, metrics.bounded_slowdown(r), 1.0)


def what_if(
    w: Workload,
    after: Sequence[tuple[str, Workload, str | Policy]],
    *,
    policy: str = "slurm",
    replicas: int = SHAKES,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> list[Change]:
    """Each (name, the jobs on the site as it would be, policy) against the jobs on the site as it is. Raises InputError."""
    by, done = shake_for(w), 0

    def step(count: int) -> None:
        nonlocal done
        done += count
        if progress:
            progress(done, (1 + len(after)) * (1 + replicas))

    present = replays(w, policy, by, replicas, seed, step=step)
    changes = [against(name, present, replays(x, p, by, replicas, seed, step=step)) for name, x, p in after]
    sure = claims([c.slowdown for c in changes])
    return [replace(c, sure=s) for c, s in zip(changes, sure, strict=True)]

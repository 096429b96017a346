"""Steering a real Slurm by site factors: Slurm stays in charge, a policy has a say in its order.

Each cycle reads the queue, lets the policy rank it, and writes the site factors that differ, by one `scontrol`. A state folder
holds what there was before the first write (`before.json`), who is at work (`lock`), and why everything was written
(`audit.jsonl`). Guard rails, each with its line there:

starved   a job that has waited longer than the bound is ranked first, the oldest first
most      no more jobs are changed in a cycle than this
policy    where it fails, or is slow, the last good order stays; after FAILURES in a row all factors go back
drift     where jobs start later than was foreseen for Slurm alone, by more than chance, all factors go back
stop      a file of that name in the folder: all factors go back, and it ends
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import binom

from jobwise.errors import InputError, plain
from jobwise.files import write_whole
from jobwise.slurm.client import Slurm
from jobwise.slurm.live import Cluster, Reader
from jobwise.slurm.starts import predict
from jobwise.slurm.views import order_of

FAILURES = 3  # cycles in a row in which the policy failed
SLOW_S = 30.0  # a policy may take so long
NEAR = 0.05  # of the span: factors that differ by less are left as they are
ROOM = 8  # times as far apart as they have to be: others fit between
LARGEST = 2_000_000_000  # a site factor is no larger
FORESEE_S, FEW = 600.0, 16  # between two predictions of what Slurm alone would do; futures of each
DRIFT_LEAST, DRIFT_P = 50, 0.001  # starts that are compared, and how unlikely their lateness has to be


@dataclass(frozen=True)
class Settings:
    """How to steer. `span`: factors are 0 to so many points (0: the policy alone decides the order); `starve` s; `most` jobs
    changed in a cycle; `dry`: nothing is written."""

    span: int = 0
    starve: float = 172_800.0
    most: int = 10_000
    dry: bool = False


class Ledger:
    """The state folder of one cluster: one process at a time. Raises InputError where another is at work."""

    def __init__(self, folder: Path):
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._lock = open(folder / "lock", "w")  # noqa: SIM115
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._lock.close()
            raise InputError(f"{folder}: another process steers this cluster") from None
        try:
            self.before: dict[int, int] = self._read()
        except InputError:
            self._lock.close()
            raise

    def _read(self) -> dict[int, int]:
        file = self.folder / "before.json"
        if not file.is_file():
            return {}
        try:
            return {int(k): int(v) for k, v in json.loads(file.read_text()).items()}
        except (ValueError, AttributeError, TypeError):
            raise InputError(f"{file}: is damaged; it should hold the site factor that each job had before") from None

    def keep(self, factors: dict[int, int]) -> None:
        """Remember the factors that jobs have before they are changed for the first time: on disk before Slurm is told."""
        new = {id: x for id, x in factors.items() if id not in self.before}
        if new:
            self.before |= new
            self._save()

    def forget(self, gone: set[int]) -> None:
        """These jobs are as they were, or there no more."""
        if gone & set(self.before):
            self.before = {id: x for id, x in self.before.items() if id not in gone}
            self._save()

    def _save(self) -> None:
        write_whole(self.folder / "before.json", json.dumps({str(k): v for k, v in self.before.items()}) + "\n")

    def note(self, kind: str, *lines: dict[str, Any], **more: Any) -> None:
        """Add a line to the audit log, or several of one kind."""
        head = {"time": round(time.time(), 3), "what": kind}
        with open(self.folder / "audit.jsonl", "a") as log:
            log.write("".join(json.dumps(head | x | more) + "\n" for x in lines or ({},)))
            log.flush()
            os.fsync(log.fileno())

    @property
    def stopped(self) -> bool:
        """Has somebody put the file `stop` into the folder?"""
        return (self.folder / "stop").exists()

    def close(self) -> None:
        """Let others steer the cluster."""
        self._lock.close()


def wanted(order: list[int], span: int, factors: dict[int, tuple[int, int]]) -> dict[int, int]:
    """The site factors that jobs (numbers, first to start first) should have. `factors`: their priority and present factor."""
    ranked = [id for id in order if id in factors]
    if span > 0:
        return {id: round(span * (1.0 - k / max(len(ranked) - 1, 1))) for k, id in enumerate(ranked)}
    own = [priority - site for priority, site in (factors[id] for id in ranked)]
    step = ROOM * (1 + max(own, default=0) - min(own, default=0))  # more than all else can make up for, with room between
    step = max(min(step, LARGEST // max(len(ranked), 1)), 1)
    return {id: step * (len(ranked) - k) for k, id in enumerate(ranked)}


def differing(goal: dict[int, int], factors: dict[int, tuple[int, int]], span: int) -> dict[int, int]:
    """The factors that have to be written, in the order of `goal`: with a span those that are far off, else those of jobs that
    are not where they belong. Where the present factors leave room, few are changed."""
    if span > 0:
        off = max(round(NEAR * span), 1)
        return {id: x for id, x in goal.items() if abs(factors[id][1] - x) >= off or not 0 <= factors[id][1] <= span}
    own = {id: factors[id][0] - factors[id][1] for id in goal}
    gap = 1 + max(own.values(), default=0) - min(own.values(), default=0)
    present, kept = [factors[id][1] for id in goal], set(_falling([factors[id][1] for id in goal], gap))
    ids = list(goal)
    out: dict[int, int] = {}
    for first, last in _runs(kept, len(ids)):
        high = present[first - 1] if first > 0 else None
        low = present[last] if last < len(ids) else 0
        count = last - first
        if high is None:
            high = low + gap * (count + 1)
        if high - low < gap * (count + 1) or high > LARGEST:  # no room: all anew
            return {id: x for id, x in goal.items() if factors[id][1] != x}
        for k in range(first, last):
            out[ids[k]] = high - (high - low) * (k - first + 1) // (count + 1)
    return out


def _falling(values: list[int], gap: int) -> list[int]:
    """Places of a longest subsequence of positive values in which each is smaller by `gap` at least than the one before."""
    from bisect import bisect_right

    ends: list[int] = []  # the negative of the last value of the best sequence of each length, gaps taken off
    at: list[int] = []
    back, place = [-1] * len(values), 0
    keys = [-(v) for v in values]
    for i, key in enumerate(keys):
        if values[i] <= 0:
            continue
        place = bisect_right(ends, key - gap)
        if place == len(ends):
            ends.append(key)
            at.append(i)
        elif key < ends[place]:
            ends[place], at[place] = key, i
        else:
            continue
        back[i] = at[place - 1] if place else -1
    out, i = [], at[-1] if at else -1
    while i >= 0:
        out.append(i)
        i = back[i]
    return out[::-1]


def _runs(kept: set[int], count: int) -> Iterator[tuple[int, int]]:
    """(first, last) of each run of places that are not kept."""
    first = None
    for k in range(count + 1):
        if k < count and k not in kept:
            first = k if first is None else first
        elif first is not None:
            yield first, k
            first = None


@dataclass
class Drift:
    """Do jobs start later than was foreseen for Slurm alone? `foreseen`: by number, the median start (s since 1970)."""

    foreseen: dict[int, float] = field(default_factory=dict)
    late: list[bool] = field(default_factory=list)

    def started(self, id: int, at: float) -> None:
        """Take note of a job that has started, s since 1970."""
        if (median := self.foreseen.pop(id, None)) is not None:
            self.late = [*self.late[-499:], at > median + 60.0]

    @property
    def alarming(self) -> bool:
        """Would so many be late by chance once in a thousand times, were half of them late?"""
        n = len(self.late)
        return n >= DRIFT_LEAST and float(binom.sf(sum(self.late) - 1, n, 0.5)) < DRIFT_P


@dataclass
class Steer:
    """Steers one cluster under a policy; `with` it: at the end all factors are as they were."""

    slurm: Slurm
    policy: Any
    folder: Path
    settings: Settings = Settings()
    reader: Any = None
    drift: Drift = field(default_factory=Drift)
    foresee: float = FORESEE_S  # 0: nothing is foreseen

    def __post_init__(self):
        self.ledger = Ledger(Path(self.folder))
        self.reader = self.reader or Reader(self.slurm)
        self.order: list[int] = []
        self._why: dict[int, str] = {}
        self._failures, self._running, self._foreseen = 0, set(), -np.inf
        self.ledger.note("begin", policy=self.policy.name, span=self.settings.span, dry=self.settings.dry)

    def cycle(self) -> dict[str, Any]:
        """Read, rank, write what differs. Returns how many wait and were changed, and what went wrong ("" nothing). Raises
        SlurmError where Slurm does not answer."""
        c = self.reader.look()
        factors = {id: x for id, x in self.slurm.priorities().items() if id in c.waiting}
        self.ledger.forget(set(self.ledger.before) - set(c.waiting) - set(c.out))
        self._starts(c)
        self._foresee(c)
        problem = self._rank(c)
        if self.drift.alarming:
            problem = "drift: jobs start later than was foreseen for Slurm alone"
        if self._failures >= FAILURES or self.drift.alarming:
            self.undo(problem)
            return {"waiting": len(c.waiting), "changed": 0, "problem": problem, "off": True}
        goal = wanted(self.order, self.settings.span, factors)
        change = dict(list(differing(goal, factors, self.settings.span).items())[: self.settings.most])
        self._write(change, factors)
        return {"waiting": len(c.waiting), "changed": len(change), "problem": problem, "off": False}

    def _starts(self, c: Cluster) -> None:
        """Take note of the jobs that have started since the last cycle."""
        w = c.workload
        now = {
            int(id): float(x)
            for id, x, end in zip(w.columns["job"], w.jobs["start"], w.jobs["end"], strict=True)
            if end != end and x == x
        }
        for id in set(now) - self._running:
            self.drift.started(id, now[id] + w.origin)
        self._running = set(now)

    def _foresee(self, c: Cluster) -> None:
        """Now and then, predict for the jobs that have come when Slurm alone would start them."""
        new = set(c.waiting) - set(self.drift.foreseen)
        if not new or self.foresee <= 0 or time.monotonic() - self._foreseen < self.foresee:
            return
        try:
            rows = predict(c, earlier=0, count=FEW).rows()
        except InputError as error:
            self.ledger.note("drift", problem=f"nothing is foreseen: {error}")
            rows = []
        origin = c.workload.origin + c.now
        self.drift.foreseen |= {x["job"]: origin + x["start"] for x in rows if x["job"] in new}
        self._foreseen = time.monotonic()

    def _rank(self, c: Cluster) -> str:
        """Rank the queue, starved jobs first; "" or what is wrong with the policy, whose last good order stays."""
        begun = time.monotonic()
        try:
            ranked = order_of(self.policy, c)
        except Exception as error:  # a user's policy may raise anything
            problem = f"the policy failed: {plain(str(error))[:200]}"
        else:
            took = time.monotonic() - begun
            problem = f"the policy took {took:.0f} s" if took > SLOW_S else ""
        if problem:
            self._failures += 1
            self.ledger.note("policy", problem=problem, failures=self._failures)
            return problem
        self._failures = 0
        w = c.workload
        submit = {int(id): float(x) for id, x in zip(w.columns["job"], w.jobs["submit"], strict=True)}
        waited = {x["job"]: c.now - submit[x["job"]] for x in ranked}
        starved = sorted((id for id, x in waited.items() if x > self.settings.starve), key=lambda id: submit[id])
        first = set(starved)
        self.order = [*starved, *(x["job"] for x in ranked if x["job"] not in first)]
        self._why = {x["job"]: x["why"] for x in ranked}
        self._why |= {id: f"starved: waited {waited[id] / 3600:.1f} h" for id in starved}
        return ""

    def _write(self, change: dict[int, int], factors: dict[int, tuple[int, int]]) -> None:
        if not change:
            return
        rank = {id: k for k, id in enumerate(self.order)}
        if not self.settings.dry:
            self.ledger.keep({id: factors[id][1] for id in change})
        lines = []
        for id, x in change.items():
            why = self._why.get(id) or f"rank {rank.get(id, -1) + 1} of {len(rank)} under {self.policy.name}"
            lines.append({"job": id, "old": factors[id][1], "new": x, "why": why})
        self.ledger.note("would" if self.settings.dry else "write", *lines)
        if not self.settings.dry and (complaint := self.slurm.set_site_factors(change)):
            self.ledger.note("refused", complaint=complaint)

    def undo(self, reason: str = "the end") -> None:
        """Give every job that still waits the site factor that it had before."""
        undo(self.slurm, self.ledger, reason)

    def __enter__(self) -> Steer:
        return self

    def __exit__(self, *why) -> None:
        """All factors are as they were, and others may steer."""
        try:
            self.undo()
        finally:
            self.ledger.close()
            self.reader.close()


def undo(slurm: Slurm, ledger: Ledger, reason: str) -> int:
    """Give every job that still waits the site factor that it had before the first write; how many were changed. Raises
    SlurmError where Slurm does not answer."""
    present = slurm.priorities()
    change = {id: x for id, x in ledger.before.items() if id in present and present[id][1] != x}
    lines = [{"job": id, "old": present[id][1], "new": x, "why": f"undo: {reason}"} for id, x in change.items()]
    if lines:
        ledger.note("write", *lines)
    if change and (complaint := slurm.set_site_factors(change)):
        ledger.note("refused", complaint=complaint)
    left = {id for id, x in slurm.priorities().items() if id in ledger.before and x[1] != ledger.before[id]}
    ledger.forget(set(ledger.before) - left)
    return len(change)

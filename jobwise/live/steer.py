"""Steering a real Slurm by site factors: Slurm stays in charge, a policy has a say in its order.

Each cycle reads the queue, lets the policy rank it, and writes the site factors that differ, by one `scontrol`. A state folder
holds what there was before the first write (`before.json`), who is at work (`lock`), and why everything was written
(`audit.jsonl`). Guard rails, each with its line there:

starved   a job that has waited longer than the bound is ranked first, the oldest first
most      no more jobs are changed in a cycle than this
policy    where it fails, or is slow, the last good order stays; after FAILURES in a row all factors go back
drift     where jobs start later than was foreseen for Slurm alone, by more than chance, all factors go back
trial     jobs whose users said yes run in gaps; a watchdog gives limits back where this process is gone (`sinks/trying.py`)
stop      a file of that name in the folder: all factors go back, and it ends
"""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import binom

from jobwise.errors import InputError, plain
from jobwise.live.cycle import Sink, Turn
from jobwise.live.sinks.placing import Placing, free_all
from jobwise.live.sinks.site_factors import differing, wanted
from jobwise.live.sinks.trying import Trying, Yes, give_back
from jobwise.live.sources import Now
from jobwise.live.starts import predict
from jobwise.live.state_folder import StateFolder, undo
from jobwise.live.wishes import Wishes
from jobwise.slurm.client import Slurm, SlurmError

FAILURES = 3  # cycles in a row in which the policy failed
SLOW_S = 30.0  # a policy may take so long
FORESEE_S, FEW = 600.0, 16  # between two predictions of what Slurm alone would do; futures of each
MOST_FORESEEN = 1000  # jobs that wait: of more nothing is foreseen, it would take minutes
DRIFT_LEAST, DRIFT_P = 50, 0.001  # starts that are compared, and how unlikely their lateness has to be


@dataclass(frozen=True)
class SteerSettings:
    """Settings of steering. `span`: factors are 0 to `span` points (0: the policy alone decides the order); `starve` s; `most`
    jobs changed in a cycle; `dry`: nothing is written; `place`: jobs that the policy would start now get the policy's nodes;
    `trial`: who said yes to trial runs, KEY=VALUE, "" none; `pause` s between two cycles."""

    span: int = 0
    starve: float = 172_800.0
    most: int = 10_000
    dry: bool = False
    place: bool = False
    trial: str = ""
    pause: float = 30.0


@dataclass
class Drift:
    """Do jobs start later than was foreseen for Slurm alone? `foreseen`: by number, the median start (s since 1970)."""

    foreseen: dict[int, float] = field(default_factory=dict)
    late: list[bool] = field(default_factory=list)

    def started(self, id: int, at: float) -> None:
        """Take note of a job that has started, s since 1970."""
        if (median := self.foreseen.pop(id, None)) is not None:
            self.late = [*self.late[-499:], at > median + 60.0]

    def gone(self, there: set[int]) -> None:
        """Forget the jobs that are not there any more."""
        self.foreseen = {id: x for id, x in self.foreseen.items() if id in there}

    @property
    def alarming(self) -> bool:
        """Return whether that many late jobs have a chance below 1 in 1000, if each is late with probability 1/2."""
        n = len(self.late)
        return n >= DRIFT_LEAST and float(binom.sf(sum(self.late) - 1, n, 0.5)) < DRIFT_P


@dataclass
class Steer(Sink):
    """Steers one cluster; `with` it: at the end all factors are as they were. `name`: of the policy that it begins with."""

    slurm: Slurm
    name: str
    folder: Path
    settings: SteerSettings = SteerSettings()
    drift: Drift = field(default_factory=Drift)
    foresee: float = FORESEE_S  # 0: nothing is foreseen
    title = "steering"

    def __post_init__(self):
        self.state = StateFolder(Path(self.folder))
        self.order: list[int] = []
        self._placing = Placing(self.slurm, self.state, self.settings.dry)
        self._why: dict[int, str] = {}
        self._would: dict[int, int] = {}  # the factors that a dry run has said
        self._failures, self._running, self._foreseen = 0, set(), -np.inf
        if self.state.placed and not (self.settings.place or self.settings.dry):
            with suppress(SlurmError):  # where it does not answer now, at the end
                free_all(self.slurm, self.state, "of an earlier process")
        self._trying = self._trials()
        if self.state.tried and not (self._trying or self.settings.dry):
            with suppress(SlurmError):
                self._limits_back("of an earlier process")
        self.state.note("begin", policy=self.name, span=self.settings.span, dry=self.settings.dry)

    @property
    def stopped(self) -> bool:
        """Return whether the folder holds the file `stop`."""
        return self.state.stopped

    def failed(self, problem: str, looked: bool) -> None:
        """Say in the log that Slurm did not answer, or that nothing could be made of its answer."""
        if not looked:
            self.state.note("slurm", problem=problem)

    def learnt(self, news: str) -> None:
        """Say in the log who ranks from now on."""
        self.state.note("learning", news=news)

    def take(self, turn: Turn) -> None:
        """Rank, write what differs: `changed`, `problem`, `off` of the turn. Raises SlurmError where Slurm does not answer."""
        c, wishes = turn.now, turn.wishes
        factors = {id: x for id, x in c.factors.items() if id in c.waiting}
        if c.waiting and not factors:
            raise SlurmError("sprio lists none of the jobs that wait: is it PriorityType=priority/multifactor?")
        there = {int(id) for id in c.workload.columns["job"][c.live]} | set(c.waiting) | set(c.out)
        self.state.forget(set(self.state.before) - there)  # one that runs may be put back into the queue
        self.drift.gone(there)
        self._starts(c)
        self._foresee(c)
        turn.problem = self._rank(c, wishes)
        if self.drift.alarming:
            turn.problem = "drift: jobs start later than was foreseen for Slurm alone"
        if self._failures >= FAILURES or self.drift.alarming:
            self.undo(turn.problem)
            turn.off = True
            return
        goal = wanted(self.order, self.settings.span, factors)
        change = dict(list(differing(goal, factors, self.settings.span).items())[: self.settings.most])
        if not self._write(change, factors, wishes.policy.name):
            change, turn.problem = {}, f"{self.state.audit} cannot be written: nothing is changed"
        turn.changed = len(change) + (self._place(c, wishes, turn.problem) if self.settings.place else 0)
        turn.changed += self._try(turn)

    def _trials(self) -> Trying | None:
        """Who looks after trial runs, where there are some. Raises InputError where Slurm gives jobs no slack."""
        s = self.settings
        try:
            return Trying(self.slurm, self.state, Yes.of(s.trial), s.pause, s.dry) if s.trial else None
        except InputError:
            self.state.close()
            raise

    def _try(self, turn: Turn) -> int:
        """Look after trial runs; how many jobs were changed."""
        try:
            return self._trying.cycle(time.time(), self.settings.most) if self._trying else 0
        except SlurmError as error:
            turn.problem = turn.problem or f"trial runs: {error}"
            return 0

    def _limits_back(self, reason: str) -> None:
        self.state.keep_tried(give_back(self.slurm, self.state.tried, reason, self.state.note))

    def _place(self, c: Now, wishes: Wishes, problem: str) -> int:
        """Name nodes for the jobs that the policy would start now, for none where there is a problem; how many jobs were
        changed."""
        try:
            wanted = {} if problem else wishes.starts
        except Exception as error:  # a user's policy may raise anything
            self.state.note("policy", problem=f"it places nothing: {plain(str(error))[:200]}")
            wanted = {}
        try:
            return self._placing.cycle(c, wanted, f"{wishes.policy.name} would start it there")
        except ValueError as error:  # a list of nodes that cannot be read
            self.state.note("policy", problem=f"nothing is placed: {plain(str(error))[:200]}")
            return 0

    def _starts(self, c: Now) -> None:
        """Take note of the jobs that have started since the last cycle."""
        w = c.workload
        going = c.live[~np.isnan(w.jobs["start"][c.live])]
        begun = dict(zip(w.columns["job"][going].tolist(), w.jobs["start"][going].tolist(), strict=True))
        for id in set(begun) - self._running:
            self.drift.started(id, begun[id] + w.origin)
        self._running = set(begun)

    def _foresee(self, c: Now) -> None:
        """Now and then, predict for the jobs that have come when Slurm alone would start them."""
        new = set(c.waiting) - set(self.drift.foreseen)
        if not new or self.foresee <= 0 or time.monotonic() - self._foreseen < self.foresee:
            return
        self._foreseen = time.monotonic()
        if len(c.waiting) > MOST_FORESEEN:
            self.state.note("drift", problem=f"nothing is foreseen while more than {MOST_FORESEEN:,} jobs wait")
            return
        try:
            rows = predict(c, earlier=0, count=FEW, steered=False).rows()
        except InputError as error:
            self.state.note("drift", problem=f"nothing is foreseen: {error}")
            rows = []
        origin = c.workload.origin + c.now
        self.drift.foreseen |= {x["job"]: origin + x["start"] for x in rows if x["job"] in new}

    def _rank(self, c: Now, wishes: Wishes) -> str:
        """Rank the queue, starved jobs first; "" or what is wrong with the policy, whose last good order stays."""
        begun = time.monotonic()
        try:
            ranked = wishes.order
        except Exception as error:  # a user's policy may raise anything
            problem = f"the policy failed: {plain(str(error))[:200]}"
        else:
            took = time.monotonic() - begun
            problem = f"the policy took {took:.0f} s" if took > SLOW_S else ""
        if problem:
            self._failures += 1
            self.state.note("policy", problem=problem, failures=self._failures)
            return problem
        self._failures = 0
        w = c.workload
        submit = dict(zip(w.columns["job"][c.live].tolist(), w.jobs["submit"][c.live].tolist(), strict=True))
        waited = {x["job"]: c.now - submit[x["job"]] for x in ranked}
        starved = sorted((id for id, x in waited.items() if x > self.settings.starve), key=lambda id: submit[id])
        first = set(starved)
        self.order = [*starved, *(x["job"] for x in ranked if x["job"] not in first)]
        self._why = {x["job"]: x["why"] for x in ranked}
        self._why |= {id: f"starved: waited {waited[id] / 3600:.1f} h" for id in starved}
        return ""

    def _write(self, change: dict[int, int], factors: dict[int, tuple[int, int]], policy: str) -> bool:
        """Write site factors that `policy` wants, each with its reason in the log; False, and nothing is written, where the
        log cannot be."""
        if not change:
            return True
        rank = {id: k for k, id in enumerate(self.order)}
        if not self.settings.dry:
            self.state.keep({id: factors[id][1] for id in change})
        lines: list[dict[str, Any]] = []
        for id, x in change.items():
            why = self._why.get(id) or f"rank {rank.get(id, -1) + 1} of {len(rank)} under {policy}"
            lines.append({"job": id, "old": factors[id][1], "new": x, "why": why})
        if self.settings.dry:  # what has been said already is not said again
            lines = [x for x in lines if self._would.get(x["job"]) != x["new"]]
            self._would = {id: x for id, x in (self._would | change).items() if id in factors}
        if lines and not self.state.note("would" if self.settings.dry else "write", *lines):
            return False
        if not self.settings.dry and (complaint := self.slurm.set_site_factors(change)):
            self.state.note("refused", complaint=complaint)
        return True

    def undo(self, reason: str = "the end") -> None:
        """Give every job the site factor that it had before; a dry run has nothing to give back, and leaves what it finds."""
        if not self.settings.dry:
            undo(self.slurm, self.state, reason)
            free_all(self.slurm, self.state, reason)
            self._limits_back(reason)

    def __enter__(self) -> Steer:
        return self

    def __exit__(self, *why: object) -> None:
        """All factors are as they were, and others may steer."""
        try:
            self.undo()
        finally:
            if self._trying:
                self._trying.close(self.state.tried)
            self.state.close()

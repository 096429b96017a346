"""Slurm's scheduler, pass by pass: each pass of a recording is computed from the recorded state and compared, then the recorded
outcome is carried out. So an error shows where it is made, and no later pass has it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import combinations, islice
from operator import itemgetter
from typing import Any

import numpy as np

from jobwise.errors import InputError
from jobwise.jobs import QUEUED, RUNNING
from jobwise.sim import kernel
from jobwise.sim.site import preemption, site_order, slurm_loop, slurm_tables
from jobwise.sim.site.cells import KNOWN, how_many
from jobwise.sim.site.multifactor import price_all
from jobwise.sim.site.node_choice import choose_now
from jobwise.sim.site.node_sets import NOTHING, members, packed
from jobwise.sim.site.slurm_ends import take_free
from jobwise.sim.site.switches import PATIENT
from jobwise.sim.state import State, allocate, runs_for
from jobwise.site import LIMITS
from jobwise.slurm.read.recording import Pass, RecordedPlan, RecordedStop, Recording
from jobwise.workload import in_order

COMPLETING_S = 0.1  # a node that has lost a job so shortly before a pass may still be completing
STOPPING_S = 0.5  # one whose job was stopped for another, so long at most: the job is killed first
LAG_S = 1.5  # a job that waited for others was eligible at most so long before a pass could see it
MOST_TRIES = 64  # sets of nodes that may have been completing
SHOWN = 10  # differences that a report shows
Places = tuple[int, ...]


@dataclass(frozen=True)
class Difference:
    """A plan or start that differs: when (s since the first submit, as in the texts), of which pass, which job; what each side
    thought; what may explain it."""

    time: float
    kind: str
    job: int
    here: str
    there: str
    why: str = ""


@dataclass
class Counts:
    """Numbers of cases, of cases computed equal, and of other cases that completing nodes explain."""

    all: int = 0
    equal: int = 0
    explained: int = 0


@dataclass
class Check:
    """An open loop over a recording."""

    name: str
    plans: Counts = field(default_factory=Counts)
    times: int = 0  # plans equal in time
    backfill: Counts = field(default_factory=Counts)
    main: Counts = field(default_factory=Counts)
    stops: Counts = field(default_factory=Counts)
    differences: list[Difference] = field(default_factory=list)
    completing: dict[float, Places] = field(default_factory=dict)  # by the time of a pass, where that explains it

    def to_dict(self) -> dict:
        """Return its numbers as JSON takes them."""
        starts = Counts(*(getattr(self.backfill, k) + getattr(self.main, k) for k in ("all", "equal", "explained")))
        return {
            "recording": self.name,
            "plans": self.plans.all,
            "plans_equal": self.plans.equal,
            "plans_equal_in_time": self.times,
            "starts": starts.all,
            "starts_equal": starts.equal,
            "starts_explained": starts.explained,
            "backfill_starts": self.backfill.all,
            "backfill_starts_equal": self.backfill.equal,
            "main_starts": self.main.all,
            "main_starts_equal": self.main.equal,
            "stops": self.stops.all,
            "stops_equal": self.stops.equal,
            "differences": [vars(x) for x in self.differences],
        }


def check(recording: Recording, progress: Callable[[int, int], None] | None = None) -> Check:
    """Compute each pass of a recording from the recorded state, and compare what it starts and plans with what the real one
    did. Raises InputError where the recording does not fit itself."""
    run, result = RecordedRun(recording), Check(recording.workload.name)
    for n, p in enumerate(recording.passes):
        run.to(p.time)
        if p.kind == "price":  # a pass that computes priorities starts nothing: there is nothing to compare
            run.price()
            continue
        _compare(result, run, p)
        run.carry_on(p)
        if progress and n % 16 == 0:
            progress(n, len(recording.passes))
    return result


class RecordedRun:
    """The recorded state as it moves on."""

    def __init__(self, r: Recording):
        self.r, w = r, r.workload
        jobs = w.jobs.copy()
        for row, t in r.submit.items():  # a job with a begin time comes when that is reached
            jobs["submit"][row] = max(t, jobs["submit"][row]) if jobs["submit"][row] > t + 1 else t
        order = np.argsort(jobs["submit"], kind="stable")
        self.place = np.argsort(order)  # row of the recording -> row of the simulation
        self.row = order
        w = in_order(replace(w, jobs=jobs), order)
        self.site, self.cluster = w.cluster.known_site, w.cluster
        self.s: State = allocate([w], w.cluster)
        self.slurm = slurm_tables.scheduler(self.s, 0, self.site)
        self.order = site_order.slurms()
        self.held = {x.row: x.nodes for p in r.passes for x in p.starts}
        self.edges, self.children = w.edges, np.unique(w.edges[:, 1])
        self.eligible = w.columns["eligible"]
        self.stops: list[tuple[RecordedStop, Places]] = []  # that were carried out, and the nodes of the jobs
        self.chosen: dict[int, Places] = {}  # nodes of the jobs that the last pass has started here
        ids = w.columns["array"]  # tasks have numbers of their own only once they start
        self.slurm.ledger.turn[: len(ids)] = self.slurm.ledger.came[: len(ids)] = np.argsort(np.argsort(ids, kind="stable"))
        first = min((p.time for p in r.passes if p.kind == "price"), default=0.0)
        self.slurm.ledger.clock[0]["priced"] = first - self.site.settings["calc_period"][0]

    def to(self, t: float) -> None:
        """Go on to time t."""
        while kernel.advance(self.s, 0, t) == kernel.CHOICE:
            slurm_loop.note(self.s, 0, self.slurm)

    def price(self) -> None:
        """A pass over all priorities."""
        price_all(self.s, 0, self.slurm)

    def computed(self, p: Pass, without: Places = ()) -> tuple[list[tuple[int, Places]], list[RecordedPlan]]:
        """(starts, plans) of a pass in the present state, which stays as it is; nodes `without` are completing."""
        arrays = [*_arrays(self.s), *_arrays(self.slurm.ledger), self.slurm.work.room.rank]
        kept, before = [x.copy() for x in arrays], self.s.jobs[0]["status"] == QUEUED
        was_running = self.s.jobs[0]["status"] == RUNNING
        self.carry_out(p, without)
        begun = np.flatnonzero(before & (self.s.jobs[0]["status"] == RUNNING))
        self.chosen = {int(self.row[j]): self._held(j)[::-1] for j in begun.tolist()}  # in the order in which they were chosen
        starts = [(row, tuple(sorted(nodes))) for row, nodes in self.chosen.items()]
        self.stopped = set(self.row[was_running & (self.s.jobs[0]["status"] != RUNNING)].tolist())
        table = self.slurm.work.plans[: self.slurm.ledger.clock[0]["plans"]] if p.kind == "backfill" else ()
        plans = [RecordedPlan(self.r.key[self.row[x["job"]]], float(x["start"]), self._members(i)) for i, x in enumerate(table)]
        self.left = self.slurm.work.room.rank.copy()  # what the pass leaves of the order of nodes
        for x, y in zip(arrays, kept, strict=True):
            x[...] = y
        self.slurm.work.marks[KNOWN], self.slurm.work.room.ranked[:] = 0, ~NOTHING
        return starts, plans

    def carry_out(self, p: Pass, without: Places = ()) -> None:
        """Carry out a pass as it is computed; nodes `without` are completing, and what depends on their jobs waits."""
        for j in self._just_ended(p.time) if without else ():
            if set(self.held.get(int(self.row[j]), ())) <= set(without):
                self.slurm.ledger.preempt.not_before[self.edges[self.edges[:, 0] == j, 1]] = np.floor(p.time) + 1.0
        self.slurm.work.completing[:] = packed(np.isin(np.arange(len(self.site.weight)), without))
        if p.kind == "main":
            depth = np.inf if p.whole else self.site.settings["depth"][0]
            slurm_loop.main_pass(self.s, 0, self.slurm, self.order, depth)
        else:
            slurm_loop.backfill(self.s, 0, self.slurm, self.order)
        self.slurm.work.completing[:] = 0

    def _members(self, i: int) -> Places:
        return tuple(members(self.slurm.work.planned[i], len(self.site.weight)).tolist())

    def _held(self, j: int) -> Places:
        at, nodes = self.s.jobs[0, j]["held"], []
        while at >= 0:
            nodes.append(int(self.s.slices[0, at]["node"]))
            at = self.s.slices[0, at]["next"]
        return tuple(nodes)

    def start(self, t: float, row: int, nodes: Places) -> None:
        """Start a job as it was recorded."""
        self.to(t)
        j, s = int(self.place[row]), self.s
        runs_for(s, 0, j, max(self.r.end[row] - t, 1e-3))
        take_free(s, 0, self.slurm)
        self.slurm.work.mask[:] = packed(np.isin(np.arange(len(self.site.weight)), nodes))
        self.slurm.work.room.tree.marks[PATIENT] = 1
        k = choose_now(self.slurm, self.site.asks[s.jobs[0, j]["ask"]], self.slurm.work.mask)
        mine = self.chosen.get(row, ())
        if how_many(self.slurm, k) != len(nodes) or sorted(mine) == sorted(nodes):
            k = len(nodes)
            self.slurm.work.node[:k] = mine if sorted(mine) == sorted(nodes) else nodes
            self.slurm.work.more[:k] = 0
        p = int(self.site.queues[max(int(s.jobs[0, j]["partition"]), 0), 0])
        if not slurm_loop.begin(s, 0, self.slurm, j, p, k, np.zeros(len(LIMITS))):
            raise InputError(f"{self.r.workload.name}: the recorded start of job {self._job(row)} is not possible here")

    def stop(self, x: RecordedStop) -> None:
        """Stop a job for another as it was recorded."""
        self.to(x.time)
        j = int(self.place[x.row])
        self.stops.append((x, tuple(sorted(self._held(j)))))
        preemption.put_back_or_end(self.s, 0, self.slurm, j, x.time, x.requeued)
        if x.requeued and x.cleared < np.inf:  # it waits from then on
            ready = np.floor(x.cleared) + self.site.settings["requeue_delay"][0]
            self.slurm.ledger.preempt.not_before[j] = self.slurm.ledger.since[j] = ready

    def carry_on(self, p: Pass) -> None:
        """Carry out what was recorded of a pass."""
        self.computed(p)
        slurm_loop.see_released(self.s, 0, self.slurm)
        self.released_as_recorded()
        rank = self.left.copy()
        starts = [(x.time, partial(self.start, x.time, x.row, x.nodes)) for x in p.starts]
        stops = [(x.time, partial(self.stop, x)) for x in p.stops]
        for _, happen in sorted([*starts, *stops], key=itemgetter(0)):
            happen()
        self.slurm.work.completing[:] = 0
        self.planned(p)
        self.slurm.work.room.rank[:], self.slurm.work.room.ranked[:] = rank, ~NOTHING

    def released_as_recorded(self) -> None:
        """Jobs that waited for others are eligible as accounting has it: the second that Slurm counts in lags behind."""
        since, recorded = self.slurm.ledger.since[self.children], self.eligible[self.children]
        lags = (since - LAG_S < recorded) & (recorded < since)
        self.slurm.ledger.since[self.children] = np.where(lags, recorded, since)

    def planned(self, p: Pass) -> None:
        """Take note of the nodes on which exclusive jobs were planned: their priority counts them."""
        for x in p.plans:
            j = int(self.place[x.key])
            if self.site.asks[self.s.jobs[0, j]["ask"]]["whole"]:
                self.slurm.ledger.planned[j] = self.cluster.capacity[list(x.nodes), 0].sum()

    def completing(self, t: float) -> list[Places]:
        """Sets of nodes that may have been completing at t: those of jobs that ended within COMPLETING_S before, or that
        were stopped and had not cleared up, a job's or several jobs', then parts of them."""
        ended = {self.held[row] for j in self._just_ended(t) if (row := int(self.row[j])) in self.held}
        held = sorted(ended | {nodes for x, nodes in self.stops if x.time <= t < min(x.cleared, x.time + STOPPING_S)})
        nodes = sorted({n for x in held for n in x})
        jobs = [tuple(sorted({n for x in part for n in x})) for k in range(len(held)) for part in combinations(held, k + 1)]
        parts = [part for k in range(len(nodes)) for part in islice(combinations(nodes, k + 1), MOST_TRIES)]
        return list(dict.fromkeys([*jobs, *parts]))[:MOST_TRIES]

    def _just_ended(self, t: float) -> list[int]:
        """Jobs that ended so shortly before t that their nodes may be completing."""
        ended = self.s.jobs[0]["end"]
        return np.flatnonzero((ended > t - COMPLETING_S) & (ended <= t)).tolist()

    def _job(self, row: int) -> int:
        return int(self.r.workload.columns["job"][row])


def _arrays(x: Any) -> list[np.ndarray]:
    """All arrays of a bundle, and of the bundles in it."""
    return [z for y in x for z in (_arrays(y) if isinstance(y, tuple) else [y] if isinstance(y, np.ndarray) else [])]


def _compare(result: Check, run: RecordedRun, p: Pass) -> None:
    """Count what is equal in a pass. Which nodes were completing the log does not tell: where the outcome differs, those of the
    nodes that have just lost a job are taken to be completing with which it differs least."""
    sides = _Sides(run, p, *run.computed(p))
    strict, why = sides.equal, ""
    if sides.wrong and (late := run.completing(p.time)):
        several = [(x, _Sides(run, p, *run.computed(p, x))) for x in late]
        nodes, better = min(several, key=lambda x: x[1].wrong)
        if better.wrong < sides.wrong:
            result.completing[p.time] = nodes
            sides, why = better, f"if {', '.join(run.site.names[n] for n in nodes)} was completing"
    recorded = {x.row for x in p.stops}
    result.stops.all += len(recorded)
    result.stops.equal += len(recorded & run.stopped)
    counts = result.main if p.kind == "main" else result.backfill
    counts.all += sum(sides.there.values())
    counts.equal += strict
    counts.explained += sides.equal - strict
    result.plans.all += len(sides.theirs)
    result.plans.equal += sum(sides.mine.get(k) == x for k, x in sides.theirs.items())
    result.times += sum(k in sides.mine and sides.mine[k].start == x.start for k, x in sides.theirs.items())
    result.differences += sides.differences(why)


class _Sides:
    """Results of a pass here and there: starts by job and nodes, plans by job."""

    def __init__(self, run: RecordedRun, p: Pass, starts: list, plans: list[RecordedPlan]):
        self.run, self.pass_ = run, p
        self.there = Counter((run.r.key[x.row], x.nodes) for x in p.starts)
        self.here = Counter((run.r.key[j], nodes) for j, nodes in starts)
        self.mine, self.theirs = _numbered(plans), _numbered(p.plans)
        self.equal = sum((self.here & self.there).values())
        self.not_planned = [k for k in self.theirs | self.mine if self.mine.get(k) != self.theirs.get(k)]
        self.wrong = sum(((self.here - self.there) + (self.there - self.here)).values()) + len(self.not_planned)

    def differences(self, why: str) -> list[Difference]:
        """Return the differences in words."""
        run, p, result = self.run, self.pass_, []
        for x, here in [*((x, False) for x in self.there - self.here), *((x, True) for x in self.here - self.there)]:
            said = ("not started", f"started on {_names(run, x[1])}")
            result.append(Difference(p.time, f"{p.kind} start", run._job(x[0]), *(said[::-1] if here else said), why))
        for n, k in enumerate(self.not_planned):
            a, b = (_text(run, x.get(k)) for x in (self.mine, self.theirs))
            because = why or self._crossed(k) or ("follows from the first of this cycle" if n else "")
            result.append(Difference(p.time, "plan", run._job(k[0]), a, b, because))
        return result

    def _crossed(self, k: tuple[int, int]) -> str:
        """Return why a plan begins a second later there: a cycle counts from the second that it has reached."""
        a, b, p = self.mine.get(k), self.theirs.get(k), self.pass_
        later = a is not None and b is not None and a.nodes == b.nodes and b.start == a.start + 1
        return "the cycle went on into the next second" if later and np.floor(p.until) > np.floor(p.time) else ""


def _numbered(plans: list[RecordedPlan]) -> dict[tuple[int, int], RecordedPlan]:
    """Plans by job, and by which of an array's it is."""
    count: Counter[int] = Counter()
    numbered = {}
    for x in plans:
        numbered[x.key, count[x.key]] = x
        count[x.key] += 1
    return numbered


def _names(run: RecordedRun, nodes: Places) -> str:
    return ", ".join(run.site.names[n] for n in nodes)


def _text(run: RecordedRun, x: RecordedPlan | None) -> str:
    return "no plan" if x is None else f"at {x.start:.0f} s on {_names(run, x.nodes)}"

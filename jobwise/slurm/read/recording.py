"""A recording of a real Slurm: what its log said of every submit, start, end, pass and plan, beside the outputs of a site.

slurmctld.log, with DebugFlags=Backfill,Priority and SlurmctldDebug=debug (`controller_log.py`); or two tables made of it:
events.csv: epoch_s, event, job, what, more (submit, start_main, start_backfill, end, timeout, main_pass, backfill_begin,
backfill_end, prio_pass), and backfill.csv.gz, the plans of each cycle.
"""

from __future__ import annotations

import csv
import gzip
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from jobwise.errors import InputError
from jobwise.slurm.read.controller_log import LOG, LogLine, lines, zone
from jobwise.slurm.read.site import read as read_site
from jobwise.slurm.read.text import nodes
from jobwise.workload import Workload

EVENTS, PLANS = "events.csv", "backfill.csv.gz"
STARTS = ("start_main", "start_backfill")
ANSWERS_S = 30.0  # a node that is resumed takes jobs once it has answered
SOONER = 1e-6  # s
LAST_MOMENT = 0.999  # s of a second
PASSES = {"main_pass": "main", "backfill_begin": "backfill"}


@dataclass(frozen=True)
class RecordedStart:
    """A start: when (s), the row of the job, on which nodes (their numbers)."""

    time: float
    row: int
    nodes: tuple[int, ...]


@dataclass
class RecordedStop:
    """A job that was stopped for another: when (s), its row; it was requeued, or else killed; when its nodes had cleared up."""

    time: float
    row: int
    requeued: bool
    cleared: float = np.inf


@dataclass(frozen=True)
class RecordedPlan:
    """A plan of a cycle: for which job (its row, or the first row of its array), from when (s), on which nodes."""

    key: int
    start: float
    nodes: tuple[int, ...]


@dataclass
class Pass:
    """A main pass ("main", over the `whole` queue or not) or a cycle ("backfill") that began at `time` (s), or a pass over
    priorities ("price"); what it started and planned."""

    kind: str
    time: float
    whole: bool = True
    until: float = 0.0
    starts: list[RecordedStart] = field(default_factory=list)
    plans: list[RecordedPlan] = field(default_factory=list)
    stops: list[RecordedStop] = field(default_factory=list)


@dataclass(frozen=True)
class Recording:
    """`submit`, `end`: s by row of `workload`. `key` [J]: the first row of a job's array, or its own. Times count from the
    workload's origin."""

    workload: Workload
    submit: dict[int, float]
    end: dict[int, float]
    passes: list[Pass]
    key: list[int]


def read(folder: str | Path) -> Recording:
    """The recording in a folder. Raises InputError, naming file and line."""
    folder = Path(folder)
    w = read_site(folder)
    ids = _Jobs(w)
    submit: dict[int, float] = {}
    end: dict[int, float] = {}
    stopped: dict[int, float] = {}
    stops: dict[int, RecordedStop] = {}
    passes: list[Pass] = []
    began = w.jobs["submit"] + np.asarray(w.columns["wait"], float)
    happened, plans = _lines(folder, w, ids)
    last = -np.inf
    for x in happened:
        time, kind = x.time - w.origin, x.kind
        last = time = max(time, last + SOONER)  # what happened in the same millisecond, in the order of the log
        if kind in PASSES:
            passes.append(Pass(PASSES[kind], time, x.what != "default depth", time))
        elif kind == "prio_pass":
            passes.append(Pass("price", time))
        elif kind == "backfill_end":
            _last(passes, "backfill", x.where).until = time
        elif kind == "reserved":
            w = _announced(w, x.begin, x.time)
        elif kind in ("draining", "resumed"):
            w = _moved(w, kind, ids.place.get(x.name, -1), x.time)
        elif kind == "submit":
            submit |= dict.fromkeys(ids.with_parts(ids.rows(x.name)), time)
        elif kind in STARTS:
            row = ids.row(x.name, x.where)
            time = min(time, began[row] + LAST_MOMENT)  # it may have been logged a second later
            of = _last(passes, "main" if kind == "start_main" else "backfill", x.where)
            of.time = min(of.time, time)  # the second that Slurm counts in lags behind that of its log by some milliseconds
            of.starts.append(RecordedStart(time, row, ids.places(x.what, x.where)))
        elif kind == "stopped":
            row = ids.row(x.name, x.where)
            stops[row] = RecordedStop(time, row, x.what == "requeued")
            passes[-1].stops.append(stops[row])
            stopped |= {row: time} if x.what == "killed" else {}
        elif kind == "cleared" and (row := ids.row(x.name, "")) in stops:
            stops[row].cleared = time
        elif kind in ("end", "timeout"):
            end |= dict.fromkeys([row for row in [ids.row(x.name, "")] if row >= 0], time)
    if not any(p.kind in ("main", "backfill") for p in passes):
        raise InputError(f"{folder}: no pass of the scheduler is recorded (SlurmctldDebug=debug, DebugFlags=Backfill)")
    before = np.setdiff1d(np.flatnonzero(began < passes[0].time - 1), [x.row for p in passes for x in p.starts])
    if len(before):
        raise InputError(f"{folder}: {len(before):,} jobs had started before the first recorded pass; the whole log is needed")
    ran = w.ends["end"]
    end = {x.row: end.get(x.row, max(float(ran[x.row]), x.time)) for p in passes for x in p.starts}  # the log may end before
    end |= {row: t + 1.0 for row, t in stopped.items()}  # it is carried out, not waited for
    _put(plans, w.origin, ids, [p for p in passes if p.kind == "backfill"])
    return Recording(w, submit, end, passes, ids.key)


def _lines(folder: Path, w: Workload, ids: _Jobs) -> tuple[list[LogLine], list[LogLine]]:
    """(events, plans) of a folder, times in s since 1970: of the controller's log, or of the two tables made of it."""
    if (folder / LOG).is_file():
        shown = list(lines(folder / LOG))
        submits = [
            (x.time, w.jobs["submit"][rows[0]] + w.origin) for x in shown if x.kind == "submit" and (rows := ids.rows(x.name))
        ]
        ahead = zone(folder / LOG, submits)
        shown = [replace(x, time=x.time - ahead, begin=x.begin - ahead) for x in shown]
        return [x for x in shown if x.kind != "plan"], [x for x in shown if x.kind == "plan"]
    for name in (EVENTS, PLANS):
        if not (folder / name).is_file():
            raise InputError(
                f"{folder}: {name} is missing, and so is {LOG}; passes and plans must be recorded (docs/systems/slurm.md)"
            )
    return list(_events(folder / EVENTS)), list(_planned(folder / PLANS))


def _announced(w: Workload, begin: float, known: float) -> Workload:
    """The scheduler knows reservations that begin then (s since 1970) since they were made."""
    rows = w.cluster.known_site.closures.copy()
    rows["known"][(rows["announced"] > 0) & (rows["begin"] == begin)] = known
    return replace(w, cluster=replace(w.cluster, site=replace(w.cluster.known_site, closures=rows)))


def _moved(w: Workload, kind: str, node: int, time: float) -> Workload:
    """A node that is draining takes no jobs from then on, one that is resumed takes them again; accounting tells since when it
    has had none, and whole seconds."""
    site, rows = w.cluster.known_site, w.cluster.known_site.closures.copy()
    alone = (rows["announced"] == 0) & (site.sets[rows["set"]].sum(axis=1) == 1) & (site.sets[rows["set"], node] > 0)
    of = np.flatnonzero(alone & (rows["end"] + ANSWERS_S > time) & (rows["begin"] <= time if kind == "resumed" else True))
    if node >= 0 and len(of):
        k = of[np.argmin(rows["begin"][of])]
        rows["begin" if kind == "draining" else "end"][k] = time if kind == "resumed" else min(rows["begin"][k], time)
    return replace(w, cluster=replace(w.cluster, site=replace(site, closures=rows)))


class _Jobs:
    """The rows of jobs by the names that Slurm's log has for them: 12, 20_3(23), 20_*, 38+1(39)."""

    def __init__(self, w: Workload):
        self.row_of = {int(j): i for i, j in enumerate(w.columns["job"])}
        self.array_of = {int(j): int(a) for j, a in zip(w.columns["job"], w.columns["array"], strict=True)}
        self.het = w.cluster.known_site.asks["het"][w.jobs["ask"]]
        self.place = {n: i for i, n in enumerate(w.cluster.known_site.names)}
        arrays: dict[int, list[int]] = {}
        for j, row in self.row_of.items():
            arrays.setdefault(self.array_of[j], []).append(row)
        self.arrays = {a: sorted(rows) for a, rows in arrays.items()}
        self.key = [0] * len(w)
        for rows in self.arrays.values():
            for row in rows:
                self.key[row] = rows[0]

    def with_parts(self, rows: list[int]) -> list[int]:
        """The rows, and those of the other parts of their heterogeneous jobs."""
        own = set(self.het[rows].tolist()) - {0} if rows else set()
        return [*rows, *np.flatnonzero(np.isin(self.het, list(own))).tolist()] if own else rows

    def rows(self, name: str) -> list[int]:
        """All rows of a job or an array."""
        part = re.search(r"\+\d+\((\d+)\)", name)  # of a heterogeneous job: 38+1(39)
        text = part[1] if part else re.split(r"[_+(]", name)[0]
        number = int(text) if text.isascii() and text.isdigit() else -1
        return self.arrays.get(number) or [self.row_of[number]] if number in self.row_of or number in self.arrays else []

    def row(self, name: str, where: str) -> int:
        """The row of one job; -1, or an error where there is a place `where` to name, for one that is not in the table."""
        inside = re.search(r"\((\d+)\)", name)
        text = inside[1] if inside else name
        row = self.row_of.get(int(text), -1) if text.isascii() and text.isdigit() else -1
        if row < 0 and where:
            raise InputError(f"{where}: job {name} is not in sacct.txt")
        return row

    def places(self, text: str, where: str) -> tuple[int, ...]:
        """The numbers of the nodes that a list names."""
        try:
            return tuple(sorted(self.place[n] for n in nodes(text)))
        except (KeyError, ValueError) as error:
            raise InputError(f"{where}: {text[:40]!r} names nodes that the site does not have ({error})") from None


def _last(passes: list[Pass], kind: str, where: str) -> Pass:
    last = next((p for p in reversed(passes) if p.kind == kind), None)
    if last is None:
        raise InputError(f"{where}: a start before any pass")
    return last


def _put(plans: list[LogLine], origin: float, ids: _Jobs, cycles: list[Pass]) -> None:
    """Put the plans to their cycles."""
    at = 0
    for x in plans:
        while at + 1 < len(cycles) and cycles[at + 1].time <= x.time - origin + 1e-6:
            at += 1
        rows = ids.rows(x.name)
        if rows and cycles:
            cycles[at].plans.append(RecordedPlan(ids.key[rows[0]], x.begin - origin, ids.places(x.what, x.where)))


def _events(file: Path) -> Iterator[LogLine]:
    """Read the events of events.csv."""
    with open(file, newline="") as text:
        reader = csv.DictReader(text)
        if missing := {"epoch_s", "event", "job", "what"} - set(reader.fieldnames or ()):
            raise InputError(f"{file}:1: no column {sorted(missing)[0]}")
        for n, r in enumerate(reader, 2):
            where = f"{file}:{n}"
            yield LogLine(where, _seconds(r["epoch_s"], where), r["event"], r["job"], r["what"])


def _planned(file: Path) -> Iterator[LogLine]:
    """Read the plans of backfill.csv.gz."""
    with gzip.open(file, "rt", newline="") as text:
        for n, r in enumerate(csv.reader(text), 1):
            if n > 1 and r[1] == "plan":
                where = f"{file}:{n}"
                yield LogLine(where, _seconds(r[0], where), "plan", r[2], r[5], _seconds(r[3], where))


def _seconds(text: str, where: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InputError(f"{where}: {text[:30]!r} is no time in s since 1970") from None

"""A recording of a real Slurm: what its log said of every submit, start, end, pass and plan, beside the outputs of a site.

events.csv: epoch_s, event, job, what, more (submit, start_main, start_backfill, end, timeout, main_pass, backfill_begin,
backfill_end, prio_pass). backfill.csv.gz: the plans of each cycle. Both are made of slurmctld's log with DebugFlags=Backfill.
"""

from __future__ import annotations

import csv
import gzip
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from jobwise.errors import InputError
from jobwise.slurm.site import read as read_site
from jobwise.slurm.text import nodes
from jobwise.workload import Workload

EVENTS, PLANS = "events.csv", "backfill.csv.gz"
STARTS = ("start_main", "start_backfill")
PASSES = {"main_pass": "main", "backfill_begin": "backfill"}


@dataclass(frozen=True)
class Start:
    """A start: when (s), the row of the job, on which nodes (their numbers)."""

    time: float
    row: int
    nodes: tuple[int, ...]


@dataclass(frozen=True)
class Plan:
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
    starts: list[Start] = field(default_factory=list)
    plans: list[Plan] = field(default_factory=list)


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
    for name in (EVENTS, PLANS):
        if not (folder / name).is_file():
            raise InputError(f"{folder}: {name} is missing; a recording of passes and plans is needed (docs/systems/slurm.md)")
    ids = _Jobs(w)
    submit: dict[int, float] = {}
    end: dict[int, float] = {}
    passes: list[Pass] = []
    for line, r in _rows(folder / EVENTS):
        where, kind = f"{folder / EVENTS}:{line}", r["event"]
        time = _seconds(r["epoch_s"], where) - w.origin
        if kind in PASSES:
            passes.append(Pass(PASSES[kind], time, r["what"] != "default depth", time))
        elif kind == "prio_pass":
            passes.append(Pass("price", time))
        elif kind == "backfill_end":
            next(p for p in reversed(passes) if p.kind == "backfill").until = time
        elif kind == "submit":
            submit |= dict.fromkeys(ids.rows(r["job"]), time)
        elif kind in STARTS:
            _last(passes, "main" if kind == "start_main" else "backfill", where).starts.append(
                Start(time, ids.row(r["job"], where), ids.places(r["what"], where))
            )
        elif kind in ("end", "timeout"):
            end |= dict.fromkeys([x for x in [ids.row(r["job"], "")] if x >= 0], time)
    _plans(folder / PLANS, w.origin, ids, [p for p in passes if p.kind == "backfill"])
    return Recording(w, submit, end, passes, ids.key)


class _Jobs:
    """The rows of jobs by the names that Slurm's log has for them: 12, 20_3(23), 20_*."""

    def __init__(self, w: Workload):
        self.row_of = {int(j): i for i, j in enumerate(w.columns["job"])}
        self.array_of = {int(j): int(a) for j, a in zip(w.columns["job"], w.columns["array"], strict=True)}
        self.place = {n: i for i, n in enumerate(w.cluster.known_site.names)}
        arrays: dict[int, list[int]] = {}
        for j, row in self.row_of.items():
            arrays.setdefault(self.array_of[j], []).append(row)
        self.arrays = {a: sorted(rows) for a, rows in arrays.items()}
        self.key = [0] * len(w)
        for rows in self.arrays.values():
            for row in rows:
                self.key[row] = rows[0]

    def rows(self, name: str) -> list[int]:
        """All rows of a job or an array."""
        number = int(re.split(r"[_(]", name)[0])
        return self.arrays.get(number) or [self.row_of[number]] if number in self.row_of or number in self.arrays else []

    def row(self, name: str, where: str) -> int:
        """The row of one job; -1, or an error where there is a place `where` to name, for one that is not in the table."""
        inside = re.search(r"\((\d+)\)", name)
        row = self.row_of.get(int(inside[1] if inside else name), -1)
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


def _plans(file: Path, origin: float, ids: _Jobs, cycles: list[Pass]) -> None:
    """Put the plans to their cycles."""
    at = 0
    with gzip.open(file, "rt", newline="") as lines:
        for line, r in enumerate(csv.reader(lines), 1):
            if line == 1 or r[1] != "plan":
                continue
            where = f"{file}:{line}"
            time = _seconds(r[0], where) - origin
            while at + 1 < len(cycles) and cycles[at + 1].time <= time + 1e-6:
                at += 1
            rows = ids.rows(r[2])
            if rows:
                cycles[at].plans.append(Plan(ids.key[rows[0]], _seconds(r[3], where) - origin, ids.places(r[5], where)))


def _rows(file: Path) -> Iterator[tuple[int, dict[str, str]]]:
    with open(file, newline="") as lines:
        reader = csv.DictReader(lines)
        if missing := {"epoch_s", "event", "job", "what"} - set(reader.fieldnames or ()):
            raise InputError(f"{file}:1: no column {sorted(missing)[0]}")
        yield from enumerate(reader, 2)


def _seconds(text: str, where: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InputError(f"{where}: {text[:30]!r} is no time in s since 1970") from None

"""Jobs of any system in columns of one meaning, part after part; what becomes of them is a workload, and what is left out is
counted. The readers of other systems' logs and of tables end here."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from jobwise.cluster import Cluster, pool
from jobwise.errors import InputError, in_a_line, plain
from jobwise.workload import Workload
from jobwise.workloads import fields
from jobwise.workloads.swf import COLUMNS, from_table

TIMES = ("submit", "eligible", "start", "end")  # s since 1970, or since any moment
SPANS = ("run", "wait", "walltime")  # s
SIZES = ("processors", "nodes", "gpus")  # what a job is given; the first that a log tells is what is scheduled
BESIDE = ("gpus", "nodes")  # kept as columns where something else is scheduled
WHO = ("user", "group", "queue", "partition", "app")  # names
COPIES = "copies"  # how many equal instances a job has: its sizes are those of one
NAMES = (*TIMES, *SPANS, *SIZES, COPIES, "memory", "job", "status", *WHO)  # all that a column can mean; memory: MB of a job
READS: dict[str, Callable[..., fields.Read]] = {
    **dict.fromkeys(TIMES, fields.times),
    **dict.fromkeys(SPANS, fields.durations),
    **dict.fromkeys((*SIZES, COPIES, "job"), fields.counts),
    "memory": fields.amounts,
}
LENIENT = ("job", "memory", "walltime", "wait")  # where one of these cannot be read it is not said; else the row is left out
UNLIMITED = 2e9  # s: limits from here on are none, as 2^31 - 1 s and 2^32 - 1 min
EPOCH = 1e8  # times from here on are s since 1970, where 0 is no time
ROWS = 50_000  # rows of a part
T = TypeVar("T")
MOST = {  # beyond these a value is none: s since 1970, s, units
    **dict.fromkeys(("submit", "eligible", "start", "end"), 4.3e9),
    **dict.fromkeys(("run", "wait"), 4.3e9),
    **dict.fromkeys(("processors", "nodes", "gpus"), 2.0**31 - 1),
}
PLAIN = {"processors": "processors", "nodes": "nodes", "gpus": "GPUs"}
NOT_ENDED = "not ended"


@dataclass(eq=False)
class JobTable:
    """Jobs as `add` takes them, in parts. `where`: file, for messages; `size`: what is scheduled of SIZES, "" for the first
    that the log tells; `machine`: how many of it there are, 0 where it is not known; `reading`: how the log was read."""

    where: str
    name: str
    size: str = ""
    machine: int = 0
    reading: tuple[str, ...] = ()
    left: dict[str, int] = field(default_factory=dict)
    notes: dict[str, int] = field(default_factory=dict)
    parts: list[dict[str, np.ndarray]] = field(default_factory=list)
    who: list[dict[str, pa.Array]] = field(default_factory=list)

    def drop(self, reason: str, count: int) -> None:
        """Count rows that are left out."""
        if count:
            self.left[reason] = self.left.get(reason, 0) + int(count)

    def add(self, columns: dict[str, pa.Array], line: np.ndarray, units: dict[str, str] | None = None) -> None:
        """Take rows: texts [N] by what they mean (NAMES; others are kept by their names), and the line of each. Rows of jobs
        that have not ended, and those with a value that cannot be read, are left out and counted."""
        units, n = units or {}, len(line)
        keep, numbers = np.ones(n, bool), dict[str, np.ndarray]()
        for key, texts in columns.items():
            if key in READS:
                numbers[key], bad = READS[key](texts, units[key]) if key in units else READS[key](texts)
                if key in MOST:
                    bad = bad | (np.abs(np.nan_to_num(numbers[key])) > MOST[key])
                if key not in LENIENT and (bad & keep).any():
                    first = int(np.flatnonzero(bad & keep)[0])
                    value = plain(texts[first].as_py())[:30]
                    self.unread(f"{self.where}:{line[first]}: {key} is {value!r}", int((bad & keep).sum()))
                    keep &= ~bad
            elif key == "status":
                numbers[key], open_ = fields.statuses(texts, units.get(key, ""))
                self.drop(NOT_ENDED, int((open_ & keep).sum()))
                keep &= ~open_
            elif key not in WHO:
                numbers[key] = fields.counts(texts).values
        rows = np.flatnonzero(keep)
        self.parts.append({k: v[rows] for k, v in numbers.items()} | {"line": line[rows]})
        self.who.append({k: pc.dictionary_encode(columns[k].take(pa.array(rows))) for k in WHO if k in columns})

    def add_rows(self, items: Iterable[tuple[int, T]], make: Callable[[T], dict[str, object]]) -> None:
        """Take items of lines, each made a row: its values by meaning, the same for all. One of which nothing can be made is
        left out and counted."""
        lines: list[int] = []
        kept: list[dict[str, object]] = []
        for line, item in items:
            try:
                kept.append(make(item))
            except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
                self.unread(f"{self.where}:{line}: {in_a_line(error, 80)}", 1)
                continue
            lines.append(line)
            if len(kept) == ROWS:
                self._flush(lines, kept)
                lines, kept = [], []
        if kept:
            self._flush(lines, kept)

    def _flush(self, lines: list[int], rows: list[dict[str, object]]) -> None:
        texts = {k: ["" if (x := r[k]) is None else x if isinstance(x, str) else str(x) for r in rows] for k in rows[0]}
        self.add({k: pa.array(v, pa.string()) for k, v in texts.items()}, np.array(lines))

    def unread(self, first: str, count: int) -> None:
        """Count rows that cannot be read; the first of all is named: file:line, and why."""
        reason = next((k for k in self.left if k.startswith("that cannot be read")), "")
        self.drop(reason or f"that cannot be read (the first: {first})", count)

    def column(self, name: str) -> np.ndarray:
        """[N] a column of all parts; NaN where it is not said."""
        return np.concatenate([p[name] if name in p else np.full(len(p["line"]), np.nan) for p in self.parts])

    def workload(self, procs: int | None = None) -> Workload:
        """Return the jobs that ran, on `procs` units (by default those that the log names, else the most that ever ran at
        once). Raises InputError where there is none."""
        if not self.parts or not sum(len(p["line"]) for p in self.parts):
            raise InputError(f"{self.where}: no job that ran ({self._reasons()})")
        submit, start, run = self._moments()
        size = self._sized()
        copies = self.column(COPIES)
        amount = self.column(size) * np.where(copies > 0, copies, 1.0)
        never = np.isnan(run) | np.isnan(submit)
        keep = ~never
        self.drop("never started, or without times", int(never.sum()))
        if not keep.any():
            raise InputError(f"{self.where}: no job that ran ({self._reasons()})")
        more = sorted({k for p in self.parts for k in p} - {*NAMES, "line"})
        table = np.full((int(keep.sum()), len(COLUMNS) + 2 + len(more)), -1.0)
        put = {name: i for i, name in enumerate(COLUMNS)}
        values = {"submit": submit, "wait": start - submit, "run": run, "allocated": amount, "requested": amount}
        values |= {"job": self.column("job"), "walltime": self._limits(run), "status": self.column("status")}
        each = self.column("memory") * 1e3 / np.maximum(amount, 1.0)  # SWF: KB of a processor
        values["requested_memory"] = each
        for key, x in values.items():
            table[:, put[key]] = np.nan_to_num(x[keep], nan=-1.0)
        ids = {}
        for key in WHO:
            which, ids[key] = self._names(key)
            table[:, put[key]] = which[keep]
        for i, key in enumerate(BESIDE, len(COLUMNS)):
            table[:, i] = np.nan_to_num(self.column(key)[keep], nan=0.0)
        for i, key in enumerate(more, len(COLUMNS) + len(BESIDE)):
            table[:, i] = self.column(key)[keep]
        return self._made(table, size, procs, ids, more)

    def _made(self, table: np.ndarray, size: str, procs: int | None, ids: dict, more: list[str]) -> Workload:
        count, guess = sized_for(table, self.where, procs, self.machine, PLAIN[size])
        machine = pool(count) if size == "processors" else Cluster(np.array([[count]], np.int64), (size,))
        header = [f"; Computer: {self.name}"]
        kept, unit = (*BESIDE, *more), PLAIN[size]
        w = from_table(table, header, name=self.name, where=self.where, cluster=machine, more=kept, unit=unit)
        for key in BESIDE:
            if key == size or not (w.columns[key] > 0).any():
                w.columns.pop(key)
        w.dropped.update({**self.left, **w.dropped})
        w.notes.update(self.notes | guess)
        names = {k: dict(enumerate(v, 1)) for k, v in ids.items() if v}
        return replace(w, reading=(*self.reading, f"What is scheduled: {PLAIN[size]}."), names=names)

    def _moments(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(when a job enters the queue, starts; s it runs)."""
        submit, eligible, start, end = (self.column(k) for k in TIMES)
        if max(np.nan_to_num(x).max(initial=0) for x in (submit, start, end)) > EPOCH:
            submit, eligible, start, end = (np.where(x == 0, np.nan, x) for x in (submit, eligible, start, end))
        run, wait = self.column("run"), self.column("wait")
        submit = np.where(np.isnan(submit), np.where(np.isnan(eligible), start - wait, eligible), submit)
        start = np.where(np.isnan(start), np.where(np.isnan(wait), end - run, submit + wait), start)
        if (alone := np.isnan(submit) & ~np.isnan(start)).any():
            self.notes["without a submit time (their start stands in; waits are not known)"] = int(alone.sum())
            submit = np.where(alone, start, submit)
        if (early := start < submit).any():
            self.notes["started before their submit (they count as if they had not waited)"] = int(early.sum())
            submit = np.where(early, start, submit)
        queued = np.where(eligible >= submit, np.fmin(eligible, np.where(np.isnan(start), eligible, start)), submit)
        run = np.where(np.isnan(run), end - start, run)
        started = np.where(np.isnan(start), queued - 1.0, start)  # SWF: a wait of -1 is not known
        return queued, started, run

    def _sized(self) -> str:
        sizes = [k for k in SIZES if np.nan_to_num(self.column(k)).max(initial=0) > 0]
        size = self.size or next(iter(sizes), "")
        if size not in sizes:
            raise InputError(f"{self.where}: no job has {PLAIN.get(size) or 'processors, nodes or GPUs'}")
        return size

    def _limits(self, run: np.ndarray) -> np.ndarray:
        limit = self.column("walltime")
        return np.where(limit >= UNLIMITED, np.maximum(365 * 86400.0, run), np.where(limit < 0, np.nan, limit))

    def _names(self, key: str) -> tuple[np.ndarray, list[str]]:
        """([N] numbers of names from 1, -1 for none; the names)."""
        blank = pc.dictionary_encode(pa.array([""], pa.string()))
        chunks = [
            p[key] if key in p else blank.take(pa.array(np.zeros(len(q["line"]), np.int64)))
            for p, q in zip(self.who, self.parts, strict=True)
        ]
        joined = pa.chunked_array(chunks).unify_dictionaries().combine_chunks()
        if isinstance(joined, pa.ChunkedArray):
            joined = joined.chunk(0)
        texts = [(x or "").strip() for x in joined.dictionary.to_pylist()]
        names = [x for x in dict.fromkeys(texts) if x and x.lower() not in fields.MISSING]
        number = {x: i for i, x in enumerate(names, 1)}
        codes = np.array([number.get(x, -1) for x in texts] or [-1], float)
        return codes[np.nan_to_num(joined.indices.to_numpy(zero_copy_only=False), nan=0).astype(int)], names

    def _reasons(self) -> str:
        return ", ".join(f"{n:,} {reason}" for reason, n in self.left.items()) or "no rows"


def sized_for(
    table: np.ndarray, where: str, procs: int | None, machine: int = 0, unit: str = "processors"
) -> tuple[int, dict[str, int]]:
    """(how large the machine of jobs in columns of SWF is, a note where that is a guess): `procs` as the user says, else
    `machine` as the log says, else the most in use at once. Raises InputError where a job is larger than the user says."""
    most = int(table[:, COLUMNS.index("allocated")].max(initial=0))
    if procs and procs < most:
        raise InputError(f"{where}: a machine of {procs} {unit} cannot run its largest job ({most})")
    if procs or machine:
        return procs or machine, {}
    if (count := peak(table)) >= 2**31:
        raise InputError(f"{where}: {count:,} {unit} in use at once are beyond what can be simulated (2^31)")
    return count, {f"{unit} guessed from the most in use at once, {count:,} (--procs sets them)": 1}


def peak(table: np.ndarray) -> int:
    """Most units in use at once, by the recorded starts of columns of SWF; at least the largest job."""
    begin = table[:, COLUMNS.index("submit")] + np.maximum(table[:, COLUMNS.index("wait")], 0.0)
    run, size = table[:, COLUMNS.index("run")], np.maximum(table[:, COLUMNS.index("allocated")], 0)
    real = np.isfinite(begin) & (run > 0) & (size < 2**31)
    when = np.concatenate([begin[real], (begin + run)[real]])
    change = np.concatenate([size[real], -size[real]])
    order = np.lexsort((change, when))
    return max(int(np.cumsum(change[order]).max(initial=0)), int(size[size < 2**31].max(initial=0)), 1)

"""sacct's table as columns of text: read by Arrow, worked on by distinct value, errors with the line they are in."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from jobwise.errors import InputError
from jobwise.workloads.fields import stamps

NOBODY = ("Unknown", "None", "N/A")  # no time
JOB = re.compile(r"\d+(?:_(?:\d+|\[[^|]*\])|\+\d+)?(?:\.[\w+]+)?\|")  # the begin of a row whose first column is a job's id
FREE = ("JobName", "Comment", "AdminComment", "SystemComment", "WCKey", "Reason", "WorkDir")  # a user's text: may hold |
LOOKS = {  # of columns by which a row is known to be right
    "State": re.compile(r"[A-Z_]+(?: by \d+)?\+?"),
    **dict.fromkeys(("Submit", "Eligible", "Start", "End"), re.compile(r"\d{9,11}|\d{4}-\d\d-\d\dT\S+|Unknown|None|N/A|")),
}
BLOCK = 16 << 20  # bytes that are parsed at once


@dataclass(frozen=True, eq=False)
class Accounting:
    """Rows of sacct. `line` [J]: of the file, below 0 the number of a job that is in none. `columns`: name -> text [J]. `now`:
    s since 1970 of a cluster in use, of which jobs that wait (PENDING) or run (RUNNING) are rows, too. `unread`: how many rows
    were left out because they cannot be read, by the first of them: file:line, and why."""

    where: str
    line: np.ndarray
    columns: dict[str, pa.Array]
    now: float | None = None
    unread: dict[str, int] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.line)

    def has(self, name: str) -> bool:
        """Is there a column of this name?"""
        return name in self.columns

    def take(self, rows: np.ndarray) -> Accounting:
        """Some of the rows: their numbers [K], or [J] bool."""
        rows = np.flatnonzero(rows) if rows.dtype == bool else rows
        kept = {k: v.take(pa.array(rows)) for k, v in self.columns.items()}
        return replace(self, line=self.line[rows], columns=kept)

    def text(self, *names: str) -> pa.Array:
        """[J] the first of these columns that is not empty in a row; "" where none is."""
        merged = None
        for name in names:
            if name in self.columns:
                column = self.columns[name]
                merged = column if merged is None else pc.if_else(pc.equal(merged, ""), column, merged)
        return pa.array([""]).take(pa.array(np.zeros(len(self), np.int64))) if merged is None else merged

    def distinct(self, *names: str) -> tuple[np.ndarray, list[str]]:
        """([J] which text each row has, the texts in order of appearance)."""
        return _distinct(self.text(*names))

    def wrong(self, rows: np.ndarray | int, message: str) -> Unreadable:
        """Return the error of a row, or of several for the same reason; the message names the first."""
        lines = np.atleast_1d(self.line[rows])
        n = lines[0]
        return Unreadable(f"{self.where}:{n}: {message}" if n >= 0 else f"{self.where}: job {-n}: {message}", lines)

    def map(self, read: Callable[[str], float], *names: str, kind: type = float) -> np.ndarray:
        """[J] a number by `read` of each text, called once for each different one. ValueError becomes InputError."""
        which, texts = self.distinct(*names)
        values: np.ndarray = np.empty(len(texts), kind)
        errors: dict[int, str] = {}
        for i, text in enumerate(texts):
            try:
                values[i] = read(text)
            except ValueError as error:
                errors[i] = str(error)
        if errors:
            raise self.wrong(np.flatnonzero(np.isin(which, [*errors])), next(iter(errors.values())))
        return values[which]

    def integers(self, *names: str) -> np.ndarray:
        """[J] whole numbers; empty is 0. Raises InputError."""
        column = self.text(*names)
        good = pc.match_substring_regex(column, r"^\d{0,9}$").to_numpy(zero_copy_only=False)
        if not good.all():
            rows = np.flatnonzero(~good)
            raise self.wrong(rows, f"{names[0]} is {column[int(rows[0])].as_py()[:30]!r}; a whole number is expected")
        return pc.cast(pc.if_else(pc.equal(column, ""), "0", column), pa.int64()).to_numpy()

    def seconds(self, read: Callable[[str], float], *names: str) -> np.ndarray:
        """[J] s since 1970 of times as sacct prints them; NaN for none. `read`: for those that are in no usual form."""
        column = self.text(*names)
        none = pc.is_in(column, pa.array(["", *NOBODY]))
        digits = pc.match_substring_regex(column, r"^\d{9,11}$")
        seconds = pc.cast(pc.if_else(digits, column, pa.scalar(None, pa.string())), pa.float64())
        usual = pc.match_substring_regex(column, r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d$")
        both = [x.to_numpy(zero_copy_only=False) for x in (digits, usual)]
        if both[0].any() and both[1].any():
            rows = np.flatnonzero(both[0] if both[0].sum() <= both[1].sum() else both[1])  # those of the rarer form
            text = column[int(rows[0])].as_py()[:30]
            raise self.wrong(rows, f"{names[0]} is {text!r}, others are in another form: is the table of one run?")
        moments = stamps(pc.if_else(usual, column, pa.scalar(None, pa.string())), "%Y-%m-%dT%H:%M:%S")
        seconds = seconds.to_numpy(zero_copy_only=False).astype(float)
        out = np.where(np.isnan(seconds), np.where(moments < 0, np.nan, moments), seconds)
        left = np.flatnonzero(np.isnan(out) & ~none.to_numpy(zero_copy_only=False))
        if len(left):
            out[left] = self.take(left).map(read, *names)
        return out

    def matches(self, pattern: str, *names: str) -> np.ndarray:
        """[J] bool: does the text match?"""
        return pc.match_substring_regex(self.text(*names), pattern).to_numpy(zero_copy_only=False)


class Unreadable(InputError):
    """Rows that cannot be read: their `lines` of the file."""

    def __init__(self, message: str, lines: np.ndarray):
        super().__init__(message)
        self.lines = lines


T = TypeVar("T")


def forgiving(a: Accounting, work: Callable[[Accounting], T]) -> T:
    """Return what `work` makes of the rows that can be read; the others are left out and counted. Raises InputError where none
    is left."""
    while True:
        try:
            return work(a)
        except Unreadable as error:
            keep = ~np.isin(a.line, error.lines)
            if not keep.any() or keep.all() or (error.lines < 0).any():  # below 0: of a job of a cluster in use
                raise
            unread = a.unread | {str(error): a.unread.get(str(error), 0) + int((~keep).sum())}
            a = replace(a.take(keep), unread=unread)


def left_out(a: Accounting) -> dict[str, int]:
    """Return {reason: rows} of the rows that cannot be read, the first of them named; nothing where all can."""
    if not a.unread:
        return {}
    return {f"that cannot be read (the first: {next(iter(a.unread))})": sum(a.unread.values())}


def of_rows(rows: list[dict[str, str]], where: str, line: list[int]) -> Accounting:
    """The table of rows that name their columns, all the same."""
    names = rows[0] if rows else ()
    return Accounting(where, np.array(line, np.int64), {k: pa.array([r[k].strip() for r in rows], pa.string()) for k in names})


def joined(a: Accounting, b: Accounting, where: str, now: float) -> Accounting:
    """The rows of a, then those of b, of a cluster that is in use `now`; a column that one of them lacks is empty there."""

    def column(x: Accounting, name: str) -> pa.Array:
        return x.columns[name] if x.has(name) else pa.array([""] * len(x), pa.string())

    names = dict.fromkeys([*a.columns, *b.columns])
    columns = {k: pa.concat_arrays([column(a, k), column(b, k)]) for k in names}
    return Accounting(where, np.concatenate([a.line, b.line]), columns, now, a.unread | b.unread)


def _distinct(column: pa.Array) -> tuple[np.ndarray, list[str]]:
    coded = pc.dictionary_encode(column)
    return coded.indices.to_numpy().astype(np.int64), coded.dictionary.to_pylist()


def names_of(text: str) -> list[str]:
    """The names in the first line."""
    return [n.strip() for n in text[:65536].split("\n", 1)[0].rstrip("\r").rstrip("|").split("|")]


def read(text: str, where: str, only: Collection[str] | None = None, skip: int = 0) -> Accounting:
    """The table of `sacct -P`: names, then rows, with | between columns. Texts of users may hold | and ends of lines. `only`:
    the columns that are kept (all); `skip`: lines of the file between the names and these rows. A row that cannot be read is
    left out and counted."""
    first = text[:65536].split("\n", 1)[0]
    names = names_of(text)
    open_ended, odd, raw = first.rstrip("\r").endswith("|"), [], text.encode()
    begin = len(first.encode()) + 1
    wanted = len(names) + open_ended

    def handle(row: csv.InvalidRow) -> str:
        odd.append((row.number + 1 + skip, row.text.strip()))
        return "skip"

    if not re.compile(rb"\S").search(raw, begin):
        return Accounting(where, np.zeros(0, np.int64), {n: pa.array([], pa.string()) for n in names})
    columns = [*names, ""][:wanted] if open_ended else names
    unique = [f"{i}:{n}" for i, n in enumerate(columns)]
    reading = csv.ReadOptions(column_names=unique, use_threads=False, block_size=BLOCK)
    form = csv.ParseOptions(delimiter="|", quote_char=False, invalid_row_handler=handle, ignore_empty_lines=False)
    kept = {i: n for i, n in reversed(list(enumerate(names))) if only is None or n in only}  # of two of a name the first
    kinds = csv.ConvertOptions(
        column_types=dict.fromkeys(unique, pa.string()), strings_can_be_null=False, include_columns=[unique[i] for i in kept]
    )
    try:
        table = csv.read_csv(pa.BufferReader(pa.py_buffer(raw).slice(begin)), reading, form, kinds)
    except pa.ArrowInvalid as error:
        raise InputError(f"{where}: cannot be read: {str(error).splitlines()[0][:200]}") from None
    trimmed = {n: pc.utf8_trim_whitespace(table.column(unique[i]).combine_chunks()) for i, n in kept.items()}
    line = _lines(len(table), [n - skip for n, _ in odd]) + skip
    a, empty = Accounting(where, line, trimmed), np.ones(len(table), bool)
    for column in trimmed.values():
        if not empty.any():
            break
        empty &= pc.equal(column, "").to_numpy(zero_copy_only=False)
    return _with_odd(a.take(~empty) if empty.any() else a, names, odd, wanted)


def _lines(count: int, skipped: list[int]) -> np.ndarray:
    """[count] the lines of the rows that were read, where those of `skipped` were not; the names are line 1."""
    every = np.arange(2, 2 + count + len(skipped))
    keep = np.ones(len(every), bool)
    keep[[n - 2 for n in skipped if 0 <= n - 2 < len(every)]] = False
    return every[keep][:count]


def _with_odd(a: Accounting, names: list[str], odd: list[tuple[int, str]], wanted: int) -> Accounting:
    """The table with the rows of another number of fields, in order: a line that begins with no job's id goes on with the row
    before it, and what is too much belongs to a user's text. What is no row even so is left out and counted."""
    if not odd:
        return a
    rows, behind = _grouped(odd, set(a.line.tolist()), names[0].startswith("JobID"))
    a = _continued(a, names[-1], behind)
    more, unread = [], dict[str, int]()
    for line, texts in rows.items():
        text = " ".join(texts)
        parts = _parted(text, names, wanted)
        if parts is not None:
            more.append((line, parts))
        elif unread:
            unread[next(iter(unread))] += 1  # only the first is named
        else:
            unread[f"{a.where}:{line}: {text.count('|') + 1} fields; the header names {len(names)}"] = 1
    a = replace(a, unread=unread)
    if not more:
        return a
    both = np.concatenate([a.line, [line for line, _ in more]])
    order = np.argsort(both, kind="stable")
    columns = {
        n: pa.concat_arrays([a.columns[n], pa.array([row[i].strip() for _, row in more])]).take(pa.array(order))
        for i, n in enumerate(names)
        if n in a.columns
    }
    return replace(a, line=both[order], columns=columns)


def _grouped(odd: list[tuple[int, str]], good: set[int], jobs: bool) -> tuple[dict[int, list[str]], dict[int, list[str]]]:
    """({line: the texts of an odd row}, {line of a good row: the texts that follow it}). `odd`: (line, text) of lines; `jobs`:
    does a row begin with a job's id?"""
    rows: dict[int, list[str]] = {}
    behind: dict[int, list[str]] = {}
    last, texts = -1, list[str]()  # the line before, where it was odd, and what it belongs to
    for line, text in odd:
        if not text:
            continue
        if not jobs or JOB.match(text):
            texts = rows[line] = []
        elif last != line - 1:
            texts = []
            if line - 1 in good:
                behind[line - 1] = texts
            else:
                rows[line] = texts
        texts.append(text)
        last = line
    return rows, behind


def _continued(a: Accounting, name: str, behind: dict[int, list[str]]) -> Accounting:
    """The table with more text behind the last column, `name`, of the rows of some lines."""
    if not behind or name not in a.columns:
        return a
    texts = a.columns[name].to_pylist()
    for row in np.flatnonzero(np.isin(a.line, list(behind))).tolist():
        texts[row] = " ".join([texts[row], *behind[int(a.line[row])]])
    return replace(a, columns=a.columns | {name: pa.array(texts, pa.string())})


def _parted(text: str, names: list[str], wanted: int) -> list[str] | None:
    """The fields of a row of too many, where one of them, a user's text, holds | itself; None: it is no row."""
    parts = text.split("|")
    if wanted > len(names) and parts[-1] == "":  # each line ends in |
        parts = parts[:-1]
    surplus = len(parts) - len(names)
    if surplus < 0:
        return None
    at = [len(names) - 1, *(i for i, n in enumerate(names[:-1]) if n in FREE)]
    tried = ([*parts[:i], "|".join(parts[i : i + surplus + 1]), *parts[i + surplus + 1 :]] for i in at)
    return next((row for row in tried if all(_looks_right(n, x) for n, x in zip(names, row, strict=True))), None)


def _looks_right(name: str, text: str) -> bool:
    return name not in LOOKS or LOOKS[name].fullmatch(text.strip()) is not None

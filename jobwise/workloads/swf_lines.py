"""Lines of Standard Workload Format, block by block: numbers, what stands behind them, the header; odd rows are counted."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from pyarrow import csv

from jobwise.errors import InputError
from jobwise.workloads import foreign, opened

COLUMNS = [
    "job",
    "submit",
    "wait",
    "run",
    "allocated",
    "cpu_time",
    "memory",
    "requested",
    "walltime",
    "requested_memory",
    "status",
    "user",
    "group",
    "app",
    "queue",
    "partition",
    "preceding",
    "think_time",
]
BOM, WIDTHS = b"\xef\xbb\xbf", 1 << 16
ONE_SPACE = bytes.maketrans(b"\t\r\v\f", b"    ")
_LARGEST = 2.0**53  # beyond it a float no longer holds every whole number


class SwfLines:
    """The lines of a log, block by block: numbers [rows, 18], what stands behind them, and the lines of the header. A row that
    cannot be read is left out and counted; the first of them is named."""

    def __init__(self, where: str):
        self.where, self.header, self.width = where, list[str](), 0  # fields of a row, as most of the first have
        self._tables: list[np.ndarray] = []
        self._behind: list[list[list[str]]] = []
        self._line, self._bad, self._first, self._begin = 1, 0, "", ""

    def add(self, block: bytes) -> None:
        """Take a block of whole lines."""
        block = block.removeprefix(BOM)
        if b"\n" not in block:
            block = block.replace(b"\r", b"\n")  # lines that end as those of old Macs
        self._begin = self._begin or block[:4096].decode(errors="replace")
        count = block.count(b"\n") + (not block.endswith(b"\n"))
        if b";" in block:
            rows = []
            for x in block.split(b"\n"):
                if x.lstrip()[:1] == b";":
                    self.header.append(opened.decoded(x).rstrip("\r"))
                    rows.append(b"")
                else:
                    rows.append(x)
            block = b"\n".join(rows)
        if not self.width and block.strip():
            widths = [len(x.split()) for x in block[:WIDTHS].split(b"\n")[:200] if x.strip()]
            self.width = max(max(set(widths), key=widths.count), len(COLUMNS))
        if block.strip():
            self._numbers(block)
        self._line += count

    def _numbers(self, block: bytes) -> None:
        table, behind = _parsed(block, self.width) or self._by_line(block)
        if len(table):
            self._tables.append(table)
            self._behind.append(behind)

    def _by_line(self, block: bytes) -> tuple[np.ndarray, list[list[str]]]:
        """The numbers of a block in which a row is odd, and what stands behind them."""
        good: list[bytes] = []
        behind: list[list[str]] = [[] for _ in range(self.width - len(COLUMNS))]
        for n, x in enumerate(block.split(b"\n"), self._line):
            fields = x.split()
            if not fields:
                continue
            if len(fields) != self.width or (why := _wrong(fields[: len(COLUMNS)])):
                says = f"{self.where}:{n}: " + (_count_of(fields, self.width) if len(fields) != self.width else why)
                self._first, self._bad = self._first or says, self._bad + 1
                continue
            good.append(b" ".join(fields[: len(COLUMNS)]))
            for i, column in enumerate(behind):
                column.append(opened.decoded(fields[len(COLUMNS) + i]))
        return np.array(b" ".join(good).split(), float).reshape(-1, len(COLUMNS)), behind

    def table(self) -> np.ndarray:
        """The numbers [rows, 18]. Raises InputError where there is no row."""
        if not self._tables and self._bad:
            raise InputError(self._odd())
        if not self._tables:
            what = "has a header but no jobs" if self.header else "is empty"
            raise InputError(f"{self.where}: {what}; a job is a line of 18 numbers")
        return np.concatenate(self._tables) if len(self._tables) > 1 else self._tables[0]

    def _odd(self) -> str:
        kind = foreign.known(self._begin)
        return f"{self.where}: {kind}" if kind else self._first

    def column(self, i: int) -> np.ndarray:
        """[rows] what stands in column 19 + i: numbers where all are, else texts."""
        texts = np.array([x for part in self._behind for x in part[i]])
        try:
            return texts.astype(float)
        except ValueError:
            return texts

    def unread(self) -> dict[str, int]:
        """Return {reason: rows} of the rows that cannot be read."""
        return {f"that cannot be read (the first: {self._first})": self._bad} if self._bad else {}


def _parsed(block: bytes, width: int) -> tuple[np.ndarray, list[list[str]]] | None:
    """The numbers [rows, 18] of lines of `width` fields, and the texts behind them by column; None where a line is odd."""
    data = np.frombuffer(block.translate(ONE_SPACE), np.uint8)
    space, end = data == 32, data == 10
    kept = data[~(space & np.concatenate([[True], (space | end)[:-1]]))]  # one space between fields, none before them
    kept = kept[~((kept == 32) & np.concatenate([kept[1:] == 10, [True]]))]
    behind = [f"+{i}" for i in range(width - len(COLUMNS))]
    if not kept.size or (kept == 10).all():
        return np.zeros((0, len(COLUMNS))), [[] for _ in behind]
    reading = csv.ReadOptions(column_names=[*COLUMNS, *behind], use_threads=False, block_size=len(kept) + 1)
    types = dict.fromkeys(COLUMNS, pa.float64()) | dict.fromkeys(behind, pa.string())
    kinds = csv.ConvertOptions(column_types=types, null_values=[], strings_can_be_null=False)
    try:
        table = csv.read_csv(pa.py_buffer(kept), reading, csv.ParseOptions(delimiter=" ", quote_char=False), kinds)
    except pa.ArrowInvalid:
        return None
    numbers = np.column_stack([table[name].to_numpy() for name in COLUMNS])
    return (numbers, [table[name].to_pylist() for name in behind]) if (np.abs(numbers) < _LARGEST).all() else None


def _wrong(fields: list[bytes]) -> str:
    """What is wrong with the fields of a row; "" for nothing."""
    for name, value in zip(COLUMNS, fields, strict=True):
        shown = value[:30].decode(errors="replace")
        try:
            x = float(value.replace(b"_", b"?"))
        except ValueError:
            return f"field {name!r} is {shown!r}; a number is expected (-1: unknown)"
        if not abs(x) < _LARGEST:
            return f"field {name!r} is {shown}; that is no sensible number (-1: unknown)"
    return ""


def _count_of(fields: list[bytes], width: int) -> str:
    line = b" ".join(fields)[:40].decode(errors="replace")
    return f"{len(fields)} fields; a job has {width} (line starts {line!r})"

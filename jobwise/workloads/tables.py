"""Tables of jobs, CSV (any separator) or Parquet, whose columns a map says: read part by part. Maps that ship are rows of
`column_maps.toml`."""

from __future__ import annotations

import csv as python_csv
import io
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import csv

from jobwise.errors import InputError, in_a_line, plain, shown, unknown
from jobwise.workload import Workload
from jobwise.workloads import fields, opened
from jobwise.workloads.jobtable import NAMES, SIZES, SPANS, TIMES, JobTable
from jobwise.workloads.logfile import LogFile
from jobwise.workloads.swf_lines import COLUMNS

MAPS = Path(__file__).with_name("column_maps.toml")
BLOCK = 8 << 20  # bytes of a table that are parsed at once
EXAMPLE = "submit=COLUMN,start=COLUMN,end=COLUMN,processors=COLUMN"


@dataclass(frozen=True)
class ColumnMap:
    """What the columns of a table mean.

    `columns`: meaning (NAMES, or any name to keep it by) -> column, or several of which the first that is there counts;
    `units`: of a meaning (hours, ms, gib, a format of strptime); `known_by`: the columns that a table of its kind has;
    `fields`: names of the columns of a table without a line of names; `size`, `machine`: as of a JobTable; `only`:
    {column: value} of rows that are jobs; `about`: what it is; `reading`: what else to know.
    """

    name: str
    columns: dict[str, str | list[str]]
    about: str = ""
    known_by: tuple[str, ...] = ()
    units: dict[str, str] = field(default_factory=dict)
    fields: tuple[str, ...] = ()
    size: str = ""
    machine: int = 0
    only: dict[str, str] = field(default_factory=dict)
    reading: str = ""

    def fits(self, names: Any) -> bool:
        """Return whether a table has the columns that its kind is known by."""
        return bool(self.known_by) and {*self.known_by, *self.only} <= set(names)

    def within(self, names: Any, where: str) -> dict[str, str]:
        """Return the column of each meaning in a table with these `names`; a map that ships may name some that are not there.
        Raises InputError where one that the user names is not, and where too little of a job is named."""
        chosen: dict[str, str] = {}
        for meaning, every in self.columns.items():
            tried = [every] if isinstance(every, str) else every
            there = next((c for c in tried if c in names), None)
            if there is None and not self.known_by:
                whose = self.name or "--columns"
                raise InputError(f"{where}: there is no column {tried[0]!r}, which {whose} names; it has {shown(names)}")
            chosen |= {meaning: there} if there is not None else {}
        for column in self.only:
            if column not in names:
                raise InputError(f"{where}: there is no column {column!r}, which [only] names; it has {shown(names)}")
        size = {self.size} if self.size in chosen else set(SIZES) & set(chosen)
        if not size or not set(chosen) & set(TIMES) or not set(chosen) & {"end", "run"}:
            raise InputError(f"{where}: a time, the end or the run, and a size of jobs must be named: --columns {EXAMPLE}")
        return chosen


@cache
def shipped() -> dict[str, ColumnMap]:
    """Return the maps that ship, by name."""
    return {name: _checked(name, x, MAPS.name) for name, x in tomllib.loads(MAPS.read_text()).items()}


def asked(text: str, names: str = "") -> ColumnMap:
    """Return the map that `--columns` means: meaning=column pairs, a TOML file, or the name of a map that ships; `names`: of
    `--fields`. Raises InputError."""
    if "=" in text:
        columns, units = dict[str, str](), dict[str, str]()
        for pair in text.split(","):
            meaning, _, column = pair.partition("=")
            column, _, unit = column.partition(":")
            columns[meaning.strip()] = column.strip()
            units |= {meaning.strip(): unit.strip()} if unit else {}
        chosen = _checked("", {"columns": columns, "units": units}, "--columns")
    elif text.endswith(".toml"):
        try:
            chosen = _checked(Path(text).stem, tomllib.loads(Path(text).read_text()), text)
        except (OSError, ValueError) as error:
            raise error if isinstance(error, InputError) else InputError(f"{text}: {in_a_line(error)}") from None
    else:
        if text not in shipped():
            raise unknown("map of columns", text, shipped(), "--columns: ")
        chosen = shipped()[text]
    if names:
        chosen = replace(chosen, fields=tuple(re.split(r"[|,\s]+", names)))
    return chosen


KINDS: tuple[tuple[str, type, Any], ...] = (  # of the keys of a map
    ("about", str, str),
    ("reading", str, str),
    ("size", str, str),
    ("machine", int, int),
    ("columns", dict, (str, list)),
    ("units", dict, str),
    ("only", dict, (str, int, float)),
    ("fields", list, str),
    ("known_by", list, str),
)
COUNTED = r"gres|tres:\S+|\d+\.?\d*|\.\d+"  # units of counts
UNITS: dict[str, tuple[Any, str]] = {  # of other meanings: their names, and a pattern of further ones
    **dict.fromkeys(TIMES, (fields.SECONDS, ".*%.*")),
    **dict.fromkeys(SPANS, (fields.SECONDS, "(?!)")),
    "memory": (fields.MEGABYTES, "(?!)"),
    "status": (("slurm", "swf"), "(?!)"),
}
WANTED = {str: "a text is", int: "a whole number is", dict: "a table is", list: "a list of texts is"}


def _values(x: Any) -> list[Any]:
    return list(x.values()) if isinstance(x, dict) else x if isinstance(x, list) else [x]


def _checked(name: str, x: dict[str, Any], where: str) -> ColumnMap:
    """Return a map as it is written in TOML. Raises InputError."""
    for key in x:
        if key not in (keys := [k for k, *_ in KINDS]):
            raise unknown("key", key, keys, f"{where}: ")
    for key, kind, kinds in KINDS:
        if key in x and not (isinstance(x[key], kind) and all(isinstance(y, kinds) for y in _values(x[key]))):
            raise InputError(f"{where}: {key} = {str(x[key])[:40]}: {WANTED[kind]} expected")
    columns, units = x.get("columns", {}), x.get("units", {})
    for meaning in columns:
        if meaning in COLUMNS and meaning not in NAMES:
            raise InputError(f"{where}: {meaning} has a meaning of its own in SWF; name the column otherwise")
    if not all(columns.values()):
        raise InputError(f"{where}: columns are meaning = column, such as {EXAMPLE}; meanings: {', '.join(NAMES)}")
    for meaning, unit in units.items():
        names, pattern = UNITS.get(meaning, ((), COUNTED))
        if meaning not in columns or not (unit in names or re.fullmatch(pattern, unit)):
            raise InputError(
                f"{where}: {meaning} in {unit!r}: {', '.join(names) or 'a factor, gres, or tres:NAME'} is expected"
            )
    if x.get("size", "") not in ("", *SIZES):
        raise unknown("size", x["size"], SIZES, f"{where}: ")
    if x.get("machine", 0) < 0:
        raise InputError(f"{where}: machine is {x['machine']}; how many there are is expected")
    plain_keys: dict[str, Any] = {k: x[k] for k in ("about", "size", "machine", "reading") if k in x}
    only = {k: str(v) for k, v in x.get("only", {}).items()}
    of_fields, known_by = tuple(x.get("fields", ())), tuple(x.get("known_by", ()))
    return ColumnMap(name, columns, units=units, fields=of_fields, known_by=known_by, only=only, **plain_keys)


def known(names: Any) -> ColumnMap | None:
    """Return the map that ships for a table of these columns; of several that which is known by most of them."""
    fitting = [m for m in shipped().values() if m.fits(names)]
    return max(fitting, key=lambda m: len(m.known_by), default=None)


def separator(line: str) -> str:
    """What stands between the columns of a line."""
    return max(",\t|;", key=line.count)


def names_of(line: str) -> list[str]:
    """The names in the first line of a table."""
    text = line.lstrip("\ufeff").rstrip("\r\n")
    try:
        (names,) = python_csv.reader([text], delimiter=separator(line))
    except (python_csv.Error, ValueError):  # it is no table
        names = [text]
    return [x.strip() for x in names]


class TableRows(Protocol):
    """Parts of a table: (its columns as texts, the line of each row), and after them how many rows were `odd`: of another
    number of columns."""

    odd: int
    within: int  # lines that belong to a quoted text of a row before them
    columns: dict[str, str]  # by meaning

    def __iter__(self) -> Iterator[tuple[dict[str, pa.Array], np.ndarray]]: ...


def read(rows: TableRows, f: LogFile, m: ColumnMap) -> Workload:
    """Return the jobs in a table. Raises InputError."""
    reading = f"Columns as {m.about or m.name or '--columns'} has them{'; ' + m.reading if m.reading else ''}."
    t = JobTable(f.source, f.name, m.size if m.size in rows.columns else "", m.machine, (reading,))
    only = dict(m.only)
    if f.cluster:
        if "partition" not in rows.columns:
            whose = m.name or "--columns"
            raise InputError(f"--cluster {f.cluster}: {whose} names no column of partitions, or virtual clusters")
        only[rows.columns["partition"]] = f.cluster
    units = {k: v for k, v in m.units.items() if k in rows.columns}
    for columns, line in rows:
        for column, value in only.items():
            keep = np.asarray(columns[column].to_pylist()) == value
            t.drop(f"of another {column} than {value}", int((~keep).sum()))
            columns, line = {k: v.filter(pa.array(keep)) for k, v in columns.items()}, line[keep]
        t.add({meaning: columns[column] for meaning, column in rows.columns.items()}, line, units)
    t.drop("of another number of columns", rows.odd)
    t.drop("lines within quotes of a row before them", rows.within)
    return t.workload(f.procs)


class NotUtf8(InputError):
    """Texts of a table are in Latin-1."""


class CountedLines(io.RawIOBase):
    """A stream that counts its lines that are not empty, as it is read."""

    def __init__(self, stream: Any):
        self._stream, self.count, self._tail = stream, 0, b"\n"

    def readable(self) -> bool:
        """Return True: it is read."""
        return True

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes of the stream."""
        data = self._stream.read(size)
        if kept := data.replace(b"\r", b""):
            ends = np.frombuffer(self._tail + kept, np.uint8) == 10
            self.count += int((ends[1:] & ~ends[:-1]).sum())  # those that do not follow another at once
            self._tail = kept[-1:]
        return data

    @property
    def lines(self) -> int:
        """The lines so far, the last one too where nothing ends it."""
        return self.count + (self._tail != b"\n")


class CsvRows:
    """Rows of an open text table; `line`: its first line. Raises InputError where columns of the map are missing."""

    def __init__(self, stream: Any, where: str, m: ColumnMap, line: str, encoding: str = "utf8"):
        self.odd, self.within, self._where, self._separator = 0, 0, where, separator(line)
        self._stream, self._encoding = CountedLines(stream), encoding
        self._names, self._first = list(m.fields) or names_of(line), 1 if m.fields else 2
        self.columns = m.within(self._names, where)
        self._needed = list(dict.fromkeys([*self.columns.values(), *m.only]))

    def _skipped(self, row: csv.InvalidRow) -> str:
        self.odd += 1
        return "skip"

    def __iter__(self) -> Iterator[tuple[dict[str, pa.Array], np.ndarray]]:
        first = self._first
        reading = csv.ReadOptions(
            column_names=self._names, skip_rows=first - 1, use_threads=False, block_size=BLOCK, encoding=self._encoding
        )
        form = csv.ParseOptions(delimiter=self._separator, invalid_row_handler=self._skipped)
        texts = dict.fromkeys(self._needed, pa.string())
        kinds = csv.ConvertOptions(column_types=texts, strings_can_be_null=False, include_columns=self._needed)
        try:
            for batch in csv.open_csv(self._stream, reading, form, kinds):
                yield {k: batch.column(i) for i, k in enumerate(batch.schema.names)}, np.arange(first, first + len(batch))
                first += len(batch)
        except pa.ArrowInvalid as error:
            text = plain(str(error).splitlines()[0])[:160]
            raise (NotUtf8 if "UTF8" in text else InputError)(f"{self._where}: is no whole table: {text}") from None
        self.within = max(self._stream.lines - (first - 1) - self.odd, 0)


class ParquetRows:
    """TableRows of a Parquet table. Raises InputError where columns of the map are missing."""

    odd = within = 0

    def __init__(self, source: str, m: ColumnMap, rows: int = 1 << 18):
        self._source, self._rows = source, rows
        self.columns = m.within(parquet_names(source), source)
        self._needed = list(dict.fromkeys([*self.columns.values(), *m.only]))

    def __iter__(self) -> Iterator[tuple[dict[str, pa.Array], np.ndarray]]:
        first = 1
        try:
            for batch in pq.ParquetFile(self._source).iter_batches(self._rows, columns=self._needed):
                columns = {k: _texts(batch.column(i), k, self._source) for i, k in enumerate(batch.schema.names)}
                yield columns, np.arange(first, first + len(batch))
                first += len(batch)
        except (pa.ArrowException, OSError) as error:
            raise InputError(f"{self._source}: cannot be read behind row {first:,}: {in_a_line(error, 120)}") from None


def parquet_names(source: str) -> list[str]:
    """Return the names of a Parquet table's columns. Raises InputError."""
    try:
        return list(pq.read_schema(source).names)
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{source}: is no whole Parquet file: {in_a_line(error, 120)}") from None


def _texts(column: pa.Array, name: str, where: str) -> pa.Array:
    if pa.types.is_nested(column.type):
        raise InputError(f"{where}: column {name} is {column.type}; numbers, times or texts are expected")
    if pa.types.is_duration(column.type):
        whole = pc.cast(column.cast(pa.duration("us"), safe=False), pa.int64())
        column = pc.divide(pc.cast(whole, pa.float64()), 1e6)
    if pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type):
        return pa.array([None if x is None else opened.decoded(x) for x in column.to_pylist()], pa.string())
    return column.cast(pa.string())

"""Tables of jobs, CSV (any separator) or Parquet, whose columns a map says: read part by part. Maps that ship are rows of
`column_maps.toml`."""

from __future__ import annotations

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
from jobwise.workloads import fields
from jobwise.workloads.jobtable import NAMES, SIZES, SPANS, TIMES, JobTable

MAPS = Path(__file__).with_name("column_maps.toml")
BLOCK = 8 << 20  # bytes of a table that are parsed at once
EXAMPLE = "submit=COLUMN,start=COLUMN,end=COLUMN,processors=COLUMN"
KEYS = ("about", "known_by", "size", "machine", "columns", "units", "fields", "only", "reading")


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
        size = {self.size} if self.size in chosen else set(SIZES) & set(chosen)
        if not size or not set(chosen) & set(TIMES) or not set(chosen) & {"end", "run"}:
            raise InputError(f"{where}: a time, the end or the run, and a size of jobs must be named: --columns {EXAMPLE}")
        return chosen

    def of_cluster(self, name: str) -> ColumnMap:
        """Return the map of the rows of one cluster, "" for all: by what it calls the partition. Raises InputError."""
        if not name:
            return self
        if "partition" not in self.columns:
            raise InputError(f"--cluster {name}: {self.name or '--columns'} names no column of partitions, or virtual clusters")
        column = self.columns["partition"]
        return replace(self, only=self.only | {column if isinstance(column, str) else column[0]: name})


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
    elif text:
        if text not in shipped():
            raise unknown("map of columns", text, shipped(), "--columns: ")
        chosen = shipped()[text]
    else:
        chosen = ColumnMap("", {k: k for k in re.split(r"[|,\s]+", names) if k in NAMES})
    if names:
        chosen = replace(chosen, fields=tuple(re.split(r"[|,\s]+", names)))
    return chosen


def _checked(name: str, x: dict[str, Any], where: str) -> ColumnMap:
    """Return a map as it is written in TOML. Raises InputError."""
    for key in x:
        if key not in KEYS:
            raise unknown("key", key, KEYS, f"{where}: ")
    columns, units = x.get("columns", {}), x.get("units", {})
    if not isinstance(columns, dict) or not all(v and isinstance(v, str | list) for v in columns.values()):
        raise InputError(f"{where}: columns are meaning = column, such as {EXAMPLE}; meanings: {', '.join(NAMES)}")
    for meaning, unit in units.items():
        kinds = fields.SECONDS if meaning in (*TIMES, *SPANS) else fields.MEGABYTES if meaning == "memory" else {}
        good = (
            unit in kinds or (meaning in TIMES and "%" in unit) or (not kinds and re.fullmatch(r"tres:\S+|[\d.]+", str(unit)))
        )
        if meaning not in columns or not good:
            raise InputError(f"{where}: {meaning} in {unit!r}: {', '.join(kinds) or 'a factor, or tres:NAME'} is expected")
    if x.get("size", "") not in ("", *SIZES):
        raise unknown("size", x["size"], SIZES, f"{where}: ")
    known = {k: x[k] for k in ("about", "size", "machine", "only", "reading") if k in x}
    names, known_by = tuple(x.get("fields", ())), tuple(x.get("known_by", ()))
    return ColumnMap(name, columns, units=units, fields=names, known_by=known_by, **known)


def known(names: Any) -> ColumnMap | None:
    """Return the map that ships for a table of these columns; of several that which is known by most of them."""
    fitting = [m for m in shipped().values() if m.fits(names)]
    return max(fitting, key=lambda m: len(m.known_by), default=None)


def separator(line: str) -> str:
    """What stands between the columns of a line."""
    return max(",\t|;", key=line.count)


def names_of(line: str) -> list[str]:
    """The names in the first line of a table."""
    return [x.strip().strip('"') for x in line.lstrip("\ufeff").rstrip("\r\n").split(separator(line))]


class TableRows(Protocol):
    """Parts of a table: (its columns as texts, the line of each row), and after them how many rows were `odd`: of another
    number of columns."""

    odd: int
    columns: dict[str, str]  # by meaning

    def __iter__(self) -> Iterator[tuple[dict[str, pa.Array], np.ndarray]]: ...


def read(rows: TableRows, where: str, name: str, m: ColumnMap, procs: int | None = None) -> Workload:
    """Return the jobs in a table; `name`: of the log. Raises InputError."""
    known = f"Columns as {m.about or m.name or '--columns'} has them{'; ' + m.reading if m.reading else ''}."
    t = JobTable(where, name, m.size if m.size in rows.columns else "", m.machine, (known,))
    for columns, line in rows:
        for column, value in m.only.items():
            keep = np.asarray(columns[column].to_pylist()) == value
            t.drop(f"of another {column} than {value}", int((~keep).sum()))
            columns, line = {k: v.filter(pa.array(keep)) for k, v in columns.items()}, line[keep]
        units = {k: v for k, v in m.units.items() if k in rows.columns}
        t.add({meaning: columns[column] for meaning, column in rows.columns.items()}, line, units)
    t.drop("of another number of columns", rows.odd)
    return t.workload(procs)


class CsvRows:
    """TableRows of an open text table; `line`: its first line. Raises InputError where columns of the map are missing."""

    def __init__(self, stream: Any, where: str, m: ColumnMap, line: str):
        self.odd, self._stream, self._where, self._separator = 0, stream, where, separator(line)
        self._names, self._first = list(m.fields) or names_of(line), 1 if m.fields else 2
        self.columns = m.within(self._names, where)
        self._needed = list(dict.fromkeys([*self.columns.values(), *m.only]))

    def _skipped(self, row: csv.InvalidRow) -> str:
        self.odd += 1
        return "skip"

    def __iter__(self) -> Iterator[tuple[dict[str, pa.Array], np.ndarray]]:
        first = self._first
        reading = csv.ReadOptions(column_names=self._names, skip_rows=first - 1, use_threads=False, block_size=BLOCK)
        form = csv.ParseOptions(delimiter=self._separator, invalid_row_handler=self._skipped)
        texts = dict.fromkeys(self._needed, pa.string())
        kinds = csv.ConvertOptions(column_types=texts, strings_can_be_null=False, include_columns=self._needed)
        try:
            for batch in csv.open_csv(self._stream, reading, form, kinds):
                yield {k: batch.column(i) for i, k in enumerate(batch.schema.names)}, np.arange(first, first + len(batch))
                first += len(batch)
        except pa.ArrowInvalid as error:
            raise InputError(f"{self._where}: is no whole table: {plain(str(error).splitlines()[0])[:160]}") from None


class ParquetRows:
    """TableRows of a Parquet table. Raises InputError where columns of the map are missing."""

    odd = 0

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
        column = pc.divide(pc.cast(column.cast(pa.duration("us")), pa.int64()), 1_000_000)
    return column.cast(pa.string())

"""Readers of job logs, a row each: is the file one of yours, and what does it hold? Those of other packages are rows like ours.

A new format is a row of SOURCES and a module that reads it; another package names a SourceSpec, or a Reader, at an entry point
`jobwise.readers` (docs/extending.md).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from jobwise import extensions
from jobwise.cluster import pool
from jobwise.errors import InputError
from jobwise.workload import Workload
from jobwise.workloads import alcf, dnn, foreign, gpu, opened, parquet, sacct, swf, tables
from jobwise.workloads.batch import batsim, condor, events, flux, kueue, lsf, oar, pbs, sge
from jobwise.workloads.logfile import LogFile

GROUP = "jobwise.readers"


@dataclass(frozen=True)
class SourceSpec:
    """A format of job logs: `knows(file)`: is the file of this format? `read(file)` returns its jobs. Raises InputError.
    `takes`: what a user may say of it beside its columns: "fields", "cluster" (`LogFile`)."""

    name: str
    knows: Callable[[LogFile], bool]
    read: Callable[[LogFile], Workload]
    takes: tuple[str, ...] = ()


class Reader(Protocol):
    """The other interface of what the entry points `jobwise.readers` name."""

    def knows(self, path: Path, head: str) -> bool:
        """Return whether this reader is for the file; `head`: its first 4,096 bytes as text."""

    def read(self, path: Path, procs: int | None) -> Workload:
        """Return the jobs of the file, on `procs` processors if they are given. Raises InputError."""


def _names(*words: str) -> Callable[[LogFile], bool]:
    """A question: does the first line name all these columns?"""
    return lambda f: set(words) <= {x.strip().strip('"') for x in f.line.split(",")}


def _table(read: Callable[[LogFile], Workload | None]) -> Callable[[LogFile], Workload]:
    """Read a table of GPU jobs, which comes with its machine. Raises InputError for standard input, and for `procs`."""

    def checked(f: LogFile) -> Workload:
        if f.source == "-":
            raise InputError("-: tables of GPU jobs are read from files")
        if f.procs is not None:
            raise InputError(f"{f.source}: a table of GPU jobs comes with its nodes; --procs is for logs of processors")
        jobs = read(f)
        if jobs is None:
            raise InputError(f"{f.source}: has none of the columns of Philly's or Alibaba's tables")
        return jobs

    return checked


def _swf(f: LogFile) -> Workload:
    """Read SWF, on `procs` processors if they are given. Raises InputError."""
    with f.open() as file:
        w = swf.from_blocks(opened.blocks(file, f.source), f.source, fields=f.fields)
    if f.procs is None:
        return w
    largest = int(w.jobs["request"][:, 0].max())
    if f.procs < largest:
        raise InputError(f"{f.source}: a machine of {f.procs} processors cannot run its largest job ({largest})")
    notes = {k: v for k, v in w.notes.items() if not k.startswith("processors guessed")}
    return replace(w, cluster=pool(f.procs), notes=notes)


def _asked(f: LogFile) -> Workload:
    """Read a table whose columns the user names. Raises InputError."""
    return _mapped(f, tables.asked(f.columns, f.fields))


def _mapped(f: LogFile, m: tables.ColumnMap) -> Workload:
    """Read a table by a map of its columns. Raises InputError."""
    if is_parquet(f.source):
        return tables.read(tables.ParquetRows(f.source, m), f, m)
    try:
        with f.open() as file:
            return tables.read(tables.CsvRows(file, f.source, m, f.line), f, m)
    except tables.NotUtf8:
        with f.open() as file:
            return tables.read(tables.CsvRows(file, f.source, m, f.line, "latin-1"), f, m)


def _shipped(f: LogFile) -> tables.ColumnMap | None:
    """The map that ships for a table; None where there is none."""
    if is_parquet(f.source):
        names = tables.parquet_names(f.source)
        return None if set(parquet.NEEDED) <= set(names) else tables.known(names)
    return tables.known(tables.names_of(f.line))


def _by_shipped(f: LogFile) -> Workload:
    m = _shipped(f)
    assert m is not None  # it is asked for before
    return _mapped(f, m)


def _philly(f: LogFile) -> Workload | None:
    return gpu.read_philly(f.source, f.cluster) if f.cluster else gpu.read_philly(f.source)


def is_parquet(source: str) -> bool:
    """Return whether a file is named, or begins, like a Parquet table."""
    return source != "-" and Path(source).is_file() and (source.endswith(".parquet") or LogFile(source).start[:4] == b"PAR1")


SOURCES = (
    SourceSpec("--columns", lambda f: bool(f.columns), _asked, ("fields", "cluster")),
    SourceSpec(
        "Parquet of published data", lambda f: is_parquet(f.source) and _shipped(f) is not None, _by_shipped, ("cluster",)
    ),
    SourceSpec("Parquet", lambda f: is_parquet(f.source), lambda f: parquet.read(f.source, f.procs)),
    SourceSpec("PBS", pbs.knows, pbs.read),
    SourceSpec("LSF", lsf.knows, lsf.read),
    SourceSpec("Grid Engine", sge.knows, sge.read),
    SourceSpec("sacct", sacct.knows, sacct.of_file, ("fields", "cluster")),
    SourceSpec("Slurm's JSON", sacct.knows_json, sacct.of_json, ("cluster",)),
    SourceSpec("ALCF", lambda f: alcf.is_alcf(f.line), lambda f: alcf.from_text(f.text, f.source, f.procs)),
    SourceSpec("tables of published data", lambda f: _shipped(f) is not None, _by_shipped, ("cluster",)),
    SourceSpec("Gavel", _names("job_type", "total_steps"), _table(lambda f: dnn.read_gavel(f.source, f.machine))),
    SourceSpec("Tiresias", _names("model_name"), _table(lambda f: dnn.read_tiresias(f.source, f.machine))),
    SourceSpec("Alibaba", _names("num_gpu"), _table(lambda f: gpu.read_alibaba(f.source))),
    SourceSpec("Philly", _names("num_gpus"), _table(_philly), ("cluster",)),
    SourceSpec("Grid Engine's JSON", sge.knows_json, sge.read_json),
    SourceSpec("Flux", flux.knows, flux.read),
    SourceSpec("HTCondor", condor.knows, condor.read),
    SourceSpec("OAR", oar.knows, oar.read),
    SourceSpec("Kueue", kueue.knows, kueue.read),
    SourceSpec("Batsim", batsim.knows, batsim.read),
    SourceSpec("events", events.knows, events.read),
    SourceSpec("SWF", lambda f: swf.is_like(f.head), _swf, ("fields",)),
)


def _of_package(name: str) -> SourceSpec:
    """Return the row of another package. Raises InputError where it does not load."""
    reader: Any = extensions.load(GROUP, name)
    if not isinstance(reader, SourceSpec):
        plain: Reader = reader
        reader = SourceSpec(
            name,
            lambda f: plain.knows(Path(f.source), f.start.decode(errors="replace")),
            lambda f: plain.read(Path(f.source), f.procs),
        )
    return reader


def read(f: LogFile) -> Workload:
    """Return the jobs of a file: read by the first row that knows it; where that fails, by the first of another package that
    does. Raises InputError."""
    try:
        row = next((row for row in SOURCES if row.knows(f)), None)
        if row is None:
            raise InputError(f"{f.source}: {foreign.known(f.head) or foreign.UNKNOWN}")
        if ignored := next((x for x in ("fields", "cluster") if getattr(f, x) and x not in row.takes), ""):
            raise InputError(f"{f.source}: --{ignored} says nothing of a log of {row.name}; leave it out")
        w = row.read(f)
        if not is_parquet(f.source) and f.strays:
            w.dropped["that are no objects of JSON, or are cut"] = f.strays
        return w
    except InputError:
        for name in extensions.names(GROUP) if f.source != "-" and Path(f.source).is_file() else ():
            row = _of_package(name)
            with extensions.of_package(GROUP, name, "failed"):
                if row.knows(f):
                    return row.read(f)
        raise

"""Readers of job logs, a row each: is the file one of yours, and what does it hold? Those of other packages are rows like ours.

A new format is a row of SOURCES and a module that reads it; another package names a SourceSpec, or a Reader, at an entry point
`jobwise.readers` (docs/extending.md).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from jobwise import extensions
from jobwise.cluster import Cluster, pool
from jobwise.errors import InputError
from jobwise.workload import Workload
from jobwise.workloads import alcf, dnn, gpu, parquet, sacct, swf
from jobwise.workloads.opened import read_text

GROUP = "jobwise.readers"


@dataclass(frozen=True)
class LogFile:
    """A file that a log is to be read from. `source`: its name, `-` for standard input; `procs`: processors of the machine, if
    the user says so; `machine`: GPU racks that the jobs are for."""

    source: str
    procs: int | None = None
    machine: Cluster | None = None

    @cached_property
    def text(self) -> str:
        """The whole file as text, decompressed. Raises InputError for a binary one."""
        return read_text(self.source)

    @property
    def line(self) -> str:
        """The first line, at most 4,096 characters of it."""
        return self.text[:4096].split("\n", 1)[0]

    @property
    def start(self) -> bytes:
        """The first 4,096 bytes as they are on the disk; nothing of standard input."""
        if self.source == "-":
            return b""
        with open(self.source, "rb") as f:
            return f.read(4096)


@dataclass(frozen=True)
class SourceSpec:
    """A format of job logs: `knows(file)`: is the file of this format? `read(file)` returns its jobs. Raises InputError."""

    name: str
    knows: Callable[[LogFile], bool]
    read: Callable[[LogFile], Workload]


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
    if f.text[:1] in ("{", "["):
        raise InputError(f"{f.source}: is no job log; Standard Workload Format or the output of sacct is expected")
    w = swf.from_text(f.text, f.source)
    if f.procs is None:
        return w
    largest = int(w.jobs["request"][:, 0].max())
    if f.procs < largest:
        raise InputError(f"{f.source}: a machine of {f.procs} processors cannot run its largest job ({largest})")
    notes = {k: v for k, v in w.notes.items() if not k.startswith("processors guessed")}
    return replace(w, cluster=pool(f.procs), notes=notes)


def is_parquet(source: str) -> bool:
    """Return whether a file is named, or begins, like a Parquet table."""
    return source != "-" and Path(source).is_file() and (source.endswith(".parquet") or LogFile(source).start[:4] == b"PAR1")


SOURCES = (
    SourceSpec("Parquet", lambda f: is_parquet(f.source), lambda f: parquet.read(f.source, f.procs)),
    SourceSpec("sacct", lambda f: sacct.is_like(f.text), lambda f: sacct.from_text(f.text, f.source, f.procs)),
    SourceSpec("ALCF", lambda f: alcf.is_alcf(f.line), lambda f: alcf.from_text(f.text, f.source, f.procs)),
    SourceSpec("Gavel", _names("job_type"), _table(lambda f: dnn.read_gavel(f.source, f.machine))),
    SourceSpec("Tiresias", _names("model_name"), _table(lambda f: dnn.read_tiresias(f.source, f.machine))),
    SourceSpec("Alibaba", _names("num_gpu"), _table(lambda f: gpu.read_alibaba(f.source))),
    SourceSpec("Philly", _names("num_gpus"), _table(lambda f: gpu.read_philly(f.source))),
    SourceSpec("SWF", lambda f: True, _swf),  # all else: its reader says what is wrong with a line
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
        return next(row for row in SOURCES if row.knows(f)).read(f)
    except InputError:
        for name in extensions.names(GROUP) if f.source != "-" and Path(f.source).is_file() else ():
            row = _of_package(name)
            with extensions.of_package(GROUP, name, "failed"):
                if row.knows(f):
                    return row.read(f)
        raise

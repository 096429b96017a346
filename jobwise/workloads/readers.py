"""Readers of other packages: files that none of jobwise's own readers knows."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from jobwise import extensions
from jobwise.workload import Workload


class Reader(Protocol):
    """The interface of what the entry points `jobwise.readers` name."""

    def knows(self, path: Path, head: str) -> bool:
        """Return whether this reader is for the file; `head`: its first 4,096 characters, decompressed."""

    def read(self, path: Path, procs: int | None) -> Workload:
        """Return the jobs of the file, on `procs` processors if they are given. Raises InputError."""


def of_others(source: str, head: str, procs: int | None) -> Workload | None:
    """Return the jobs of a file that a reader of another package knows, else None. Raises InputError."""
    if source == "-":
        return None
    for load in extensions.added("jobwise.readers").values():
        reader = load()
        if reader.knows(Path(source), head):
            return reader.read(Path(source), procs)
    return None

"""Readers of other packages: files that none of jobwise's own readers knows."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from jobwise import extensions
from jobwise.workload import Workload

GROUP = "jobwise.readers"


class Reader(Protocol):
    """The interface of what the entry points `jobwise.readers` name."""

    def knows(self, path: Path, head: str) -> bool:
        """Return whether this reader is for the file; `head`: its first 4,096 bytes as text."""

    def read(self, path: Path, procs: int | None) -> Workload:
        """Return the jobs of the file, on `procs` processors if they are given. Raises InputError."""


def of_others(source: str, procs: int | None) -> Workload | None:
    """Return the jobs of a file that a reader of another package knows, else None. Raises InputError."""
    names = extensions.names(GROUP)
    if source == "-" or not names:
        return None
    head = Path(source).read_bytes()[:4096].decode(errors="replace")
    for name in names:
        reader = extensions.load(GROUP, name)
        with extensions.of_package(GROUP, name, "failed"):
            if reader.knows(Path(source), head):
                return reader.read(Path(source), procs)
    return None

"""The report of `jobwise slurm fidelity`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from jobwise.report.sections import Section, Table
from jobwise.report.study import write_sections


def write_fidelity(
    name: str, said: str, tables: Sequence[tuple[str, Sequence[str], Sequence[Sequence[str]]]], path: str | Path
) -> None:
    """Write one HTML file: the sentence, and (title, columns, rows) of each table."""
    write_sections(
        f"{name}: recorded and simulated waits",
        [Section(t, said if i == 0 else "", [Table(c, r)]) for i, (t, c, r) in enumerate(tables)],
        path,
    )

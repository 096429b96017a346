"""The reports of `jobwise slurm fidelity`, `what-if` and `tune`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from jobwise.report.sections import Section, Table
from jobwise.report.study import write_sections

Tables = Sequence[tuple[str, Sequence[str], Sequence[Sequence[str]]]]  # (title, columns, rows)


def write_site_report(title: str, said: Sequence[str], tables: Tables, path: str | Path, lines: Sequence[str] = ()) -> None:
    """Write one HTML file: the sentences, lines of slurm.conf, if any, and the tables."""
    found = [Section("In short", " ".join(said), [Table(["slurm.conf"], [[x] for x in lines])] if lines else [])]
    write_sections(title, found + [Section(t, "", [Table(c, r)]) for t, c, r in tables], path)

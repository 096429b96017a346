"""What the report of a study is made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass
class Table:
    """A table: column names, rows of text."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass
class Section:
    """One experiment: what was asked, what the paper says, what came out."""

    title: str
    text: str
    tables: list[Table] = field(default_factory=list)
    figures: list[str] = field(default_factory=list)  # SVG

"""Tables in Markdown, for the generated pages of this folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path


def page(text: str) -> Path:
    """The path of a page to write; its folder is made at once, before the work."""
    path = Path(text)
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """The lines of a table."""
    return ["| " + " | ".join(columns) + " |", "|---" * len(columns) + "|", *("| " + " | ".join(r) + " |" for r in rows)]

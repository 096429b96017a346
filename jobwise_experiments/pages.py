"""What stands on the pages of the studies: their sections, and the tables in them."""

from __future__ import annotations

import re
from pathlib import Path

from jobwise.errors import InputError

PAGES = Path(__file__).parent.parent / "docs" / "studies"

Cells = list[list[str]]  # a table: rows of cells, the columns first


def section(page: str, title: str) -> str:
    """Return a section of a page. Raises InputError where there is none of the title."""
    for piece in page.split("\n## ")[1:]:
        if piece.startswith(title + "\n"):
            return piece
    raise InputError(f"no section {title!r}")


def tables(text: str) -> list[Cells]:
    """Return the tables of a text."""
    found = re.findall(r"(?:^\|.*\|\n?)+", text, re.M)
    rows = [[[c.strip() for c in line.strip("|").split("|")] for line in x.strip().split("\n")] for x in found]
    return [[x[0], *x[2:]] for x in rows]  # the second is a rule

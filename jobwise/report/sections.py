"""What reports are made of: sections, tables, figures."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

from jobwise import __version__


def made(command: str) -> str:
    """Return what a generated page says of itself: the command, the version, the commit where it is run in a checkout of git,
    the date."""
    try:
        describe = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty", "--abbrev=7", "--exclude=*"]
        commit = subprocess.run(describe, capture_output=True, text=True, timeout=10, check=False).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        commit = ""
    return f"`{command}`, jobwise {__version__}{f', commit {commit}' if commit else ''}, {date.today().isoformat()}"


@dataclass(frozen=True)
class Cell:
    """A cell of a table, for a report: `tone`: better, worse or open; the `colour` of a dot before it; `small` print behind
    it."""

    text: str
    tone: str = ""
    colour: str = ""
    small: str = ""

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Table:
    """A table: columns, rows of cells, and optionally a title and a note above it. `left`: columns that are flush left."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str | Cell]]
    title: str = ""
    note: str = ""
    left: int = 1


@dataclass(frozen=True)
class Figure:
    """A figure with a caption. `name`: of its own file beside a study's report; "" none. `chart`: JSON from which the script of
    a report draws a chart in the place of the figure; "" none."""

    svg: str
    caption: str
    name: str = ""
    chart: str = ""


@dataclass
class Section:
    """A section of a report: a study's experiment (what was asked, what the paper says, what came out), or a view of a result.
    `lines`: to be copied. `items`: a list of sentences. `folded`: shown when it is asked for; `why` one would ask."""

    title: str
    text: str
    tables: list[Table] = field(default_factory=list)
    figures: Sequence[str | Figure] = field(default_factory=list)  # SVG
    lines: Sequence[str] = ()
    items: Sequence[str] = ()
    folded: bool = False
    why: str = ""

"""What the report of a study is made of."""

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

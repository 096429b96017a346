"""Lists of commands: a file whose name ends in .commands, a line a task, all independent.

A line is a command in words, quoted as a shell would read them, without a shell. `#` begins a comment; a line that begins with
`#:` says what the tasks after it ask for: `#: cores=2 memory=4000 gpus=1 minutes=30 seconds=600`, memory in MB, `minutes` their
time limit, `seconds` how long they are taken to run.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path

from jobwise.errors import InputError
from jobwise.workloads.opened import read_text
from jobwise.workloads.workflows import MOST_TASKS, Workflow, workflow

KEYS = ("cores", "memory", "gpus", "minutes", "seconds")


@dataclass(frozen=True)
class Line:
    """A command and what it asks for; `number`: its line in the file, from 1."""

    number: int
    words: tuple[str, ...]
    asks: dict[str, float]


def lines(path: Path) -> list[Line]:
    """The commands of a file. Raises InputError, naming the line."""
    out: list[Line] = []
    asks: dict[str, float] = {}
    for n, text in enumerate(read_text(path).splitlines(), 1):
        if text.startswith("#:"):
            asks = _asks(path, n, text[2:])
            continue
        try:
            words = shlex.split(text, comments=True)
        except ValueError as error:
            raise InputError(f"{path}:{n}: {error}; words are quoted as for a shell") from None
        if words:
            out.append(Line(n, tuple(words), asks))
    if not out or len(out) > MOST_TASKS:
        raise InputError(f"{path}: has {len(out):,} commands; 1 to {MOST_TASKS:,} are expected, one a line")
    return out


def _asks(path: Path, line: int, text: str) -> dict[str, float]:
    """Return the request of tasks in a line of "key=number". Raises InputError."""
    out = {}
    for word in text.split():
        key, _, value = word.partition("=")
        try:
            number = float(value)
        except ValueError:
            number = -1.0
        if key not in KEYS or not 0 <= number < 1e15:
            raise InputError(f"{path}:{line}: {word!r} is no request; {', '.join(f'{k}=N' for k in KEYS)} are")
        out[key] = number
    return out


def read(path: str | Path) -> Workflow:
    """The workflow of a list of commands: independent tasks. Raises InputError."""
    rows = []
    for x in lines(Path(path)):
        limit, seconds = x.asks.get("minutes", 0.0) * 60.0, x.asks.get("seconds", 0.0)
        row = {"name": f"line{x.number}", "program": Path(x.words[0]).name, "limit": limit}
        row |= {"runtime": seconds or 1.0, "estimate": seconds or limit or 1.0}
        rows.append(row | {k: x.asks[k] for k in ("cores", "memory", "gpus") if k in x.asks})
    reading = ("Tasks whose file does not say how long they take take 1 s.",)
    return workflow(Path(path).name.split(".")[0], rows, [[] for _ in rows], source="commands", reading=reading)

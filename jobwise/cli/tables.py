"""Tables, lines and JSON documents on a terminal."""

from __future__ import annotations

import io
import json
import os
import shutil
import sys
import textwrap
from math import isfinite

from jobwise.cli.progress import progress
from jobwise.errors import plain
from jobwise.report.page import write

NARROW = 110  # columns of a terminal below which names are broken earlier
PADDING = {3: (0, 1, 0, 1), 2: (0, 1, 0, 0), 1: (0, 0, 0, 0)}  # of cells, by the letters between columns
TRIALS = ("trial_runs", "ended_in_a_trial_run", "stopped_trial_runs")
COUNTS = ("jobs", "workflows", "users", "processors", "preemptions", "failed", *TRIALS)  # metrics that are whole numbers


def width() -> int:
    """Columns of the terminal; elsewhere those of COLUMNS, or as many as a table may need."""
    return _limit() or 200


def _limit() -> int:
    """Columns that output has to keep to: the terminal's, elsewhere those of COLUMNS; 0: as many as it needs."""
    if sys.stdout.isatty():
        from rich.console import Console

        return Console().width
    text = os.environ.get("COLUMNS", "")
    return int(text) if text.isdecimal() else 0


def complain(text: str, mark: str = "jobwise") -> None:
    """Print a message on standard error: in one line, on a terminal broken between words."""
    line = f"{mark}: {plain(' '.join(text.split()))}"
    if sys.stderr.isatty():
        columns = shutil.get_terminal_size().columns
        line = "\n".join(textwrap.wrap(line, columns, break_long_words=False, break_on_hyphens=False, subsequent_indent="  "))
    print(line, file=sys.stderr)


def print_table(title: str, columns: list[str], rows: list[list[str]], left: int = 1) -> None:
    """A table on the terminal, its first `left` columns flush left; names are shown as they are, whatever is in them."""
    from rich.box import SIMPLE
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    words = [[*name.split(), *(w for row in rows for w in _unbroken(row[i]))] for i, name in enumerate(columns)]
    widths = [min(max(map(len, w), default=0), 28 if i == 0 else 18) for i, w in enumerate(words)]
    limit = _limit()
    between = next((n for n in (3, 2, 1) if not limit or sum(widths) + n * (len(columns) - 1) + 2 <= limit), 0)
    if not between:  # some would be cut: row by row
        say(title)
        for row in rows:
            say(
                row[0].replace("\n", "")
                + ": "
                + "; ".join(f"{name} {cell}" for name, cell in zip(columns[1:], row[1:], strict=True) if cell)
            )
        return
    room = (limit or 10_000) - between * (len(columns) - 1) - 2 - sum(widths)
    for wanted in ([[row[i] for row in rows] for i in range(len(columns))], [[name] for name in columns]):  # cells, then heads
        for i, cells in enumerate(wanted):
            more = max(min(max((len(x) for cell in cells for x in cell.split("\n")), default=0) - widths[i], room), 0)
            widths[i], room = widths[i] + more, room - more
    table = Table(title=Text(plain(title)), title_justify="left", box=SIMPLE, pad_edge=False, padding=PADDING[between])
    for i, name in enumerate(columns):
        table.add_column(Text(name), justify="left" if i < left else "right", overflow="fold", width=widths[i])
    for row in rows:
        table.add_row(*(Text(plain(cell)) for cell in row))
    if sys.stdout.isatty():
        Console(markup=False, highlight=False).print(table)
        return
    page = io.StringIO()
    Console(file=page, width=limit or max(120, sum(widths) + 3 * len(columns)), markup=False, highlight=False).print(table)
    print("\n".join(line.rstrip() for line in page.getvalue().split("\n")), end="")


def _unbroken(cell: str) -> list[str]:
    """The parts of a cell that stay in one line: its words; a change with its interval, as in "-44% [-63%, -16%]"."""
    return cell.split("\n") if cell.endswith("]") else cell.split()


def broken(name: str, width: int) -> str:
    """Return a name in lines of at most `width` letters, broken behind one of + , = : - where that can be."""
    lines, rest = [], name
    while len(rest) > width:
        at = max((rest.rfind(c, 0, width) for c in "+,=: -"), default=-1)
        at = at + 1 if at > 2 else width
        lines.append(rest[:at])
        rest = rest[at:]
    return "\n".join([*lines, rest])


def say(text: str) -> None:
    """A line for people, wrapped to the terminal between words, without control characters."""
    if not (limit := _limit()):
        print(plain(text), flush=True)  # in a service's log at once
        return
    for line in plain(text).split("\n"):
        print(
            "\n".join(textwrap.wrap(line, limit, break_long_words=False, break_on_hyphens=False, subsequent_indent="  ")),
            flush=True,
        )


def print_json(data) -> None:
    """One JSON document; what is no number is null."""
    print(json_text(data))


def json_text(data) -> str:
    """Return it as one JSON document; what is no number is null."""
    return json.dumps(_finite(json.loads(json.dumps(data, default=float))), indent=1, allow_nan=False)


def _finite(x):
    if isinstance(x, dict):
        return {k: _finite(v) for k, v in x.items()}
    if isinstance(x, list):
        return [_finite(v) for v in x]
    return None if isinstance(x, float) and not isfinite(x) else x


def show(result, as_json: bool, report: str | None = None) -> None:
    """Show a `jobwise.report.result.Result`: as its report, if asked for, and as one JSON document or for people."""
    if report:
        with progress("drawing the report") as step:
            write(result, report, force=True, progress=step)
    if as_json:
        print_json(result.to_dict())
        return
    for text in [result.head, *result.cautions]:
        if text:
            say(text)
    for table in result.tables:
        _print(table)
    for text in [*result.answer, *result.after, *result.notes]:
        if text:
            say(text)
    if result.lines:
        say(f"\n{result.lines_title}:")
    for line in result.lines:
        print(line)
    if report:
        print(f"report: {report}")


def _print(table) -> None:
    """Print a table; long names are broken."""
    rows = [[str(x) for x in row] for row in table.rows]
    rows = [[broken(row[0], 16 if width() < NARROW else 40), *row[1:]] for row in rows]
    print_table(table.title, [str(x) for x in table.columns], rows, table.left)

"""What the commands share: options, opening logs, progress, tables."""

from __future__ import annotations

import json
import sys
import time
from contextlib import contextmanager
from math import isfinite
from typing import Annotated, Optional

import typer

from jobwise.errors import InputError

LOG_HELP = "SWF or sacct file (.gz, .xz), '-', or a name such as sdsc-sp2."
Log = Annotated[str, typer.Argument(metavar="LOG", help=LOG_HELP)]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of a table.")]
Procs = Annotated[
    Optional[int], typer.Option("--procs", min=1, max=2**31 - 1, help="Size of the machine, if not the log's own.")
]
Jobs = Annotated[Optional[int], typer.Option("--jobs", min=1, help="Only the first so many jobs.")]
Load = Annotated[Optional[float], typer.Option("--load", help="Scale the gaps between submits to this offered load.")]
Kill = Annotated[bool, typer.Option("--kill", help="End jobs at their requested time.")]
Seed = Annotated[int, typer.Option("--seed", min=0, max=2**62, help="Seed of everything random.")]


@contextmanager
def progress(what: str):
    """A function (done, total) that shows a bar on a terminal once the work has taken a second."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True, disable=False) as bar:
        task = bar.add_task(what, total=None, visible=False)
        begun = time.monotonic()

        def show(done: int, total: int, text: str = "") -> None:
            visible = time.monotonic() - begun > 1
            bar.update(task, completed=done, total=total or None, visible=visible, description=f"{what} {text}".strip())

        yield show


def open_log(log: str, procs: int | None, jobs: int | None = None, load: float | None = None):
    """The workload a command was given: a file, standard input, or a name; cut and scaled as asked."""
    from jobwise.workloads.source import open_log as read
    from jobwise.workloads.transform import first, scale_load

    with progress(f"fetching {log}") as show:
        w = read(log, procs, show)
    if jobs is not None:
        w = first(w, min(jobs, len(w)))
    if load is not None:
        w = scale_load(w, load)
    return w


def check_outputs(log: str, *paths: str | None) -> None:
    """Can all be written, each to a file of its own, and none over the log?"""
    from pathlib import Path

    from jobwise.files import check_writable

    seen = {} if log == "-" else {Path(log).resolve(): "the log itself"}
    for path in paths:
        if path is None:
            continue
        check_writable(path)
        if path != "-" and (other := seen.setdefault(Path(path).resolve(), path)) is not path:
            raise InputError(f"{path}: would overwrite {other}; name another file")


def print_table(title: str, columns: list[str], rows: list[list[str]]) -> None:
    """A table on the terminal."""
    from rich.box import SIMPLE
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title, title_justify="left", box=SIMPLE, pad_edge=False)
    for i, name in enumerate(columns):
        table.add_column(name, justify="left" if i == 0 else "right", no_wrap=i == 0)
    for row in rows:
        table.add_row(*row)
    width = None if sys.stdout.isatty() else max(120, 24 + 14 * len(columns))
    Console(width=width).print(table)


def print_json(data) -> None:
    """One JSON document; what is no number is null."""
    print(json.dumps(_finite(json.loads(json.dumps(data, default=float))), indent=1, allow_nan=False))


def _finite(x):
    if isinstance(x, dict):
        return {k: _finite(v) for k, v in x.items()}
    if isinstance(x, list):
        return [_finite(v) for v in x]
    return None if isinstance(x, float) and not isfinite(x) else x


def left_out(w) -> str:
    """What the reader dropped and noticed, in words."""
    out = ", ".join(f"{n:,} {reason}" for reason, n in {**w.dropped, **w.notes}.items())
    return out or "none"


def _whole(c, p: int) -> tuple[float, str]:
    from jobwise.compare import between

    change, low, high = c.change_whole(p)
    return change, between(low, high, "+.0%")


def print_comparison(c) -> None:
    """The table and the verdicts of a comparison."""
    from jobwise.compare import between

    ranks, pareto = c.ranks(), c.pareto()
    rows = []
    for p, name in enumerate(c.policies):
        low, high = c.interval(p)
        change, a, b = c.change(p)
        s = c.whole[p]
        rows.append(
            [
                name + (" *" if p in pareto else "") + (f" ({c.marks[p]})" if c.marks[p] else ""),
                f"{c.windows['bounded_slowdown'][p].mean():,.2f}{between(low, high, ',.2f')}",
                "reference" if p == 0 else f"{change:+.0%}{between(a, b, '+.0%')}",
                f"{ranks[p]:.2f}",
                "/".join(map(str, c.wins(p))) if p else "",
                f"{s['bounded_slowdown']:,.2f}",
                "" if p == 0 else "{:+.0%}{}".format(*_whole(c, p)),
                f"{s['wait'] / 3600:,.2f}",
                f"{s['p99_wait'] / 3600:,.1f}",
                f"{s['max_wait'] / 3600:,.1f}",
                f"{s['utilisation']:.3f}",
            ]
        )
    columns = [
        "scheduler",
        "bsld, windows [95 %]",
        "against first",
        "rank",
        "won/tied/lost",
        "bsld",
        "against first",
        "wait h",
        "p99 wait h",
        "max wait h",
        "use",
    ]
    w = c.workload
    title = f"{w.name}: {len(w):,} jobs, {len(c.first_row)} windows of {c.window_jobs:,} (left out: {left_out(w)})"
    print_table(title, columns, rows)
    if not c.queues:
        print("This log has hardly a queue: no order matters on it. Scale its load (--load 0.9), or take another log.")
    for p in range(1, len(c.policies)):
        print(c.verdict(p))
    print("bsld: mean bounded slowdown, tau = 10 s; from the second bsld on: the continuous replay")
    print("*: no other is better on both bsld and max wait")

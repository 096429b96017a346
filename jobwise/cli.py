"""The command line: simulate · compare · trace. Wrong use ends in one line and exit code 2."""

from __future__ import annotations

import json
import sys
import time
from contextlib import contextmanager
from typing import Annotated, Optional

import typer

from jobwise.errors import InputError

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Replay a job log under other schedulers, and compare them honestly.",
)
trace = typer.Typer(no_args_is_help=True, help="Look at, convert and generate job logs.")
app.add_typer(trace, name="trace")

DEFAULT = ["fcfs+easy", "sjf+easy", "saf+easy", "wfp3+easy", "unicef+easy", "f1+easy", "saf+easy+guard24h", "fcfs+conservative"]

Log = Annotated[str, typer.Argument(metavar="LOG", help="SWF or sacct file (.gz, .xz), '-', or a name such as sdsc-sp2.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of a table.")]
Procs = Annotated[
    Optional[int], typer.Option("--procs", min=1, max=2**31 - 1, help="Size of the machine, if not the log's own.")
]
Jobs = Annotated[Optional[int], typer.Option("--jobs", min=1, help="Only the first so many jobs.")]
Load = Annotated[Optional[float], typer.Option("--load", help="Scale the gaps between submits to this offered load.")]
Kill = Annotated[bool, typer.Option("--kill", help="End jobs at their requested time.")]
Seed = Annotated[int, typer.Option("--seed", min=0, max=2**62, help="Seed of everything random.")]


def main() -> None:
    """Entry point: errors of the user become one line and exit code 2."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run one command; the exit code: 0 done, 1 failed, 2 wrong use, 130 interrupted."""
    try:
        code = app(arguments, prog_name="jobwise", standalone_mode=False) or 0
        if code == 130:
            raise KeyboardInterrupt
        return code
    except InputError as error:
        print(f"jobwise: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    except (KeyboardInterrupt, typer.Abort):
        print("jobwise: interrupted; nothing was written", file=sys.stderr)
        return 130
    except BrokenPipeError:
        sys.stderr.close()
        return 1
    except OSError as error:
        print(f"jobwise: {error}", file=sys.stderr)
        return 2
    except MemoryError:
        print("jobwise: out of memory; try --jobs with fewer jobs", file=sys.stderr)
        return 1
    except Exception as error:
        if not hasattr(error, "format_message"):  # the usage errors of typer's parser, whichever it is built on
            raise
        print(f"jobwise: {error.format_message()}" if arguments else "", file=sys.stderr)
        return 2


@contextmanager
def _progress(what: str):
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

        def show(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total or None, visible=time.monotonic() - begun > 1)

        yield show


def _open(log: str, procs: int | None, jobs: int | None = None, load: float | None = None):
    from jobwise.workloads.source import open_log
    from jobwise.workloads.transform import first, scale_load

    with _progress(f"fetching {log}") as show:
        w = open_log(log, procs, show)
    if jobs is not None:
        w = first(w, min(jobs, len(w)))
    if load is not None:
        w = scale_load(w, load)
    return w


def _outputs(log: str, *paths: str | None) -> None:
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


def _table(title: str, columns: list[str], rows: list[list[str]]) -> None:
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


def _json(data) -> None:
    print(json.dumps(data, indent=1, default=float))


def _dropped(w) -> str:
    out = ", ".join(f"{n:,} {reason}" for reason, n in {**w.dropped, **w.notes}.items())
    return out or "none"


@app.command()
def simulate(
    log: Log,
    policy: Annotated[str, typer.Option("--policy", "-p", help="ORDER[+BACKFILL][+PLACEMENT][+GUARD].")] = "fcfs+easy",
    procs: Procs = None,
    jobs: Jobs = None,
    load: Load = None,
    kill: Kill = False,
    seed: Seed = 0,
    out: Annotated[Optional[str], typer.Option("--out", "-o", help="Write the schedule: .csv, .parquet, or .swf.")] = None,
    evalys: Annotated[Optional[str], typer.Option("--evalys", help="Write a jobs.csv that evalys reads.")] = None,
    as_json: Json = False,
) -> None:
    """Replay a log under one scheduler and print what came of it."""
    from jobwise import export, metrics
    from jobwise.simulate import simulate as replay

    _outputs(log, out, evalys)
    if out:
        export.writer(out)
    w = _open(log, procs, jobs, load)
    with _progress(f"replaying {len(w):,} jobs") as show:
        r = replay(w, policy, seed=seed, kill_at_walltime=kill, progress=show)
    summary = r.summary()
    if out:
        export.write(r, out)
    if evalys:
        export.write_evalys(r, evalys)
    if as_json:
        _json({"workload": w.name, "policy": r.policy, "dropped": w.dropped, "notes": w.notes, "summary": summary})
        return
    rows = [[k.replace("_", " "), f"{v:,.3f}", metrics.UNITS.get(k, "")] for k, v in summary.items()]
    machine = f"{w.cluster.processors:,} processors"
    _table(
        f"{w.name} under {r.policy}: {len(w):,} jobs, {machine} (left out: {_dropped(w)})", ["metric", "value", "unit"], rows
    )
    print("bounded slowdown with tau = 10 s")


@app.command()
def compare(
    log: Log,
    policy: Annotated[
        Optional[list[str]], typer.Option("--policy", "-p", help="Repeat it; the first is the reference.")
    ] = None,
    report: Annotated[Optional[str], typer.Option("--report", help="Write one HTML file with tables and figures.")] = None,
    procs: Procs = None,
    jobs: Jobs = None,
    load: Load = None,
    kill: Kill = False,
    window: Annotated[Optional[int], typer.Option("--window", min=2, help="Jobs per window.")] = None,
    shakes: Annotated[int, typer.Option("--shakes", min=0, max=1000, help="Shaken replicas of every window.")] = 0,
    shake_s: Annotated[float, typer.Option("--shake-s", min=0, help="Move submits by up to so many seconds.")] = 300.0,
    day: Annotated[Optional[float], typer.Option("--day", help="Day of the Gantt chart (default: the busiest).")] = None,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Compare schedulers on the same jobs: the whole log and windows of it, with intervals."""
    from jobwise.compare import compare as compare_them
    from jobwise.policies.names import resolve

    policies = policy or DEFAULT
    for p in policies:
        resolve(p)
    _outputs(log, report)
    w = _open(log, procs, jobs, load)
    with _progress(f"comparing {len(policies)} schedulers") as show:
        c = compare_them(
            w,
            policies,
            window_jobs=window,
            shakes=shakes,
            shake_s=shake_s,
            seed=seed,
            kill_at_walltime=kill,
            progress=show,
        )
    if report:
        from jobwise.report.html import write_report

        with _progress("drawing the report") as show:
            write_report(c, report, day=day, progress=show)
    if as_json:
        _json(c.to_dict())
        return
    _comparison(c)
    if report:
        print(f"report: {report}")


def _comparison(c) -> None:
    ranks, pareto = c.ranks(), c.pareto()
    rows = []
    for p, name in enumerate(c.policies):
        low, high = c.interval(p)
        change, a, b = c.change(p)
        s = c.whole[p]
        rows.append(
            [
                name + (" *" if p in pareto else ""),
                f"{c.windows['bounded_slowdown'][p].mean():,.2f} [{low:,.2f}, {high:,.2f}]",
                "reference" if p == 0 else f"{change:+.0%} [{a:+.0%}, {b:+.0%}]",
                f"{ranks[p]:.2f}",
                "/".join(map(str, c.wins(p))) if p else "",
                f"{s['bounded_slowdown']:,.2f}",
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
        "wait h",
        "p99 wait h",
        "max wait h",
        "use",
    ]
    w = c.workload
    title = f"{w.name}: {len(w):,} jobs, {len(c.first_row)} windows of {c.window_jobs:,} (left out: {_dropped(w)})"
    _table(title, columns, rows)
    for p in range(1, len(c.policies)):
        print(c.verdict(p))
    print("bsld: mean bounded slowdown, tau = 10 s; from the second bsld on: one continuous replay of the whole log")
    print("*: no other is better on both bsld and max wait")


@trace.command("info")
def info(log: Log, procs: Procs = None, as_json: Json = False) -> None:
    """What is in a log: counts, gaps, run times, sizes, load, quality of the users' estimates."""
    from jobwise.workloads.transform import statistics

    w = _open(log, procs)
    found = statistics(w)
    if as_json:
        _json({"workload": w.name, "dropped": w.dropped, "notes": w.notes, "statistics": found, "header": list(w.header)})
        return
    units = {"span_days": "days", "gap": "s", "runtime": "s", "size": "processors"}
    rows = [
        [k.replace("_", " "), f"{v:,.3f}", units.get(k, "" if k.startswith("cv") else units.get(k.split("_")[-1], ""))]
        for k, v in found.items()
    ]
    _table(f"{w.name} (left out: {_dropped(w)})", ["what", "value", "unit"], rows)


@trace.command("convert")
def convert(
    log: Log,
    out: Annotated[str, typer.Argument(metavar="OUT", help="SWF file to write (.gz, .xz), or '-'.")],
    procs: Procs = None,
    jobs: Jobs = None,
    load: Load = None,
    begin: Annotated[Optional[float], typer.Option("--begin", help="Days from the first submit: window begins.")] = None,
    end: Annotated[Optional[float], typer.Option("--end", help="Days from the first submit: window ends.")] = None,
    split: Annotated[
        Optional[float], typer.Option("--split", help="Split in time: OUT gets the first share, OUT.rest the others.")
    ] = None,
    replicate: Annotated[
        int, typer.Option("--replicate", min=1, max=10_000, help="Copies of every job, on a machine so many times as large.")
    ] = 1,
    shake_s: Annotated[float, typer.Option("--shake-s", min=0, help="Move submits by up to so many seconds.")] = 0.0,
    merge: Annotated[Optional[list[str]], typer.Option("--merge", help="Another log to merge in; repeat it.")] = None,
    seed: Seed = 0,
) -> None:
    """Write a log as SWF, transformed on the way."""
    from jobwise.workloads import transform
    from jobwise.workloads.swf import write_swf

    _outputs(log, out, *(f"{out}.rest" for _ in [split] if split is not None and out != "-"))
    w = _open(log, procs, jobs)
    if merge:
        w = transform.merge([w, *(_open(m, None) for m in merge)])
    if begin is not None or end is not None:
        w = transform.window(w, (begin or 0) * 86400, float("inf") if end is None else end * 86400)
    if replicate > 1:
        w = transform.replicate(w, replicate, seed=seed)
    if shake_s:
        w = transform.shake(w, shake_s, seed)
    if load is not None:
        w = transform.scale_load(w, load)
    if split is not None:
        if out == "-":
            raise InputError("a split writes two files; name one instead of '-'")
        w, rest = transform.split(w, split)
        write_swf(rest, f"{out}.rest")
    write_swf(w, out)
    if out != "-":
        print(f"{out}: {len(w):,} jobs (left out: {_dropped(w)})")


@trace.command("generate")
def generate(
    out: Annotated[str, typer.Argument(metavar="OUT", help="SWF file to write (.gz, .xz), or '-'.")],
    jobs: Annotated[int, typer.Option("--jobs", min=1)] = 10_000,
    procs: Annotated[int, typer.Option("--procs", min=2, max=2**31 - 1)] = 256,
    load: Load = None,
    classes: Annotated[str, typer.Option("--classes", help="'typeless', or 'two': batch and interactive.")] = "typeless",
    estimates: Annotated[str, typer.Option("--estimates", help="'exact', or 'users': too long and round.")] = "exact",
    users: Annotated[int, typer.Option("--users", min=0, max=10**7)] = 0,
    seed: Seed = 0,
) -> None:
    """Generate a log with the Lublin-Feitelson model."""
    from jobwise.files import check_writable
    from jobwise.workloads.lublin import lublin
    from jobwise.workloads.swf import write_swf

    check_writable(out)
    write_swf(lublin(jobs, procs, seed, classes=classes, load=load, estimates=estimates, users=users), out)
    if out != "-":
        print(f"{out}: {jobs:,} jobs for {procs:,} processors, seed {seed}")


@trace.command("sacct-command")
def sacct_command(
    start: Annotated[str, typer.Option("--start", help="First day, YYYY-MM-DD.")] = "2026-01-01",
    end: Annotated[str, typer.Option("--end", help="Last day, or 'now'.")] = "now",
) -> None:
    """Print the command that writes a Slurm site's job log in the form `jobwise` reads."""
    from jobwise.workloads.sacct import command

    print(command(start, end))


def _version(value: bool) -> None:
    if value:
        from jobwise import __version__

        print(f"jobwise {__version__}")
        raise typer.Exit()


@app.callback()
def options(version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True)] = False) -> None:
    """Replay a job log under other schedulers, and compare them honestly."""


if __name__ == "__main__":
    main()

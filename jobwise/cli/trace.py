"""`jobwise trace`: look at, convert and generate job logs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from jobwise.cli import tables
from jobwise.cli.groups import LogFormat, LogPart, grouped
from jobwise.cli.options import (
    Force,
    Jobs,
    Json,
    Load,
    Log,
    Procs,
    Seed,
    check_outputs,
    needs,
    noticed,
    open_log,
    overloaded,
    progress,
)
from jobwise.cli.tables import complain, print_json, print_table, show
from jobwise.cluster import PLURALS
from jobwise.errors import InputError, unknown
from jobwise.forecast.runtimes import judge
from jobwise.report.forecast import of_forecasts
from jobwise.workloads import transform
from jobwise.workloads.anonymous import STILL, anonymous
from jobwise.workloads.batch import batsim
from jobwise.workloads.campaigns import campaigns
from jobwise.workloads.lublin import lublin, lublin_parts
from jobwise.workloads.parquet import write, write_log
from jobwise.workloads.sacct import command
from jobwise.workloads.swf import write_swf
from jobwise.workloads.transform import date, recorded, span, statistics

if TYPE_CHECKING:
    from jobwise.workload import Workload


@grouped
def info(log: Log, procs: Procs = None, form: LogFormat = LogFormat(), as_json: Json = False) -> None:
    """What is in a log: counts, gaps, run times, sizes, load, quality of the users' estimates.

    Examples:
        jobwise trace info log.swf.gz
    """
    w = open_log(log, procs, form=form.words)
    numbers, site = statistics(w), recorded(w)
    if as_json:
        about = {"workload": w.name, "dropped": w.dropped, "notes": w.notes, "statistics": numbers, "recorded": site}
        about["machine"] = w.cluster.units | {"nodes": len(w.cluster.capacity)}
        print_json(
            about
            | {"resources": {k: v for k, (v, _) in transform.resources(w).items()}}
            | {"first_submit": date(w, 0.0), "last_submit": date(w, span(w)), "header": list(w.header)}
        )
        return
    noticed(w)
    overloaded(w)
    first = PLURALS.get(w.cluster.resources[0], w.cluster.resources[0])
    units = {"span_days": "days", "gap": "s", "runtime": "s", "size": first}
    rows = [
        [
            k.replace("_", " "),
            f"{v:,.0f}" if k in tables.COUNTS else f"{v:,.3f}",
            units.get(k, "" if k.startswith("cv") else units.get(k.split("_")[-1], "")),
        ]
        for k, v in numbers.items()
        if k != "processors"
    ]
    rows.insert(1, ["machine", w.cluster.words, ""])
    rows += [[k, f"{v:,.3f}" if v % 1 else f"{v:,.0f}", u] for k, (v, u) in transform.resources(w).items()]
    if date(w, 0.0):
        rows = [["first submit", date(w, 0.0), ""], ["last submit", date(w, span(w)), ""], *rows]
    if site:
        rows += [[f"recorded {k.replace('_', ' ')}", f"{v:,.3f}", "s" if "wait" in k else ""] for k, v in site.items()]
    print_table(f"{w.name} (left out: {w.left_out})", ["what", "value", "unit"], rows)


@dataclass(frozen=True)
class LogChanges:
    """Changes: what is made of a log on the way."""

    begin: Annotated[Optional[float], typer.Option("--begin", help="Days from the first submit: window begins.")] = None
    end: Annotated[Optional[float], typer.Option("--end", help="Days from the first submit: window ends.")] = None
    split: Annotated[
        Optional[float], typer.Option("--split", help="Split in time: OUT gets the first share, OUT.rest the others.")
    ] = None
    replicate: Annotated[
        int, typer.Option("--replicate", min=1, max=10_000, help="Copies of every job, on a machine N times as large.")
    ] = 1
    jitter: Annotated[float, typer.Option("--jitter", min=0, help="Move submits by up to X s.")] = 0.0
    merge: Annotated[Optional[list[str]], typer.Option("--merge", help="Another log to merge in; repeat it.")] = None
    anonymize: Annotated[bool, typer.Option("--anonymize", help="Renumber who submitted, drop names and free text.")] = False
    extended: Annotated[bool, typer.Option("--extended", help="SWF: keep columns behind the 18.")] = False
    shift: Annotated[float, typer.Option("--shift", help="--anonymize: move the calendar by N days.")] = 0.0


@grouped
def convert(
    log: Log,
    out: Annotated[str, typer.Argument(metavar="OUT", help="SWF file to write (.gz, .xz), .parquet, .json (Batsim), or '-'.")],
    part: LogPart = LogPart(),
    form: LogFormat = LogFormat(),
    changes: LogChanges = LogChanges(),
    force: Force = False,
    seed: Seed = 0,
) -> None:
    """Write a log as SWF, Parquet or a workload of Batsim, transformed on the way.

    Examples:
        jobwise trace convert log.swf.gz log.parquet
        jobwise trace convert log.swf.gz part.swf.gz --jobs 1000
    """
    c, split = changes, changes.split
    check_outputs(log, out, *(_rest(out) for _ in [split] if split is not None and out != "-"), force=force)
    w = open_log(log, part.procs, part.jobs, form=form.words)
    if c.merge:
        w = transform.merge([w, *(open_log(m, None) for m in c.merge)])
    if c.begin is not None or c.end is not None:
        w = transform.window(w, (c.begin or 0) * 86400, float("inf") if c.end is None else c.end * 86400)
    if c.replicate > 1:
        w = transform.replicate(w, c.replicate, seed=seed)
    if c.jitter:
        w = transform.shake(w, c.jitter, seed)
    if part.load is not None:
        w = transform.scale_load(w, part.load)
    if c.shift and not c.anonymize:
        raise InputError("--shift goes with --anonymize")
    if c.anonymize:
        w = anonymous(w, c.shift * 86400.0)
        complain(STILL, "note")
    if split is not None:
        if out == "-":
            raise InputError("a split writes two files; name one instead of '-'")
        w, rest = transform.split(w, split)
        _write(rest, _rest(out), c.extended)
    _write(w, out, c.extended)
    if out != "-":
        print(f"{out}: {len(w):,} jobs (left out: {w.left_out})")


def _rest(out: str) -> str:
    """The name of the second file of a split; a Parquet file keeps its ending."""
    return f"{out.removesuffix('.parquet')}.rest.parquet" if out.endswith(".parquet") else f"{out}.rest"


def _write(w: Workload, out: str, extended: bool = False) -> None:
    """Write a log in the format that the name of the file says. Raises InputError."""
    other = {".parquet": write_log, ".json": batsim.write}.get(Path(out).suffix)
    if other is None:
        write_swf(w, out, extended)
        return
    if extended:
        raise InputError(f"{out}: --extended is for SWF")
    other(w, out)


@dataclass(frozen=True)
class JobModel:
    """Model: it generates the jobs, by its settings."""

    model: Annotated[
        str, typer.Option("--model", help="'lublin', or 'campaigns': users with series of jobs and loose requests.")
    ] = "lublin"
    classes: Annotated[str, typer.Option("--classes", help="lublin: 'typeless', or 'two': batch, interactive.")] = "typeless"
    estimates: Annotated[str, typer.Option("--estimates", help="lublin: 'exact', or 'users': too long, round.")] = "exact"
    users: Annotated[int, typer.Option("--users", min=0, max=10**7, help="0: unknown; of campaigns 60.")] = 0
    stream: Annotated[bool, typer.Option("--stream", help="lublin, typeless: any number of jobs, written part by part.")] = (
        False
    )


@grouped
def generate(
    out: Annotated[str, typer.Argument(metavar="OUT", help="SWF file to write (.gz, .xz), .parquet, or '-'.")],
    jobs: Annotated[int, typer.Option("--jobs", min=1)] = 10_000,
    procs: Annotated[int, typer.Option("--procs", min=2, max=2**31 - 1)] = 256,
    load: Load = None,
    how: JobModel = JobModel(),
    force: Force = False,
    seed: Seed = 0,
) -> None:
    """Generate a log with the Lublin-Feitelson model, or one of users with campaigns.

    Examples:
        jobwise trace generate made.swf.gz --jobs 5000 --procs 256 --load 0.9
    """
    check_outputs("-", out, force=force)
    if how.model not in ("lublin", "campaigns"):
        raise unknown("model", how.model, ("lublin", "campaigns"))
    if how.stream:
        _generate_parts(out, jobs, procs, load, how, seed)
        print(f"{out}: {jobs:,} jobs for {procs:,} processors, seed {seed}")
        return
    if how.model == "campaigns":
        if (how.classes, how.estimates) != ("typeless", "exact"):
            raise InputError("--classes and --estimates are of the model lublin; campaigns has requests of its own")
        w = campaigns(jobs, procs, seed, load=load or 0.9, users=how.users or 60)
    else:
        w = lublin(jobs, procs, seed, classes=how.classes, load=load, estimates=how.estimates, users=how.users)
    _write(w, out)
    if out != "-":
        print(f"{out}: {jobs:,} jobs for {procs:,} processors, seed {seed}")


def _generate_parts(out: str, jobs: int, procs: int, load: float | None, how: JobModel, seed: int) -> None:
    """Generate a log part after part. Raises InputError for models that have to know all jobs."""
    if not out.endswith(".parquet"):
        raise InputError(f"{out}: --stream writes Parquet; name it .parquet")
    if (how.model, how.classes) != ("lublin", "typeless"):
        raise InputError("--stream goes with the model lublin and typeless jobs")
    with progress(f"generating {jobs:,} jobs") as step:
        parts = lublin_parts(jobs, procs, seed, load=load, estimates=how.estimates, users=how.users)
        write(out, _counted(parts, jobs, step), {"name": f"lublin-{procs}", "processors": procs})


def _counted(parts: Iterable[dict], jobs: int, step: Callable | None) -> Iterator[dict]:
    """The parts of a log, as progress is shown."""
    done = 0
    for part in parts:
        yield part
        done += len(part["submit"])
        if step:
            step(done, jobs)


def forecast(
    log: Log,
    report: Annotated[
        Optional[str], typer.Option("--report", help="Write one HTML file: accuracy, calibration, drift.")
    ] = None,
    procs: Procs = None,
    jobs: Jobs = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """How well can run times be predicted on this log? Requests, history, boosted quantiles, judged on the last 30 %.

    Examples:
        jobwise trace forecast log.swf.gz
    """
    needs("forecast", "lightgbm")
    check_outputs(log, report, force=force, ending=".html .htm")
    w = open_log(log, procs, jobs)
    with progress("learning quantiles") as step:
        results = judge(w, step)
    show(of_forecasts(w, results).naming(LOG=log), as_json, report)


def sacct_command(
    start: Annotated[str, typer.Option("--start", help="First day, YYYY-MM-DD.")] = "2026-01-01",
    end: Annotated[str, typer.Option("--end", help="Last day, or 'now'.")] = "now",
) -> None:
    """Print the command that writes a Slurm site's job log in the form `jobwise` reads.

    Examples:
        jobwise trace sacct-command
    """
    print(command(start, end))

"""`jobwise simulate`: replay a log under one scheduler."""

from __future__ import annotations

from dataclasses import dataclass
from math import isnan
from typing import Annotated, Any, Optional

import typer

from jobwise import metrics
from jobwise.cli import tables
from jobwise.cli.groups import LogFormat, LogPart, Output, Powered, Replay, grouped
from jobwise.cli.options import Log, check_outputs, in_slots, noticed, open_log, overloaded, policy_option
from jobwise.cli.progress import progress
from jobwise.cli.tables import print_json, print_table, say
from jobwise.compare.fingerprint import flattered
from jobwise.errors import InputError
from jobwise.policies.names import resolve
from jobwise.power.energy import remarks
from jobwise.report import export
from jobwise.streaming.sums import ERROR
from jobwise.workloads.parquet import ParquetLog
from jobwise.workloads.readers import is_parquet
from jobwise.workloads.transform import recorded


@dataclass(frozen=True)
class OutputFiles:
    """Files: where the schedule is written."""

    out: Annotated[
        Optional[str],
        typer.Option("--out", "-o", help="Write the schedule: .csv, .parquet, .swf; .json: metrics by Batsim's names."),
    ] = None
    evalys: Annotated[Optional[str], typer.Option("--evalys", help="Write a jobs.csv that evalys reads.")] = None


@grouped
def simulate(
    log: Log,
    policy: Annotated[
        Optional[list[str]],
        policy_option(help="ORDER[+BACKFILL][+PLACEMENT][+GUARD], or a run folder. [default: fcfs+easy]"),
    ] = None,
    part: LogPart = LogPart(),
    form: LogFormat = LogFormat(),
    replaying: Replay = Replay(),
    power: Powered = Powered(),
    files: OutputFiles = OutputFiles(),
    stream: Annotated[bool, typer.Option("--stream", help="Hold just jobs that wait or run: for Parquet of any size.")] = False,
    output: Output = Output(),
) -> None:
    """Replay a log under one scheduler.

    Examples:
        jobwise simulate log.swf.gz -p sjf+easy
        jobwise simulate log.swf.gz -p saf+easy+guard24h --out schedule.csv
    """
    from jobwise.simulate import simulate as replay

    if policy and len(policy) > 1:
        raise InputError(f"simulate takes one policy, not {len(policy)}; `jobwise compare` takes several")
    chosen = resolve((policy or ["fcfs+easy"])[0])
    check_outputs(log, files.out, files.evalys, force=output.force)
    if files.out:
        export.writer(files.out)
    if stream:
        if form.words:
            raise InputError(
                f"--{next(iter(form.words))} goes without --stream: `jobwise trace convert` writes the table first"
            )
        _streamed(log, chosen, part, replaying, power, files, output)
        return
    w = open_log(log, part.procs, part.jobs, part.load, in_slots([chosen]), replaying.racks or "", form.words)
    w = power.of(replaying.drawn(w), holds=bool(chosen.shifts))
    with progress(f"replaying {len(w):,} jobs") as show:
        settings: dict[str, Any] = {"kill_at_walltime": replaying.end_at_limit, "restart_cost_s": replaying.restart_cost}
        r = replay(w, chosen, seed=replaying.seed, progress=show, **settings)
    summary = r.summary()
    if files.out:
        export.write(r, files.out)
    if files.evalys:
        export.write_evalys(r, files.evalys)
    if output.as_json:
        result = {"workload": w.name, "policy": r.policy, "dropped": w.dropped, "notes": w.notes, "summary": summary}
        print_json(result | {"assumes": chosen.assumes(w), "recorded": recorded(w), "energy": remarks(r) if r.energy else []})
        return
    noticed(w)
    overloaded(w)
    site = recorded(w) or {}
    title = f"{w.name} under {r.policy}: {len(w):,} jobs, {w.cluster.words} (left out: {w.left_out})"
    _show(title, summary, site)
    for warning in (flattered(w, chosen, r.policy), chosen.assumes(w), *(remarks(r) if r.energy else ())):
        if warning:
            say(f"note: {warning}")


def _show(title: str, summary: dict[str, float], site: dict[str, float]) -> None:
    """Print the metrics; `site`: the same of the schedule that the log recorded."""
    rows = []
    for k, v in summary.items():
        if isnan(v):
            continue  # what this log or this machine has no such number of: fairness without users, use of shared GPUs
        unit, scale = metrics.UNITS.get(k, ""), 1.0
        if unit == "s" and max(v, site.get(k, 0.0)) >= 3600:
            unit, scale = "h", 3600.0
        row = [k.replace("_", " "), f"{v:,.0f}" if k in tables.COUNTS else f"{v / scale:,.3f}", unit]
        rows.append(row + ([f"{site[k] / scale:,.3f}" if k in site else ""] if site else []))
    print_table(title, ["metric", "value", "unit"] + (["as recorded"] if site else []), rows)
    print("bounded slowdown with tau = 10 s")


def _streamed(
    log: str, chosen: Any, part: LogPart, replaying: Replay, power: Powered, files: OutputFiles, output: Output
) -> None:
    """Replay a log in Parquet part after part. Raises InputError for what needs the whole of it."""
    from jobwise.streaming import replay

    if not is_parquet(log):
        raise InputError(f"{log}: --stream reads Parquet; `jobwise trace convert LOG OUT.parquet` writes it")
    unsuited = {"--load": part.load is not None, "--racks": replaying.racks, "--evalys": files.evalys}
    unsuited["--restartable"] = replaying.restartable is not None
    unsuited |= {f"--{name}": value for name, value in vars(power).items()}
    if wrong := [name for name, is_set in unsuited.items() if is_set]:
        raise InputError(f"{wrong[0]} needs the whole log in memory; leave --stream out")
    if files.out and not files.out.endswith(".parquet"):
        raise InputError(f"{files.out}: --stream writes Parquet; name it .parquet")
    table = ParquetLog(log, part.procs)
    with progress(f"replaying {len(table):,} jobs") as show:
        r = replay.simulate(table, chosen, files.out, jobs=part.jobs, kill_at_walltime=replaying.end_at_limit, progress=show)
    if output.as_json:
        print_json({"workload": table.name, "policy": r.policy, "most_jobs_at_once": r.most, "summary": r.summary})
        return
    _show(f"{table.name} under {r.policy}: {r.summary['jobs']:,.0f} jobs, {table.processors:,} processors", r.summary, {})
    print(f"quantiles are within {ERROR:.1%}; at most {r.most:,} jobs were held at once")

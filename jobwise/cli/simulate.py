"""`jobwise simulate`: replay a log under one scheduler."""

from __future__ import annotations

from math import isnan
from typing import Annotated, Any, Optional

import typer

from jobwise.cli import tables
from jobwise.cli.groups import LogPart, Output, Replay, grouped
from jobwise.cli.options import Log, check_outputs, in_slots, noticed, open_log, progress
from jobwise.cli.tables import print_json, print_table, say
from jobwise.errors import InputError


@grouped
def simulate(
    log: Log,
    policy: Annotated[
        Optional[list[str]],
        typer.Option("--policy", "-p", help="ORDER[+BACKFILL][+PLACEMENT][+GUARD], or a run folder. [default: fcfs+easy]"),
    ] = None,
    part: LogPart = LogPart(),
    replaying: Replay = Replay(),
    out: Annotated[Optional[str], typer.Option("--out", "-o", help="Write the schedule: .csv, .parquet, or .swf.")] = None,
    evalys: Annotated[Optional[str], typer.Option("--evalys", help="Write a jobs.csv that evalys reads.")] = None,
    output: Output = Output(),
) -> None:
    """Replay a log under one scheduler, as logged, and print its metrics."""
    from jobwise import metrics
    from jobwise.policies.names import resolve
    from jobwise.report import export
    from jobwise.simulate import simulate as replay
    from jobwise.workloads.transform import recorded

    if policy and len(policy) > 1:
        raise InputError(f"simulate takes one policy, not {len(policy)}; `jobwise compare` takes several")
    chosen = resolve((policy or ["fcfs+easy"])[0])
    check_outputs(log, out, evalys, force=output.force)
    if out:
        export.writer(out)
    w = open_log(log, part.procs, part.jobs, part.load, in_slots([chosen]), replaying.racks or "")
    with progress(f"replaying {len(w):,} jobs") as show:
        settings: dict[str, Any] = {"kill_at_walltime": replaying.kill, "restart_cost_s": replaying.restart_cost}
        r = replay(w, chosen, seed=replaying.seed, progress=show, **settings)
    summary = r.summary()
    if out:
        export.write(r, out)
    if evalys:
        export.write_evalys(r, evalys)
    from jobwise.compare.fingerprint import flattered

    if output.as_json:
        result = {"workload": w.name, "policy": r.policy, "dropped": w.dropped, "notes": w.notes, "summary": summary}
        print_json(result | {"recorded": recorded(w)})
        return
    noticed(w)
    site = recorded(w) or {}
    rows = []
    for k, v in summary.items():
        if isnan(v):
            continue  # what this log or this machine has no such number of: fairness without users, use of shared GPUs
        row = [k.replace("_", " "), f"{v:,.0f}" if k in tables.COUNTS else f"{v:,.3f}", metrics.UNITS.get(k, "")]
        rows.append(row + ([f"{site[k]:,.3f}" if k in site else ""] if site else []))
    machine = f"{w.cluster.processors:,} processors"
    columns = ["metric", "value", "unit"] + (["as recorded"] if site else [])
    print_table(f"{w.name} under {r.policy}: {len(w):,} jobs, {machine} (left out: {w.left_out})", columns, rows)
    print("bounded slowdown with tau = 10 s")
    if warning := flattered(w, chosen, r.policy):
        say(f"note: {warning}")

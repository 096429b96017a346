"""`jobwise explain` and `jobwise export-onnx`: look into a policy."""

from __future__ import annotations

from typing import Annotated

import numpy as np
import typer

from jobwise.cli.options import Force, Jobs, Json, Log, Policy, Procs, Run, check_outputs, in_slots, needs, open_log
from jobwise.cli.tables import complain, print_json, print_table
from jobwise.compare.fingerprint import flattered
from jobwise.errors import InputError
from jobwise.files import write_whole
from jobwise.policies.list_run import ListRun
from jobwise.policies.names import load as load_policy
from jobwise.policies.names import resolve
from jobwise.policies.onnx import to_onnx
from jobwise.sim.simulation import Simulation


def explain(
    run: Policy,
    log: Log,
    choice: Annotated[int, typer.Option("--choice", min=0, help="Which instant with at least two jobs queued, from 0.")] = 0,
    top: Annotated[int, typer.Option("--top", min=1, help="Jobs to show: those it would choose first.")] = 8,
    procs: Procs = None,
    jobs: Jobs = None,
    as_json: Json = False,
) -> None:
    """Why does the policy choose this job? Scores, and the features that moved them.

    Examples:
        jobwise explain jobwise log.swf.gz --choice 100
        jobwise explain runs/mine log.swf.gz --choice 100 --top 5
    """
    policy = resolve(run)
    w = open_log(log, procs, jobs, on_nodes=in_slots([policy]))
    sim, before, until = Simulation(w, single_events=policy.single_events, tick=policy.tick), -1, np.inf
    playing = policy.begin(sim.view())
    if not hasattr(playing, "explain"):
        raise InputError(f"{run}: says nothing about its choices")
    while before < choice:
        if sim.done or not sim.advance(until):
            raise InputError(f"{w.name}: there are {before + 1} such instants; --choice counts from 0")
        view = sim.view()
        if len(view.ended):
            playing.ended(view, view.ended)
        many, choices = len(view.queue) > 1, []
        if many and (before + 1 == choice or not isinstance(playing, ListRun)):  # a list scheduler forecasts when it explains
            choices = playing.explain(view)
        before += many if isinstance(playing, ListRun) else len(choices) > 1
        if before < choice:
            until = sim.apply(playing.decide(view), policy.name)
    if as_json:
        print_json({"policy": policy.name, "time": view.now, "free": int(view.free.sum()), "jobs": choices[:top]})
        return
    rows = []
    for f in choices[:top]:
        moved = sorted(f["moved"].items(), key=lambda x: -abs(x[1]))[:3]
        if f["job"] is None:
            rows.append(["none", f"{f['score']:+.3f}", "", "", "", ""])
            continue
        job = view.jobs[f["job"]]
        rows.append(
            [
                str(f["job"]),
                f"{f['score']:+.3f}",
                " + ".join(f"{int(n):,}" for n in job["request"]),
                f"{job['walltime'] / 3600:,.2f}",
                f"{(view.now - job['submit']) / 3600:,.2f}",
                f.get("why") or ", ".join(f"{k} {v:+.2f}" for k, v in moved),
            ]
        )
    free = " + ".join(f"{int(n):,}" for n in view.free.sum(axis=0))
    best = "none" if choices[0]["job"] is None else f"job {choices[0]['job']}"
    title = f"{w.name} at {view.now / 3600:,.2f} h: {free} free, {len(view.queue)} queued; first: {best}"
    columns = ["job", "score", " + ".join(w.cluster.resources), "walltime h", "waited h"]
    if any(row[-1] for row in rows):
        columns.append("why" if any("why" in f for f in choices) else "moved by")
    if warning := flattered(w, policy, policy.name):
        complain(warning, "note")
    print_table(title, columns, [row[: len(columns)] for row in rows])


def export_onnx(
    run: Run, out: Annotated[str, typer.Argument(metavar="OUT", help="ONNX file to write.")], force: Force = False
) -> None:
    """Write a policy's network as ONNX, its metadata included.

    Examples:
        jobwise export-onnx runs/network policy.onnx
    """
    needs("learn", "onnx")
    check_outputs("-", out, force=force, ending=".onnx")
    policy = load_policy(run)
    if policy.spec != "window":
        raise InputError(f"{run}: is a log-linear order, or plays on a grid of time; there is no network per job to export")
    write_whole(out, to_onnx(policy))
    if out != "-":
        print(f"{out}: written")

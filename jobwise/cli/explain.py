"""`jobwise explain` and `jobwise export-onnx`: look into a policy."""

from __future__ import annotations

from typing import Annotated

import typer

from jobwise.cli.options import Force, Jobs, Json, Log, Procs, Run, check_outputs, needs, open_log
from jobwise.cli.tables import print_json, print_table
from jobwise.errors import InputError


def explain(
    run: Run,
    log: Log,
    choice: Annotated[int, typer.Option("--choice", min=0, help="Which instant with at least two jobs queued, from 0.")] = 0,
    top: Annotated[int, typer.Option("--top", min=1)] = 8,
    procs: Procs = None,
    jobs: Jobs = None,
    as_json: Json = False,
) -> None:
    """Why does the policy choose this job? Scores, and the features that moved them."""
    from jobwise.decision import begin
    from jobwise.policies.names import resolve_trained
    from jobwise.sim.simulation import Simulation

    policy, _ = resolve_trained(run)
    if not hasattr(policy, "explain"):
        raise InputError(f"{run}: plays on a grid of time; `jobwise watch` shows what it does")
    w = open_log(log, procs, jobs)
    one = getattr(policy, "single_events", False)
    sim, seen = Simulation(w, single_events=one), -1
    playing = begin(policy, sim.view())
    while seen < choice:
        if not sim.advance():
            raise InputError(f"{w.name}: there are {seen + 1} such instants; --choice counts from 0")
        view = sim.view()
        if len(view.ended):
            playing.ended(view, view.ended)
        found = playing.explain(view) if len(view.queue) > 1 else []
        seen += len(found) > 1
        if seen < choice:
            sim.apply(playing.decide(view), policy.name)
    if as_json:
        print_json({"policy": policy.name, "time": view.now, "free": int(view.free.sum()), "jobs": found[:top]})
        return
    rows = []
    for f in found[:top]:
        moved = sorted(f["moved"].items(), key=lambda x: -abs(x[1]))[:3]
        job = view.jobs[f["job"]]
        rows.append(
            [
                str(f["job"]),
                f"{f['score']:+.3f}",
                f"{int(job['request'][0]):,}",
                f"{job['walltime'] / 3600:,.2f}",
                f"{(view.now - job['submit']) / 3600:,.2f}",
                ", ".join(f"{k} {v:+.2f}" for k, v in moved),
            ]
        )
    state = f"{int(view.free.sum())} free, {len(view.queue)} queued"
    title = f"{w.name} at {view.now / 3600:,.2f} h: {state}; chosen: job {found[0]['job']}"
    print_table(title, ["job", "score", "processors", "walltime h", "waited h", "moved by"], rows)


def export_onnx(
    run: Run, out: Annotated[str, typer.Argument(metavar="OUT", help="ONNX file to write.")], force: Force = False
) -> None:
    """Write a policy's network as ONNX, its metadata included."""
    needs("learn", "onnx")
    from jobwise.files import write_whole
    from jobwise.policies.names import load as load_policy
    from jobwise.policies.neural import NeuralPolicy
    from jobwise.policies.onnx import to_onnx

    check_outputs("-", out, force=force, ending=".onnx")
    found = load_policy(run)
    if not isinstance(found, NeuralPolicy):
        raise InputError(f"{run}: is a log-linear order, or plays on a grid of time; there is no network per job to export")
    write_whole(out, to_onnx(found))
    if out != "-":
        print(f"{out}: written")

"""`jobwise workflow`: look at, draw and convert workflows."""

from __future__ import annotations

from typing import Annotated, Optional

import typer

from jobwise.cli.options import Force, Json, check_outputs
from jobwise.cli.tables import print_json, print_table, say
from jobwise.errors import InputError
from jobwise.files import write_whole
from jobwise.simulate import simulate
from jobwise.workloads.bundles import bundled
from jobwise.workloads.source import open_workflow
from jobwise.workloads.streams import stream
from jobwise.workloads.wfformat import to_text

File = Annotated[str, typer.Argument(metavar="FILE", help="WfFormat JSON, CWL, WDL, or SWF with preceding jobs.")]
Counts = Annotated[
    Optional[list[str]],
    typer.Option("--count", help="How often a scattered step (CWL) or variable (WDL) runs: NAME=N. Repeat it."),
]
Cores = Annotated[int, typer.Option("--procs", min=1, max=2**31 - 1, help="Cores of the cluster.")]
UNITS = {"work": "core-s", "critical_path": "s", "longest_task": "s", "shortest_schedule": "s", "rank_schedule": "s"}


def _read(file: str, counts: list[str] | None):
    scatter = {}
    for text in counts or []:
        name, _, number = text.rpartition("=")
        if not name or not number.isdigit():
            raise InputError(f"--count {text!r}: NAME=N is expected, e.g. --count blast=40")
        scatter[name] = int(number)
    return open_workflow(file, scatter)


def info(file: File, count: Counts = None, procs: Cores = 64, as_json: Json = False) -> None:
    """What is in a workflow: tasks, edges, levels, work, critical path, and how long it takes on a cluster.

    Examples:
        jobwise workflow info montage.json.gz
    """
    w = _read(file, count)
    procs = max(procs, int(w.tasks["cores"].max()))
    numbers = w.summary() | {"processors": procs, "shortest_schedule": max(w.critical_path, w.work / procs)}
    numbers["rank_schedule"] = float(simulate(stream([w], cluster=procs), "rank").jobs["end"].max())
    if as_json:
        print_json({"workflow": w.name, "source": w.source, "reading": list(w.reading), "notes": w.notes} | numbers)
        return
    rows = [[k.replace("_", " "), f"{v:,}" if type(v) is int else f"{v:,.2f}", UNITS.get(k, "")] for k, v in numbers.items()]
    print_table(f"{w.name} ({w.source})", ["what", "value", "unit"], rows)
    for line in (*w.reading, *(f"{k}: {n}" for k, n in w.notes.items())):
        say(line)
    say("shortest schedule: a bound (critical path, or all work on all cores); rank schedule: the longest way to the end first")


def draw(
    file: File,
    out: Annotated[str, typer.Option("--out", "-o", help="Picture to write: .svg, .png or .pdf.")],
    count: Counts = None,
    procs: Cores = 64,
    force: Force = False,
) -> None:
    """Draw a workflow: levels, what tasks need most of, the critical path.

    Examples:
        jobwise workflow draw montage.json.gz --out montage.svg
    """
    from jobwise.report.graph import draw as picture

    check_outputs(file, out, force=force, ending=".svg .png .pdf")
    w = _read(file, count)
    picture(w, out, procs)
    print(f"{out}: {len(w):,} tasks, {len(w.edges):,} edges")


def convert(
    file: File,
    out: Annotated[str, typer.Argument(metavar="OUT", help="File to write: .json (WfFormat 1.5) or .dot (Graphviz).")],
    count: Counts = None,
    bundle: Annotated[
        int, typer.Option("--bundle", min=1, help="Put up to N tasks of a level and class into one parallel task.")
    ] = 1,
    procs: Cores = 64,
    force: Force = False,
) -> None:
    """Convert a workflow to WfFormat or to Graphviz.

    Examples:
        jobwise workflow convert montage.json.gz montage.dot
    """
    from jobwise.report.graph import dot

    check_outputs(file, out, force=force, ending=".json .dot")
    w = _read(file, count)
    w = bundled(w, procs, bundle) if bundle > 1 else w
    write_whole(out, dot(w) if out.endswith(".dot") else to_text(w))
    print(f"{out}: {len(w):,} tasks, {len(w.edges):,} edges")

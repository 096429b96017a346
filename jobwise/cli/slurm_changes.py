"""`jobwise slurm what-if` and `tune`: a site as it would be, and settings that would have done better."""

from __future__ import annotations

from typing import Annotated, Optional

import typer

from jobwise.cli.options import Force, Json, Seed, check_outputs, needs, progress, times
from jobwise.cli.tables import print_json, print_table, say
from jobwise.errors import InputError, Interrupted

Folder = Annotated[str, typer.Argument(metavar="FOLDER", help="A folder as `jobwise slurm site` reads it.")]
Report = Annotated[Optional[str], typer.Option("--report", help="Write an HTML report to this file.")]
Shakes = Annotated[int, typer.Option("--shakes", min=0, max=100, help="Replicas with submits moved a little.")]
HEAD = ("change", "wait s", "mean wait", "slowdown", "longest x")


def what_if(
    folder: Folder,
    change: Annotated[
        Optional[list[str]],
        typer.Option("--set", help="A line of slurm.conf, a partition, or a QOS: bf_window=2880, 'QOS=long MaxTRESPU=cpu=64'."),
    ] = None,
    nodes: Annotated[int, typer.Option("--nodes", help="So many nodes more (like the last one), or fewer.")] = 0,
    limits: Annotated[
        Optional[str], typer.Option("--limits", help="Time limits of at most so many times the run time, e.g. 1.2x.")
    ] = None,
    policy: Annotated[
        Optional[list[str]], typer.Option("-p", "--policy", help="Who schedules then; repeat it. [default: slurm]")
    ] = None,
    shakes: Shakes = 5,
    seed: Seed = 0,
    report: Report = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """What a change would have done with the recorded jobs, against the simulated present."""
    from jobwise.policies.names import resolve
    from jobwise.slurm.changes import changed
    from jobwise.slurm.site import read
    from jobwise.slurm.what_if import what_if as tried

    lines = change or []
    if not (lines or nodes or limits or set(policy or []) - {"slurm"}):
        raise InputError("nothing changes; name a change: --set, --nodes, --limits, or another --policy")
    if len(set(policy or [])) < len(policy or []):
        raise InputError("a policy is named twice")
    _ready(folder, report, force)
    w = read(folder)
    after = changed(w, lines, nodes, times(limits, "--limits"))
    told = ", ".join([*lines, *([f"{nodes:+d} nodes"] if nodes else []), *([f"limits {limits}"] if limits else [])])
    known = [(", ".join(filter(None, [p if p != "slurm" else "", told])) or p, after, p) for p in policy or ["slurm"]]
    for _, _, p in known:
        resolve(p)
    with progress("replay") as step:
        found = tried(w, known, shakes=shakes, seed=seed, progress=step)
    trust = _trust(w, found[0].present.records[0])
    if as_json:
        print_json({"source": w.name, "jobs": len(w), "changes": [c.to_dict() for c in found], "told": trust})
        return
    tables = [(f"{w.name}: {len(w):,} jobs, against the simulated present", HEAD, _rows(found))]
    tables += [(f"who wins, who loses: {c.name}", GROUPED, c.rows()) for c in found]
    _told(w.name, [c.sentence() for c in found] + [trust], tables, report, found)


EXPLAINED = (
    "mean wait, slowdown: change with 95 % interval over blocks of time; longest x: the longest wait in times the present one, "
    "median (most) of the replicas; no interval where it would be wider than tenfold"
)
SHORT = 13  # letters of a name in a table
GROUPED = ("what", "group", "jobs", "now s", "then s", "change")


def tune(
    folder: Folder,
    max_wait: Annotated[str, typer.Option("--max-wait", help="Bound on the longest wait, times the present one.")] = "1.2x",
    keep: Annotated[Optional[list[str]], typer.Option("--keep", help="A weight that stays: fairshare, age, size.")] = None,
    metric: Annotated[str, typer.Option("--metric", help="What shall be lower: wait, slowdown.")] = "wait",
    beside: Annotated[
        Optional[list[str]],
        typer.Option("-p", "--policy", help="Schedulers shown beside it. [default: smith-forecast+slurm, saf+slurm]"),
    ] = None,
    out: Annotated[Optional[str], typer.Option("--out", help="A folder for the run, so that it can be resumed.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run of this folder.")] = False,
    budget: Annotated[float, typer.Option("--budget", min=0.05, max=100, help="Times the usual number of candidates.")] = 1.0,
    seed: Seed = 0,
    report: Report = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Settings of slurm.conf that would have done better: searched on the first jobs, judged on the last 30 %."""
    from jobwise.policies.names import resolve
    from jobwise.slurm.site import read
    from jobwise.slurm.tune import tune as search

    others = beside if beside is not None else ["smith-forecast+slurm", "saf+slurm"]
    for p in others:
        resolve(p)
    if resume and not out:
        raise InputError("--resume goes on with the run of a folder; name it with --out")
    _ready(folder, report, force)
    w, bound = read(folder), times(max_wait)
    with progress("tuning") as step:
        told = {"max_wait": bound, "keep": keep or [], "metric": metric, "folder": out, "resume": resume, "scale": budget}
        try:
            found = search(w, **told, others=others, seed=seed, progress=step)
        except KeyboardInterrupt:
            raise Interrupted(f"jobwise slurm tune … --out {out} --resume goes on" if out else "nothing was written") from None
    changes = [*([found.test] if found.test else []), *found.others]
    if as_json:
        about = {"source": w.name, "jobs": len(w), "lines": found.lines, "gains": found.gains, "told": found.sentence()}
        print_json(about | {"trials": found.trials, "unseen": [c.to_dict() for c in changes]})
        return
    tables = [("the last 30 % of the jobs, against the simulated present", HEAD, _rows(changes))] if changes else []
    if found.test:
        tables.append(("who wins, who loses: tuned", GROUPED, found.test.rows()))
    for line in found.lines:
        typer.echo(line)
    text = [found.sentence()]
    if found.lines and any(x.startswith("SchedulerParameters") for x in found.lines):
        text.append("Keep the other words of your SchedulerParameters.")
    _told(w.name, text, tables, report, changes, found.lines)


def _ready(folder: str, report: str | None, force: bool) -> None:
    if report:
        needs("report", "matplotlib", "jinja2")
        check_outputs(folder, report, force=force, ending=".html .htm")


def _rows(changes: list) -> list[list[str]]:
    if not changes:
        return []
    now = changes[0].present
    rows = [["now", f"{now.wait:,.0f}", "", "", ""]]
    for n, c in enumerate(changes, 1):
        short = c.name if len(c.name) <= SHORT else f"{n}: {c.name[: SHORT - 4]}…"
        rows.append([short, *c.row()[1:]])
    return rows


def _trust(w, r) -> str:
    """How well the simulated present agrees with the record."""
    from jobwise.slurm.fidelity import beside, recorded, sentence

    try:
        recorded(w)
    except InputError:
        return "No waits are recorded: how far the simulated present can be trusted is not known."
    return "The simulated present: " + sentence([beside(w, "slurm", r)])


def _told(name: str, text: list[str], tables: list[tuple], report: str | None, changes: list, conf: tuple | list = ()) -> None:
    for title, columns, rows in tables:
        print_table(title, list(columns), rows)
    for x in [*text, *([EXPLAINED] if changes else [])]:
        say(x)
    if report:
        from jobwise.report.fidelity import write_site_report

        waits = {"now": _waits(changes[0].present)} if changes else {}
        waits |= {c.name: _waits(c.after) for c in changes[:4]}
        write_site_report(f"{name}: what would have been", text, tables, report, waits, conf)
        typer.echo(f"wrote {report}")


def _waits(x) -> tuple:
    jobs = x.records[0].jobs
    return jobs["submit"], jobs["start"] - jobs["submit"]

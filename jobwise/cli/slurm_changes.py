"""`jobwise slurm what-if` and `tune`: a site as it would be, and settings that would have done better."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Optional

import typer

from jobwise.cli.groups import Output, grouped
from jobwise.cli.options import Seed, check_outputs, complain, progress, times
from jobwise.cli.tables import broken, print_json, print_table, say
from jobwise.errors import InputError, Interrupted

Folder = Annotated[str, typer.Argument(metavar="FOLDER", help="A folder as `jobwise slurm site` reads it.")]
Report = Annotated[Optional[str], typer.Option("--report", help="Write an HTML report to this file.")]
Shakes = Annotated[int, typer.Option("--shakes", min=0, max=100, help="Replicas with submits moved a little.")]
HEAD = ("change", "wait s", "mean wait", "slowdown", "longest x")


@dataclass(frozen=True)
class Changes:
    """The changes that are tried at a site."""

    change: Annotated[
        Optional[list[str]],
        typer.Option("--set", help="A line of slurm.conf, a partition, or a QOS: bf_window=2880, 'QOS=long MaxTRESPU=cpu=64'."),
    ] = None
    nodes: Annotated[int, typer.Option("--nodes", help="So many nodes more (like the last one), or fewer.")] = 0
    limits: Annotated[
        Optional[str], typer.Option("--limits", help="Time limits of at most so many times the run time, e.g. 1.2x.")
    ] = None


@grouped
def what_if(
    folder: Folder,
    changing: Changes = Changes(),
    policy: Annotated[
        Optional[list[str]], typer.Option("-p", "--policy", help="Who schedules then; repeat it. [default: slurm]")
    ] = None,
    shakes: Shakes = 5,
    seed: Seed = 0,
    report: Report = None,
    output: Output = Output(),
) -> None:
    """What a change would have done with the recorded jobs, against the simulated present."""
    from jobwise.compare.fingerprint import flattered
    from jobwise.policies.names import resolve
    from jobwise.slurm.changes import changed
    from jobwise.slurm.site import most_helpful, read
    from jobwise.slurm.what_if import what_if as tried

    lines, nodes, limits = changing.change or [], changing.nodes, changing.limits
    if not (lines or nodes or limits or set(policy or []) - {"slurm"}):
        raise InputError("nothing changes; name a change: --set, --nodes, --limits, or another --policy")
    if len(set(policy or [])) < len(policy or []):
        raise InputError("a policy is named twice")
    _ready(folder, report, output.force)
    w = read(folder)
    after = changed(w, lines, nodes, times(limits, "--limits"))
    changes_text = ", ".join([*lines, *([f"{nodes:+d} nodes"] if nodes else []), *([f"limits {limits}"] if limits else [])])
    known = [(", ".join(filter(None, [p if p != "slurm" else "", changes_text])) or p, after, p) for p in policy or ["slurm"]]
    for _, _, p in known:
        resolve(p)
    with progress("replay") as step:
        changes = tried(w, known, shakes=shakes, seed=seed, progress=step)
    trust = _trust(_beside(w, changes[0].present.records[0]))
    text = [" ".join(filter(None, [trust, most_helpful(w)])), *(c.sentence() for c in changes), *_idle(w, lines, changes)]
    text += [f"note: {x}" for p in policy or [] if (x := flattered(w, resolve(p), p))]
    tables = [(f"{w.name}: {len(w):,} jobs, against the simulated present", HEAD, _rows(changes))]
    tables += [(f"who wins, who loses: {c.name}", GROUPED, c.rows()) for c in changes]
    _written(w.name, text, tables, report, changes)
    if output.as_json:
        print_json({"source": w.name, "jobs": len(w), "changes": [c.to_dict() for c in changes], "told": " ".join(text)})
        return
    _told(text, tables, report, changes)


EXPLAINED = (
    "mean wait, slowdown: change with 95 % interval over blocks of time; longest x: the longest wait in times the present one, "
    "median (most) of the replicas; now: shaken replicas, so its mean wait is not quite that of `slurm fidelity`; no interval "
    "where it would be wider than tenfold; groups: the six largest of a kind, of 20 jobs or more"
)
NAME = 18  # columns of a name in a table: longer ones go on in the next line
GROUPED = ("what", "group", "jobs", "now s", "then s", "change")


@dataclass(frozen=True)
class Search:
    """The bounds and the length of a search."""

    max_wait: Annotated[str, typer.Option("--max-wait", help="Bound on the longest wait, times the present one.")] = "1.2x"
    keep: Annotated[Optional[list[str]], typer.Option("--keep", help="A weight that stays: fairshare, age, size.")] = None
    metric: Annotated[str, typer.Option("--metric", help="What shall be lower: wait, slowdown.")] = "wait"
    out: Annotated[Optional[str], typer.Option("--out", help="A folder for the run, so that it can be resumed.")] = None
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run of this folder.")] = False
    budget: Annotated[float, typer.Option("--budget", min=0.05, max=100, help="Times the usual number of candidates.")] = 1.0


@grouped
def tune(
    folder: Folder,
    searching: Search = Search(),
    beside: Annotated[
        Optional[list[str]],
        typer.Option("-p", "--policy", help="Schedulers shown beside it. [default: smith-forecast+slurm, saf+slurm]"),
    ] = None,
    seed: Seed = 0,
    report: Report = None,
    output: Output = Output(),
) -> None:
    """Search settings of slurm.conf that would have done better: chosen on the first 70 % of the jobs, judged on the rest.

    Lines are proposed only where the simulation explains the recorded waits and the gain holds on the later jobs.
    """
    from jobwise.policies.names import resolve
    from jobwise.slurm.site import most_helpful, read
    from jobwise.slurm.tune import replayed
    from jobwise.slurm.tune import tune as search

    out, resume = searching.out, searching.resume
    others = beside if beside is not None else ["smith-forecast+slurm", "saf+slurm"]
    for p in others:
        resolve(p)
    if resume and not out:
        raise InputError("--resume goes on with the run of a folder; name it with --out")
    _ready(folder, report, output.force)
    w, bound = read(folder), times(searching.max_wait)
    count = replayed(out) if resume else 0
    with progress("tuning") as step:
        settings = {
            "max_wait": bound,
            "keep": searching.keep or [],
            "metric": searching.metric,
            "folder": out,
            "resume": resume,
        }
        try:
            tuned = search(w, **settings, scale=searching.budget, others=others, seed=seed, progress=step)
        except KeyboardInterrupt:
            raise Interrupted(f"jobwise slurm tune … --out {out} --resume goes on" if out else "nothing was written") from None
    if count:
        complain(f"{count} replays of candidates were kept from the run before")
    changes = [*([tuned.test] if tuned.test else []), *tuned.others]
    trust = _trust(tuned.fidelity)
    text = [" ".join(filter(None, [trust, most_helpful(w)])), tuned.sentence()]
    if any(x.startswith("SchedulerParameters") for x in tuned.proposed):
        text.append("The SchedulerParameters below name what changes alone: keep the other words of yours.")
    if tuned.others:
        text.append("The rows below that name another scheduler show what its order would do; no line of slurm.conf gives it.")
    tables = [("the last 30 % of the jobs, against the simulated present", HEAD, _rows(changes))] if changes else []
    if tuned.test:
        tables.append(("who wins, who loses: tuned", GROUPED, tuned.test.rows()))
    _written(w.name, text, tables, report, changes, tuned.proposed)
    if output.as_json:
        about = {"source": w.name, "jobs": len(w), "trusted": tuned.trusted, "trust": trust, "gains": tuned.gains}
        about |= {"lines": tuned.proposed, "tried": tuned.lines, "told": tuned.sentence()}
        about |= {"fidelity": tuned.fidelity.to_dict() if tuned.fidelity else None}
        print_json(about | {"trials": tuned.trials, "unseen": [c.to_dict() for c in changes]})
        return
    _told(text, tables, report, changes, tuned.proposed)


def _ready(folder: str, report: str | None, force: bool) -> None:
    if report:
        check_outputs(folder, report, force=force, ending=".html .htm")


def _rows(changes: list) -> list[list[str]]:
    if not changes:
        return []
    now = changes[0].present
    return [["now", f"{now.wait:,.0f}", "", "", ""], *([c.name, *c.row()[1:]] for c in changes)]


def _beside(w, r):
    """The simulated present beside the record; None where no waits are recorded."""
    from jobwise.slurm.fidelity import beside, recorded

    try:
        recorded(w)
    except InputError:
        return None
    return beside(w, "slurm", r)


def _trust(fidelity) -> str:
    """How well the simulated present explains the recorded waits, in a sentence."""
    from jobwise.slurm.fidelity import sentence

    if fidelity is None:
        return "No waits are recorded: how far the simulated present can be trusted is not known."
    return "The simulated present: " + sentence([fidelity])


def _idle(w, lines: list[str], changes: list) -> list[str]:
    """Why nothing changes, where weights of priority are set that do not count."""
    site = w.cluster.site
    weights = [x for x in lines if x.lower().startswith("priority") and not x.lower().startswith("prioritytype")]
    if not (weights and site.settings["basic"][0]) or not all(c.idle for c in changes):
        return []
    missing = next((f" ({g.split(':')[0]} in this folder)" for g in site.guesses if "scontrol_config" in g), "")
    return [f"Weights count with PriorityType=priority/multifactor alone; here priority is first come, first served{missing}."]


def _told(text: list[str], tables: list[tuple], report: str | None, changes: list, conf: tuple | list = ()) -> None:
    say(text[0])
    for title, columns, rows in tables:
        print_table(title, list(columns), [[broken(row[0], NAME), *row[1:]] for row in rows])
    for x in [*text[1:], *([EXPLAINED] if changes else [])]:
        say(x)
    if conf:
        say("\nLines for slurm.conf:")
    for line in conf:
        typer.echo(line)
    if report:
        typer.echo(f"wrote {report}")


def _written(
    name: str, text: list[str], tables: list[tuple], report: str | None, changes: list, conf: list | tuple = ()
) -> None:
    if report:
        from jobwise.report.fidelity import write_site_report

        waits = {"now": _waits(changes[0].present)} if changes else {}
        waits |= {c.name: _waits(c.after) for c in changes[:4]}
        write_site_report(f"{name}: what would have been", text, tables, report, waits, conf)


def _waits(x) -> tuple:
    from jobwise import metrics

    r = x.records[0]
    return r.jobs["submit"], metrics.for_all(r, metrics.wait(r), 0.0)

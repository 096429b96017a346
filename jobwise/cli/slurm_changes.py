"""`jobwise slurm what-if` and `tune`: a site as it would be, and settings that would have done better."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any, Optional

import typer

from jobwise.cli.groups import Output, Parallel, Powered, grouped
from jobwise.cli.options import Seed, check_outputs, policy_option, times
from jobwise.cli.progress import progress
from jobwise.cli.tables import complain, show
from jobwise.compare.fingerprint import flattered
from jobwise.errors import InputError, Interrupted
from jobwise.policies.names import resolve
from jobwise.power.energy import remarks
from jobwise.power.setting import could_start
from jobwise.slurm.judge.changes import changed, possible
from jobwise.slurm.judge.fidelity import of_present
from jobwise.slurm.judge.power_lines import cap_lines
from jobwise.slurm.judge.results import of_changes, of_tuned
from jobwise.slurm.judge.tune import replayed
from jobwise.slurm.judge.tune import tune as search
from jobwise.slurm.judge.until import goal, until
from jobwise.slurm.judge.what_if import what_if as tried
from jobwise.slurm.read.site import read
from jobwise.slurm.read.startable import NeverStart
from jobwise.workload import Workload

Folder = Annotated[str, typer.Argument(metavar="FOLDER", help="A folder as `jobwise slurm site` reads it.")]
Report = Annotated[Optional[str], typer.Option("--report", help="Write an HTML report to this file.")]
Replicas = Annotated[int, typer.Option("--replicas", min=0, max=100, help="Replicas with submits moved a little.")]


@dataclass(frozen=True)
class Changes:
    """Changes: what is tried at a site."""

    change: Annotated[
        Optional[list[str]],
        typer.Option("--set", help="A line of slurm.conf, a partition, QOS, account: bf_window=2880, 'Account=bio Share=20'."),
    ] = None
    nodes: Annotated[int, typer.Option("--nodes", help="Add N nodes like the last one; below 0: remove them.")] = 0
    demand: Annotated[
        Optional[float], typer.Option("--demand", help="This many times as many jobs in the same time, e.g. 1.2.")
    ] = None
    either: Annotated[
        Optional[list[str]],
        typer.Option(
            "--or", help="Another change, a row of its own: a line of --set, nodes=4, demand=1.2, cap=2MW, move=…, reserve=…"
        ),
    ] = None
    new: Annotated[
        Optional[list[str]],
        typer.Option("--new", help="A new partition or QOS: 'PartitionName=debug Nodes=n[1-2]', 'QOS=urgent Priority=100'."),
    ] = None
    move: Annotated[
        Optional[list[str]],
        typer.Option("--move", help="Who goes where: 'partition=long,time<=2h to debug', 'user=ann to qos=urgent'."),
    ] = None
    reserve: Annotated[
        Optional[list[str]],
        typer.Option("--reserve", help="Maintenance, begin (UTC), length, nodes: '2026-12-01T08:00 12h all'."),
    ] = None
    until: Annotated[
        Optional[str],
        typer.Option("--until", help="How many more nodes it takes: 'wait<1h', 'p95<4h', 'longest<2d', 'slowdown<10'."),
    ] = None
    limits: Annotated[
        Optional[str], typer.Option("--limits", help="Time limits of at most this multiple of the run time, e.g. 1.2x.")
    ] = None


@grouped
def what_if(
    folder: Folder,
    changing: Changes = Changes(),
    policy: Annotated[Optional[list[str]], policy_option(help="Who schedules then; repeat it. [default: slurm]")] = None,
    replicas: Replicas = 5,
    seed: Seed = 0,
    report: Report = None,
    power: Powered = Powered(),
    parallel: Parallel = Parallel(),
    output: Output = Output(),
) -> None:
    """What a change would have done with the recorded jobs, against the simulated present.

    Examples:
        jobwise slurm what-if site --nodes 2
        jobwise slurm what-if site --or nodes=4 --or demand=1.2
    """
    lines, nodes, limits = changing.change or [], changing.nodes, changing.limits
    demand, either = changing.demand, changing.either or []
    new, move, reserve = changing.new or [], changing.move or [], changing.reserve or []
    asked = lines or nodes or limits or demand is not None or either or new or move or reserve or changing.until or power.cap
    if not asked and not set(policy or []) - {"slurm"}:
        raise InputError("nothing changes; name a change: --set, --nodes, --demand, --move, --reserve, --cap, --or, --policy")
    if changing.until and (nodes or either or policy):
        raise InputError("--until adds nodes until its goal is met; it goes with neither --nodes, --or nor --policy")
    if len(set(policy or [])) < len(policy or []):
        raise InputError("a policy is named twice")
    aim = goal(changing.until) if changing.until else None
    _ready(folder, report, output.force)
    whole = read(folder)
    power.of(whole, capped=False)  # what is wrong with its files is said before anything runs
    longest = times(limits, "--limits")
    together = partial(changed, lines=lines, nodes=nodes, limits=longest, demand=demand, new=new, moves=move, reserve=reserve)
    make = [partial(_under, power, together, ""), *(partial(_under, power, partial(_one, text=x), x) for x in either)]
    w, (after, *others), left = possible(whole, make)
    w = power.of(w, capped=False)
    words = [*new, *lines, *move, *(f"reserve {x}" for x in reserve), *([f"{nodes:+d} nodes"] if nodes else [])]
    words += [*([f"demand x{demand:g}"] if demand else []), *([f"limits {limits}"] if limits else [])]
    words += [f"cap {power.cap}"] if power.cap else []
    changes_text = ", ".join(words)
    schedulers = policy or (["slurm"] if changes_text else [])
    alternatives = [(", ".join(filter(None, [p if p != "slurm" else "", changes_text])) or p, after, p) for p in schedulers]
    alternatives += [(text, one, "slurm") for text, one in zip(either, others, strict=True)]
    for _, _, p in alternatives:
        resolve(p)
    with progress("replay") as step, parallel.workers():
        if aim:
            changes, answer = until(after, aim, changes=changes_text, replicas=replicas, seed=seed, progress=step)
        else:
            changes, answer = tried(w, alternatives, replicas=replicas, seed=seed, progress=step), ""
    with progress("the present beside the record") as step:
        present = of_present(whole, step)
    new_limits = dict.fromkeys(
        f"{name}: {count:,} jobs {x}"
        for name, changed_jobs, _ in alternatives
        for x, count in changed_jobs.notes.items()
        if x not in w.notes
    )
    notes = [*new_limits, *(f"note: {x}" for p in policy or [] if (x := flattered(w, resolve(p), p)))]
    notes += [f"note: {x} is new, and no job goes there; --move sends some" for x in _empty(after, new)]
    if len([*new, *lines, *move, *reserve]) + bool(nodes) + bool(limits) > 1 and not (new and move):
        notes.append("note: these changes were made together; a what-if of each alone tells them apart")
    if aim and changes_text:
        notes.append(f"note: all rows are with {changes_text}")
    notes += [f"note: {x}" for x in remarks(changes[0].present.replicas[0])] if w.cluster.power else []
    notes += cap_lines(after) if power.cap else []
    first = "these nodes" if aim and changes_text else "now"
    show(of_changes(w, changes, present, lines, notes, answer, left, first).naming(SITE=folder), output.as_json, report)


def _empty(w: Workload, new: list[str]) -> list[str]:
    """Return the new partitions and QOS that no job is in."""
    site, out = w.cluster.known_site, []
    for text in new:
        word, _, rest = text.partition("=")
        name = rest.split()[0]
        if word.lower().startswith("partition"):
            used = (site.queues[w.jobs["partition"]] == site.partition_names.index(name)).any()
        else:
            used = (w.jobs["queue"] == site.qos_names.index(name)).any()
        out += [] if used else [name]
    return out


def _under(power: Powered, change: Callable[[Workload], Workload], text: str, w: Workload) -> Workload:
    """The jobs after a change, with what they draw; under the cap of --cap, or of --or cap=2MW. Raises NeverStart."""
    own = replace(power, cap=text.removeprefix("cap=")) if text.startswith("cap=") else power
    x = own.of(w if own is not power else change(w), capped=not text or own is not power, leave_out=False)
    if x.cluster.power and x.cluster.power.cap is not None and not (fits := could_start(x)).all():
        raise NeverStart(w, ~fits, then=" under the cap")
    return x


def _one(w: Workload, text: str) -> Workload:
    """The jobs after the change of an --or. Raises InputError, which names it."""
    try:
        return _changed(w, text)
    except InputError as error:
        raise error if text in str(error) or isinstance(error, NeverStart) else InputError(f"--or {text!r}: {error}") from None


def _changed(w: Workload, text: str) -> Workload:
    key, _, value = text.partition("=")
    if key in ("move", "reserve"):
        return changed(w, moves=[value]) if key == "move" else changed(w, reserve=[value])
    if key in ("nodes", "demand"):
        try:
            return changed(w, nodes=int(value)) if key == "nodes" else changed(w, demand=float(value))
        except ValueError as error:
            raise error if isinstance(error, InputError) else InputError(f"--or {text!r}: a number is expected") from None
    return changed(w, [text])


@dataclass(frozen=True)
class TuneBudget:
    """Search: its bounds and its length."""

    max_wait: Annotated[str, typer.Option("--max-wait", help="Bound on the longest wait, times the present one.")] = "1.2x"
    keep: Annotated[Optional[list[str]], typer.Option("--keep", help="A weight that stays: fairshare, age, size.")] = None
    metric: Annotated[str, typer.Option("--metric", help="What shall be lower: wait, slowdown.")] = "wait"
    out: Annotated[Optional[str], typer.Option("--out", help="A folder for the run, so that it can be resumed.")] = None
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run of this folder.")] = False
    budget: Annotated[float, typer.Option("--budget", min=0.05, max=100, help="Times the usual number of candidates.")] = 1.0


@grouped
def tune(
    folder: Folder,
    searching: TuneBudget = TuneBudget(),
    beside: Annotated[
        Optional[list[str]],
        policy_option(help="Schedulers shown beside it. [default: smith-aged+slurm, saf+slurm]"),
    ] = None,
    seed: Seed = 0,
    report: Report = None,
    parallel: Parallel = Parallel(),
    output: Output = Output(),
) -> None:
    """Search settings of slurm.conf that would have done better: chosen on the first 70 % of the jobs, judged on the rest.

    Lines are proposed only where the simulation explains the recorded waits and the gain holds on the later jobs.

    Examples:
        jobwise slurm tune site --max-wait 1.2x --budget 1
    """
    out, resume = searching.out, searching.resume
    others = beside if beside is not None else ["smith-aged+slurm", "saf+slurm"]
    for p in others:
        resolve(p)
    if resume and not out:
        raise InputError("--resume goes on with the run of a folder; name it with --out")
    _ready(folder, report, output.force)
    w, bound = read(folder), times(searching.max_wait)
    count = replayed(out) if resume and out else 0
    with progress("tuning") as step, parallel.workers():
        settings: dict[str, Any] = {
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
    show(of_tuned(w, tuned).naming(SITE=folder), output.as_json, report)


def _ready(folder: str, report: str | None, force: bool) -> None:
    if report:
        check_outputs(folder, report, force=force, ending=".html .htm")

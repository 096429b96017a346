"""`jobwise mars`: run workflows on a simulated cluster, on the Slurm of this machine, or as its processes."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Optional

import typer

from jobwise.cli.groups import grouped
from jobwise.cli.mars_options import SLEEP, Avoided, ByMars, Countable, Tasks, weights_of
from jobwise.cli.options import Json, policy_option
from jobwise.cli.progress import progress
from jobwise.cli.tables import complain, print_json, print_table, say
from jobwise.cluster import pool, resources
from jobwise.errors import InputError, Interrupted
from jobwise.files import own_folder
from jobwise.policies.names import resolve
from jobwise.systems import configure
from jobwise.systems.mars import argbest
from jobwise.systems.store import Store
from jobwise.workflows import managers
from jobwise.workflows.engine_runs import EngineRuns
from jobwise.workflows.engines import engine
from jobwise.workflows.engines.desk import requests
from jobwise.workflows.follow import Following
from jobwise.workflows.outcome import outcomes
from jobwise.workloads.demands import needed
from jobwise.workloads.source import open_workflow
from jobwise.workloads.streams import stream


@grouped
def run(
    files: Annotated[list[str], typer.Argument(metavar="WORKFLOW...", help="CWL, WDL, .commands, WfFormat JSON, SWF.")],
    state: Annotated[str, typer.Option("--state", help="Folder of the run: its ledger. A run that was killed goes on there.")],
    on: Annotated[
        str, typer.Option("--executor", metavar="WHERE", help="'simulator', 'slurm', or 'processes' of this machine.")
    ] = "simulator",
    policy: Annotated[
        str,
        policy_option(
            help="argbest (the best rule on the estimates), mars (Algorithm 3), a rule, a model, manager (it decides).",
        ),
    ] = "argbest",
    procs: Annotated[
        Optional[int], typer.Option("--procs", min=1, max=2**20, help="Cores, of the simulator (64) or of this machine.")
    ] = None,
    beside: Countable = Countable(),
    avoided: Avoided = Avoided(),
    tasks: Tasks = Tasks(),
    by_mars: ByMars = ByMars(),
    price: Annotated[float, typer.Option("--price", min=0, help="Of a core-hour.")] = 0.0,
    as_json: Json = False,
) -> None:
    """Run workflows to their end. Tasks are submitted, followed, and submitted again where they fail; a run that was killed
    goes on.

    Examples:
        jobwise mars run montage.json.gz --state runs/montage
        jobwise mars run sort.cwl --inputs values.yml --executor processes --state s
    """
    by_mars.check(policy)
    own_folder(state)
    flows = [open_workflow(f) for f in files]
    seconds = [float(s) * tasks.scale for f in flows for s in f.tasks["runtime"]]
    manager = managers.manager(on, managers.ToldMachine(Path(state), seconds, procs, beside.gpus, beside.memory))
    risks = avoided.risks(policy, manager)
    own = manager.stamps and tasks.command is None  # do workflows run commands of their own?
    prepare = {i: p for i, f in enumerate(files) if own and (p := engine(Path(f)))}
    options = _options(tasks, own)
    words = _words(SLEEP if tasks.command is None else tasks.command)
    w = stream(flows, cluster=_machine(manager, flows, beside.io), name=", ".join(f.name for f in flows)[:200])
    engines = EngineRuns(prepare, list(map(Path, files)), [Path(x) for x in tasks.inputs or []], Path(state), tasks.bare)
    chosen = argbest(w) if policy == "argbest" else policy
    decides: Any = by_mars.layer(w, flows) if policy == "mars" else None
    if policy not in ("mars", "manager"):
        decides = resolve(chosen)
    guarded = avoided.around(decides, risks)
    with Following(
        w, manager, Path(state), _commands(words, flows, seconds, w), guarded, _asked(flows, options),
        tasks.retries, poll_s=tasks.poll, desks=engines.desks, options=options, names=[n for f in flows for n in f.names],
    ) as following:  # fmt: skip
        if not prepare and all(t.state == "done" for t in following.tasks):
            complain(f"{state}: all {len(w):,} tasks were done already; another --state runs them again")
        before = following.summary()["submitted"]
        try:
            with progress(f"{len(w):,} tasks") as show:
                engines.follow(following, show)
        except KeyboardInterrupt:
            raise Interrupted("what was submitted runs on, and the same command goes on from here") from None
        summary, ran = following.summary(), outcomes(following, flows)
        if prepare and summary["submitted"] == before and summary["done"]:
            complain(f"{state}: all {summary['done']:,} tasks were done already; another --state runs them again")
    result = {"policy": decides.name if policy == "mars" else chosen, "on": on} | summary
    if by_mars.models is not None:
        result["model"] = ", ".join(dict.fromkeys(x for x in decides.models if x)) or "none"
        result["learnt"] = ", ".join(_teach(by_mars, flows, ran, w.cluster)) if by_mars.learn else ""
    _print(result | {"cost": summary["work"] / 3600.0 * price}, engines, as_json, policy)
    if broken := result["edges_not_kept"]:
        complain(f"{broken:,} of {result['edges']:,} edges were not kept: a task began before one that it needs had ended")
    if result["failed"] or result["never_run"] or broken or engines.is_failed():
        raise typer.Exit(1)


def _print(result: dict, engines: Any, as_json: bool, chosen: str) -> None:
    """Print what a run came to; `chosen`: the policy as it was asked for."""
    for note in engines.notes():
        complain(note)
    if as_json:
        print_json(result | ({"outputs": engines.outputs()} if engines.desks else {}))
    else:
        units = {"makespan": "s", "since_begin": "s", "work": "core-s"}
        shown = {k: v for k, v in result.items() if k not in ("workflow", "on") and (v or k not in RARE)}
        rows = [
            [k.replace("_", " "), f"{v:,.1f}" if isinstance(v, float) else f"{v}", units.get(k, "")] for k, v in shown.items()
        ]
        if chosen != result["policy"]:
            rows[0][1] += f" ({chosen})"
        print_table(f"{result['workflow']} on {result['on']}", ["what", "value", "unit"], rows)
        for line in engines.places():
            say(line)


RARE = ("failed", "never_run", "edges_not_kept", "cost", "work", "learnt")  # shown where they are not 0


def _machine(manager: Any, flows: list, io: int) -> Any:
    """The cluster that tasks are for: its cores, and what else it counts that a task asks for."""
    import numpy as np

    counted = manager.pools() | ({"io": io} if io else {})
    more, cores = needed(np.concatenate([f.tasks for f in flows]), counted), manager.cores()[0]
    return resources(processors=cores, **more) if more else pool(cores)


def _teach(how: ByMars, flows: list, ran: list, machine: Any) -> list[str]:
    """Let the models of a store learn from workflows as they ran; a few words for each."""
    said, store, weights = [], Store(str(how.models)), weights_of(how.weights)[0]
    for flow, outcome in zip(flows, ran, strict=True):
        if outcome is None:
            continue
        config = configure("mars+", stream([outcome], cluster=machine), "small").changed(choices=how.learn)
        model = store.for_flow(flow, machine, config, weights)
        try:
            with progress(f"{flow.name} teaches {model.folder}"):
                model.learn_run(outcome)
        except KeyboardInterrupt:
            raise Interrupted("the workflow has run; what it would have taught the store is lost") from None
        said.append(f"{model.folder.name} (run {len(model.about.windows)}; {model.serves} schedules next)")
    return said


def _commands(words: list[str], flows: list, seconds: list[float], w: Any) -> Callable[[int], list[str]]:
    """A function that returns the command of a task by a template."""
    names, programs = [n for f in flows for n in f.names], w.names["app"]

    def command(i: int) -> list[str]:
        values = {"task": names[i], "program": programs[int(w.jobs["app"][i])], "seconds": f"{seconds[i]:.3f}"}
        return [part.format(**values) for part in words]

    return command


def _options(tasks: Tasks, own: bool) -> list[str]:
    """The user's options of sbatch; `own`: do workflows run their own commands? Raises InputError."""
    sbatch = tasks.sbatch
    if tasks.inputs and not own:
        raise InputError("--inputs goes with --executor slurm or --executor processes, and without --command")
    try:
        more = shlex.split(sbatch)
    except ValueError as error:
        raise InputError(f"--sbatch {sbatch!r}: {error}") from None
    if more and not more[0].startswith("-"):
        raise InputError(f"--sbatch {sbatch!r}: options of sbatch are expected, e.g. '-p batch -A chem'")
    return more


def _asked(flows: list, more: list[str]) -> Callable[[int], dict[str, Any]]:
    """A function that returns what a task asks for beside its cores, as its workflow says, and the user's options."""
    import numpy as np

    rows = np.concatenate([f.tasks for f in flows])
    return lambda i: requests(rows[i]["memory"], rows[i]["gpus"], rows[i]["limit"]) | {"more": more}


def _words(command: str) -> list[str]:
    """The command's words. Raises InputError for one that cannot be."""
    try:
        words = shlex.split(command)
        [x.format(task="t", program="p", seconds="1") for x in words]
    except (ValueError, KeyError, IndexError, AttributeError) as error:
        raise InputError(
            f"--command {command!r}: {type(error).__name__}: {error}; {{task}}, {{program}}, {{seconds}} are known"
        ) from None
    if not words:
        raise InputError("--command is empty")
    return words

"""`jobwise mars`: run workflows on a simulated cluster or on the Slurm of this machine."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Optional, cast

import typer

from jobwise.cli.groups import grouped
from jobwise.cli.options import Json, complain, progress
from jobwise.cli.tables import print_json, print_table
from jobwise.errors import InputError, Interrupted


@dataclass(frozen=True)
class Tasks:
    """The command of tasks, and how they are followed."""

    command: Annotated[
        str, typer.Option("--command", help="What a task runs, with {task}, {program}, {seconds}; no shell.")
    ] = "sleep {seconds}"
    scale: Annotated[float, typer.Option("--scale", min=0, help="{seconds}: recorded run time times this.")] = 1.0
    sbatch: Annotated[
        str, typer.Option("--sbatch", help="Further options of sbatch for each task: '-p batch -A chem --qos high'.")
    ] = ""
    retries: Annotated[int, typer.Option("--retries", min=0, max=100, help="Of a task that fails.")] = 1
    poll: Annotated[float, typer.Option("--poll", min=0.05, max=3600, help="s between two looks at Slurm.")] = 1.0


@grouped
def run(
    files: Annotated[
        list[str], typer.Argument(metavar="WORKFLOW...", help="WfFormat JSON, CWL, WDL, or SWF with preceding jobs.")
    ],
    state: Annotated[str, typer.Option("--state", help="Folder of the run: its ledger. A run that was killed goes on there.")],
    on: Annotated[str, typer.Option("--on", help="'simulator' or 'slurm'.")] = "simulator",
    policy: Annotated[
        str,
        typer.Option(
            "--policy",
            "-p",
            help="argbest (the best rule on the estimates), mars (Algorithm 3), a rule, a model, manager.",
        ),
    ] = "argbest",
    procs: Annotated[int, typer.Option("--procs", min=1, max=2**20, help="Cores, of the simulator.")] = 64,
    tasks: Tasks = Tasks(),
    models: Annotated[Optional[str], typer.Option("--models", help="Model store, of `-p mars`.")] = None,
    price: Annotated[float, typer.Option("--price", min=0, help="Of a core-hour.")] = 0.0,
    as_json: Json = False,
) -> None:
    """Run workflows to their end: submit tasks, follow them, submit failed ones again, go on after a kill."""
    from jobwise.policies.names import resolve
    from jobwise.slurm.client import Slurm
    from jobwise.slurm.follow import Following
    from jobwise.slurm.simulated import Simulated
    from jobwise.systems.layer import layer
    from jobwise.systems.mars import argbest
    from jobwise.systems.store import Store
    from jobwise.workloads.source import open_workflow
    from jobwise.workloads.streams import stream

    if on not in ("simulator", "slurm"):
        raise InputError(f"--on {on!r}: simulator or slurm is expected")
    flows = [open_workflow(f) for f in files]
    words, seconds = _words(tasks.command), [float(s) * tasks.scale for f in flows for s in f.tasks["runtime"]]
    manager = Slurm() if on == "slurm" else Simulated(procs, lambda name: seconds[int(name.split(".")[1])])
    w = stream(flows, cluster=manager.cores()[0], name=", ".join(f.name for f in flows)[:200])
    names = [n for f in flows for n in f.names]
    programs = w.names["app"]

    def told(i: int) -> list[str]:
        values = {
            "task": names[i],
            "program": programs[int(w.jobs["app"][i])],
            "seconds": f"{seconds[i]:.3f}",
        }
        return [part.format(**values) for part in words]

    if models is not None and policy != "mars":
        raise InputError("--models goes with -p mars")
    chosen = argbest(w) if policy == "argbest" else policy
    decides: Any = layer(w, flows, Store(models) if models else None) if policy == "mars" else None
    if policy not in ("mars", "manager"):
        decides = resolve(chosen)
    asked = _asked(flows, tasks.sbatch)
    with Following(w, cast(Any, manager), Path(state), told, decides, asked, tasks.retries, poll_s=tasks.poll) as following:
        if all(t.state == "done" for t in following.tasks):
            complain(f"{state}: all {len(w):,} tasks were done already; another --state runs them again")
        try:
            with progress(f"{len(w):,} tasks") as show:
                following.follow(show)
        except KeyboardInterrupt:
            raise Interrupted("what was submitted runs on, and the same command goes on from here") from None
        summary = following.summary()
    result = {"policy": decides.name if policy == "mars" else chosen, "on": on} | summary
    result["cost"] = result["work"] / 3600.0 * price
    if as_json:
        print_json(result)
    else:
        units = {"makespan": "s", "since_begin": "s", "work": "core-s"}
        rows = [
            [k.replace("_", " "), f"{v:,.1f}" if isinstance(v, float) else f"{v}", units.get(k, "")] for k, v in result.items()
        ]
        print_table(f"{len(flows)} workflow{'s' * (len(flows) != 1)} on {on}", ["what", "value", "unit"], rows)
    if result["failed"] or result["never_run"]:
        raise typer.Exit(1)


def _asked(flows, sbatch: str):
    """A function that returns what a task asks of Slurm beside its cores: memory, time, GPUs as its workflow says, and the
    user's options. Raises InputError."""
    import numpy as np

    rows = np.concatenate([f.tasks for f in flows])
    try:
        more = shlex.split(sbatch)
    except ValueError as error:
        raise InputError(f"--sbatch {sbatch!r}: {error}") from None
    if more and not more[0].startswith("-"):
        raise InputError(f"--sbatch {sbatch!r}: options of sbatch are expected, e.g. '-p batch -A chem'")

    def ask(i: int) -> dict[str, Any]:
        x = rows[i]
        out: dict[str, Any] = {"more": [*([f"--gres=gpu:{x['gpus']}"] if x["gpus"] > 0 else []), *more]}
        out |= {"minutes": int(np.ceil(x["limit"] / 60.0))} if x["limit"] > 0 else {}
        return out | ({"memory_mb": float(x["memory"])} if x["memory"] > 0 else {})

    return ask


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

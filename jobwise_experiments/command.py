"""`jobwise reproduce`: a published study by one command."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from jobwise.cli.groups import Parallel
from jobwise.cli.options import Executor, Threads, needs
from jobwise.cli.progress import progress
from jobwise.cli.tables import print_table, say
from jobwise.errors import Interrupted
from jobwise_experiments import ONE_SEED, STUDIES


def reproduce(
    study: Annotated[
        str,
        typer.Argument(help=f"{', '.join(STUDIES)}."),
    ],
    out: Annotated[str, typer.Option("--out", "-o", help="Folder for finished pieces, runs and report.html.")],
    logs: Annotated[Optional[str], typer.Option("--logs", help="Folder with the SWF logs; cush: with GPU logs.")] = None,
    preset: Annotated[str, typer.Option("--preset", help="smoke, small or paper.")] = "small",
    seeds: Annotated[
        Optional[int],
        typer.Option("--seeds", min=1, max=100, help="Default: 5; quality, promise, left-out, power: 1."),
    ] = None,
    executor: Executor = None,
    threads: Threads = 2,
    part: Annotated[
        Optional[list[str]],
        typer.Option("--part", help="Run this part alone, several times for several; a wrong name lists them."),
    ] = None,
    device: Annotated[str, typer.Option("--device", help="Where networks are trained: cpu, cuda, mps or auto.")] = "cpu",
) -> None:
    """Run a published study, its numbers beside ours. The report is one file; an interrupted study goes on where it stopped.

    Examples:
        jobwise reproduce deeprm --out study --preset smoke
    """
    if study not in ("quality", "left-out", "power"):
        needs("learn", "torch", "gymnasium", "tensorboard")
    if study == "telemetry":
        needs("forecast", "pandas", "sklearn")
    from jobwise.report.page import write_study
    from jobwise_experiments.study import reproduce as run_study

    seeds = seeds or (1 if study in ONE_SEED else 5)
    try:
        with progress(f"reproduce {study}") as show, Parallel(executor, threads).workers():
            sections = run_study(
                study, logs, out, preset=preset, seeds=seeds, threads=threads, device=device, show=show, only=part or ()
            )
    except KeyboardInterrupt:
        raise Interrupted("finished pieces are kept, and the same command goes on from there") from None
    for section in sections:
        print(f"\n{section.title}")
        say(section.text)
        for table in section.tables:
            print_table("", list(table.columns), [list(r) for r in table.rows])
    command = f"jobwise reproduce {study} --preset {preset} --seeds {seeds} --threads {threads}"
    command += "".join(f" --part {x}" for x in part or ())
    write_study(command, sections, Path(out))
    print(f"report: {Path(out) / 'report.html'} and report.md")

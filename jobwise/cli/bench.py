"""`jobwise bench`: a benchmark of schedulers that others can enter."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Optional

import typer

from jobwise.cli.groups import Output, grouped
from jobwise.cli.options import logs_like, open_log, policy_option, stoppable
from jobwise.cli.progress import progress
from jobwise.cli.tables import json_text, say, show
from jobwise.compare.bench import ENTRIES, JOBS, LEAST, LOGS, REPLICAS, Entrant, LaterMonths, Policied, Standings, score, task
from jobwise.compare.outside import read_outside
from jobwise.errors import InputError
from jobwise.files import check_writable, lock, write_whole
from jobwise.policies.names import resolve
from jobwise.report.bench import of_bench
from jobwise.report.page import write_study
from jobwise.report.result import Result
from jobwise.workloads.catalogue import LOGS as CATALOGUE

MARK = "BENCH"  # a file of each folder of a benchmark


@grouped
def bench(
    out: Annotated[str, typer.Option("--out", help="Folder of the jobs, the scores, the page.")] = "bench",
    policy: Annotated[
        Optional[list[str]],
        policy_option(help="An entry beside the fixed ones: a rule, a policy file, FILE.py:NAME+easy. Repeat it."),
    ] = None,
    outside: Annotated[
        Optional[list[str]], typer.Option("--outside", help="TOML: programs that schedule a log by themselves.")
    ] = None,
    log: Annotated[
        Optional[list[str]],
        typer.Option("--log", help=f"Other logs than the fixed ones ({', '.join(LOGS)}).", autocompletion=logs_like),
    ] = None,
    jobs: Annotated[int, typer.Option("--jobs", min=LEAST, help="Later jobs of each log, at most.")] = JOBS,
    seed: Annotated[int, typer.Option("--seed", min=0, max=2**31 - 1, help="Of the replicas.")] = 0,
    fresh: Annotated[bool, typer.Option("--fresh", help="Score all entries anew.")] = False,
    output: Output = Output(),
) -> None:
    """Judge schedulers on later months of fixed logs: rules, the zoo, yours, and programs of others.

    What has been scored in the folder is not run again, so that an entry can be added, and a stopped run goes on.

    Examples:
        jobwise bench
        jobwise bench -p mine.py:widest_first+easy
    """
    names = dict.fromkeys([*ENTRIES, *(policy or [])])
    entries: list[Entrant] = [
        *(Policied(resolve(x), x) for x in names),
        *(x for file in outside or () for x in read_outside(file)),
    ]
    labels = [x.name for x in entries]
    if len(set(labels)) < len(labels):
        raise InputError(f"{next(x for x in labels if labels.count(x) > 1)} is entered twice")
    folder = _folder(out)
    with lock(folder / ".lock", f"{out}: another benchmark is run there"):
        result = _result(entries, log or LOGS, folder, jobs, seed, fresh)
        write_study("jobwise bench", result.sections(None), folder)
        write_whole(folder / "results.json", json_text(result.to_dict()) + "\n")
    show(result, output.as_json)
    if not output.as_json:
        say(f"written: {folder / 'report.html'}, report.md, results.json")


def _result(entries: Sequence[Entrant], logs: Sequence[str], folder: Path, jobs: int, seed: int, fresh: bool) -> Result:
    """Let all entries schedule the later months of the logs. Raises InputError."""
    tasks: list[LaterMonths] = []
    for name in logs:
        w = open_log(name, None)
        label = Path(name).name.split(".")[0]
        if label in [t.name for t in tasks]:
            raise InputError(f"two logs are named {label}")
        tasks.append(task(label, w, folder / label, jobs, seed, "of the catalogue" if name in CATALOGUE else "a file"))
    total, done = len(entries) * len(tasks) * (REPLICAS + 1), 0
    with stoppable(f"{folder} keeps what is scored; the same command goes on"), progress("scoring") as bar:

        def step(count: int) -> None:
            nonlocal done
            done += count
            if bar:
                bar(done, total)

        first, *others = entries
        scores = [[score(first, t, step, fresh) for t in tasks]]
        if failed := next((x.error for x in scores[0] if x.error), ""):
            raise InputError(f"the reference, {first.name}, has no score: {failed}")
        scores += [[score(x, t, step, fresh) for t in tasks] for x in others]
    return of_bench(Standings(entries, tasks, scores))


def _folder(out: str) -> Path:
    """Return the folder of a benchmark, made where it is missing. Raises InputError where it holds something else."""
    folder = Path(out)
    if folder.is_dir() and any(folder.iterdir()) and not (folder / MARK).is_file():
        raise InputError(f"{out}: holds something else than a benchmark; name a folder of its own (--out)")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{out}: cannot be made: {error.strerror}") from None
    check_writable(folder / MARK)
    write_whole(folder / MARK, "jobwise bench writes here, and keeps its scores\n")
    return folder

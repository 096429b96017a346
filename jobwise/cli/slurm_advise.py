"""`jobwise slurm advise`: what a policy, shorter limits, other settings would do for a site."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from jobwise.cli.options import Json, Seed, policy_option
from jobwise.cli.progress import progress
from jobwise.cli.slurm_when import Folder, Keep, outputs
from jobwise.cli.tables import print_json, print_table, say
from jobwise.errors import InputError
from jobwise.live import sources
from jobwise.live.advice import ended, limits, lines, moves
from jobwise.live.starts import predict
from jobwise.slurm.read.site import read

SHOWN = 10


def _looked_at(folder: Path, tune: bool) -> tuple[Any, Any, str]:
    """(the cluster now, None for a folder without a queue; its jobs that have ended; what is lacking). Raises InputError."""
    if not (folder / "squeue.json").is_file() and (folder / "sacct.txt").is_file():
        return None, read(folder), ""
    c = sources.look(folder)
    try:
        return c, ended(c), ""
    except InputError as error:
        if not c.waiting:
            raise
        return c, None, f"{error}: nothing is said of time limits{' and settings' if tune else ''}"


def advise(
    policy: Annotated[str, policy_option(help="Whose order is set beside Slurm's.")] = "jobwise",
    tune: Annotated[bool, typer.Option("--tune", help="Also search settings of slurm.conf (minutes).")] = False,
    folder: Folder = None,
    keep: Keep = None,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Advise this cluster: whose place a policy would change, whose limits are too long, lines for slurm.conf. Only reads.

    A folder as `jobwise slurm site` reads it has no queue: limits and settings are looked at.

    Examples:
        jobwise slurm advise
        jobwise slurm advise --folder live
    """
    with outputs(folder, keep) as printed:
        c, w, lacking = _looked_at(printed, tune)
    diff, users, verdict = list[str](), list[Any](), ""
    with progress("predicting starts") as show:
        changed = moves(predict(c, seed=seed, progress=show), policy) if c and c.waiting else []
    if w is not None:
        with progress("replaying with shorter limits") as show:
            users = limits(w, show)
    if tune and w is not None:
        with progress("tuning") as show:
            try:
                diff, verdict = lines(w, progress=show)
            except InputError as error:
                verdict = str(error)
    if as_json:
        people = [vars(x) | {"mail": x.words()} for x in users]
        print_json(
            {"policy": policy, "moves": changed, "limits": people}
            | ({"diff": diff, "verdict": verdict} if tune else {})
            | ({"lacking": lacking} if lacking else {})
        )
        return
    if not c:
        say("the folder has no squeue.json, so no job waits there: limits and settings are looked at")
    elif changed:
        cells = [[str(x["job"]), x["user"], f"{x['place']:,}", f"{x['wanted']:,}", x["why"]] for x in changed[:SHOWN]]
        title = f"{len(changed):,} of {len(c.waiting):,} waiting jobs would change places under {policy}"
        print_table(title, ["job", "user", "place now", "wanted", "why"], cells)
    else:
        say(f"no waiting job would change its place under {policy}")
    for x in users:
        say(x.words())
    if lacking:
        say(lacking)
    elif not users:
        say("no user is known who would have waited much less with shorter time limits")
    if tune and not lacking:
        for line in diff:
            say(line)
        say(verdict)

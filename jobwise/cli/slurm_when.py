"""`jobwise slurm when`: predicted starts on a running cluster."""

from __future__ import annotations

import getpass
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Optional

import typer

from jobwise.cli.groups import grouped
from jobwise.cli.options import Json, Seed, policy_option
from jobwise.cli.progress import progress
from jobwise.cli.tables import complain, print_json, print_table, say
from jobwise.cli.when import SHOWN, by, chances, headed, say_offers, short
from jobwise.errors import InputError
from jobwise.live import sources
from jobwise.live.sources import Now, Waiting
from jobwise.live.starts import Predicted, in_words, predict
from jobwise.slurm.client import Slurm

FEW = 3  # jobs that wait: of so few each is explained
Folder = Annotated[
    Optional[str], typer.Option("--folder", help="Outputs of the commands that --keep has written, in place of a cluster.")
]
Keep = Annotated[Optional[str], typer.Option("--keep", help="Keep what Slurm's commands print in this new folder.")]
Policy = Annotated[str, policy_option(help="slurm, or a list scheduler: who decides from now on.")]
Sooner = Annotated[bool, typer.Option("--sooner", help="What would start sooner, for each job shown.")]


@contextmanager
def outputs(folder: str | None, keep: str | None) -> Iterator[Path]:
    """A folder with what Slurm's commands print: the named one, else a new one, filled now and kept as `keep`. Raises
    InputError."""
    if folder and keep:
        raise InputError("--folder reads a folder, --keep writes one; name one of them")
    if keep and Path(keep).exists():
        raise InputError(f"{keep}: exists already; name a new folder")
    if folder:
        yield Path(folder)
        return
    with tempfile.TemporaryDirectory(prefix="jobwise-") as place:
        filled = Path(place) / sources.HERE
        sources.fetch(Slurm(), filled)
        if why := sources.hidden(filled):
            complain(f"{why}; predicted as if there were none", "note")
        if keep:
            shutil.copytree(filled, keep)
        yield filled


@dataclass(frozen=True)
class Answer:
    """Answer: of which cluster, under which policy, in which form."""

    policy: Policy = "slurm"
    folder: Folder = None
    keep: Keep = None
    earlier: Annotated[
        Optional[int],
        typer.Option(
            "--earlier",
            min=0,
            help="Starts of the past that calibrate intervals; fewer are faster. [default: 60]",
            show_default=False,
        ),
    ] = None
    seed: Seed = 0
    as_json: Json = False

    def predicted(self, cluster: Now, what: str = "predicting starts") -> Predicted:
        """Return the starts of its jobs, with progress. Raises InputError."""
        with progress(what) as show:
            return predict(cluster, self.policy, earlier=self.earlier, seed=self.seed, progress=show)


def _as_json(p, rows: list[dict], out: list[Waiting], offers: dict[int, list], policy: str) -> None:
    """Print the predictions, the offers that are worth telling, and which jobs cannot start yet, as JSON."""
    jobs = [dict(x) for x in rows]
    for x in jobs:
        if x["job"] in offers:
            x["sooner"] = [o.to_dict() for o in offers[x["job"]] if o.worth_telling]
    about = {"policy": policy, "running": p.starts.running, "method": by(p.starts)}
    print_json(about | {"jobs": jobs, "cannot_start": [{"job": x.id, "user": x.user, "reason": x.reason} for x in out]})


def _as_table(p, rows: list[dict], offers: dict[int, list], policy: str) -> None:
    """Print a table of the first SHOWN, why the jobs of a short queue wait, and what was offered."""
    cells = []
    for x in rows[:SHOWN]:
        name = str(x["job"]) + (f"_[{x['tasks']}]" if x["tasks"] > 1 else "")
        plan = "" if x["slurm"] is None else short(x["slurm"])
        cells.append([name, x["user"], f"{x['cpus']:,}", short(x["limit"]), short(x["waited"]), *chances(x), plan])
    columns = ["job", "user", "cpus", "limit", "waited", *headed(), "Slurm says"]
    print_table(f"{len(p.starts.rows):,} jobs wait and may start, {p.starts.running:,} run", columns, cells)
    for x in rows if len(rows) <= FEW else []:
        ends = f"; first of all {', '.join(map(str, x['frees']))} have to end" if x["frees"] else ""
        say(f"job {x['job']}: {x['why']}; {x['ahead']:,} start before it{ends}")
    if len(rows) > SHOWN:
        say(f"{len(rows) - SHOWN:,} more; --json has all")
    for id, own in offers.items():
        say_offers(own, f"job {id}")
    if offers and not any(o.worth_telling for own in offers.values() for o in own):
        say("nothing that was tried (a shorter limit, fewer nodes, another partition or QOS) is likely to start much sooner")
    say(f"by {by(p.starts)}, under {policy}")


@grouped
def when(
    job: Annotated[Optional[list[int]], typer.Argument(metavar="[JOBID]...", help="Only these jobs.")] = None,
    user: Annotated[Optional[str], typer.Option("--user", help="Only jobs of this user.")] = None,
    mine: Annotated[bool, typer.Option("--mine", help="Only my jobs.")] = False,
    sooner: Sooner = False,
    answer: Answer = Answer(),
) -> None:
    """When will waiting jobs of this cluster start, and why do they wait?

    Examples:
        jobwise slurm when
        jobwise slurm when --folder live
    """
    with outputs(answer.folder, answer.keep) as printed:
        cluster = sources.look(printed)
    user = getpass.getuser() if mine else user
    p = answer.predicted(cluster)
    rows = [x for x in p.rows() if (not job or x["job"] in job) and (user is None or x["user"] == user)]
    out = [x for x in cluster.out.values() if (not job or x.id in job) and (user is None or x.user == user)]
    if job and (missing := sorted(set(job) - {x["job"] for x in rows} - {x.id for x in out})):
        raise InputError(f"job {missing[0]} does not wait")
    if rows or answer.as_json:
        offers = {x["job"]: p.sooner(x["job"]) for x in (rows[:SHOWN] if sooner else [])}
        if answer.as_json:
            _as_json(p, rows, out, offers, answer.policy)
        else:
            _as_table(p, rows, offers, answer.policy)
    elif not out:
        say("no job waits")
    for x in [] if answer.as_json else out[:SHOWN]:
        say(f"job {x.id}: {in_words(x.reason)}")

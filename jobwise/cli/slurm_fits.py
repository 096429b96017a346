"""`jobwise slurm fits`: when a job would start that is not submitted yet, and what would start sooner."""

from __future__ import annotations

import getpass
import shlex
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Annotated, Any, NamedTuple, Optional

import numpy as np
import typer

from jobwise.cli.groups import grouped
from jobwise.cli.slurm_when import Answer, outputs
from jobwise.cli.tables import print_json, print_table, say
from jobwise.cli.when import chances, due, headed, say_offers, span
from jobwise.compare.comparison import several
from jobwise.errors import InputError
from jobwise.live import sources
from jobwise.live.alternatives import elsewhere
from jobwise.live.new_job import Submitted, submitted
from jobwise.live.starts import Predicted, predict
from jobwise.slurm.read.batch import Batch, lines_of, read_batch, time_limit
from jobwise.slurm.read.jobs import NEW
from jobwise.slurm.read.startable import never
from jobwise.starts.sooner import LEAST_S

ALL = "all"  # partitions
BEYOND = ("dependency", "array", "begin", "hold", "reservation")  # options that no prediction of one new job has
FEW, ROUGH = 100, 8  # jobs that ended; futures of a rough answer
SIZES = (  # options that say which nodes will do
    *("nodes", "ntasks", "ntasks-per-node", "cpus-per-task", "mem", "mem-per-cpu", "gpus", "gpus-per-node", "gpus-per-task"),
    *("gres", "constraint", "nodelist", "exclusive"),
)


@dataclass(frozen=True)
class NewJob:
    """New job: what it would ask for, and who would submit it where."""

    procs: Annotated[Optional[int], typer.Option("--procs", min=1, help="CPUs.")] = None
    time: Annotated[
        Optional[str], typer.Option("--time", metavar="TIME", help="Time limit: 90m, 12h, 2d; by default the partition's.")
    ] = None
    batch: Annotated[
        Optional[str], typer.Option("--batch", help="A script: what its #SBATCH lines ask for. Other options count more.")
    ] = None
    partition: Annotated[
        Optional[str],
        typer.Option("--partition", help="Partition; by default Slurm's default; `all`: each beside the others."),
    ] = None
    nodes: Annotated[Optional[int], typer.Option("--nodes", min=1, help="Nodes.")] = None
    gpus: Annotated[Optional[int], typer.Option("--gpus-per-node", min=0, help="GPUs of each node.")] = None
    mem: Annotated[Optional[str], typer.Option("--mem", help="Memory of each node, as sbatch takes it: 16G.")] = None
    account: Annotated[str, typer.Option("--account", help="Account; by default that of most of the user's jobs.")] = ""
    qos: Annotated[str, typer.Option("--qos", help="QOS; by default the user's default.")] = ""
    user: Annotated[Optional[str], typer.Option("--user", help="Who would submit it; by default you.")] = None

    @cached_property
    def asks(self) -> Batch:
        """What it asks for: by its script, or by options. Raises InputError."""
        words = [f"--ntasks={self.procs}", *(["--cpus-per-task=1"] if self.batch else [])] if self.procs else []
        words += [f"--nodes={self.nodes}"] if self.nodes else []
        words += [f"--mem={self.mem}"] if self.mem else []
        words += [f"--gpus-per-node={self.gpus}"] if self.gpus else []
        limit = time_limit(self.time) if self.time else None
        if self.batch:
            asks = read_batch(self.batch, words)
            return asks._replace(limit=limit) if limit else asks
        if not self.procs:
            raise InputError("what would be submitted? --procs N [--time TIME], or --batch SCRIPT")
        return Batch(shlex.join(words), {}, self.procs, limit)

    def submitted(self, printed: Path, partition: str | None) -> Submitted:
        """Return the cluster of a folder with it in its queue. Raises InputError."""
        who = self.user or getpass.getuser()
        return submitted(printed, self.asks, who, account=self.account, qos=self.qos, partition=partition)


class Place(NamedTuple):
    """Where the new job would start: in which queue, the predictions of the cluster, and its own row of them."""

    queue: Submitted
    predicted: Predicted
    row: dict[str, Any]


@grouped
def fits(
    job: NewJob = NewJob(),
    cluster: Annotated[
        Optional[list[str]],
        typer.Option("--cluster", help="NAME=FOLDER as --keep writes it; repeat it: where does it start first?"),
    ] = None,
    rough: Annotated[bool, typer.Option("--rough", help="Print a rough answer first, of few futures (not in JSON).")] = False,
    answer: Answer = Answer(),
) -> None:
    """When would a job start that has not been submitted yet, and what would start sooner?

    Examples:
        jobwise slurm fits --procs 32 --time 2h --folder live
        jobwise slurm fits --batch job.sh
    """
    if cluster and (answer.folder or answer.keep):
        raise InputError("--cluster names the folders; leave --folder and --keep out")
    placed = partial(_placed, job, answer, rough)
    with ExitStack() as stack:
        folders = _folders(cluster) if cluster else {"": stack.enter_context(outputs(answer.folder, answer.keep))}
        if cluster or job.partition == ALL:
            _beside(job, folders, placed, answer.as_json)
            return
        place = placed(folders[""], job.partition)
    _alone(job, place, answer.as_json)


def _folders(clusters: list[str]) -> dict[str, Path]:
    """{name: folder} of NAME=FOLDER. Raises InputError."""
    out: dict[str, Path] = {}
    for text in clusters:
        name, equal, folder = text.partition("=")
        if not equal or not name or not folder or name in out:
            raise InputError(f"--cluster {text!r}: NAME=FOLDER is expected, each name once")
        if not Path(folder).is_dir():
            raise InputError(f"--cluster {text!r}: {folder} is no folder; `jobwise slurm when --keep FOLDER` writes one there")
        out[name] = Path(folder)
    return out


def _placed(job: NewJob, answer: Answer, rough: bool, printed: Path, partition: str | None, of: str = "") -> Place:
    """Predict the start of the new job on a cluster, in a partition; `of`: their name; `rough`: print a rough answer first.
    Raises InputError where it cannot start."""
    queue = job.submitted(printed, partition)
    now, name = queue.now, queue.partition
    row = now.row(NEW)
    if row < 0:
        sizes = {k: v for k, v in job.asks.options.items() if k in SIZES}
        asked = " ".join(f"--{k}={v}" for k, v in sizes.items()) or job.asks.words
        raise InputError(f"no nodes of partition {name} can hold `{asked}`; {_largest(now, name)}")
    for what, bad, most in never(now.workload):
        if bad[row]:
            is_time = what.startswith(("MaxTime", "MaxWall"))
            amount = "" if np.isnan(most[row]) else f" is {span(most[row]) if is_time else f'{most[row]:,.0f}'}"
            others = [x.words for x in elsewhere(now, row)]
            allows = f"; {' or '.join(others)} would allow it" if others else ""
            raise InputError(f"the job would never start in partition {name}: {what}{amount}{allows}")
    if rough and not answer.as_json:
        early = predict(now, answer.policy, earlier=0, count=ROUGH, seed=answer.seed).rows()
        for x in (x for x in early if x["job"] == NEW):
            say(f"roughly: {_said(job.asks, x | {'partition': name})}")
    p = answer.predicted(now, f"predicting starts{of and ': '}{of}")
    rows = [x | {"job": "new", "partition": name} for x in p.rows() if x["job"] == NEW]
    if not rows:
        raise InputError(f"the job would never start in partition {name}")
    return Place(queue, p, rows[0] | {"assumed": queue.assumed})


def _said(asks: Batch, x: dict[str, Any]) -> str:
    """When the job starts and ends, in words, of its row of predictions."""
    a, b = x["start_80"]
    says = f"starts {due(x['start'])} (80 %: {span(a)} to {span(b)}), ends {due(x['end'])}"
    return f"{several(asks.cpus, 'CPU')} for {span(x['limit'])} in {x['partition']}: {says}"


def _largest(now: sources.Now, name: str) -> str:
    """The largest amounts of a node of a partition, in words."""
    site, cluster = now.workload.cluster.known_site, now.workload.cluster
    own = site.sets[site.partitions["set"][site.partition_names.index(name)]].astype(bool)
    cpus, memory, gpus = cluster.capacity[own].max(axis=0).tolist()
    return f"its largest node has {several(cpus, 'CPU')}, {memory / 1024:,.0f} GiB, {several(gpus, 'GPU')}"


def _alone(job: NewJob, place: Place, as_json: bool) -> None:
    """Print when the job starts, and what would start it sooner; with the line of its script that would change."""
    x, offers, now, asks = place.row, place.predicted.sooner(NEW), place.queue.now, job.asks
    site = now.workload.cluster.known_site
    ask = site.asks[now.workload.jobs["ask"][now.row(NEW)]]
    lines = {
        o.change.words: lines_of(o.change.fields, site, ask, o.change.again) for o in offers if job.batch and o.worth_telling
    }
    if as_json:
        own = {words: {"line": "\n".join(changed)} for words, changed in lines.items() if changed}
        print_json(x | {"sooner": [o.to_dict() | own.get(o.change.words, {}) for o in offers if o.worth_telling]})
        return
    say(_said(asks, x))
    if beyond := [f"--{option}" for option in BEYOND if option in asks.options]:
        say(f"note: predicted as if it were without {' and '.join(beyond)}")
    if place.queue.assumed:
        say(f"note: {'; '.join(place.queue.assumed)}")
    if (ended := len(now.workload) - len(now.live)) < FEW:
        say(f"note: {several(ended, 'job')} that ended {'is' if ended == 1 else 'are'} all that is known of how long jobs run")
    say_offers(offers)
    if not any(o.worth_telling for o in offers) and x["start"] > LEAST_S:
        say("nothing that was tried (a shorter limit, fewer nodes, another partition or QOS) is likely to start it much sooner")
    for words, changed in lines.items():
        say(f"{words}: {changed[0]}" if len(changed) == 1 else f"{words}:")
        for line in changed if len(changed) > 1 else ():
            say(f"  {line}")


def _beside(job: NewJob, folders: dict[str, Path], placed: Callable[..., Place], as_json: bool) -> None:
    """Print where the job starts first, of several clusters and partitions. Raises InputError where it fits nowhere."""
    rows, cannot, asks = list[dict](), list[str](), job.asks
    for label, folder in folders.items():
        site = sources.look(folder).workload.cluster.known_site
        for name in site.partition_names if job.partition == ALL else (job.partition,):
            where = " ".join(filter(None, [label, name or ""])) or "the cluster"
            try:
                rows.append(placed(folder, name, of=where).row | {"cluster": label})
            except InputError as error:
                cannot.append(f"{where}: {error}")
    if not rows:
        raise InputError(f"it fits nowhere ({'; '.join(cannot)})")
    rows.sort(key=lambda x: x["start"])
    if as_json:
        print_json({"cpus": asks.cpus, "limit": asks.limit, "places": rows, "cannot": cannot})
        return
    heads = [*(["cluster"] if "" not in folders else []), "partition", *headed()]
    cells = [[*([x["cluster"]] if "" not in folders else []), x["partition"], *chances(x)] for x in rows]
    limit = f"for {span(asks.limit)}" if asks.limit else "without a time limit of its own"
    print_table(f"{several(asks.cpus, 'CPU')} {limit}: where it starts first", heads, cells)
    for text in [*dict.fromkeys(f"note: {a}" for x in rows for a in x["assumed"]), *cannot]:
        say(text)

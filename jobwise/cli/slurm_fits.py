"""`jobwise slurm fits`: when a job would start that is not submitted yet, and what would start sooner."""

from __future__ import annotations

import getpass
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NamedTuple, Optional

import typer

from jobwise.cli.groups import grouped
from jobwise.cli.options import Json, Seed
from jobwise.cli.progress import progress
from jobwise.cli.slurm_when import Folder, Keep, Policy, outputs
from jobwise.cli.tables import print_json, print_table, say
from jobwise.cli.when import chances, due, headed, say_offers, span
from jobwise.compare.comparison import several
from jobwise.errors import InputError
from jobwise.live import sources
from jobwise.live.starts import Predicted, predict
from jobwise.slurm.read.batch import Batch, lines_of, read_batch, time_limit
from jobwise.slurm.read.jobs import NEW
from jobwise.slurm.read.startable import never

ALL = "all"  # partitions
BEYOND = ("dependency", "array", "begin", "hold", "reservation")  # options that no prediction of one new job has
FEW = 100  # jobs that ended


@dataclass(frozen=True)
class NewJob:
    """New job: what it would ask for, and who would submit it where."""

    procs: Annotated[Optional[int], typer.Option("--procs", min=1, help="CPUs.")] = None
    time: Annotated[Optional[str], typer.Option("--time", metavar="TIME", help="Time limit: 90m, 12h, 2d, 2:00:00.")] = None
    batch: Annotated[Optional[str], typer.Option("--batch", help="A script: what its #SBATCH lines ask for.")] = None
    partition: Annotated[
        Optional[str],
        typer.Option("--partition", help="Partition; by default that of most jobs; `all`: each beside the others."),
    ] = None
    nodes: Annotated[Optional[int], typer.Option("--nodes", min=1, help="Nodes.")] = None
    gpus: Annotated[Optional[int], typer.Option("--gpus-per-node", min=0, help="GPUs of each node.")] = None
    account: Annotated[str, typer.Option("--account", help="Account.")] = ""
    user: Annotated[Optional[str], typer.Option("--user", help="Who would submit it; by default you.")] = None

    def asks(self) -> Batch:
        """Return what it asks for: by its script, or by options. Raises InputError."""
        if self.batch:
            if self.procs or self.time or self.nodes or self.gpus:
                raise InputError("--batch says what the job asks for; leave --procs, --time, --nodes and --gpus-per-node out")
            return read_batch(self.batch)
        if not self.procs or not self.time:
            raise InputError("what would be submitted? --procs N --time TIME, or --batch SCRIPT")
        limit = time_limit(self.time)
        words = f"-n {self.procs} -t {limit / 60:.0f}"
        words += (f" -N {self.nodes}" if self.nodes else "") + (f" --gpus-per-node={self.gpus}" if self.gpus else "")
        return Batch(words, {}, self.procs, limit)

    def queued(self, printed: Path, asks: Batch, partition: str | None) -> tuple[str, sources.Now]:
        """Return (the partition that it goes to, the cluster with it in its queue). Raises InputError."""
        from collections import Counter

        cluster = sources.look(printed)
        w = cluster.workload
        usual = Counter(w.jobs["partition"].tolist()).most_common(1)[0][0]
        name = partition or asks.options.get("partition", "").split(",")[0] or w.names["partition"][usual].split(",")[0]
        if name not in w.cluster.known_site.partition_names:
            raise InputError(f"--partition {name!r}: the cluster has {', '.join(w.cluster.known_site.partition_names)}")
        account, now = self.account or asks.options.get("account", ""), cluster.now + w.origin
        who, minutes = self.user or getpass.getuser(), round(asks.limit / 60)
        return name, sources.look(printed, sources.asked(asks.words, who, account, name, asks.cpus, minutes, now))


class Place(NamedTuple):
    """Where the new job would start: the predictions of the cluster, and its own row of them."""

    now: sources.Now
    predicted: Predicted
    row: dict[str, Any]


@grouped
def fits(
    job: NewJob = NewJob(),
    cluster: Annotated[
        Optional[list[str]],
        typer.Option("--cluster", help="NAME=FOLDER as --keep writes it; repeat it: where does it start first?"),
    ] = None,
    policy: Policy = "slurm",
    folder: Folder = None,
    keep: Keep = None,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """When would a job start that has not been submitted yet, and what would start sooner?

    Examples:
        jobwise slurm fits --procs 32 --time 2h --folder live
        jobwise slurm fits --batch job.sh
    """
    asks = job.asks()
    if cluster and (folder or keep):
        raise InputError("--cluster names the folders; leave --folder and --keep out")
    placed = partial(_placed, job, asks, policy, seed)
    with ExitStack() as stack:
        folders = _folders(cluster) if cluster else {"": stack.enter_context(outputs(folder, keep))}
        if cluster or job.partition == ALL:
            _beside(asks, folders, job.partition, placed, as_json)
            return
        place = placed(folders[""], job.partition)
    _alone(asks, place, job.batch, as_json)


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


def _placed(job: NewJob, asks: Batch, policy: str, seed: int, printed: Path, partition: str | None, of: str = "") -> Place:
    """Predict the start of the new job on a cluster, in a partition; `of`: their name. Raises InputError where it cannot
    start."""
    name, now = job.queued(printed, asks, partition)
    row = now.row(NEW)
    if row < 0:
        raise InputError(f"no nodes of partition {name} can hold `{asks.words}`; {_largest(now, name)}")
    if limits := [what for what, bad in never(now.workload) if bad[row]]:
        raise InputError(f"the job would never start in partition {name}: {limits[0]}")
    with progress(f"predicting starts{of and ': '}{of}") as show:
        p = predict(now, policy, seed=seed, progress=show)
    rows = [x | {"job": "new", "partition": name} for x in p.rows() if x["job"] == NEW]
    if not rows:
        raise InputError(f"the job would never start in partition {name}")
    return Place(now, p, rows[0])


def _largest(now: sources.Now, name: str) -> str:
    """The largest amounts of a node of a partition, in words."""
    site, cluster = now.workload.cluster.known_site, now.workload.cluster
    own = site.sets[site.partitions["set"][site.partition_names.index(name)]].astype(bool)
    cpus, memory, gpus = cluster.capacity[own].max(axis=0).tolist()
    return f"its largest node has {several(cpus, 'CPU')}, {memory / 1024:,.0f} GiB, {several(gpus, 'GPU')}"


def _alone(asks: Batch, place: Place, script: str | None, as_json: bool) -> None:
    """Print when the job starts, and what would start it sooner; with the line of its `script` that would change."""
    x, offers, site = place.row, place.predicted.sooner(NEW), place.now.workload.cluster.known_site
    ask = site.asks[place.now.workload.jobs["ask"][place.now.row(NEW)]]
    lines = {o.change.words: lines_of(o.change.fields, site, ask) for o in offers if script and o.worth_telling}
    if as_json:
        own = {words: {"line": "\n".join(changed)} for words, changed in lines.items() if changed}
        print_json(x | {"sooner": [o.to_dict() | own.get(o.change.words, {}) for o in offers if o.worth_telling]})
        return
    a, b = x["start_80"]
    says = f"starts {due(x['start'])} (80 %: {span(a)} to {span(b)}), ends {due(x['end'])}"
    say(f"{several(asks.cpus, 'CPU')} for {span(asks.limit)} in {x['partition']}: {says}")
    if beyond := [f"--{option}" for option in BEYOND if option in asks.options]:
        say(f"note: predicted as if it were without {' and '.join(beyond)}")
    if (ended := len(place.now.workload) - len(place.now.live)) < FEW:
        say(f"note: {several(ended, 'job')} that ended {'is' if ended == 1 else 'are'} all that is known of how long jobs run")
    say_offers(offers)
    for words, changed in lines.items():
        say(f"{words}: {changed[0]}" if len(changed) == 1 else f"{words}:")
        for line in changed if len(changed) > 1 else ():
            say(f"  {line}")


def _beside(asks: Batch, folders: dict[str, Path], partition: str | None, placed: Callable[..., Place], as_json: bool) -> None:
    """Print where the job starts first, of several clusters and partitions. Raises InputError where it fits nowhere."""
    rows, cannot = list[dict](), list[str]()
    for label, folder in folders.items():
        site = sources.look(folder).workload.cluster.known_site
        for name in site.partition_names if partition == ALL else (partition,):
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
    print_table(f"{several(asks.cpus, 'CPU')} for {span(asks.limit)}: where it starts first", heads, cells)
    for text in cannot:
        say(text)

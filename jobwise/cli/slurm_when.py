"""`jobwise slurm when`, `fits`: predicted starts on a running cluster."""

from __future__ import annotations

import getpass
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated, Optional

import typer

from jobwise.cli.options import Json, Seed, policy_option
from jobwise.cli.progress import progress
from jobwise.cli.tables import print_json, print_table, say
from jobwise.cli.when import SHOWN, by, chances, headed, say_offers, seconds, short, span
from jobwise.errors import InputError
from jobwise.live import sources
from jobwise.live.starts import in_words, predict
from jobwise.slurm.client import Slurm
from jobwise.slurm.read.batch import Batch, line_of, read_batch

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
        if keep:
            shutil.copytree(filled, keep)
        yield filled


def _shown(p, rows: list[dict], sooner: bool, policy: str, as_json: bool) -> None:
    """Print the predictions, with what would start the first SHOWN `sooner`: a table, or JSON."""
    offers = {x["job"]: p.sooner(x["job"]) for x in (rows[:SHOWN] if sooner else [])}
    (_as_json if as_json else _as_table)(p, rows, offers, policy)


def _as_json(p, rows: list[dict], offers: dict[int, list], policy: str) -> None:
    """Print the predictions, the offers that are worth telling, and who cannot start yet, as JSON."""
    jobs = [dict(x) for x in rows]
    for x in jobs:
        if x["job"] in offers:
            x["sooner"] = [o.to_dict() for o in offers[x["job"]] if o.worth_telling]
    out = [{"job": x.id, "user": x.user, "reason": x.reason} for x in p.cluster.out.values()]
    about = {"policy": policy, "running": p.starts.running, "method": by(p.starts)}
    print_json(about | {"jobs": jobs, "cannot_start": out})


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


def when(
    job: Annotated[Optional[list[int]], typer.Argument(metavar="[JOBID]...", help="Only these jobs.")] = None,
    user: Annotated[Optional[str], typer.Option("--user", help="Only jobs of this user.")] = None,
    mine: Annotated[bool, typer.Option("--mine", help="Only my jobs.")] = False,
    policy: Policy = "slurm",
    sooner: Sooner = False,
    folder: Folder = None,
    keep: Keep = None,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """When will waiting jobs of this cluster start, and why do they wait?

    Examples:
        jobwise slurm when
        jobwise slurm when --folder live
    """
    with outputs(folder, keep) as printed:
        cluster = sources.look(printed)
    user = getpass.getuser() if mine else user
    with progress("predicting starts") as show:
        p = predict(cluster, policy, seed=seed, progress=show)
    rows = [x for x in p.rows() if (not job or x["job"] in job) and (user is None or x["user"] == user)]
    out = [x for x in cluster.out.values() if (not job or x.id in job) and (user is None or x.user == user)]
    if job and (missing := sorted(set(job) - {x["job"] for x in rows} - {x.id for x in out})):
        raise InputError(f"job {missing[0]} does not wait")
    if rows or as_json:
        _shown(p, rows, sooner, policy, as_json)
    elif not out:
        say("no job waits")
    for x in [] if as_json else out[:SHOWN]:
        say(f"job {x.id}: {in_words(x.reason)}")


def fits(
    procs: Annotated[Optional[int], typer.Option("--procs", min=1, help="CPUs.")] = None,
    time: Annotated[Optional[str], typer.Option("--time", metavar="TIME", help="Time limit: 90m, 12h, 2d.")] = None,
    batch: Annotated[Optional[str], typer.Option("--batch", help="A script: what its #SBATCH lines ask for.")] = None,
    partition: Annotated[
        Optional[str],
        typer.Option("--partition", help="Partition; by default that of most jobs; `all`: each beside the others."),
    ] = None,
    cluster: Annotated[
        Optional[list[str]],
        typer.Option("--cluster", help="NAME=FOLDER as --keep writes it; repeat it: where does it start first?"),
    ] = None,
    nodes: Annotated[Optional[int], typer.Option("--nodes", min=1, help="Nodes.")] = None,
    gpus: Annotated[Optional[int], typer.Option("--gpus-per-node", min=0, help="GPUs of each node.")] = None,
    account: Annotated[str, typer.Option("--account", help="Account.")] = "",
    user: Annotated[Optional[str], typer.Option("--user", help="Who would submit it; by default you.")] = None,
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
    asked, who = _asked(procs, time, batch, nodes, gpus), user or getpass.getuser()
    if cluster or partition == ALL:
        if cluster and (folder or keep):
            raise InputError("--cluster names the folders; leave --folder and --keep out")
        with ExitStack() as stack:
            named = _named(cluster) if cluster else {"": stack.enter_context(outputs(folder, keep))}
            _beside(asked, named, partition, account, who, policy, seed, as_json)
        return
    with outputs(folder, keep) as printed:
        name, now = _with_new(printed, asked, partition, account, who)
    if now.row(sources.NEW) < 0:
        raise InputError(f"no nodes of partition {name} can hold {asked.cpus} CPUs{f' on {nodes} nodes' if nodes else ''}")
    with progress("predicting starts") as show:
        p = predict(now, policy, seed=seed, progress=show)
    rows = [x | {"job": "new", "partition": name} for x in p.rows() if x["job"] == sources.NEW]
    offers = p.sooner(sources.NEW)
    site = now.workload.cluster.known_site
    lines = {o.change.words: line_of(o.change.fields, site) for o in offers if batch and o.worth_telling}
    if as_json:
        print_json(rows[0] | {"sooner": [o.to_dict() | _line(lines, o) for o in offers if o.worth_telling]})
        return
    x = rows[0]
    a, b = x["start_80"]
    says = f"starts in {span(x['start'])} (80 %: {span(a)} to {span(b)}), ends in {span(x['end'])}"
    say(f"{asked.cpus:,} CPUs for {span(asked.limit)} in {name}: {says}")
    say_offers(offers, "it")
    for words, line in lines.items():
        say(f"{words}: {line}" if line else f"{words}: several lines of {batch} change")


ALL = "all"  # partitions


def _named(clusters: list[str]) -> dict[str, Path]:
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


def _beside(
    asked: Batch, named: dict[str, Path], partition: str | None, account: str, who: str, policy: str, seed: int, as_json: bool
) -> None:
    """Print where the job starts first, of several clusters and partitions. Raises InputError where it fits nowhere."""
    rows, cannot = list[dict](), list[str]()
    for label, folder in named.items():
        site = sources.look(folder).workload.cluster.known_site
        for name in site.partition_names if partition == ALL else (partition,):
            where = " ".join(filter(None, [label, name or ""])) or "the cluster"
            try:
                own, now = _with_new(folder, asked, name, account, who)
                if now.row(sources.NEW) < 0:
                    cannot.append(f"{where}: its nodes cannot hold it")
                    continue
                with progress(f"predicting starts: {where}") as show:
                    p = predict(now, policy, seed=seed, progress=show)
            except InputError as error:
                cannot.append(f"{where}: {error}")
                continue
            mine = [x | {"job": "new", "cluster": label, "partition": own} for x in p.rows() if x["job"] == sources.NEW]
            rows += mine
            cannot += [] if mine else [f"{where}: limits would never let it start"]
    if not rows:
        raise InputError(f"it fits nowhere ({'; '.join(cannot)})")
    rows.sort(key=lambda x: x["start"])
    if as_json:
        print_json({"cpus": asked.cpus, "limit": asked.limit, "places": rows, "cannot": cannot})
        return
    heads = [*(["cluster"] if len(named) > 1 else []), "partition", *headed()]
    cells = [[*([x["cluster"]] if len(named) > 1 else []), x["partition"], *chances(x)] for x in rows]
    print_table(f"{asked.cpus:,} CPUs for {span(asked.limit)}: where it starts first", heads, cells)
    for text in cannot:
        say(text)


def _line(lines: dict[str, str], offer) -> dict:
    line = lines.get(offer.change.words, "")
    return {"line": line} if line else {}


def _asked(procs: int | None, time: str | None, batch: str | None, nodes: int | None, gpus: int | None) -> Batch:
    """What the new job asks for: by its script, or by options. Raises InputError."""
    if batch:
        if procs or time or nodes or gpus:
            raise InputError("--batch says what the job asks for; leave --procs, --time, --nodes and --gpus-per-node out")
        return read_batch(batch)
    if not procs or not time:
        raise InputError("what would be submitted? --procs N --time TIME, or --batch SCRIPT")
    limit = seconds(time, "--time")
    if limit < 60:
        raise InputError(f"--time {time!r}: a time limit is a minute or more")
    words = f"-n {procs} -t {limit / 60:.0f}"
    words += (f" -N {nodes}" if nodes else "") + (f" --gpus-per-node={gpus}" if gpus else "")
    return Batch(words, {}, procs, limit)


def _with_new(printed: Path, asked: Batch, partition: str | None, account: str, who: str) -> tuple[str, sources.Now]:
    """(the partition that the new job goes to, the cluster with the job in its queue). Raises InputError."""
    from collections import Counter

    cluster = sources.look(printed)
    w = cluster.workload
    usual = Counter(w.jobs["partition"].tolist()).most_common(1)[0][0]
    name = partition or asked.options.get("partition", "").split(",")[0] or w.names["partition"][usual].split(",")[0]
    if name not in w.cluster.known_site.partition_names:
        raise InputError(f"--partition {name!r}: the cluster has {', '.join(w.cluster.known_site.partition_names)}")
    account, now = account or asked.options.get("account", ""), cluster.now + w.origin
    minutes = round(asked.limit / 60)
    return name, sources.look(printed, sources.asked(asked.words, who, account, name, asked.cpus, minutes, now))

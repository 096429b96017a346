"""`jobwise slurm fits`: when a job would start that is not submitted yet, and what would start sooner."""

from __future__ import annotations

import getpass
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Optional

import typer

from jobwise.cli.options import Json, Seed
from jobwise.cli.progress import progress
from jobwise.cli.slurm_when import Folder, Keep, Policy, outputs
from jobwise.cli.tables import print_json, print_table, say
from jobwise.cli.when import chances, headed, say_offers, seconds, span
from jobwise.errors import InputError
from jobwise.live import sources
from jobwise.live.starts import predict
from jobwise.slurm.read.batch import Batch, line_of, read_batch


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

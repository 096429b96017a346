"""`jobwise slurm`: a site's own Slurm in the simulator."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from jobwise.cli.options import Force, Json, check_outputs, open_log, policy_option
from jobwise.cli.progress import progress
from jobwise.cli.tables import complain, print_json, print_table, say, show
from jobwise.errors import InputError
from jobwise.slurm.judge.closed_loop import follow, sentence
from jobwise.slurm.judge.fidelity import POOL
from jobwise.slurm.judge.fidelity import fidelity as compared
from jobwise.slurm.judge.open_loop import check as checked
from jobwise.slurm.judge.repeats import repeats
from jobwise.slurm.judge.results import of_fidelity

Policies = Annotated[Optional[list[str]], policy_option(help="Candidates; by default slurm and classic rules.")]


def site(
    folder: Annotated[Optional[str], typer.Argument(metavar="[FOLDER]", help="Outputs of Slurm's commands.")] = None,
    anonymize: Annotated[
        Optional[str], typer.Option("--anonymize", metavar="OUT", help="Write FOLDER without names to a new folder.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Print the commands that fill a folder, or read one. They only read your Slurm; run them on a login node.

    Examples:
        jobwise slurm site
        jobwise slurm site site --anonymize shared
    """
    from jobwise.slurm.read import anonymous
    from jobwise.slurm.read.site import commands, files, most_helpful, not_simulated, read
    from jobwise.slurm.read.unsimulated import UNSIMULATED

    if folder is None:
        typer.echo(commands())
        return
    if anonymize is not None:
        written = anonymous.write(folder, anonymize)
        print(f"{anonymize}: {', '.join(written)}")
        complain(anonymous.STILL, "note")
        return
    w = read(folder)
    taken, others, lacking = files(folder)
    s = w.cluster.known_site
    x = s.settings[0]
    total = dict(zip(("cpus", "memory_mib", "gpus"), w.cluster.total.tolist(), strict=True))
    ignored = not_simulated(w)
    guessed = [g for g in s.guesses if not g.startswith(UNSIMULATED)]
    if as_json:
        about = {"site": w.name, "jobs": len(w), "nodes": len(s.weight), "dropped": w.dropped, "guesses": list(s.guesses)}
        about |= {"files_read": taken, "files_not_read": others, "not_simulated": ignored}
        known = {"settings": {k: x[k].item() for k in x.dtype.names}}
        print_json(about | total | known | {"partitions": list(s.partition_names), "qos": list(s.qos_names)})
        return
    weights = ", ".join(f"{k.replace('_', ' ')} {x[k]:g}" for k in ("age", "fair_share", "size", "partition", "qos") if x[k])
    ahead = f"every {x['bf_interval']:g} s, {x['bf_max_test']:g} jobs, {x['bf_window'] / 3600:g} h ahead"
    held = f"{total['cpus']:,} CPUs, {total['memory_mib'] / 1024:,.0f} GiB, {total['gpus']:,} GPUs"
    rows = [
        ["files read", ", ".join(taken)],
        ["files not read", ", ".join(others) or "none"],
        ["files missing", ", ".join(lacking) or "none"],
        ["jobs that ran", f"{len(w):,}"],
        ["left out", w.left_out],
        ["nodes", f"{len(s.weight):,}: {held}"],
        ["kinds of requests, node sets", f"{len(s.asks):,}, {len(s.sets):,}"],
        ["QOS", ", ".join(f"{n} {q['priority']:g}" for n, q in zip(s.qos_names, s.qos, strict=True))],
        ["accounts and users with shares", f"{len(s.associations) - 1:,}"],
        ["priority", "first come, first served" if x["basic"] else weights or "equal"],
        ["backfill", ahead if x["backfill"] else "none"],
    ]
    for name in ignored:
        say(f"not simulated: {name}")
    print_table(w.name, ["what", "value"], rows, left=2)
    queues = [
        [
            n,
            f"{int(s.sets[p['set']].sum()):,}",
            f"{p['factor']:g}",
            f"{p['max_time'] / 3600:g} h" if p["max_time"] < 1e12 else "any",
        ]
        for n, p in zip(s.partition_names, s.partitions, strict=True)
    ]
    print_table("partitions", ["partition", "nodes", "factor", "longest job"], queues)
    for g in guessed or ["nothing"]:
        say(f"guessed: {g}")
    if s.guesses and most_helpful(w):
        say(most_helpful(w))


def fidelity(
    source: Annotated[str, typer.Argument(metavar="FOLDER|LOG", help="A folder as `jobwise slurm site` reads it, or a log.")],
    policy: Policies = None,
    again: Annotated[
        Optional[list[str]],
        typer.Option(metavar="FOLDER", help="The same jobs, run again on the real Slurm: how far does it differ from itself?"),
    ] = None,
    report: Annotated[Optional[str], typer.Option("--report", help="Write an HTML report to this file.")] = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Recorded waits beside simulated ones: which policy explains the record, and how far to trust a what-if.

    Examples:
        jobwise slurm fidelity site
    """
    from jobwise.slurm.read.site import read

    if report:
        check_outputs(source, report, force=force, ending=".html .htm")
    w = read(source) if Path(source).is_dir() else open_log(source, None)
    names = policy or (["slurm"] if w.cluster.site else []) + list(POOL)
    if len(set(names)) < len(names):
        raise InputError("a policy is named twice")
    if again and not (w.cluster.site and "slurm" in names):
        raise InputError("--again compares runs of a real Slurm: a folder of its outputs and the policy slurm are needed")
    others = [read(folder) for folder in again or ()]
    with progress("replay") as step:
        results = compared(w, names, step)
    repeated = None
    if others:
        own = next(f for f in results if f.policy == "slurm")
        with progress("replay of the other runs") as step:
            repeated = repeats([w, *others], [own, *(compared(x, ["slurm"], step)[0] for x in others)])
    show(of_fidelity(w, results, repeated).naming(SITE=source), as_json, report)


def check(
    folder: Annotated[
        str, typer.Argument(help="A recording: a folder of Slurm's outputs with events.csv and backfill.csv.gz.")
    ],
    shown: Annotated[int, typer.Option("--differences", min=0, help="Differences that are printed.")] = 10,
    as_json: Json = False,
) -> None:
    """Compute each pass of a recorded Slurm from the recorded state, and compare what it started and planned.

    Examples:
        jobwise slurm check recording
    """
    from jobwise.slurm.read.recording import read

    recording = read(folder)
    with progress("pass") as step:
        result = checked(recording, step)
    followed = follow(recording, result)
    if as_json:
        print_json(result.to_dict() | {"with_recorded_clocks": followed.to_dict()})
        return
    rows = [
        [name, f"{x.all:,}", f"{x.equal:,}", f"{x.explained:,}", f"{(x.equal + x.explained) / max(x.all, 1):.1%}"]
        for name, x in (
            ("starts of main passes", result.main),
            ("starts of backfill", result.backfill),
            *([("stops for others", result.stops)] if result.stops.all else []),
            ("plans", result.plans),
        )
    ]
    print_table(
        f"{result.name}, pass by pass", ["of the recording", "number", "equal", "if nodes were completing", "share"], rows
    )
    say("Equal: at the same time, on the same nodes. Nodes that have just lost a job may be completing, which no log tells.")
    say(sentence(followed))
    table = [[f"{x.time:,.1f}", x.kind, f"{x.job}", x.here, x.there, x.why] for x in result.differences[:shown]]
    if table:
        columns = ["s", "what", "job", "computed", "recorded", "why"]
        print_table(f"the first {len(table)} of {len(result.differences):,} differences", columns, table)

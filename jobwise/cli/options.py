"""What the commands share: options, opening logs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from glob import escape
from pathlib import Path
from typing import Annotated, Any, Optional

import typer

from jobwise.cli.progress import progress
from jobwise.cli.tables import complain
from jobwise.errors import InputError, Interrupted
from jobwise.files import check_writable
from jobwise.policies.names import FILES, described
from jobwise.policies.parts import GRAMMAR
from jobwise.sim.topology import gpu_racks
from jobwise.workloads import dnn, gpu
from jobwise.workloads.catalogue import LOGS
from jobwise.workloads.source import POOLED
from jobwise.workloads.source import open_log as read
from jobwise.workloads.transform import first, scale_load
from jobwise.workloads.transform import load as load_of


def policies_like(incomplete: str) -> list[str]:
    """Return the names of policies that a shell may complete: those of `jobwise policies`, behind a + what can be added."""
    first, plus, _ = incomplete.rpartition("+")
    added = {part.heading for part in GRAMMAR}
    names = [x for heading, table in described().items() if (heading in added) == bool(plus) for x in table if x not in FILES]
    return [x for name in names if (x := first + plus + name).startswith(incomplete) and "…" not in x]


def policy_option(help: str) -> Any:
    """Return the declaration of --policy."""
    return typer.Option("--policy", "-p", help=help, autocompletion=policies_like)


def logs_like(incomplete: str) -> list[str]:
    """Return what a shell may complete as a log: names of the catalogue, files and folders here."""
    folder, slash, begun = incomplete.rpartition("/")
    here = sorted(Path(f"{folder}{slash}").expanduser().glob(f"{escape(begun)}*"))
    return [x for x in LOGS if x.startswith(incomplete)] + [f"{folder}{slash}{x.name}{'/' * x.is_dir()}" for x in here]


LOG_HELP = "SWF, sacct, PBS, LSF, … file (.gz, .xz), '-', or a name such as sdsc-sp2."
Log = Annotated[str, typer.Argument(metavar="LOG", help=LOG_HELP, autocompletion=logs_like)]
Policy = Annotated[
    str,
    typer.Argument(metavar="POLICY", help="A scheduler's name, a run folder, or a policy file.", autocompletion=policies_like),
]
Run = Annotated[str, typer.Argument(metavar="RUN", help="A run folder, or a policy file.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of a table.")]
Procs = Annotated[
    Optional[int], typer.Option("--procs", min=1, max=2**31 - 1, help="Size of the machine, if not the log's own.")
]
Jobs = Annotated[Optional[int], typer.Option("--jobs", min=1, help="Only the first N jobs.")]
Load = Annotated[Optional[float], typer.Option("--load", help="Scale the gaps between submits to this offered load.")]
Columns = Annotated[
    Optional[str],
    typer.Option("--columns", help="Of a table: submit=COLUMN,end=COLUMN,nodes=COLUMN, a TOML file, or a data set."),
]
Fields = Annotated[Optional[str], typer.Option("--fields", help="Names of the columns, where the file has none.")]
OfCluster = Annotated[Optional[str], typer.Option("--cluster", help="Of several clusters in one log, this one's jobs.")]
PowerFile = Annotated[
    Optional[str],
    typer.Option("--power", help="TOML table of what nodes, cores, GPUs draw; or `log`."),
]
PricesFile = Annotated[Optional[str], typer.Option("--prices", help="CSV of the price, or carbon intensity, of a kWh.")]
Cap = Annotated[Optional[str], typer.Option("--cap", help="What the machine may draw: 2.4MW, or a CSV over time.")]
Flexible = Annotated[
    Optional[str],
    typer.Option("--flexible", help="Whose jobs +shift may hold: 0.3 (drawn), queue=NAME."),
]
EndAtLimit = Annotated[bool, typer.Option("--end-at-limit", help="End jobs at their requested time.")]
All = Annotated[bool, typer.Option("--all", help="Show all measures: windows, ranks, replicas.")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite files that exist.")]
Executor = Annotated[
    Optional[str],
    typer.Option("--executor", help="threads, processes, ray, ray://HOST:PORT."),
]
Threads = Annotated[int, typer.Option("--threads", min=1, max=1024, help="Tasks at once.")]
Seed = Annotated[int, typer.Option("--seed", min=0, max=2**31 - 1, help="Seed of everything random.")]


@contextmanager
def stoppable(text: str) -> Iterator[None]:
    """Ctrl-C, SIGTERM (`systemctl stop`) and SIGHUP (a closed terminal) alike end the work within, in order; then `text` is
    said."""
    import signal

    before = {n: signal.signal(n, signal.default_int_handler) for n in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    except KeyboardInterrupt:
        raise Interrupted(text) from None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


Racks = Annotated[
    Optional[str],
    typer.Option("--racks", help="GPU jobs: machines of each rack: 2,2,2,2 or 8,8x8."),
]


RestartCost = Annotated[float, typer.Option("--restart-cost", min=0, help="s to start again after a move or a stop.")]
Restartable = Annotated[
    Optional[float],
    typer.Option("--restartable", min=0, max=1, help="Share of jobs, drawn, that may be begun again (+trial)."),
]


def racks_of(text: str):
    """The cluster of `--racks`. Raises InputError."""
    import re

    if not (parsed := re.fullmatch(r"(\d{1,4}(?:,\d{1,4})*)(?:x(\d{1,3}))?", text)):
        raise InputError(f"--racks {text!r}: machines of each rack are expected, e.g. 2,2,2,2, or 8,8x8 with 8 GPUs each")
    return gpu_racks([int(n) for n in parsed[1].split(",")], int(parsed[2] or 4), work="lab")


def open_log(
    log: str,
    procs: int | None,
    jobs: int | None = None,
    load: float | None = None,
    on_nodes: bool = False,
    racks: str = "",
    form: dict[str, str] | None = None,
):
    """The workload a command was given: a file, standard input, or a name; cut and scaled as asked. `on_nodes`: for policies of
    the world of slots, a pool's processors as equal nodes. `racks`: the GPU jobs of a log on this cluster. `form`: what the
    file does not tell (`LogFormat.words`)."""
    machine = racks_of(racks) if racks else None
    with progress(f"reading {log}", share=True) as show:
        w = read(log, procs, show, machine, form)
    if jobs is not None and jobs < len(w):
        w = replace(first(w, jobs), dropped={f"{k} in the whole file": n for k, n in w.dropped.items()})
    if load is not None:
        w = scale_load(w, load)
    if machine and w.cluster is not machine:
        if "gpus" not in w.columns and not any("gpu" in r for r in w.cluster.resources):
            raise InputError(f"{log}: says nothing of GPUs; --racks is for logs of GPU jobs")
        w = dnn.with_networks(w, machine)
    if on_nodes and w.cluster.is_pool:
        count = next(n for n in (8, 4, 2, 1) if w.cluster.processors % n == 0)
        w = gpu.on_nodes(w, count)
    return w


def in_slots(policies) -> bool:
    """Return whether one of these policies sees a pool's processors as equal nodes."""
    return any(p.on_nodes for p in policies)


def check_outputs(log: str, *paths: str | None, force: bool = False, ending: str = "") -> None:
    """Can all be written, each to a file of its own, none over the log, and none over a file that exists, unless `force`? Do
    they end in one of `ending` (".html .htm"), if any? Raises InputError."""
    from pathlib import Path

    taken = {} if log == "-" else {os.path.realpath(log.removeprefix(POOLED)): "the log itself"}
    for path in paths:
        if path is None:
            continue
        check_writable(path)
        if path != "-" and (other := taken.setdefault(os.path.realpath(path), path)) is not path:
            raise InputError(f"{path}: would overwrite {other}; name another file")
        if ending and path != "-" and Path(path).suffix.lower() not in ending.split():
            raise InputError(f"{path}: a file named *{ending.split()[0]} is written here, nothing else")
        if path != "-" and Path(path).exists() and not force:
            raise InputError(f"{path}: exists already; --force overwrites it")


def needs(extra: str, *modules: str) -> None:
    """Raises InputError, before any work is done, where a package of an extra is missing."""
    from importlib.util import find_spec

    for name in modules:
        if find_spec(name) is None:
            raise InputError(f"this command needs {name}: pip install 'jobwise[{extra}]'")


def noticed(w) -> None:
    """What the reader noticed of a log, on standard error: sizes that were guessed, requests that are missing."""
    for reason, n in w.notes.items():
        complain(f"{w.name}: " + (reason if "guessed" in reason else f"{n:,} jobs {reason}"), "note")


def overloaded(w) -> None:
    """Say on standard error that a log asks for more than the machine has, where it does."""
    if (offered := load_of(w)) > OVERLOAD:
        complain(
            f"{w.name}: offered load {offered:.2f}: the jobs need more than the machine has, so waits grow to the end", "note"
        )


OVERLOAD = 1.05  # of an offered load: from here on a queue never ends


def times(text: str | None, option: str = "--max-wait") -> float | None:
    """1.2 of "1.2x" or "1.2"."""
    if text is None:
        return None
    try:
        return float(text.removesuffix("x"))
    except ValueError:
        raise InputError(f"{option} {text!r}: a factor is expected, e.g. 1.2x") from None

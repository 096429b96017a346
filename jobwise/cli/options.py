"""What the commands share: options, opening logs, progress."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from threading import Event, Thread, Timer
from typing import Annotated, Any, Optional

import typer

from jobwise.errors import InputError, Interrupted, plain


def policies_like(incomplete: str) -> list[str]:
    """Return the names of policies that a shell may complete: those of `jobwise policies`, behind a + what can be added."""
    from jobwise.policies.names import FILES, described
    from jobwise.policies.parts import GRAMMAR

    first, plus, _ = incomplete.rpartition("+")
    added = {part.heading for part in GRAMMAR}
    names = [x for heading, table in described().items() if (heading in added) == bool(plus) for x in table if x not in FILES]
    return [x for name in names if (x := first + plus + name).startswith(incomplete) and "…" not in x]


def policy_option(help: str) -> Any:
    """Return the declaration of --policy."""
    return typer.Option("--policy", "-p", help=help, autocompletion=policies_like)


LOG_HELP = "SWF or sacct file (.gz, .xz), '-', or a name such as sdsc-sp2."
Log = Annotated[str, typer.Argument(metavar="LOG", help=LOG_HELP)]
Run = Annotated[str, typer.Argument(metavar="RUN", help="A run folder, or a policy file.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of a table.")]
Procs = Annotated[
    Optional[int], typer.Option("--procs", min=1, max=2**31 - 1, help="Size of the machine, if not the log's own.")
]
Jobs = Annotated[Optional[int], typer.Option("--jobs", min=1, help="Only the first so many jobs.")]
Load = Annotated[Optional[float], typer.Option("--load", help="Scale the gaps between submits to this offered load.")]
Kill = Annotated[bool, typer.Option("--kill", help="End jobs at their requested time.")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite files that exist.")]
On = Annotated[
    Optional[str],
    typer.Option("--on", help="Where tasks run: threads, processes, ray, ray://HOST:PORT. [default: what suits them]"),
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


def complain(text: str, mark: str = "jobwise") -> None:
    """Print a message on standard error: in one line, on a terminal broken between words."""
    import shutil
    import textwrap

    line = f"{mark}: {plain(' '.join(text.split()))}"
    if sys.stderr.isatty():
        columns = shutil.get_terminal_size().columns
        line = "\n".join(textwrap.wrap(line, columns, break_long_words=False, break_on_hyphens=False, subsequent_indent="  "))
    print(line, file=sys.stderr)


class Lines:
    """Progress where standard error is no terminal: a line every EVERY_S seconds."""

    EVERY_S = 4.0
    last = -EVERY_S  # when the last line of any work was printed: work that follows at once is not silent for longer

    def __init__(self, what: str, share: bool = False):
        now, self.share = time.monotonic(), share
        self.what, self.text, self._over = what, "", Event()
        self._first, self._before = (0, now), (0, 0)  # what was done at the first call of this work, and when; the last call
        self._said = Lines.last if now - Lines.last < self.EVERY_S else now
        self._thread = Thread(target=self._run, args=(now,), daemon=True)
        self._thread.start()

    def __call__(self, done: int, total: int, text: str = "") -> None:
        """Tell how far the work is."""
        now = time.monotonic()
        if done < self._before[0] or total != self._before[1]:  # other work begins
            self._first = done, now
        self._before = done, total
        gone, took = done - self._first[0], now - self._first[1]
        left = f" about {_time((total - done) * took / gone)} left," if total and gone > 0 and took > self.EVERY_S else ""
        self.text = f"{text} {_count(done, total, self.share)},{left}" if total else text

    def compiling(self, text: str) -> None:
        """Show that functions are being compiled, and how many were."""
        self.text = f"{text};"

    def said(self) -> None:
        """Something else has been printed: the next line can wait."""
        self._said = Lines.last = time.monotonic()

    def stop(self) -> None:
        """Stop printing lines of progress."""
        self._over.set()
        self._thread.join()

    def _run(self, begun: float) -> None:
        while not self._over.wait(0.5):
            if time.monotonic() - self._said >= self.EVERY_S:
                self.said()
                text = " ".join(f"jobwise: {self.what}: {self.text} {self._said - begun:.0f} s".split())
                print(text, file=sys.stderr, flush=True)


def _time(seconds: float) -> str:
    """A time that is left, in words: seconds, minutes, hours."""
    return f"{seconds / 3600:.1f} h" if seconds >= 7200 else f"{seconds / 60:.0f} min" if seconds >= 90 else f"{seconds:.0f} s"


def _count(done: int, total: int, share: bool) -> str:
    """How far work is, in words: a share, or a count."""
    return f"{done / total:.1%}" if share else f"{done:,} of {total:,}"


class Bar:
    """Progress on a terminal: one line, shown once the work has taken a second, that goes on counting seconds."""

    def __init__(self, bar, what: str, share: bool = False):
        self._bar, self._what, self._task, self._share = bar, what, bar.add_task(what, total=None, visible=False), share
        self._timer = Timer(1.0, lambda: bar.update(self._task, visible=True))
        self._timer.daemon = True
        self._timer.start()

    def __call__(self, done: int, total: int, text: str = "") -> None:
        """Show how far the work is."""
        count = _count(done, total, self._share) if total else ""
        description = " ".join(f"{self._what} {count} {text}".split())
        self._bar.update(self._task, completed=done, total=total or None, description=description)

    def compiling(self, text: str) -> None:
        """Show that functions are being compiled, and how many were."""
        self._bar.update(self._task, description=f"{self._what}: {text}", visible=True)

    def said(self) -> None:
        """Do nothing: rich prints other output above the line of progress."""

    def stop(self) -> None:
        """Stop the timer that shows the line of progress late."""
        self._timer.cancel()


@contextmanager
def progress(what: str, share: bool = False):
    """Yield a function (done, total, text) that shows how far the work is: on a terminal in one line that counts, elsewhere in
    a line every few seconds; `share`: in per cent, not as a count. It also says what is compiled on the way. None is yielded
    where JOBWISE_ANNOUNCE is 0."""
    from jobwise.listeners import LISTENERS

    if os.environ.get("JOBWISE_ANNOUNCE", "1") in ("", "0"):
        yield None
        return
    if not sys.stderr.isatty():
        lines = Lines(what, share)
        with _telling(lines, LISTENERS):
            yield lines
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.table import Column
    from rich.text import Text

    class Left(TimeRemainingColumn):
        """The time that is left, shown once it can be estimated."""

        def render(self, task):
            return Text("") if task.total is None or task.time_remaining is None else super().render(task) + Text(" left")

    console = Console(stderr=True)
    narrow = console.width < 110
    column = Column(no_wrap=True, overflow="ellipsis", max_width=console.width - 24 if narrow else 76)
    columns: list[ProgressColumn] = [TextColumn("{task.description}", markup=False, table_column=column)] + [BarColumn(20)] * (
        not narrow
    )
    columns += [TimeElapsedColumn(), Left()]
    with Progress(*columns, console=console, transient=True, disable=False) as bar:
        shown = Bar(bar, what, share)
        with _telling(shown, LISTENERS):
            yield shown


@contextmanager
def _telling(shown: Lines | Bar, listeners: list):
    """Tell it what is compiled, and stop it at the end."""
    listeners.append(shown.compiling)
    try:
        yield
    finally:
        listeners.remove(shown.compiling)
        shown.stop()


Racks = Annotated[
    Optional[str],
    typer.Option("--racks", help="GPU jobs: the cluster, machines of each rack and GPUs of each: 2,2,2,2 or 8,8x8."),
]


RestartCost = Annotated[
    float, typer.Option("--restart-cost", min=0, help="s that a job takes to start again after it was moved or paused.")
]


def racks_of(text: str):
    """The cluster of `--racks`. Raises InputError."""
    import re

    from jobwise.sim.topology import gpu_racks

    if not (parsed := re.fullmatch(r"(\d{1,4}(?:,\d{1,4})*)(?:x(\d{1,3}))?", text)):
        raise InputError(f"--racks {text!r}: machines of each rack are expected, e.g. 2,2,2,2, or 8,8x8 with 8 GPUs each")
    return gpu_racks([int(n) for n in parsed[1].split(",")], int(parsed[2] or 4), work="lab")


def open_log(
    log: str, procs: int | None, jobs: int | None = None, load: float | None = None, on_nodes: bool = False, racks: str = ""
):
    """The workload a command was given: a file, standard input, or a name; cut and scaled as asked. `on_nodes`: for policies of
    the world of slots, a pool's processors as equal nodes. `racks`: the GPU jobs of a log on this cluster."""
    from jobwise.workloads import dnn, gpu
    from jobwise.workloads.source import open_log as read
    from jobwise.workloads.transform import first, scale_load

    machine = racks_of(racks) if racks else None
    with progress(f"fetching {log}") as show:
        w = read(log, procs, show, machine)
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
    return any(getattr(p, "on_nodes", False) for p in policies)


def check_outputs(log: str, *paths: str | None, force: bool = False, ending: str = "") -> None:
    """Can all be written, each to a file of its own, none over the log, and none over a file that exists, unless `force`? Do
    they end in one of `ending` (".html .htm"), if any? Raises InputError."""
    from pathlib import Path

    from jobwise.files import check_writable
    from jobwise.workloads.source import POOLED

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


def times(text: str | None, option: str = "--max-wait") -> float | None:
    """1.2 of "1.2x" or "1.2"."""
    if text is None:
        return None
    try:
        return float(text.removesuffix("x"))
    except ValueError:
        raise InputError(f"{option} {text!r}: a factor is expected, e.g. 1.2x") from None

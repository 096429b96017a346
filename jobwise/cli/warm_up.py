"""`jobwise warm-up`: compile the kernels ahead of their first use, several families side by side."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import BrokenExecutor, wait
from contextlib import contextmanager, redirect_stdout
from dataclasses import replace
from importlib.util import find_spec
from multiprocessing import get_context
from pathlib import Path
from typing import Annotated, Any, Optional

import numpy as np
import typer

from jobwise.cli import samples
from jobwise.cli.main import run
from jobwise.cli.progress import progress
from jobwise.compiled.cache import FOLDER
from jobwise.errors import InputError, unknown
from jobwise.forecast.load_models import models_for
from jobwise.forecast.loads import Series, judged
from jobwise.live.standing import SitePlayer
from jobwise.parallel.pool import Pool
from jobwise.power.prices import Stepwise
from jobwise.power.setting import powered
from jobwise.power.table import PowerTable
from jobwise.sim.simulation import Simulation
from jobwise.slurm.judge.changes import fitting
from jobwise.slurm.judge.open_loop import check
from jobwise.slurm.read.recording import Pass, RecordedStart, Recording
from jobwise.starts.history import History
from jobwise.starts.on_log import when
from jobwise.starts.predictor import Predictor
from jobwise.streaming import replay
from jobwise.systems import configure
from jobwise.workloads.gpu import on_nodes
from jobwise.workloads.parquet import ParquetLog, write_log
from jobwise.workloads.sites import on_site
from jobwise.workloads.workflows import workflow

FAMILY_NAMES = (
    "recommended, runtimes, rules, nodes, flows, slots, gpus, buffer, window, search, forecasts, promises, power, slurm, "
    "starts, check"
)
ABOUT = {  # functions that each compiles in a process of its own, behind those before it: `python -m benchmarks.compiling`
    "recommended": 369, "runtimes": 12, "rules": 91, "promises": 175, "nodes": 208, "flows": 15, "slots": 182, "gpus": 165,
    "buffer": 100, "window": 104, "search": 0, "forecasts": 10, "power": 259, "slurm": 269,
    "check": 245, "starts": 182,
}  # fmt: skip
PACKAGES = {"runtimes": ("lightgbm",), "forecasts": ("pandas", "sklearn")}  # that families need beyond the base install
PACKAGES |= dict.fromkeys(("slots", "gpus", "buffer", "window", "search"), ("gymnasium",))
WHOLE = 1556  # functions that all of them compile, side by side, for they share many
LOOK_S = 0.5  # between two looks at how far it is


def warm_up(
    families: Annotated[
        Optional[list[str]],
        typer.Argument(
            help=f"{FAMILY_NAMES}. [default: all]",
            show_default=False,
        ),
    ] = None,
    workers: Annotated[int, typer.Option("--workers", min=0, help="Processes. 0: one a core.", show_default="cores")] = 0,
) -> None:
    """Compile the simulator ahead of its first use. Once after an installation or an update; in several processes.

    Examples:
        jobwise warm-up
        jobwise warm-up recommended --workers 1
    """
    for name in families or ():
        if name not in FAMILIES:
            raise unknown("family of kernels", name, FAMILIES)
    lacks = {n: own for n in FAMILIES if (own := [p for p in PACKAGES.get(n, ()) if find_spec(p) is None])}
    if lost := [n for n in families or () if n in lacks]:
        raise InputError(
            f"{lost[0]} needs {' and '.join(lacks[lost[0]])}, which {'is' if len(lacks[lost[0]]) == 1 else 'are'} not installed"
        )
    wanted = list(dict.fromkeys(families or [n for n in FAMILIES if n not in lacks]))
    if lacks and not families:
        which = ", ".join(sorted({p for own in lacks.values() for p in own}))
        print(f"left out, without {which}: {', '.join(lacks)}", file=sys.stderr, flush=True)
    begun, cores, context = time.monotonic(), workers or os.cpu_count() or 1, get_context("spawn")
    count, compiled = context.Value("i", 0), 0
    total = WHOLE if len(wanted) == len(FAMILIES) else ABOUT[wanted[0]] if len(wanted) == 1 else 0  # families share many
    with (
        progress("compiling") as show,
        _quiet(),
        Pool(min(cores, len(wanted)), context, _counting, (count,)) as pool,
    ):
        left = {pool.submit(_family, name): name for name in wanted}
        while left:
            done, _ = wait(left, timeout=LOOK_S, return_when="FIRST_COMPLETED")
            for future in done:
                del left[future]
                try:
                    future.result()
                except BrokenExecutor:
                    raise InputError("a worker was killed: is there memory for all of them? --workers 1 takes least") from None
            compiled = count.get_obj().value  # without its lock: a worker that was killed may hold it
            if show and compiled:
                names = ", ".join(list(left.values())[:3])
                about = f" of about {max(total, compiled):,}" if total else ""
                show(0, 0, f"{compiled:,}{about} functions ({names})")  # they take unequal times: no time left
    summary = f"ready in {time.monotonic() - begun:.0f} s: {compiled} functions compiled, kept in {FOLDER or 'no folder'}"
    print(summary, file=sys.stderr, flush=True)


@contextmanager
def _quiet() -> Iterator[None]:
    """Let workers that begin within say nothing: they read it as they are imported."""
    before = os.environ.get("JOBWISE_ANNOUNCE", "1")
    os.environ["JOBWISE_ANNOUNCE"] = "0"
    try:
        yield
    finally:
        os.environ["JOBWISE_ANNOUNCE"] = before


def _counting(count) -> None:
    """In a worker: count the functions that are compiled, and say nothing else of them."""
    from numba.core import event

    class Count(event.Listener):
        def on_start(self, happened) -> None:
            with count.get_lock():
                count.value += 1

        def on_end(self, happened) -> None:
            """Do nothing: the function was counted when its compilation began."""

    event.register("numba:compile", Count())


def _family(name: str) -> None:
    FAMILIES[name]()


def _rules() -> None:
    import jobwise

    jw: Any = jobwise

    for policy in ("fcfs+easy", "wfp3+easy", "smith+easy"):
        jw.simulate(samples.log(), policy)
    with tempfile.TemporaryDirectory() as folder:
        write_log(samples.log(), f"{folder}/log.parquet")
        replay.simulate(ParquetLog(f"{folder}/log.parquet"), "sjf+easy")


def _promises() -> None:
    import jobwise

    jw: Any = jobwise
    part = jw.lublin(1300, procs=64, load=0.8, seed=1).take(slice(700, None))
    jw.simulate(part, "jobwise")
    sim, run = Simulation(part), jw.resolve("jobwise")
    sim.advance()
    view = sim.view()
    run.decide(view)
    run.explain(view)
    run.ended(view, view.queue[:1])


def _nodes() -> None:
    import jobwise

    jw: Any = jobwise
    for policy in ("fcfs+easy", "sjf+conservative", "fcfs+easy+learned"):
        jw.simulate(on_nodes(samples.log(), 16), policy)


def _slurm() -> None:
    import jobwise

    jw: Any = jobwise
    w = on_site(samples.log(), 16, 4, age=1000, fair_share=1000)
    for policy in ("slurm", "saf+easy", "saf+slurm"):
        jw.simulate(w, policy)
    fitting(w)


def _power() -> None:
    import jobwise

    jw: Any = jobwise
    cap = Stepwise(np.array([-np.inf]), np.array([10_000.0]))
    on_processors = replace(samples.log(), cluster=jw.nodes(16, processors=4))
    for w in (samples.log(), on_processors, on_site(samples.log(), 16, 4)):
        jw.simulate(powered(w, PowerTable(idle=50.0, core=10.0), cap=cap), "fcfs+easy")


def _check() -> None:
    """Passes of a recorded Slurm, here of two jobs, computed and carried on."""
    w = on_site(samples.log().take(slice(0, 8)), 16, 4, age=1000, fair_share=1000)
    eligible = w.jobs["submit"].copy()
    w = replace(w, columns=w.columns | {"eligible": eligible, **dict.fromkeys(("array", "job"), np.arange(len(w)))})
    now = float(eligible[-1]) + 10.0
    begun = [RecordedStart(now, row, tuple(range(16))[: -(-int(w.jobs["request"][row, 0]) // 4)]) for row in (0,)]
    passes = [Pass("price", now - 1.0), Pass("main", now, starts=begun), Pass("backfill", now + 1.0, until=now + 2.0)]
    check(Recording(w, dict(enumerate(eligible.tolist())), {0: now + 5.0}, passes, list(range(len(w)))))


def _flows() -> None:
    import jobwise

    jw: Any = jobwise
    tasks = [{"name": "a", "runtime": 2.0}, {"name": "b", "runtime": 3.0}]
    jw.simulate(jw.stream([workflow("warm-up", tasks, [[], ["a"]])]), "flow-work")


def _forecasts() -> None:
    s = Series("warm-up", 0.0, 300.0, np.sin(np.arange(1200) / 40.0) + 2.0)
    judged(s, models_for([s], ["persistence", "seasonal", "ewma", "ridge"], (1,)), (1,))


def _search() -> None:
    with tempfile.TemporaryDirectory() as folder:
        configure("search", samples.log(), "smoke").train(samples.log(), Path(folder) / "run")


def _on_a_log(*commands: str) -> None:
    """Run commands on a generated log, LOG, without their output."""
    import jobwise

    jw: Any = jobwise
    with tempfile.TemporaryDirectory() as folder, open(os.devnull, "w") as nowhere, redirect_stdout(nowhere):
        log = str(Path(folder) / "log.swf")
        jw.write_swf(jw.campaigns(2400, procs=64, load=0.8, seed=1, users=12), log)
        for command in commands:
            if run([{"LOG": log}.get(x, x.replace("OUT", folder)) for x in command.split()]):
                raise RuntimeError(f"jobwise {command} failed")


def _recommended() -> None:
    bounded = "--split 0.7 --max-wait 1.2x --replicas 1 --report OUT/report.html"
    _on_a_log(f"compare LOG {bounded} -p fcfs+easy -p saf+easy -p smith+easy -p jobwise")


def _runtimes() -> None:
    _on_a_log("trace forecast LOG")


def _starts() -> None:
    import jobwise

    jw: Any = jobwise
    part = jw.lublin(400, procs=64, load=1.0, seed=1)
    at = float(part.jobs["submit"][300])
    when(part, "fcfs+easy", at)
    w = on_site(part, 16, 4, age=1000.0)
    w = replace(
        w, columns=w.columns | {"nodes": np.zeros(len(w), int)}, names=w.names | {"nodes": {0: w.cluster.known_site.names[0]}}
    )
    Predictor(History(jw.simulate(w, "slurm").jobs), SitePlayer(w, jw.resolve("slurm")), 1).at(at)


FAMILIES = {  # those that take longest first
    "recommended": _recommended,
    "runtimes": _runtimes,
    "rules": _rules,
    "promises": _promises,
    "nodes": _nodes,
    "flows": _flows,
    "slots": samples.slots,
    "gpus": samples.gpus,
    "buffer": samples.nodes,
    "window": samples.window,
    "search": _search,
    "forecasts": _forecasts,
    "power": _power,
    "slurm": _slurm,
    "check": _check,
    "starts": _starts,
}

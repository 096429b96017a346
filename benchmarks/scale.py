"""Deep queues, and what tasks cost in threads, processes and on Ray, on one and two workers.

python -m benchmarks.scale FOLDER_WITH_LOGS [--origins N]      writes benchmarks/SCALE.md; nothing in it is typed by hand
"""

from __future__ import annotations

import argparse
import hashlib
import os
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.timing import seconds
from jobwise.compare.origins import origins
from jobwise.learn.collectors import Collectors
from jobwise.parallel import workers
from jobwise.policies import replay as loops
from jobwise.report.sections import made
from jobwise.sim.alike import NONE_ALIKE
from jobwise.simulate import simulate
from jobwise.systems import configure
from jobwise.workload import Workload
from jobwise.workloads.transform import first
from jobwise_experiments.study import read_log

HERE = Path(__file__).parent
DEEP, SHALLOW = "RICC", ("SDSC-SP2", "SDSC-BLUE", "LANL-CM5", "ALCF-Theta", "MetaCentrum", "LLNL-Atlas", "NASA-iPSC")
ORDERS = ("wfp3+easy", "unicef+easy", "lxf+easy", "smith+easy", "smith-forecast-aged+easy")
ENGINES = ("threads", "processes", "ray")
POLICIES = (
    "fcfs+easy",
    "sjf+easy",
    "saf+easy",
    "wfp3+easy",
    "unicef+easy",
    "lxf+easy",
    "f1+easy",
    "f2+easy",
    "smith+easy",
    "jobwise",
)
TASKS, JOBS, CHOICES = 400, 20_000, 1_000_000
SPENT = [0.0]  # s in which rollouts were collected


def one_by_one(log: Workload, order: str) -> np.ndarray:
    """The starts under an order whose jobs are all scored."""
    classes, loops.alike.classes = loops.alike.classes, lambda *_: NONE_ALIKE
    try:
        return simulate(log, order).jobs["start"]
    finally:
        loops.alike.classes = classes


def deep(log: Workload) -> list[str]:
    """Rows of a deep queue: an order, s with classes, s job by job, are the starts equal to the bit?"""
    rows = []
    for order in ORDERS:
        ours = seconds(lambda order=order: simulate(log, order), 3)
        begun = time.perf_counter()
        starts = one_by_one(log, order)
        single = time.perf_counter() - begun
        same = np.array_equal(simulate(log, order).jobs["start"], starts)
        rows.append(f"| `{order}` | {ours:.2f} | {single:.2f} | {'yes' if same else 'NO'} |")
        print(rows[-1], flush=True)
    return rows


def shallow(logs: Path) -> list[str]:
    """Rows of other logs under the first order: jobs, ms with classes, ms job by job, are the starts equal?"""
    rows = []
    for name in SHALLOW:
        log, pairs = read_log(logs, name), []
        for _ in range(15):  # in turn: the machine may have other work
            pairs.append([seconds(partial(work, log, ORDERS[0]), 1) for work in (simulate, one_by_one)])
        ours, one = np.min(pairs, axis=0) * 1000
        same = np.array_equal(simulate(log, ORDERS[0]).jobs["start"], one_by_one(log, ORDERS[0]))
        rows.append(f"| {name} | {len(log):,} | {ours:.1f} | {one:.1f} | {ours / one:.2f} | {'yes' if same else 'NO'} |")
        print(rows[-1], flush=True)
    return rows


def nothing(x: int) -> int:
    """Do nothing: what is left is what a task costs."""
    return x


def overhead() -> list[str]:
    """Rows of engines: s until the first task is done, ms a task."""
    rows = []
    for on in ENGINES:
        begun = time.perf_counter()
        with workers(on, 2) as pool:
            pool.map(nothing, range(2))
            ready = time.perf_counter() - begun
            cost = seconds(lambda pool=pool: pool.map(nothing, range(TASKS)), 3) / TASKS * 1000
        rows.append(f"| {on} | {ready:.1f} | {cost:.2f} |")
        print(rows[-1], flush=True)
    return rows


def compared(log: Workload, count: int) -> Any:
    """Policies at several origins: the changes with their intervals."""
    return repr(origins(log, list(POLICIES), count))


def searched(log: Workload) -> Any:
    """The weights that a search of seconds finds."""
    config = configure("search", log, "smoke").changed(generations=6, pairs=12)
    with tempfile.TemporaryDirectory() as folder:
        policy = config.train(log, Path(folder) / "run", report=lambda k, line: None)[0]
    return policy.order.weights.tobytes().hex()


def collected(log: Workload) -> Any:
    """The curve of a run whose choices two collectors make."""
    config = configure("perjob", log, "smoke").changed(choices=CHOICES, simulations=256, collectors=2, validations=1)
    with tempfile.TemporaryDirectory() as folder:
        config.train(log, Path(folder) / "run", report=lambda k, line: None)
        return (Path(folder) / "run" / "metrics.jsonl").read_text()


def collecting() -> float:
    """Return the s in which rollouts were collected so far."""
    return SPENT[0]


def _clocked(collect: Callable) -> Callable:
    def timed(*arguments: Any) -> Any:
        begun = time.perf_counter()
        try:
            return collect(*arguments)
        finally:
            SPENT[0] += time.perf_counter() - begun

    return timed


def faster(work: Callable[[], Any], name: str, runs: int, clock: Callable[[], float] = time.perf_counter) -> list[str]:
    """Rows of a kind of work: engine, s on one worker and on two (the least of so many runs) by this clock, how much faster,
    the result in eight digits."""
    rows = []
    for on in ENGINES:
        took, digests = [], set()
        for count in (1, 2):
            with workers(on, count) as pool:
                pool.map(nothing, range(count))
                several = []
                for _ in range(runs):  # the first one loads kernels
                    begun = clock()
                    digests.add(hashlib.sha256(str(work()).encode()).hexdigest()[:8])
                    several.append(clock() - begun)
                took.append(min(several))
        rows.append(f"| {name} | {on} | {took[0]:.1f} | {took[1]:.1f} | {took[0] / took[1]:.2f} | {', '.join(digests)} |")
        print(rows[-1], flush=True)
    return rows


def main() -> None:
    """Measure, and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("logs", type=Path)
    parser.add_argument("--origins", type=int, default=1)
    asked = parser.parse_args()
    log, queue = first(read_log(asked.logs, "SDSC-SP2"), JOBS), read_log(asked.logs, DEEP)
    tables = deep(queue), shallow(asked.logs), overhead()
    works = {
        f"compare, {len(POLICIES)} policies, {asked.origins} origins": partial(compared, log, asked.origins),
    }
    rows = [row for name, work in works.items() for row in faster(work, name, 1)]
    rows += faster(partial(searched, log), "train search, six generations", 3)
    learning = f"train perjob, two collectors, {CHOICES:,} choices"
    rows += faster(partial(collected, log), learning, 2)
    Collectors.collect = _clocked(Collectors.collect)  # type: ignore[method-assign]
    rows += faster(partial(collected, log), f"{learning}: collecting alone", 2, collecting)
    write_page(len(queue), tables, rows)


def table(head: str, rows: list[str]) -> str:
    """Return a table of Markdown."""
    return "\n".join([f"| {head} |", "| --- " * (head.count("|") + 1) + "|", *rows])


def write_page(jobs: int, tables: tuple[list[str], ...], rows: list[str]) -> None:
    """Write benchmarks/SCALE.md."""
    command = "python -m benchmarks.scale FOLDER"
    text = [
        "# Scale",
        f"{made(command)}. {os.cpu_count()} cores; seconds of wall time, the median of three where not said.",
        f"## Deep queues: {DEEP} whole, {jobs:,} jobs",
        "Jobs that never swap are scored once a class; beside it one replay that scores every waiting job.",
        table("order | s | s, job by job | starts equal to the bit", tables[0]),
        f"## Other logs, `{ORDERS[0]}`",
        "The least of 15 replays each way, in turn.",
        table("log | jobs | ms | ms, job by job | ratio | starts equal", tables[1]),
        "## Tasks",
        f"Two workers; {TASKS} tasks that do nothing.",
        table("engine | s until the first is done | ms a task", tables[2]),
        "## Work on one worker and on two",
        f"SDSC-SP2, its first {JOBS:,} jobs; of the search the least of three, of the training of two. "
        "The last column is a digest of the result: the same everywhere.",
        table("work | engine | s, one | s, two | times faster | result", rows),
    ]
    (HERE / "SCALE.md").write_text("\n\n".join(text) + "\n")
    print(f"written: {HERE / 'SCALE.md'}")


if __name__ == "__main__":
    main()

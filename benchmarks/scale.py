"""Deep queues, and what tasks cost in threads, processes and on Ray, on one and two workers.

python -m benchmarks.scale FOLDER_WITH_LOGS [--origins N]      writes benchmarks/SCALE.md; nothing in it is typed by hand
"""

from __future__ import annotations

import argparse
import hashlib
import heapq
import os
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.timing import seconds
from jobwise import parallel
from jobwise.compare.origins import origins
from jobwise.learn.collectors import Collectors
from jobwise.parallel import workers
from jobwise.parallel.tasks import Workers, _task, _within
from jobwise.policies import replay as loops
from jobwise.report.sections import made
from jobwise.sim.pool.alike import NONE_ALIKE
from jobwise.simulate import simulate
from jobwise.slurm.judge.tune import tune
from jobwise.systems import configure
from jobwise.workload import Workload
from jobwise.workloads.sites import generated
from jobwise.workloads.transform import first
from jobwise_experiments.study import read_log

HERE = Path(__file__).parent
DEEP, SHALLOW = "RICC", ("SDSC-SP2", "SDSC-BLUE", "LANL-CM5", "ALCF-Theta", "MetaCentrum", "LLNL-Atlas", "NASA-iPSC")
ORDERS = ("wfp3+easy", "unicef+easy", "lxf+easy", "smith+easy", "smith-aged+easy")
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
TASKS, JOBS, CHOICES = 400, 12_000, 1_000_000
MANY = (1, 2, 16, 128, 1_024)  # workers that the model tells of
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


def tuned(log: Workload) -> Any:
    """The settings of a generated site that a short search proposes; `log` is not used."""
    site = generated(3_000, 64, 16, load=0.9, seed=1, age=1000.0)
    t = tune(site, scale=0.2)
    return t.lines, t.settings.tobytes().hex()


class Measured(Workers):
    """One worker, which writes down how long each task of each round took."""

    def __init__(self) -> None:
        super().__init__(ThreadPoolExecutor(1), 1)
        self.rounds: list[list[float]] = []

    def each(self, work: Callable, items: Iterable, *more: Any, **options: Any) -> Iterator[Any]:
        """The results of tasks, in order, each done here."""
        if getattr(_within, "task", False):
            yield from super().each(work, items, *more, **options)
            return
        sizes: list[float] = []
        self.rounds.append(sizes)

        def timed(item: Any) -> Any:
            begun = time.perf_counter()
            try:
                return _task(work, item)
            finally:
                sizes.append(time.perf_counter() - begun)

        yield from map(timed, items)


def makespan(sizes: list[float], count: int, cost: float) -> float:
    """The s that so many workers take for tasks of these sizes, given out in order; `cost`: s of a task beside its work."""
    free = [0.0] * count
    for s in sizes:
        heapq.heappush(free, heapq.heappop(free) + s + cost)
    return max(free)


def model(work: Callable[[], Any], name: str, cost: float, known: dict[int, float]) -> list[str]:
    """Rows of a model: work, workers, s by the model, s as measured in processes, what limits it. The model: what the driver
    does itself, and each round of tasks in order on workers who are free. `cost`: s of a task; `known`: s by workers."""
    mine = Measured()
    parallel._asked.append((1, mine))
    begun = time.perf_counter()
    try:
        work()
    finally:
        parallel._asked.pop()
        mine.close()
    whole = time.perf_counter() - begun
    alone = whole - sum(map(sum, mine.rounds))
    longest = sum(max(sizes) for sizes in mine.rounds if sizes)
    rows = []
    for count in MANY:
        took = alone + sum(makespan(sizes, count, cost if count > 1 else 0.0) for sizes in mine.rounds)
        shares = {
            "work": took - alone - longest,
            "the longest task of each round": longest,
            "what the driver does itself": alone,
        }
        real = f"{known[count]:.1f} ({took / known[count] - 1:+.0%})" if count in known else ""
        limit = max(shares, key=lambda x: shares[x])
        rows.append(f"| {name} | {count:,} | {took:.1f} | {real} | {whole / took:.1f} | {limit} |")
        print(rows[-1], flush=True)
    tasks = sum(map(len, mine.rounds))
    rows[0] = rows[0].replace(f"| {name} |", f"| {name}: {tasks} tasks in {len(mine.rounds)} rounds |")
    return rows


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
    parser.add_argument("--origins", type=int, default=6)
    asked = parser.parse_args()
    log, queue = first(read_log(asked.logs, "SDSC-SP2"), JOBS), read_log(asked.logs, DEEP)
    tables = deep(queue), shallow(asked.logs), overhead()
    works: dict[str, tuple[Callable, int]] = {
        f"compare, {len(POLICIES)} policies, {asked.origins} origins": (partial(compared, log, asked.origins), 2),
        "tune a generated site": (partial(tuned, log), 2),
        "train search, six generations": (partial(searched, log), 3),
    }
    rows, models = [], []
    for name, (work, runs) in works.items():
        rows += faster(work, name, runs)
        known = {
            k: float(x) for k, x in zip((1, 2), rows[ENGINES.index("processes") - len(ENGINES)].split(" | ")[2:4], strict=True)
        }
        models += model(work, name, float(tables[2][-1].split(" | ")[2].rstrip(" |")) / 1000, known)
    learning = f"train perjob, two collectors, {CHOICES:,} choices"
    rows += faster(partial(collected, log), learning, 2)
    Collectors.collect = _clocked(Collectors.collect)  # type: ignore[method-assign]
    rows += faster(partial(collected, log), f"{learning}: collecting alone", 2, collecting)
    write_page(len(queue), tables, rows, models)


def table(head: str, rows: list[str]) -> str:
    """Return a table of Markdown."""
    return "\n".join([f"| {head} |", "| --- " * (head.count("|") + 1) + "|", *rows])


def write_page(jobs: int, tables: tuple[list[str], ...], rows: list[str], models: list[str]) -> None:
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
        f"SDSC-SP2, its first {JOBS:,} jobs; the least of three searches, and of two of the others. "
        "The last column is a digest of the result: the same everywhere.",
        table("work | engine | s, one | s, two | times faster | result", rows),
        "## More workers than two: a model",
        "From the sizes of the tasks of one run: what the driver does itself, then each round of tasks, given in order to "
        "workers who are free, with Ray's cost of a task. Beside it what processes took, and by how much the model is off.",
        table("work | workers | s, model | s, measured | times faster | most of the time is", models),
    ]
    (HERE / "SCALE.md").write_text("\n\n".join(text) + "\n")
    print(f"written: {HERE / 'SCALE.md'}")


if __name__ == "__main__":
    main()

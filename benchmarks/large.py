"""Machines of many equal nodes: up to 158,976 of 48 cores and 32 GiB, as Fugaku has.

python -m benchmarks.large [--jobs N]      writes benchmarks/LARGE.md; nothing in it is typed by hand
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import resource
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.scale import table
from jobwise.cluster import nodes, pool
from jobwise.learn.env import WindowVectorEnv
from jobwise.report.sections import made
from jobwise.simulate import simulate
from jobwise.workload import Workload, workload
from jobwise.workloads.lublin import lublin
from jobwise.workloads.sites import on_site
from jobwise.workloads.transform import first

HERE = Path(__file__).parent
SIZES, CORES, GIB, LOAD = (1_000, 10_000, 158_976), 48, 32, 0.8
SHARED = 0.5  # of the jobs of up to four nodes, which take a quarter of each
CHOICES = 20_000


def log(jobs: int, count: int) -> Workload:
    """Jobs of whole nodes, on a pool of nodes."""
    return lublin(jobs, count, 1, load=LOAD, estimates="users", users=200)


def on_nodes(shared: float, jobs: int, count: int) -> Workload:
    """The jobs on nodes; this share of the small ones leaves room for others on theirs."""
    w, rng = log(jobs, count), np.random.default_rng(0)
    n = w.jobs["request"][:, 0]
    part = np.where((rng.random(jobs) < shared) & (n <= 4), 4, 1)
    request = np.stack([n * CORES // part, n * GIB // part], axis=1)
    machine = nodes(count, cpus=CORES, gib=GIB)
    return workload(w.jobs["submit"], request, w.truth["runtime"], w.jobs["walltime"], cluster=machine, chunks=n)


def on_a_site(jobs: int, count: int) -> Workload:
    """The jobs on a site of Slurm, whose priority is age."""
    w = log(jobs, count)
    size, user = w.jobs["request"][:, 0] * CORES, w.jobs["user"]
    big = workload(w.jobs["submit"], size, w.truth["runtime"], w.jobs["walltime"], cluster=pool(count * CORES), user=user)
    return on_site(big, count, CORES, age=1000.0)


def replayed(policy: str, build: Callable[[int, int], Workload], jobs: int, count: int) -> float:
    """Return the s of a replay, its kernels compiled before."""
    w = build(jobs, count)
    simulate(first(w, 50), policy)
    begun = time.perf_counter()
    simulate(w, policy)
    return time.perf_counter() - begun


def encoded(jobs: int, count: int) -> float:
    """Return the s of CHOICES choices by rule, each with SEM's observation."""
    env = WindowVectorEnv(1, log(min(jobs, CHOICES), count), encoder="sem", window=50)
    env.reset(seed=0)
    env.step(env.by_rule("fcfs"))
    begun = time.perf_counter()
    for _ in range(CHOICES):
        env.step(env.by_rule("fcfs"))
    return time.perf_counter() - begun


WORK: dict[str, Callable[[int, int], float]] = {  # of jobs and nodes: s
    "`saf+easy`, whole nodes": partial(replayed, "saf+easy", partial(on_nodes, 0.0)),
    "`saf+easy+pack`, half of the small jobs share nodes": partial(replayed, "saf+easy+pack", partial(on_nodes, SHARED)),
    "`slurm`, whole nodes": partial(replayed, "slurm", on_a_site),
    f"SEM's observation, {CHOICES:,} choices": encoded,
}


def measured(name: str, jobs: int, count: int, sent) -> None:
    """Send (s, GiB at most) of a piece of work."""
    took = WORK[name](jobs, count)
    sent.send((took, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20))


def alone(name: str, jobs: int, count: int) -> tuple[float, float]:
    """(s, GiB at most) of a piece of work in a process of its own."""
    here, there = multiprocessing.get_context("spawn").Pipe(duplex=False)
    process = multiprocessing.get_context("spawn").Process(target=measured, args=(name, jobs, count, there))
    process.start()
    there.close()
    result = here.recv()
    process.join()
    return result


def main() -> None:
    """Measure, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=100_000)
    jobs = parser.parse_args().jobs
    rows = []
    for name in WORK:
        took = [alone(name, jobs, count) for count in SIZES]
        cells = [f"{s:.2f}" if s < 10 else f"{s:.0f}" for s, _ in took]
        rows.append(f"| {name} | {' | '.join(cells)} | {took[-1][0] / took[0][0]:.1f} | {took[-1][1]:.1f} |")
        print(rows[-1], flush=True)
    head = f"work | {' | '.join(f's, {count:,} nodes' for count in SIZES)} | largest / smallest | GiB, largest"
    text = [
        "# Large machines",
        f"{made(f'python -m benchmarks.large --jobs {jobs}')}. {os.cpu_count()} cores.",
        f"{jobs:,} jobs after Lublin and Feitelson at load {LOAD} on equal nodes of {CORES} cores and {GIB} GiB (158,976 are "
        "Fugaku's); whole nodes, where not said. Kernels were compiled before.",
        table(head, rows),
    ]
    (HERE / "LARGE.md").write_text("\n\n".join(text) + "\n")
    print(f"written: {HERE / 'LARGE.md'}")


if __name__ == "__main__":
    main()

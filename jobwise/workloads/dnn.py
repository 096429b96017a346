"""Data-parallel training jobs on GPUs: RL-TAPS's generator (CASCON 2020), and logs of GPU clusters with models assigned.

A job has a network, a minibatch, a number of GPUs that it asks for, a length. From the network come the seconds that a GPU
computes between two exchanges and the MB exchanged (`step`, `gradient`). The 35 networks of `cnns.csv`: parameters and forward
pass of an image, github.com/albanie/convnet-burden. Training is charged as one forward pass, as the paper does.
"""

from __future__ import annotations

import csv
import json
import re
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np

from jobwise.cluster import Cluster, nodes
from jobwise.errors import InputError
from jobwise.sim.random import GOLDEN, Seed, mix
from jobwise.sim.topology import EFFICIENCY, PEAK, gpu_racks
from jobwise.workload import Workload, workload
from jobwise.workloads.gpu import MOST_BYTES, number, table
from jobwise.workloads.opened import read_bytes

MINIBATCHES = (32, 64, 128, 256, 512)
CELL = 512.0  # TFLOP: vgg-vd-19, 256 images, 1,000 minibatches on a P100 are ten rows (the paper's appendix A)
ROW_S = CELL / PEAK  # 48.30 s
LIKE = {
    "vgg19": "vgg-vd-19",
    "vgg16": "vgg-vd-16",
    "inception3": "inception-v3",
    "ResNet-18": "resnet18",
    "ResNet-50": "resnet-50",
}
LIKE |= {"resnet50": "resnet-50", "resnet101": "resnet-101", "resnet152": "resnet-152"}  # names of other papers
_KEY = re.compile(r"\('([^']{1,200})', ([0-9]{1,6})\)")  # ('ResNet-50 (batch size 64)', 4)
READING = "Networks and minibatches of jobs that do not name one are drawn by row, an assumption; run times are known."


@cache
def networks() -> dict[str, tuple[float, float]]:
    """Name -> (MB of parameters, GFLOP of a forward pass) of the 35 networks."""
    with open(Path(__file__).parent / "cnns.csv") as lines:
        return {row["model"]: (float(row["parameters_MB"]), float(row["forward_GFLOP"])) for row in csv.DictReader(lines)}


def shape(network: np.ndarray, minibatch: np.ndarray) -> dict[str, np.ndarray]:
    """Columns `app`, `step` (s, eq. 10) and `gradient` (MB) of jobs by the number of their network and their minibatch [J]."""
    known = np.array(list(networks().values()))[network]
    return {"app": network, "step": known[:, 1] / 1000.0 * minibatch / (EFFICIENCY * PEAK), "gradient": known[:, 0]}


def rltaps(
    steps: int = 400,
    seed: Seed = 0,
    *,
    machine: Cluster | None = None,
    work: str = "seed",
    rate: float = 1.0,
) -> Workload:
    """Return a job sequence of RL-TAPS (Ryu et al., CASCON 2020).

    Lengths are U{1..3} or U{6..10} rows, GPUs U{1..7} or U{8..12}, network and minibatch uniform. Jobs may run on any number
    of GPUs; run times are those at the request.

    Parameters
    ----------
    steps : int, rows of 48.3 s
        Rows with arrivals.
    seed : int or sequence of int
        The same seed gives the same jobs.
    machine : Cluster, optional
        By default 32 GPUs in four racks.
    work : {"seed", "lab"}
        What a length means on the machine.
    rate : float
        Arrivals a row; 1: exactly one.

    Returns
    -------
    Workload

    Raises
    ------
    InputError
        A setting cannot be.
    """
    if not (steps >= 1 and 0 < rate <= 1000):
        raise InputError(f"{steps} rows with {rate} arrivals a row: at least 1 row, and a rate above 0 (up to 1000)")
    machine = machine or gpu_racks([2, 2, 2, 2], work=work)
    rng = seed if isinstance(seed, np.random.Generator) else np.random.default_rng(seed)
    count = max(int(steps * rate), 1)
    submit = np.floor(np.arange(count) / rate + 1e-9) * ROW_S
    length = np.where(rng.random(count) < 0.5, rng.integers(1, 4, count), rng.integers(6, 11, count))
    gpus = np.where(rng.random(count) < 0.5, rng.integers(1, 8, count), rng.integers(8, 13, count))
    made = shape(rng.integers(0, len(networks()), count), rng.choice(MINIBATCHES, count))
    bounds = {"least": np.ones(count, int), "most": np.full(count, machine.processors)}
    return _named(workload(submit, gpus, length * ROW_S, cluster=machine, name="rl-taps", **bounds, **made))


def _named(w: Workload) -> Workload:
    return replace(w, names={"app": dict(enumerate(networks()))})


def with_networks(w: Workload, machine: Cluster, known: list[tuple[str, int]] | None = None) -> Workload:
    """The GPU jobs of a log on a cluster of `gpu_racks`, with networks and minibatches: as `known` names them, one a job, where
    the table has it; else drawn by the job's row, so that they tell nothing of run times. Raises InputError.

    The GPUs are the column `gpus` of the log, or the last resource of its cluster; jobs without any, and those
    that ask for more than there are, are left out and counted.
    """
    gpus, rows = w.columns.get("gpus", w.jobs["request"][:, -1]).astype(int), np.arange(len(w))
    fits = (gpus >= 1) & (gpus <= machine.processors)
    if not fits.any():
        raise InputError(f"{w.name}: no job asks for 1 to {machine.processors} GPUs")
    x = mix(rows.astype(np.uint64) * GOLDEN)
    network, minibatch = (
        (x % np.uint64(len(networks()))).astype(int),
        np.array(MINIBATCHES)[(x >> np.uint64(32)).astype(int) % 5],
    )
    for row, (name, size) in enumerate(known or ()):
        if LIKE.get(name, name) in networks():
            network[row], minibatch[row] = list(networks()).index(LIKE.get(name, name)), size or minibatch[row]
    made = {k: v[fits] for k, v in shape(network, minibatch).items()}
    bounds = {"least": np.ones(fits.sum(), int), "most": np.full(fits.sum(), machine.processors)}
    jobs_on_gpus = workload(
        w.jobs["submit"][fits], gpus[fits], w.truth["runtime"][fits], w.jobs["walltime"][fits], cluster=machine, name=w.name,
        user=w.jobs["user"][fits], **bounds, **made,
    )  # fmt: skip
    lost = {"no GPUs": int((gpus < 1).sum()), "larger than the machine": int((gpus > machine.processors).sum())}
    return replace(_named(jobs_on_gpus), reading=(READING,), dropped=w.dropped | {k: v for k, v in lost.items() if v})


def _machine(machine: Cluster | None) -> Cluster:
    return machine or gpu_racks([2, 2, 2, 2], work="lab")


def read_tiresias(path: str | Path, machine: Cluster | None = None) -> Workload:
    """The 60 jobs of Tiresias (NSDI'19), with their networks. Raises InputError."""
    rows = table(Path(path), "num_gpu", "submit_time", "model_name", "duration")
    n = {
        k: np.array([number(Path(path), i, r, k) for i, r in enumerate(rows, 2)])
        for k in ("submit_time", "num_gpu", "duration")
    }
    return _typed(
        Path(path), "tiresias", n["submit_time"], n["num_gpu"], n["duration"], [(r["model_name"], 0) for r in rows], machine
    )


def read_gavel(path: str | Path, machine: Cluster | None = None) -> Workload:
    """Gavel's Philly jobs (OSDI'20), for as long as their steps take on P100 GPUs: `gavel_throughputs.json.gz` lies beside the
    table. ResNets have their networks, other types are drawn. Raises InputError."""
    path = Path(path)
    rows = table(path, "job_type", "total_steps", "arrival_time_s", "num_gpus")
    speeds = _speeds(path.parent / "gavel_throughputs.json.gz")
    n = {
        k: np.array([number(path, i, r, k) for i, r in enumerate(rows, 2)])
        for k in ("arrival_time_s", "num_gpus", "total_steps")
    }
    kinds, seconds = [], []
    for row, gpus, steps in zip(rows, n["num_gpus"], n["total_steps"], strict=True):
        there = [k for (kind, k) in speeds if kind == row["job_type"] and k <= gpus]
        seconds.append(steps / max(speeds.get((row["job_type"], max(there, default=0)), 1.0), 1e-6))
        name, _, size = row["job_type"].removesuffix(")").partition(" (batch size ")
        kinds.append((name, int(size) if size.isdigit() and len(size) < 7 else 0))
    return _typed(path, "gavel-philly", n["arrival_time_s"], n["num_gpus"], np.array(seconds), kinds, machine)


def _speeds(path: Path) -> dict[tuple[str, int], float]:
    """(type of job, GPUs) -> steps a second on P100 GPUs, alone. Raises InputError."""
    speeds, data = {}, read_bytes(path, MOST_BYTES)
    try:
        for key, value in json.loads(data)["p100"].items():
            parsed = _KEY.fullmatch(key)
            if parsed is None:
                raise ValueError(f"{key!r} is no type and number of GPUs")
            name, gpus = parsed.groups()
            speeds[name, int(gpus)] = float(value["null"])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        expected = "a table of throughputs as Gavel has it is expected"
        raise InputError(f"{path}: {type(error).__name__}: {str(error)[:80]}; {expected}") from None
    return speeds


def _typed(
    path: Path,
    name: str,
    submit: np.ndarray,
    gpus: np.ndarray,
    seconds: np.ndarray,
    kinds: list[tuple[str, int]],
    machine: Cluster | None,
) -> Workload:
    if not len(submit):
        raise InputError(f"{path}: the table has no jobs")
    for row in np.flatnonzero(gpus % 1 > 0)[:1]:
        raise InputError(f"{path}:{row + 2}: {gpus[row]:g} GPUs; a whole number is expected")
    for what, x, least in (("arrival", submit, 0.0), ("number of GPUs", gpus, 1.0), ("length", seconds, 0.0)):
        for row in np.flatnonzero(~(np.isfinite(x) & (x >= least) & (x < 1e12)))[:1]:
            raise InputError(f"{path}:{row + 2}: its {what} is {x[row]:g}; at least {least:g} is expected")
    order = np.argsort(submit, kind="stable")
    every = nodes(int(gpus.max()), gpus=1)
    w = workload(submit[order], gpus[order].astype(int), np.maximum(seconds[order], 1.0), cluster=every, name=name)
    jobs = with_networks(w, _machine(machine), [kinds[i] for i in order])
    if machine is None:
        jobs.notes[f"machine guessed, for the log names none: {jobs.cluster.words}, RL-TAPS's four racks"] = 1
    return jobs

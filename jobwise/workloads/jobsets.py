"""Jobs by rows of time: the generators of DeepRM (HotNets'16) and of CuSH (DRL4KDD'19). A row (tick) is 1 s.

Run times are known (walltime = run time). With probability `rate` a job arrives in a row; above 1 the arrivals of a row are
Poisson. Time 0 of a workload is its first arrival.
"""

from __future__ import annotations

import numpy as np

from jobwise.cluster import Cluster, Slowdown, nodes
from jobwise.errors import InputError
from jobwise.jobs import COMPUTE, NETWORK
from jobwise.sim.random import Seed
from jobwise.workload import Workload, workload
from jobwise.workloads.locality import read_locality

MEAN_LENGTH = 0.8 * 2 + 0.2 * 12.5  # rows
TRAIN, VALIDATION, TEST = 42, 27, 314159  # seeds of jobsets: training and unseen ones as in DeepRM's code
UNSEEN_RATE = {"deeprm": 0.7, "cush": 0.9}  # arrivals a row


def seeded(seed: Seed) -> np.random.Generator:
    """The generator of random numbers that a seed stands for."""
    return seed if isinstance(seed, np.random.Generator) else np.random.default_rng(seed)


def arrivals(steps: int, rate: float, rng: np.random.Generator) -> np.ndarray:
    """Rows [J] in which jobs arrive; at least one job."""
    if not (steps >= 1 and 0 < rate <= 100):
        raise InputError(f"{steps} rows with {rate} arrivals a row: at least 1 row, and a rate above 0 (up to 100)")
    while True:
        count = (rng.random(steps) < rate).astype(int) if rate <= 1 else rng.poisson(rate, steps)
        if count.any():
            return np.repeat(np.arange(steps), count).astype(float)


def _lengths(count: int, longest: int, rng: np.random.Generator) -> np.ndarray:
    """80 % U{1 .. longest/5}, 20 % U{2/3 longest .. longest}: both ends count."""
    short = rng.integers(1, longest // 5 + 1, count)
    long = rng.integers(longest * 2 // 3, longest + 1, count)
    return np.where(rng.random(count) < 0.8, short, long)


def deeprm(
    steps: int = 50,
    rate: float = 0.7,
    seed: Seed = 0,
    *,
    capacity: int = 10,
    resources: int = 2,
    longest: int = 15,
    demand: int = 10,
    uniform: bool = False,
) -> Workload:
    """Return a jobset of DeepRM (Mao et al., HotNets'16).

    80 % of the lengths are U{1..3}, the others U{10..15}. One resource dominates with a demand of U{5..10}, the others take
    U{1..2} (of `longest` and `demand`). The offered load is 1.845 `rate` at the defaults.

    Parameters
    ----------
    steps : int, rows
        Rows of time with arrivals.
    rate : float
        Arrivals a row.
    seed : int or sequence of int
        The same seed gives the same jobs.
    capacity : int, units
        Of each resource of the one node: 20 gives the fractions of the paper, 10 those of its code.
    resources : int
        How many resources.
    longest : int, rows
        The longest length.
    demand : int, units
        The largest demand.
    uniform : bool
        Lengths U{1..longest} and demands U{1..demand} instead.

    Returns
    -------
    Workload

    Raises
    ------
    InputError
        A setting cannot be.
    """
    if not (1 <= demand <= capacity and longest >= 5 and resources >= 1):
        raise InputError(f"demands up to {demand} of {capacity} units and lengths up to {longest} rows (at least 5) cannot be")
    rng = seeded(seed)
    submit = arrivals(steps, rate, rng)
    J = len(submit)
    if uniform:
        length, request = rng.integers(1, longest + 1, J), rng.integers(1, demand + 1, (J, resources))
    else:
        length = _lengths(J, longest, rng)
        request = rng.integers(1, max(demand // 5, 1) + 1, (J, resources))
        request[np.arange(J), rng.integers(0, resources, J)] = rng.integers(demand // 2, demand + 1, J)
    one = Cluster(np.full((1, resources), capacity, np.int64), tuple(f"r{i}" for i in range(resources)))
    return workload(submit, np.maximum(request, 1), length.astype(float), cluster=one, name="deeprm")


def load_of(rate: float, capacity: int = 10) -> float:
    """Offered load of `deeprm(rate=rate)`: E[length] 4.1 x E[demand] 4.5 x rate / capacity."""
    return rate * MEAN_LENGTH * 4.5 / capacity


def cush(
    steps: int = 50,
    rate: float = 0.7,
    seed: Seed = 0,
    *,
    machine: Cluster | None = None,
    compute: float = 0.5,
    gpu_jobs: float = 0.7,
    longest: int = 15,
    locality: str = "",
) -> Workload:
    """Return a jobset of CuSH (Domeniconi et al., DRL4KDD'19): DeepRM's arrivals and lengths on nodes with GPUs.

    GPU jobs ask for U{1..8} GPUs and U{1..4} CPUs, others for U{2..8} CPUs.

    Parameters
    ----------
    steps : int, rows
        Rows of time with arrivals.
    rate : float
        Arrivals a row.
    seed : int or sequence of int
        The same seed gives the same jobs.
    machine : Cluster, optional
        By default 8 nodes of 2 CPUs and 4 GPUs, where spreading a network-intensive job costs up to 60 % and packing a
        compute-intensive one up to 30 %.
    compute : float
        Share of compute-intensive jobs; the others are network-intensive.
    gpu_jobs : float
        Share of jobs that ask for GPUs.
    longest : int, rows
        The longest length.
    locality : str
        A file of locality profiles, or ``v100`` (`jobwise.workloads.locality`), whose types the jobs are of instead.

    Returns
    -------
    Workload

    Raises
    ------
    InputError
        A setting cannot be.
    """
    if not (0 <= compute <= 1 and 0 <= gpu_jobs <= 1 and longest >= 5):
        raise InputError(f"shares are 0 to 1 and lengths at least 5, not {compute}, {gpu_jobs} and {longest}")
    machine, rng = machine or cush_cluster(), seeded(seed)
    cpus, gpus = machine.total
    submit = arrivals(steps, rate, rng)
    J = len(submit)
    length = _lengths(J, longest, rng)
    with_gpus = rng.random(J) < gpu_jobs
    request = np.empty((J, 2), np.int64)
    request[:, 1] = np.where(with_gpus, rng.integers(1, min(8, gpus) + 1, J), 0)
    request[:, 0] = np.where(with_gpus, rng.integers(1, min(4, cpus) + 1, J), rng.integers(min(2, cpus), min(8, cpus) + 1, J))
    kind = np.where(rng.random(J) < compute, COMPUTE, NETWORK)
    w = workload(submit, request, length.astype(float), cluster=machine, name="cush", kind=kind)
    if not locality:
        return w
    profiles = read_locality(locality)
    return profiles.given(w, profiles.drawn(kind == COMPUTE, rng))


def cush_cluster(count: int = 8, cpus: int = 2, gpus: int = 4, slowdown: Slowdown | None = None) -> Cluster:
    """CuSH's machine; `slowdown` as assumed in its specification by default."""
    return nodes(count, cpus=cpus, gpus=gpus, slowdown=slowdown or Slowdown(network=0.6, compute=0.3))


def unseen(generator: str, number: int) -> Workload:
    """The `number`-th of the jobsets that agents are tested with, as generated by default (`deeprm` or `cush`)."""
    make = deeprm if generator == "deeprm" else cush
    return make(50, UNSEEN_RATE[generator], [TEST, number])

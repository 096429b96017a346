"""Jobs on nodes that fail, and a forecast of it, by rows of time. A row (tick) is 1 s. See `docs/telemetry.md`."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from jobwise.cluster import Cluster
from jobwise.errors import InputError
from jobwise.sim.random import Seed
from jobwise.workload import Workload, workload
from jobwise.workloads.jobsets import arrivals, seeded

REPAIR = 30  # rows
AFTER = 400  # rows behind the last arrival in which nodes still fail


def failing(
    steps: int = 100,
    rate: float = 0.35,
    seed: Seed = 0,
    *,
    nodes: int = 8,
    mtbf: float = 200.0,
    horizon: int = 20,
    warned: float = 0.8,
    precision: float = 0.9,
    perfect: bool = False,
) -> Workload:
    """Return a jobset on nodes that fail, with a forecast of their failures (`Cluster.risk`).

    A node runs one job at a time, of a length U{5..30} rows. A job whose node fails begins again; a node is back after 30
    rows. The jobs and the failures of a seed are the same with every forecast. The defaults are what boosted trees did on
    simulated nodes (`jobwise reproduce telemetry`).

    Parameters
    ----------
    steps : int, rows
        Rows of time with arrivals.
    rate : float
        Arrivals a row.
    seed : int or sequence of int
        The same seed gives the same jobs.
    nodes : int
        How many nodes.
    mtbf : float, rows
        Mean time from a repair to the next failure.
    horizon : int, rows
        How long before a failure it is foreseen.
    warned : float
        Share of the failures that are foreseen.
    precision : float
        Share of all alarms that are right, and the risk that an alarm says.
    perfect : bool
        All failures are foreseen and no others.

    Returns
    -------
    Workload

    Raises
    ------
    InputError
        A setting cannot be.
    """
    rng = seeded(seed)
    if not (nodes >= 1 and mtbf >= 1 and horizon >= 1 and 0 <= warned <= 1 and 0 < precision <= 1):
        raise InputError(f"nodes that fail: {nodes} nodes, mtbf {mtbf}, horizon {horizon}, {warned}, {precision} cannot be")
    submit = arrivals(steps, rate, rng)
    J, T = len(submit), steps + AFTER
    length = rng.integers(5, 31, J).astype(float)
    other, risk_rng = np.random.default_rng(rng.integers(2**63)), np.random.default_rng(rng.integers(2**63))
    events, alarm, foreseen = [], np.zeros((T, nodes), bool), 0
    for n in range(nodes):
        t = 0
        while (t := t + 1 + int(other.exponential(mtbf))) < T:
            events += [(float(t), n, 0), (float(t + REPAIR), n, 1)]
            if perfect or risk_rng.random() < warned:
                alarm[max(t - horizon, 0) : t, n] = True
                foreseen += 1
            t += REPAIR
    if not perfect:
        false = (1 - precision) / precision  # for each right one
        tries = max(2, int(np.ceil(false)))
        for _ in range(risk_rng.binomial(max(tries * foreseen, 1), false / tries)):
            t, n = int(risk_rng.integers(T)), int(risk_rng.integers(nodes))
            alarm[t : t + horizon, n] = True
    rest = horizon * (1 - warned) / mtbf
    risk = np.where(alarm, 1.0 if perfect else precision, 0.0 if perfect else min(rest, precision))
    machine = replace(Cluster(np.ones((nodes, 1), np.int64), ("slots",)).with_outages(events), risk=risk)
    return workload(submit, np.ones((J, 1), np.int64), length, cluster=machine, name="failing")

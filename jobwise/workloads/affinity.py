"""Jobs whose run times depend on the node they are put on, by rows of time: the two small worlds of telemetry-driven scheduling
(`docs/systems/telemetry.md`; the source gives no numbers, all parameters are assumptions). A row (tick) is 1 s.

The factors are hidden: a scheduler has to learn them from how long jobs took. Time 0 of a workload is its first arrival.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from jobwise.cluster import Affinity, Cluster
from jobwise.errors import InputError
from jobwise.sim.random import Seed
from jobwise.workload import Workload, workload
from jobwise.workloads.jobsets import arrivals, seeded

LEVELS = (0.5, 0.5, 1.0, 1.0, 2.0, 2.0)  # of an application on the nodes: good, neutral, bad


def distances(
    steps: int = 50,
    rate: float = 0.25,
    seed: Seed = 0,
    *,
    nodes: int = 2,
    capacity: int = 5,
    kappa: float = 1.5,
    distance: float | Sequence[Sequence[float]] = 1.0,
    none: float = 0.1,
    hidden: bool = False,
) -> Workload:
    """Return a jobset of telemetry-driven placement, part A: jobs prefer one of the nodes.

    A job runs 1 + `kappa` D times as long on a node at a distance D from the one it prefers. Run times at the preferred node
    are U{5..15} rows. Memory is counted in units of 250; requests are 1, 2 or 3 units (40, 40, 20 %).

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
    capacity : int, units
        Memory of a node.
    kappa : float
        What a distance of 1 costs, as a share of the run time.
    distance : float or array [nodes, nodes]
        Of all pairs of nodes, or D.
    none : float
        Probability that a job prefers no node (kind 0; else its kind is node + 1).
    hidden : bool
        D is drawn anew, symmetric, U(0, 2) times `distance`.

    Returns
    -------
    Workload

    Raises
    ------
    InputError
        A setting cannot be.
    """
    rng = seeded(seed)
    D = np.asarray(distance, float)
    if D.ndim == 0:
        D = D * (1 - np.eye(nodes))
    if hidden:
        drawn = np.triu(rng.uniform(0, 2, (nodes, nodes)), 1)
        D = D * (drawn + drawn.T)
    if D.shape != (nodes, nodes) or (D != D.T).any() or D.diagonal().any() or not (D >= 0).all():
        raise InputError(f"distances of {nodes} nodes are a symmetric table of {nodes} x {nodes}, >= 0, with 0 on its diagonal")
    if not (0 <= none <= 1 and kappa >= 0 and capacity >= 3):
        raise InputError(f"shares are 0 to 1, kappa is >= 0, a node has 3 units at least; got {none}, {kappa} and {capacity}")
    submit = arrivals(steps, rate, rng)
    J = len(submit)
    kind = np.where(rng.random(J) < none, 0, rng.integers(1, nodes + 1, J))
    request = rng.choice([1, 2, 3], size=(J, 1), p=[0.4, 0.4, 0.2])
    length = rng.integers(5, 16, J).astype(float)
    factors = np.vstack([np.ones(nodes), 1 + kappa * D])
    machine = Cluster(np.full((nodes, 1), capacity, np.int64), ("memory",), affinity=Affinity(factors))
    return workload(submit, request, length, cluster=machine, name="distances", kind=kind)


def affinities(
    steps: int = 50,
    rate: float = 0.5,
    seed: Seed = 0,
    *,
    nodes: int = 6,
    apps: int = 3,
    mix: Sequence[float] | None = None,
    levels: Sequence[float] = LEVELS,
    pair: float = 0.0,
    hidden: bool = False,
) -> Workload:
    """Return a jobset of telemetry-driven placement, part B: applications run faster on some of the nodes.

    A node runs one job at a time. A job of application a (its kind) takes A[a, n] times its length U{6..12} rows on node n.

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
    apps : int
        How many applications.
    mix : sequence of float, optional
        Shares of the applications; by default all the same.
    levels : sequence of float
        The factors of an application on the nodes, in another order for each application, by turns.
    pair : float
        What each job of another application on a neighbouring node adds, as a share.
    hidden : bool
        The order of the levels is drawn anew.

    Returns
    -------
    Workload

    Raises
    ------
    InputError
        A setting cannot be.
    """
    rng = seeded(seed)
    if nodes < 1 or apps < 1 or len(levels) < 1:
        raise InputError(f"{nodes} nodes, {apps} applications and {len(levels)} levels: one each at least")
    row = np.resize(np.sort(np.asarray(levels, float)), nodes)
    row = np.sort(row)
    turn = max(nodes // apps, 1)
    factors = np.stack([rng.permutation(row) if hidden else np.roll(row, turn * a) for a in range(apps)])
    share = np.full(apps, 1 / apps) if mix is None else np.asarray(mix, float)
    if share.shape != (apps,) or (share < 0).any() or abs(share.sum() - 1) > 1e-6:
        raise InputError(f"shares of {apps} applications are as many numbers >= 0 that sum to 1, not {mix}")
    submit = arrivals(steps, rate, rng)
    J = len(submit)
    kind, length = rng.choice(apps, J, p=share), rng.integers(6, 13, J).astype(float)
    machine = Cluster(np.ones((nodes, 1), np.int64), ("slots",), affinity=Affinity(factors, pair))
    return workload(submit, np.ones((J, 1), np.int64), length, cluster=machine, name="affinities", kind=kind)

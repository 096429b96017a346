"""The machine: a table of nodes with R resources each. A processor pool is one node with one resource."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from jobwise.errors import InputError
from jobwise.site import Site

outage_dtype = np.dtype([("time", "f8"), ("node", "i4"), ("up", "i1")], align=True)
UNCAPPED = 1 << 60  # mW
step_dtype = np.dtype(
    [
        ("time", "f8"),  # s, when it begins
        ("cap", "i8"),  # mW that jobs may draw
        ("load", "i8"),  # mW that they draw
        ("price", "f8"),  # of a kWh
        ("paid", "f8"),  # what 1 kW has cost from the first step to this one
    ],
    align=True,
)
# Nodes that were idle, or (`end` inf, the stack of a pool) are.
idle_dtype = np.dtype([("begin", "f8"), ("end", "f8"), ("nodes", "i8")], align=True)


@dataclass(frozen=True)
class Slowdown:
    """Factor on a job's run time by its placement (an assumption of CuSH's specification, `docs/systems/cush.md`).

    A job needs at least `least` nodes and can use `most`. On k nodes its spread is x = (k - least) / (most - least), 0 to 1,
    and it runs sigma times as long as at its best:

        network-intensive   sigma = 1 + network x
        compute-intensive   sigma = 1 + compute (1 - x)

    `types` [K, P]: sigmas at x = 0 .. 1 of measured types of jobs, linear between; jobs of a type have the true kind 2 + row,
    and schedulers see the nearer of the two kinds alone (`workloads/locality.py` reads them from a file). `share`: each other
    network-intensive job on a node adds share / k to a network-intensive job's sigma; it changes while the job runs.
    Jobs of unknown kind run at full speed anywhere. Raises InputError.
    """

    network: float = 0.6
    compute: float = 0.3
    share: float = 0.0
    types: tuple[tuple[float, ...], ...] = ()

    def __post_init__(self):
        if not all(0 <= x < 1e6 for x in (self.network, self.compute, self.share)):
            raise InputError(f"slowdowns are finite and >= 0, not {self}")
        if len({len(row) for row in self.types}) > 1 or not all(len(row) > 1 and min(row) >= 1.0 for row in self.types):
            raise InputError("types of slowdowns are rows of two or more numbers, as many for each, and 1 at least")

    @property
    def table(self) -> np.ndarray:
        """[2 + K, P] sigma of each kind at x = 0 .. 1: compute-, network-intensive, the types."""
        x = np.linspace(0.0, 1.0, len(self.types[0]) if self.types else 2)
        return np.array([1.0 + self.compute * (1.0 - x), 1.0 + self.network * x, *self.types])

    @property
    def worst(self) -> float:
        """The largest sigma, without those of sharing."""
        return float(self.table.max())


@dataclass(frozen=True, eq=False)
class Affinity:
    """Factors on a job's run time by its node: `factors` [K, N] of jobs of kind k (an application, a preferred place) on
    node n. The slowest of several nodes counts. Jobs of other kinds run at full speed anywhere. `pair`: each running job of
    another kind on a neighbouring node (in a ring) adds this share to the factor. Where there are ticks, a job runs for
    whole ones. Schedulers do not see the factors. Raises InputError."""

    factors: np.ndarray
    pair: float = 0.0

    def __post_init__(self):
        object.__setattr__(self, "factors", np.ascontiguousarray(self.factors, float))
        if self.factors.ndim != 2 or not ((self.factors > 0) & (self.factors < 1e6)).all() or not 0 <= self.pair < 1e6:
            raise InputError("factors of affinity are a table of kinds by nodes, finite and above 0; pair is at least 0")


PLURALS = {"cpus": "CPUs", "gpus": "GPUs", "memory": "MB of memory"}  # resources as people write them


@dataclass(frozen=True, eq=False)
class Cluster:
    """Nodes and what they hold.

    Attributes
    ----------
    capacity : array [N, R], units
        What each node has of each resource.
    resources : tuple of str
        The R names.
    outages : structured array [F] of `outage_dtype`
        By time: a node goes down (`up` 0) or comes back (`up` 1).
    slowdown : Slowdown, optional
        How much longer jobs run for where they are put.
    topology : jobwise.sim.topology.Topology, optional
        The links between nodes, on which jobs that share them slow each other down.
    affinity : Affinity, optional
        Which nodes suit which jobs.
    classes : array [N], optional
        Numbers of the nodes' kinds of hardware, where they differ.
    risk : array [T, N], optional
        How likely each node is to fail, as it was forecast in each tick; a scheduler knows those of the present.
    site : jobwise.site.Site, optional
        Queues, sets of nodes, limits and the scheduler of a site.
    power : jobwise.power.setting.Power, optional
        What nodes draw, the price of energy, and a cap.
    """

    capacity: np.ndarray
    resources: tuple[str, ...] = ("processors",)
    outages: np.ndarray = field(default_factory=lambda: np.zeros(0, outage_dtype))
    slowdown: Slowdown | None = None
    topology: Any = None
    affinity: Affinity | None = None
    classes: np.ndarray | None = None
    risk: np.ndarray | None = None
    site: Site | None = None
    power: Any = None

    def __post_init__(self):
        if self.capacity.ndim != 2 or self.capacity.size == 0 or (self.capacity < 0).any():
            raise InputError("a cluster needs at least one node with at least one resource, no capacity below 0")
        if len(self.resources) != self.capacity.shape[1]:
            raise InputError(f"{len(self.resources)} resource names for {self.capacity.shape[1]} resources")
        if self.affinity and self.affinity.factors.shape[1] != len(self.capacity):
            raise InputError(f"affinities of {self.affinity.factors.shape[1]} nodes for {len(self.capacity)} nodes")
        if self.classes is not None and (np.shape(self.classes) != (len(self.capacity),) or np.min(self.classes) < 0):
            raise InputError(f"classes are a number >= 0 for each of the {len(self.capacity)} nodes")
        if self.risk is not None and (np.shape(self.risk)[1:] != (len(self.capacity),) or not len(self.risk)):
            raise InputError(f"risks are a table of ticks by {len(self.capacity)} nodes")

    @property
    def total(self) -> np.ndarray:
        """[R] units of the whole cluster."""
        return self.capacity.sum(axis=0)

    @property
    def processors(self) -> int:
        """Units of the first resource: the machine size P of the metrics."""
        return int(self.capacity[:, 0].sum())

    @property
    def units(self) -> dict[str, int]:
        """Units of the whole cluster, by the names of its resources."""
        return dict(zip(self.resources, self.total.tolist(), strict=True))

    @property
    def words(self) -> str:
        """The machine in words: "256 processors", "96 CPUs, 48 GPUs on 6 nodes"."""
        units = ", ".join(f"{n:,} {PLURALS.get(name, name)}" for name, n in self.units.items())
        return units if self.is_bag or self.topology is not None else f"{units} on {len(self.capacity):,} nodes"

    @property
    def is_pool(self) -> bool:
        """One node, one resource: where a job runs does not matter."""
        return self.capacity.shape == (1, 1) and self.topology is None

    @property
    def is_bag(self) -> bool:
        """One node of any resources: a pool of each."""
        return len(self.capacity) == 1 and self.topology is None

    @property
    def known_site(self) -> Site:
        """The settings of its site. Raises InputError where nothing is known of them."""
        if self.site is None:
            raise InputError("nothing is known of the site; read it with `jobwise slurm site FOLDER`")
        return self.site

    @property
    def public(self) -> Cluster:
        """Return the cluster as a scheduler may know it: without future failures and risks; affinities have to be learnt."""
        return replace(self, outages=self.outages[:0], affinity=None, risk=None)

    def graph(self) -> Any:
        """The nodes and their links as a networkx Graph. Raises InputError where nothing is known of links."""
        if self.topology is None:
            raise InputError("this cluster has no topology; gpu_racks([2, 2, 2, 2]) has")
        return self.topology.graph()

    def holds(self, request: np.ndarray, chunks: np.ndarray) -> np.ndarray:
        """[J] bool: would each job (request [J, R], chunks [J]) fit on the empty cluster?"""
        fits = np.asarray((request >= 0).all(axis=1) & (request <= self.total).all(axis=1))
        for row in np.flatnonzero(chunks > 0):
            each = request[row] // chunks[row]
            used = each > 0
            slots = (self.capacity[:, used] // each[used]).min(axis=1).sum() if used.any() else chunks[row]
            fits[row] &= slots >= chunks[row] and (each * chunks[row] == request[row]).all()
        return fits

    def with_outages(self, outages: list[tuple[float, int, int]]) -> Cluster:
        """Return the cluster with (time s, node, up) events."""
        table = np.sort(np.array(outages, dtype=outage_dtype), order=["time", "up", "node"])
        if len(table) and not (table["node"].min() >= 0 and table["node"].max() < len(self.capacity)):
            raise InputError(f"outages name node {table['node'].max()}; the cluster has {len(self.capacity)} nodes")
        return replace(self, outages=table)

    def spread(self, request: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(fewest nodes that could hold each job of request [J, R], most that it can use) [J] each.

        The most are as many as it asks for units of its last resource (accelerators are named last).
        """
        least = np.ones(len(request), np.int64)
        for r in range(request.shape[1]):
            hold = np.cumsum(np.sort(self.capacity[:, r])[::-1])
            least = np.maximum(least, np.searchsorted(hold, request[:, r]) + 1)
        asked = np.ones(len(request), np.int64)
        for r in range(request.shape[1]):
            asked = np.where(request[:, r] > 0, request[:, r], asked)
        return least, np.maximum(np.minimum(asked, len(self.capacity)), least)


def pool(processors: int) -> Cluster:
    """Return a machine of interchangeable processors: one node, one resource.

    Parameters
    ----------
    processors : int
        How many there are.

    Returns
    -------
    Cluster

    Examples
    --------
    >>> import jobwise as jw
    >>> jw.pool(128).processors
    128
    """
    if not 1 <= processors < 2**31:
        raise InputError(f"a pool has 1 to 2^31 - 1 processors, got {processors}")
    return Cluster(np.array([[processors]], np.int64))


def resources(**units: int) -> Cluster:
    """Return a machine of several resources, each of which is one pool.

    Parameters
    ----------
    **units : int
        Units of each resource, such as ``nodes=4360, gpus=800, burst_tb=1290``.

    Returns
    -------
    Cluster

    Raises
    ------
    InputError
        No resource is named, or one has no units.
    """
    if not units or any(v < 0 for v in units.values()) or not all(0 < v < 2**31 for v in list(units.values())[:1]):
        raise InputError(f"a machine has units of its first resource, and no fewer than 0 of others, not {units}")
    return Cluster(np.array([list(units.values())], np.int64), tuple(units))


def nodes(count: int, slowdown: Slowdown | None = None, **units: int) -> Cluster:
    """Return a machine of equal nodes.

    Parameters
    ----------
    count : int
        How many nodes there are.
    slowdown : Slowdown, optional
        How much longer a job runs for where it is put; none: placement changes no run time.
    **units : int
        Units of each resource on each node, such as ``cpus=2, gpus=4``.

    Returns
    -------
    Cluster
    """
    units = units or {"processors": 1}
    if count < 1 or any(v < 0 for v in units.values()):
        raise InputError(f"cannot build {count} nodes of {units}")
    capacity = np.tile(np.array(list(units.values()), np.int64), (count, 1))
    return Cluster(capacity, tuple(units), slowdown=slowdown)

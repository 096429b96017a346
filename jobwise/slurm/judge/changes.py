"""Changes of a site that can be tried: a line of slurm.conf, a partition, a QOS, more or fewer nodes, better time limits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from jobwise.errors import InputError
from jobwise.sim.site.node_choice import choice_of
from jobwise.sim.site.node_sets import packed
from jobwise.sim.site.preemption import preemption
from jobwise.site import Site
from jobwise.slurm.judge.moves import moved, reserved
from jobwise.slurm.judge.site_lines import added, apply
from jobwise.slurm.read.startable import NeverStart, check, limit_of_qos
from jobwise.workload import Workload
from jobwise.workloads.transform import ended_at, limited, stretch

MOST_NODES = 100_000


def changed(
    w: Workload,
    lines: Sequence[str] = (),
    nodes: int = 0,
    limits: float | None = None,
    demand: float | None = None,
    *,
    new: Sequence[str] = (),
    moves: Sequence[str] = (),
    reserve: Sequence[str] = (),
) -> Workload:
    """Return the jobs on a changed site. Jobs that ask for more time than a new MaxTime or MaxWall lets them end at it; the
    workload's notes count them.

    Parameters
    ----------
    w : Workload
        The jobs on the site as it is.
    lines : sequence of str
        Lines of slurm.conf (`PriorityWeightAge=1000`, `bf_window=2880`, `PartitionName=batch MaxTime=1-0 Nodes=n[1-8]`) or of
        sacctmgr (`QOS=long MaxTRESPU=cpu=64`, `Account=bio Share=20`).
    nodes : int
        Number of nodes that are added, like the last one, or (< 0) taken away.
    limits : float, optional
        No time limit above this multiple of the run time.
    demand : float, optional
        This many times as many jobs in the same time: the gaps between submits shrink.
    new : sequence of str
        Lines of partitions and QOS that the site does not have.
    moves : sequence of str
        Jobs that go to another partition or QOS: `partition=long,time<=2h to debug`.
    reserve : sequence of str
        Nodes kept for maintenance: `2026-12-01T08:00 12h all`.

    Raises
    ------
    InputError
        A line is none. NeverStart: jobs could never start then.
    """
    if w.cluster.site is None:
        raise InputError(f"{w.name}: is no site; `jobwise slurm site` prints the commands that fill a folder")
    sets = len(w.cluster.known_site.sets)
    for text in new:
        w = _at(w, added(w.cluster.known_site, text))
    for text in lines:
        w = _at(w, apply(w.cluster.known_site, text))
    for text in moves:
        w = moved(w, text, fitting)
    for text in reserve:
        w = reserved(w, text)
    if len(w.cluster.known_site.sets) > sets + len(reserve) and not (fits := fitting(w)).all():
        raise NeverStart(w, ~fits, then=" on the nodes of their partitions then")
    if nodes:
        w = _resized(w, nodes)
    if limits is not None:
        w = limited(w, limits)
    if demand is not None:
        if not 0 < demand < 1000:
            raise InputError(f"a demand of {demand:g} times the present one cannot be tried")
        w = stretch(w, 1 / demand)
    w = _ended(w)
    check(w)
    site = w.cluster.known_site
    if site.settings["preempt"][0] and lines and not preemption(site, 0, packed(site.sets)).stops.any():
        w = replace(w, notes=w.notes | {"can be stopped for others, as PreemptMode, tiers and Preempt have it": 0})
    return w


def possible(w: Workload, make: Sequence[Callable[[Workload], Workload]]) -> tuple[Workload, list[Workload], list[str]]:
    """Make several changes of the same jobs. Jobs that could never start after one of them are left out on all sides.

    Returns (the jobs that can start in all, those after each change, what was left out and why). Raises InputError where no job
    would be left.
    """
    left: list[str] = []
    while True:
        try:
            return w, [one(w) for one in make], left
        except NeverStart as error:
            if error.jobs.all():
                raise
            left.append(f"{error}: left out on both sides")
            w = w.take(np.flatnonzero(~error.jobs))


def _at(w: Workload, site: Site) -> Workload:
    return replace(w, cluster=replace(w.cluster, site=site))


def _ended(w: Workload) -> Workload:
    """The jobs with the time that their partitions and QOS let them have at most, at which they end; noted with counts."""
    site, queues = w.cluster.known_site, w.cluster.known_site.queues[w.jobs["partition"]]
    most = np.where(queues >= 0, site.partitions["max_time"][queues], 0.0).max(axis=1)
    return ended_at(w, np.minimum(most, limit_of_qos(w, site.qos["max_wall"])[0]))


def _resized(w: Workload, more: int) -> Workload:
    """Add `more` nodes like the last one, in its partitions; or (`more` < 0) take away the last nodes."""
    site, capacity = w.cluster.known_site, w.cluster.capacity
    count = len(capacity) + more
    if count < 1:
        raise InputError(f"a site of {len(capacity)} nodes cannot lose {-more}")
    if count > MOST_NODES:
        raise InputError(f"{count:,} nodes are too many; at most {MOST_NODES:,}")
    if len(w.cluster.outages):
        raise InputError("nodes are neither added to nor taken from a site with outages")
    rows = np.minimum(np.arange(count), len(capacity) - 1)
    names = tuple(site.names[i] if i < len(site.names) else f"more{i - len(capacity) + 1}" for i in range(count))
    sets, closures = site.sets[:, rows], site.closures.copy()
    broken = closures["announced"] == 0
    if more > 0 and broken.any():  # what breaks one node does not break those that are like it
        own = sets[closures["set"][broken]]
        own[:, len(capacity) :] = 0
        closures["set"][broken] = len(sets) + np.arange(len(own))
        sets = np.concatenate([sets, own])
    site = replace(site, weight=site.weight[rows], sets=sets, names=names, closures=closures)
    site = replace(site, switches=site.switches[:, rows] if len(site.switches) else site.switches)
    w = replace(w, cluster=replace(w.cluster, capacity=capacity[rows], site=site))
    if more < 0:
        fits = fitting(w)
        if not fits.all():
            raise NeverStart(w, ~fits, then=f" on {count} nodes")
    return w


def fitting(w: Workload) -> np.ndarray:
    """[J] could each job start on the empty nodes of one of its partitions?"""
    site, capacity = w.cluster.known_site, w.cluster.capacity
    kinds, which = np.unique(np.stack([w.jobs["ask"], w.jobs["partition"]], axis=1), axis=0, return_inverse=True)
    sets, choice = packed(site.sets), choice_of(capacity, capacity, site)

    def one(ask: np.void, queue: int) -> bool:
        for p in site.queues[queue]:
            mask = sets[site.partitions[p]["set"]] & sets[ask["set"]] & sets[ask["types"]]
            if p >= 0 and len(choice(ask, mask)):
                return True
        return False

    return np.array([one(site.asks[a], q) for a, q in kinds])[which.reshape(-1)]

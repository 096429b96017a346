"""Memory of the world of assignments, as tables: jobs in places, jobs on GPUs, and events."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from jobwise.cluster import Cluster
from jobwise.sim.state import State

MODES = ("none", "partial", "full")
NONE, PARTIAL, FULL = range(3)

moment_dtype = np.dtype(
    [
        ("now", "f8"),  # rows since the first arrival
        ("behind", "i8"),  # jobs that wait behind the slots
        ("shown", "i8"),  # the first job that has had no slot yet
        ("owed", "f8"),  # TFLOPS that the jobs behind would do at their requests
        ("hurry", "f8"),  # and the sum of their 1 / length, in rows
        ("slots", "i8"),
        ("mode", "i1"),
        ("elastic", "i1"),  # jobs may run on other numbers of GPUs than they ask for
        ("over", "i1"),
        ("live", "i1"),  # the cluster lives elsewhere: assignments are made, and not carried out
        ("limit", "f8"),  # rows after which a simulation is cut
        ("seed", "u8"),
    ],
    align=True,
)
place_dtype = np.dtype(  # a place, and what a scheduler may know of the job in it
    [
        ("job", "i4"),  # its row; -1: nobody
        ("held", "i4"),  # GPUs it holds
        ("size", "i4"),  # GPUs it is given now: room for making assignments
        ("least", "i4"),  # bounds of that
        ("most", "i4"),
        ("changed", "i4"),
        ("request", "i4"),
        ("length", "f8"),  # rows, at its request
        ("left", "f8"),  # the same of what is left
        ("rate", "f8"),  # how fast it ran last, in its speed at its request; 0: not yet
        ("waited", "f8"),  # rows since it came
        ("worth", "f8"),  # TFLOPS that it would do at its request, in one rack
        ("step", "f8"),
        ("gradient", "f8"),
    ],
    align=True,
)
report_dtype = np.dtype(  # what happened in the last row: rewards are functions of it; and so far in the episode
    [
        ("rows", "f8"),  # of time passed
        ("slow", "f8"),  # sum of 1 / length over the jobs in the system and the rows
        ("speed", "f8"),  # TFLOPS of the running jobs
        ("idle", "f8"),  # pen1: TFLOPS that jobs without GPUs would do at their requests
        ("short", "f8"),  # pen2: TFLOPS that running jobs miss for having fewer GPUs than they asked for
        ("peak", "f8"),  # TFLOPS of the cluster (P100)
        ("changes", "f8"),  # restarts of jobs whose GPUs changed
        ("total", "f8"),  # so far: sum of slowdowns of jobs that ended (at the cut: of all, as if they ended there)
        ("started", "f8"),  # how many
        ("done", "f8"),  # those that did end
        ("longest", "f8"),  # s, longest wait
        ("all_waited", "f8"),  # s
        ("all_speed", "f8"),  # sums over the rows
        ("all_idle", "f8"),
        ("all_short", "f8"),
        ("all_rows", "f8"),
        ("all_changes", "f8"),
        ("over", "f8"),
    ],
    align=True,
)


class Gpus(NamedTuple):
    """E simulations, P places, M GPUs."""

    moment: np.ndarray  # [E] of moment_dtype
    place: np.ndarray  # [E, P] of place_dtype
    has: np.ndarray  # [E, M] the place whose job holds the GPU; -1: none
    want: np.ndarray  # [E, M] the one that is to hold it
    node: np.ndarray  # [E, M] room for a placement
    amount: np.ndarray  # [E, M, 1]
    report: np.ndarray  # [E] of report_dtype
    groups: np.ndarray  # [G] of group_dtype: the cluster as a tree
    fewest: np.ndarray  # [M + 1] racks that so many GPUs need; 1e12 where no way joins so many


group_dtype = np.dtype([("first", "i4"), ("last", "i4"), ("child", "i4"), ("children", "i4"), ("level", "i4")], align=True)


def groups(cluster: Cluster) -> np.ndarray:
    """[G] of `group_dtype`, breadth first: the cluster, its racks, machines, sockets, GPUs; ranges of GPUs, their children."""
    M = len(cluster.capacity)
    levels = [np.array([0, M]), *(cluster.topology.bounds[::-1] if cluster.topology else ()), np.arange(M + 1)]
    rows = [(a, b, depth) for depth, at in enumerate(levels) for a, b in zip(at[:-1], at[1:], strict=True) if b > a]
    table = np.zeros(len(rows), group_dtype)
    table["first"], table["last"], table["level"] = np.array(rows).T
    for row in table:
        inside = np.flatnonzero((table["level"] == row["level"] + 1) & (table["first"] >= row["first"]))
        inside = inside[table["last"][inside] <= row["last"]]
        row["child"], row["children"] = (inside[0], len(inside)) if len(inside) else (-1, 0)
    return table


def gpus(s: State, cluster: Cluster, world, limit: float) -> Gpus:
    """Return the memory of the world of the simulations of `s`; `world`: its settings (`world.Assignment`)."""
    count, M = len(s.sims), len(cluster.capacity)
    moment = np.zeros(count, moment_dtype)
    moment["slots"], moment["mode"], moment["elastic"] = world.slots, MODES.index(world.mode), world.elastic
    moment["limit"], moment["seed"] = limit, s.sims["seed"]
    place = np.zeros((count, world.places(cluster)), place_dtype)
    place["job"] = -1
    room = np.full((count, M), -1, np.int32)
    return Gpus(
        moment, place, room, room.copy(), room.copy(), np.ones((count, M, 1), np.int64), np.zeros(count, report_dtype),
        groups(cluster), cluster.topology.fewest_racks(),
    )  # fmt: skip

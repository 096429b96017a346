"""Limits on nodes count each node once, however many jobs of a QOS, a user or an association are on it, as Slurm does.

Measured on a real 22.05 and 26.05: four jobs of one CPU on one node of four are one node for MaxTRESPerUser=node=1.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from jobwise.compiled import inlined, kernel
from jobwise.sim.site.node_sets import NOTHING, add, next_in
from jobwise.site import LIMITS, Site

OF_QOS, OF_USER, OF_ASSOCIATION = range(3)
NODE = LIMITS.index("nodes")


class DistinctNodes(NamedTuple):
    """The limits on nodes, and the number of jobs on each node below each. Empty where there is none."""

    row: np.ndarray  # [3, Q or S] the first row of a QOS, of its users, of an association; -1: it has no limit on nodes
    jobs: np.ndarray  # [rows, N] jobs on each node
    where: np.ndarray  # [J, W] the nodes that a running job is on
    any: np.ndarray  # [1] is there one?


def distinct_nodes(site: Site, jobs: int, users: int) -> DistinctNodes:
    """Return the empty table of a site for `jobs` jobs of `users` users."""
    limits = [site.qos["all"][:, NODE], site.qos["user"][:, NODE], site.associations["all"][:, NODE]]
    row, rows = np.full((3, max(map(len, limits))), -1), 0
    for kind, most in enumerate(limits):
        for i in np.flatnonzero(np.isfinite(most)).tolist():
            row[kind, i] = rows
            rows += users if kind == OF_USER else 1
    N = len(site.weight)
    return DistinctNodes(
        row, np.zeros((rows, N), np.int32), np.zeros((jobs if rows else 0, -(-N // 64)), np.uint64), np.array([rows > 0])
    )


@inlined
def row_of(slurm, kind, i, user):
    """The row of a QOS (of a user in it) or of an association; -1: it has no limit on nodes."""
    first = slurm.ledger.distinct.row[kind, i] if slurm.ledger.distinct.any[0] else -1
    return first if first < 0 or kind != OF_USER else first + max(user, 0)


@kernel
def more(slurm, row, n):
    """Return how many of the nodes slurm.work.each[:n] are new to a row."""
    count = 0.0
    for i in range(n):
        count += slurm.ledger.distinct.jobs[row, slurm.work.each[i]] == 0
    return count


@kernel
def settled_on(slurm, j, n):
    """Note that job j is on nodes slurm.work.each[:n]."""
    if slurm.ledger.distinct.any[0]:
        slurm.ledger.distinct.where[j, :] = NOTHING
        for i in range(n):
            add(slurm.ledger.distinct.where[j], np.int64(slurm.work.each[i]))


@kernel
def changed(slurm, j, row, sign):
    """Job j has come to (1) or left (-1) its nodes. Return by how many nodes the row has more or fewer."""
    own, table, N = slurm.ledger.distinct.where[j], slurm.ledger.distinct.jobs, slurm.ledger.distinct.jobs.shape[1]
    d, i = 0.0, next_in(own, 0, N)
    while i < N:
        before = table[row, i] > 0
        table[row, i] += np.int32(sign)
        d += np.float64(table[row, i] > 0) - np.float64(before)
        i = next_in(own, i + 1, N)
    return d

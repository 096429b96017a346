"""HEFT: a whole schedule for one graph of tasks on unequal processors (Topcuoglu, Hariri, Wu, IEEE TPDS 13(3), 2002).

Tasks by upward rank, each to the processor that ends it first, in a gap where it fits. On equal processors without
communication the order `rank` makes the same choices task by task as processors become free, without gaps.
"""

from __future__ import annotations

import numpy as np

from jobwise.errors import InputError
from jobwise.sim.compiled import allocating, kernel
from jobwise.sim.dag import graph


def heft(
    seconds: np.ndarray, edges: np.ndarray, between: np.ndarray | float = 0.0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(start [J] s, end [J] s, processor [J]) of J tasks on P processors.

    `seconds` [J, P]: how long a task takes on a processor. `edges` [M, 2]: (parent, child). `between` [M] s: how long what a
    child needs is on its way, 0 on the parent's own processor. Raises InputError for circles and times that cannot be.
    """
    seconds = np.asarray(seconds, float)
    edges = np.asarray(edges, np.int64).reshape(-1, 2)
    between = np.broadcast_to(np.asarray(between, float), len(edges)).copy()
    if seconds.ndim != 2 or not seconds.size or not (np.isfinite(seconds) & (seconds >= 0)).all():
        raise InputError(f"seconds [J, P] are finite numbers >= 0, not an array of {seconds.shape}")
    if not (np.isfinite(between) & (between >= 0)).all():
        raise InputError("times between tasks are finite numbers >= 0")
    g = graph(len(seconds), edges)
    rank = np.zeros(len(seconds))
    by_parent = between[np.argsort(edges[:, 0], kind="stable")]
    _rank(g.first, g.child, g.order, seconds.mean(axis=1), by_parent, rank)
    place = np.empty(len(seconds), np.int64)
    place[g.order] = np.arange(len(seconds))
    order = np.lexsort((place, -rank))  # parents first, also where tasks take no time
    by_child = np.argsort(edges[:, 1], kind="stable")
    first = np.searchsorted(edges[by_child, 1], np.arange(len(seconds) + 1))
    return _schedule(order, seconds, first, edges[by_child, 0], between[by_child])


@kernel
def _rank(first, child, order, own, between, out):
    for at in range(len(order) - 1, -1, -1):
        i, most = order[at], 0.0
        for k in range(first[i], first[i + 1]):
            most = max(most, between[k] + out[child[k]])
        out[i] = own[i] + most


@allocating
def _schedule(order, seconds, first, parent, between):
    """Each task to where it ends first; `parent`[first[i] : first[i + 1]] are the parents of task i."""
    J, P = seconds.shape
    start, end, on = np.zeros(J), np.zeros(J), np.zeros(J, np.int64)
    busy, count = np.empty((P, J), np.int64), np.zeros(P, np.int64)  # tasks of a processor, by start
    for i in order:
        best, begin, at, where = np.inf, 0.0, 0, 0
        for p in range(P):
            ready = 0.0
            for k in range(first[i], first[i + 1]):
                ready = max(ready, end[parent[k]] + (between[k] if on[parent[k]] != p else 0.0))
            t, slot = ready, count[p]
            for x in range(count[p]):
                if t + seconds[i, p] <= start[busy[p, x]]:
                    slot = x
                    break
                t = max(t, end[busy[p, x]])
            if t + seconds[i, p] < best:
                best, begin, at, where = t + seconds[i, p], t, slot, p
        start[i], end[i], on[i] = begin, best, where
        for x in range(count[where], at, -1):
            busy[where, x] = busy[where, x - 1]
        busy[where, at] = i
        count[where] += 1
    return start, end, on

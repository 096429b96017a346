"""Graphs of tasks: levels, ranks, critical paths. Rows are tasks, edges [M, 2] are (parent, child)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from jobwise.compiled import allocating, kernel
from jobwise.errors import InputError
from jobwise.sim.random import mixed


class Graph(NamedTuple):
    """The children of row i are child[first[i] : first[i + 1]]; in `order` parents come before children."""

    first: np.ndarray  # [J + 1]
    child: np.ndarray  # [M]
    order: np.ndarray  # [J]


def graph(count: int, edges: np.ndarray, names: Sequence[str] | None = None) -> Graph:
    """The graph of `count` rows. Raises InputError, with one of the `names`, where tasks wait for each other in a circle."""
    edges = np.asarray(edges, np.int64).reshape(-1, 2)
    if len(edges) and not (edges.min() >= 0 and edges.max() < count):
        raise InputError(f"edges are (parent, child) rows from 0 to {count - 1}")
    first = np.zeros(count + 1, np.int64)
    np.cumsum(np.bincount(edges[:, 0], minlength=count), out=first[1:])
    child = edges[np.argsort(edges[:, 0], kind="stable"), 1]
    order = _sorted(first, child, np.bincount(edges[:, 1], minlength=count))
    if len(order) < count:
        left = np.setdiff1d(np.arange(count), order)
        one = repr(names[left[0]]) if names else f"row {left[0]}"
        raise InputError(f"{len(left)} tasks wait for each other in a circle, or for such tasks; one is {one}")
    return Graph(first, child, order)


@allocating
def _sorted(first, child, unmet):
    """Rows, parents first; without those of circles and what waits for them."""
    count = len(unmet)
    order, done = np.empty(count, np.int64), 0
    for i in range(count):
        if unmet[i] == 0:
            order[done] = i
            done += 1
    at = 0
    while at < done:
        for k in range(first[order[at]], first[order[at] + 1]):
            unmet[child[k]] -= 1
            if unmet[child[k]] == 0:
                order[done] = child[k]
                done += 1
        at += 1
    return order[:done]


@kernel
def _down(first, child, order, own, out):
    for at in range(len(order) - 1, -1, -1):
        i, most = order[at], 0.0
        for k in range(first[i], first[i + 1]):
            most = max(most, out[child[k]])
        out[i] = own[i] + most


@kernel
def _up(first, child, order, own, out):
    for at in range(len(order)):
        i = order[at]
        for k in range(first[i], first[i + 1]):
            out[child[k]] = max(out[child[k]], out[i] + own[i])


def ranks(g: Graph, seconds: np.ndarray) -> np.ndarray:
    """[J] s, upward ranks: the longest way from the begin of a task to an end of its graph (Topcuoglu et al., IEEE TPDS
    13(3), 2002, equation 8, without communication). The largest is the critical path."""
    out = np.zeros(len(g.order))
    _down(*g, np.asarray(seconds, float), out)
    return out


def earliest(g: Graph, seconds: np.ndarray) -> np.ndarray:
    """[J] s, the longest way to the begin of a task: no schedule starts it before."""
    out = np.zeros(len(g.order))
    _up(*g, np.asarray(seconds, float), out)
    return out


def levels(g: Graph) -> np.ndarray:
    """[J] how many tasks the longest way to a task has."""
    return earliest(g, np.ones(len(g.order))).astype(np.int64)


def components(count: int, edges: np.ndarray) -> np.ndarray:
    """[count] which part of a graph a row is in: parts have no edges between them, and are numbered by their first rows."""
    part = np.arange(count)
    _joined(part, np.asarray(edges, np.int64).reshape(-1, 2))
    return np.unique(part, return_inverse=True)[1]


@kernel
def _joined(part, edges):
    for k in range(len(edges)):
        a, b = _root(part, edges[k, 0]), _root(part, edges[k, 1])
        part[max(a, b)] = min(a, b)
    for i in range(len(part)):
        part[i] = _root(part, i)


@kernel
def _root(part, i):
    while part[i] != i:
        part[i] = part[part[i]]
        i = part[i]
    return i


@kernel
def bundle(order, level, kind, seconds, cores, capacity, most, spread, out):
    """out[row]: the number of its bundle, see `workloads/bundles.py`; how many there are."""
    count, first, used, held = -1, -1, 0, 0
    for i in order:
        if (
            first < 0
            or level[i] != level[first]
            or kind[i] != kind[first]
            or held == most
            or used + cores[i] > capacity
            or seconds[i] > spread * max(seconds[first], 1.0)
        ):
            count, first, used, held = count + 1, i, 0, 0
        out[i] = count
        used, held = used + cores[i], held + 1
    return count + 1


@kernel
def refined(label, edges, out):
    """One round of Weisfeiler and Lehman: out[i] is label i mixed with the sums over its parents and its children."""
    for i in range(len(label)):
        out[i] = mixed(label[i])
    for k in range(len(edges)):
        a, b = edges[k, 0], edges[k, 1]
        out[b] += mixed(label[a] ^ np.uint64(0x5851F42D4C957F2D))
        out[a] += mixed(label[b] ^ np.uint64(0x14057B7EF767814F))

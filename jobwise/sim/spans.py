"""Nodes as spans: neighbours with the same free units and the same capacity are one row, so that a machine of 158,976 equal
nodes costs what its few hundred spans cost. A machine whose nodes are looked at one by one has a span for each.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from jobwise.compiled import allocating, inlined, kernel


class Spans(NamedTuple):
    """The nodes of a machine, in order of number."""

    first: np.ndarray  # [room + 1] the first node of a span; behind the last span the number of nodes
    free: np.ndarray  # [room, R] units of each node
    capacity: np.ndarray  # [room, R] units of each node
    total: np.ndarray  # [R] free units of all nodes
    size: np.ndarray  # [1] spans


@allocating
def separate(free, capacity):
    """Each node a span of its own, with the arrays free [N, R] and capacity [N, R] themselves."""
    N, R = free.shape
    total = np.zeros(R, np.int64)
    for i in range(N):
        for r in range(R):
            total[r] += free[i, r]
    return Spans(np.arange(N + 1), free, capacity, total, np.full(1, N))


def joined(free: np.ndarray, capacity: np.ndarray) -> Spans:
    """Return the spans of nodes with free [N, R] and capacity [N, R] units, with room for one of each node."""
    spans = separate(free.astype(np.int64), capacity.astype(np.int64))
    join(spans)
    return spans


@allocating
def room_like(spans):
    """Return room for as many spans."""
    blank = np.zeros_like(spans.first), np.zeros_like(spans.free), np.zeros_like(spans.capacity)
    return Spans(blank[0], blank[1], blank[2], np.zeros_like(spans.total), np.zeros_like(spans.size))


@inlined
def count(spans, i):
    """Return the number of nodes in span i."""
    return spans.first[i + 1] - spans.first[i]


@kernel
def at(spans, node):
    """The span that a node is in."""
    low, high = 0, spans.size[0]
    while high - low > 1:
        mid = (low + high) >> 1
        if spans.first[mid] <= node:
            low = mid
        else:
            high = mid
    return low


@inlined
def _move(spans, source, target):
    spans.first[target] = spans.first[source]
    for r in range(spans.free.shape[1]):
        spans.free[target, r], spans.capacity[target, r] = spans.free[source, r], spans.capacity[source, r]


@kernel
def split(spans, i, nodes):
    """Cut span i behind its first `nodes` nodes; nothing to do where it has no more."""
    if nodes == count(spans, i):
        return
    size = spans.size[0]
    spans.first[size + 1] = spans.first[size]
    for k in range(size, i, -1):
        _move(spans, k - 1, k)
    spans.first[i + 1] += nodes
    spans.size[0] += 1


@kernel
def cut(spans, node):
    """The span that begins with a node, which is cut off from its neighbours below where it has to be."""
    i = at(spans, node)
    if spans.first[i] == node:
        return i
    split(spans, i, node - spans.first[i])
    return i + 1


@kernel
def give(spans, node, more, amount, sign):
    """Give `amount` [R] units (sign 1) to a node and `more` nodes behind it, or take them (-1)."""
    until, i = node + more + 1, cut(spans, node)
    while i < spans.size[0] and spans.first[i] < until:
        if spans.first[i + 1] > until:
            split(spans, i, until - spans.first[i])
        for r in range(len(amount)):
            spans.free[i, r] += sign * amount[r]
        i += 1
    for r in range(len(amount)):
        spans.total[r] += sign * amount[r] * (more + 1)


@kernel
def join(spans):
    """Make one span of neighbours that are alike."""
    k = 0
    for i in range(1, spans.size[0]):
        same = True
        for r in range(spans.free.shape[1]):
            same = same and spans.free[i, r] == spans.free[k, r] and spans.capacity[i, r] == spans.capacity[k, r]
        if not same:
            k += 1
            if k < i:
                _move(spans, i, k)
    spans.first[k + 1] = spans.first[spans.size[0]]
    spans.size[0] = k + 1


@kernel
def copy(spans, other):
    """Make `other` equal to `spans`."""
    for i in range(spans.size[0]):
        other.first[i] = spans.first[i]
        for r in range(spans.free.shape[1]):
            other.free[i, r], other.capacity[i, r] = spans.free[i, r], spans.capacity[i, r]
    other.size[0] = spans.size[0]
    other.first[other.size[0]] = spans.first[spans.size[0]]
    for r in range(len(spans.total)):
        other.total[r] = spans.total[r]

"""Forests of regression trees, evaluated by compiled code: what gradient boosting (LightGBM) learns, as arrays.

A tree asks of a row of features "is x[feature] <= threshold?", left if so, until it comes to a leaf; the values of the leaves
of all trees add up to a raw score.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from jobwise.compiled import kernel

node_dtype = np.dtype(
    [
        ("feature", "i4"),  # -1: a leaf
        ("left", "i4"),
        ("right", "i4"),
        ("value", "f8"),  # the threshold, or what the leaf adds
    ],
    align=True,
)


class Forest(NamedTuple):
    """Several outputs, each the sum of some trees."""

    node: np.ndarray  # [M] of node_dtype
    tree: np.ndarray  # [T] first nodes
    bound: np.ndarray  # [outputs + 1] the trees of output k are bound[k] .. bound[k + 1] - 1


NOTHING = Forest(np.zeros(0, node_dtype), np.zeros(0, np.int64), np.zeros(3, np.int64))  # two outputs, no trees: raw 0


@kernel
def raw(forest, x, k):
    """The raw score of output k for a row of features x [F]."""
    total = 0.0
    for t in range(forest.bound[k], forest.bound[k + 1]):
        i = forest.tree[t]
        while forest.node[i]["feature"] >= 0:
            i = np.int64(
                forest.node[i]["left"] if x[forest.node[i]["feature"]] <= forest.node[i]["value"] else forest.node[i]["right"]
            )
        total += forest.node[i]["value"]
    return total


@kernel
def raw_all(forest, x, k, out):
    """out[i] = the raw score of output k for row x[i]."""
    for i in range(len(x)):
        out[i] = raw(forest, x[i], k)


def joined(a: Forest, b: Forest) -> Forest:
    """A forest whose raw scores are the sums of those of both."""
    if not len(a.tree):
        return b
    node, trees, bound = np.concatenate([a.node, b.node]), [], [0]
    inner = np.arange(len(node)) >= len(a.node)
    for side in ("left", "right"):
        node[side] += np.where(inner & (node["feature"] >= 0), len(a.node), 0).astype(np.int32)
    for k in range(len(a.bound) - 1):
        trees += [a.tree[a.bound[k] : a.bound[k + 1]], b.tree[b.bound[k] : b.bound[k + 1]] + len(a.node)]
        bound.append(bound[-1] + len(trees[-1]) + len(trees[-2]))
    return Forest(node, np.concatenate(trees), np.array(bound))


def check(f: Forest, features: int) -> None:
    """Raises ValueError for arrays that are no forest: every way down a tree goes to a later node, and ends at a leaf."""
    M, at = len(f.node), np.arange(len(f.node))
    inner = f.node["feature"] >= 0
    down = np.stack([f.node["left"], f.node["right"]])[:, inner]
    if (f.node["feature"] >= features).any() or (down <= at[inner]).any() or (down >= M).any():
        raise ValueError("trees ask for features that there are, and go down")
    if not np.isfinite(f.node["value"]).all() or (f.tree < 0).any() or (f.tree >= M).any():
        raise ValueError("thresholds and leaves are finite, trees begin at nodes")
    if (np.diff(f.bound) < 0).any() or f.bound[0] != 0 or f.bound[-1] != len(f.tree):
        raise ValueError("outputs are runs of trees, one behind the other")


def to_tensors(f: Forest) -> dict[str, np.ndarray]:
    """Return the tensors that a policy file keeps."""
    node = {k: np.ascontiguousarray(f.node[k]) for k in ("feature", "left", "right", "value")}
    return node | {"tree": f.tree.astype(np.int32), "bound": f.bound.astype(np.int32)}


def from_tensors(t: dict[str, np.ndarray], features: int) -> Forest:
    """From what a file kept. Raises ValueError, KeyError."""
    node = np.zeros(len(t["value"]), node_dtype)
    for k in ("feature", "left", "right", "value"):
        node[k] = t[k]
    f = Forest(node, t["tree"].astype(np.int64), t["bound"].astype(np.int64))
    if len(f.bound) != 3:
        raise ValueError("a forest of run times has two outputs")
    check(f, features)
    return f

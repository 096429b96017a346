"""Slurm's shares and usage: fair tree and classic, as measured on a real Slurm (docs/systems/slurm.md).

Kept for each association (a user in an account, an account). Usage counts CPU-seconds, which fade with the half life.
"""

from __future__ import annotations

import numpy as np

from jobwise.sim.compiled import inlined, kernel


@inlined
def fade(x, seconds):
    """What is left of usage after so many seconds; Slurm's decay is linear in a second, compounded."""
    return (1.0 - 0.693 / x["half_life"]) ** seconds if x["half_life"] < np.inf else 1.0


@kernel
def charge(m, leaf, amount):
    """Add usage to an association and all above it."""
    while leaf >= 0:
        m.usage[leaf] += amount
        leaf = m.association[leaf]["parent"]


@kernel
def used(s, e, m, j, now, cpus):
    """Job j ends after it has held these CPUs: charge what has not been charged yet."""
    leaf, x = m.leaf_of[j], m.settings[0]
    if leaf >= 0:
        d = now - max(s.jobs[e, j]["due"] - max(s.jobs[e, j]["walltime"], 1.0), m.clock[0]["priced"])
        charge(m, leaf, cpus * d * fade(x, d))


@inlined
def _level(m, i, total):
    """LevelFS of association i: its share among its siblings over its part of their usage."""
    used_, shares = m.usage[i], m.association[i]["shares"]
    if used_ <= 0 or total <= 0:
        return np.inf
    return shares / (used_ / total)


@kernel
def fair_tree(m):
    """factor[i] of every leaf: walk the tree by falling LevelFS; rank from the best, over how many leaves there are. Equal
    siblings share a rank (their users merge)."""
    S = len(m.association)
    leaves = 0
    for i in range(S):
        leaves += m.association[i]["leaf"]
    for i in range(S):  # of each parent the sums over its children
        m.sums[i, 0] = m.sums[i, 1] = 0.0
    for i in range(1, S):
        p = m.association[i]["parent"]
        m.sums[p, 0] += m.usage[i]
        m.sums[p, 1] += m.association[i]["shares"]
    for i in range(1, S):
        p = m.association[i]["parent"]
        m.level[i] = _level(m, i, m.sums[p, 0]) / max(m.sums[p, 1], 1e-30)
    for i in range(S):
        if not m.association[i]["leaf"]:
            continue
        before = 0
        for k in range(S):
            if m.association[k]["leaf"] and k != i and _ahead(m, k, i):
                before += 1
        m.fair[i] = (leaves - before) / leaves


@kernel
def _depth(m, i):
    d = 0
    while m.association[i]["parent"] >= 0:
        i = m.association[i]["parent"]
        d += 1
    return d


@kernel
def _ahead(m, a, b):
    """Is leaf a before leaf b in the walk?"""
    i, k, u, v = np.int64(a), np.int64(b), _depth(m, a), _depth(m, b)
    while u > v:
        i, u = np.int64(m.association[i]["parent"]), u - 1
    while v > u:
        k, v = np.int64(m.association[k]["parent"]), v - 1
    while m.association[i]["parent"] != m.association[k]["parent"]:
        i, k = np.int64(m.association[i]["parent"]), np.int64(m.association[k]["parent"])
    return m.level[i] > m.level[k]


@kernel
def classic(m):
    """factor[i] = 2^(-usage / shares) of every leaf, both of the whole."""
    total = m.usage[0]
    for i in range(1, len(m.association)):
        p = m.association[i]["parent"]
        m.sums[p, 1] = 0.0
    for i in range(1, len(m.association)):
        m.sums[m.association[i]["parent"], 1] += m.association[i]["shares"]
    m.level[0] = 1.0
    for i in range(1, len(m.association)):  # parents stand before their children
        p = m.association[i]["parent"]
        m.level[i] = m.level[p] * m.association[i]["shares"] / max(m.sums[p, 1], 1e-30)
        if m.association[i]["leaf"]:
            share = m.level[i]
            m.fair[i] = 0.0 if share <= 0 else 2.0 ** (-(m.usage[i] / total if total > 0 else 0.0) / share)

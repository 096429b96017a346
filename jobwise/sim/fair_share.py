"""Slurm's shares and usage: fair tree and classic, as measured on a real Slurm (docs/systems/slurm.md).

Kept for each association (a user in an account, an account). Usage counts CPU-seconds, which fade with the half life.
"""

from __future__ import annotations

import numpy as np

from jobwise.compiled import allocating, inlined, kernel


@inlined
def fade(x, seconds):
    """Return the share of usage left after so many seconds; Slurm's decay is linear in a second, compounded."""
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
    if leaf >= 0 and x["charged"]:
        d = now - max(s.jobs[e, j]["due"] - max(s.jobs[e, j]["walltime"], 1.0), m.clock[0]["priced"])
        charge(m, leaf, cpus * d * fade(x, d))


@inlined
def _level(m, i, total):
    """LevelFS of association i: its share among its siblings over its part of their usage."""
    used_, shares = m.usage[i], m.association[i]["shares"]
    if used_ <= 0 or total <= 0:
        return np.inf
    return shares / (used_ / total)


@allocating
def fair_tree(m):
    """fair[i] of every leaf: walk the tree by falling LevelFS; the rank from the best, over how many leaves there are. Equal
    siblings share a rank (their users merge)."""
    S = len(m.association)
    parent, inside, before = np.empty(S, np.int64), np.zeros(S, np.int64), np.zeros(S, np.int64)
    for i in range(S):  # of each parent the sums over its children
        m.sums[i, 0] = m.sums[i, 1] = 0.0
        parent[i] = m.association[i]["parent"]
    for i in range(1, S):
        m.sums[parent[i], 0] += m.usage[i]
        m.sums[parent[i], 1] += m.association[i]["shares"]
    for i in range(S - 1, -1, -1):  # leaves inside each branch
        inside[i] += m.association[i]["leaf"]
        m.level[i] = -np.inf
        if i > 0:
            inside[parent[i]] += inside[i]
            m.level[i] = _level(m, i, m.sums[parent[i], 0]) / max(m.sums[parent[i], 1], 1e-30)
    order = np.argsort(-m.level, kind="mergesort")
    order = order[np.argsort(parent[order], kind="mergesort")]
    ahead, level = 0, np.int64(0)
    for x in range(S):  # children of one parent stand beside each other, the best first
        i = order[x]
        if x > 0 and parent[i] != parent[order[x - 1]]:
            ahead = level = 0
        elif x > 0 and m.level[i] < m.level[order[x - 1]]:
            ahead, level = ahead + level, 0
        before[i] = ahead
        level += inside[i]
    for i in range(1, S):
        before[i] += before[parent[i]]
        if m.association[i]["leaf"]:
            m.fair[i] = (inside[0] - before[i]) / inside[0]


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

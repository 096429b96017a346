"""Slurm's shares and usage: fair tree and classic, as measured on a real Slurm (docs/systems/slurm.md).

Kept for each association (a user in an account, an account). Usage counts CPU-seconds, which fade with the half life.
"""

from __future__ import annotations

import numpy as np

from jobwise.compiled import allocating, inlined, kernel


@inlined
def fade(x, seconds):
    """Return the share of usage left after `seconds` s; Slurm's decay is linear in a second, compounded."""
    return (1.0 - 0.693 / x["half_life"]) ** seconds if x["half_life"] < np.inf else 1.0


@kernel
def charge(slurm, leaf, amount):
    """Add usage to an association and all above it."""
    while leaf >= 0:
        slurm.ledger.usage[leaf] += amount
        leaf = slurm.site.association[leaf]["parent"]


@kernel
def used(s, e, slurm, j, now, cpus):
    """Job j ends after it has held these CPUs: charge what has not been charged yet."""
    leaf, x = slurm.ledger.leaf_of[j], slurm.site.settings[0]
    if leaf >= 0 and x["charged"]:
        d = now - max(s.jobs[e, j]["due"] - max(s.jobs[e, j]["walltime"], 1.0), slurm.ledger.clock[0]["priced"])
        charge(slurm, leaf, cpus * d * fade(x, d))


@inlined
def _level(slurm, i, total):
    """LevelFS of association i: its share among its siblings over its part of their usage."""
    used_, shares = slurm.ledger.usage[i], slurm.site.association[i]["shares"]
    if used_ <= 0 or total <= 0:
        return np.inf
    return shares / (used_ / total)


@allocating
def fair_tree(slurm):
    """fair[i] of every leaf: walk the tree by falling LevelFS; the rank from the best, over how many leaves there are. Equal
    siblings share a rank (their users merge)."""
    S = len(slurm.site.association)
    parent, inside, before = np.empty(S, np.int64), np.zeros(S, np.int64), np.zeros(S, np.int64)
    for i in range(S):  # of each parent the sums over its children
        slurm.ledger.sums[i, 0] = slurm.ledger.sums[i, 1] = 0.0
        parent[i] = slurm.site.association[i]["parent"]
    for i in range(1, S):
        slurm.ledger.sums[parent[i], 0] += slurm.ledger.usage[i]
        slurm.ledger.sums[parent[i], 1] += slurm.site.association[i]["shares"]
    for i in range(S - 1, -1, -1):  # leaves inside each branch
        inside[i] += slurm.site.association[i]["leaf"]
        slurm.ledger.level[i] = -np.inf
        if i > 0:
            inside[parent[i]] += inside[i]
            slurm.ledger.level[i] = _level(slurm, i, slurm.ledger.sums[parent[i], 0]) / max(
                slurm.ledger.sums[parent[i], 1], 1e-30
            )
    order = np.argsort(-slurm.ledger.level, kind="mergesort")
    order = order[np.argsort(parent[order], kind="mergesort")]
    ahead, level = 0, np.int64(0)
    for x in range(S):  # children of one parent stand beside each other, the best first
        i = order[x]
        if x > 0 and parent[i] != parent[order[x - 1]]:
            ahead = level = 0
        elif x > 0 and slurm.ledger.level[i] < slurm.ledger.level[order[x - 1]]:
            ahead, level = ahead + level, 0
        before[i] = ahead
        level += inside[i]
    for i in range(1, S):
        before[i] += before[parent[i]]
        if slurm.site.association[i]["leaf"]:
            slurm.ledger.fair[i] = (inside[0] - before[i]) / inside[0]


@kernel
def classic(slurm):
    """factor[i] = 2^(-usage / shares) of every leaf, both of the whole."""
    total = slurm.ledger.usage[0]
    for i in range(1, len(slurm.site.association)):
        p = slurm.site.association[i]["parent"]
        slurm.ledger.sums[p, 1] = 0.0
    for i in range(1, len(slurm.site.association)):
        slurm.ledger.sums[slurm.site.association[i]["parent"], 1] += slurm.site.association[i]["shares"]
    slurm.ledger.level[0] = 1.0
    for i in range(1, len(slurm.site.association)):  # parents stand before their children
        p = slurm.site.association[i]["parent"]
        slurm.ledger.level[i] = (
            slurm.ledger.level[p] * slurm.site.association[i]["shares"] / max(slurm.ledger.sums[p, 1], 1e-30)
        )
        if slurm.site.association[i]["leaf"]:
            share = slurm.ledger.level[i]
            slurm.ledger.fair[i] = (
                0.0 if share <= 0 else 2.0 ** (-(slurm.ledger.usage[i] / total if total > 0 else 0.0) / share)
            )

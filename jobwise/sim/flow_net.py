"""A graph network over the tasks of workflows, which orders the ready ones and may keep them waiting.

    own features of a task ─► h, then ROUNDS times  h' = relu(h A + mean of its children's h B + of its parents' h C + b)
    score of a ready task     ln(score of a rule) + o1 . relu(h + U workflow + V cluster)
    share that stays free     0.5 relu(o2 . the same + b2), at most 0.9: the task waits while its start would leave less

h is made once, from what is asked for; workflow and cluster are as they stand. With o1 = o2 = 0 it is the rule.
"""

from __future__ import annotations

import numpy as np

from jobwise.compiled import kernel

OWN, FLOW, ALL, D, ROUNDS = 7, 4, 3, 6, 2  # features of a task, a workflow, the cluster; hidden numbers; rounds of messages
_SIZES = (OWN * D, D, *[3 * D * D, D] * ROUNDS, FLOW * D, ALL * D, D, 1, D, 1)
_AT = np.cumsum((0, *_SIZES))
N = int(_AT[-1])  # numbers of a network
ROUND, HEADS = int(_AT[2]), int(_AT[2 + 2 * ROUNDS])
MOST_FREE = 0.9


def blank(seed: int = 0) -> np.ndarray:
    """[N] a network that is the rule: random inside, its last layer 0."""
    rng, net = np.random.default_rng(seed), np.zeros(N)
    net[: OWN * D] = rng.normal(0.0, OWN**-0.5, OWN * D)
    for k in range(ROUNDS):
        at = ROUND + k * (3 * D * D + D)
        net[at : at + 3 * D * D] = rng.normal(0.0, (3 * D) ** -0.5, 3 * D * D)
    net[HEADS : HEADS + (FLOW + ALL) * D] = rng.normal(0.0, 0.3, (FLOW + ALL) * D)
    return net


@kernel
def _first(x, net, h):
    for j in range(len(x)):
        for d in range(D):
            v = net[OWN * D + d]
            for k in range(OWN):
                v += x[j, k] * net[k * D + d]
            h[j, d] = max(v, 0.0)


@kernel
def _messages(first, child, parents, net, at, h, below, above, out):
    """One round; `below`, `above`: room for the means over children and parents."""
    below[:], above[:] = 0.0, 0.0
    for j in range(len(h)):
        count = first[j + 1] - first[j]
        for i in range(first[j], first[j + 1]):
            c = child[i]
            for d in range(D):
                below[j, d] += h[c, d] / count
                above[c, d] += h[j, d] / parents[c]
    for j in range(len(h)):
        for d in range(D):
            v = net[at + 3 * D * D + d]
            for k in range(D):
                v += h[j, k] * net[at + k * D + d]
                v += below[j, k] * net[at + (D + k) * D + d] + above[j, k] * net[at + (2 * D + k) * D + d]
            out[j, d] = max(v, 0.0)


def embedded(
    jobs: np.ndarray, of: np.ndarray, most: np.ndarray, first: np.ndarray, child: np.ndarray, net: np.ndarray, units: int
) -> np.ndarray:
    """[J, D] what the network makes of every task. `of` [J]: its workflow, whose `longest` task and `rank` (s) `most` [F] has.
    The children of row j are child[first[j] : first[j + 1]]."""
    J, span = len(jobs), np.maximum(jobs["walltime"], 1.0)
    rank, levels = np.maximum(jobs["rank"], span), np.ones(len(most))
    np.maximum.at(levels, of, jobs["level"])
    parents = np.bincount(child, minlength=J) if len(child) else np.zeros(J, np.int64)
    x = np.stack(
        [
            np.log(span) / 10.0,
            np.log(jobs["request"][:, 0] + 1.0) / np.log(units + 1.0),
            rank / most["rank"][of],
            span / most["longest"][of],
            np.log(np.diff(first) + 1.0) / 5.0,
            np.log(parents + 1.0) / 5.0,
            jobs["level"] / levels[of],
        ],
        axis=1,
    )
    h, out, below, above = (np.zeros((J, D)) for _ in range(4))
    _first(x, net, h)
    for k in range(ROUNDS):
        _messages(first, child, parents, net, ROUND + k * (3 * D * D + D), h, below, above, out)
        h, out = out, h
    return h


@kernel
def asked(net, inputs, flow, cluster):
    """(what is added to a task's score, the share of the units that stays free) of a task's h [D], FLOW and ALL features."""
    o1 = HEADS + (FLOW + ALL) * D
    o2 = o1 + D + 1
    more, free = net[o1 + D], net[o2 + D]
    for d in range(D):
        z = inputs[d]
        for k in range(FLOW):
            z += flow[k] * net[HEADS + k * D + d]
        for k in range(ALL):
            z += cluster[k] * net[HEADS + (FLOW + k) * D + d]
        if z > 0.0:
            more += z * net[o1 + d]
            free += z * net[o2 + d]
    return more, min(max(0.5 * free, 0.0), MOST_FREE)

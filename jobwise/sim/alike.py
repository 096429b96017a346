"""Classes of jobs that never swap: alike in all that an order looks at but their wait, so that the one that has waited longer
starts first.

An order keeps classes where a longer wait never makes a score worse. Rounding keeps that too: sums, quotients and powers are
monotone as they are rounded, and equal scores go by row. (Logarithms of waits, of log-linear orders, are taken to be: two jobs
alike swap at most where their submits differ by less than 1e-12 of the wait.)
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from jobwise.sim.groups import Memory
from jobwise.sim.list_pass import ACTUAL, Rule
from jobwise.sim.loglinear import FEATURES, F
from jobwise.sim.orders import LINEAR, Order
from jobwise.sim.state import State

NOBODY = np.int32(-1)
NONE_ALIKE = np.empty(0, np.int32)
AHEAD = tuple(FEATURES.index(name) for name in ("log_wait", "waited_part", "log_stretch"))  # what grows with the wait


def keeps(rule: Rule, weights: np.ndarray) -> bool:
    """Does a longer wait never make a score worse? `weights` [F + 1] of a log-linear order: the last one tells how it ages."""
    if rule.express > 0.0 or rule.slack < np.inf:  # jobs of a promise are looked at one by one
        return False
    if rule.order == LINEAR:
        return all(weights[k] <= 0.0 for k in AHEAD) and weights[F] >= 0.0
    return any(row.fifo for row in Order if row == rule.order)


def classes(s: State, e: int, rules: Iterable[tuple[Rule, np.ndarray]], memory: Memory | None = None) -> np.ndarray:
    """[J] the class of each job of simulation e under all these rules, with their weights; empty where a rule has none.

    Jobs of a class ask for as many processors, for as long, and have the same forecast (`memory`)."""
    every = list(rules)
    if not all(keeps(rule, weights) for rule, weights in every):
        return NONE_ALIKE
    J = int(s.sims[e]["jobs"])
    if memory is not None:  # its cells know size and request
        of = memory.of[:J]
    else:
        jobs = s.jobs[e, :J]
        of = _numbered(jobs["walltime"], jobs["request"][:, 0])
    if any(rule.estimate == ACTUAL for rule, _ in every):
        of = _numbered(s.truth[e, :J]["runtime"], of)
    return np.ascontiguousarray(of, np.int32)


def _numbered(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """[J] the same number for equal pairs (a, b)."""
    first, second = (np.unique(x, return_inverse=True)[1] for x in (a, b))
    return np.unique(first * (int(second.max(initial=0)) + 1) + second, return_inverse=True)[1]

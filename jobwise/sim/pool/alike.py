"""Classes of jobs that never swap: an order sees a difference in their waits alone, so that the longest waiting job
starts first.

An order keeps classes where a longer wait never makes a score worse. Rounding keeps that too: sums, quotients and powers are
monotone as they are rounded, and equal scores go by row. (Logarithms of waits, in log-linear orders, are assumed monotone: two
jobs of a class swap at most where their submits differ by less than 1e-12 of the wait.)
"""

from __future__ import annotations

import numpy as np

from jobwise.compiled import kernel
from jobwise.sim.lists.list_pass import ACTUAL, Rule
from jobwise.sim.lists.orders import LINEAR, Order
from jobwise.sim.memory.groups import Memory
from jobwise.sim.memory.loglinear import FEATURES
from jobwise.sim.random import GOLDEN, mixed
from jobwise.sim.state import State

FEW = 1 << 12  # places of a hash table, at first
NOBODY = np.int32(-1)
NONE_ALIKE = np.empty(0, np.int32)
NO_WEIGHTS = np.empty(0)
AHEAD = tuple(FEATURES.index(name) for name in ("log_wait", "waited_part", "log_stretch"))  # what grows with the wait


def keeps(rule: Rule, weights: np.ndarray) -> bool:
    """Does a longer wait never make a score worse? `weights` [F] of a log-linear order."""
    if rule.express > 0.0 or rule.slack < np.inf or rule.estimate == ACTUAL:  # jobs are looked at one by one
        return False
    if rule.order == LINEAR:
        return all(weights[k] <= 0.0 for k in AHEAD)
    return any(row.fifo for row in Order if row == rule.order)


def classes(s: State, e: int, rule: Rule, weights: np.ndarray = NO_WEIGHTS, memory: Memory | None = None) -> np.ndarray:
    """[J] the class of each job of simulation e under a rule, with its weights; empty where it has none.

    Jobs of a class ask for as many processors, for as long, and have the same forecast (`memory`)."""
    if s.steps.shape[1] or not keeps(rule, weights):  # under a cap, jobs that draw more than others are not like them
        return NONE_ALIKE
    J = int(s.sims[e]["jobs"])
    if memory is not None:  # its cells know size and request
        return _parted(memory.of[:J], s.jobs[e, :J], rule)
    of, room = np.empty(J, np.int32), FEW
    while not _number(s.jobs[e, :J], np.full(room, NOBODY, np.int32), of):
        room *= 16
    return _parted(of, s.jobs[e, :J], rule)


def _parted(of: np.ndarray, jobs: np.ndarray, rule: Rule) -> np.ndarray:
    """Classes in two: with trial runs, jobs that may be begun again are not like the others."""
    return np.int32(2) * of + (jobs["restartable"] != 0) if rule.quantum > 0.0 else of


@kernel
def _number(jobs, first, of):
    """Number the jobs [J] by request and size into `of`. `first` [2^k] NOBODY: a hash table of the first of each; False where
    it is too small."""
    mask, count = np.int64(len(first) - 1), 0
    for j in range(len(jobs)):
        r, n = jobs[j]["walltime"], jobs[j]["request"][0]
        i = np.int64(mixed(np.uint64(np.int64(r * 1024.0)) * GOLDEN + np.uint64(n)) >> np.uint64(20)) & mask
        while first[i] >= 0 and (jobs[first[i]]["walltime"] != r or jobs[first[i]]["request"][0] != n):
            i = (i + 1) & mask
        if first[i] < 0:
            first[i], of[j] = j, count
            count += 1
            if 2 * count > len(first):
                return False
        else:
            of[j] = of[first[i]]
    return True

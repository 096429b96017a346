"""Predictions and look-ahead for a policy that is asked, pass by pass, in a simulation or on a live cluster."""

from __future__ import annotations

import numpy as np

from jobwise.decision import View
from jobwise.policies.loglinear import Index, Memory
from jobwise.sim import orders, rollout
from jobwise.sim.history import known
from jobwise.sim.list_pass import PREDICTED, Rule
from jobwise.sim.loglinear import F
from jobwise.sim.scored_pool import item_dtype


def rescored(view: View, rule: Rule, given: np.ndarray, order: str | Index, memory: Memory) -> tuple[np.ndarray, Rule]:
    """Scores by predicted run times or after a look ahead, and the rule with which they are given. given [Q] of an index."""
    weights = np.ascontiguousarray(order.weights, float) if isinstance(order, Index) else np.zeros(F)
    if not isinstance(order, Index):
        table = memory.predicted(view) if rule.estimate == PREDICTED else view.table
        orders.score_rows(rule.order, view.now, view.origin, np.uint64(view.seed), table, view.queue, given)
    given[view.now - view.jobs["submit"][view.queue] > rule.guard] = -np.inf
    if rule.ahead:
        real = rule._replace(order=orders.LINEAR if isinstance(order, Index) else rule.order)
        if (best := front(view, real, weights, given)) >= 0:
            given[best] = -1e300
    return given, rule._replace(order=orders.GIVEN)


def front(view: View, rule: Rule, weights: np.ndarray, scores: np.ndarray) -> int:
    """Which of the queue (a place in `view.queue`) to put at the head; -1: the order stays as it is. `scores` [Q]."""
    jobs, free = view.table, float(view.free.sum())
    size = view.jobs["request"][view.queue, 0]
    if len(view.queue) < 2 or np.isneginf(scores).any() or size.sum() <= free or size.min() > free:
        return -1
    what = known(jobs, view.past)
    a = rollout.build(jobs, view.past, what, view.cluster.processors)
    done = np.flatnonzero(~np.isnan(view.jobs["end"]))
    done = done[np.lexsort((done, view.jobs["start"][done], view.jobs["end"][done]))]  # the order of completions in the kernel
    rollout.catch_up(a, what, jobs, done)
    a.count[1] = len(a.recent)
    queue = np.zeros(len(view.queue), item_dtype)
    queue["row"], queue["size"], queue["score"] = view.queue, size, scores
    queue["submit"], queue["est"] = view.jobs["submit"][view.queue], np.maximum(view.jobs["walltime"][view.queue], 1.0)
    running = np.ascontiguousarray(view.running, np.int32)
    seed, count = np.uint64(view.seed), np.int64(len(queue))
    total = float(view.cluster.processors)
    return int(rollout.choose(a, what, jobs, rule, weights, seed, view.now, view.origin, queue, count, running, free, total))

"""Look-ahead for a policy that is asked, pass by pass, in a simulation or on a live cluster."""

from __future__ import annotations

import numpy as np

from jobwise.decision import View
from jobwise.sim import lookahead
from jobwise.sim.backfill import Rule
from jobwise.sim.bag import item_dtype
from jobwise.sim.history import known


def front(view: View, rule: Rule, weights: np.ndarray, scores: np.ndarray) -> int:
    """Which of the queue (a place in `view.queue`) to put at the head; -1: the order stays as it is. `scores` [Q]."""
    jobs, free = view.table, float(view.free.sum())
    size = view.jobs["request"][view.queue, 0]
    if len(view.queue) < 2 or np.isneginf(scores).any() or size.sum() <= free or size.min() > free:
        return -1
    what = known(jobs, view.past)
    a = lookahead.build(jobs, view.past, what, view.cluster.processors)
    done = np.flatnonzero(~np.isnan(view.jobs["end"]))
    done = done[np.argsort(view.jobs["end"][done], kind="stable")]
    lookahead.catch_up(a, what, jobs, done)
    a.count[1] = len(a.recent)
    queue = np.zeros(len(view.queue), item_dtype)
    queue["row"], queue["size"], queue["score"] = view.queue, size, scores
    queue["submit"], queue["est"] = view.jobs["submit"][view.queue], np.maximum(view.jobs["walltime"][view.queue], 1.0)
    running = np.ascontiguousarray(view.running, np.int32)
    seed, count = np.uint64(view.seed), np.int64(len(queue))
    total = float(view.cluster.processors)
    return int(lookahead.choose(a, what, jobs, rule, weights, seed, view.now, view.origin, queue, count, running, free, total))

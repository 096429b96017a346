"""Choose the compiled loop for a list scheduler: `pool` and `scored_pool` on processor pools, `span_loop` on nodes, `list_loop`
everywhere else."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import numpy as np

from jobwise.cluster import Cluster
from jobwise.cluster import pool as cluster_of
from jobwise.errors import InputError
from jobwise.policies.loglinear import Index
from jobwise.sim.lists import list_loop, span_loop
from jobwise.sim.lists.flows import NONE, flows
from jobwise.sim.lists.list_pass import blank
from jobwise.sim.lists.orders import FLOWS, LINEAR
from jobwise.sim.memory.history import begin
from jobwise.sim.pool import alike, pool, promise, scored_pool
from jobwise.sim.pool.scored_pool import ScoredPool
from jobwise.sim.spans import room_like
from jobwise.sim.state import State
from jobwise.workload import workload

STEPS = 100_000  # instants of choice of the fastest loop between two looks at progress and Ctrl-C


def replay(s: State, e: int, policy: Any, cluster: Cluster, past: np.ndarray, steps: int = 0) -> Generator[None, None, None]:
    """Simulation e, which may stand in the middle, to its end under a `ListScheduler` that a compiled loop suits; yields every
    `steps` instants of choice (0: now and then)."""
    rule, count = policy.rule, int(s.sims[e]["jobs"])
    if cluster.is_pool and policy.is_static and not policy.commit and policy.backfill in FAST:
        p = fresh(s, e, policy)
        pool.resume(s, e, p)
        while pool.run(s, e, p, steps or STEPS):
            yield
    elif cluster.is_pool and scored_pool.suits(rule):
        if rule.order == LINEAR or rule.estimate or rule.express or rule.slack < np.inf:
            b = remembering(s, e, policy, past)
        else:
            b = scored_pool.scheduler(s, e, alike=alike.classes(s, e, rule), quantum=rule.quantum, kept=rule.kept)
        scored_pool.resume(s, e, b)
        while scored_pool.run(s, e, b, rule, steps or STEPS // 100):
            yield
    else:
        est, plan = list_loop.estimates(s, e, rule), blank(count, s.nodes.shape[1], s.jobs["request"].shape[2])
        f = flows(s.jobs[e, :count]) if rule.order in FLOWS else NONE
        if span_loop.suits(s, e):
            own, free = span_loop.begin(s, e)
            later = room_like(free)
            while span_loop.run(own, e, s.slices[e], free, later, rule, est, f, plan, steps or STEPS // 100):
                yield
            return
        while list_loop.run(s, e, rule, est, f, plan, steps or STEPS // 100):
            yield


FAST = ("none", "easy", "easy-sjbf")


def fresh(s: State, e: int, policy: Any) -> pool.PoolScheduler:
    """Return the empty scheduler of a static `ListScheduler` for the jobs that simulation e knows."""
    shortest = None
    if policy.backfill == "easy-sjbf":
        shortest = np.argsort(np.maximum(s.jobs[e]["walltime"][: s.sims[e]["jobs"]], 1.0), kind="stable")
    order = pool.static_order(policy.rule.order, s, e)
    return pool.scheduler(s, e, order, shortest, policy.backfill != "none", policy.rule.guard)


def remembering(
    s: State,
    e: int,
    policy: Any,
    past: np.ndarray,
) -> ScoredPool:
    """Return the queue of a `ListScheduler` that remembers what has ended."""
    jobs, total = s.jobs[e, : s.sims[e]["jobs"]], int(s.nodes[e, 0]["capacity"][0])
    weights = policy.order.weights if isinstance(policy.order, Index) else np.empty(0)
    promised = None
    if policy.promises:
        if (jobs["unmet"] > 0).any():
            raise InputError(f"{policy.name}: start deadlines and short-job lanes are for jobs that wait for no others")
        promised = promise.begin(s, e, past_waits(past, total), policy.express, policy.promise - 1.0)
    memory = begin(past, jobs, total, policy.promises)
    rule = policy.rule
    classes = alike.classes(s, e, rule, weights, memory)
    return scored_pool.scheduler(s, e, weights, memory, promised, classes, rule.quantum, rule.kept)


def past_waits(past: np.ndarray, total: int) -> np.ndarray:
    """[K] s that jobs that ended would have waited under first-come, first-served with EASY, in order of submit."""
    x = np.sort(past[past["size"] <= total], order="submit")
    if not len(x):
        return np.zeros(0)
    w = workload(x["submit"] - x["submit"][0], x["size"], x["runtime"], x["walltime"], cluster=cluster_of(total))
    return pool.waits(w)

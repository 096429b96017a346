"""Who runs a simulation: loops compiled whole, for list schedulers and gates, or one that asks a policy pass by pass.

Each call of what they return makes some steps and says whether there is more.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from jobwise.cluster import Cluster
from jobwise.decision import Policy
from jobwise.errors import InputError
from jobwise.policies.gate import Gate
from jobwise.policies.index import Index
from jobwise.policies.listing import ListScheduler
from jobwise.policies.steering import Steering
from jobwise.sim import bag, listing, lookahead, pool
from jobwise.sim.backfill import blank
from jobwise.sim.history import known
from jobwise.sim.linear import F
from jobwise.sim.scores import LINEAR
from jobwise.sim.simulation import Simulation
from jobwise.sim.state import State

STEPS = 100_000  # instants of choice between two looks at progress and Ctrl-C


def is_compiled(policy: Policy, cluster: Cluster) -> bool:
    """Is it run by a compiled loop on this cluster, without asking it pass by pass?"""
    if isinstance(policy, Gate):
        return cluster.is_pool
    return isinstance(policy, ListScheduler) and policy.is_compiled(cluster)


def _steered(s: State, e: int, policy: ListScheduler | Gate, cluster: Cluster, past: np.ndarray) -> Callable[[], bool]:
    """As `compiled`, for what looks up now and then to see who decides, and under which guard."""
    steering = Steering(policy, past, cluster)
    b = _bag(s, e, np.zeros(F), past, any(p.lookahead for p in policy.everyone))

    def some() -> bool:
        one = s.sims[e]
        if one["next"] >= steering.next:
            steering.look(s.jobs[e, : one["next"]], float(one["now"]))
            if isinstance(steering.scheduler.order, Index):
                b.weights[:] = steering.scheduler.order.weights
        return bag.run(s, e, b, steering.rule, STEPS // 100, int(min(steering.next, bag.MANY)))

    some.looks = steering.looks
    return some


def _bag(s: State, e: int, weights: np.ndarray, past: np.ndarray, ahead: bool) -> bag.Bag:
    """Of a scheduler that remembers what has ended."""
    jobs = s.jobs[e, : s.sims[e]["jobs"]]
    what = known(jobs, past)
    return bag.scheduler(
        s, e, weights, what, lookahead.build(jobs, past, what, int(s.nodes[e, 0]["capacity"][0])) if ahead else None
    )


def compiled(s: State, e: int, policy: ListScheduler | Gate, cluster: Cluster, past: np.ndarray) -> Callable[[], bool]:
    """The loop compiled whole; each call runs some steps and says whether there is more."""
    if isinstance(policy, Gate) or policy.times < np.inf:
        return _steered(s, e, policy, cluster, past)
    rule, pooled = policy.rule, s.slices.shape[1] == 1
    if (
        pooled
        and policy.is_static
        and not policy.commit
        and not rule.ahead
        and policy.backfill in ("none", "easy", "easy-sjbf")
    ):
        shortest = None
        if policy.backfill == "easy-sjbf":
            walltime = s.jobs[e]["walltime"][: s.sims[e]["jobs"]]
            shortest = np.argsort(np.maximum(walltime, 1.0), kind="stable")
        p = pool.scheduler(s, e, pool.static_order(policy.rule.order, s, e), shortest, policy.backfill != "none", rule.guard)
        return lambda: pool.run(s, e, p, STEPS)
    if pooled and bag.suits(rule):
        b = bag.scheduler(s, e)
        if rule.order == LINEAR or rule.ahead or rule.estimate:
            weights = policy.order.weights if rule.order == LINEAR else np.zeros(F)
            b = _bag(s, e, weights, past, rule.ahead > 0)
        return lambda: bag.run(s, e, b, rule, STEPS // 100)
    est = s.truth[e]["runtime"].copy() if policy.backfill == "easy-oracle" else np.empty(0)
    p = blank(int(s.sims[e]["jobs"]), s.nodes.shape[1], s.jobs["request"].shape[2])
    return lambda: listing.run(s, e, rule, est, p, STEPS // 100)


def asked(sim: Simulation, policy: Policy) -> Callable[[], bool]:
    """The loop in Python: the policy is asked at every instant of choice."""
    name = getattr(policy, "name", type(policy).__name__)

    def call(method, *arguments):
        try:
            return method(*arguments)
        except InputError:
            raise
        except (Exception, SystemExit) as error:  # a user's policy may raise anything
            raise InputError(f"policy {name!r} failed at time {sim.now:g} s: {type(error).__name__}: {error}") from error

    call(policy.reset, sim.view())
    until = np.inf

    def some() -> bool:
        nonlocal until
        for _ in range(STEPS // 100):
            if sim.done or not sim.advance(until):
                return False
            view = sim.view()
            if len(view.ended):
                call(policy.ended, view, view.ended)
            decisions = call(policy.decide, view)
            if hasattr(decisions, "__iter__"):
                decisions = call(list, decisions)  # a generator decides here
            elif decisions is not None:
                raise InputError(f"policy {name!r} returned {decisions!r} from decide; a list of decisions is expected")
            until = sim.apply(decisions, f"policy {name!r}")
            if until <= sim.now:
                raise InputError(f"policy {name!r} waits until {until:g} s, but it is {sim.now:g} s already")
        return True

    return some

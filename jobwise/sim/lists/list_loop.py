"""List scheduling compiled whole, for any cluster, order and rule: the general loop.

Gather the queue, plan a pass (`list_pass.py`, `conservative.py`), carry the plan out with the verbs of the kernel. Two loops
make the same decisions faster: `pool.py`, for orders that do not change with time on a pool, and `span_loop.py`, on nodes that
neither fail nor slow jobs down.
"""

from __future__ import annotations

import numpy as np

from jobwise.compiled import allocating, kernel
from jobwise.sim.kernel import OVER, advance, reserve, start
from jobwise.sim.lists.conservative import plan_conservative
from jobwise.sim.lists.flows import note
from jobwise.sim.lists.list_pass import CONSERVATIVE, EASY_ORACLE, Instant, Rule, plan_pass
from jobwise.sim.spans import room_like, separate
from jobwise.sim.state import HEAP, LEFT, State


@allocating
def queued_rows(s, e):
    """Rows in the queue, in order of entry [Q]."""
    rows = np.empty(s.sims[e]["queued"], np.int32)
    j = s.sims[e]["head"]
    for i in range(len(rows)):
        rows[i] = j
        j = s.truth[e, j]["next"]
    return rows


@allocating
def _units(s, e):
    """Free units and capacity of the nodes, [N, R] each."""
    N, R = s.nodes.shape[1], len(s.nodes[e, 0]["free"])
    free, capacity = np.empty((N, R), np.int64), np.empty((N, R), np.int64)
    for i in range(N):
        for r in range(R):
            free[i, r], capacity[i, r] = s.nodes[e, i]["free"][r], s.nodes[e, i]["capacity"][r]
    return free, capacity


@kernel
def ended_early(s, e):
    """Did a job stop before its estimated end in the last advance?"""
    for i in range(s.sims[e]["left"]):
        if s.sims[e]["now"] < s.jobs[e, s.lists[e, LEFT, i]]["due"]:
            return True
    return False


@kernel
def carry_out(s, e, p, rate):
    """Apply a plan: starts at `rate`, reservations. False where a start was refused (a wrong plan)."""
    ok = True
    for i in range(p.count[0]):
        a, b = p.first[i], p.first[i + 1]
        ok = start(s, e, p.row[i], rate, p.node[a:b], p.amount[a:b], b - a) and ok
    for i in range(p.count[1]):
        reserve(s, e, p.promised[i], p.at[i])
    return ok


@allocating
def instant(s, e, rule, est, score, f, free, later, total):
    """The Instant of simulation e now; `score` [Q] are the scores where the rule's order is GIVEN."""
    sim = s.sims[e]
    running = s.lists[e, HEAP, : sim["running"]]
    due = np.empty(len(running))
    for i in range(len(running)):
        j = running[i]
        due[i] = s.jobs[e, j]["due"]
        if rule.backfill == EASY_ORACLE:
            due[i] = s.truth[e, j]["finish"]
    return Instant(
        now=sim["now"],
        origin=sim["origin"],
        seed=sim["seed"],
        jobs=s.jobs[e],
        est=est,
        queue=queued_rows(s, e),
        score=score,
        running=running,
        due=due,
        free=free,
        later=later,
        units=total,
        flows=f,
        steps=s.steps[e],
        step=np.int64(sim["step"]),
    )


@allocating
def planned(s, e, rule, x, slices, p):
    """Plan one pass from the Instant x of simulation e."""
    if rule.backfill == CONSERVATIVE:
        plan_conservative(rule, x, ended_early(s, e), p)
    else:
        plan_pass(rule, x, slices, p)


@allocating
def one_pass(s, e, rule, est, score, f, p):
    """Plan and carry out one pass of simulation e; `score` [Q] are the scores where the rule's order is GIVEN."""
    free, capacity = _units(s, e)
    nodes = separate(free, capacity)
    x = instant(s, e, rule, est, score, f, nodes, room_like(nodes), capacity.sum(axis=0))
    planned(s, e, rule, x, s.slices[e], p)
    return carry_out(s, e, p, 1.0)


def estimates(s: State, e: int, rule: Rule) -> np.ndarray:
    """[J] the run times (s) that reservations go by where those are not the requests: the true ones, of `easy-oracle`."""
    return s.truth[e]["runtime"].copy() if rule.backfill == EASY_ORACLE else np.empty(0)


@allocating
def run(s, e, rule, est, f, p, steps):
    """Run simulation e for up to `steps` instants of choice. True while there is more to do."""
    for _ in range(steps):
        if advance(s, e, np.inf) == OVER:
            return False
        sim = s.sims[e]
        if len(f.table):
            note(f, s.jobs[e], s.lists[e, LEFT, : sim["left"]])
        if sim["queued"] == 0 or (
            s.slices.shape[1] == 1 and s.nodes[e, 0]["free"][0] == 0 and rule.backfill != CONSERVATIVE and not rule.commit
        ):
            continue
        one_pass(s, e, rule, est, np.empty(sim["queued"]), f, p)
    return True

"""Rules for the world of unequal nodes (`world.py`): which node the job of each place goes to. The oldest job first.

lb       the node that has room with the most of the first resource free, the first of such
fewest   the node that has room with the fewest jobs so far
random   one of the nodes that have room
robin    the next one round that has room
first    the first one that has room
safest   the node that has room and the lowest forecast probability of failure
greedy   the node with room on which the job will run shortest: it knows the affinities
oracle   the same, and waits for a better node if the job would end sooner there: it knows when jobs end, too
learned  as `greedy`, by what jobs of this kind have taken on each node so far, less `explore` standard errors: those never
         tried are tried
patient  as `oracle`, by the same; running jobs are expected to take as long as others of their kind did there
"""

from __future__ import annotations

import numpy as np

from jobwise.compiled import kernel
from jobwise.sim.random import draw
from jobwise.sim.rates import expected, factor, whole
from jobwise.sim.state import HEAP
from jobwise.worlds.nodes.passes import risk_of

RULES = ("lb", "fewest", "random", "robin", "first", "greedy", "oracle", "learned", "patient", "safest")
LB, FEWEST, RANDOM, ROBIN, FIRST, GREEDY, ORACLE, LEARNED, PATIENT, SAFEST = range(10)
SPREAD = 0.35  # of the run times of a kind on a node, as a share of their mean: what a standard error is made of


@kernel
def guessed(g, e, kind, n, explore):
    """Return the expected run time of a job of this kind on node n, s: the mean so far less `explore` standard errors; without
    data the mean over the nodes (0 with `explore`, so that every node is tried)."""
    if kind < 0 or kind >= g.seen.shape[1]:
        return 1.0
    one = g.seen[e, kind, n]
    if one["count"] > 0.0:
        return one["mean"] * max(1.0 - explore * SPREAD / np.sqrt(one["count"]), 0.0)
    if explore > 0.0:
        return 0.0
    total, count = 0.0, 0.0
    for i in range(g.seen.shape[2]):
        total += g.seen[e, kind, i]["count"] * g.seen[e, kind, i]["mean"]
        count += g.seen[e, kind, i]["count"]
    return total / count if count > 0.0 else 1.0


@kernel
def _takes(rule, s, g, e, j, n, explore):
    """Return the run time of job j on node n, as the rule knows it, s."""
    if rule == GREEDY or rule == ORACLE:
        run = s.truth[e, j]["runtime"]
        return run * whole(s.sims[e], run, factor(s, e, s.truth[e, j]["kind"], n))
    return guessed(g, e, s.jobs[e, j]["kind"], n, explore)


@kernel
def _end(rule, s, g, e, j, n):
    """Return the end of running job j, as the rule knows it."""
    if rule == ORACLE:
        return s.truth[e, j]["finish"]
    began = s.jobs[e, j]["due"] - expected(s.jobs[e, j])  # it may have started before, elsewhere
    end = began + guessed(g, e, s.jobs[e, j]["kind"], n, 0.0)
    return max(end, s.sims[e]["now"] + s.sims[e]["tick"])


@kernel
def _left(s, g, e, n, r):
    """Return the free units of node n after the jobs that this round has given it."""
    free = s.nodes[e, n]["free"][r]
    for p in range(g.place.shape[1]):
        if g.to[e, p] == n and g.place[e, p] >= 0:
            free -= s.jobs[e, g.place[e, p]]["request"][r]
    return free


@kernel
def _fits(s, g, e, j, n):
    """Does job j fit there?"""
    if risk_of(s, e, n) > g.moment[e]["avoid"]:
        return False
    for r in range(g.amount.shape[2]):
        if s.jobs[e, j]["request"][r] > _left(s, g, e, n, r):
            return False
    return True


@kernel
def room_at(rule, s, g, e, j, n):
    """Return the time when job j has room on node n, as the rule knows it, after all jobs that this round gives the node."""
    now, R = s.sims[e]["now"], g.amount.shape[2]
    if _fits(s, g, e, j, n):
        return now
    at = now
    while True:  # the next end on this node
        after = np.inf
        for i in range(s.sims[e]["running"]):
            other = s.lists[e, HEAP, i]
            if g.at[e, other] == n:
                end = _end(rule, s, g, e, other, n)
                if end > at:
                    after = min(after, end)
        if after == np.inf:
            return np.inf
        at, ok = after, True
        for r in range(R):
            free = _left(s, g, e, n, r)
            for i in range(s.sims[e]["running"]):
                other = s.lists[e, HEAP, i]
                if g.at[e, other] == n and _end(rule, s, g, e, other, n) <= at:
                    free += s.jobs[e, other]["request"][r]
            ok = ok and s.jobs[e, j]["request"][r] <= free
        if ok:
            return at


@kernel
def _node(rule, s, g, e, j, explore):
    """The node that the rule chooses for job j; -1: it waits."""
    N, best, least = s.nodes.shape[1], -1, np.inf
    waits = rule == ORACLE or rule == PATIENT
    count = 0
    for k in range(N):
        n = (g.moment[e]["robin"] + k) % N if rule == ROBIN else k
        at = room_at(rule, s, g, e, j, n) if waits else (0.0 if _fits(s, g, e, j, n) else np.inf)
        if at == np.inf:
            continue
        if rule == LB:
            score = -np.float64(_left(s, g, e, n, 0))
        elif rule == FEWEST:
            score = np.float64(g.begun[e, n])
        elif rule == SAFEST:
            score = risk_of(s, e, n)
        elif rule == RANDOM:
            count += 1
            score = -1.0 if draw(g.moment[e]) * count < 1.0 else np.inf
            least = np.inf if score < 0.0 else least
        elif rule == ROBIN or rule == FIRST:
            score = np.float64(k)
        else:
            score = at + _takes(rule, s, g, e, j, n, explore)
        if score < least:
            best, least = n, score
    if waits and best >= 0 and not _fits(s, g, e, j, best):
        return -1
    if rule == ROBIN and best >= 0:
        g.moment[e]["robin"] = (best + 1) % N
    return best


@kernel
def _oldest(g, e, after):
    """The place whose job came first of those behind job `after`; -1: none."""
    best = -1
    for p in range(g.place.shape[1]):
        j = g.place[e, p]
        if j > after and (best < 0 or j < g.place[e, best]):
            best = p
    return best


@kernel
def choose(rule, explore, s, g, actions, first, last):
    """The actions of a rule in simulations first .. last - 1: fills actions [E]."""
    for e in range(first, last):
        m = g.moment[e]
        for p in range(g.place.shape[1]):
            g.to[e, p] = -1
        after = -1
        while True:
            p = m["turn"] if not m["joint"] else _oldest(g, e, after)
            if p < 0 or g.place[e, p] < 0:
                break
            j = np.int64(g.place[e, p])
            n = _node(rule, s, g, e, j, explore)
            g.to[e, p], after = n, j
            if not m["joint"]:
                break
        for a in range(g.parts.shape[0]):
            same = True
            for p in range(g.parts.shape[1]):
                same = same and g.parts[a, p] == g.to[e, p if m["joint"] else m["turn"]]
            if same:
                actions[e] = a
                break
        for p in range(g.place.shape[1]):
            g.to[e, p] = -1

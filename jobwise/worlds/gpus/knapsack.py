"""Choose the number of GPUs of each job by an exact knapsack: the largest sum of weight x speed.

A job counts up to the speed that ends it in the row, and less where it would have to restart. Rules differ in the weight:

speed   throughput alone                              slot    the cheapest price of its speed, a slot being worth 4 GPUs
root    1 / sqrt(length)                              index   1 / (length sqrt(work left))
both    1 / sqrt(length x work left)                  srpt    1 / left              las   1 / (1 + what it has had)
learned both, times what was learnt from features of the job (`THETA` numbers), restarts as dear as was learnt
"""

from __future__ import annotations

import numpy as np

from jobwise.compiled import allocating, inlined, kernel
from jobwise.sim.rates import alone
from jobwise.sim.rates import unit as own_speed
from jobwise.worlds.gpus.bounds import bounds
from jobwise.worlds.gpus.layouts import better, kept, restart_share
from jobwise.worlds.gpus.tables import NONE, PARTIAL

WEIGHTS = ("speed", "slot", "root", "index", "both", "srpt", "las", "learned")
SPEED, SLOT, ROOT, INDEX, BOTH, SRPT, LAS, LEARNED = range(8)
THETA = 16  # numbers of `learned`; two of their places:
HELD, RESTART = 8, 11  # a bonus for jobs that hold GPUs, and how dear a restart is, both logarithms
SLOT_PRICE = 4.0  # GPUs that a slot is worth


@kernel
def weight(rule, s, g, e, slot):
    """Return the worth of a job's work, in its speed at its request."""
    one = g.place[e, slot]
    job = s.jobs[e, one["job"]]
    if rule == SPEED:
        return own_speed(s.sims[e], s.curve, job)
    if rule == SLOT:
        best = np.inf
        for n in range(max(one["least"], 1), one["most"] + 1):
            best = min(best, (SLOT_PRICE + n) / alone(s, e, job, n, racks(g, n)))
        return best
    own = own_speed(s.sims[e], s.curve, job)
    if rule == ROOT:
        return own / np.sqrt(one["length"])
    if rule == INDEX:
        return np.sqrt(own / one["left"]) / one["length"]
    if rule == BOTH:
        return np.sqrt(own / (one["left"] * one["length"]))
    if rule == SRPT:
        return 1.0 / one["left"]
    return 1.0 / (1.0 + one["length"] - one["left"])  # LAS


@kernel
def _learned(theta, s, g, e, slot, busy, lost, cost):
    """A weight, log-linear in features of the job, and into lost[p] how dear a restart is; theta 0 is the rule `both`."""
    one, job = g.place[e, slot], s.jobs[e, g.place[e, slot]["job"]]
    own, held, left = own_speed(s.sims[e], s.curve, job), 1.0 * (one["held"] > 0), np.log(one["left"])
    v1, v4 = alone(s, e, job, 1, 1), alone(s, e, job, 4, racks(g, 4))
    v8, v16 = alone(s, e, job, 8, racks(g, 8)), alone(s, e, job, 16, racks(g, 16))
    x = theta[0] * np.log(one["length"]) + theta[1] * (left + np.log(own)) + theta[2] * np.log(own)
    x += theta[3] * np.log(v4 / v1) + theta[4] * np.log(v8 / v4) + theta[5] * np.log(v16 / v8)
    x += theta[6] * np.log(own * max(max(v1, v4), max(v8, v16))) + theta[7] * np.log1p(one["waited"])
    x += held * (theta[HELD] + theta[9] * (left + np.log(own))) + theta[10] * busy * np.log(one["length"])
    rows = theta[RESTART] + theta[12] * (left - np.log(max(one["rate"], 0.3))) + theta[13] * np.log(cost + 0.1)
    rows += theta[14] * busy + theta[15] * (1.0 - held)
    lost[slot] = min(lost[slot] * np.exp(rows), 0.99)
    return np.exp(x) * np.sqrt(own / (one["left"] * one["length"]))


@inlined
def racks(g, n):
    """Return the fewest racks that hold n GPUs; 1e12 where no way joins n GPUs."""
    return g.fewest[min(n, len(g.fewest) - 1)]


@allocating
def knapsack(s, g, e, w, cap, lost):
    """[P] numbers of GPUs with the largest sum of values. Fills cap [P]: the rate at which a job would just end in a row."""
    P, room, mode, up = g.place.shape[1], g.want.shape[1], g.moment[e]["mode"], 0
    for i in range(room):
        up += s.nodes[e, i]["up"]
    best = np.full((P + 1, room + 1), -np.inf)
    taken = np.zeros((P + 1, room + 1), np.int32)
    best[0, 0] = 0.0
    gain = np.empty(room + 1)
    most_used = 0
    for p in range(P):
        low, high = bounds(g, e, p)
        must = (mode == PARTIAL or mode == NONE) and g.place[e, p]["held"] > 0
        low, high, cap[p] = max(low, 1), min(high, up), np.inf
        top = low
        for n in range(low, high + 1):
            one = g.place[e, p]
            rate = min(alone(s, e, s.jobs[e, one["job"]], n, racks(g, n)), cap[p])
            if rate >= one["left"]:  # more would be for nothing, but the last bit of a job is worth as much as any
                cap[p] = rate
            gain[n] = w[p] * kept(s, g, e, p, rate, n != one["held"], lost[p])
            top = n if gain[n] > gain[top] else top
        high = min(high, top)  # more GPUs for less
        for m in range(most_used + 1):
            old = best[p, m]
            if old == -np.inf:
                continue
            if not must and old > best[p + 1, m]:
                best[p + 1, m], taken[p + 1, m] = old, 0
            for n in range(low, min(high, up - m) + 1):
                if old + gain[n] > best[p + 1, m + n]:
                    best[p + 1, m + n], taken[p + 1, m + n] = old + gain[n], n
        most_used = min(most_used + high, up)
    m = best[P].argmax()
    n = np.zeros(P, np.int64)
    for p in range(P - 1, -1, -1):
        n[p] = taken[p + 1, m]
        m -= n[p]
    return n


@allocating
def by_knapsack(rule, theta, s, g, e, layout):
    """The knapsack, laid out: g.want[e]."""
    P, cost = g.place.shape[1], s.sims[e]["restart_cost"] / s.sims[e]["tick"]
    w, lost, cap = np.zeros(P), np.full(P, restart_share(s, e)), np.zeros(P)
    busy = 0.0
    for p in range(P):
        busy += (g.place[e, p]["job"] >= 0) / P
    for p in range(P):
        if g.place[e, p]["job"] >= 0:
            w[p] = _learned(theta, s, g, e, p, busy, lost, cost) if rule == LEARNED else weight(rule, s, g, e, p)
    better(s, g, e, knapsack(s, g, e, w, cap, lost), w, cap, lost, layout)

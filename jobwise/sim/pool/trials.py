"""Trial runs: waiting jobs show how long they are, in processors that the schedule leaves idle.

A trial run delays nobody: to every start its processors are free ones. When a start needs them it is stopped, what it did is
lost, and its job waits where it waited. When its job's turn comes it goes on as a start. What ends meanwhile has left the queue
for the price of idle processors.

After every pass, among the waiting jobs that may be begun again and that fit: those that were begun least often first, of them
the smallest area by request. A trial run that has had its quantum, four times longer with each try, also makes room for a job
that was begun less often. Speculative backfilling: Perkovic & Keleher, SC 2000; test runs: Chiang, Arpaci-Dusseau & Vernon,
JSSPP 2002.
"""

from __future__ import annotations

import numpy as np

from jobwise.compiled import kernel
from jobwise.sim.pool.items import ITEMS, alone, before, stop_trial
from jobwise.sim.trial_runs import start_trial, trial_shown

GROWTH = 4.0  # times longer, the quantum of each later try
LEVELS = 16  # of tries that are told apart


@kernel
def _had_its_quantum(s, e, b, x):
    """Has item x run in a trial for long enough to make room?"""
    return s.sims[e]["now"] - x["began"] >= b.trial[0]["quantum"] * GROWTH ** (x["tries"] - 1)


@kernel
def _count_displaceable(s, e, b):
    """b.displaceable[t]: the processors of trial runs that make room for a job that was begun t times."""
    for t in range(LEVELS):
        b.displaceable[t] = 0
    for i in range(b.count[ITEMS] if b.trial[0]["count"] > 0 else 0):
        x = b.item[i]
        if not np.isnan(x["began"]) and _had_its_quantum(s, e, b, x):
            for t in range(min(np.int64(x["tries"]), LEVELS)):
                b.displaceable[t] += x["size"]


@kernel
def choose(s, e, b):
    """Index of the item whose trial run is to begin now; -1: none."""
    free, best = s.nodes[e, 0]["free"][0], -1
    _count_displaceable(s, e, b)
    for i in range(b.count[ITEMS]):
        x = b.item[i]
        fits = x["size"] <= free + b.displaceable[min(np.int64(x["tries"]), LEVELS - 1)]
        if fits and x["may_again"] and np.isnan(x["began"]) and (best < 0 or _sooner(x, b.item[best])):
            best = i
    return best


@kernel
def _sooner(x, y):
    if x["tries"] != y["tries"]:
        return x["tries"] < y["tries"]
    return before(x, x["size"] * x["est"], y, y["size"] * y["est"])


@kernel
def _displace(s, e, b, tries, n):
    """Stop trial runs that make room for a job of n processors that was begun `tries` times: the most tried ones first, of them
    the last in order."""
    while n > s.nodes[e, 0]["free"][0]:
        worst = -1
        for i in range(b.count[ITEMS]):
            x = b.item[i]
            if np.isnan(x["began"]) or x["tries"] <= tries or not _had_its_quantum(s, e, b, x):
                continue
            y = b.item[max(worst, 0)]
            if worst < 0 or x["tries"] > y["tries"] or (x["tries"] == y["tries"] and before(y, y["score"], x, x["score"])):
                worst = i
        stop_trial(s, e, b, worst)


@kernel
def begin(s, e, b, i):
    """Begin the trial run of item i. Return the row of its class's next job, or NOBODY."""
    x, t = b.item[i], b.trial[0]
    j = x["row"]
    _displace(s, e, b, x["tries"], x["size"])
    following = alone(b, j)
    start_trial(s, e, j, b.node, b.amount)
    x["began"], b.is_trial[j] = s.sims[e]["now"], 1
    x["tries"] += 1
    t["held"] += x["size"]
    t["count"] += 1
    return following


@kernel
def ended(s, e, b, j):
    """The trial run of job j is over: it has ended, or its node has failed. It waits no more."""
    t, i = b.trial[0], 0
    while b.item[i]["row"] != j:
        i += 1
    t["held"] -= b.item[i]["size"]
    t["count"] -= 1
    b.is_trial[j] = 0
    b.count[ITEMS] -= 1
    b.item[i] = b.item[b.count[ITEMS]]
    if not np.isnan(s.jobs[e, j]["end"]):
        trial_shown(s, e)

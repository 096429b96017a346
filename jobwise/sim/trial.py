"""Many short replays of one log-linear order, one after the other, in one call: what a search over weights is made of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from jobwise.jobs import Workload
from jobwise.sim import bag
from jobwise.sim.backfill import Rule
from jobwise.sim.compiled import kernel
from jobwise.sim.filling import Plan, plan_dtype, refill
from jobwise.sim.history import Known, known
from jobwise.sim.linear import F
from jobwise.sim.state import State, allocate

BOUNDED, LONGEST, WAIT, RESULTS = range(4)  # columns of what a trial finds


class Trials(NamedTuple):
    """W windows to replay, J jobs the longest."""

    plan: Plan  # W plans over one table of all their jobs
    entry: np.ndarray  # histories, one after the other
    begin: np.ndarray  # [W + 1] where each begins
    of_class: np.ndarray  # [W, J] i4
    of_user: np.ndarray  # [W, J]


def prepare(windows: Sequence[Workload]) -> Trials:
    """The windows (of one machine) with what is known before each."""
    J, W = max(map(len, windows)), len(windows)
    plan = Plan(
        np.concatenate([w.jobs for w in windows]),
        np.concatenate([w.truth for w in windows]),
        np.zeros((1, 1), np.int32),
        np.zeros((1, 1)),
        np.zeros(W, plan_dtype),
    )
    histories, of_class, of_user = [], np.zeros((W, J), np.int32), np.zeros((W, J), np.int32)
    first = 0
    for k, w in enumerate(windows):
        h = known(w.jobs, w.past)
        histories.append(h.entry)
        of_class[k, : len(w)], of_user[k, : len(w)] = h.of_class, h.of_user
        plan.next[k] = (len(w), w.cluster.processors, w.offset, first, 1.0)
        first += len(w)
    begin = np.concatenate([[0], np.cumsum([len(h) for h in histories])])
    return Trials(plan, np.concatenate(histories), begin, of_class, of_user)


class Bench(NamedTuple):
    """One simulation and one scheduler, used again and again; one per thread."""

    state: State
    bag: bag.Bag


def bench(windows: Sequence[Workload]) -> Bench:
    """Room for the longest of the windows."""
    longest = max(windows, key=len)
    state = allocate([longest], longest.cluster)
    room = known(longest.jobs, longest.past)
    entry = np.zeros(1 + 2 * len(longest), room.entry.dtype)
    return Bench(state, bag.scheduler(state, 0, np.zeros(F), Known(entry, room.of_class, room.of_user)))


@kernel
def run(s, b, rule, weights, t, which, out):
    """Replay windows which[i] with these weights; out[i] = mean bounded slowdown, longest wait, mean wait (s)."""
    for k in range(len(weights)):
        b.weights[k] = weights[k]
    for i in range(len(which)):
        w = which[i]
        refill(s, 0, t.plan, w)
        b.count[0] = b.running.count[0] = b.running.count[1] = 0
        for k in range(t.begin[w], t.begin[w + 1]):
            b.known.entry[k - t.begin[w]] = t.entry[k]
        J = s.sims[0]["jobs"]
        for j in range(J):
            b.known.of_class[j], b.known.of_user[j] = t.of_class[w, j], t.of_user[w, j]
        while bag.run(s, 0, b, rule, 1 << 30):
            pass
        total, longest, waited = 0.0, 0.0, 0.0
        for j in range(J):
            wait, run = s.jobs[0, j]["start"] - s.jobs[0, j]["submit"], s.truth[0, j]["runtime"]
            total += max((wait + run) / max(run, 10.0), 1.0)
            waited += wait
            longest = max(longest, wait)
        out[i, BOUNDED], out[i, LONGEST], out[i, WAIT] = total / J, longest, waited / J


def trial(at: Bench, rule: Rule, weights: np.ndarray, trials: Trials, which: np.ndarray) -> np.ndarray:
    """[len(which), RESULTS] what the order with these weights [F] does in these windows."""
    out = np.empty((len(which), RESULTS))
    run(at.state, at.bag, rule, np.ascontiguousarray(weights, float), trials, np.ascontiguousarray(which, np.int64), out)
    return out

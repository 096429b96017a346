"""Many short replays of one order, one after the other, in one call: what a search over weights is made of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from jobwise.cluster import step_dtype
from jobwise.compiled import kernel
from jobwise.sim.lists.list_pass import Rule
from jobwise.sim.measures import bounded
from jobwise.sim.memory.groups import KEY, USER, blank, entered
from jobwise.sim.memory.history import after
from jobwise.sim.memory.loglinear import F
from jobwise.sim.pool import scored_pool
from jobwise.sim.pool.items import ITEMS
from jobwise.sim.reset import EpisodePlan, plan_dtype, refill
from jobwise.sim.state import State, Tables, allocate

BOUNDED, LONGEST, WAIT, RESULTS = range(4)  # columns of what a trial finds


class Trials(NamedTuple):
    """W windows to replay, J jobs the longest."""

    plan: EpisodePlan  # W plans over one table of all their jobs
    run: np.ndarray  # of run_dtype: the memory of each, one after the other
    begin: np.ndarray  # [W + 1] where each begins
    key: np.ndarray  # [W, J] i4, groups of the jobs
    user: np.ndarray  # [W, J]


def prepare(windows: Sequence[Tables]) -> Trials:
    """The windows, of pools that may differ in size, with what is known before each."""
    J, W = max(map(len, windows)), len(windows)
    plan = EpisodePlan(
        np.concatenate([w.jobs for w in windows]),
        np.concatenate([w.truth for w in windows]),
        np.zeros(1, np.int32),
        np.zeros((1, 1), np.int32),
        np.zeros((1, 1)),
        np.zeros(W, plan_dtype),
        np.zeros(0, step_dtype),
    )
    runs, key, user, of = [], np.zeros((W, J), np.int32), np.zeros((W, J), np.int32), np.zeros(J, np.int32)
    first = 0
    for k, w in enumerate(windows):
        memory = entered(after(w.past, w.cluster.processors), w.jobs, of)
        group = memory.cell["group"][of[: len(w)]]
        places, own = np.unique(np.append(group[:, [USER, KEY]].ravel(), 0), return_inverse=True)
        runs.append(memory.run[places])
        user[k, : len(w)], key[k, : len(w)] = own[:-1].reshape(-1, 2).T
        plan.next[k] = (len(w), w.cluster.processors, w.offset, first, 1.0, 0, 0.0)
        first += len(w)
    begin = np.concatenate([[0], np.cumsum([len(x) for x in runs])])
    return Trials(plan, np.concatenate(runs), begin, key, user)


class Bench(NamedTuple):
    """One simulation and one scheduler, used again and again; one per thread."""

    state: State
    pool: scored_pool.ScoredPool


def bench(windows: Sequence[Tables]) -> Bench:
    """Room for the longest of the windows."""
    longest = max(windows, key=len)
    state = allocate([longest], max((w.cluster for w in windows), key=lambda c: c.processors))
    J = len(longest)
    memory = blank(1, False, J, J)  # each job is a cell
    memory.of[:] = np.arange(J)
    return Bench(state, scored_pool.scheduler(state, 0, np.zeros(F), memory))


@kernel
def run(s, b, rule, weights, trials, which, out):
    """Replay windows which[i] with these weights; out[i] = mean bounded slowdown, longest wait, mean wait (s)."""
    for k in range(len(weights)):
        b.weights[k] = weights[k]
    for i in range(len(which)):
        w = which[i]
        refill(s, 0, trials.plan, w)
        b.count[ITEMS] = b.running.count[0] = b.running.count[1] = 0
        for k in range(trials.begin[w], trials.begin[w + 1]):
            b.memory.run[k - trials.begin[w]] = trials.run[k]
        J = s.sims[0]["jobs"]
        for j in range(J):
            group = b.memory.cell[j]["group"]
            group[KEY], group[USER] = trials.key[w, j], trials.user[w, j]
        while scored_pool.run(s, 0, b, rule, 1 << 30):
            pass
        total, longest, waited = 0.0, 0.0, 0.0
        for j in range(J):
            run, job = s.truth[0, j]["runtime"], s.jobs[0, j]
            wait = job["start"] - job["submit"] + (job["end"] - job["start"] - job["ran"])
            total += bounded(wait, run)
            waited += wait
            longest = max(longest, wait)
        out[i, BOUNDED], out[i, LONGEST], out[i, WAIT] = total / J, longest, waited / J


def trial(at: Bench, rule: Rule, weights: np.ndarray, trials: Trials, which: np.ndarray) -> np.ndarray:
    """[len(which), RESULTS] what the order (with these weights [F], if it has any) does in these windows."""
    out = np.empty((len(which), RESULTS))
    run(
        at.state,
        at.pool,
        rule,
        np.ascontiguousarray(weights, float),
        trials,
        np.ascontiguousarray(which, np.int64),
        out,
    )
    return out

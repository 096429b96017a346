"""Direct search for the weights of a log-linear order on time-shifted windows: evolution strategies (Salimans et al. 2017,
arXiv:1703.03864).

Every generation draws windows and, in antithetic pairs, directions; both weights of a pair, and all pairs, replay the same
windows (common random numbers). Fitness is measured against a reference order on the same windows, ranked, and the weights
move along the directions by rank. Steps and moves shrink; the answer is the mean of the weights of the last generations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from queue import Empty, SimpleQueue

import numpy as np

from jobwise.parallel import Shared, current
from jobwise.sim.lists.list_pass import EASY, Rule
from jobwise.sim.lists.orders import CODES, LINEAR
from jobwise.sim.memory.loglinear import F
from jobwise.sim.pool import replay_batch
from jobwise.workload import Workload

RULE = Rule(LINEAR, EASY, 0, np.inf, False)
ORDERS = ("fcfs", "sjf", "saf", "smallest", "lxf", "wfp3", "unicef", "f1", "f2", "f3", "f4")  # rules to compare with
IDLE = 1.3  # windows whose bounded slowdown is below it under the reference teach nothing


@dataclass(frozen=True)
class Search:
    """Settings of a search: numbers of generations, of directions in each, and of windows for each direction."""

    generations: int = 120
    pairs: int = 12
    windows: int = 32  # a generation
    sigma: tuple[float, float] = (0.3, 0.1)  # standard deviation of the directions: at the beginning, at the end
    rate: tuple[float, float] = (0.6, 0.2)
    tail: float = 0.6  # share of the generations whose weights are averaged


@dataclass(eq=False)
class _Windows:
    """Windows to replay, and simulations to replay them in: one for each replay that runs at a time."""

    windows: Sequence[Workload]
    trials: replay_batch.Trials
    free: SimpleQueue = field(default_factory=SimpleQueue, repr=False)

    def trial(self, rule: Rule, weights: np.ndarray, which: np.ndarray) -> np.ndarray:
        """[len(which), RESULTS] of weights [F], or of a rule that needs none."""
        try:
            bench = self.free.get_nowait()
        except Empty:
            bench = replay_batch.bench(self.windows)
        results = replay_batch.trial(bench, rule, weights, self.trials, which)
        self.free.put(bench)
        return results

    def __reduce__(self) -> tuple:
        return _Windows, (self.windows, self.trials)


def _measured(prepared: Shared, which: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """[len(which), RESULTS] of weights [F] on these windows."""
    return prepared.get().trial(RULE, weights, which)


class SearchGround:
    """Windows to search on, and how to measure weights on them."""

    def __init__(self, windows: Sequence[Workload], threads: int = 2):
        self._prepared, self._threads = _Windows(windows, replay_batch.prepare(windows)), threads
        self.count = len(windows)

    def measure(self, weights: np.ndarray, which: np.ndarray) -> np.ndarray:
        """[K, len(which), RESULTS] of K weights [K, F] on these windows."""
        with current(self._threads) as workers:
            results = workers.map(partial(_measured, workers.put(self._prepared), which), weights)
        return np.array(results).reshape(len(weights), len(which), replay_batch.RESULTS)

    def rule(self, order: str) -> np.ndarray:
        """[W] mean bounded slowdowns of all windows under one of ORDERS with EASY."""
        rule = RULE._replace(order=CODES[order])
        every = np.arange(self.count)
        return self._prepared.trial(rule, np.zeros(F), every)[:, replay_batch.BOUNDED]


def fitness(results: np.ndarray, base: np.ndarray) -> np.ndarray:
    """[K], smaller is better: the mean over windows of the log of slowdown against the reference, and the log of the mean,
    half and half. results [K, W, RESULTS], base [W]."""
    slow = results[..., replay_batch.BOUNDED]
    return 0.5 * np.log(slow / base).mean(axis=-1) + 0.5 * (np.log(slow.mean(axis=-1)) - np.log(base.mean()))


def begin(start: np.ndarray) -> dict:
    """The state of a search that begins at the weights `start` [F]."""
    return {"generation": 0, "weights": start.tolist(), "sum": [0.0] * len(start), "summed": 0}


def answer(state: dict) -> np.ndarray:
    """[F] what a search has found so far: the mean of its last weights."""
    return np.array(state["sum"]) / state["summed"] if state["summed"] else np.array(state["weights"])


def generation(ground: SearchGround, state: dict, base: np.ndarray, search: Search, seed: int) -> dict:
    """One generation: the next state, with its `fitness` and how many `replays` it took."""
    useful = np.flatnonzero(base >= IDLE)
    useful = useful if len(useful) >= min(8, ground.count) else np.arange(ground.count)
    weights, total, summed, number = np.array(state["weights"]), np.array(state["sum"]), state["summed"], state["generation"]
    drawn, rng, part = min(search.windows, len(useful)), np.random.default_rng([seed, number]), number / search.generations
    sigma, rate = (a * (b / a) ** part for a, b in (search.sigma, search.rate))
    which = rng.choice(useful, drawn, replace=False)
    directions = rng.normal(size=(search.pairs, len(weights)))
    directions = np.concatenate([directions, -directions])
    value = fitness(ground.measure(weights + sigma * directions, which), base[which])
    shaped = np.empty(len(value))
    shaped[np.argsort(value, kind="stable")] = np.linspace(-0.5, 0.5, 2 * search.pairs)
    weights = weights - rate * (shaped @ directions) / search.pairs
    if part >= 1 - search.tail:
        total, summed = total + weights, summed + 1
    line = {"generation": number + 1, "weights": weights.tolist(), "sum": total.tolist(), "summed": summed}
    return line | {"fitness": float(value.mean()), "replays": 2 * search.pairs * drawn}

"""The weights of the rule `learned`, found by evolution strategies on whole job sequences."""

from __future__ import annotations

from functools import partial
from typing import Any, cast

import numpy as np

from jobwise import __version__
from jobwise.errors import InputError
from jobwise.learn.evolution import Search, answer, begin, generation
from jobwise.learn.run import Trainer
from jobwise.parallel import Shared, current
from jobwise.policies.neural import NeuralPolicy
from jobwise.policies.played import played
from jobwise.sim.pool.replay_batch import BOUNDED, RESULTS
from jobwise.workload import Workload
from jobwise.workloads.jobsets import TRAIN, VALIDATION
from jobwise.worlds.gpus.knapsack import THETA
from jobwise.worlds.gpus.policy import GpusRule, named


class Scored:
    """Measures of policies that assign GPUs."""

    config: Any
    validation: Any

    def measured(self, policy: GpusRule | NeuralPolicy) -> tuple[float, float]:
        """(mean slowdown, geometric over sequences, whose costs may differ; mean reward with both penalties, as a share of the
        cluster's speed summed over the rows) on the validation sequences."""
        cost = self.config.cost(np.arange(len(self.validation)))
        z = played(self.validation, policy, cost, self.config.limit, self.config.seed)
        reward = (z["all_speed"] - z["all_idle"] - z["all_short"]) / z["peak"]
        return float(np.exp(np.log(z["total"] / z["started"]).mean())), float(reward.mean())

    def best_rule(self) -> tuple[str, float]:
        """The fixed rule that does best in validation, and its mean slowdown."""
        return min(((r, self.measured(named(r))[0]) for r in self.config.rules()), key=lambda x: x[1])

    def validate(self, policy: NeuralPolicy) -> dict[str, float]:
        """The mean slowdown on the validation sequences, and the mean reward."""
        return dict(zip(("validation", "validation_reward"), self.measured(policy), strict=True))


class KnapsackTrainer(Scored, Trainer):
    """The weights of the rule `learned`, found by evolution strategies on whole sequences: see `jobwise.learn.run.Trainer`."""

    def __init__(self, config: Any, log: Workload | None, device: str):
        if config.iterations is None:
            raise InputError("the search of the knapsack needs a number of iterations")
        self.config, self.log, self.recent = config, config.learns_from(log), list[float]()
        self.ground = Sequences(config, log)
        self.validation = config.sets(VALIDATION, config.validation_jobsets, log)
        self.budget = [("updates", config.iterations), ("choices", config.choices)]
        sizes = tuple(config.sigma), tuple(config.rate_of_change)
        self.search = Search(config.iterations, config.pairs, config.drawn or 8, *sizes)
        self.found = begin(np.zeros(THETA))
        self.base = np.ones(self.ground.count)

    def begin(self) -> None:
        """Measure the rule that the search begins at, on every sequence."""
        self.base = self.ground.measure(np.zeros((1, THETA)), np.arange(self.ground.count))[0, :, BOUNDED]

    def update(self, updates: int) -> dict:
        """Do one generation of the search."""
        self.found = generation(cast(Any, self.ground), self.found, self.base, self.search, self.config.seed)
        played = self.found["replays"]
        return {"fitness": self.found["fitness"], "choices": played * self.config.steps, "episodes": played}

    def weights(self) -> dict[str, np.ndarray]:
        """Return the best weights so far."""
        return {"theta": answer(self.found)[None]}

    def policy(self, weights: dict[str, np.ndarray], about: dict) -> GpusRule:
        """The rule with these weights."""
        c = self.config
        about = {"system": c.system, "config": c.model_dump(), "jobwise": __version__} | about
        theta = np.asarray(weights["theta"], float)
        return GpusRule("learned", c.world, tick=c.row_s, theta=theta, label=c.system, about=about)

    def state(self) -> dict:
        """Return where the search stands."""
        return {k: self.found[k] for k in ("generation", "weights", "sum", "summed")} | {"base": self.base.tolist()}

    def restore(self, state: dict) -> None:
        """Go on from a checkpoint's state."""
        self.base, self.found = np.array(state.pop("base")), state


class Sequences:
    """Sequences to search on: the `Ground` of `jobwise.learn.evolution`."""

    def __init__(self, config: Any, log: Workload | None = None):
        self.config, self.sets = config, config.sets(TRAIN, config.jobsets, log)
        self.count = len(self.sets)

    def measure(self, weights: np.ndarray, which: np.ndarray) -> np.ndarray:
        """[K, len(which), RESULTS] of K weights [K, THETA] on these sequences: their mean slowdowns."""
        out = np.zeros((len(weights), len(which), RESULTS))
        with current(self.config.threads) as workers:
            parts = np.array_split(weights, min(workers.count, len(weights)))
            slowdowns = workers.map(partial(_slowdowns, workers.put(self), which), parts)
        out[..., BOUNDED] = np.concatenate(slowdowns)
        return out


def _slowdowns(sequences: Shared, which: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """[K, len(which)] mean slowdowns of K weights [K, THETA]."""
    x = sequences.get()
    c, n = x.config, len(which)
    policy = GpusRule("learned", c.world, tick=c.row_s, theta=np.repeat(weights, n, axis=0))
    every = np.tile(which, len(weights))
    z = played([x.sets[i] for i in every], policy, c.cost(every), c.limit)
    return (z["total"] / z["started"]).reshape(len(weights), n)

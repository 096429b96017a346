"""Learning in the world of windows: what a run asks of a network that chooses jobs."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import Any

import numpy as np
import torch

from jobwise import __version__
from jobwise.compare.fingerprint import public_hash, sketch
from jobwise.errors import InputError
from jobwise.learn.agent import Agent, tensors
from jobwise.learn.collect import collect
from jobwise.learn.collectors import NEEDS, Collectors
from jobwise.learn.config import Config
from jobwise.learn.env import WindowVectorEnv
from jobwise.learn.generations import Generations, ahead
from jobwise.learn.ground import Ground, of_flows, of_log
from jobwise.learn.imitation import imitate
from jobwise.learn.learners import LEARNERS, critic_alone
from jobwise.learn.run import Trainer
from jobwise.learn.run_folder import score
from jobwise.learn.settings import PARALLEL, Settings
from jobwise.learn.workers import Group, Replicas
from jobwise.policies.networks import Forward
from jobwise.policies.neural import NeuralPolicy
from jobwise.simulate import simulate_many
from jobwise.workload import Workload
from jobwise.workloads.streams import has_flows
from jobwise.worlds.window import encoders
from jobwise.worlds.window.episodes import Episodes
from jobwise.worlds.window.policy import WindowPolicy


class WindowTrainer(Trainer):
    """A network that chooses jobs from a window, and what it learns from."""

    def __init__(
        self, config: Config, log: Workload, device: str, like: NeuralPolicy | None = None, ground: Ground | None = None
    ):
        """`like`: the encoder is this policy's. `ground`: what it learns from, by default as the configuration and the log
        say."""
        torch.set_num_threads(config.threads)
        self.config, self.log = config, log
        self.ground = ground or (of_flows if has_flows(log) else of_log)(config, log)
        cluster, jobs = log.cluster, self.ground.episodes.logs[0].jobs
        self.encoder = (
            like.bound(cluster) if like else encoders.make(config.encoder, cluster, jobs, config.window, **config.encoding)
        )
        self.act = config.acts
        self.settings = Settings(**config.learner)
        if self.settings.cost and "cost" not in self.encoder.features:
            raise InputError(f"encoder {config.encoder} does not show what jobs cost; learner.cost goes with mars")
        if self.settings.cost and config.network != "perjob":
            raise InputError(f"learner.cost goes with a perjob network, not with {config.network}")
        self.parallel = self.settings.learner in PARALLEL
        made = partial(Agent, config.network_spec(self.encoder), self.encoder, self.settings, config.seed)
        self.agent = made(device)
        self.envs: Any = self._environments(self.ground.episodes, made)
        self.collect = self.envs.collect if config.collectors > 1 else partial(collect, self.envs)
        self.validation, self.overlap = self.ground.judged, self.ground.overlap
        self.sketch = sketch(self.ground.known)
        self.workers = Replicas(self.agent, self.envs, config.seed) if self.parallel else None
        self.rule, self._known = ("", np.inf), dict[Any, Any]()
        self.generations: Generations[dict[str, np.ndarray]] = Generations()
        self.budget = [("choices", config.choices), ("episodes", config.episodes)]
        self.recent: list[float] = []

    def _environments(self, episodes: Episodes, agent: Callable[[], Agent]) -> Any:
        """One batch of simulations; of workers and collectors several."""
        c, k = self.config, self.settings.workers
        same: dict[str, Any] = {"act": self.act, "encoder": self.encoder, "reward": c.reward, "copy": False}
        if c.collectors > 1:
            if self.parallel:
                raise InputError(f"{NEEDS}, not with {self.settings.learner}")
            make = partial(WindowVectorEnv, c.share(), episodes, threads=1, **same)
            return Collectors(make(), make, agent, c.collectors, c.seed, c.threads)
        if not self.parallel:
            return WindowVectorEnv(c.simulations, episodes, threads=c.threads, **same)
        if c.simulations < k or c.simulations % k:
            raise InputError(f"{c.simulations} simulations cannot be shared by {k} workers")
        return Group([WindowVectorEnv(c.simulations // k, episodes, threads=1, **same) for _ in range(k)])

    def begin(self, warm: bool = True) -> None:
        """Reset the environments; where there is a cold start, imitate a rule (`warm`)."""
        self.envs.reset(seed=self.config.seed * 1_000_003)
        if self.config.warm and warm:
            rule = self.config.warm_rule or self._imitated()
            envs = self.envs.parts[0] if self.workers else self.envs
            with self.envs.first() if self.config.collectors > 1 else nullcontext(envs) as envs:
                imitate(self.agent, envs, rule, self.config.warm)
        if self.workers:
            self.workers.fetch()
        self.generations.begin(self.agent.weights())

    def _imitated(self) -> str:
        """The order that a cold start imitates."""
        some = self.ground.imitated or (self.best_rule()[0],)
        return min(some, key=lambda r: score(self.slowdowns_of(r))).split("+")[0]

    def update(self, updates: int) -> dict:
        """Collect a rollout and learn from it."""
        steps = None if self.settings.baseline == "time" else self.settings.steps
        if steps is None:  # all simulations run the same jobs (DeepRM's baseline needs it)
            self.envs.reset(seed=[self.config.seed * 1_000_003 + updates] * self.envs.num_envs)
        learner, first = self.settings.learner, updates < self.settings.critic_first
        if self.workers and not first:
            metrics, done = self.workers.update(learner, steps)
        else:
            if self.workers:
                done = [collect(self.envs.parts[updates % len(self.envs.parts)], self.agent, steps)]
            else:
                done = [self.collect(self.agent, steps)]
            metrics = (critic_alone if first else LEARNERS[learner])(self.agent, done[0])
            if self.workers:
                self.workers.fetch()
        self.recent = [*self.recent, *(x for r in done for x in r.episodes.tolist())][-256:]
        if self.recent:
            metrics["episode_bounded_slowdown"] = float(np.mean(self.recent))
        return metrics | {"choices": sum(int(r.there.sum()) for r in done), "episodes": sum(len(r.episodes) for r in done)}

    def validate(self, policy: NeuralPolicy) -> dict[str, float]:
        """Its score on the validation windows, and its mean reward there."""
        total = np.zeros(2)

        def add(intervals: np.ndarray, which: np.ndarray) -> None:
            total[:] += self.envs.reward(intervals)[which].sum(), which.sum()

        slow = self.ground.measure(simulate_many(self.validation, policy, after=add))
        scores = {"validation": score(slow), "validation_reward": float(total[0] / max(total[1], 1))}
        return scores | (self._judge(slow) if self.config.rollback else {})

    def _judge(self, slow: np.ndarray) -> dict[str, float]:
        """Is the present network, with these slowdowns, a new generation, or does an earlier one learn on?"""
        g, present = self.generations, self.agent.weights()
        self._known[_bytes(present)] = slow
        gain, back = g.judge(present, self.measured, self.slowdowns_of(self.best_rule()[0]), self.overlap)
        if back is not None:
            self.agent.load(back, g.rate)
            if self.workers:
                self.workers.fetch()
        return {"gain": gain, "generation": g.number, "serves": g.serves, "rollbacks": g.rollbacks}

    def measured(self, weights: dict[str, np.ndarray]) -> np.ndarray:
        """[W] mean bounded slowdowns of the validation windows under a network."""
        key = _bytes(weights)
        if key not in self._known:
            self._known[key] = self.ground.measure(simulate_many(self.validation, self.policy(weights, {})))
        return self._known[key]

    def slowdowns_of(self, rule: str) -> np.ndarray:
        """[W] the same under a rule."""
        if rule not in self._known:
            self._known[rule] = self.ground.measure(simulate_many(self.validation, rule))
        return self._known[rule]

    def best_rule(self) -> tuple[str, float]:
        """The fixed rule that does best in validation, and its score."""
        if not self.rule[0]:
            self.rule = min(((r, score(self.slowdowns_of(r))) for r in self.ground.rules), key=lambda x: x[1])
        return self.rule

    def weights(self) -> dict[str, np.ndarray]:
        """Return the weights of the present network."""
        return self.agent.weights()

    def policy(self, weights: dict[str, np.ndarray], about: dict) -> NeuralPolicy:
        """The policy with these weights."""
        about = {"choices": 0, "validation": None, "best_rule": list(self.rule)} | about
        if self.config.rollback and about["validation"] is not None:
            rule = self.best_rule()[0]
            is_ahead = ahead(self.measured(weights), self.slowdowns_of(rule), self.overlap)
            about["serves"] = "model" if is_ahead else rule
        about.pop("seconds", None)  # the same run leaves the same bytes
        known = {
            "system": self.config.system,
            "log": self.log.name,
            "log_sha256": public_hash(self.log),
            "trained_on": self.sketch,
            "jobs": len(self.log),
            "processors": self.log.cluster.processors,
            "seed": self.config.seed,
            "whole_log": self.config.whole_log,
            "jobwise": __version__,
        }
        forward = Forward(self.agent.network, weights)
        return WindowPolicy(forward, self.encoder, self.act, self.config.system, known | about)

    def state(self) -> dict:
        """Return the state that the agent goes on from."""
        more = {"generations": self.generations.state()} if self.config.rollback else {}
        return self.agent.state() | more | ({"workers": self.workers.state()} if self.workers else {})

    def restore(self, state: dict) -> None:
        """Go on from a checkpoint's state."""
        state = tensors(state)
        self.agent.restore(state)
        if self.config.rollback:
            self.generations = Generations.of(state["generations"])
        if self.workers:
            self.workers.restore(state["workers"])


def _bytes(weights: dict[str, np.ndarray]) -> bytes:
    return b"".join(x.tobytes() for x in weights.values())

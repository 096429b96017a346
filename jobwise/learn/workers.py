"""Asynchronous workers (A3C, Mnih et al., ICML'16), the same at every run.

K workers have simulations and copies of the networks of their own. They choose, and follow their gradients, side by side in
threads; what they found reaches the shared networks in turn, and the worker whose turn it was takes a new copy. So each has
networks that are K - 1 updates old when its own arrives, as if all workers were equally fast.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from jobwise.learn.agent import Agent
from jobwise.learn.collect import Rollout, collect
from jobwise.learn.learners import ppo, slope
from jobwise.learn.vector_env import VectorEnv
from jobwise.parallel import threads


class Group:
    """Several batches of simulations as one, as far as a run asks."""

    def __init__(self, parts: Sequence[VectorEnv]):
        self.parts = list(parts)
        self.num_envs, self.reward = sum(p.num_envs for p in parts), parts[0].reward

    def reset(self, seed: int) -> None:
        """Begin again; simulation e of all is seeded with seed + e."""
        for p in self.parts:
            p.reset(seed=seed)
            seed += p.num_envs

    def snapshot(self) -> dict:
        """All there is to go on from."""
        return {"parts": [p.snapshot() for p in self.parts]}

    def restore(self, snapshot: dict) -> None:
        """Stand where a snapshot of an equal group was taken."""
        for p, one in zip(self.parts, snapshot["parts"], strict=True):
            p.restore(one)

    def close(self) -> None:
        """Stop the threads of its environments."""
        for p in self.parts:
            p.close()


class Replicas:
    """The workers of a shared agent, one for each part of `envs`."""

    def __init__(self, agent: Agent, envs: Group, seed: int):
        self.agent, self.envs = agent, envs
        make = [agent.network, agent.encoder, agent.settings]
        self.copies = [cast(Any, Agent)(*make, seed + 1 + k, str(agent.device)) for k in range(len(envs.parts))]
        self.fetch()

    def fetch(self) -> None:
        """All workers take the shared networks."""
        for copy in self.copies:
            copy.follow(self.agent)

    def update(self, learner: str, steps: int | None) -> tuple[dict[str, float], list[Rollout]]:
        """A turn of every worker: mean metrics, and what they did. `learner`: a3c, or a3c_ppo."""

        def work(k: int) -> tuple[Rollout, dict]:
            rollout = collect(self.envs.parts[k], self.copies[k], steps)
            return rollout, slope(self.copies[k], rollout) if learner == "a3c" else {}

        with threads(len(self.copies)) as pool:
            done, losses = pool.map(work, range(len(self.copies))), []
        for copy, (rollout, metrics) in zip(self.copies, done, strict=True):
            if learner == "a3c":
                self.agent.take(copy)
                losses.append(metrics)
            else:
                losses.append(ppo(self.agent, rollout))
            copy.follow(self.agent)
        mean = {k: float(np.mean([x[k] for x in losses])) for k in losses[0]}
        return mean, [rollout for rollout, _ in done]

    def state(self) -> list[dict]:
        """Return the state of the copies: nested dictionaries of tensors and numbers."""
        return [copy.state() for copy in self.copies]

    def restore(self, states: list[dict]) -> None:
        """Go on from the stored weights."""
        for copy, state in zip(self.copies, states, strict=True):
            copy.restore(state)

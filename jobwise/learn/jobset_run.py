"""Learning on jobsets, generated or windows of a log: what the trainers of the worlds on a grid of time share. An iteration of
`reinforce` is one step on jobsets, each run several times (`learn/reinforce.py`); others play random ones side by side."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import Any

import numpy as np
import torch

from jobwise import __version__
from jobwise.errors import InputError
from jobwise.learn.agent import Agent, tensors
from jobwise.learn.collect import collect
from jobwise.learn.collectors import NEEDS, Collectors
from jobwise.learn.imitation import imitate_jobsets
from jobwise.learn.jobset_config import JobsetConfig
from jobwise.learn.jobsets import average, runs_of, workers
from jobwise.learn.learners import LEARNERS
from jobwise.learn.reinforce import epoch
from jobwise.learn.run import Trainer
from jobwise.learn.settings import Settings
from jobwise.workload import Workload
from jobwise.workloads.jobsets import TRAIN, VALIDATION


class JobsetTrainer(Trainer):
    """One network or more that play jobsets, and the jobsets they learn from: see `jobwise.learn.run.Trainer`. A world's own
    trainer makes the environments, the networks and policies, and scores them."""

    placer: Agent | None = None  # a second network
    centred = False  # is it rewarded relative to the mean of its choices?

    def __init__(self, config: JobsetConfig, log: Workload | None, device: str):
        torch.set_num_threads(config.threads)
        self.config, self.device = config, device
        train = config.sets(TRAIN, config.jobsets, log)
        self.log = config.learns_from(log)
        self.validation = config.sets(VALIDATION, config.validation_jobsets, log)
        self.settings = Settings(**config.learner)
        self.by_jobset = self.settings.learner == "reinforce"
        self.group = min(config.group, len(train))
        own = runs_of(config.runs)
        if self.by_jobset and config.collectors > 1:
            raise InputError(f"{NEEDS}; the runs of reinforce on jobsets are shared by torchrun")
        size = self.group * (own.stop - own.start) if self.by_jobset else config.share()
        if size < 1:
            raise InputError(f"{config.runs} runs of a jobset for {workers()[0]} workers: one each at least")
        make = self.environments(size, train)
        self.one = self.envs = make()
        self.encoder = self.one.encoder
        made = partial(Agent, self.network(), self.encoder, self.settings, config.seed, precision=config.precision)
        self.agent = made(device=device)
        self.collect = partial(collect, self.envs)
        if config.collectors > 1:
            each = partial(make, threads=1)
            self.envs = Collectors(self.one, each, made, config.collectors, config.seed, config.threads)
            self.collect = self.envs.collect
        self.budget = [("choices", config.choices), ("updates", config.iterations)]
        self.recent: list[float] = []

    one: Any  # a batch of simulations; `envs`: it, or those of collectors

    def environments(self, size: int, train: list[Workload]) -> Callable[..., Any]:
        """Return the maker of `size` simulations of these jobsets."""
        raise NotImplementedError

    def network(self) -> dict:
        """The spec of the network."""
        raise NotImplementedError

    @property
    def agents(self) -> list[Agent]:
        """The agents with the networks that learn."""
        return [a for a in (self.agent, self.placer) if a is not None]

    def begin(self) -> None:
        """Reset the environments to their first jobsets."""
        self.envs.reset(seed=self.config.seed * 1_000_003)

    def update(self, updates: int) -> dict:
        """One iteration over jobsets, or a rollout of random ones, and what is learnt from it."""
        c = self.config
        if c.warm and updates == 0:
            self._warm_up()
        if self.by_jobset:
            return self._iteration(updates)
        if not updates:
            self.begin()
        rollout = self.collect(self.agent, self.settings.steps)
        metrics = LEARNERS[self.settings.learner](self.agent, rollout)
        self.recent = [*self.recent, *rollout.episodes.tolist()][-256:]
        if self.recent:
            metrics["slowdown"] = float(np.mean(self.recent))
        return metrics | {"choices": int(rollout.there.sum()), "episodes": len(rollout.episodes)}

    def _warm_up(self) -> None:
        c = self.config
        for agent in self.agents if c.warm_lr else []:
            agent.begin_anew(c.warm_lr / agent.settings.actor_lr)
        with self.envs.first() if c.collectors > 1 else nullcontext(self.one) as envs:
            imitate_jobsets(envs, self.agent, self.placer, c.warm_rule, c.warm, seed=c.seed)
        for agent in self.agents if c.warm_lr else []:
            agent.begin_anew()

    def _iteration(self, done: int) -> dict:
        c = self.config
        count = min(c.drawn or 10**9, len(self.envs.workloads)) // self.group * self.group
        order = np.random.default_rng([c.seed, done]).permutation(len(self.envs.workloads))[:count].reshape(-1, self.group)
        line = epoch(
            self.envs,
            self.agent,
            self.placer,
            list(order),
            runs=c.runs,
            seed=(c.seed, done),
            gamma=self.settings.gamma,
            centred=self.centred,
            shared=c.average_every == 0,
            entropy=c.learner.get("entropy", 0.0),
        )
        if c.average_every and (done + 1) % c.average_every == 0:
            for agent in self.agents:
                average(agent)
        return line

    def about(self) -> dict:
        """Return what a policy file says of its training."""
        return {"system": self.config.system, "config": self.config.model_dump(), "jobwise": __version__}

    def weights(self) -> list[dict[str, np.ndarray]]:
        """Return the weights of the present networks."""
        return [a.weights() for a in self.agents]

    def state(self) -> dict:
        """Return the state that the agents go on from."""
        return dict(zip(("first", "second"), (a.state() for a in self.agents), strict=False))

    def restore(self, state: dict) -> None:
        """Go on from a checkpoint's state."""
        for key, agent in zip(("first", "second"), self.agents, strict=False):
            agent.restore(tensors(state[key]))

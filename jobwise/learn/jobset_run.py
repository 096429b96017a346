"""Learning on jobsets, generated or windows of a log: what the trainers of the worlds on a grid of time share.

`reinforce`: an iteration is one step on some or all jobsets, each run so many times (`learn/jobsets.py`). The other learners
play random jobsets side by side.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch.distributed as dist
from pydantic import Field, field_validator

from jobwise import __version__
from jobwise.errors import InputError
from jobwise.learn import run
from jobwise.learn.agent import Agent
from jobwise.learn.collect import collect
from jobwise.learn.jobsets import average, epoch, imitate, runs_of, workers
from jobwise.learn.learners import LEARNERS
from jobwise.learn.run_settings import RunSettings
from jobwise.learn.settings import PARALLEL, Settings, check_hidden, check_learner
from jobwise.policies.neural import NeuralPolicy
from jobwise.workload import Workload
from jobwise.workloads.jobsets import TRAIN, VALIDATION


class JobsetConfig(RunSettings):
    """Everything that decides what a run on jobsets becomes. TOML files have the same keys."""

    least_hidden: ClassVar[int] = 1  # layers
    measure: ClassVar[str] = "mean slowdown (end - submit) / length"  # of a jobset, what is to be small
    aside: ClassVar[str] = "ran longer by"  # what else is told of a policy

    jobsets: int = Field(50, ge=1)
    validation_jobsets: int = Field(32, ge=1)
    slots: int = Field(10, ge=1, le=1000)
    masked: bool = True
    hidden: list[int] = [20]
    init: float = Field(0.0, ge=0)  # standard deviation of the first weights of an mlp; 0: torch's
    learner: dict[str, Any] = {}
    reward: str = "slowdown"
    runs: int = Field(20, ge=1)  # of a jobset in an iteration of `reinforce`
    group: int = Field(10, ge=1)  # jobsets played at once
    drawn: int = Field(0, ge=0)  # jobsets drawn for an iteration; 0: all of them
    average_every: int = Field(0, ge=0)  # iterations between averages of the workers' parameters; 0: gradients are summed
    warm: int = Field(0, ge=0)  # passes of supervised warm start
    warm_rule: str = "sjf"
    simulations: int = Field(256, ge=1)  # side by side, of the other learners
    choices: int | None = Field(1_000_000, ge=1)
    iterations: int | None = Field(None, ge=1)
    validations: int = Field(20, ge=1)

    @field_validator("learner")
    @classmethod
    def _learner(cls, value: dict) -> dict:
        used = ("learner", "optimiser", "actor_lr", "gamma", "max_norm")
        if value.get("learner", "ppo") == "reinforce" and (idle := sorted(set(value) - set(used))):
            raise ValueError(f"reinforce on jobsets has no use for {idle[0]!r}; it takes {', '.join(used)}")
        if value.get("learner") in (*PARALLEL, "one_step_ac") or {"critic_first", "cost"} & set(value):
            raise ValueError("workers, one_step_ac, critic_first and cost are for windows of logs")
        return check_learner(value)

    @field_validator("hidden")
    @classmethod
    def _hidden(cls, value: list[int]) -> list[int]:
        return check_hidden(value, cls.least_hidden)

    @classmethod
    def of(cls, policy: NeuralPolicy):
        """What a policy was trained with. Raises InputError."""
        told = policy.about.get("config")
        if not isinstance(told, dict):
            raise InputError(f"policy {policy.label} does not say what it was trained with")
        return cls().changed(**told)

    @property
    def logged(self) -> bool:
        """Are the jobsets windows of a log?"""
        return False

    def checked_log(self, log: Any, name: str) -> None:
        """Raises InputError where a log is given and is not wanted, or is wanted and not given (None)."""
        if (log is None) == self.logged:
            told = "windows of a log: name it" if log is None else "generated jobs: name no log"
            raise InputError(f"policy {name} is for {told}")

    def sets(self, part: int, count: int, log: Workload | None = None) -> list[Workload]:
        """`count` jobsets to train on, validate or test with (`part`: TRAIN, VALIDATION, TEST). Raises InputError."""
        raise NotImplementedError

    def learns_from(self, log: Workload | None) -> Workload:
        """What `run.json` names: the log, or the first of the generated jobsets."""
        return self.sets(TRAIN, 1)[0] if log is None else log

    def train(self, log: Workload | None, folder: str | Path, *, resume: bool = False, **options: Any) -> list[NeuralPolicy]:
        """Train once per seed, as `jobwise.learn.run.train`; without a log on generated jobsets. Raises InputError.

        Under `torchrun` every process plays its share of the runs of `reinforce`; the first one keeps the folder.
        """
        if (several := int(os.environ.get("WORLD_SIZE", "1")) > 1) and not dist.is_initialized():
            dist.init_process_group("gloo")
        if several and (resume or Settings(**self.learner).learner != "reinforce"):
            raise InputError(
                "several workers share the runs of the learner reinforce, and cannot go on with an interrupted run"
            )
        if workers()[1] > 0:
            folder = Path(tempfile.mkdtemp()) / "run"
        return run.train(self, log, folder, resume=resume, **options)


class JobsetTrainer:
    """One network or more that play jobsets, and the jobsets they learn from: see `jobwise.learn.run.Trainer`. A world's own
    trainer makes the environments, the networks and policies, and scores them."""

    placer: Agent | None = None  # a second network

    def __init__(self, config: JobsetConfig, log: Workload | None, device: str):
        self.config, self.device = config, device
        train = config.sets(TRAIN, config.jobsets, log)
        self.log = config.learns_from(log)
        self.validation = config.sets(VALIDATION, config.validation_jobsets, log)
        self.settings = Settings(**config.learner)
        self.by_jobset = self.settings.learner == "reinforce"
        self.group = min(config.group, len(train))
        own = runs_of(config.runs)
        size = self.group * (own.stop - own.start) if self.by_jobset else config.simulations
        if size < 1:
            raise InputError(f"{config.runs} runs of a jobset for {workers()[0]} workers: one each at least")
        self.envs = self.environments(size, train)
        self.encoder = self.envs.encoder
        self.agent = Agent(self.network(), self.encoder, self.settings, config.seed, device)
        self.budget = [("choices", config.choices), ("updates", config.iterations)]
        self.recent: list[float] = []

    def environments(self, size: int, train: list[Workload]):
        """`size` simulations of these jobsets."""
        raise NotImplementedError

    def network(self) -> dict:
        """The spec of the network."""
        raise NotImplementedError

    @property
    def agents(self) -> list[Agent]:
        """The networks that learn."""
        return [a for a in (self.agent, self.placer) if a is not None]

    def begin(self) -> None:
        """Reset the environments."""
        self.envs.reset(seed=self.config.seed * 1_000_003)

    def update(self, updates: int) -> dict:
        """One iteration over jobsets, or a rollout of random ones, and what is learnt from it."""
        c = self.config
        if c.warm and updates == 0:
            imitate(self.envs, self.agent, c.warm_rule, c.warm, seed=c.seed)
        if self.by_jobset:
            return self._iteration(updates)
        if not updates:
            self.begin()
        rollout = collect(self.envs, self.agent, self.settings.steps)
        metrics = LEARNERS[self.settings.learner](self.agent, rollout)
        self.recent = [*self.recent, *rollout.episodes.tolist()][-256:]
        if self.recent:
            metrics["slowdown"] = float(np.mean(self.recent))
        return metrics | {"choices": int(rollout.there.sum()), "episodes": len(rollout.episodes)}

    def _iteration(self, done: int) -> dict:
        c = self.config
        count = min(c.drawn or 10**9, len(self.envs.workloads)) // self.group * self.group
        order = np.random.default_rng([c.seed, done]).permutation(len(self.envs.workloads))[:count].reshape(-1, self.group)
        found = epoch(
            self.envs,
            self.agent,
            self.placer,
            list(order),
            runs=c.runs,
            seed=(c.seed, done),
            gamma=self.settings.gamma,
            centred=getattr(c, "centred", False),
            shared=c.average_every == 0,
        )
        if c.average_every and (done + 1) % c.average_every == 0:
            for agent in self.agents:
                average(agent)
        return found

    def about(self) -> dict:
        """What a policy file tells of its training."""
        return {"system": self.config.system, "config": self.config.model_dump(), "jobwise": __version__}

    def weights(self) -> list[dict[str, np.ndarray]]:
        """Of the present networks."""
        return [a.weights() for a in self.agents]

    def state(self) -> dict:
        """What the agents are to go on from."""
        return dict(zip(("first", "second"), (a.state() for a in self.agents), strict=False))

    def restore(self, state: dict) -> None:
        """Go on from it."""
        for key, agent in zip(("first", "second"), self.agents, strict=False):
            agent.restore(state[key])

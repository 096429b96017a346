"""Learning in the world of windows: the configuration of a run, and its trainer."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from jobwise import __version__, encoders
from jobwise.compare.baselines import rules
from jobwise.compare.fingerprint import public_hash, sketch
from jobwise.compare.windows import slowdowns
from jobwise.encoders import Encoder
from jobwise.errors import InputError
from jobwise.learn.agent import Agent, Settings
from jobwise.learn.collect import collect
from jobwise.learn.env import BatchVectorEnv
from jobwise.learn.generations import Generations
from jobwise.learn.imitation import imitate
from jobwise.learn.learners import LEARNERS, PARALLEL, critic_alone
from jobwise.learn.run import train
from jobwise.learn.run_folder import explained, parts, score, windows
from jobwise.learn.workers import Group, Workers
from jobwise.policies.networks import Forward
from jobwise.policies.neural import NeuralPolicy
from jobwise.simulate import simulate_many
from jobwise.workload import Workload
from jobwise.worlds.episodes import Episodes
from jobwise.worlds.modes import Act
from jobwise.worlds.rewards import REWARDS


def check_learner(value: dict) -> dict:
    """Settings of a learner as they are, if they can be. Raises ValueError."""
    known = {f.name: type(f.default) for f in fields(Settings)}
    if wrong := set(value) - set(known):
        raise ValueError(f"unknown learner setting {sorted(wrong)[0]!r}; known: {', '.join(sorted(known))}")
    named = {
        "learner": (*LEARNERS, *PARALLEL),
        "critic": ("pooled", "window"),
        "baseline": ("batch", "time"),
        "optimiser": ("adam", "rmsprop", "sgd"),
    }
    may_be_0 = ("gamma", "lam", "entropy", "critic_first", "cost")
    for key, x in value.items():
        if key in named:
            if x not in named[key]:
                raise ValueError(f"unknown {key} {x!r}; known: {', '.join(named[key])}")
        elif isinstance(x, bool) or not isinstance(x, int if known[key] is int else (int, float)):
            raise ValueError(f"{key} is {x!r}; a number is expected")
        elif not (0 < x < 1e12 or (x == 0 and key in may_be_0)) or (key in ("gamma", "lam") and x > 1):
            raise ValueError(f"{key} is {x!r}; it must be {'0 to 1' if key in ('gamma', 'lam') else 'more than 0'}")
    if value.get("learner") == "one_step_ac" and value.get("steps") != 1:
        raise ValueError("one_step_ac learns from one step: steps = 1")
    if value.get("baseline") == "time" and value.get("learner", "ppo") != "reinforce":
        raise ValueError("the baseline 'time' goes with the learner 'reinforce'")
    return value


def check_hidden(value: list[int], least: int = 0) -> list[int]:
    """Sizes of hidden layers as they are, if they can be. Raises ValueError."""
    if not least <= len(value) <= 20 or any(not 1 <= n <= 100_000 for n in value):
        raise ValueError(f"hidden layers are {least} to 20, of 1 to 100,000")
    return value


class Config(BaseModel):
    """Everything that decides what a run becomes. TOML files have the same keys."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    system: str = "perjob"
    encoder: str = "perjob"
    window: int | None = Field(None, ge=1, le=100_000)
    encoding: dict[str, Any] = {}  # settings of the encoder
    act: str = "pick"
    backfill: str = ""
    fill: str = ""
    network: Literal["perjob", "rows", "levels", "mlp"] = "perjob"
    hidden: list[int] = [32, 16, 8]
    reward: str = "bounded_slowdown"
    learner: dict[str, Any] = {}  # settings of the learner, see `agents.learner.Settings`
    simulations: int = Field(256, ge=1, le=100_000)  # side by side
    jobs: int = Field(256, ge=1)  # per episode
    shake_s: float = Field(300.0, ge=0, le=1e8)
    loads: list[float] = [1.0]
    choices: int | None = Field(1_000_000, ge=1)  # budget: choices made
    episodes: int | None = Field(None, ge=1)  # or: episodes ended
    validations: int = Field(20, ge=1)  # over the budget
    validation_windows: int = Field(32, ge=1)
    validation_jobs: int | None = Field(None, ge=1)  # per window; as many as an episode
    warm: int = Field(0, ge=0)  # choices of all simulations in which a rule is imitated first
    warm_rule: str = ""  # the order that is imitated; "": the one that does best in validation
    rollback: bool = False  # go back to an earlier generation after two validations without gain
    whole_log: bool = False  # learn and validate on all of it, as a published game may; then nothing is unseen
    seed: int = Field(0, ge=0, lt=2**31)
    threads: int = Field(2, ge=1, le=1024)

    @field_validator("reward")
    @classmethod
    def _reward(cls, value: str) -> str:
        if value not in REWARDS:
            raise ValueError(f"unknown reward {value!r}; known: {', '.join(sorted(REWARDS))}")
        return value

    @field_validator("learner")
    @classmethod
    def _learner(cls, value: dict) -> dict:
        return check_learner(value)

    @field_validator("hidden")
    @classmethod
    def _hidden(cls, value: list[int]) -> list[int]:
        return check_hidden(value)

    def changed(self, **changes: Any) -> Config:
        """The same with changes, checked. Raises InputError."""
        return checked(self.model_dump() | changes)

    def network_spec(self, encoder: Encoder) -> dict:
        """{"kind", "sizes"} of the actor."""
        rows, features = encoder.shape
        if (self.network == "perjob") != encoder.per_job and self.network != "mlp":
            raise InputError(f"a {self.network} network does not go with encoder {encoder.name}")
        if (self.network == "levels") != bool(encoder.settings.get("levels")) and self.network in ("rows", "levels"):
            raise InputError("a network of two levels goes with encoding.levels = true, a network of rows with false")
        first = {"perjob": features, "rows": rows, "levels": rows - 1, "mlp": rows * features}[self.network]
        return {"kind": self.network, "sizes": [first, *self.hidden, 1 if self.network == "perjob" else encoder.window]}

    def learns_from(self, log: Workload) -> Workload:
        """What `run.json` names: the log."""
        return log

    def trainer(self, log: Workload, device: str) -> WindowTrainer:
        """What a run asks: see `Trainer`."""
        return WindowTrainer(self, log, device)

    def train(self, log: Workload, folder: str | Path, **options: Any) -> list[NeuralPolicy]:
        """Train on a log; options as `jobwise.learn.run.train`."""
        return train(self, log, folder, **options)


def checked(values: dict, where: str = "configuration") -> Config:
    """A Config of plain values. Raises InputError, one line, naming the key."""
    try:
        return Config(**values)
    except ValidationError as error:
        raise explained(error, Config, where) from None


class WindowTrainer:
    """A network that chooses jobs from a window, and what it learns from."""

    def __init__(self, config: Config, log: Workload, device: str, like: NeuralPolicy | None = None):
        """`like`: the encoder is this policy's."""
        self.config, self.log = config, log
        train, validate = (log, log) if config.whole_log else parts(log)[:2]
        if config.jobs > len(train):
            raise InputError(
                f"{log.name}: episodes of {config.jobs} jobs do not fit the {len(train)} jobs of the training part"
            )
        self.encoder = (
            like.bound(train.cluster)
            if like
            else encoders.make(config.encoder, train.cluster, train.jobs, config.window, **config.encoding)
        )
        self.act = Act(config.act, config.backfill, config.fill)
        episodes = Episodes([train], config.jobs, loads=tuple(config.loads), shake_s=config.shake_s)
        self.settings = Settings(**config.learner)
        if self.settings.cost and "cost" not in self.encoder.features:
            raise InputError(f"encoder {config.encoder} does not show what jobs cost; learner.cost goes with mars")
        self.parallel = self.settings.learner in PARALLEL
        self.envs = self._environments(episodes)
        self.agent = Agent(config.network_spec(self.encoder), self.encoder, self.settings, config.seed, device)
        count, size = config.validation_windows, config.validation_jobs or config.jobs
        self.validation = windows(validate, size, count, config.shake_s, config.seed)
        self.sketch = sketch([log] if config.whole_log else list(parts(log)[:2]))
        self.workers = Workers(self.agent, self.envs, config.seed) if self.parallel else None
        self.generations, self.rule, self._known = Generations(), ("", np.inf), {}
        self.budget = [(k, getattr(config, k)) for k in ("choices", "episodes")]
        self.recent: list[float] = []

    def _environments(self, episodes: Episodes) -> BatchVectorEnv | Group:
        """One batch of simulations; of workers a group of batches."""
        c, k = self.config, self.settings.workers
        same = {"act": self.act, "encoder": self.encoder, "reward": c.reward, "copy": False}
        if not self.parallel:
            return BatchVectorEnv(c.simulations, episodes, threads=c.threads, **same)
        if c.simulations < k:
            raise InputError(f"{c.simulations} simulations are too few for {k} workers")
        return Group([BatchVectorEnv(c.simulations // k, episodes, threads=1, **same) for _ in range(k)])

    def begin(self, warm: bool = True) -> None:
        """Reset the environments; where there is a cold start, imitate a rule (`warm`)."""
        self.envs.reset(seed=self.config.seed * 1_000_003)
        if self.config.warm and warm:
            rule = self.config.warm_rule or self.best_rule()[0].split("+")[0]
            imitate(self.agent, self.envs.parts[0] if self.workers else self.envs, rule, self.config.warm)
        if self.workers:
            self.workers.fetch()
        self.generations.begin(self.agent.weights())

    def update(self, updates: int) -> dict:
        """Collect a rollout and learn from it."""
        steps = None if self.settings.baseline == "time" else self.settings.steps
        if steps is None:  # all simulations run the same jobs (DeepRM's baseline needs it)
            self.envs.reset(seed=[self.config.seed * 1_000_003 + updates] * self.envs.num_envs)
        learner, first = self.settings.learner, updates < self.settings.critic_first
        if self.workers and not first:
            metrics, done = self.workers.update(learner, steps)
        else:
            envs = self.envs.parts[updates % len(self.envs.parts)] if self.workers else self.envs
            done = [collect(envs, self.agent, steps)]
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

        value = score(slowdowns(simulate_many(self.validation, policy, after=add)))
        found = {"validation": value, "validation_reward": float(total[0] / max(total[1], 1))}
        return found | (self._judge(value) if self.config.rollback else {})

    def _judge(self, value: float) -> dict[str, float]:
        """Is the present network, with this score, a new generation, or does an earlier one learn on?"""
        g, present = self.generations, self.agent.weights()

        def measured(weights: dict[str, np.ndarray]) -> float:
            key = b"".join(x.tobytes() for x in weights.values())
            if key not in self._known:
                self._known[key] = score(slowdowns(simulate_many(self.validation, self.policy(weights, {}))))
            return self._known[key]

        self._known[b"".join(x.tobytes() for x in present.values())] = value
        gain, back = g.judge(present, measured, self.best_rule()[1])
        if back is not None:
            self.agent.load(back, g.rate)
            if self.workers:
                self.workers.fetch()
        return {"gain": gain, "generation": g.number, "serves": g.serves, "rollbacks": g.rollbacks}

    def best_rule(self) -> tuple[str, float]:
        """The fixed rule that does best in validation, and its score."""
        if not self.rule[0]:
            self.rule = self._best_rule()
        return self.rule

    def _best_rule(self) -> tuple[str, float]:
        return min(((r, score(slowdowns(simulate_many(self.validation, r)))) for r in rules(self.act)), key=lambda x: x[1])

    def weights(self) -> dict[str, np.ndarray]:
        """Of the present network."""
        return self.agent.weights()

    def policy(self, weights: dict[str, np.ndarray], about: dict) -> NeuralPolicy:
        """The policy with these weights."""
        about = {"choices": 0, "validation": None, "best_rule": list(self.rule)} | about
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
        about.pop("seconds", None)  # the same run leaves the same bytes
        forward = Forward(self.agent.network, weights)
        return NeuralPolicy(forward, self.encoder, self.act, self.config.system, known | about)

    def state(self) -> dict:
        """What the agent is to go on from."""
        more = {"generations": self.generations.state()} if self.config.rollback else {}
        return self.agent.state() | more | ({"workers": self.workers.state()} if self.workers else {})

    def restore(self, state: dict) -> None:
        """Go on from it."""
        self.agent.restore(state)
        if self.config.rollback:
            self.generations = Generations.of(state["generations"])
        if self.workers:
            self.workers.restore(state["workers"])

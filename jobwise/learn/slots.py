"""Learning in the world of slots: the configuration of a run on jobsets, generated or windows of a log, and its trainer.

`reinforce`: an iteration is one step on
all jobsets, each run so many times (`learn/jobsets.py`). The other learners play random jobsets side by side.
"""

from __future__ import annotations

import os
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch.distributed as dist
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from jobwise import __version__
from jobwise.compare.fingerprint import sketch
from jobwise.compare.windows import begins
from jobwise.errors import InputError, Unfinished
from jobwise.learn import run
from jobwise.learn.agent import Agent, Settings
from jobwise.learn.collect import collect
from jobwise.learn.env import GridVectorEnv
from jobwise.learn.jobsets import average, epoch, imitate, runs_of, workers
from jobwise.learn.learners import LEARNERS
from jobwise.learn.run_folder import explained, parts
from jobwise.learn.window import check_learner
from jobwise.metrics import normalised_turnaround
from jobwise.policies.chooser import LIMIT
from jobwise.policies.networks import Forward
from jobwise.policies.neural import WORLD, NeuralPolicy, row_s
from jobwise.policies.slots import SlotRule
from jobwise.simulate import simulate_many
from jobwise.workload import Workload
from jobwise.workloads import jobsets as generators
from jobwise.workloads.jobsets import TEST, TRAIN, VALIDATION
from jobwise.workloads.transform import to_rows
from jobwise.worlds.slot_rules import RULES
from jobwise.worlds.slots_world import Slots


class GridConfig(BaseModel):
    """Everything that decides what a run on a grid becomes. TOML files have the same keys."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    system: str = "deeprm"
    generator: Literal["deeprm", "cush", "log"] = "deeprm"
    steps: int = Field(50, ge=1)  # rows with arrivals in a generated jobset
    rate: float = Field(0.7, gt=0, le=100)
    settings: dict[str, Any] = {}  # of the generator; of a list jobset after jobset takes the next
    row_s: float = Field(600.0, gt=0)  # s in a row, of a log
    jobs: int = Field(64, ge=1)  # of a window of a log
    jobsets: int = Field(50, ge=1)
    validation_jobsets: int = Field(32, ge=1)
    encoder: str = WORLD["encoder"]
    slots: int = Field(WORLD["slots"], ge=1, le=1000)
    backlog: int = Field(WORLD["backlog"], ge=0)
    rows: int = Field(WORLD["rows"], ge=2, le=1000)
    placements: list[str] = WORLD["placements"]
    reserve: bool = WORLD["reserve"]
    masked: bool = WORLD["masked"]
    ask_always: bool = WORLD["ask_always"]
    compat: bool = WORLD["compat"]
    compat_floor: bool = False  # slowdowns are rounded down, as DeepRM's code (Python 2) reports them
    order: str = WORLD["order"]
    network: Literal["mlp", "slots", "image"] = "mlp"
    hidden: list[int] = [20]
    init: float = Field(0.0, ge=0)  # standard deviation of the first weights of an mlp; 0: torch's
    norm: Literal["batch", "group"] = "batch"
    second: bool = False  # a second network chooses the placement (CuSH's policy selector)
    centred: bool = False  # its reward is taken relative to the mean of both placements
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
    seed: int = Field(0, ge=0, lt=2**31)
    threads: int = Field(2, ge=1, le=1024)

    @field_validator("learner")
    @classmethod
    def _learner(cls, value: dict) -> dict:
        used = ("learner", "optimiser", "actor_lr", "gamma", "max_norm")
        if value.get("learner", "ppo") == "reinforce" and (idle := sorted(set(value) - set(used))):
            raise ValueError(f"reinforce on jobsets has no use for {idle[0]!r}; it takes {', '.join(used)}")
        return check_learner(value)

    @field_validator("hidden")
    @classmethod
    def _hidden(cls, value: list[int]) -> list[int]:
        if not 1 <= len(value) <= 20 or any(not 1 <= n <= 100_000 for n in value):
            raise ValueError("hidden layers are 1 to 20, of 1 to 100,000")
        return value

    def changed(self, **changes: Any) -> GridConfig:
        """The same with changes, checked. Raises InputError."""
        try:
            return GridConfig(**(self.model_dump() | changes))
        except ValidationError as error:
            raise explained(error, GridConfig) from None

    @classmethod
    def of(cls, policy: NeuralPolicy) -> GridConfig:
        """What a policy was trained with. Raises InputError."""
        told = policy.about.get("config")
        if not isinstance(told, dict):
            raise InputError(f"policy {policy.label} does not say what it was trained with")
        return cls().changed(**told)

    def learns_from(self, log: Workload | None) -> Workload:
        """What `run.json` names: the log, or the first of the generated jobsets."""
        return jobsets(self, TRAIN, 1)[0] if log is None else log

    def trainer(self, log: Workload | None, device: str) -> SlotsTrainer:
        """What a run asks: see `jobwise.learn.run.Trainer`."""
        return SlotsTrainer(self, log, device)

    def train(self, log: Workload | None, folder: str | Path, **options: Any) -> list[NeuralPolicy]:
        """Train on a log or on generated jobsets; options as `jobwise.learn.run.train`."""
        return train(self, log, folder, **options)

    @property
    def world(self) -> dict:
        """What a policy depends on."""
        return {k: getattr(self, k) for k in WORLD}

    def rules(self) -> list[str]:
        """The fixed policies to be measured against: every rule, with every placement and the one that knows the kinds."""
        if self.generator == "deeprm":
            return list(RULES)
        return [f"{r}+{p}" for r in RULES for p in ("pack", "spread", "typed")]


def jobsets(config: GridConfig, part: int, count: int, log: Workload | None = None) -> list[Workload]:
    """`count` jobsets to train on, validate or test with (`part`: TRAIN, VALIDATION, TEST), their times in rows; windows of a
    log to test with are as the log has them, in seconds. Raises InputError."""
    if config.generator == "log":
        if log is None:
            raise InputError("windows of a log take a log")
        w = parts(log if part == TEST else to_rows(log, config.row_s))[(TRAIN, VALIDATION, TEST).index(part)]
        jobs = min(config.jobs, len(w))
        if part == TRAIN:  # training may see a job twice
            first = np.unique(np.linspace(0, len(w) - jobs, count).astype(int))
        else:
            first = begins(0, len(w), jobs, count)
        return [w.take(slice(i, i + jobs)) for i in first]
    make = getattr(generators, config.generator)
    settings = [{k: v[i % len(v)] if isinstance(v, list) else v for k, v in config.settings.items()} for i in range(count)]
    try:
        return [make(config.steps, config.rate, [part, i], **x) for i, x in enumerate(settings)]
    except TypeError as error:
        raise InputError(f"generator {config.generator}: {error}") from None


class SlotsTrainer:
    """One or two networks that choose slots (and placements), and the jobsets they learn from."""

    def __init__(self, config: GridConfig, log: Workload | None, device: str):
        self.config = config
        train = jobsets(config, TRAIN, config.jobsets, log)
        self.log = config.learns_from(log)
        self.validation = jobsets(config, VALIDATION, config.validation_jobsets, log)
        self.settings = Settings(**config.learner)
        self.by_jobset = self.settings.learner == "reinforce"
        self.group = min(config.group, len(train))
        own = runs_of(config.runs)
        size = self.group * (own.stop - own.start) if self.by_jobset else config.simulations
        if size < 1:
            raise InputError(f"{config.runs} runs of a jobset for {workers()[0]} workers: one each at least")
        same = {**config.world, "reward": config.reward, "copy": False, "threads": config.threads}
        self.envs = GridVectorEnv(size, train, **same)
        self.encoder = self.envs.encoder
        self.agent = Agent(self._network(), self.encoder, self.settings, config.seed, device)
        self.placer = Agent(self._second(), self.encoder, self.settings, config.seed + 1, device) if config.second else None
        if config.second and not (self.by_jobset and len(config.placements) > 1):
            raise InputError("a second network goes with the learner reinforce, and with placements to choose from")
        self.sketch = sketch(list(parts(log)[:2])) if log is not None else []  # generated jobs are drawn again every time
        self.budget = [("choices", config.choices), ("updates", config.iterations)]
        self.recent: list[float] = []

    @property
    def _agents(self) -> list[Agent]:
        return [a for a in (self.agent, self.placer) if a is not None]

    def _network(self) -> dict:
        c, shape = self.config, self.encoder.shape
        actions = c.slots + 1 if c.second else self.envs.void + 1
        if c.network == "slots":
            if not self.encoder.per_slot:
                raise InputError(f"a slots network goes with the encoder slots, not {c.encoder}")
            return {"kind": "slots", "sizes": [shape[1], *c.hidden, 1 if c.second else len(c.placements)]}
        if c.network == "image":
            if len(shape) != 3:
                raise InputError(f"an image network goes with the encoders cush and cush-backlog, not {c.encoder}")
            if c.encoder == "cush-backlog":
                return {"kind": "image", "sizes": [shape[0] - 1, *shape[1:], actions], "norm": c.norm, "side": True}
            return {"kind": "image", "sizes": [*shape, actions], "norm": c.norm}
        return {"kind": "mlp", "sizes": [int(np.prod(shape)), *c.hidden, actions], "init": c.init}

    def _second(self) -> dict:
        c = self.config
        shape = (c.slots + 1, c.rows, int(self.envs.cluster.capacity.sum()))
        return {"kind": "image", "sizes": [*shape, len(c.placements)], "norm": c.norm}

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
            centred=c.centred,
            shared=c.average_every == 0,
        )
        if c.average_every and (done + 1) % c.average_every == 0:
            for agent in self._agents:
                average(agent)
        return found

    def _score(self, policy: str | NeuralPolicy, limit: int = LIMIT) -> float:
        if isinstance(policy, str):
            policy = SlotRule(policy, Slots.of(self.config.world))
        try:
            found = simulate_many(self.validation, replace(policy, limit=limit), tick=1.0, seed=self.config.seed)
        except Unfinished:
            return float("inf")
        return float(np.mean([normalised_turnaround(r, self.config.compat_floor).mean() for r in found]))

    def best_rule(self) -> tuple[str, float]:
        """The fixed rule that does best in validation, and its mean slowdown."""
        return min(((r, self._score(r)) for r in self.config.rules() if not r.endswith("typed")), key=lambda x: x[1])

    def validate(self, policy: NeuralPolicy) -> dict[str, float]:
        """The mean slowdown on the validation jobsets."""
        return {"validation": self._score(policy, 2000)}

    def weights(self) -> list[dict[str, np.ndarray]]:
        """Of the present networks."""
        return [a.weights() for a in self._agents]

    def policy(self, weights: list[dict[str, np.ndarray]], about: dict) -> NeuralPolicy:
        """The policy with these weights."""
        known = {"system": self.config.system, "config": self.config.model_dump(), "jobwise": __version__}
        known |= {"trained_on": self.sketch} if self.sketch else {}
        networks = tuple(Forward(a.network, w) for a, w in zip(self._agents, weights, strict=True))
        c, units = self.config, self.envs.cluster.total.tolist()
        encoder = {"name": c.encoder, "slots": c.slots, "backlog": c.backlog, "rows": c.rows}
        encoder |= {"shape": list(self.encoder.shape), "units": units}
        about = known | about
        return NeuralPolicy(networks, encoder, Slots.of(c.world), c.system, about, greedy=False, tick=row_s(about))

    def state(self) -> dict:
        """What the agents are to go on from."""
        return dict(zip(("first", "second"), (a.state() for a in self._agents), strict=False))

    def restore(self, state: dict) -> None:
        """Go on from it."""
        for key, agent in zip(("first", "second"), self._agents, strict=False):
            agent.restore(state[key])


def train(
    config: GridConfig, log: Workload | None, folder: str | Path, *, resume: bool = False, **options
) -> list[NeuralPolicy]:
    """Train once per seed, as `jobwise.learn.run.train`; without a log on generated jobsets. Raises InputError.

    Under `torchrun` every process plays its share of the runs of `reinforce`; the first one keeps the folder.
    """
    if (several := int(os.environ.get("WORLD_SIZE", "1")) > 1) and not dist.is_initialized():
        dist.init_process_group("gloo")
    if several and (resume or Settings(**config.learner).learner != "reinforce"):
        raise InputError("several workers share the runs of the learner reinforce, and cannot go on with an interrupted run")
    if workers()[1] > 0:
        folder = Path(tempfile.mkdtemp()) / "run"
    return run.train(config, log, folder, resume=resume, **options)

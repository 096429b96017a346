"""Learning in the world of slots: the configuration of a run, and its trainer."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import numpy as np
from pydantic import Field

from jobwise.compare.fingerprint import sketch
from jobwise.compare.windows import begins
from jobwise.errors import InputError, Unfinished
from jobwise.learn.agent import Agent
from jobwise.learn.env import GridVectorEnv
from jobwise.learn.jobset_run import JobsetConfig, JobsetTrainer
from jobwise.learn.run_folder import parts
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


class GridConfig(JobsetConfig):
    """Everything that decides what a run on a grid becomes. TOML files have the same keys."""

    system: str = "deeprm"
    generator: Literal["deeprm", "cush", "log"] = "deeprm"
    steps: int = Field(50, ge=1)  # rows with arrivals in a generated jobset
    rate: float = Field(0.7, gt=0, le=100)
    settings: dict[str, Any] = {}  # of the generator; of a list jobset after jobset takes the next
    row_s: float = Field(600.0, gt=0)  # s in a row, of a log
    jobs: int = Field(64, ge=1)  # of a window of a log
    encoder: str = WORLD["encoder"]
    backlog: int = Field(WORLD["backlog"], ge=0)
    rows: int = Field(WORLD["rows"], ge=2, le=1000)
    placements: list[str] = WORLD["placements"]
    reserve: bool = WORLD["reserve"]
    ask_always: bool = WORLD["ask_always"]
    compat: bool = WORLD["compat"]
    compat_floor: bool = False  # slowdowns are rounded down, as DeepRM's code (Python 2) reports them
    order: str = WORLD["order"]
    network: Literal["mlp", "slots", "image"] = "mlp"
    norm: Literal["batch", "group"] = "batch"
    second: bool = False  # a second network chooses the placement (CuSH's policy selector)
    centred: bool = False  # its reward is taken relative to the mean of both placements

    @property
    def logged(self) -> bool:
        """Are the jobsets windows of a log?"""
        return self.generator == "log"

    def trainer(self, log: Workload | None, device: str) -> SlotsTrainer:
        """What a run asks: see `jobwise.learn.run.Trainer`."""
        return SlotsTrainer(self, log, device)

    @property
    def world(self) -> dict:
        """What a policy depends on."""
        return {k: getattr(self, k) for k in WORLD}

    def rules(self) -> list[str]:
        """The fixed policies to be measured against: every rule, with every placement and the one that knows the kinds."""
        if self.generator == "deeprm":
            return list(RULES)
        return [f"{r}+{p}" for r in RULES for p in ("pack", "spread", "typed")]

    def sets(self, part: int, count: int, log: Workload | None = None) -> list[Workload]:
        """`count` jobsets to train on, validate or test with (`part`: TRAIN, VALIDATION, TEST), their times in rows; windows of
        a log to test with are as the log has them, in seconds. Raises InputError."""
        if self.generator == "log":
            if log is None:
                raise InputError("windows of a log take a log")
            w = parts(log if part == TEST else to_rows(log, self.row_s))[(TRAIN, VALIDATION, TEST).index(part)]
            jobs = min(self.jobs, len(w))
            if part == TRAIN:  # training may see a job twice
                first = np.unique(np.linspace(0, len(w) - jobs, count).astype(int))
            else:
                first = begins(0, len(w), jobs, count)
            return [w.take(slice(i, i + jobs)) for i in first]
        make = getattr(generators, self.generator)
        settings = [{k: v[i % len(v)] if isinstance(v, list) else v for k, v in self.settings.items()} for i in range(count)]
        try:
            return [make(self.steps, self.rate, [part, i], **x) for i, x in enumerate(settings)]
        except TypeError as error:
            raise InputError(f"generator {self.generator}: {error}") from None


class SlotsTrainer(JobsetTrainer):
    """One or two networks that choose slots (and placements), and the jobsets they learn from."""

    def __init__(self, config: GridConfig, log: Workload | None, device: str):
        super().__init__(config, log, device)
        if config.second:
            if not (self.by_jobset and len(config.placements) > 1):
                raise InputError("a second network goes with the learner reinforce, and with placements to choose from")
            self.placer = Agent(self._second(), self.encoder, self.settings, config.seed + 1, device)
        self.sketch = sketch(list(parts(log)[:2])) if log is not None else []  # generated jobs are drawn again every time

    def environments(self, size: int, train: list[Workload]) -> GridVectorEnv:
        """`size` simulations of these jobsets."""
        same = {**self.config.world, "reward": self.config.reward, "copy": False, "threads": self.config.threads}
        return GridVectorEnv(size, train, **same)

    def network(self) -> dict:
        """The spec of the network that chooses slots."""
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

    def policy(self, weights: list[dict[str, np.ndarray]], about: dict) -> NeuralPolicy:
        """The policy with these weights."""
        known = self.about() | ({"trained_on": self.sketch} if self.sketch else {})
        networks = tuple(Forward(a.network, w) for a, w in zip(self.agents, weights, strict=True))
        c, units = self.config, self.envs.cluster.total.tolist()
        encoder = {"name": c.encoder, "slots": c.slots, "backlog": c.backlog, "rows": c.rows}
        encoder |= {"shape": list(self.encoder.shape), "units": units}
        about = known | about
        return NeuralPolicy(networks, encoder, Slots.of(c.world), c.system, about, greedy=False, tick=row_s(about))

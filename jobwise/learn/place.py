"""Learning which node a job goes to: the configuration of a run on jobsets, and its trainer."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from jobwise.errors import InputError
from jobwise.learn.env import PlaceVectorEnv
from jobwise.learn.jobset_run import JobsetConfig, JobsetTrainer
from jobwise.policies.networks import Forward
from jobwise.policies.neural import NeuralPolicy
from jobwise.policies.nodes import NodeRule
from jobwise.policies.played import played
from jobwise.workload import Workload
from jobwise.workloads import affinity as generators
from jobwise.workloads.failing import failing
from jobwise.workloads.jobsets import TRAIN
from jobwise.worlds.buffer_rules import RULES
from jobwise.worlds.buffer_world import Places

KNOWING, LEARNT = ("greedy", "oracle"), ("learned", "patient")
BLIND = [r for r in RULES if r not in (*KNOWING, *LEARNT)]


class PlaceConfig(JobsetConfig):
    """Everything that decides what a run that places jobs becomes. TOML files have the same keys."""

    measure: ClassVar[str] = "mean time in the system, rows"
    aside: ClassVar[str] = "unevenness"

    system: str = "affinities"
    generator: Literal["distances", "affinities", "failing"] = "affinities"
    steps: int = Field(50, ge=1)  # rows with arrivals
    rate: float = Field(0.5, gt=0, le=100)
    settings: dict[str, Any] = {}  # of the generator
    slots: int = Field(1, ge=1, le=1000)  # places of the buffer
    kinds: int = Field(3, ge=1)
    joint: bool = False
    burst: bool = False
    ask_always: bool = False
    avoid: float = Field(1.0, ge=0, le=1)
    limit: int = Field(200, ge=1)  # rows of a jobset
    encoder: str = "nodes"
    encoder_settings: dict[str, Any] = {}
    network: Literal["mlp", "slots"] = "slots"
    reward: str = "completion"
    warm_rule: str = "learned"

    def trainer(self, log: Workload | None, device: str) -> PlaceTrainer:
        """What a run asks: see `jobwise.learn.run.Trainer`."""
        return PlaceTrainer(self, log, device)

    @property
    def world(self) -> Places:
        """The settings of the world."""
        return Places.of(self.model_dump() | {"places": self.slots})

    def sets(self, part: int, count: int, log: Workload | None = None) -> list[Workload]:
        """`count` jobsets to train on, validate or test with (`part`: TRAIN, VALIDATION, TEST). Raises InputError."""
        make = failing if self.generator == "failing" else getattr(generators, self.generator)
        try:
            return [make(self.steps, self.rate, [part, i], **self.settings) for i in range(count)]
        except (TypeError, ValueError) as error:
            if isinstance(error, InputError):
                raise
            raise InputError(f"settings of {self.generator}: {error}") from None

    @property
    def varies(self) -> bool:
        """Are the factors others in every jobset?"""
        return bool(self.settings.get("hidden"))

    def rule(self, name: str, explore: float | None = None) -> NodeRule:
        """A rule in this world, where all places are asked about at once. `learned` and `patient` know what jobs took in the
        training jobsets, scheduled one after the other (where the factors are the same in all); from a blank page they begin
        with `explore`, half a standard error by default."""
        few = self.world.places < 8  # joint actions are not too many
        world = replace(self.world, joint=True, masked=False, ask_always=True) if few else self.world
        if name not in LEARNT or self.varies:
            return NodeRule(name, world, (0.5 if name in LEARNT else 0.0) if explore is None else explore)
        found = NodeRule("learned", world, 1.0).learnt(self.sets(TRAIN, min(self.jobsets, 20)))
        return replace(found, rule=name, explore=explore or 0.0)

    def rules(self) -> list[str]:
        """The rules that know no factors."""
        return [*BLIND, *LEARNT]


class PlaceTrainer(JobsetTrainer):
    """A network that places jobs, and the jobsets it learns from. Where the factors are the same in all of them, one that looks
    at run times begins with those of the first training jobsets (`prior`), as the rules that learn do."""

    prior: np.ndarray | None = None

    def environments(self, size: int, train: list[Workload]) -> PlaceVectorEnv:
        """`size` simulations of these jobsets."""
        c = self.config
        self.prior = c.rule("learned").prior if c.network == "slots" and not c.varies else None
        same = {k: getattr(c, k) for k in ("limit", "encoder", "encoder_settings", "reward", "threads")}
        return PlaceVectorEnv(size, train, copy=False, prior=self.prior, **same, **asdict(c.world))

    def network(self) -> dict:
        """The spec: a softmax over the joint actions, or over the nodes and waiting."""
        c, shape, world = self.config, self.encoder.shape, self.envs.world
        if (c.network == "slots") != self.encoder.per_slot:
            raise InputError("the network slots goes with the encoder nodes, mlp with distance and affinity")
        if c.network == "slots":
            return {"kind": "slots", "sizes": [shape[1], *c.hidden, 1]}
        return {"kind": "mlp", "sizes": [int(np.prod(shape)), *c.hidden, world.actions], "init": c.init}

    def measured(self, policy: NodeRule | NeuralPolicy) -> float:
        """The mean time in the system, rows, on the validation jobsets."""
        z = played(self.validation, policy, 0.0, self.config.limit, self.config.seed)
        return float(np.mean(z["total"] / z["started"]))

    def best_rule(self) -> tuple[str, float]:
        """The rule that does best in validation of those that know no affinities, and its mean time in the system."""
        return min(((r, self.measured(self.config.rule(r))) for r in self.config.rules()), key=lambda x: x[1])

    def validate(self, policy: NeuralPolicy) -> dict[str, float]:
        """The mean time in the system on the validation jobsets."""
        return {"validation": self.measured(policy)}

    def policy(self, weights: list[dict[str, np.ndarray]], about: dict) -> NeuralPolicy:
        """The policy with these weights; it takes the most probable action."""
        c, networks = self.config, tuple(Forward(a.network, w) for a, w in zip(self.agents, weights, strict=True))
        if self.prior is not None:
            about = about | {"prior": {k: self.prior[k].round(3).tolist() for k in ("count", "mean")}}
        return NeuralPolicy(networks, self.encoder.metadata(), c.world, c.system, self.about() | about, True, 1.0)

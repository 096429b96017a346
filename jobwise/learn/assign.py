"""Learning to assign GPUs: the configuration of a run on job sequences, and its trainer."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from pydantic import Field

from jobwise.cluster import Cluster
from jobwise.learn.env import AssignVectorEnv
from jobwise.learn.jobset_run import JobsetConfig, JobsetTrainer
from jobwise.policies.assignments import AssignmentRule, named, played
from jobwise.policies.networks import Forward
from jobwise.policies.neural import NeuralPolicy
from jobwise.sim.topology import gpu_racks
from jobwise.workload import Workload
from jobwise.workloads import dnn
from jobwise.worlds.assignment_world import Assignment
from jobwise.worlds.gpu_rules import RULES


class AssignConfig(JobsetConfig):
    """Everything that decides what a run that assigns GPUs becomes. TOML files have the same keys."""

    system: str = "rl-taps"
    racks: list[int] = [2, 2, 2, 2]  # machines in each
    gpus: int = Field(4, ge=1)  # of a machine
    links: dict[str, Any] = {}  # of the topology, e.g. {"curve": "ring"}
    work: Literal["seed", "lab"] = "seed"
    steps: int = Field(400, ge=1)  # rows with arrivals
    rate: float = Field(1.0, gt=0)  # arrivals a row
    fresh: int = Field(0, ge=0)  # iterations after which the sequences are drawn anew (streaming); 0: never
    row_s: float = Field(dnn.ROW_S, gt=0)
    restart_cost_s: float = Field(0.0, ge=0)
    limit: int = Field(1000, ge=1)  # rows of a sequence (T_max)
    mode: str = "full"
    leave: bool = False
    elastic: bool = True
    masked: bool = False
    encoder: str = "rl-taps"
    network: Literal["mlp"] = "mlp"
    reward: str = "rl-taps"
    warm_rule: str = "slot"

    def trainer(self, log: Workload | None, device: str) -> AssignTrainer:
        """What a run asks: see `jobwise.learn.run.Trainer`."""
        return AssignTrainer(self, log, device)

    @property
    def machine(self) -> Cluster:
        """The cluster."""
        return gpu_racks(self.racks, self.gpus, work=self.work, **self.links)

    @property
    def world(self) -> Assignment:
        """The settings of the world."""
        return Assignment.of(self.model_dump())

    def rules(self) -> list[str]:
        """The fixed rules to be measured against, as policies are named."""
        return [f"gpus:{r}" for r in RULES]

    def sets(self, part: int, count: int, log: Workload | None = None, fresh: int = 0) -> list[Workload]:
        """`count` sequences to train on, validate or test with, of a stream the `fresh`-th. Raises InputError."""
        return [dnn.rltaps(self.steps, [part, fresh, i], machine=self.machine, rate=self.rate) for i in range(count)]


class AssignTrainer(JobsetTrainer):
    """A network that assigns GPUs, and the job sequences it learns from."""

    def environments(self, size: int, train: list[Workload]) -> AssignVectorEnv:
        """`size` simulations of these sequences."""
        c = self.config
        same = {k: getattr(c, k) for k in ("row_s", "restart_cost_s", "limit", "encoder", "reward", "threads")}
        world = {k: getattr(c, k) for k in ("slots", "mode", "leave", "elastic", "masked")}
        return AssignVectorEnv(size, train, copy=False, **same, **world)

    def network(self) -> dict:
        """The spec: a softmax over the places for every GPU."""
        shape, world = self.encoder.shape, self.envs.world
        outputs = world.actions * world.action_shape[0]
        sizes = [int(np.prod(shape)), *(self.config.hidden or [round(1.5 * outputs)]), outputs]
        return {"kind": "mlp", "sizes": sizes, "init": self.config.init, "classes": world.actions}

    def score(self, policy: AssignmentRule | NeuralPolicy) -> float:
        """The mean slowdown on the validation sequences."""
        z = played(self.validation, policy, self.config.restart_cost_s, self.config.limit, self.config.seed)
        return float((z["total"] / z["started"]).mean())

    def best_rule(self) -> tuple[str, float]:
        """The fixed rule that does best in validation, and its mean slowdown."""
        return min(((r, self.score(named(r))) for r in self.config.rules()), key=lambda x: x[1])

    def validate(self, policy: NeuralPolicy) -> dict[str, float]:
        """The mean slowdown on the validation sequences."""
        return {"validation": self.score(policy)}

    def policy(self, weights: list[dict[str, np.ndarray]], about: dict) -> NeuralPolicy:
        """The policy with these weights; it takes the most probable place for every GPU."""
        networks = tuple(Forward(a.network, w) for a, w in zip(self.agents, weights, strict=True))
        c = self.config
        return NeuralPolicy(networks, self.encoder.metadata(), c.world, c.system, self.about() | about, True, c.row_s)

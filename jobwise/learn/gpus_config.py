"""The configuration of a run that assigns GPUs to job sequences. No torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field, PositiveFloat

from jobwise.cluster import Cluster
from jobwise.errors import InputError
from jobwise.extensions import imported
from jobwise.learn.jobset_config import JobsetConfig, windows
from jobwise.learn.judged import assigned
from jobwise.learn.run_folder import parts
from jobwise.policies.chooser import Chooser
from jobwise.sim.topology import gpu_racks
from jobwise.workload import Workload
from jobwise.workloads import dnn
from jobwise.workloads.jobsets import TEST, TRAIN, VALIDATION
from jobwise.workloads.transform import load, scale_load
from jobwise.worlds.gpus.policy import GpusRule, named
from jobwise.worlds.gpus.rules import PICKERS, RULES
from jobwise.worlds.gpus.world import GpusSettings

Cost = Annotated[float, Field(ge=0, allow_inf_nan=False)]  # s


class GpusConfig(JobsetConfig):
    """Everything that decides what a run that assigns GPUs becomes. TOML files have the same keys."""

    least_hidden: ClassVar[int] = 0  # none: 1.5 times the outputs, the paper's
    aside: ClassVar[str] = "restarts"

    system: str = "rl-taps"
    racks: list[int] = [2, 2, 2, 2]  # machines in each
    gpus: int = Field(4, ge=1)  # of a machine
    links: dict[str, Any] = {}  # of the topology, e.g. {"curve": "ring"}
    work: Literal["seed", "lab"] = "seed"
    generator: Literal["rl-taps", "log"] = "rl-taps"
    jobs: int = Field(120, ge=1)  # of a window of a log
    steps: int = Field(400, ge=1)  # rows with arrivals
    rate: float = Field(1.0, gt=0)  # arrivals a row
    fresh: int = Field(0, ge=0)  # iterations after which the sequences are drawn anew (streaming); 0: never
    row_s: float = Field(dnn.ROW_S, gt=0)
    restart_cost_s: Cost = 0.0
    costs: list[Cost] = []  # of the knapsack instead: sequence after sequence takes the next
    limit: int = Field(1000, ge=1)  # rows of a sequence (T_max)
    mode: str = "full"
    leave: bool = False
    elastic: bool = True
    masked: bool = False
    encoder: str = "rl-taps"
    counts: bool = False  # the network says how many GPUs each job has
    network: Literal["mlp", "slots", "pairs", "knapsack"] = "knapsack"  # the last: weights of the rule `learned`, by evolution
    pairs: int = Field(8, ge=1)  # of directions tried in a generation of evolution, each on `drawn` sequences
    sigma: list[PositiveFloat] = Field([0.15, 0.05], min_length=2, max_length=2)  # their size, at the beginning and at the end
    rate_of_change: list[PositiveFloat] = Field([0.3, 0.1], min_length=2, max_length=2)
    reward: str = "rl-taps"

    def trainer(self, log: Workload | None, device: str) -> Any:
        """Return the trainer that a run asks: see `jobwise.learn.run.Trainer`."""
        where = "knapsack:KnapsackTrainer" if self.network == "knapsack" else "gpus:GpusTrainer"
        return imported(f"jobwise.learn.{where}")(self, log, device)  # by name: the network needs torch

    @property
    def machine(self) -> Cluster:
        """The cluster of racks. Raises InputError."""
        try:
            return gpu_racks(self.racks, self.gpus, **({"work": self.work} | self.links))
        except TypeError as error:
            raise InputError(f"links: {error}") from None

    @property
    def logged(self) -> bool:
        """Are the sequences windows of a log?"""
        return self.generator == "log"

    def on_racks(self, log: Workload) -> Workload:
        """The GPU jobs of a log on the cluster of racks, the gaps between their submits scaled to the log's own load; a log of
        such a cluster stays as it is. Raises InputError."""
        if log.cluster.topology is not None:
            return log
        w = dnn.with_networks(log, self.machine)
        return scale_load(w, load(log)) if np.isfinite(load(log)) and load(log) > 0 else w

    @property
    def world(self) -> GpusSettings:
        """The settings of the world."""
        return GpusSettings.of(self.model_dump())

    def cost(self, which: np.ndarray) -> np.ndarray:
        """[K] s that a restart takes in these sequences."""
        return np.array(self.costs or [self.restart_cost_s])[which % max(len(self.costs), 1)]

    @property
    def shares(self) -> bool:
        """True as of all jobsets; the weights of the rule `learned` are searched by one process."""
        return self.network != "knapsack" and super().shares

    def rule(self, name: str) -> GpusRule:
        """Return a rule, with its usual world. Raises InputError."""
        return named(f"gpus:{name}")

    def judged(self, sets: Sequence[Workload], policy: str | Chooser, seed: int, row_s: float) -> dict[str, list]:
        """Return per sequence what a policy, or a rule by name, makes of it."""
        return assigned(sets, policy, self.cost(np.arange(len(sets))), self.limit, seed)

    def rules(self) -> list[str]:
        """The fixed rules to be measured against, as policies are named, in this world."""
        usual = [named(f"gpus:{r}") for r in RULES[:-1]]
        world: list[dict[str, Any]] = [
            {"slots": self.slots, "leave": self.leave} | ({} if r.rule in PICKERS else {"mode": self.mode}) for r in usual
        ]
        return [replace(r, tick=self.row_s, world=replace(r.world, **w)).name for r, w in zip(usual, world, strict=True)]

    def sets(self, part: int, count: int, log: Workload | None = None, fresh: int = 0) -> list[Workload]:
        """`count` sequences to train on, validate or test with, of a stream the `fresh`-th; or windows of a log of GPU jobs,
        which the cluster of racks has at the log's own load. Raises InputError."""
        if self.logged:
            if log is None:
                raise InputError("windows of a log take a log")
            return windows(parts(self.on_racks(log))[(TRAIN, VALIDATION, TEST).index(part)], part, self.jobs, count)
        return [dnn.rltaps(self.steps, [part, fresh, i], machine=self.machine, rate=self.rate) for i in range(count)]

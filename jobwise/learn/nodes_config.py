"""The configuration of a run on jobsets in which a job goes to a node. No torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar, Literal

from pydantic import Field

from jobwise.errors import InputError
from jobwise.extensions import imported
from jobwise.learn.jobset_config import JobsetConfig
from jobwise.learn.judged import placed
from jobwise.policies.chooser import Chooser
from jobwise.workload import Workload
from jobwise.workloads import affinity as generators
from jobwise.workloads.failing import failing
from jobwise.workloads.jobsets import TRAIN
from jobwise.worlds.nodes.policy import NodesRule
from jobwise.worlds.nodes.rules import RULES
from jobwise.worlds.nodes.world import NodesSettings

KNOWING, LEARNT = ("greedy", "oracle"), ("learned", "patient")
BLIND = [r for r in RULES if r not in (*KNOWING, *LEARNT)]


class NodesConfig(JobsetConfig):
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

    def trainer(self, log: Workload | None, device: str) -> Any:
        """Return the trainer that a run asks: see `jobwise.learn.run.Trainer`."""
        return imported("jobwise.learn.nodes:NodesTrainer")(self, log, device)  # by name: it needs torch

    @property
    def world(self) -> NodesSettings:
        """The settings of the world."""
        return NodesSettings.of(self.model_dump() | {"places": self.slots})

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

    def rule(self, name: str, explore: float | None = None) -> NodesRule:
        """A rule in this world, where all places are asked about at once. `learned` and `patient` know what jobs took in the
        training jobsets, scheduled one after the other (where the factors are the same in all); from a blank page they begin
        with `explore`, half a standard error by default."""
        few = self.world.places < 8  # joint actions are not too many
        world = replace(self.world, joint=True, masked=False, ask_always=True) if few else self.world
        if name not in LEARNT or self.varies:
            return NodesRule(name, world, (0.5 if name in LEARNT else 0.0) if explore is None else explore)
        learned = NodesRule("learned", world, 1.0).learnt(self.sets(TRAIN, min(self.jobsets, 20)))
        return replace(learned, rule=name, explore=explore or 0.0)

    def judged(self, sets: Sequence[Workload], policy: str | Chooser, seed: int, row_s: float) -> dict[str, list]:
        """Return per jobset what a policy, or a rule by name, makes of it."""
        return placed(sets, self.rule(policy) if isinstance(policy, str) else policy, self.limit, seed)

    def rules(self) -> list[str]:
        """The rules that know no factors."""
        return [*BLIND, *LEARNT]

"""The configuration of a run in the world of slots. No torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from pydantic import Field

from jobwise.errors import InputError
from jobwise.extensions import imported
from jobwise.learn.jobset_config import JobsetConfig, windows
from jobwise.learn.judged import means
from jobwise.learn.run_folder import parts
from jobwise.policies.chooser import Chooser
from jobwise.workload import Workload
from jobwise.workloads import jobsets as generators
from jobwise.workloads.jobsets import TEST, TRAIN, VALIDATION
from jobwise.workloads.transform import to_rows
from jobwise.worlds.slots.policy import WORLD, SlotsRule
from jobwise.worlds.slots.rules import RULES
from jobwise.worlds.slots.world import SlotsSettings


class SlotsConfig(JobsetConfig):
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
    stall: bool = WORLD["stall"]
    compat: bool = WORLD["compat"]
    compat_floor: bool = False  # slowdowns are rounded down, as DeepRM's code (Python 2) reports them
    order: str = WORLD["order"]
    network: Literal["mlp", "slots", "image"] = "mlp"
    norm: Literal["batch", "group", "none"] = "batch"
    second: bool = False  # a second network chooses the placement (CuSH's policy selector)
    placer_lr: float = Field(0.0, ge=0, le=1)  # its learning rate (CuSH's α2); 0: as the first one's
    centred: bool = False  # its reward is taken relative to the mean of both placements

    @property
    def logged(self) -> bool:
        """Are the jobsets windows of a log?"""
        return self.generator == "log"

    def trainer(self, log: Workload | None, device: str) -> Any:
        """Return the trainer that a run asks: see `jobwise.learn.run.Trainer`."""
        return imported("jobwise.learn.slots:SlotsTrainer")(self, log, device)  # by name: it needs torch

    @property
    def world(self) -> dict:
        """The settings that a policy depends on."""
        return self.model_dump(include=set(WORLD))

    def rule(self, name: str) -> SlotsRule:
        """Return a rule in this world. Raises InputError."""
        return SlotsRule(name, SlotsSettings.of(self.world))

    def judged(self, sets: Sequence[Workload], policy: str | Chooser, seed: int, row_s: float) -> dict[str, list]:
        """Return per jobset what a policy, or a rule in rows of `row_s` s, makes of it."""
        world = {k: v for k, v in self.world.items() if k not in ("placements", "encoder", "order")}
        return means(sets, policy, world, seed, row_s)

    def rules(self) -> list[str]:
        """Return the fixed policies to compare with: every rule with every placement, and with the placement by kinds."""
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
            return windows(w, part, self.jobs, count)
        make = getattr(generators, self.generator)
        settings = [{k: v[i % len(v)] if isinstance(v, list) else v for k, v in self.settings.items()} for i in range(count)]
        try:
            return [make(self.steps, self.rate, [part, i], **x) for i, x in enumerate(settings)]
        except TypeError as error:
            raise InputError(f"generator {self.generator}: {error}") from None

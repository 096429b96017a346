"""The configuration of a run on jobsets, generated or windows of a log: what those of the worlds of rows share. No torch."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field, field_validator

from jobwise.compare.windows import begins
from jobwise.errors import InputError
from jobwise.learn.run_settings import Collecting, processes
from jobwise.learn.settings import PARALLEL, Settings, check_hidden, check_learner
from jobwise.policies.chooser import Chooser
from jobwise.policies.neural import NeuralPolicy
from jobwise.workload import Workload
from jobwise.workloads.jobsets import TRAIN


class JobsetConfig(Collecting):
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
    precision: Literal["float32", "bfloat16"] = "float32"  # of the network's products; what is summed is float32
    learner: dict[str, Any] = {}
    reward: str = "slowdown"
    runs: int = Field(20, ge=1)  # of a jobset in an iteration of `reinforce`
    group: int = Field(10, ge=1)  # jobsets played at once
    drawn: int = Field(0, ge=0)  # jobsets drawn for an iteration; 0: all of them
    average_every: int = Field(0, ge=0)  # iterations between averages of the workers' parameters; 0: gradients are summed
    warm: int = Field(0, ge=0)  # passes of supervised warm start
    warm_rule: str = "sjf"
    warm_lr: float = Field(0.0, ge=0, le=1)  # its learning rate, for which the optimiser is made anew; 0: the learner's
    simulations: int = Field(256, ge=1, le=100_000)  # side by side, of the other learners
    choices: int | None = Field(1_000_000, ge=1)
    iterations: int | None = Field(None, ge=1)
    validations: int = Field(20, ge=1)

    @field_validator("learner")
    @classmethod
    def _learner(cls, value: dict) -> dict:
        used = ("learner", "optimiser", "actor_lr", "gamma", "max_norm", "entropy")
        if value.get("learner", "ppo") == "reinforce" and (idle := sorted(set(value) - set(used))):
            raise ValueError(f"reinforce on jobsets has no use for {idle[0]!r}; it takes {', '.join(used)}")
        if value.get("learner") in (*PARALLEL, "one_step_ac", "dqn") or {"critic_first", "cost"} & set(value):
            raise ValueError("workers, one_step_ac, dqn, critic_first and cost are for windows of logs")
        return check_learner(value)

    @field_validator("hidden")
    @classmethod
    def _hidden(cls, value: list[int]) -> list[int]:
        return check_hidden(value, cls.least_hidden)

    @classmethod
    def of(cls, policy: NeuralPolicy):
        """Return the configuration that a policy was trained with. Raises InputError."""
        config = policy.about.get("config")
        if not isinstance(config, dict):
            raise InputError(f"policy {policy.label} does not say what it was trained with")
        return cls().changed(**config)  # type: ignore[call-arg] # subclasses name their system

    @property
    def logged(self) -> bool:
        """Are the jobsets windows of a log?"""
        return False

    @property
    def shares(self) -> bool:
        """Do the processes of `torchrun` share its work? They share the runs of the learner `reinforce`."""
        return Settings(**self.learner).learner == "reinforce"

    def checked_log(self, log: Any, name: str) -> None:
        """Raises InputError where a log is given and is not wanted, or is wanted and not given (None)."""
        if (log is None) == self.logged:
            wanted = "windows of a log: name it" if log is None else "generated jobs: name no log"
            raise InputError(f"policy {name} is for {wanted}")

    def sets(self, part: int, count: int, log: Workload | None = None) -> list[Workload]:
        """`count` jobsets to train on, validate or test with (`part`: TRAIN, VALIDATION, TEST). Raises InputError."""
        raise NotImplementedError

    def rule(self, name: str) -> Chooser:
        """Return a rule in this world. Raises InputError."""
        raise NotImplementedError

    def judged(self, sets: Sequence[Workload], policy: str | Chooser, seed: int, row_s: float) -> dict[str, list]:
        """Return per jobset what a policy, or a rule by name, makes of it: `slowdown`, `longest`, `stretch`, `lost`."""
        raise NotImplementedError

    def learns_from(self, log: Workload | None) -> Workload:
        """Return what `run.json` names: the log, or the first of the generated jobsets."""
        return self.sets(TRAIN, 1)[0] if log is None else log

    def train(self, log: Workload | None, folder: str | Path, *, resume: bool = False, **options: Any) -> list[NeuralPolicy]:
        """Train once per seed, as `jobwise.learn.run.train`; without a log on generated jobsets. Raises InputError.

        Under `torchrun` every process plays its share of the runs of `reinforce`; the first one keeps the folder.
        """
        from jobwise.learn import run
        from jobwise.learn.jobsets import join, workers

        if several := processes() > 1:
            if not self.shares:
                self.alone()
            if resume:
                raise InputError("several processes cannot go on with an interrupted run; begin a new one")
            join()
        if several and workers()[1] > 0:
            folder = Path(tempfile.mkdtemp()) / "run"
        return run.train(self, log, folder, resume=resume, **options)


def windows(w: Workload, part: int, jobs: int, count: int) -> list[Workload]:
    """`count` windows of a part of a log, of `jobs` jobs each, all from time 0. Those to train on may share jobs."""
    jobs = min(jobs, len(w))
    first = np.unique(np.linspace(0, len(w) - jobs, count).astype(int)) if part == TRAIN else begins(0, len(w), jobs, count)
    return [w.take(slice(i, i + jobs)) for i in first]

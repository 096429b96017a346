"""The common part of the configurations of all runs. No torch."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from jobwise.errors import InputError
from jobwise.extensions import imported
from jobwise.learn.run_folder import explained


def processes() -> int:
    """Return how many processes `torchrun` has started for this run; 1 without it."""
    return int(os.environ.get("WORLD_SIZE", "1"))


class RunSettings(BaseModel):
    """Everything that decides what a run becomes. TOML files have the same keys."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    system: str
    seed: int = Field(0, ge=0, lt=2**31)
    threads: int = Field(2, ge=1, le=1024)
    preset: Literal["", "smoke", "small", "paper"] = ""  # how long it trains; "": not said

    def alone(self) -> None:
        """Raises InputError where `torchrun` has started several processes: they would train the same in one folder."""
        if processes() > 1:
            raise InputError(
                f"{self.system}: {processes()} processes would train the same, in one folder; this training does not share "
                "its work: start it without torchrun (--threads uses more cores)"
            )

    def learns_from(self, log: Any) -> Any:
        """Return the log that `run.json` names."""
        return log

    def trainer(self, log: Any, device: str) -> Any:
        """Return the trainer that a run asks: see `jobwise.learn.run.Trainer`."""
        raise NotImplementedError

    def device(self, name: str) -> str:
        """Return the device that a training takes: see `jobwise.learn.agent.pick_device`. Raises InputError."""
        return imported("jobwise.learn.agent:pick_device")(name)  # by name: it needs torch

    def train(self, log: Any, folder: str | Path, **options: Any) -> list:
        """Train once per seed; options as `jobwise.learn.run.train`. Raises InputError."""
        self.alone()
        return imported("jobwise.learn.run:train")(self, log, folder, **options)

    def changed(self, **changes: Any):
        """Return a copy with changes, checked. Raises InputError."""
        return self.checked(self.model_dump() | changes)

    @classmethod
    def checked(cls, values: dict, where: str = "configuration"):
        """The configuration of these values. Raises InputError, naming the key."""
        try:
            return cls(**values)
        except ValidationError as error:
            raise explained(error, cls, where) from None


class Collecting(RunSettings):
    """Settings of runs whose simulations are played side by side."""

    simulations: int = Field(256, ge=1, le=100_000)  # side by side
    collectors: int = Field(1, ge=1, le=1024)  # batches of them, each collected by a task; part of the result

    def share(self) -> int:
        """Return how many simulations a collector has. Raises InputError where they cannot be shared."""
        if self.simulations % self.collectors:
            raise InputError(f"{self.simulations} simulations cannot be shared by {self.collectors} collectors")
        return self.simulations // self.collectors

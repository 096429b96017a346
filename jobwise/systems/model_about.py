"""The content of `model.json` of a model store."""

from __future__ import annotations

from typing import Literal

import numpy as np
from pydantic import BaseModel, Field, field_validator

from jobwise.cluster import Cluster, pool, resources
from jobwise.learn.config import Config
from jobwise.learn.generations import Kept
from jobwise.workloads.signatures import BINS, FEATURES, ROUNDS

FORMAT = "jobwise model 1"


def several(machine: Cluster) -> dict[str, int]:
    """Return the units of each resource of a machine of several; nothing of a pool."""
    return {} if machine.is_pool else machine.units


class Window(BaseModel):
    """The outcome of a window; scores as `jobwise.learn.run_folder.score`, smaller is better."""

    jobs: int
    served: str  # who scheduled it
    score: float  # of that one
    rule: str  # the best rule of the windows before
    rule_score: float
    net: float | None  # the present net's score, of the window before it learnt from it; None: there was none
    gain: float | None
    rolled_back: bool = False
    best: str  # the best rule in hindsight
    best_score: float


class About(Kept):
    """The contents of a model's `model.json`."""

    format: str = FORMAT
    kind: Literal["log", "flows"] = "log"  # the windows are those of a log, or outcomes of a workflow's runs
    log: str  # its name, or the workflow's
    cores: int = Field(ge=1)
    machine: dict[str, int] = {}  # units of each resource, where there are several
    signature: list[float]
    config: Config
    seen: int = Field(0, ge=0)  # jobs of the log
    sha256: str = ""  # of those
    present: str = ""
    rules: dict[str, float] = {}  # log scores, the last windows weigh most
    beta: float = Field(0.0, ge=0)
    asked: float = Field(0.0, ge=0)  # beta as it was asked for
    first: float | None = None  # mean return of the first window's net, for the acceptance test of beta
    windows: list[Window] = []

    @property
    def cluster(self) -> Cluster:
        """The machine that it schedules. Raises InputError."""
        return resources(**self.machine) if self.machine else pool(self.cores)

    def is_for(self, machine: Cluster) -> bool:
        """Return whether it schedules this machine."""
        return (self.cores, self.machine) == (machine.processors, several(machine))

    @field_validator("signature")
    @classmethod
    def _signature(cls, value: list[float]) -> list[float]:
        if len(value) != (count := len(FEATURES) + (ROUNDS + 1) * BINS) or not np.isfinite(value).all():
            raise ValueError(f"{count} finite numbers are expected")
        return value

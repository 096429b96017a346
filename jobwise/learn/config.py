"""The configuration of a run in the world of windows. No torch."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, field_validator

from jobwise.errors import InputError
from jobwise.extensions import imported
from jobwise.learn.run_settings import Collecting
from jobwise.learn.settings import check_hidden, check_learner
from jobwise.workload import Workload
from jobwise.worlds.rewards import check as check_reward
from jobwise.worlds.window.encoder import Encoder
from jobwise.worlds.window.settings import WindowSettings


class Config(Collecting):
    """Everything that decides what a run becomes. TOML files have the same keys."""

    system: str = "perjob"
    encoder: str = "perjob"
    window: int | None = Field(None, ge=1, le=100_000)
    encoding: dict[str, Any] = {}  # settings of the encoder
    act: str = "pick"
    backfill: str = ""
    fill: str = ""
    trials: bool = False  # waiting jobs run in idle processors; the agent chooses which (`act` pick)
    waits: bool = False  # the agent may choose nobody, to wait for a cheaper hour (`act` pick; a log with prices)
    network: Literal["perjob", "rows", "levels", "mlp"] = "perjob"
    hidden: list[int] = [32, 16, 8]
    reward: str = "bounded_slowdown"
    learner: dict[str, Any] = {}  # settings of the learner, see `jobwise.learn.settings.Settings`
    jobs: int = Field(256, ge=1)  # per episode
    shake_s: float = Field(300.0, ge=0, le=1e8)
    loads: list[float] = [1.0]
    choices: int | None = Field(1_000_000, ge=1)  # budget: choices made
    episodes: int | None = Field(None, ge=1)  # or: episodes ended
    validations: int = Field(20, ge=1)  # over the budget
    validation_windows: int = Field(32, ge=1)
    validate_seen: bool = False  # on windows of the training part, too: a rule or a net must do well in all that is known
    validation_jobs: int | None = Field(None, ge=1)  # per window; as many as an episode
    warm: int = Field(0, ge=0)  # updates, a choice of each simulation (of a worker's), in which a rule is imitated first
    warm_rule: str = ""  # the order that is imitated; "": the one that does best in validation
    rollback: bool = False  # go back to an earlier generation after two validations without gain
    streams: int = Field(8, ge=2, le=1000)  # of workflows, to learn from, and as many to judge on, where the log has some
    workflows: int = Field(30, ge=1)  # of a stream
    load: float = Field(0.9, gt=0, le=5)  # of a stream
    whole_log: bool = False  # learn and validate on all of it, as a published game may; then nothing is unseen

    @field_validator("reward")
    @classmethod
    def _reward(cls, value: str) -> str:
        try:
            check_reward(value)
        except InputError as error:
            raise ValueError(f"{error}") from None
        return value

    @field_validator("learner")
    @classmethod
    def _learner(cls, value: dict) -> dict:
        return check_learner(value)

    @field_validator("hidden")
    @classmethod
    def _hidden(cls, value: list[int]) -> list[int]:
        return check_hidden(value)

    @property
    def acts(self) -> WindowSettings:
        """How choices are carried out. Raises InputError for settings that do not go together."""
        return WindowSettings(self.act, self.backfill, self.fill, tries=self.trials, waits=self.waits)

    def network_spec(self, encoder: Encoder) -> dict:
        """{"kind", "sizes"} of the actor."""
        rows, features = encoder.shape
        if (self.network == "perjob") != encoder.per_job and self.network != "mlp":
            raise InputError(f"a {self.network} network does not go with encoder {encoder.name}")
        if (self.network == "levels") != bool(encoder.settings.get("levels")) and self.network in ("rows", "levels"):
            raise InputError("a network of two levels goes with encoding.levels = true, a network of rows with false")
        first = {"perjob": features, "rows": rows, "levels": rows - 1, "mlp": rows * features}[self.network]
        more = {"features": features} if self.network in ("rows", "levels") and features != 2 else {}
        return {"kind": self.network, "sizes": [first, *self.hidden, 1 if self.network == "perjob" else encoder.window]} | more

    def trainer(self, log: Workload, device: str) -> Any:
        """Return the trainer that a run asks: see `Trainer`."""
        return imported("jobwise.learn.window:WindowTrainer")(self, log, device)  # by name: it needs torch

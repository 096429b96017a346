"""What the configurations of all runs have in common. No torch."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from jobwise.learn.run_folder import explained


class RunSettings(BaseModel):
    """Everything that decides what a run becomes. TOML files have the same keys."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    system: str
    seed: int = Field(0, ge=0, lt=2**31)
    threads: int = Field(2, ge=1, le=1024)

    def changed(self, **changes: Any):
        """The same with changes, checked. Raises InputError."""
        return self.checked(self.model_dump() | changes)

    @classmethod
    def checked(cls, values: dict, where: str = "configuration"):
        """The configuration of these values. Raises InputError, naming the key."""
        try:
            return cls(**values)
        except ValidationError as error:
            raise explained(error, cls, where) from None

"""Worlds on a grid of time, row after row: what they share as simulations that are replayed."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, Self, cast

import numpy as np

from jobwise.errors import InputError


class Settings:
    """Base of the settings of these worlds, which are frozen dataclasses with defaults."""

    single_events = False

    def __post_init__(self):
        """Raises InputError for values of other types than the defaults."""
        for f in fields(self):
            value, kind = getattr(self, f.name), type(f.default)
            wide = {int: np.integer, float: int | float | np.integer | np.floating, bool: np.bool_}.get(kind, ())
            if wide and isinstance(value, wide) and (kind is bool or not isinstance(value, bool)):
                object.__setattr__(self, f.name, kind(value))
            elif f.default is not None and type(value) is not kind:
                raise InputError(f"{f.name} is {value!r}; {'an' if kind is int else 'a'} {kind.__name__} is expected")

    @classmethod
    def of(cls, settings: dict) -> Self:
        """From a dictionary that may hold more. Raises InputError."""
        return cls(**{f.name: settings[f.name] for f in fields(cast(Any, cls)) if f.name in settings})


class Rows:
    """Base of worlds on a grid of time: `_over` [E] is not 0 where a simulation has ended."""

    measure = "mean slowdown"  # what `total` / `started` of its transitions is
    state: Any
    _over: np.ndarray

    @property
    def asked(self) -> np.ndarray:
        """[E] bool: which simulations stand at a decision point."""
        return self._over == 0

    @property
    def now(self) -> float:
        """Simulated time of the first simulation, s."""
        return float(self.state.sims["now"][0])

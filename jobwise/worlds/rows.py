"""Worlds on a grid of time, row after row: what they share as simulations that are replayed."""

from __future__ import annotations

from typing import Any

import numpy as np


class Rows:
    """What worlds on a grid of time share: `_over` [E] is not 0 where a simulation has ended."""

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

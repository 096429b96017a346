"""Worlds on a grid of time, row after row: what they share as simulations that are replayed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from typing import Any, Self, cast

import numpy as np

from jobwise.errors import InputError
from jobwise.sim.reset import Jobsets, no_jobsets


class RowSettings:
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


def taken(thing: Any, names: Iterable[str], prefix: str = "") -> dict[str, Any]:
    """Take these fields out of a bundle: a dictionary whose keys have `prefix` before them."""
    return {f"{prefix}{name}": getattr(thing, name) for name in names}


ACT, BEGIN, RENEW = range(3)  # what `go` of a world is asked to do: actions, simulations as they are filled, jobsets


class Rows:
    """Base of worlds on a grid of time. A world has tables of its own (its attribute `prefix`; `kept` are those that change, in
    checkpoints) and `_go`, its kernel. `_over` [E] is not 0 where a simulation has ended."""

    measure = "mean slowdown"  # what `total` / `started` of its transitions is
    prefix: str
    kept: tuple[str, ...]
    settings: Any
    state: Any
    actions: int
    mask: np.ndarray

    def _hold_rows(self, actions: int, none: np.ndarray) -> None:
        """Make room for E simulations with `actions` actions; `none` [E, …]: the actions without effect."""
        E = len(self.state.sims)
        self.actions, self.counts, self._none = actions, np.full(E, actions), none
        self._over, self._which, self._no_sets = np.zeros(E, np.int8), np.zeros(E, np.int64), no_jobsets(self.state)

    def _go(
        self, sets: Jobsets, code: int, actions: np.ndarray, which: np.ndarray, over: np.ndarray, first: int, last: int
    ) -> int:
        """Do as `code` says in simulations first .. last - 1 and go on to the next choices; how many have one."""
        raise NotImplementedError

    def _placed(self, actions: np.ndarray, first: int, last: int) -> np.ndarray:
        """The actions as the kernel takes them."""
        return actions

    def _after(self, first: int, last: int) -> None:
        """Bring up to date what depends on the next choices of simulations first .. last - 1."""

    @property
    def void(self) -> int:
        """The number of the action that does nothing."""
        return self.actions - 1

    @property
    def table(self) -> Any:
        """The tables of the world."""
        return getattr(self, self.prefix)

    @property
    def transition(self) -> np.ndarray:
        """[E] of `report_dtype`: what happened since the last choice; rewards are functions of it."""
        return self.table.report

    @property
    def asked(self) -> np.ndarray:
        """[E] bool: which simulations stand at a decision point."""
        return self._over == 0

    @property
    def now(self) -> float:
        """Simulated time of the first simulation, s."""
        return float(self.state.sims["now"][0])

    def begin(self) -> int:
        """Begin all simulations as they are filled; how many stand at a decision point."""
        E = len(self._over)
        left = self._go(self._no_sets, BEGIN, self._none, self._which, self._over, 0, E)
        self._after(0, E)
        return left

    def advance(self, actions: np.ndarray) -> int:
        """Do actions [E, …] and go on to the next decision points; how many stand at one."""
        E = len(self._over)
        actions = self._placed(np.ascontiguousarray(actions, np.int64), 0, E)
        left = self._go(self._no_sets, ACT, actions, self._which, self._over, 0, E)
        self._after(0, E)
        return left

    def encode(self, encoder, out: np.ndarray, first: int = 0, last: int | None = None) -> None:
        """Fill out[first:last] with the observations of simulations."""
        encoder.encode(self.state, self.table, out, first, last)

    def seed_rules(self, seed: int) -> None:
        """Seed what the rule `random` draws."""
        self.table.moment["seed"] = np.arange(len(self._over)) + seed * 1_000_003

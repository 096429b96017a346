"""Worlds: how simulations become decision points for an agent.

window   a queue, of which a window of jobs is shown; which job is next (`window/world.py`)
slots    a few slots in front of a backlog, rows of time to come; which slot, placed how (`slots/`)
gpus     at each row of time, which GPU works for which job (`gpus/`)
nodes    at each row of time, which node the oldest jobs go to (`nodes/`)

A policy asks a `World`; an `EpisodeWorld` begins episodes too; a `Live` one stands at instants of a cluster."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from jobwise.decision import Decision, View


class World(Protocol):
    """E simulations side by side, each at a decision point or over. The action space belongs to the world.

    `actions`: how many there are, A; with `action_shape` (M,) of each of M parts. `transition`: rewards are functions of it.
    `state`: the simulations' State.
    """

    actions: int
    state: Any

    @property
    def action_shape(self) -> tuple[int, ...]:
        """() for one action, (M,) for one of each of M parts."""
        ...

    @property
    def mask(self) -> np.ndarray:
        """[E, A] int8, or [E, M, A]: the valid actions."""
        ...

    @property
    def masks(self) -> np.ndarray | None:
        """The mask where valid actions are not just the first ones."""
        ...

    @property
    def counts(self) -> np.ndarray:
        """[E] how many actions are valid."""
        ...

    @property
    def asked(self) -> np.ndarray:
        """[E] bool: the simulations that stand at a decision point."""
        ...

    @property
    def transition(self) -> np.ndarray:
        """[E] structured: what happened between two choices."""
        ...

    @property
    def now(self) -> float:
        """The simulated time of the first simulation, s."""
        ...

    def begin(self) -> int:
        """Begin the simulations as they are filled; how many stand at a decision point."""

    def advance(self, actions: np.ndarray) -> int:
        """Do actions [E] and go on to the next decision points; how many simulations stand at one."""

    def encode(self, encoder, out: np.ndarray, first: int = 0, last: int | None = None) -> None:
        """Fill out[first:last] with the encoder's observations."""


class EpisodeWorld(World, Protocol):
    """A world whose simulations are episodes that begin again.

    `done` [E] int8: 1 where an episode is over, 2 where one has also begun that has nothing to choose. `ends`: name of a result
    of an episode -> field of the transition. `steps_in_stream`: choices after which a stream is cut; None for episodes.
    """

    done: np.ndarray
    ends: dict[str, str]
    steps_in_stream: int | None

    def reset(self, e: int, rng: np.random.Generator, seeded: bool) -> None:
        """Begin an episode of simulation e, drawn by `rng`; `seeded`: earlier plans are dropped."""

    def step(self, actions: np.ndarray, autoreset: bool, first: int, last: int) -> None:
        """Do actions [E] of simulations first .. last - 1 and go on to the next choices; `done` says which are over."""

    def next_episode(self, e: int, rng: np.random.Generator) -> bool:
        """Simulation e is over, and begins again: was that done here (its observation is to be encoded)?"""

    def blank_mask(self) -> np.ndarray:
        """[A] the mask of an episode that is over."""

    def forget(self, cut: np.ndarray) -> None:
        """Take note that streams were cut where cut [E] is true: reports of the next segment begin at 0."""

    def arrays(self) -> dict[str, np.ndarray]:
        """All there is to go on from, by name."""

    def picture(self, e: int) -> np.ndarray:
        """[height, width, 3] uint8: simulation e as it stands."""


class Live(Protocol):
    """A world at the instants of a live cluster, or of a simulation that asks."""

    def at(self, view: View) -> World | None:
        """The world (of one simulation) as a view shows it; None where there is nothing to choose."""

    def job(self, action: int) -> int | None:
        """The view's row of the job that an action speaks of; None where it speaks of none."""

    def decisions(self, view: View) -> list[Decision]:
        """Return the decisions made in the view since `at`."""

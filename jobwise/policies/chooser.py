"""The common part of policies that choose at the decision points of a world: whole replays side by side, a live cluster.

replay   world of E simulations ─► choose ─► actions [E] ─► the world goes on ─► … until every simulation is over
decide   a view ─► the world at that instant ─► choose ─► … until nothing is left to choose ─► decisions
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any

import numpy as np

from jobwise.cluster import Cluster
from jobwise.decision import Decision, View
from jobwise.errors import InputError, naming
from jobwise.policies.scheduler import Scheduler
from jobwise.sim.state import State
from jobwise.workload import Workload
from jobwise.worlds import World

ROUNDS = 1000  # of choices between two looks at progress and Ctrl-C
LIMIT = 20_000  # rows after the last arrival after which a simulation in slots is cut
Choose = Callable[[Any], np.ndarray]  # a world -> actions [E]


class Chooser(Scheduler):
    """A policy that acts in a world: `world` its settings, `tick` s in a row (0: every event), and `chooser`.

    What a world has of its own stands in its folder: `attach`, `live`, `episodes`.
    """

    world: Any  # its settings
    chooses = True

    def chooser(self, world: Any, cluster: Cluster) -> Choose:
        """Return what chooses: world -> actions [E]. Raises InputError for a cluster that it cannot take."""
        raise NotImplementedError

    @property
    def single_events(self) -> bool:
        """Does it decide after every single event?"""
        return self.world.single_events

    def is_compiled(self, cluster: Cluster) -> bool:
        """It replays whole simulations itself."""
        return True

    def attach(self, s: State, cluster: Cluster) -> Any:
        """Return its world over the simulations of `s`, which have been filled and not begun. Raises InputError."""
        with naming(f"policy {self.name}"):
            return self.world.attach(s, cluster, self.limit)

    def live(self, cluster: Cluster) -> Any:
        """Return its world at instants of a live cluster. Raises InputError."""
        raise InputError(f"policy {self.name} plays whole simulations; it cannot be asked about one instant yet")

    def episodes(self, sets: Sequence[Workload], cost_s: float | np.ndarray, limit: int) -> Any:
        """Return its world over whole jobsets, one each, cut after `limit` rows. Raises InputError."""
        raise InputError(f"{self.name} does not assign GPUs or nodes; rules are named gpus:… and nodes:…")

    def replay(
        self, s: State, cluster: Cluster, pasts: Sequence[np.ndarray], after: Callable | None = None
    ) -> Generator[None, None, None]:
        """The simulations of `s` to their ends, side by side, one choice of each a round; yields now and then.

        `after(transitions [E], which [E])` is called after every round, with what happened since the last choices.
        """
        world = self.attach(s, cluster)
        choose = self.chooser(world, cluster)
        left, rounds = world.begin(), 0
        while left:
            which = world.asked if after else None
            left = world.advance(choose(world))
            if after:
                after(world.transition, which)
            rounds += 1
            if rounds % ROUNDS == 0:
                yield

    def begin(self, view: View) -> ChooserRun:
        """Its run in one simulation, or on one cluster."""
        return ChooserRun(self, view.cluster)

    def explain(self, view: View) -> list[dict]:
        """Return the candidates of the next choice of a view: see `ChooserRun.explain`."""
        return self.begin(view).explain(view)

    def explained(self, world: World, cluster: Cluster) -> list[dict]:
        """The valid actions of the next choice: `action`, `score`, `features`, `moved`; highest score first."""
        return []


class ChooserRun:
    """A chooser in one simulation, or on one cluster: asked at one instant after the other."""

    def __init__(self, policy: Chooser, cluster: Cluster):
        policy.check(cluster)
        self.policy, self._cluster = policy, cluster
        self._live = policy.live(cluster)
        self._world: World | None = None
        self._choose: Choose = policy.chooser  # type: ignore[assignment] # replaced with the first world

    def _at(self, view: View) -> World | None:
        world = self._live.at(view)
        if world is not None and world is not self._world:
            self._world, self._choose = world, self.policy.chooser(world, self._cluster)
        return world

    def decide(self, view: View) -> list[Decision]:
        """The starts and reservations that are due in the view."""
        world = self._at(view)
        while world is not None and world.advance(self._choose(world)):
            pass
        return self._live.decisions(view)

    def ended(self, view: View, rows: np.ndarray) -> None:
        """Do nothing: views tell what has ended."""

    def explain(self, view: View) -> list[dict]:
        """Return the candidates of the next choice, highest score first: `job`, `score`, `features`, what `moved` it."""
        world = self._at(view)
        ranked = [] if world is None else self.policy.explained(world, self._cluster)
        return [{"job": self._live.job(x.pop("action"))} | x for x in ranked]

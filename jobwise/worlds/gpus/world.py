"""The world of assignments, as policies and environments drive it: its settings, its actions, its rules, its episodes."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import numpy as np

from jobwise.cluster import Cluster
from jobwise.errors import InputError, unknown
from jobwise.sim.state import State
from jobwise.worlds.gpus.bounds import in_turn, may_have
from jobwise.worlds.gpus.knapsack import THETA
from jobwise.worlds.gpus.layouts import LAYOUTS, lay_counts
from jobwise.worlds.gpus.passes import go
from jobwise.worlds.gpus.rules import RULES, choose
from jobwise.worlds.gpus.tables import MODES, Gpus, gpus
from jobwise.worlds.render import cluster_picture
from jobwise.worlds.rows import Rows, RowSettings

NO_THETA = np.zeros((1, THETA))
COUNTS = np.array([*range(13), 14, 16, 20, 24, 28, 32, 40, 48, 64, 96, 128])


@dataclass(frozen=True)
class GpusSettings(RowSettings):
    """Settings of the world.

    `slots` show waiting jobs, the others wait behind them. `mode`: see `passes.py`. `leave`: started jobs leave their
    slots. `elastic`: jobs may run on other numbers of GPUs than they ask for, where they say so. `masked`: the mask shows where
    jobs are; else every place is valid, and an empty one means none. `counts`: an action says how many GPUs each job has, one
    of COUNTS, not which; they are laid out by `rules`. Raises InputError.
    """

    slots: int = 10
    mode: str = "full"
    leave: bool = False
    elastic: bool = True
    masked: bool = True
    counts: bool = False

    def __post_init__(self):
        super().__post_init__()
        if not 1 <= self.slots <= 10_000:
            raise InputError(f"slots are 1 to 10,000, not {self.slots}")
        if self.mode not in MODES:
            raise unknown("mode of preemption", self.mode, MODES)

    def places(self, cluster: Cluster) -> int:
        """Return the number of places for jobs: the slots, and places of started jobs that left their slots."""
        return self.slots + self.leave * len(cluster.capacity)

    def check(self, cluster: Cluster) -> None:
        """Raises InputError for a cluster whose nodes are not single GPUs."""
        if cluster.topology is None:
            raise InputError("assignments are for clusters of single GPUs: --racks 2,2,2,2, or jobwise.gpu_racks([2, 2, 2, 2])")

    def attach(self, s: State, cluster: Cluster, limit: float = inf) -> GpusWorld:
        """The world of the simulations of `s`, which have been filled and not begun. `limit`: rows after the last arrival after
        which a simulation is cut. Raises InputError."""
        self.check(cluster)
        last = float(np.nanmax(s.jobs["submit"], initial=0.0)) / float(s.sims["tick"][0])
        return GpusWorld(self, s, gpus(s, cluster, self, last + limit), cluster)


class GpusWorld(Rows):
    """E simulations in the world of assignments. Actions [E, M]: for each GPU a place, or their number P for none. `mask`
    [E, M, P + 1] int8: which places have a job (the GPU's own alone where it may not be moved), and none."""

    prefix, kept = "gpus", ("moment", "place", "has", "want", "report")

    def __init__(self, settings: GpusSettings, state: State, table: Gpus, cluster: Cluster):
        self.settings, self.state, self.gpus, self.cluster = settings, state, table, cluster
        (E, M), places = table.has.shape, table.place.shape[1]
        self.action_shape = (places,) if settings.counts else (M,)
        self._hold_rows(len(COUNTS) if settings.counts else places + 1, np.full((E, M), places))
        self.mask = self.masks = np.ones((E, *self.action_shape, self.actions), np.int8)
        self.waiting: list[int] = []  # on a live cluster: places of jobs that wait, and numbers above for those behind them

    def _go(self, sets, code, actions, which, over, first, last) -> int:
        return go(self.state, self.gpus, sets, code, actions, which, over, first, last)

    @property
    def void(self) -> int:
        """The number of the action that does nothing: no job, or no GPUs."""
        return 0 if self.settings.counts else self.actions - 1

    def encode(self, encoder, out: np.ndarray, first: int = 0, last: int | None = None) -> None:
        """Fill out[first:last], and bring the mask up to date."""
        if self.settings.counts:
            may_have(self.state, self.gpus, COUNTS, self.mask, first, len(out) if last is None else last)
        elif self.settings.masked:
            self.mask[first:last, :, :-1] = (self.gpus.place["job"][first:last] >= 0)[:, None]
        encoder.encode(self.state, self.gpus, out, first, last)

    def _placed(self, actions: np.ndarray, first: int, last: int) -> np.ndarray:
        """Return the job of each GPU, from actions that give it, or that give each job's number of GPUs."""
        if not self.settings.counts:
            return actions
        placed = np.empty_like(self._none)
        lay_counts(self.state, self.gpus, COUNTS, actions, placed, first, last)
        return placed

    def narrow(self, scores: np.ndarray, mask: np.ndarray) -> np.ndarray:
        """[E, P] the counts of the highest scores [E, P, C], job after job, none that would take more GPUs than are left;
        `mask` becomes what each could choose from."""
        return in_turn(scores, COUNTS, mask, np.array(self.gpus.has.shape[1]))

    def takes(self, encoder) -> None:
        """Raises InputError for an encoder of another world."""
        M, P = self.gpus.has.shape[1], self.gpus.place.shape[1]
        rows = P + 1 if encoder.per_slot else P + M if encoder.per_gpu else encoder.shape[0]
        fits = encoder.shape[0] == rows and (encoder.per_slot or encoder.per_gpu or encoder.shape[1] > M)
        if encoder.slots != self.settings.slots or not fits:
            raise InputError(
                f"encoder {encoder.name} is made for {encoder.slots} slots and {encoder.shape}; this world has others"
            )

    def picture(self, e: int) -> np.ndarray:
        """The cluster, which job has which GPU, and how loaded its links are."""
        return cluster_picture(self.state, self.gpus, self.cluster, e)

    @property
    def moment(self) -> tuple[int, int]:
        """(rows passed, jobs that wait) of the first simulation."""
        m, place = self.gpus.moment[0], self.gpus.place[0]
        return int(m["now"]), int(m["behind"] + ((place["job"] >= 0) & (place["held"] == 0)).sum())

    def by_rule(self, name: str, layout: str = "pack", theta: np.ndarray = NO_THETA) -> np.ndarray:
        """[E, M] the actions of a rule of `rules`, laid out one of its ways; theta [1 or E, THETA] of `learned`. Raises
        InputError."""
        if name not in RULES:
            raise unknown("rule", name, RULES)
        actions = self._none.copy()
        choose(RULES.index(name), theta, self.state, self.gpus, actions, LAYOUTS.index(layout), 0, len(actions))
        if self.settings.counts:
            sizes = (actions[:, :, None] == np.arange(self.gpus.place.shape[1])).sum(axis=1)
            return np.searchsorted(COUNTS, sizes, side="right") - 1
        return actions

"""The world of buffers, as policies and environments drive it: its settings, its actions, its rules, its episodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

import numpy as np

from jobwise.cluster import Cluster
from jobwise.errors import InputError, unknown
from jobwise.sim.state import State
from jobwise.workload import Workload
from jobwise.worlds.jobset_episodes import JobsetEpisodes
from jobwise.worlds.nodes.passes import Nodes, buffer, go, look, seen_dtype
from jobwise.worlds.nodes.rules import RULES, choose
from jobwise.worlds.render import nodes_picture
from jobwise.worlds.rows import Rows, RowSettings
from jobwise.worlds.slots.tables import jobsets, room

MOST_ACTIONS = 100_000


@dataclass(frozen=True)
class NodesSettings(RowSettings):
    """Settings of the world.

    `places`: jobs in the buffer. `kinds`: number of kinds of jobs with separate run times. `joint`: an action places all of
    them; else each has its own action, one after the other. `burst`: time stands still while jobs are placed. `masked`: the
    mask shows the possible actions; else all actions are valid, and impossible ones are ignored. `ask_always`: asked
    also where no job could be placed. `avoid`: nodes that are forecast to fail with a larger probability
    (`Cluster.risk`) take no jobs. Raises InputError.
    """

    places: int = 1
    kinds: int = 3
    joint: bool = True
    burst: bool = False
    masked: bool = False
    ask_always: bool = True
    avoid: float = 1.0

    def __post_init__(self):
        super().__post_init__()
        if not (1 <= self.places <= 1000 and 1 <= self.kinds <= 10_000):
            raise InputError(f"{self.places} places for {self.kinds} kinds of jobs: too few or too many")

    @property
    def slots(self) -> int:
        """The number of places that show jobs."""
        return self.places

    def check(self, cluster: Cluster, requests: np.ndarray) -> None:
        """Raises InputError where a job [J, R] fits on no node alone, or there are too many joint actions."""
        fits = np.any((requests[:, None] <= cluster.capacity[None]).all(axis=2), axis=1)
        if not fits.all():
            row = int(np.flatnonzero(~fits)[0])
            raise InputError(f"job {row} requests {requests[row].tolist()}, which no node has: here every job runs on one node")
        if self.joint and self.places * np.log(len(cluster.capacity) + 1) > np.log(MOST_ACTIONS):
            text = f"{self.places} places for {len(cluster.capacity)} nodes are more than {MOST_ACTIONS:,} actions"
            raise InputError(f"{text}: too many; with joint = false the places are asked about one after the other")

    def attach(self, s: State, cluster: Cluster, limit: float = inf) -> NodesWorld:
        """The world of the simulations of `s`, which have been filled and not begun. `limit`: rows after the last arrival after
        which a simulation is cut. Raises InputError."""
        if s.risk.shape[1] and s.sims["tick"][0] != 1.0:
            raise InputError("risks of nodes are forecast second by second: rows of 1 s go with them")
        for e in range(len(s.sims)):
            self.check(cluster, s.jobs[e, : int(s.sims["jobs"][e])]["request"])
        last = float(np.nanmax(s.jobs["submit"], initial=0.0)) / float(s.sims["tick"][0])
        return NodesWorld(self, s, cluster, last + limit)


class NodesWorld(Rows):
    """E simulations in the world of buffers. `mask` [E, A] int8: actions that could be carried out, one at least."""

    action_shape, measure, prefix = (), "mean rows in the system", "buffer"
    kept = ("moment", "place", "line", "at", "begun", "seen", "report")

    def __init__(self, settings: NodesSettings, state: State, cluster: Cluster, limit: float, prior: np.ndarray | None = None):
        self.settings, self.state, self.cluster = settings, state, cluster
        blank = np.zeros((settings.kinds, len(cluster.capacity)), seen_dtype)
        if prior is not None and prior.shape != blank.shape:
            text = f"run times of {prior.shape[0]} kinds of jobs on {prior.shape[1]} nodes are known"
            raise InputError(f"{text}; here are {blank.shape[0]} kinds and {blank.shape[1]} nodes")
        self.buffer: Nodes = buffer(state, settings, limit, blank if prior is None else prior.copy())
        self._hold_rows(len(self.buffer.parts), np.zeros(len(state.sims), np.int64))
        self.mask = self.masks = self.buffer.mask

    def _go(self, sets, code, actions, which, over, first, last) -> int:
        return go(self.state, self.buffer, sets, code, actions, which, over, first, last)

    def _after(self, first: int, last: int) -> None:
        self.look(first, last)

    @property
    def void(self) -> int:
        """The number of the action that does nothing: no job goes anywhere, or this one does not."""
        return 0 if self.settings.joint else self.actions - 1

    def look(self, first: int, last: int) -> None:
        """Bring the masks of simulations first .. last - 1 up to date, where they are asked for."""
        if self.settings.masked:
            look(self.state, self.buffer, first, last)

    def takes(self, encoder) -> None:
        """Raises InputError for an encoder of another world."""
        if encoder.slots != self.settings.places:
            raise InputError(
                f"encoder {encoder.name} is made for {encoder.slots} places; this world has {self.settings.places}"
            )
        if encoder.per_slot and self.settings.joint:
            raise InputError(f"encoder {encoder.name} speaks of one job at a time: joint = false goes with it")

    def picture(self, e: int) -> np.ndarray:
        """The nodes and their jobs, the buffer, the queue behind it."""
        return nodes_picture(self.state, self.buffer, e)

    @property
    def moment(self) -> tuple[int, int]:
        """(rows passed, jobs that wait) of the first simulation."""
        m = self.buffer.moment[0]
        return int(m["now"]), int(m["behind"] + (self.buffer.place[0] >= 0).sum())

    def by_rule(self, name: str, explore: float = 0.0) -> np.ndarray:
        """[E] the actions of a rule of `rules`; `explore`: standard errors, of `learned`. Raises InputError."""
        if name not in RULES:
            raise unknown("rule", name, RULES)
        actions = np.zeros(len(self._over), np.int64)
        choose(RULES.index(name), float(explore), self.state, self.buffer, actions, 0, len(actions))
        return actions


class NodesEpisodes(JobsetEpisodes, NodesWorld):
    """E simulations of jobsets on clusters alike but for their affinities, submits and lengths in whole rows of 1 s; cut after
    `limit` rows. `prior` [kinds, N] of `seen_dtype`: run times known at the beginning. Raises InputError."""

    ends = {"duration": "total", "slowdown": "all_slow", "wait": "all_waited", "max_wait": "longest", "jobs": "started"}
    ends |= {"lost": "all_lost", "hit": "hit"}
    kept_of_state = ("factor", "outages", "risk")

    def __init__(
        self,
        count: int,
        sets: Sequence[Workload],
        settings: NodesSettings,
        limit: int,
        each: bool,
        prior: np.ndarray | None = None,
    ):
        cluster, tables = sets[0].cluster, jobsets(list(sets), failures=True)
        settings.check(cluster, tables.jobs["request"])
        if not (
            np.array_equal(tables.jobs["submit"], np.round(tables.jobs["submit"])) and (tables.truth["runtime"] >= 1).all()
        ):
            raise InputError(f"{sets[0].name}: on a grid of time submits are whole rows and jobs run for one at least")
        state = room(tables, sets[0], count, tick=1.0)
        NodesWorld.__init__(self, settings, state, cluster, limit, prior)
        self._hold(count, sets, tables, self.buffer.report, limit, each)

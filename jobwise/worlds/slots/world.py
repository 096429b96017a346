"""The world of slots, as policies and environments drive it: its settings, its actions, its rules."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import numpy as np

from jobwise.cluster import Cluster
from jobwise.errors import InputError, unknown
from jobwise.jobs import COMPUTE
from jobwise.sim.lists.placement import PLACEMENTS
from jobwise.sim.state import State
from jobwise.worlds import rows as row_world
from jobwise.worlds.render import picture
from jobwise.worlds.rows import Rows, RowSettings
from jobwise.worlds.slots.passes import BEGIN, RENEW, go
from jobwise.worlds.slots.rules import RULES, choose
from jobwise.worlds.slots.tables import Slots, check, grid

MOST_ROWS = 1_000_000  # of a simulation


@dataclass(frozen=True)
class SlotsSettings(RowSettings):
    """Settings of the world.

    `slots` show waiting jobs, `backlog` jobs stand behind them, `rows` of time to come are drawn. `placements`: names to
    choose from, as for list schedulers. `reserve`: jobs may be placed later than now (run times must be known); None: where
    there is one node. `masked`: the mask shows which actions would place a job, and the void action; else all actions are
    valid, and what cannot be done lets a row pass. `ask_always`: asked also where nothing can be placed. `stall`: the void
    action is valid on an empty machine for which nothing has arrived in `rows` rows, too; else jobs cannot wait for ever.
    `compat`: the rows that DeepRM's code tries. `order`: a rule that chooses the slot, so that its placement alone is chosen.
    `until_arrivals`: an episode ends with its last arrival. Raises InputError.
    """

    slots: int = 10
    backlog: int = 60
    rows: int = 20
    placements: tuple[str, ...] = ("first",)
    reserve: bool | None = None
    masked: bool = True
    ask_always: bool = True
    stall: bool = True
    compat: bool = False
    order: str = ""
    until_arrivals: bool = False

    def __post_init__(self):
        object.__setattr__(self, "placements", tuple(self.placements))
        super().__post_init__()
        if not (1 <= self.slots <= 1000 and 0 <= self.backlog <= 100_000 and 2 <= self.rows <= 10_000):
            raise InputError(f"{self.slots} slots, a backlog of {self.backlog}, {self.rows} rows: too few or too many")
        for p in self.placements:
            if p not in PLACEMENTS:
                raise unknown("placement", p, PLACEMENTS)
        if self.order and (self.order not in RULES or not self.masked or self.ask_always):
            text = f"a rule of {', '.join(RULES)}, with masks, asked where there is a choice alone"
            raise InputError(f"order {self.order!r}: {text}")

    @property
    def actions(self) -> int:
        """Return the number of actions: slot * placements + placement, and the void action, the last."""
        return self.slots * len(self.placements) + 1

    def reserves(self, cluster: Cluster) -> bool:
        """May jobs be placed later than now on this cluster?"""
        return len(cluster.capacity) == 1 if self.reserve is None else self.reserve

    def attach(self, s: State, cluster: Cluster, limit: float = inf) -> SlotsWorld:
        """The world of the simulations of `s`, which have been filled and not begun; no job is rejected in it. `limit`: rows
        after the last arrival after which a simulation is cut. Raises InputError where reservations cannot take the jobs, or
        a simulation has too many rows."""
        tick, last = float(s.sims["tick"][0]), 0.0
        if (rows := float(np.nanmax(s.jobs["submit"]) / tick)) > MOST_ROWS:
            text = f"a log of {rows:,.0f} rows of {tick:g} s is too long; make rows longer, e.g. slots:sjf+pack@600s"
            raise InputError(text)
        for e in range(len(s.sims)):
            jobs = s.jobs[e, : int(s.sims["jobs"][e])]
            check(f"simulation {e}", jobs, s.truth[e, : len(jobs)], cluster, self, tick)
            last = max(last, float(jobs["submit"].max()) / tick)
        return SlotsWorld(self, s, grid(s, cluster, self, last + limit, reject=False), cluster)


class SlotsWorld(Rows):
    """E simulations in the world of slots. `mask` [E, A] int8: the actions that are valid, one at least."""

    action_shape, prefix = (), "grid"
    kept = ("moment", "slot", "backlog", "canvas", "free", "colour", "used", "promised", "held", "report", "mask")

    def __init__(self, settings: SlotsSettings, state: State, table: Slots, cluster: Cluster):
        self.settings, self.state, self.grid, self.cluster = settings, state, table, cluster
        self.placements = settings.placements
        self._hold_rows(settings.actions, np.zeros(len(state.sims), np.int64))
        self.mask = self.masks = table.mask if settings.masked and not settings.order else np.ones_like(table.mask)
        self._picked = np.zeros(len(state.sims), np.int64)
        self._codes = {code: np.full(len(state.sims), x) for code, x in ((row_world.BEGIN, BEGIN), (row_world.RENEW, RENEW))}

    def _go(self, sets, code, actions, which, over, first, last) -> int:
        return go(self.state, self.grid, sets, self._codes.get(code, actions), which, over, first, last)

    def _after(self, first: int, last: int) -> None:
        self.look(first, last)

    @property
    def placeable(self) -> np.ndarray:
        """[E, M] bool: slots whose job could be placed."""
        return self.grid.mask[:, : -1 : len(self.placements)].astype(bool)

    def look(self, first: int, last: int) -> None:
        """Bring the mask of simulations first .. last - 1 up to date."""
        if self.settings.order:  # the rule's slot alone, placed in any way
            P, M = len(self.placements), self.grid.slot.shape[1]
            choose(RULES.index(self.settings.order), self.state, self.grid, self._picked, 0, first, last)
            slot = self._picked[first:last, None] // P
            self.mask[first:last] = np.append(np.repeat(np.arange(M), P), M)[None] == slot

    def picture(self, e: int) -> np.ndarray:
        """The machine in the rows to come, the slots, the backlog."""
        return picture(self.state, self.grid, e)

    @property
    def moment(self) -> tuple[int, int]:
        """(rows passed, jobs that wait) of the first simulation."""
        m = self.grid.moment[0]
        return int(m["now"]), int((self.grid.slot[0] >= 0).sum() + m["backlog"] + m["outside"] - m["first_outside"])

    def by_rule(self, name: str) -> np.ndarray:
        """[E] the actions of RULE[+PLACEMENT], a rule of `rules` and one of the placements to choose from, the first by
        default; `typed`: spread for compute-intensive jobs, pack for the others. Raises InputError."""
        rule, _, placement = name.partition("+")
        if rule not in RULES:
            raise unknown("rule", rule, RULES)
        ways = {p: (i, i) for i, p in enumerate(self.placements)}
        if {"pack", "spread"} <= set(self.placements):
            ways.setdefault("typed", (self.placements.index("spread"), self.placements.index("pack")))
        if placement and placement not in ways:
            raise unknown("placement", placement, ways)
        E, P = len(self.state.sims), len(self.placements)
        actions = np.empty(E, np.int64)
        choose(RULES.index(rule), self.state, self.grid, actions, 0, 0, E)
        some = np.flatnonzero(actions < self.void)
        kinds = self.state.jobs["kind"][some, self.grid.slot[some, actions[some] // P]]
        actions[some] += np.where(kinds == COMPUTE, *ways[placement or self.placements[0]])
        return actions

"""Environments on a grid of time, after DeepRM (HotNets'16) and CuSH (DRL4KDD'19): slots, a backlog, rows of time.

    state     what is held in the rows to come, who stands in the slots, how many behind them: what `encoder` shows of it
    action    slot * placements + placement, or the void action (the last): see `jobwise.worlds.slots`
    reward    a function of what happened until the next choice (`reward`; see `jobwise.worlds.rewards`)
    end       every job has ended, or `limit` rows have passed

`gymnasium.make_vec("jobwise/Grid-v0", num_envs=256, workload=[jw.deeprm(seed=k) for k in range(50)])`: episodes are whole
jobsets. Simulation e of a batch seeded with k is the single environment seeded with k + e.
"""

from __future__ import annotations

from collections.abc import Sequence
from inspect import signature

import numpy as np
from gymnasium import spaces

from jobwise.encoders.image import GridEncoder, make_grid, placing
from jobwise.errors import InputError, unknown
from jobwise.jobs import COMPUTE
from jobwise.learn.batched import Batched, Single
from jobwise.sim.placement import PLACEMENTS
from jobwise.workload import Workload
from jobwise.worlds import rewards
from jobwise.worlds.render import picture
from jobwise.worlds.slot_rules import RULES, choose
from jobwise.worlds.slots import RENEW, build, go, jobsets, show_waiting


class GridVectorEnv(Batched):
    """E simulations side by side; see the module for state, action, reward and end.

    `workload`: one jobset or several, submits and lengths in whole rows, for one cluster (an episode draws one, or takes the
    jobset e of simulation e with `each`). `slots` (M), `backlog`: of waiting jobs. `placements`: names to choose from, as
    for list schedulers; one by default. `reserve`: jobs may be placed later than now (run times must be known); by default
    where there is one node. `masked`: the mask shows which actions would place a job, the void action always; else all
    actions are valid, and what cannot be done lets a row pass. `ask_always`: asked also where nothing can be placed.
    `compat`: the rows that DeepRM's code tries. `order`: a rule that chooses the slot, so that its placement alone is chosen.
    `encoder`: deeprm, compact, cush, slots, or a GridEncoder; `rows` of time shown.
    Observations float32 [E, *encoder.shape]; actions [E]; rewards float64 [E]. Raises InputError.
    """

    ends = {"slowdown": "total", "wait": "all_waited", "max_wait": "longest", "jobs": "started", "dropped": "dropped"}

    def __init__(
        self,
        num_envs: int = 1,
        workload: Workload | Sequence[Workload] | None = None,
        *,
        encoder: str | GridEncoder = "deeprm",
        slots: int = 10,
        backlog: int = 60,
        rows: int = 20,
        placements: Sequence[str] = ("first",),
        reserve: bool | None = None,
        masked: bool = True,
        ask_always: bool = True,
        compat: bool = False,
        until_arrivals: bool = False,
        limit: int = 2000,
        reward: str | rewards.Reward = "slowdown",
        order: str = "",
        each: bool = False,
        dict_obs: bool = False,
        copy: bool = True,
        threads: int = 2,
        render_mode: str | None = None,
        **more,
    ):
        if more:  # told here, for Gymnasium would print every argument, the workload too
            raise unknown("setting of this environment", sorted(more)[0], set(signature(type(self)).parameters) - {"more"})
        sets = [workload] if isinstance(workload, Workload) else list(workload or [])
        if not sets:
            raise InputError("an environment needs a workload: jobwise.deeprm(), or several")
        if not (1 <= slots <= 1000 and 0 <= backlog <= 100_000 and 2 <= rows <= 10_000 and limit >= 1):
            raise InputError(f"{slots} slots, a backlog of {backlog}, {rows} rows, a limit of {limit}: too few or too many")
        for p in placements:
            if p not in PLACEMENTS:
                raise unknown("placement", p, PLACEMENTS)
        if each and num_envs != len(sets):
            raise InputError(f"a simulation for each jobset: {num_envs} simulations for {len(sets)}")
        cluster = sets[0].cluster
        self.encoder = encoder if isinstance(encoder, GridEncoder) else make_grid(encoder, cluster, slots, backlog, rows=rows)
        self.placements, self.masked, self.each, self.cluster = tuple(placements), masked, each, cluster
        self.reward = rewards.resolve(reward, rewards.GRID)
        box = spaces.Box(*self.encoder.bounds, self.encoder.shape, np.float32)
        self._set_up(num_envs, threads, copy, dict_obs, render_mode, box, slots * len(placements) + 1)
        self._sets = jobsets(sets)
        self.workloads = sets
        self._state, self._grid = build(
            self._sets,
            sets[0],
            num_envs,
            slots=slots,
            backlog=backlog,
            rows=self.encoder.rows,
            placements=np.array([PLACEMENTS[p] for p in placements]),
            reserve=len(cluster.capacity) == 1 if reserve is None else reserve,
            compat=compat,
            ask_always=ask_always,
            until_arrivals=until_arrivals,
            limit=limit,
        )
        if order and (order not in RULES or not masked or ask_always):
            raise InputError(f"order {order!r}: a rule of {', '.join(RULES)}, with masks, asked where there is a choice alone")
        self.order = order
        self.mask = self._grid.mask if masked and not order else np.ones_like(self._grid.mask)
        self.masks, self.counts = self.mask, np.full(num_envs, self.mask.shape[1])
        self._obs = np.zeros((num_envs, *self.encoder.shape), np.float32)
        self._which, self._asked = np.zeros(num_envs, np.int64), np.full(num_envs, RENEW)
        self._picked = np.zeros(num_envs, np.int64)
        self._report, self._last = self._grid.report.copy(), np.zeros(num_envs, np.int8)
        self._place = np.zeros((0, 2, self.encoder.rows, int(cluster.capacity.sum())), np.float32)

    # ------------------------------------------------------------------ what there is to know

    @property
    def intervals(self) -> np.ndarray:
        """[E] of `grid.report_dtype`: what rewards are made of."""
        return self._report

    @property
    def state(self):
        """(the simulations' State, their Grid): for those who look inside."""
        return self._state, self._grid

    @property
    def void(self) -> int:
        """The void action."""
        return self._grid.mask.shape[1] - 1

    def by_rule(self, name: str) -> np.ndarray:
        """[E] the actions of RULE[+PLACEMENT], a rule of `jobwise.worlds.slot_rules` and one of the placements to choose from,
        the first by default; `typed`: spread for compute-intensive jobs, pack for the others. Raises InputError."""
        rule, _, placement = name.partition("+")
        if rule not in RULES:
            raise unknown("rule", rule, RULES)
        ways = {p: (i, i) for i, p in enumerate(self.placements)}
        if {"pack", "spread"} <= set(self.placements):
            ways.setdefault("typed", (self.placements.index("spread"), self.placements.index("pack")))
        if placement and placement not in ways:
            raise unknown("placement", placement, ways)
        actions, P = np.empty(self.num_envs, np.int64), len(self.placements)
        choose(RULES.index(rule), self._state, self._grid, actions, 0, 0, self.num_envs)
        some = np.flatnonzero(actions < self.void)
        kinds = self._state.jobs["kind"][some, self._grid.slot[some, actions[some] // P]]
        actions[some] += np.where(kinds == COMPUTE, *ways[placement or self.placements[0]])
        return actions

    def show_placing(self, slots: np.ndarray) -> np.ndarray:
        """[E, 2, H, X] what CuSH's second agent sees of the jobs in `slots` [E]; valid until the next call."""
        if len(self._place) < self.num_envs:
            self._place = np.zeros((self.num_envs, *self._place.shape[1:]), np.float32)
        show_waiting(self._state, self._grid, 0, self.num_envs)
        placing(self._grid.waiting, self._grid, np.asarray(slots, np.int64), self._place, 0, self.num_envs)
        return self._place

    @property
    def placeable(self) -> np.ndarray:
        """[E, M] bool: slots whose job could be placed."""
        return self._grid.mask[:, : -1 : len(self.placements)].astype(bool)

    def jobs(self, e: int) -> np.ndarray:
        """The job table of simulation e as it stands."""
        return self._state.jobs[e, : len(self.workloads[self._which[e]])]

    # ------------------------------------------------------------------ episodes

    def _draw(self, e: int) -> None:
        self._which[e] = e if self.each else self._rngs[e].integers(len(self.workloads))

    def _begin(self, e: int) -> None:
        self._draw(e)
        go(self._state, self._grid, self._sets, self._asked, self._which, self._last, e, e + 1)
        self._steps[e] = 0
        self._show(e, e + 1)

    def _show(self, first: int, last: int) -> None:
        self.encoder.encode(self._state, self._grid, self._obs, first, last)
        if self.order:  # the rule's slot alone, placed in any way
            P, rule, M = len(self.placements), RULES.index(self.order), self._grid.slot.shape[1]
            choose(rule, self._state, self._grid, self._picked, 0, first, last)
            slot = self._picked[first:last, None] // P
            self.mask[first:last] = np.append(np.repeat(np.arange(M), P), M)[None] == slot

    def _again(self, which: np.ndarray) -> None:
        for e in which:
            self._begin(e)

    def _some(self, actions: np.ndarray, again: bool, first: int, last: int) -> None:
        go(self._state, self._grid, self._sets, actions, self._which, self._over, first, last)
        self._report[first:last] = self._grid.report[first:last]
        self._show(first, last)

    def begin(self, which: np.ndarray) -> None:
        """Begin simulation e with the jobset which[e], for all."""
        self._which[:] = which
        go(self._state, self._grid, self._sets, self._asked, self._which, self._last, 0, self.num_envs)
        self._steps[:], self._ready = 0, True
        self._show(0, self.num_envs)

    def _blank_mask(self) -> np.ndarray:
        return (np.arange(self.mask.shape[1]) == self.void).astype(np.int8) if self.masked else np.ones_like(self.mask[0])

    def _arrays(self) -> dict[str, np.ndarray]:
        s, g = self._state, self._grid
        found = {f"state_{k}": getattr(s, k) for k in ("sims", "jobs", "truth", "lists", "nodes", "slices")}
        keep = ("moment", "slot", "backlog", "canvas", "free", "colour", "used", "promised", "held", "report", "mask")
        found |= {f"grid_{k}": getattr(g, k) for k in keep}
        return found | {
            "obs": self._obs,
            "which": self._which,
            "report": self._report,
            "allowed": self.mask,
            "over": self._over,
            "steps": self._steps,
        }

    def seed_rules(self, seed: int) -> None:
        """Seed what the rule `random` draws."""
        self._grid.moment["seed"] = np.arange(self.num_envs) + seed * 1_000_003


class GridEnv(Single):
    """One simulation: a batch of one. Settings as `GridVectorEnv`; `render_mode="rgb_array"` has pictures."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 6}
    batch = GridVectorEnv

    def render(self) -> np.ndarray | None:
        """[height, width, 3] uint8: the machine in the rows to come, the slots, the backlog."""
        return picture(*self._envs.state) if self.render_mode == "rgb_array" else None

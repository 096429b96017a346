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
from dataclasses import fields, replace
from inspect import signature

import numpy as np
from gymnasium import spaces

from jobwise.encoders.image import GridEncoder, make_grid, placing
from jobwise.errors import InputError, unknown
from jobwise.learn.batched import Batched, Single
from jobwise.workload import Workload
from jobwise.worlds import rewards
from jobwise.worlds.render import picture
from jobwise.worlds.slot_tables import build, jobsets
from jobwise.worlds.slots import RENEW, go
from jobwise.worlds.slots_world import Slots, SlotsWorld


class GridVectorEnv(Batched):
    """E simulations side by side; see the module for state, action, reward and end.

    `workload`: one jobset or several, submits and lengths in whole rows, for one cluster (an episode draws one, or takes the
    jobset e of simulation e with `each`). `encoder`: deeprm, compact, cush, slots, or a GridEncoder. `limit`: rows after which
    an episode is cut. Other settings are those of `jobwise.worlds.slots_world.Slots`: slots, backlog, rows, placements,
    reserve, … Observations float32 [E, *encoder.shape]; actions [E]; rewards float64 [E]. Raises InputError.
    """

    ends = {"slowdown": "total", "wait": "all_waited", "max_wait": "longest", "jobs": "started", "dropped": "dropped"}

    def __init__(
        self,
        num_envs: int = 1,
        workload: Workload | Sequence[Workload] | None = None,
        *,
        encoder: str | GridEncoder = "deeprm",
        limit: int = 2000,
        reward: str | rewards.Reward = "slowdown",
        each: bool = False,
        dict_obs: bool = False,
        copy: bool = True,
        threads: int = 2,
        render_mode: str | None = None,
        **world,
    ):
        known = {f.name for f in fields(Slots)}
        if more := set(world) - known:  # told here, for Gymnasium would print every argument, the workload too
            raise unknown(
                "setting of this environment", sorted(more)[0], {*signature(type(self)).parameters, *known} - {"world"}
            )
        sets = [workload] if isinstance(workload, Workload) else list(workload or [])
        if not sets:
            raise InputError("an environment needs a workload: jobwise.deeprm(), or several")
        if limit < 1:
            raise InputError(f"a limit of {limit} rows: too few")
        settings, cluster = Slots(**world), sets[0].cluster
        if each and num_envs != len(sets):
            raise InputError(f"a simulation for each jobset: {num_envs} simulations for {len(sets)}")
        if not isinstance(encoder, GridEncoder):
            encoder = make_grid(encoder, cluster, settings.slots, settings.backlog, rows=settings.rows)
        self.encoder, self.each, self.cluster = encoder, each, cluster
        self.reward = rewards.resolve(reward, rewards.GRID)
        box = spaces.Box(*encoder.bounds, encoder.shape, np.float32)
        self._set_up(num_envs, threads, copy, dict_obs, render_mode, box, settings.actions)
        self._sets, self.workloads = jobsets(sets), sets
        self._state, self._grid = build(self._sets, sets[0], num_envs, replace(settings, rows=encoder.rows), limit)
        self.world = SlotsWorld(settings, self._state, self._grid, cluster)
        self.mask = self.masks = self.world.mask
        self.counts = np.full(num_envs, settings.actions)
        self._obs = np.zeros((num_envs, *self.encoder.shape), np.float32)
        self._which, self._asked = np.zeros(num_envs, np.int64), np.full(num_envs, RENEW)
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
    def placements(self) -> tuple[str, ...]:
        """Names to choose from."""
        return self.world.placements

    @property
    def void(self) -> int:
        """The void action."""
        return self.world.void

    def by_rule(self, name: str) -> np.ndarray:
        """[E] the actions of RULE[+PLACEMENT]: see `SlotsWorld`."""
        return self.world.by_rule(name)

    def show_placing(self, slots: np.ndarray) -> np.ndarray:
        """[E, 2, H, X] what CuSH's second agent sees of the jobs in `slots` [E]; valid until the next call."""
        if len(self._place) < self.num_envs:
            self._place = np.zeros((self.num_envs, *self._place.shape[1:]), np.float32)
        placing(self._grid.waiting, self._grid, np.asarray(slots, np.int64), self._place, 0, self.num_envs)
        return self._place

    @property
    def placeable(self) -> np.ndarray:
        """[E, M] bool: slots whose job could be placed."""
        return self.world.placeable

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
        self.world.look(first, last)
        self.encoder.encode(self._state, self._grid, self._obs, first, last)

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
        return (
            (np.arange(self.mask.shape[1]) == self.void).astype(np.int8)
            if self.world.settings.masked
            else np.ones_like(self.mask[0])
        )

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

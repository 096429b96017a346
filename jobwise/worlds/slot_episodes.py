"""The world of slots, as environments drive it: episodes are whole jobsets.

action    slot * placements + placement, or the void action (the last)
end       every job has ended, or `limit` rows have passed
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from jobwise.errors import InputError
from jobwise.workload import Workload
from jobwise.worlds.render import picture
from jobwise.worlds.slot_tables import build, jobsets
from jobwise.worlds.slots import RENEW, go
from jobwise.worlds.slots_world import Slots, SlotsWorld


class SlotEpisodes(SlotsWorld):
    """E simulations of jobsets, submits and lengths in whole rows, for one cluster. An episode draws a jobset, or takes the
    jobset e of simulation e with `each`; it is cut after `limit` rows. Raises InputError."""

    ends = {"slowdown": "total", "wait": "all_waited", "max_wait": "longest", "jobs": "started", "dropped": "dropped"}
    steps_in_stream = None

    def __init__(self, count: int, sets: Sequence[Workload], settings: Slots, rows: int, limit: int, each: bool):
        if limit < 1:
            raise InputError(f"a limit of {limit} rows: too few")
        if each and count != len(sets):
            raise InputError(f"a simulation for each jobset: {count} simulations for {len(sets)}")
        self._sets, self.workloads, self.each = jobsets(list(sets)), sets, each
        state, table = build(self._sets, sets[0], count, replace(settings, rows=rows), limit)
        super().__init__(settings, state, table, sets[0].cluster)
        self.counts, self.actions, self.masks = np.full(count, settings.actions), settings.actions, self.mask
        self.done, self._last = np.zeros(count, np.int8), np.zeros(count, np.int8)
        self.which, self._asked = np.zeros(count, np.int64), np.full(count, RENEW)
        self._report = table.report.copy()

    @property
    def transition(self) -> np.ndarray:
        """[E] of `report_dtype`: what happened until an episode was over, also where another has begun since."""
        return self._report

    def jobs(self, e: int) -> np.ndarray:
        """The job table of simulation e as it stands."""
        return self.state.jobs[e, : len(self.workloads[self.which[e]])]

    def begin_with(self, which: np.ndarray) -> None:
        """Begin simulation e with the jobset which[e], for all."""
        self.which[:] = which
        go(self.state, self.grid, self._sets, self._asked, self.which, self._last, 0, len(self.which))

    def reset(self, e: int, rng: np.random.Generator, seeded: bool) -> None:
        """Begin a jobset in simulation e."""
        self.which[e] = e if self.each else rng.integers(len(self.workloads))
        go(self.state, self.grid, self._sets, self._asked, self.which, self._last, e, e + 1)

    def step(self, actions: np.ndarray, autoreset: bool, first: int, last: int) -> None:
        """Place, or let a row pass, and go on."""
        go(self.state, self.grid, self._sets, actions, self.which, self.done, first, last)
        self._report[first:last] = self.grid.report[first:last]

    def next_episode(self, e: int, rng: np.random.Generator) -> bool:
        """Begin another jobset."""
        self.reset(e, rng, False)
        return True

    def encode(self, encoder, out: np.ndarray, first: int, last: int) -> None:
        """Fill out[first:last]."""
        self.look(first, last)
        encoder.encode(self.state, self.grid, out, first, last)

    def blank_mask(self) -> np.ndarray:
        """[A] the void action; where nothing is masked, all."""
        void = np.arange(self.actions) == self.void
        return void.astype(np.int8) if self.settings.masked else np.ones_like(self.mask[0])

    def forget(self, cut: np.ndarray) -> None:
        """There are no streams of jobsets."""

    def picture(self, e: int) -> np.ndarray:
        """The machine in the rows to come, the slots, the backlog."""
        return picture(self.state, self.grid, e)

    def arrays(self) -> dict[str, np.ndarray]:
        """All there is to go on from."""
        s, g = self.state, self.grid
        found = {f"state_{k}": getattr(s, k) for k in ("sims", "jobs", "truth", "lists", "nodes", "slices")}
        keep = ("moment", "slot", "backlog", "canvas", "free", "colour", "used", "promised", "held", "report", "mask")
        found |= {f"grid_{k}": getattr(g, k) for k in keep}
        return found | {"which": self.which, "report": self._report, "allowed": self.mask, "over": self.done}

    def seed_rules(self, seed: int) -> None:
        """Seed what the rule `random` draws."""
        self.grid.moment["seed"] = np.arange(len(self.which)) + seed * 1_000_003

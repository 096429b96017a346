"""Episodes that are whole jobsets: what the worlds on a grid of time share as environments."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from jobwise.errors import InputError
from jobwise.sim.reset import Jobsets
from jobwise.workload import Workload
from jobwise.worlds.rows import ACT, RENEW, Rows, taken

KEPT = ("sims", "jobs", "truth", "lists", "nodes", "slices", "links")  # of a state: all that changes


class JobsetEpisodes(Rows):
    """An episode draws a jobset, or is the jobset e of simulation e with `each`; `ends`: what an episode came to."""

    ends: dict[str, str]
    steps_in_stream: int | None = None
    kept_of_state: tuple[str, ...] = ()  # more of the state that changes

    def _hold(
        self, count: int, sets: Sequence[Workload], tables: Jobsets, report: np.ndarray, limit: float, each: bool
    ) -> None:
        if limit < 1:
            raise InputError(f"a limit of {limit} rows: too few")
        if each and count != len(sets):
            raise InputError(f"a simulation for each jobset: {count} simulations for {len(sets)}")
        self._sets, self.workloads, self.each = tables, sets, each
        self.done, self._last = np.zeros(count, np.int8), np.zeros(count, np.int8)
        self.which, self._report = np.zeros(count, np.int64), report.copy()

    def play_others(self, sets: Sequence[Workload], tables: Jobsets) -> None:
        """Draw from these jobsets, none of them larger than the largest so far, from the next episode on."""
        self.workloads, self._sets = sets, tables

    @property
    def transition(self) -> np.ndarray:
        """[E] what happened until an episode was over, also where another has begun since."""
        return self._report

    def jobs(self, e: int) -> np.ndarray:
        """The job table of simulation e as it stands."""
        return self.state.jobs[e, : len(self.workloads[self.which[e]])]

    def begin_with(self, which: np.ndarray) -> None:
        """Begin simulation e with the jobset which[e], for all."""
        self.which[:] = which
        self._renew(0, len(self.which))

    def _renew(self, first: int, last: int) -> None:
        """Begin simulations first .. last - 1 with their jobsets."""
        self._go(self._sets, RENEW, self._none, self.which, self._last, first, last)
        self._after(first, last)

    def reset(self, e: int, rng: np.random.Generator, seeded: bool) -> None:
        """Begin a jobset in simulation e."""
        self.which[e] = e if self.each else rng.integers(len(self.workloads))
        self._renew(e, e + 1)

    def step(self, actions: np.ndarray, autoreset: bool, first: int, last: int) -> None:
        """Do actions, and go on."""
        self._go(self._sets, ACT, self._placed(actions, first, last), self.which, self.done, first, last)
        self._after(first, last)
        self._report[first:last] = self.table.report[first:last]

    def blank_mask(self) -> np.ndarray:
        """[…, A] the void action; where nothing is masked, all."""
        void = np.broadcast_to(np.arange(self.actions) == self.void, self.mask.shape[1:])
        return void.astype(np.int8) if self.settings.masked else np.ones_like(self.mask[0])

    def next_episode(self, e: int, rng: np.random.Generator) -> bool:
        """Begin another jobset in simulation e."""
        self.reset(e, rng, False)
        return True

    def forget(self, cut: np.ndarray) -> None:
        """There are no streams of jobsets."""

    def arrays(self) -> dict[str, np.ndarray]:
        """All there is to go on from."""
        tables = taken(self.state, (*KEPT, *self.kept_of_state), "state_")
        tables |= taken(self.table, self.kept, f"{self.prefix}_")
        return tables | {"which": self.which, "report": self._report, "allowed": self.mask, "over": self.done}

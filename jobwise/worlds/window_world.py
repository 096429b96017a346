"""The world of windows, as environments drive it: episodes of logs, which job of the window is next.

action    which job of the window is next (`act`: pick, reserve, commit; see `jobwise.worlds.modes`)
end       every job of the episode has started (`stream`: cut after so many choices)
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from jobwise.cluster import pool
from jobwise.errors import InputError
from jobwise.sim.reset import Plan, plan_dtype
from jobwise.sim.state import allocate
from jobwise.workload import Workload
from jobwise.worlds.episodes import Episodes
from jobwise.worlds.modes import Act
from jobwise.worlds.render import machine
from jobwise.worlds.window import REFILL, STARTED, go

TRIES = 1000  # windows without a choice before we give up


class WindowWorld:
    """E simulations of pools. An action beyond the jobs that are shown counts from the first again."""

    ends = {"bounded_slowdown": "total", "wait": "all_waited", "max_wait": "longest", "jobs": "started"}
    masks = None

    def __init__(self, count: int, episodes: Episodes, act: Act, window: int, bound_s: float = 86400.0):
        self.episodes, self.act, self.actions = episodes, act, window
        logs, longest = episodes.logs, episodes.longest
        machine = pool(episodes.processors)
        self.state = allocate([_rows(logs[0], longest)] * count, machine, single_events=act.single_events)
        self.choices = act.allocate(self.state, window, bound_s)
        self.mask, self.done = self.choices.mask, np.zeros(count, np.int8)
        self._asked, self._begun, self._work = np.full(count, REFILL), np.zeros(count, np.int8), np.zeros((count, 1), np.int32)
        self.steps_in_stream = episodes.jobs if episodes.stream else None
        jobs, truth = np.concatenate([w.jobs for w in logs]), np.concatenate([w.truth for w in logs])
        given = np.zeros((count, longest), np.int32), np.zeros((count, longest))
        self._plan = Plan(jobs, truth, *given, np.zeros(count, plan_dtype))
        self._base = [0, *np.cumsum([len(w) for w in logs]).tolist()]
        self._processors = [w.cluster.processors for w in logs]
        self._offset = np.concatenate([w.offset + w.jobs["submit"] for w in logs])
        self._slot = np.arange(window)

    @property
    def counts(self) -> np.ndarray:
        """[E] jobs in each window: actions 0 .. counts - 1 are valid. A view that changes with every step."""
        return self.choices.moment["count"]

    @property
    def slots(self) -> np.ndarray:
        """[E, W] the job rows (within the episode) that the slots speak of; -1 beyond them."""
        rows = np.take_along_axis(self.choices.queue["row"], self.choices.slots, axis=1)
        return np.where(self._slot < self.counts[:, None], rows, -1)

    @property
    def transition(self) -> np.ndarray:
        """[E] of `interval_dtype`: what rewards are made of."""
        if self.episodes.stream:  # a stream is as long as its segments
            self.choices.report["jobs"] = self.episodes.jobs
        return self.choices.report

    def _draw(self, e: int, rng: np.random.Generator) -> None:
        """Plan the next episode of simulation e."""
        p = self._plan
        log, first, count = self.episodes.draw(rng)
        w = self.episodes.logs[log]
        factor = self.episodes.factor(rng)
        begin = self._base[log]
        if self.episodes.shake_s:
            rows, p.submit[e, :count] = self.episodes.shaken(w, first, count, factor, rng)
            p.row[e, :count] = rows + begin
        given = -1 if self.episodes.shake_s else begin + first
        p.next[e] = (count, self._processors[log], self._offset[begin + first], given, factor)

    def _begin(self, e: int, rng: np.random.Generator) -> None:
        """Begin the planned episode of simulation e, or the first after it that has a choice to make; plan another."""
        for _ in range(TRIES):
            more = go(self.state, self.choices, self._plan, self._asked, self._begun, STARTED, False, e, e + 1)
            self._draw(e, rng)
            if more:
                return
        name = self.episodes.logs[0].name
        raise InputError(f"{name}: {TRIES} episodes without a single choice to make; take more jobs or a higher load")

    def reset(self, e: int, rng: np.random.Generator, seeded: bool) -> None:
        """Begin an episode of simulation e."""
        if seeded:
            self._draw(e, rng)
        self._begin(e, rng)

    def step(self, actions: np.ndarray, autoreset: bool, first: int, last: int) -> None:
        """Choose, and go on; with `autoreset` an episode that is over is followed by the planned one at once."""
        go(self.state, self.choices, self._plan, actions, self.done, STARTED, autoreset, first, last)

    def next_episode(self, e: int, rng: np.random.Generator) -> bool:
        """The planned episode has begun in the kernel: plan another. Where it had nothing to choose, begin one that has."""
        self._draw(e, rng)
        if self.done[e] == 2:
            self._begin(e, rng)
        return self.done[e] == 2

    def encode(self, encoder, out: np.ndarray, first: int, last: int) -> None:
        """Fill out[first:last]."""
        if self._work.shape[1] != encoder.work:
            self._work = np.zeros((len(out), encoder.work), np.int32)
        encoder.encode(self.state, self.choices, out, self._work, first, last)

    def blank_mask(self) -> np.ndarray:
        """[W] the first slot."""
        return (self._slot == 0).astype(np.int8)

    def forget(self, cut: np.ndarray) -> None:
        """What is told of the next segment begins at 0."""
        for key in ("total", "started", "longest", "all_waited"):
            self.choices.interval[key][cut] = 0.0

    def picture(self, e: int) -> np.ndarray:
        """The processors that jobs hold over time, up to the last estimated end, and what waits."""
        return machine(self.state, e)

    def arrays(self) -> dict[str, np.ndarray]:
        """All there is to go on from."""
        s, c, p = self.state, self.choices, self._plan
        found = {f"state_{k}": getattr(s, k) for k in ("sims", "jobs", "truth", "lists", "nodes")}
        found |= {f"choices_{k}": getattr(c, k) for k in ("moment", "queue", "interval", "report", "mask", "slots")}
        found |= {f"running_{k}": v for k, v in c.running._asdict().items()}
        found |= {f"plan_{k}": getattr(p, k) for k in ("row", "submit", "next")}
        return found | {"work": self._work, "over": self.done}


def _rows(w: Workload, count: int) -> Workload:
    """`count` times the first job: makes `allocate` leave room for so many."""
    return replace(w, jobs=np.repeat(w.jobs[:1], count), truth=np.repeat(w.truth[:1], count), columns={})

"""The world of windows: which job of the window is next; as replays, live clusters and environments drive it.

action    which job of the window is next (`act`: pick, reserve, commit; see `jobwise.worlds.window.settings`)
end       every job of the episode has started (`stream`: cut after `jobs` choices)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from jobwise.cluster import pool, step_dtype
from jobwise.decision import Decision, Reserve, Start, View
from jobwise.errors import InputError
from jobwise.jobs import RUNNING
from jobwise.sim.reset import NO_PLAN, EpisodePlan, from_view, plan_dtype
from jobwise.sim.state import State, allocate
from jobwise.workload import Workload
from jobwise.worlds.render import machine
from jobwise.worlds.rows import taken
from jobwise.worlds.window.episodes import Episodes
from jobwise.worlds.window.passes import BEGIN, ENDED, NOTHING, PASS, REFILL, STARTED, ask, go, resume
from jobwise.worlds.window.rules import by_order
from jobwise.worlds.window.settings import WindowSettings

TRIES = 1000  # windows without a choice before we give up


class Windows:
    """E simulations of pools at decision points. An action beyond the jobs that are shown counts from the first again.

    `until`: where to stop where there is no choice: PASS, STARTED or ENDED of `jobwise.worlds.window.passes`.
    """

    action_shape = ()

    masks = None

    def __init__(self, act: WindowSettings, state: State, window: int, bound_s: float = 86400.0, until: int = ENDED):
        self.act, self.state, self.actions, self._until = act, state, window, until
        self.choices = act.allocate(state, window, bound_s)
        E, self.mask = len(state.sims), self.choices.mask
        self._over, self._work = np.zeros(E, np.int8), np.zeros((E, 1), np.int32)

    @property
    def counts(self) -> np.ndarray:
        """[E] jobs in each window: actions 0 .. counts - 1 are valid. A view that changes with every step."""
        return self.choices.moment["count"]

    @property
    def asked(self) -> np.ndarray:
        """[E] bool: which simulations stand at a decision point."""
        return self.counts > 0

    @property
    def now(self) -> float:
        """Simulated time of the first simulation, s."""
        return float(self.choices.moment["now"][0])

    @property
    def transition(self) -> np.ndarray:
        """[E] of `interval_dtype`: what rewards are made of."""
        return self.choices.report

    def begin(self) -> int:
        """Begin the simulations as they are filled; how many stand at a decision point."""
        return ask(self.state, self.choices, BEGIN, self._until)

    def advance(self, actions: np.ndarray) -> int:
        """Do actions [E] and go on to the next decision points; how many stand at one."""
        return go(self.state, self.choices, NO_PLAN, actions, self._over, self._until, False, 0, len(actions))

    def by_rule(self, name: str) -> np.ndarray:
        """[E] what an order would choose."""
        return by_order(self.state, self.choices, name)

    def encode(self, encoder, out: np.ndarray, first: int = 0, last: int | None = None) -> None:
        """Fill out[first:last]; `out` is the same array at every call."""
        if self._work.shape[1] != encoder.work:
            self._work = np.zeros((len(out), encoder.work), np.int32)
        encoder.encode(self.state, self.choices, out, self._work, first, last)


class LiveWindow:
    """The world of windows at the instants of a live cluster, or of a simulation that asks: see `jobwise.worlds.Live`."""

    def __init__(self, act: WindowSettings, window: int):
        self._act, self._window = act, window

    def at(self, view: View) -> Windows | None:
        """The pass that is due in the view; None where there is nothing to choose."""
        if len(view.queue) == 0:
            return None
        self._state, self._rows = from_view(view)
        self._world = Windows(self._act, self._state, self._window, until=PASS)
        resume(self._state, 0, self._world.choices)
        return self._world if ask(self._state, self._world.choices, NOTHING, PASS) else None

    def job(self, action: int) -> int:
        """The view's row of the job that an action speaks of."""
        c = self._world.choices
        return int(self._rows[c.queue["row"][0, c.slots[0, action]]])

    def decisions(self, view: View) -> list[Decision]:
        """Return the decisions made in the view."""
        queued = len(view.queue)
        if queued == 0:
            return []
        s, m, rows = self._state, self._world.choices.moment[0], self._rows
        decisions: list[Decision] = [Start(int(j)) for j in rows[:queued][s.jobs["status"][0, :queued] == RUNNING]]
        head = int(m["head"])
        if self._act.mode != "pick" and head >= 0 and np.isnan(s.jobs["reserved"][0, head]):
            # only RLScheduler's rule remembers when; elsewhere the time is made again at every event
            decisions.append(Reserve(int(rows[head]), float(m["shadow"]) if self._act.backfill == "greedy" else np.inf))
        return decisions


class WindowWorld(Windows):
    """E simulations of pools, whose episodes are parts of logs."""

    ends = {"bounded_slowdown": "total", "wait": "all_waited", "max_wait": "longest", "jobs": "started"}

    def __init__(self, count: int, episodes: Episodes, act: WindowSettings, window: int, bound_s: float = 86400.0):
        self.episodes, logs, longest = episodes, episodes.logs, episodes.longest
        machine = pool(episodes.processors) if logs[0].cluster.is_pool else logs[0].cluster
        state = allocate([_rows(logs, longest)] * count, replace(machine, power=None), single_events=act.single_events)
        steps = _prices(logs)
        if act.waits and not len(steps):
            raise InputError(f"{logs[0].name}: no prices are known, for which jobs could be held")
        state = state._replace(steps=np.zeros((count, len(steps)), step_dtype))
        super().__init__(act, state, window, bound_s, STARTED)
        self.done, self._asked, self._begun = np.zeros(count, np.int8), np.full(count, REFILL), np.zeros(count, np.int8)
        self.steps_in_stream = episodes.jobs if episodes.stream else None
        jobs, truth, child = np.concatenate([w.jobs for w in logs]), *_graphs(logs)
        room = np.zeros((count, longest), np.int32), np.zeros((count, longest))
        self._plan = EpisodePlan(jobs, truth, child, *room, np.zeros(count, plan_dtype), steps)
        self._base = [0, *np.cumsum([len(w) for w in logs]).tolist()]
        self._processors = [w.cluster.processors for w in logs]
        self._offset = np.concatenate([w.offset + w.jobs["submit"] for w in logs])
        self._origin = np.concatenate([np.nan_to_num(w.origin) + w.jobs["submit"] for w in logs])
        self._slot = np.arange(window)

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
        place = -1 if self.episodes.shake_s else begin + first
        p.next[e] = (
            count,
            self._processors[log],
            self._offset[begin + first],
            place,
            factor,
            len(w.edges) > 0,
            self._origin[begin + first],
        )

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

    def blank_mask(self) -> np.ndarray:
        """Return a mask [W] of the first slot."""
        return (self._slot == 0).astype(np.int8)

    def forget(self, cut: np.ndarray) -> None:
        """Let the results of the next segment begin at 0."""
        for key in ("total", "started", "longest", "all_waited"):
            self.choices.interval[key][cut] = 0.0

    def picture(self, e: int) -> np.ndarray:
        """The processors that jobs hold over time, up to the last estimated end, and what waits."""
        return machine(self.state, e)

    def arrays(self) -> dict[str, np.ndarray]:
        """All there is to go on from."""
        s, c, p = self.state, self.choices, self._plan
        tables = taken(s, ("sims", "jobs", "truth", "lists", "nodes"), "state_")
        tables |= taken(c, ("moment", "queue", "interval", "report", "mask", "slots"), "choices_")
        if s.slices.shape[1] > 1:  # a machine of several resources
            tables |= {"state_slices": s.slices}
        tables |= {f"running_{k}": v for k, v in c.running._asdict().items()}
        tables |= taken(p, ("row", "submit", "next"), "plan_") | {"child": s.child}
        if s.steps.shape[1]:
            tables |= {"state_steps": s.steps}
        return tables | {"work": self._work, "over": self.done}


def _prices(logs: Sequence[Workload]) -> np.ndarray:
    """[K] the prices of the machine of the logs, in s since 1970; empty where they are not known. Raises InputError for
    caps."""
    power = logs[0].cluster.power
    if power is None:
        return np.zeros(0, step_dtype)
    if power.cap is not None:
        raise InputError(f"{logs[0].name}: this environment knows of no cap on power")
    return power.steps(0.0, True)


def _rows(logs: Sequence[Workload], count: int) -> Workload:
    """Repeat the first job `count` times, with the most edges: so `allocate` leaves room for `count` jobs."""
    w, edges = logs[0], np.zeros((max(len(x.edges) for x in logs), 2), np.int64)
    return replace(w, jobs=np.repeat(w.jobs[:1], count), truth=np.repeat(w.truth[:1], count), columns={}, edges=edges)


def _graphs(logs: Sequence[Workload]) -> tuple[np.ndarray, np.ndarray]:
    """(truth tables of all logs, with each job's first child and how many; the children, as rows of their logs)."""
    columns, children, base = [], [np.zeros(1, np.int32)], 1
    for w in logs:
        truth, order = w.truth.copy(), np.argsort(w.edges[:, 0], kind="stable")
        truth["child"] = base + np.searchsorted(w.edges[order, 0], np.arange(len(w)))
        truth["children"] = np.bincount(w.edges[:, 0], minlength=len(w))
        columns.append(truth)
        children.append(w.edges[order, 1].astype(np.int32))
        base += len(order)
    return np.concatenate(columns), np.concatenate(children)

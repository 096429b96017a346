"""Environments: the scheduler's loop turned inside out, for Gymnasium and for our own learners.

    state     jobs waiting, jobs running, what is free: what the encoder shows of it (`encoder`)
    action    which job of the window is next (`act`: pick, reserve, commit; see `jobwise.worlds.modes`)
    reward    a function of what happened until the next choice (`reward`; see `jobwise.worlds.rewards`)
    end       every job of the episode has started (`stream`: cut after so many choices)
    source    log windows after RLScheduler (SC'20) and DRAS (IPDPS'21)

`envs = gymnasium.make_vec("jobwise/Batch-v0", num_envs=256, workload=w)` steps 256 simulations in one call of a kernel;
`gymnasium.make("jobwise/Batch-v0", workload=w)` is a batch of one. Simulation e of a batch seeded with k is the single
environment seeded with k + e, to the bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from inspect import signature

import numpy as np
from gymnasium import spaces

from jobwise.cluster import pool
from jobwise.encoders import Encoder, make
from jobwise.errors import InputError, unknown
from jobwise.learn.batched import Batched, Single
from jobwise.sim.reset import Plan, plan_dtype
from jobwise.sim.state import allocate
from jobwise.workload import Workload
from jobwise.worlds import rewards
from jobwise.worlds.episodes import Episodes
from jobwise.worlds.modes import Act
from jobwise.worlds.render import machine
from jobwise.worlds.window import REFILL, STARTED, go

TRIES = 1000  # windows without a choice before we give up


class BatchVectorEnv(Batched):
    """E simulations side by side; see the module for state, action, reward and end.

    Observations float32 [E, rows, features]; actions [E], slots of the window; rewards float64 [E];
    `info["action_mask"]` int8 [E, W], 1 for the slots that show a job: always the first so many, never none. An action
    beyond them counts from the first again, one below 0 as 0. `dict_obs`: observations are {"observation", "action_mask"}.
    Settings: `workload` (one or several logs), `act` and `backfill` or an `Act`, `encoder` (a name or an Encoder), `window`,
    `reward`, `jobs`, `stream`, `loads`, `shake_s` (see `Episodes`), `bound_s` (of the reward `bounded_wait`), `threads`.
    `copy`: False returns the buffer itself, valid until the next step. Raises InputError.
    """

    metadata = {**Batched.metadata, "render_modes": ["rgb_array"], "render_fps": 12}

    def __init__(
        self,
        num_envs: int = 1,
        workload: Workload | Sequence[Workload] | Episodes | None = None,
        *,
        act: str | Act = "pick",
        backfill: str = "",
        encoder: str | Encoder = "rls",
        window: int | None = None,
        reward: str | rewards.Reward = "bounded_slowdown",
        jobs: int | None = 256,
        stream: bool = False,
        loads: tuple[float, ...] = (1.0,),
        shake_s: float = 0.0,
        bound_s: float = 86400.0,
        dict_obs: bool = False,
        copy: bool = True,
        threads: int = 2,
        render_mode: str | None = None,
        **more,
    ):
        if more:  # told here, for Gymnasium would print every argument, the workload too
            raise unknown("setting of this environment", sorted(more)[0], set(signature(type(self)).parameters) - {"more"})
        if workload is None:
            raise InputError("an environment needs a workload: jobwise.read_swf('log.swf.gz'), or several")
        if isinstance(workload, Episodes):
            self.episodes = workload
        else:
            logs = [workload] if isinstance(workload, Workload) else list(workload)
            self.episodes = Episodes(logs, jobs, stream, tuple(loads), shake_s)
        logs = self.episodes.logs
        self.act = act if isinstance(act, Act) else Act(act, backfill)
        self.encoder = (
            encoder
            if isinstance(encoder, Encoder)
            else make(encoder, logs[0].cluster, np.concatenate([w.jobs for w in logs]), window)
        )
        sizes = {w.cluster.processors for w in logs}
        if self.encoder.nodes and sizes != {self.encoder.nodes}:
            raise InputError(f"encoder {self.encoder.name} is made for {self.encoder.nodes} processors; the logs have {sizes}")
        self.reward = rewards.resolve(reward)
        box = spaces.Box(*self.encoder.bounds, self.encoder.shape, np.float32)
        self._set_up(num_envs, threads, copy, dict_obs, render_mode, box, self.encoder.window)
        longest, E = self.episodes.longest, num_envs
        machine = pool(self.episodes.processors)
        self._state = allocate([_rows(logs[0], longest)] * E, machine, single_events=self.act.single_events)
        self._choices = self.act.allocate(self._state, self.encoder.window, bound_s)
        self._obs, self._work = self.encoder.buffers(E)
        self._asked, self._begun, self.mask = np.full(E, REFILL), np.zeros(E, np.int8), self._choices.mask
        self.steps_in_stream = self.episodes.jobs if self.episodes.stream else None
        jobs, truth = np.concatenate([w.jobs for w in logs]), np.concatenate([w.truth for w in logs])
        self._plan = Plan(jobs, truth, np.zeros((E, longest), np.int32), np.zeros((E, longest)), np.zeros(E, plan_dtype))
        self._base = [0, *np.cumsum([len(w) for w in logs]).tolist()]
        self._processors = [w.cluster.processors for w in logs]
        self._offset = np.concatenate([w.offset + w.jobs["submit"] for w in logs])
        self._slot = np.arange(self.encoder.window)

    # ------------------------------------------------------------------ what the present choice is

    @property
    def counts(self) -> np.ndarray:
        """[E] jobs in each window: actions 0 .. counts - 1 are valid. A view that changes with every step."""
        return self._choices.moment["count"]

    @property
    def slots(self) -> np.ndarray:
        """[E, W] the job rows (within the episode) that the slots speak of; -1 beyond them."""
        rows = np.take_along_axis(self._choices.queue["row"], self._choices.slots, axis=1)
        return np.where(self._slot < self.counts[:, None], rows, -1)

    @property
    def intervals(self) -> np.ndarray:
        """[E] of `interval_dtype`: what rewards are made of."""
        return self._choices.report

    # ------------------------------------------------------------------ episodes

    def _draw(self, e: int) -> None:
        """Plan the next episode of simulation e."""
        rng, p = self._rngs[e], self._plan
        log, first, count = self.episodes.draw(rng)
        w = self.episodes.logs[log]
        factor = self.episodes.factor(rng)
        begin = self._base[log]
        if self.episodes.shake_s:
            rows, p.submit[e, :count] = self.episodes.shaken(w, first, count, factor, rng)
            p.row[e, :count] = rows + begin
        given = -1 if self.episodes.shake_s else begin + first
        p.next[e] = (count, self._processors[log], self._offset[begin + first], given, factor)

    def _begin(self, e: int) -> None:
        """Begin the planned episode of simulation e, or the first after it that has a choice to make; plan another."""
        for _ in range(TRIES):
            more = go(self._state, self._choices, self._plan, self._asked, self._begun, STARTED, False, e, e + 1)
            self._draw(e)
            if more:
                self._steps[e] = 0
                self._encode(e, e + 1)
                return
        name = self.episodes.logs[0].name
        raise InputError(f"{name}: {TRIES} episodes without a single choice to make; take more jobs or a higher load")

    def _seeded(self, e: int) -> None:
        self._draw(e)

    def _again(self, which: np.ndarray) -> None:
        for e in which:
            self._draw(e)
            if self._over[e] == 2:
                self._begin(e)

    def _blank_mask(self) -> np.ndarray:
        return (self._slot == 0).astype(np.int8)

    def _encode(self, first: int, last: int) -> None:
        self.encoder.encode(self._state, self._choices, self._obs, self._work, first, last)

    def _reward(self) -> np.ndarray:
        if self.episodes.stream:  # a stream is as long as its segments
            self.intervals["jobs"] = self.episodes.jobs
        return self.reward(self.intervals)

    def _forget(self, cut: np.ndarray) -> None:
        """A stream was cut: what is told of the next segment begins at 0."""
        for key in ("total", "started", "longest", "all_waited"):
            self._choices.interval[key][cut] = 0.0

    # ------------------------------------------------------------------ the same for a learner's own loop

    def _some(self, actions: np.ndarray, again: bool, first: int, last: int) -> None:
        go(self._state, self._choices, self._plan, actions, self._over, STARTED, again, first, last)
        self._encode(first, last)

    def picture(self, e: int) -> np.ndarray:
        """[height, width, 3] uint8: the processors that jobs hold over time, up to the last estimated end, and what waits."""
        return machine(self._state, e)

    def render(self) -> tuple[np.ndarray, ...] | None:
        """A picture of every simulation, where `render_mode` is "rgb_array"."""
        return tuple(self.picture(e) for e in range(self.num_envs)) if self.render_mode == "rgb_array" else None

    def _arrays(self) -> dict[str, np.ndarray]:
        s, c, p = self._state, self._choices, self._plan
        found = {f"state_{k}": getattr(s, k) for k in ("sims", "jobs", "truth", "lists", "nodes")}
        found |= {f"choices_{k}": getattr(c, k) for k in ("moment", "queue", "interval", "report", "mask", "slots")}
        found |= {f"running_{k}": v for k, v in c.running._asdict().items()}
        found |= {f"plan_{k}": getattr(p, k) for k in ("row", "submit", "next")}
        return found | {"obs": self._obs, "work": self._work, "over": self._over, "steps": self._steps}


def _rows(w: Workload, count: int) -> Workload:
    """`count` times the first job: makes `allocate` leave room for so many."""
    return replace(w, jobs=np.repeat(w.jobs[:1], count), truth=np.repeat(w.truth[:1], count), columns={})


class BatchEnv(Single):
    """One simulation: a batch of one. Settings as `BatchVectorEnv`; `render_mode="rgb_array"` has pictures."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 12}
    batch = BatchVectorEnv

    def render(self) -> np.ndarray | None:
        """[height, width, 3] uint8: the machine over time, and the queue now."""
        return self._envs.picture(0) if self.render_mode == "rgb_array" else None

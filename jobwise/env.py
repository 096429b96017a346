"""Environments: the scheduler's loop turned inside out, for Gymnasium and for our own learners.

    state     jobs waiting, jobs running, what is free: what the encoder shows of it (`encoder`)
    action    which job of the window is next (`act`: pick, reserve, commit; see `jobwise.actions`)
    reward    a function of what happened until the next choice (`reward`; see `jobwise.rewards`)
    end       every job of the episode has started (`stream`: cut after so many choices)
    source    log windows after RLScheduler (SC'20) and DRAS (IPDPS'21)

`envs = gymnasium.make_vec("jobwise/Batch-v0", num_envs=256, workload=w)` steps 256 simulations in one call of a kernel;
`gymnasium.make("jobwise/Batch-v0", workload=w)` is a batch of one. Simulation e of a batch seeded with k is the single
environment seeded with k + e, to the bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from queue import SimpleQueue
from threading import Thread

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from jobwise import rewards
from jobwise.actions import Act
from jobwise.cluster import pool
from jobwise.encoders import Encoder, make
from jobwise.episodes import Episodes
from jobwise.errors import InputError
from jobwise.jobs import Workload
from jobwise.sim.choosing import REFILL, STARTED, go
from jobwise.sim.filling import Plan, plan_dtype
from jobwise.sim.state import allocate

TRIES = 1000  # windows without a choice before we give up
ALONE = 64  # simulations per thread below which a second thread costs more than it brings
HANDOVER = 32  # simulations that the first thread does in the time in which another wakes up


class BatchVectorEnv(VectorEnv):
    """E simulations side by side; see the module for state, action, reward and end.

    Observations float32 [E, rows, features]; actions [E], slots of the window; rewards float64 [E];
    `info["action_mask"]` int8 [E, W], 1 for the slots that show a job: always the first so many, never none. An action
    beyond them counts from the first again, one below 0 as 0. `dict_obs`: observations are {"observation", "action_mask"}.
    Settings: `workload` (one or several logs), `act` and `backfill` or an `Act`, `encoder` (a name or an Encoder), `window`,
    `reward`, `jobs`, `stream`, `loads`, `shake_s` (see `Episodes`), `bound_s` (of the reward `bounded_wait`), `threads`.
    `copy`: False returns the buffer itself, valid until the next step. Raises InputError.
    """

    metadata = {"render_modes": [], "autoreset_mode": AutoresetMode.SAME_STEP}
    autoreset_mode = AutoresetMode.SAME_STEP

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
    ):
        if workload is None:
            raise InputError("an environment needs a workload: jobwise.read_swf('log.swf.gz'), or several")
        if isinstance(workload, Episodes):
            self.episodes = workload
        else:
            logs = [workload] if isinstance(workload, Workload) else list(workload)
            self.episodes = Episodes(logs, jobs, stream, tuple(loads), shake_s)
        if num_envs < 1 or threads < 1:
            raise InputError(f"num_envs and threads are at least 1, not {num_envs} and {threads}")
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
        self.num_envs, self.copy, self.dict_obs, self.render_mode = num_envs, copy, dict_obs, render_mode
        longest, E = self.episodes.longest, num_envs
        machine = pool(self.episodes.processors)
        self._state = allocate([_rows(logs[0], longest)] * E, machine, single_events=self.act.single_events)
        self._choices = self.act.allocate(self._state, self.encoder.window, bound_s)
        self._obs, self._work = self.encoder.buffers(E)
        self._over, self._steps = np.zeros(E, np.int8), np.zeros(E, np.int64)
        self._actions, self._asked, self._begun = np.zeros(E, np.int64), np.full(E, REFILL), np.zeros(E, np.int8)
        jobs, truth = np.concatenate([w.jobs for w in logs]), np.concatenate([w.truth for w in logs])
        self._plan = Plan(jobs, truth, np.zeros((E, longest), np.int32), np.zeros((E, longest)), np.zeros(E, plan_dtype))
        self._base = [0, *np.cumsum([len(w) for w in logs]).tolist()]
        self._processors = [w.cluster.processors for w in logs]
        self._offset = np.concatenate([w.offset + w.jobs["submit"] for w in logs])
        self._slot = np.arange(self.encoder.window)
        self._none = np.zeros(self.encoder.shape, np.float32)
        self._rngs = [np.random.default_rng() for _ in range(num_envs)]
        self._ready = False
        parts = min(threads, max(num_envs // ALONE, 1))
        own = min(num_envs // parts + HANDOVER, num_envs) if parts > 1 else num_envs
        cut = np.append(0, np.linspace(own, num_envs, parts).astype(int))
        self._parts = list(zip(cut[:-1].tolist(), cut[1:].tolist(), strict=True))
        self._workers = [_Worker(self._some) for _ in self._parts[1:]]
        box = spaces.Box(*self.encoder.bounds, self.encoder.shape, np.float32)
        mask = spaces.Box(0, 1, (self.encoder.window,), np.int8)
        self.single_observation_space = spaces.Dict({"observation": box, "action_mask": mask}) if dict_obs else box
        self.single_action_space = spaces.Discrete(self.encoder.window)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)

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

    def action_masks(self) -> np.ndarray:
        """[E, W] bool, as sb3-contrib's MaskablePPO asks for them."""
        return self._choices.mask.astype(bool)

    def _info(self) -> dict:
        return {"action_mask": self._choices.mask.copy() if self.copy else self._choices.mask}

    def _observation(self):
        obs = self._obs.copy() if self.copy else self._obs
        return {"observation": obs, "action_mask": self._info()["action_mask"]} if self.dict_obs else obs

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

    def _encode(self, first: int, last: int) -> None:
        self.encoder.encode(self._state, self._choices, self._obs, self._work, first, last)

    def reset(self, *, seed: int | Sequence[int | None] | None = None, options: dict | None = None):
        """Begin anew; `seed` k seeds simulation e with k + e. `options={"reset_mask": [E] bool}` resets some alone."""
        which = np.ones(self.num_envs, bool)
        if options and "reset_mask" in options:
            which = np.asarray(options["reset_mask"], bool)
            if which.shape != (self.num_envs,) or not which.any() or not self._ready:
                raise InputError("reset_mask is [num_envs] bool, some of it True, after a first whole reset")
        seeds = [None] * self.num_envs
        if seed is not None:
            seeds = [int(seed) + e for e in range(self.num_envs)] if np.ndim(seed) == 0 else list(seed)
            if len(seeds) != self.num_envs or any(x is not None and not 0 <= x < 2**64 for x in seeds):
                raise InputError(f"seeds are {self.num_envs} whole numbers >= 0, or one, not {seed!r}")
        for e in np.flatnonzero(which):
            if seeds[e] is not None:
                self._rngs[e] = np.random.default_rng(seeds[e])
            if seeds[e] is not None or not self._ready:
                self._draw(e)
            self._begin(e)
        self._ready = True
        return self._observation(), self._info()

    def step(self, actions):
        """One choice in every simulation. Ended ones begin anew at once; `final_obs` and `final_info` tell of their end.

        The final observation of an episode that is over is zero; of a stream that is cut it is the present one.
        """
        over = self.choose(actions, again=True)
        terminated, truncated, reward, info = over > 0, np.zeros(self.num_envs, bool), self._reward(), self._info()
        ended = terminated
        if self.episodes.stream:
            truncated = (self._steps >= self.episodes.jobs) & ~terminated
            ended = terminated | truncated
            self._steps[ended] = 0
        which = ended.nonzero()[0]
        if len(which):
            final = np.empty(self.num_envs, object)
            for e in which:
                final[e] = self._one(e) if truncated[e] else self._blank()
            info |= {"final_obs": final, "_final_obs": ended, "final_info": self._ends(which), "_final_info": ended}
            if self.episodes.stream:
                self._forget(truncated)
        return self._observation(), reward, terminated, truncated, info

    def _reward(self) -> np.ndarray:
        if self.episodes.stream:  # a stream is as long as its segments
            self.intervals["jobs"] = self.episodes.jobs
        return self.reward(self.intervals)

    def _forget(self, cut: np.ndarray) -> None:
        """A stream was cut: what is told of the next segment begins at 0."""
        for key in ("total", "started", "longest", "all_waited"):
            self._choices.interval[key][cut] = 0.0

    def _one(self, e: int):
        obs = self._obs[e].copy()
        return {"observation": obs, "action_mask": self._choices.mask[e].copy()} if self.dict_obs else obs

    def _blank(self):
        mask = (self._slot == 0).astype(np.int8)
        return {"observation": self._none, "action_mask": mask} if self.dict_obs else self._none

    def _ends(self, which: np.ndarray) -> dict:
        """What became of the episodes `which`, which ended, as vector infos have it."""
        z, found = self.intervals[which], {}
        ended = np.zeros(self.num_envs, bool)
        ended[which] = True
        jobs = np.maximum(z["started"], 1)
        for key, value in (
            ("bounded_slowdown", z["total"] / jobs),
            ("wait", z["all_waited"] / jobs),
            ("max_wait", z["longest"]),
            ("jobs", z["started"]),
        ):
            found[key], found[f"_{key}"] = np.zeros(self.num_envs), ended
            found[key][which] = value
        return found

    # ------------------------------------------------------------------ the same for a learner's own loop

    def choose(self, actions: np.ndarray, again: bool = False) -> np.ndarray:
        """Carry out the actions [E] and go on; [E] int8, not 0 where an episode is over. The observation is encoded too.

        `again`: ended simulations begin anew at once; else they must be begun with `restart`.
        """
        if not self._ready:
            raise InputError("reset the environment before the first step")
        actions = np.asarray(actions)
        if actions.shape != (self.num_envs,) or actions.dtype.kind not in "iu":
            raise InputError(f"actions are {self.num_envs} whole numbers, got {actions.dtype} of shape {actions.shape}")
        asked = np.maximum(actions, 0, out=self._actions, casting="unsafe")
        for worker, part in zip(self._workers, self._parts[1:], strict=True):
            worker.begin(asked, again, *part)
        self._some(asked, again, *self._parts[0])
        for worker in self._workers:
            worker.end()
        self._steps += 1
        if again:
            for e in self._over.nonzero()[0]:
                self._draw(e)
                if self._over[e] == 2:
                    self._begin(e)
        return self._over

    def _some(self, actions: np.ndarray, again: bool, first: int, last: int) -> None:
        go(self._state, self._choices, self._plan, actions, self._over, STARTED, again, first, last)
        self._encode(first, last)

    def restart(self, which: np.ndarray) -> None:
        """Begin the simulations where `which` [E] is true anew, and encode them."""
        for e in np.flatnonzero(which):
            self._begin(e)

    def _arrays(self) -> dict[str, np.ndarray]:
        s, c, p = self._state, self._choices, self._plan
        found = {f"state_{k}": getattr(s, k) for k in ("sims", "jobs", "truth", "lists", "nodes")}
        found |= {f"choices_{k}": getattr(c, k) for k in ("moment", "queue", "interval", "report", "mask", "slots")}
        found |= {f"running_{k}": v for k, v in c.running._asdict().items()}
        found |= {f"plan_{k}": getattr(p, k) for k in ("row", "submit", "next")}
        return found | {"obs": self._obs, "work": self._work, "over": self._over, "steps": self._steps}

    def snapshot(self) -> dict:
        """All there is to go on from, as arrays and plain values."""
        return {
            "arrays": {k: v.copy() for k, v in self._arrays().items()},
            "random": [r.bit_generator.state for r in self._rngs],
        }

    def restore(self, snapshot: dict) -> None:
        """Stand where a snapshot of an equal environment was taken."""
        for key, array in self._arrays().items():
            array.reshape(-1).view(np.uint8)[:] = np.ascontiguousarray(snapshot["arrays"][key]).reshape(-1).view(np.uint8)
        for rng, state in zip(self._rngs, snapshot["random"], strict=True):
            rng.bit_generator.state = state
        self._ready = True

    def show(self) -> np.ndarray:
        """The observation buffer [E, rows, features] itself."""
        return self._obs

    def close_extras(self, **kwargs):
        """Stop the workers."""
        for worker in self._workers:
            worker.stop()


class _Worker:
    """A thread that does one thing again and again: handing over takes a tenth of what an executor takes."""

    def __init__(self, work):
        self._work, self._asked, self._done = work, SimpleQueue(), SimpleQueue()
        Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        while (arguments := self._asked.get()) is not None:
            try:
                self._work(*arguments)
                self._done.put(None)
            except BaseException as error:  # it is raised where the result is asked for
                self._done.put(error)

    def begin(self, *arguments) -> None:
        self._asked.put(arguments)

    def end(self) -> None:
        if (error := self._done.get()) is not None:
            raise error

    def stop(self) -> None:
        self._asked.put(None)


def _rows(w: Workload, count: int) -> Workload:
    """`count` times the first job: makes `allocate` leave room for so many."""
    return replace(w, jobs=np.repeat(w.jobs[:1], count), truth=np.repeat(w.truth[:1], count), columns={})


class BatchEnv(gymnasium.Env):
    """One simulation: a batch of one. Settings as `BatchVectorEnv`."""

    metadata = {"render_modes": []}

    def __init__(self, workload=None, render_mode: str | None = None, **settings):
        self._envs = BatchVectorEnv(1, workload, **settings)
        self.observation_space = self._envs.single_observation_space
        self.action_space = self._envs.single_action_space
        self.render_mode, self._cut = render_mode, False

    def action_masks(self) -> np.ndarray:
        """[W] bool, as sb3-contrib's MaskablePPO asks for it."""
        return self._envs.action_masks()[0]

    def _one(self, obs):
        return {k: v[0] for k, v in obs.items()} if isinstance(obs, dict) else obs[0]

    def reset(self, *, seed: int | None = None, options: dict | None = None):
        """Begin an episode; a stream that was cut goes on, unless there is a seed."""
        super().reset(seed=seed)
        if self._cut and seed is None:
            self._envs._forget(np.ones(1, bool))
            obs, info = self._envs._observation(), self._envs._info()
        else:
            obs, info = self._envs.reset(seed=seed)
        self._cut = False
        return self._one(obs), {"action_mask": info["action_mask"][0]}

    def step(self, action):
        """Choose the job in slot `action`."""
        e = self._envs
        over = bool(e.choose(np.array([action], np.int64))[0])
        cut = e.episodes.stream and not over and bool(e._steps[0] % e.episodes.jobs == 0)
        self._cut = cut
        reward, info = float(e._reward()[0]), {"action_mask": e._info()["action_mask"][0]}
        if over or cut:
            info |= {k: float(v[0]) for k, v in e._ends(np.zeros(1, int)).items() if k[0] != "_"}
        obs = e._blank() if over else self._one(e._observation())
        return obs, reward, over, cut, info

    def close(self):
        """Nothing to close."""
        self._envs.close()

"""What batched environments have in common: threads, seeds, steps, episodes that begin anew, snapshots.

An environment says what a mask, an observation and an interval are, how simulation e begins (`_begin`), how some of them go on
(`_some`), and what was done for those that ended (`_again`).
"""

from __future__ import annotations

from collections.abc import Sequence
from queue import SimpleQueue
from threading import Thread

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from jobwise.errors import InputError, unknown

ALONE = 64  # simulations per thread below which a second thread costs more than it brings
HANDOVER = 32  # simulations that the first thread does in the time in which another wakes up
MEANS = ("total", "all_waited")  # sums over the jobs of an episode


class Batched(VectorEnv):
    """E simulations side by side. Observations float32 [E, ...]; actions [E]; rewards float64 [E]; see `env` and `grid`."""

    metadata = {"render_modes": [], "autoreset_mode": AutoresetMode.SAME_STEP}
    autoreset_mode = AutoresetMode.SAME_STEP
    mask: np.ndarray  # [E, A] int8: the actions that are valid, one at least
    intervals: np.ndarray  # [E] what happened since the last choice, and in the episode
    masks: np.ndarray | None = None  # the same, where valid actions are not just the first ones
    ends = {"bounded_slowdown": "total", "wait": "all_waited", "max_wait": "longest", "jobs": "started"}  # name: of an interval
    steps_in_stream = None  # choices after which a stream is cut

    def _set_up(self, num_envs: int, threads: int, copy: bool, dict_obs: bool, render_mode: str | None, box, actions: int):
        if render_mode is not None and render_mode not in self.metadata["render_modes"]:
            raise unknown("render mode", render_mode, self.metadata["render_modes"])
        if num_envs < 1 or threads < 1:
            raise InputError(f"num_envs and threads are at least 1, not {num_envs} and {threads}")
        self.num_envs, self.copy, self.dict_obs, self.render_mode = num_envs, copy, dict_obs, render_mode
        self._over, self._steps = np.zeros(num_envs, np.int8), np.zeros(num_envs, np.int64)
        self._actions = np.zeros(num_envs, np.int64)
        self._none = np.zeros(box.shape, np.float32)
        self._rngs = [np.random.default_rng() for _ in range(num_envs)]
        self._ready = False
        parts = min(threads, max(num_envs // ALONE, 1))
        own = min(num_envs // parts + HANDOVER, num_envs) if parts > 1 else num_envs
        cut = np.append(0, np.linspace(own, num_envs, parts).astype(int))
        self._parts = list(zip(cut[:-1].tolist(), cut[1:].tolist(), strict=True))
        self._workers = [_Worker(self._some) for _ in self._parts[1:]]
        mask = spaces.Box(0, 1, (actions,), np.int8)
        self.single_observation_space = spaces.Dict({"observation": box, "action_mask": mask}) if dict_obs else box
        self.single_action_space = spaces.Discrete(actions)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)

    # ------------------------------------------------------------------ what an environment says

    def _begin(self, e: int) -> None:
        """Begin the next episode of simulation e, and encode it."""
        raise NotImplementedError

    def _seeded(self, e: int) -> None:
        """Simulation e has new random numbers."""

    def _some(self, actions: np.ndarray, again: bool, first: int, last: int) -> None:
        """Do actions first .. last - 1, and encode."""
        raise NotImplementedError

    def _again(self, which: np.ndarray) -> None:
        """The episodes `which` are over and others are to begin."""
        raise NotImplementedError

    def _reward(self) -> np.ndarray:
        return self.reward(self.intervals)

    def _forget(self, cut: np.ndarray) -> None:
        """A stream was cut."""

    def action_masks(self) -> np.ndarray:
        """[E, W] bool, as sb3-contrib's MaskablePPO asks for them."""
        return self.mask.astype(bool)

    def _info(self) -> dict:
        return {"action_mask": self.mask.copy() if self.copy else self.mask}

    def _observation(self):
        obs = self._obs.copy() if self.copy else self._obs
        return {"observation": obs, "action_mask": self._info()["action_mask"]} if self.dict_obs else obs

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
                self._seeded(e)
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
        if self.steps_in_stream:
            truncated = (self._steps >= self.steps_in_stream) & ~terminated
            ended = terminated | truncated
            self._steps[ended] = 0
        which = ended.nonzero()[0]
        if len(which):
            final = np.empty(self.num_envs, object)
            for e in which:
                final[e] = self._one(e) if truncated[e] else self._blank()
            info |= {"final_obs": final, "_final_obs": ended, "final_info": self._ends(which), "_final_info": ended}
            if self.steps_in_stream:
                self._forget(truncated)
        return self._observation(), reward, terminated, truncated, info

    def _one(self, e: int):
        obs = self._obs[e].copy()
        return {"observation": obs, "action_mask": self.mask[e].copy()} if self.dict_obs else obs

    def _blank(self):
        mask = self._blank_mask()
        return {"observation": self._none, "action_mask": mask} if self.dict_obs else self._none

    def _ends(self, which: np.ndarray) -> dict:
        """What became of the episodes `which`, which ended, as vector infos have it."""
        z, found = self.intervals[which], {}
        ended = np.zeros(self.num_envs, bool)
        ended[which] = True
        jobs = np.maximum(z["started"], 1)
        for key, name in self.ends.items():
            found[key], found[f"_{key}"] = np.zeros(self.num_envs), ended
            found[key][which] = z[name] / jobs if name in MEANS else z[name]
        return found

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
            self._again(self._over.nonzero()[0])
        return self._over

    def restart(self, which: np.ndarray) -> None:
        """Begin the simulations where `which` [E] is true anew, and encode them."""
        for e in np.flatnonzero(which):
            self._begin(e)

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


class Single(gymnasium.Env):
    """A batch of one as an environment; `batch` is the class of the batch."""

    metadata = {"render_modes": []}
    batch: type[Batched]

    def __init__(self, workload=None, render_mode: str | None = None, **settings):
        if render_mode is not None and render_mode not in self.metadata["render_modes"]:
            raise unknown("render mode", render_mode, self.metadata["render_modes"])
        self._envs = self.batch(1, workload, **settings)
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
        """Do `action`."""
        e = self._envs
        over = bool(e.choose(np.array([action], np.int64))[0])
        cut = bool(e.steps_in_stream) and not over and bool(e._steps[0] % (e.steps_in_stream or 1) == 0)
        self._cut = cut
        reward, info = float(e._reward()[0]), {"action_mask": e._info()["action_mask"][0]}
        if over or cut:
            info |= {k: float(v[0]) for k, v in e._ends(np.zeros(1, int)).items() if k[0] != "_"}
        obs = e._blank() if over else self._one(e._observation())
        return obs, reward, over, cut, info

    def close(self):
        """Nothing to close."""
        self._envs.close()

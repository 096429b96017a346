"""Environments over a world: `VectorEnv(world, encoder, reward)` for Gymnasium and for our own learners.

Simulation e of a batch seeded with k is the single environment seeded with k + e, to the bit. Large batches are stepped by
several threads, for kernels run without the GIL.
"""

from __future__ import annotations

from collections.abc import Sequence
from queue import SimpleQueue
from threading import Thread
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space

from jobwise.errors import InputError, failed, raised_in, unknown
from jobwise.sim.state import from_older
from jobwise.workload import Workload
from jobwise.worlds import EpisodeWorld
from jobwise.worlds.rewards import Reward

ALONE = 64  # simulations per thread below which a second thread costs more than it brings
HANDOVER = 32  # simulations that the first thread does in the time in which another wakes up
MEANS = ("total", "all_waited")  # sums over the jobs of an episode


class VectorEnv(gymnasium.vector.VectorEnv):
    """E simulations of a world side by side. Observations float32 [E, ...]; actions [E]; rewards float64 [E];
    `info["action_mask"]` int8 [E, A], never all 0.

    `reward`: a function of the transitions [E]. `dict_obs`: observations are {"observation", "action_mask"}. `copy`: False
    returns the buffer itself, valid until the next step. Raises InputError.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 12, "autoreset_mode": AutoresetMode.SAME_STEP}
    world: Any
    workloads: Sequence[Workload]
    autoreset_mode = AutoresetMode.SAME_STEP

    def __init__(
        self,
        world: EpisodeWorld,
        encoder,
        reward: Reward,
        *,
        dict_obs: bool = False,
        copy: bool = True,
        threads: int = 2,
        render_mode: str | None = None,
    ):
        if render_mode is not None and render_mode not in self.metadata["render_modes"]:
            raise unknown("render mode", render_mode, self.metadata["render_modes"])
        if threads < 1:
            raise InputError(f"threads are at least 1, not {threads}")
        self.world, self.encoder, self.reward = world, encoder, reward
        self.num_envs, self.copy, self.dict_obs, self.render_mode = len(world.done), copy, dict_obs, render_mode
        E, box = self.num_envs, spaces.Box(encoder.bounds[0], encoder.bounds[1], encoder.shape, np.float32)
        self._obs, self._steps = np.zeros((E, *box.shape), np.float32), np.zeros(E, np.int64)
        self._actions = np.zeros((E, *world.action_shape), np.int64)
        self._none = np.zeros(box.shape, np.float32)
        self._rngs = [np.random.default_rng() for _ in range(E)]
        self._ready = False
        world.encode(encoder, self._obs, 0, 0)  # nothing, but the world has room now for what the encoder remembers
        parts = min(threads, max(E // ALONE, 1))
        own = min(E // parts + HANDOVER, E) if parts > 1 else E
        cut = np.append(0, np.linspace(own, E, parts).astype(int))
        self._parts = list(zip(cut[:-1].tolist(), cut[1:].tolist(), strict=True))
        self._workers = [_Worker(self._some) for _ in self._parts[1:]]
        shape, several = (*world.action_shape, world.actions), np.full(world.action_shape, world.actions)
        mask = spaces.Box(0, 1, shape, np.int8)
        self.single_observation_space = spaces.Dict({"observation": box, "action_mask": mask}) if dict_obs else box
        self.single_action_space = spaces.MultiDiscrete(several) if world.action_shape else spaces.Discrete(world.actions)
        self.observation_space = batch_space(self.single_observation_space, E)
        self.action_space = batch_space(self.single_action_space, E)

    @property
    def mask(self) -> np.ndarray:
        """[E, A] int8: the actions that are valid, one at least."""
        return self.world.mask

    @property
    def action_shape(self) -> tuple[int, ...]:
        """The shape of the action of one simulation: (), or (M,) where it has parts."""
        return self.world.action_shape

    @property
    def masks(self) -> np.ndarray | None:
        """The mask where valid actions are not just the first ones, else None."""
        return self.world.masks

    @property
    def counts(self) -> np.ndarray:
        """[E] how many actions are valid."""
        return self.world.counts

    @property
    def intervals(self) -> np.ndarray:
        """[E] the transitions: what happened since the last choice, and in the episode."""
        return self.world.transition

    def _some(self, actions: np.ndarray, again: bool, first: int, last: int) -> None:
        self.world.step(actions, again, first, last)
        self.world.encode(self.encoder, self._obs, first, last)

    def _begin(self, e: int, seeded: bool = False) -> None:
        self.world.reset(e, self._rngs[e], seeded)
        self._steps[e] = 0
        self.world.encode(self.encoder, self._obs, e, e + 1)

    def action_masks(self) -> np.ndarray:
        """[E, W] bool, as sb3-contrib's MaskablePPO asks for them; where an action has parts, part after part."""
        return self.mask.astype(bool).reshape(self.num_envs, -1)

    def _info(self) -> dict:
        return {"action_mask": self.mask.copy() if self.copy else self.mask}

    def _observation(self):
        obs = self._obs.copy() if self.copy else self._obs
        return {"observation": obs, "action_mask": self._info()["action_mask"]} if self.dict_obs else obs

    def reset(self, *, seed: int | Sequence[int | None] | None = None, options: dict | None = None):
        """Begin again; `seed` k seeds simulation e with k + e. `options={"reset_mask": [E] bool}` resets some alone."""
        which = np.ones(self.num_envs, bool)
        if options and "reset_mask" in options:
            which = np.asarray(options["reset_mask"], bool)
            if which.shape != (self.num_envs,) or not which.any() or not self._ready:
                raise InputError("reset_mask is [num_envs] bool, some of it True, after a first whole reset")
        seeds: list[int | None] = [None] * self.num_envs
        if seed is not None:
            seeds = list(seed) if isinstance(seed, Sequence | np.ndarray) else [int(seed) + e for e in range(self.num_envs)]
            if len(seeds) != self.num_envs or any(x is not None and not 0 <= x < 2**64 for x in seeds):
                raise InputError(f"seeds are {self.num_envs} whole numbers >= 0, or one, not {seed!r}")
        for e in np.flatnonzero(which).tolist():
            if seeds[e] is not None:
                self._rngs[e] = np.random.default_rng(seeds[e])
            self._begin(e, seeds[e] is not None or not self._ready)
        self._ready = True
        return self._observation(), self._info()

    def step(self, actions):
        """One choice in every simulation. Ended ones begin again at once; `final_obs` and `final_info` tell of their end.

        The final observation of an episode that is over is zero; of a stream that is cut it is the present one.
        """
        over = self.choose(actions, again=True)
        terminated, truncated, reward, info = over > 0, np.zeros(self.num_envs, bool), self.rewards(), self._info()
        ended = terminated
        if self.world.steps_in_stream:
            truncated = (self._steps >= self.world.steps_in_stream) & ~terminated
            ended = terminated | truncated
            self._steps[ended] = 0
        which = ended.nonzero()[0]
        if len(which):
            final = np.empty(self.num_envs, object)
            for e in which:
                final[e] = self._one(e) if truncated[e] else self._blank()
            info |= {"final_obs": final, "_final_obs": ended, "final_info": self._ends(which), "_final_info": ended}
            if self.world.steps_in_stream:
                self.world.forget(truncated)
        return self._observation(), reward, terminated, truncated, info

    def rewards(self) -> np.ndarray:
        """[E] the rewards of the last choices. Raises InputError where the reward function returned something else."""
        try:
            values = np.asarray(self.reward(self.intervals))
        except (ValueError, KeyError, TypeError, AttributeError, IndexError, ZeroDivisionError) as error:
            why = failed(error, self.intervals.dtype.names or (), "transitions")
            raise InputError(f"{raised_in(error, self.reward)}the reward failed: {why}") from error
        if values.shape != (self.num_envs,) or values.dtype.kind not in "fiu":
            got = f"{values.dtype} of shape {values.shape}"
            raise InputError(
                f"the reward function returned {got}; a number for each simulation is expected: ({self.num_envs},)"
            )
        if not np.isfinite(values).all():
            raise InputError(f"the reward function returned {values[~np.isfinite(values)][0]}, which is no finite number")
        return values

    def _one(self, e: int):
        obs = self._obs[e].copy()
        return {"observation": obs, "action_mask": self.mask[e].copy()} if self.dict_obs else obs

    def _blank(self):
        mask = self.world.blank_mask()
        return {"observation": self._none, "action_mask": mask} if self.dict_obs else self._none

    def _ends(self, which: np.ndarray) -> dict:
        """Return the results of the ended episodes `which`, in the form of vector infos."""
        z, results = self.intervals[which], {}
        ended = np.zeros(self.num_envs, bool)
        ended[which] = True
        jobs = np.maximum(z["started"], 1)
        for key, name in self.world.ends.items():
            results[key], results[f"_{key}"] = np.zeros(self.num_envs), ended
            results[key][which] = z[name] / jobs if name in MEANS else z[name]
        return results

    def choose(self, actions: np.ndarray, again: bool = False) -> np.ndarray:
        """Carry out the actions [E] and go on; [E] int8, not 0 where an episode is over. The observation is encoded too.

        `again`: ended simulations begin again at once; else they must be begun with `restart`.
        """
        if not self._ready:
            raise InputError("reset the environment before the first step")
        actions = np.asarray(actions)
        if actions.shape != self._actions.shape or actions.dtype.kind not in "iu":
            text = f"whole numbers of shape {self._actions.shape}, got {actions.dtype} of shape {actions.shape}"
            raise InputError(f"actions are {text}")
        asked = np.maximum(actions, 0, out=self._actions, casting="unsafe")
        for worker, part in zip(self._workers, self._parts[1:], strict=True):
            worker.begin(asked, again, *part)
        self._some(asked, again, *self._parts[0])
        for worker in self._workers:
            worker.end()
        self._steps += 1
        if again:
            for e in self.world.done.nonzero()[0].tolist():
                if self.world.next_episode(e, self._rngs[e]):
                    self._steps[e] = 0
                    self.world.encode(self.encoder, self._obs, e, e + 1)
        return self.world.done

    def begin(self, which: np.ndarray) -> None:
        """Begin simulation e with the jobset which[e], for all, in a world of jobsets."""
        self.world.begin_with(which)
        self._steps[:], self._ready = 0, True
        self.world.encode(self.encoder, self._obs, 0, self.num_envs)

    def by_rule(self, name: str) -> np.ndarray:
        """[E, ...] the actions of one of the world's rules."""
        return self.world.by_rule(name)

    def restart(self, which: np.ndarray) -> None:
        """Begin the simulations where `which` [E] is true anew, and encode them."""
        for e in np.flatnonzero(which).tolist():
            self._begin(e)

    def _arrays(self) -> dict[str, np.ndarray]:
        return self.world.arrays() | {"obs": self._obs, "steps": self._steps}

    def render(self) -> tuple[np.ndarray, ...] | None:
        """A picture of every simulation, where `render_mode` is "rgb_array"."""
        return tuple(self.world.picture(e) for e in range(self.num_envs)) if self.render_mode == "rgb_array" else None

    def snapshot(self) -> dict:
        """All there is to go on from, as arrays and plain values."""
        return {
            "arrays": {k: v.copy() for k, v in self._arrays().items()},
            "random": [r.bit_generator.state for r in self._rngs],
        }

    def restore(self, snapshot: dict) -> None:
        """Stand where a snapshot of an equal environment was taken."""
        for key, array in self._arrays().items():
            stored = np.ascontiguousarray(snapshot["arrays"][key]).reshape(-1).view(np.uint8)
            stored = stored if stored.size == array.nbytes else from_older(key, stored, array)
            array.reshape(-1).view(np.uint8)[:] = stored
        for rng, state in zip(self._rngs, snapshot["random"], strict=True):
            rng.bit_generator.state = state
        self._ready = True

    def show(self) -> np.ndarray:
        """The observation buffer [E, rows, features] itself."""
        return self._obs

    def close_extras(self, **kwargs):
        """Stop the threads that step simulations."""
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


class SingleEnv(gymnasium.Env):
    """A batch of one as an environment; `batch` is the class of the batch. `render_mode="rgb_array"` has pictures."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 12}
    batch: Any  # the class of the batch

    def __init__(self, workload=None, render_mode: str | None = None, **settings):
        if render_mode is not None and render_mode not in self.metadata["render_modes"]:
            raise unknown("render mode", render_mode, self.metadata["render_modes"])
        self._envs = self.batch(1, workload, **settings)
        self.observation_space = self._envs.single_observation_space
        self.action_space = self._envs.single_action_space
        self.render_mode, self._cut, self._over = render_mode, False, False

    def render(self) -> np.ndarray | None:
        """[height, width, 3] uint8: the simulation as it stands."""
        return self._envs.world.picture(0) if self.render_mode == "rgb_array" else None

    def action_masks(self) -> np.ndarray:
        """[W] bool, as sb3-contrib's MaskablePPO asks for it."""
        return self._envs.action_masks()[0]

    def _one(self, obs):
        return {k: v[0] for k, v in obs.items()} if isinstance(obs, dict) else obs[0]

    def reset(self, *, seed: int | None = None, options: dict | None = None):
        """Begin an episode; a stream that was cut goes on, unless there is a seed."""
        super().reset(seed=seed)
        if self._cut and seed is None:
            self._envs.world.forget(np.ones(1, bool))
            obs, info = self._envs._observation(), self._envs._info()
        else:
            obs, info = self._envs.reset(seed=seed)
        self._cut = self._over = False
        return self._one(obs), {"action_mask": info["action_mask"][0]}

    def step(self, action):
        """Do `action` and go on to the next choice. Raises InputError for what is no action, and once an episode is over."""
        e, action = self._envs, np.asarray(action)
        if action.dtype.kind not in "iu" or action.shape != e.action_shape:
            what = f"a vector of {e.action_shape[0]} whole numbers" if e.action_shape else "a whole number"
            raise InputError(f"an action is {what}, not {action.dtype} of shape {action.shape}")
        if self._over:
            raise InputError("the episode is over: reset the environment before the next step")
        self._over = over = bool(e.choose(action[None])[0])
        cut = bool(e.world.steps_in_stream) and not over and bool(e._steps[0] % (e.world.steps_in_stream or 1) == 0)
        self._cut = cut
        reward, info = float(e.rewards()[0]), {"action_mask": e._info()["action_mask"][0]}
        if over or cut:
            info |= {k: float(v[0]) for k, v in e._ends(np.zeros(1, int)).items() if k[0] != "_"}
        obs = e._blank() if over else self._one(e._observation())
        return obs, reward, over, cut, info

    def close(self):
        """Do nothing: there is nothing to close."""
        self._envs.close()

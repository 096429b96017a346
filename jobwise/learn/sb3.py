"""Stable-Baselines3 on top of a native batch: `StableVecEnv(envs)` is a `VecEnv` for any environment of `jobwise.learn.env`.

One call of a kernel steps all simulations; `DummyVecEnv` with as many single environments steps them one by one in Python.
`MaskablePPO` of sb3-contrib finds the masks in `action_masks`.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import VecEnv

from jobwise.errors import InputError
from jobwise.learn.vector_env import VectorEnv


class StableVecEnv(VecEnv):
    """The simulations of `envs` as Stable-Baselines3 takes them: an ended one begins again at once, and its info tells of its
    end ("terminal_observation", "episode": return, length, seconds)."""

    def __init__(self, envs: VectorEnv):
        self.envs, self.render_mode = envs, envs.render_mode
        super().__init__(envs.num_envs, envs.single_observation_space, envs.single_action_space)
        self._actions: np.ndarray | None = None
        self._returns, self._lengths, self._begun = np.zeros(self.num_envs), np.zeros(self.num_envs, int), time.perf_counter()

    def reset(self) -> Any:
        """Begin all simulations, with the seeds that were given since the last time."""
        seeds = [x for x in self._seeds if x is not None]
        obs, _ = self.envs.reset(seed=self._seeds if len(seeds) == self.num_envs else None)
        self._reset_seeds()
        self._returns[:] = self._lengths[:] = 0
        return obs

    def step_async(self, actions: np.ndarray) -> None:
        """Take note of actions [E]."""
        self._actions = np.asarray(actions)

    def step_wait(self) -> tuple[Any, np.ndarray, np.ndarray, list[dict]]:
        """(observations, rewards [E], which are over [E], infos) after the actions."""
        obs, reward, terminated, truncated, more = self.envs.step(self._actions)
        over = terminated | truncated
        infos: list[dict] = [{} for _ in range(self.num_envs)]
        self._returns += reward
        self._lengths += 1
        for e in np.flatnonzero(over).tolist():
            result = {"r": float(self._returns[e]), "l": int(self._lengths[e]), "t": time.perf_counter() - self._begun}
            infos[e] = {
                "terminal_observation": more["final_obs"][e],
                "TimeLimit.truncated": bool(truncated[e]),
                "episode": result,
            }
        self._returns[over] = self._lengths[over] = 0
        return obs, reward.astype(np.float32), over, infos

    def close(self) -> None:
        """Stop the threads that step simulations."""
        self.envs.close()

    def action_masks(self) -> np.ndarray:
        """[E, A] bool: the valid actions."""
        return self.envs.action_masks()

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """The same attribute of the batch for each simulation. Raises AttributeError."""
        value = self.action_masks if attr_name == "action_masks" else getattr(self.envs, attr_name)
        return [value for _ in self._get_indices(indices)]

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        """Set an attribute of the whole batch. Raises InputError for some simulations alone."""
        if indices is not None:
            raise InputError(f"{attr_name} is of all simulations of a batch; it cannot be set for some of them")
        setattr(self.envs, attr_name, value)

    def env_method(self, method_name: str, *args: Any, indices: Any = None, **kwargs: Any) -> list[Any]:
        """Call a method of the batch that returns a row for each simulation; the rows."""
        rows = getattr(self.envs, method_name)(*args, **kwargs)
        return [rows[e] for e in self._get_indices(indices)]

    def env_is_wrapped(self, wrapper_class: type, indices: Any = None) -> list[bool]:
        """No simulation has a wrapper of its own; returns and lengths of episodes are noted here."""
        return [wrapper_class is Monitor for _ in self._get_indices(indices)]

"""Collecting: an agent chooses, a rollout is what happened. T choices in each of E simulations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch

from jobwise.learn.agent import Agent
from jobwise.learn.losses import chosen
from jobwise.learn.networks import Seen
from jobwise.worlds.rows import taken
from jobwise.worlds.window.perjob import select


@dataclass
class Rollout:
    """The choices of E simulations in T steps. Rows of observation b = t E + e begin at first[b] (per-job encoders)."""

    x: np.ndarray  # [rows, F] or [T E, rows, 2] float32
    first: np.ndarray  # [T E]
    counts: np.ndarray  # [T E]
    actions: np.ndarray  # [T E], or [T E, M] of M parts
    logp: np.ndarray  # [T, E]
    values: np.ndarray  # [T, E], 0 without a critic
    rewards: np.ndarray  # [T, E]
    over: np.ndarray  # [T, E] 1 where the episode ended with the step
    last_values: np.ndarray  # [E]
    there: np.ndarray  # [T, E] 1 where a choice was made (0 behind the end of a whole episode)
    episodes: np.ndarray  # [K] mean bounded slowdown of the episodes that ended
    masks: np.ndarray | None = None  # [T E, A] bool: valid actions, where they are not just the first ones

    def seen(self, which: np.ndarray, ragged: bool, device: torch.device) -> Seen:
        """Return the observations of the choices `which` [B]."""
        counts = self.counts[which]
        if ragged:
            x = np.empty((int(counts.sum()), self.x.shape[1]), np.float32)
            select(self.x, self.first, self.counts, which, x)
        else:
            x = self.x[self.first[which]]
        mask = None if self.masks is None else torch.from_numpy(self.masks[self.first[which]])
        return Seen(torch.from_numpy(x), torch.from_numpy(counts), mask).to(device)


def collect(envs, agent: Agent, steps: int | None) -> Rollout:
    """Choose `steps` times in every simulation of `envs` (a WindowVectorEnv); None: one whole episode each."""
    E, whole, ragged = envs.num_envs, steps is None, agent.ragged
    xs, masks, parts, ended, t = [], [], [], [], 0
    active = np.ones(E, bool)
    while t < steps if steps is not None else active.any():
        counts, mask = envs.counts.copy(), envs.masks
        if whole and not active.all():  # ended simulations have no jobs to look at: let the others alone be looked at
            mask = None if mask is None else mask[active]
            obs, rows = agent.look(np.ascontiguousarray(envs.show()[active]), counts[active], mask)
        else:
            obs, rows = agent.look(envs.show(), counts, mask)
        actions = np.zeros((E, *envs.action_shape), np.int64)
        logp, values = np.zeros(E, np.float32), np.zeros(E, np.float32)
        actions[active], logp[active], values[active] = agent.act(obs)
        xs.append(rows.copy())
        if mask is not None:
            masks.append(cast(Any, obs.mask).cpu().numpy())
        over = envs.choose(actions, again=not whole) > 0
        reward = np.where(active, envs.reward(envs.intervals), 0.0)
        z, new = envs.intervals, over & active
        if new.any():
            ended.append(z["total"][new] / np.maximum(z["started"][new], 1))
        parts.append((counts, actions, logp, values, reward, new, active.copy()))
        if whole:
            active &= ~over
        t += 1
    counts, actions, logp, values, rewards, over, there = (np.array(p) for p in zip(*parts, strict=True))
    last = np.zeros(E)
    if not whole and agent.looks_ahead:
        last = agent.value(agent.look(envs.show(), envs.counts.copy(), envs.masks)[0])
    counts = counts.reshape(-1)
    first = np.concatenate([[0], np.cumsum(counts)[:-1]]) if ragged else np.arange(len(counts))
    if whole and not ragged:
        first = np.cumsum(there.reshape(-1)) - 1
    return Rollout(
        x=np.concatenate(xs),
        first=first,
        counts=counts,
        actions=actions.reshape(-1, *actions.shape[2:]),
        logp=logp,
        values=values,
        rewards=rewards,
        over=over.astype(float),
        last_values=last,
        there=there.astype(float),
        episodes=np.concatenate(ended) if ended else np.zeros(0),
        masks=np.concatenate(masks) if masks else None,
    )


def log_chances(
    agent: Agent, rollout: Rollout, which: np.ndarray, parts: bool = False
) -> tuple[torch.Tensor, torch.Tensor, Seen]:
    """(log probabilities of what was done in the choices `which` [B], or of its `parts` [B, M], of everything [B, W], the
    observations) with the present network."""
    obs = rollout.seen(which, agent.ragged, agent.device)
    every = torch.log_softmax(agent.scores(obs), dim=-1)
    done = torch.from_numpy(rollout.actions[which]).to(agent.device)
    return chosen(every, done, parts), every, obs


def joined(parts: Sequence[Rollout]) -> Rollout:
    """Return the rollouts of several batches of simulations as one. A batch whose whole episodes are shorter than others' is
    filled up with steps in which nothing is there."""
    longest, begins = max(len(r.there) for r in parts), np.cumsum([0, *(len(r.x) for r in parts)])
    wide = ("logp", "values", "rewards", "over", "there")  # [T, E_k]; `flat` are [T E_k, …] each
    flat = [{"first": r.first + at} | taken(r, ("counts", "actions")) for r, at in zip(parts, begins[:-1], strict=True)]
    columns: dict[str, list[np.ndarray]] = {}
    for r, own in zip(parts, flat, strict=True):
        for name, x in (own | taken(r, wide)).items():
            columns.setdefault(name, []).append(_filled(x.reshape(*r.there.shape, *x.shape[1:]) if name in own else x, longest))
    sides = {name: np.concatenate(each, axis=1) for name, each in columns.items()}
    return Rollout(
        **{name: x if name in wide else x.reshape(-1, *x.shape[2:]) for name, x in sides.items()},
        **{name: np.concatenate([taken(r, (name,))[name] for r in parts]) for name in ("x", "last_values", "episodes")},
        masks=None if parts[0].masks is None else np.concatenate([cast(np.ndarray, r.masks) for r in parts]),
    )


def _filled(x: np.ndarray, steps: int) -> np.ndarray:
    """Return x [T, …], padded with zeros at the end to `steps` steps."""
    return np.concatenate([x, np.zeros((steps - len(x), *x.shape[1:]), x.dtype)])

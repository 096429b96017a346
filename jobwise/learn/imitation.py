"""A cold start: a network learns what a rule would choose, before it learns by itself (behaviour cloning)."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from jobwise.learn.agent import Agent
from jobwise.learn.losses import chosen
from jobwise.learn.vector_env import VectorEnv

RATE = 1e-2  # of the optimiser at the begin; it falls to a tenth


def imitate(agent: Agent, envs: VectorEnv, rule: str, updates: int) -> dict[str, float]:
    """Teach the actor to choose as `rule` (an order of the world) does, in states that the rule leads to: one step of the
    optimiser for each choice of all simulations. `agreement`: share of the last tenth in which they chose the same."""
    optimiser, same = torch.optim.Adam(agent.actor.parameters(), lr=RATE), []
    for k in range(updates):
        for group in optimiser.param_groups:
            group["lr"] = RATE * 0.1 ** (k / updates)
        actions = envs.by_rule(rule)
        obs, _ = agent.look(envs.show(), envs.counts.copy(), envs.masks)
        every = torch.log_softmax(agent.scores(obs), dim=-1)
        targets = torch.from_numpy(actions).to(agent.device)
        optimiser.zero_grad(set_to_none=True)
        (-chosen(every, targets).mean()).backward()
        optimiser.step()
        if k >= 0.9 * updates:
            same.append(float((every.argmax(dim=-1) == targets).float().mean()))
        envs.choose(actions, again=True)
    return {"agreement": float(np.mean(same)) if same else 0.0}


def imitate_jobsets(
    envs: Any, agent: Agent, placer: Agent | None, rule: str, epochs: int, l2: float = 1e-3, seed: int = 0
) -> list[float]:
    """Supervised warm start: cross-entropy against what `rule` (RULE[+PLACEMENT]) does, plus l2 times the squared weights
    (DeepRM's `pg_su`); a second module learns the rule's placements.

    `epochs` passes over the choices of the rule in all jobsets; per module the share of them that it makes itself at the end.
    """
    modules = [agent] if placer is None else [agent, placer]
    lessons: list[list[tuple]] = [[] for _ in modules]
    P = 1 if placer is None else len(envs.placements)
    for first in range(0, len(envs.workloads), envs.num_envs):
        envs.begin(np.arange(first, first + envs.num_envs) % len(envs.workloads))
        active = np.arange(first, first + envs.num_envs) < len(envs.workloads)
        while active.any():
            done = envs.by_rule(rule)
            mask = np.concatenate([envs.mask[:, :-1:P], envs.mask[:, -1:]], axis=1) if placer is not None else envs.mask
            lessons[0].append((envs.show()[active], mask[active].astype(bool), (done // P)[active]))
            if placer is not None and (asked := active & (done < envs.void)).any():
                x = envs.show_placing(np.where(asked, done // P, -1))[asked]
                lessons[1].append((x, np.ones((len(x), P), bool), (done % P)[asked]))
            active &= ~(envs.choose(done) > 0)
    fit = zip(modules, lessons, strict=True)
    return [_taught(a, [np.concatenate(part) for part in zip(*x, strict=True)], epochs, l2, seed) for a, x in fit]


def _taught(agent: Agent, lessons: list[np.ndarray], epochs: int, l2: float, seed: int) -> float:
    """Teach a module observations, masks, and the actions to choose; the share of them that it chooses in the last pass."""
    x, mask, actions = lessons
    rng, right, done = np.random.default_rng(seed), 0, torch.from_numpy(actions).to(agent.device)
    agent.actor.train()
    for _ in range(epochs):
        right = 0
        for part in np.array_split(rng.permutation(len(x)), max(len(x) // 256, 1)):
            out = agent.scores(agent.seen(torch.from_numpy(x[part]), mask[part])).flatten(0, -2)
            want = done[part].flatten()
            square = sum((p * p).sum() for p in agent.actor.parameters())
            agent.descend(torch.nn.functional.cross_entropy(out, want) + l2 * square)
            right += int((out.argmax(dim=1) == want).sum())
    return right / done.numel()

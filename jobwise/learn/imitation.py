"""A cold start: a network learns what a rule would choose, before it learns by itself (behaviour cloning)."""

from __future__ import annotations

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

"""REINFORCE, the policy gradient (Williams 1992): `reinforce` on the batch of a rollout, `epoch` on jobsets whose many runs are
each other's baseline (DeepRM, HotNets'16; CuSH's Algorithm 1, DRL4KDD'19): either every worker of `torchrun` steps by the same
summed gradient, or each steps alone and the parameters are averaged now and then."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from jobwise.learn import losses, returns
from jobwise.learn.agent import Agent
from jobwise.learn.collect import Rollout, log_chances
from jobwise.learn.jobsets import Dice, Steps, play, total, workers


def reinforce(agent: Agent, rollout: Rollout) -> dict[str, float]:
    """One step along the policy gradient (Williams 1992).

    Returns count from each step to the end of the batch, as DRAS and SEM do (`baseline` "batch": standardised over it), or
    to the end of the episode, less the mean of the other runs of the same jobs at that step ("time": DeepRM, HotNets'16).
    """
    k, there = agent.settings, rollout.there
    g = returns.discounted(rollout.rewards, k.gamma)
    if k.baseline == "time":
        g = g - returns.time_baseline(g, there.sum(axis=0))[:, None]
    advantage = returns.standardised(g, there).reshape(-1)
    which = np.flatnonzero(there.reshape(-1))
    logp, every, obs = log_chances(agent, rollout, which)
    loss = losses.policy_gradient(logp, agent.tensor(advantage[which]))
    entropy = losses.entropy(every)
    agent.descend(loss - k.entropy * entropy + agent.expected_cost(every, obs))
    return {"loss": loss.item(), "entropy": entropy.item()}


def baseline(g: np.ndarray, jobsets: int, runs: int) -> np.ndarray:
    """Return [T, N] the mean over all runs of a jobset, of all workers, of the returns g [T, N] at each step.

    Runs that are over count with the 0 of their padding, as in DeepRM's code.
    """
    T = int(total(torch.tensor(len(g)), maximum=True))
    mean = np.zeros((T, jobsets))
    mean[: len(g)] = g.reshape(len(g), jobsets, -1).sum(axis=2)
    mean = total(torch.from_numpy(mean)).numpy() / runs
    return np.repeat(mean[: len(g)], g.shape[1] // jobsets, axis=1)


def gather(agent: Agent, steps: Steps, advantage: np.ndarray, weight: float = 0.0) -> float:
    """Add -mean(advantage log pi), less `weight` times the mean entropy of pi, over all workers' choices to the gradients;
    the loss of this worker's share."""
    agent.actor.train()
    B, loss = len(steps.actions), 0.0
    count, parts = float(total(torch.tensor(float(B)))), -(-B // agent.at_once)
    for i in range(parts):
        part = slice(i, None, parts)  # choices of all rows of time: a batch norm sees what it will see
        every = torch.log_softmax(agent.scores(agent.seen(steps.x[part], steps.masks[part])), dim=-1)
        done = torch.from_numpy(np.ascontiguousarray(steps.actions[part])).to(agent.device)
        weighted = agent.tensor(advantage.reshape(-1)[steps.at[part]]) * losses.chosen(every, done)
        part_loss = -weighted.sum() / count
        if weight:
            part_loss = part_loss - weight * losses.entropy(every) * len(done) / count
        if not torch.isfinite(part_loss):
            raise FloatingPointError(f"the loss is {part_loss.item()}")
        part_loss.backward()
        loss += part_loss.item()
    return loss


def epoch(
    envs: Any,
    select: Agent,
    placer: Agent | None,
    groups: list[np.ndarray],
    *,
    runs: int,
    seed: tuple[int, ...],
    gamma: float = 1.0,
    centred: bool = False,
    shared: bool = True,
    entropy: float = 0.0,
) -> dict[str, float]:
    """One step of each module on groups of jobsets (every group as large): their gradients are summed, as in DeepRM.

    `shared`: by the gradient of all workers; else each worker steps by its own, as large as if it were all. `entropy`: what the
    mean entropy of the choices weighs.
    """
    modules = [m for m in (select, placer) if m is not None]
    for m in modules:
        m.optimiser.zero_grad(set_to_none=True)
    loss, slowdowns, begun, choices = 0.0, [], [], 0
    for jobsets in groups:
        dice = Dice([(*seed, int(k)) for k in jobsets], runs)
        first, second, result = play(envs, select, placer, jobsets, dice, centred)
        g = returns.discounted(first.rewards, gamma)
        loss += gather(select, first, g - baseline(g, len(jobsets), runs), entropy)
        if placer is not None:
            second = second or Steps(first.x[:0, :2], first.masks[:0, :1], first.actions[:0], first.at[:0], first.rewards)
            gather(placer, second, second.rewards, entropy)
        slowdowns.append(result)
        begun.append(g[0])
        choices += len(first.actions)
    for m in modules:
        for p in m.actor.parameters():
            if p.grad is None:
                p.grad = torch.zeros_like(p)
            if shared:
                total(p.grad)
            else:
                p.grad.mul_(workers()[0])
        m.step()
    line = {"loss": loss, "slowdown": float(np.mean(slowdowns)), "reward": float(np.mean(begun))}
    return line | {"choices": choices, "episodes": sum(map(len, slowdowns))}

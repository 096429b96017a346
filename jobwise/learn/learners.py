"""Learners: what an agent makes of a rollout: `reinforce`, `actor_critic`, `ppo`, `one_step_ac`, `dqn`, and `a3c` and `a3c_ppo`
of many workers (`workers.py`)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from jobwise.learn import losses, returns
from jobwise.learn.agent import Agent
from jobwise.learn.collect import Rollout, log_chances
from jobwise.learn.reinforce import reinforce


def _advantages(agent: Agent, rollout: Rollout) -> tuple[np.ndarray, np.ndarray]:
    """(standardised advantages, value targets) [T E]; rewards are scaled to returns of about 1."""
    k = agent.settings
    agent.rescale(returns.discounted(rollout.rewards, k.gamma) if not agent.count else _returns(agent, rollout))
    advantage, target = returns.gae(
        rollout.rewards / agent.unit, rollout.values, rollout.over, rollout.last_values, k.gamma, k.lam
    )
    return returns.standardised(advantage).reshape(-1), target.reshape(-1)


def _returns(agent: Agent, rollout: Rollout) -> np.ndarray:
    """[T, E] discounted returns, in units of reward, with the critic's word for what comes after the last step."""
    k = agent.settings
    zero = np.zeros_like(rollout.values)
    return returns.gae(rollout.rewards, zero, rollout.over, rollout.last_values * agent.unit, k.gamma, 1.0)[1]


def actor_critic(agent: Agent, rollout: Rollout) -> dict[str, float]:
    """One step of advantage actor-critic (A2C, after Mnih et al., ICML'16) on the whole rollout."""
    advantage, target = _advantages(agent, rollout)
    which = np.arange(len(advantage))
    logp, every, obs = log_chances(agent, rollout, which)
    loss, entropy = losses.policy_gradient(logp, agent.tensor(advantage)), losses.entropy(every)
    error = losses.squared(agent.critic(obs), agent.tensor(target))
    agent.descend(loss - agent.settings.entropy * entropy + 0.5 * error + agent.expected_cost(every, obs))
    return {"loss": loss.item(), "value_loss": error.item(), "entropy": entropy.item()}


def ppo(agent: Agent, rollout: Rollout) -> dict[str, float]:
    """Make `epochs` passes in random minibatches with the clipped objective (Schulman et al. 2017); the policy stops moving
    once it is 1.5 `target_kl` away from the policy of the rollout."""
    k = agent.settings
    advantage, target = _advantages(agent, rollout)
    old, stopped, divergences = rollout.logp.reshape(-1), False, []
    if rollout.actions.ndim == 2:  # a ratio for each part of an action
        with torch.no_grad():
            groups = np.array_split(np.arange(len(old)), k.minibatches)
            old = np.concatenate([log_chances(agent, rollout, g, parts=True)[0].cpu().numpy() for g in groups])
    for _ in range(k.epochs):
        order = torch.randperm(len(old), generator=agent.random).numpy()
        for which in np.array_split(order, k.minibatches):
            logp, every, obs = log_chances(agent, rollout, which, parts=old.ndim == 2)
            before = agent.tensor(old[which])
            kl = (before - logp).mean().item()
            stopped = stopped or kl > 1.5 * k.target_kl
            error = losses.squared(agent.critic(obs), agent.tensor(target[which]))
            gained = agent.tensor(advantage[which].reshape(-1, *[1] * (old.ndim - 1)))
            loss, entropy = losses.clipped(logp, before, gained, k.clip), losses.entropy(every)
            moves = 0.0 if stopped else loss - k.entropy * entropy + agent.expected_cost(every, obs)
            agent.descend(0.5 * error + moves)
            divergences.append((loss.item(), error.item(), entropy.item(), kl))
    mean = np.mean(divergences, axis=0)
    return dict(zip(("loss", "value_loss", "entropy", "kl"), map(float, mean), strict=True))


def slope(agent: Agent, rollout: Rollout) -> dict[str, float]:
    """The gradients of a worker of A3C (Mnih et al., ICML'16, algorithm S3): returns of n steps, entropy, no clipping of
    ratios. They stay in the networks, for the shared agent to take."""
    k = agent.settings
    agent.rescale(_returns(agent, rollout))
    target = returns.gae(rollout.rewards / agent.unit, rollout.values, rollout.over, rollout.last_values, k.gamma, 1.0)[1]
    advantage = (target - rollout.values).reshape(-1)
    logp, every, obs = log_chances(agent, rollout, np.arange(len(advantage)))
    loss, entropy = losses.policy_gradient(logp, agent.tensor(advantage)), losses.entropy(every)
    error = losses.squared(agent.critic(obs), agent.tensor(target.reshape(-1)))
    whole = loss - k.entropy * entropy + 0.5 * error + agent.expected_cost(every, obs)
    if not torch.isfinite(whole):
        raise FloatingPointError(f"the loss is {whole.item()}")
    agent.optimiser.zero_grad(set_to_none=True)
    whole.backward()
    return {"loss": loss.item(), "value_loss": error.item(), "entropy": entropy.item()}


def one_step_ac(agent: Agent, rollout: Rollout) -> dict[str, float]:
    """One-step episodic actor-critic (Sutton, Barto 2018, section 13.5; MARS's Algorithm 2 without its line on cost):
    delta = R + gamma v(S') - v(S), w += I delta grad v, theta += I delta grad log pi, I *= gamma. Of one step, in all
    simulations at once."""
    k, over = agent.settings, rollout.over[0]
    if len(agent.discount) != len(over):
        agent.discount = np.ones(len(over))
    agent.rescale(rollout.rewards if k.gamma < 1 else _returns(agent, rollout))
    after = k.gamma * (1.0 - over) * rollout.last_values
    delta = agent.tensor(agent.discount * (rollout.rewards[0] / agent.unit + after - rollout.values[0]))
    logp, every, obs = log_chances(agent, rollout, np.arange(len(over)))
    loss = -(delta * logp).mean()
    values = agent.critic(obs)
    agent.descend(loss - (delta * values).mean() - k.entropy * losses.entropy(every) + agent.expected_cost(every, obs))
    agent.discount = np.where(over > 0, 1.0, agent.discount * k.gamma)
    return {"loss": loss.item(), "value_loss": float(torch.square(delta).mean())}


def dqn(agent: Agent, rollout: Rollout) -> dict[str, float]:
    """One step of deep Q-learning (Mnih et al., Nature 2015; DRAS-DQL) on the batch: the score of an action is its value, the
    target is the reward and gamma times the value of the next best action by the target network. No replay memory: as DRAS's
    code, it learns from its last choices. Exploration falls with each update."""
    k, (T, E) = agent.settings, rollout.rewards.shape
    assert agent.target is not None
    agent.rescale(returns.discounted(rollout.rewards, k.gamma))
    obs = rollout.seen(np.arange(T * E), agent.ragged, agent.device)
    after = np.concatenate([agent.value(obs).reshape(T, E)[1:], rollout.last_values[None]])
    target = rollout.rewards / agent.unit + k.gamma * (1.0 - rollout.over) * after
    values = losses.chosen(agent.scores(obs), torch.from_numpy(rollout.actions).to(agent.device))
    loss = torch.nn.functional.smooth_l1_loss(values, agent.tensor(target.reshape(-1)))
    agent.descend(loss)
    agent.updates += 1
    agent.explore = max(agent.explore * k.explore_decay, k.explore_least)
    if agent.updates % k.target_every == 0:
        agent.target.load_state_dict(agent.actor.state_dict())
    return {"loss": loss.item(), "explore": agent.explore}


def critic_alone(agent: Agent, rollout: Rollout) -> dict[str, float]:
    """`epochs` passes in which the critic learns and the actor stays: after a cold start it knows nothing yet."""
    k = agent.settings
    _, target = _advantages(agent, rollout)
    for _ in range(k.epochs):
        order = torch.randperm(len(target), generator=agent.random).numpy()
        for which in np.array_split(order, k.minibatches):
            obs = rollout.seen(which, agent.ragged, agent.device)
            error = losses.squared(agent.critic(obs), agent.tensor(target[which]))
            agent.descend(0.5 * error)
    return {"value_loss": error.item()}


LEARNERS: dict[str, Callable[[Agent, Rollout], dict[str, float]]] = {
    f.__name__: f for f in (reinforce, actor_critic, ppo, one_step_ac, dqn)
}

"""Learners: an agent chooses, a rollout is what came of it, an update learns from it.

The three update rules differ in nothing else: `reinforce`, `actor_critic`, `ppo`. T choices in each of E simulations.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass

import numpy as np
import torch

from jobwise.encoders import Encoder
from jobwise.encoders.perjob import gather, select
from jobwise.learn import losses, returns
from jobwise.learn.networks import Seen, actor, critic, parameters, weights


@dataclass(frozen=True)
class Settings:
    """What a learner can be told. Defaults are those of our own per-job system; sources of others in `systems/`."""

    learner: str = "ppo"
    steps: int = 64  # choices per simulation between updates
    gamma: float = 1.0
    lam: float = 0.97
    actor_lr: float = 1e-3
    critic_lr: float = 2e-3
    epochs: int = 3  # passes over a rollout (PPO)
    minibatches: int = 4
    clip: float = 0.2
    target_kl: float = 0.02
    entropy: float = 0.003
    max_norm: float = 1.0
    critic: str = "pooled"
    baseline: str = "batch"  # REINFORCE: "batch" standardises returns, "time" subtracts the mean of runs of the same jobs
    optimiser: str = "adam"  # or "rmsprop" (DeepRM's), "sgd"


@dataclass
class Rollout:
    """What E simulations did in T steps. Rows of observation b = t E + e begin at first[b] (per-job encoders)."""

    x: np.ndarray  # [rows, F] or [T E, rows, 2] float32
    first: np.ndarray  # [T E]
    counts: np.ndarray  # [T E]
    actions: np.ndarray  # [T E]
    logp: np.ndarray  # [T, E]
    values: np.ndarray  # [T, E], 0 without a critic
    rewards: np.ndarray  # [T, E]
    over: np.ndarray  # [T, E] 1 where the episode ended with the step
    last_values: np.ndarray  # [E]
    there: np.ndarray  # [T, E] 1 where a choice was made (0 behind the end of a whole episode)
    episodes: np.ndarray  # [K] mean bounded slowdown of the episodes that ended
    masks: np.ndarray | None = None  # [T E, A] bool: valid actions, where they are not just the first ones

    def seen(self, which: np.ndarray, ragged: bool, device: torch.device) -> Seen:
        """The observations `which` [B]."""
        counts = self.counts[which]
        if ragged:
            x = np.empty((int(counts.sum()), self.x.shape[1]), np.float32)
            select(self.x, self.first, self.counts, which, x)
        else:
            x = self.x[self.first[which]]
        mask = None if self.masks is None else torch.from_numpy(self.masks[self.first[which]])
        return Seen(torch.from_numpy(x), torch.from_numpy(counts), mask).to(device)


class RMSProp(torch.optim.Optimizer):
    """s = rho s + (1 - rho) g^2, theta -= lr g / sqrt(s + eps): DeepRM's code has eps below the root."""

    def __init__(self, groups, rho: float = 0.9, eps: float = 1e-9):
        super().__init__(groups, {"rho": rho, "eps": eps})

    @torch.no_grad()
    def step(self, closure=None) -> None:
        """One step."""
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                s = self.state[p].setdefault("square", torch.zeros_like(p))
                s.mul_(group["rho"]).addcmul_(p.grad, p.grad, value=1 - group["rho"])
                p.addcdiv_(p.grad, (s + group["eps"]).sqrt_(), value=-group["lr"])


class Agent:
    """A network, its critic, its optimiser and its random numbers. `network`: a spec {"kind", "sizes"}."""

    def __init__(self, network: dict, encoder: Encoder, settings: Settings, seed: int = 0, device: str = "cpu"):
        torch.manual_seed(seed)
        self.network, self.encoder, self.settings, self.device = network, encoder, settings, torch.device(device)
        self.ragged = network["kind"] == "perjob"  # only the rows of jobs that are there
        self.actor = actor(network).to(self.device)
        self.critic = None
        groups = [{"params": list(self.actor.parameters()), "lr": settings.actor_lr}]
        if settings.learner != "reinforce":
            self.critic = critic(network, encoder.shape, settings.critic).to(self.device)
            groups.append({"params": list(self.critic.parameters()), "lr": settings.critic_lr})
        makers = {"adam": lambda g: torch.optim.Adam(g, eps=1e-8, fused=True), "rmsprop": RMSProp, "sgd": torch.optim.SGD}
        self.optimiser = makers[settings.optimiser](groups)
        self.random = torch.Generator(device="cpu")
        self.random.manual_seed(seed)
        self.scale, self.count = 1.0, 0  # of rewards: running mean square of returns
        self.noise: Callable[[torch.Size], torch.Tensor] = lambda shape: torch.rand(shape, generator=self.random)
        self._room = np.empty((0, encoder.shape[-1]), np.float32)

    @property
    def parameters(self) -> int:
        """Numbers the actor has learnt."""
        return parameters(self.actor)

    def look(self, out: np.ndarray, counts: np.ndarray, masks: np.ndarray | None = None) -> tuple[Seen, np.ndarray]:
        """(observations out [E, ...] as the network takes them, their memory, which the next look overwrites)."""
        if not self.ragged:
            mask = None if masks is None else torch.from_numpy(masks.astype(bool))
            return Seen(torch.from_numpy(out), torch.from_numpy(counts), mask).to(self.device), out
        if len(self._room) < len(out) * out.shape[1]:
            self._room = np.empty((len(out) * out.shape[1], out.shape[2]), np.float32)
        rows = self._room[: gather(out, counts, self._room)]
        return Seen(torch.from_numpy(rows), torch.from_numpy(counts)).to(self.device), rows

    @torch.no_grad()
    def act(self, seen: Seen) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Sample: (actions [B], their log probabilities [B], values [B])."""
        logits = self.actor(seen)
        noise = self.noise(logits.shape).to(logits.device)
        actions = (logits - torch.log(-torch.log(noise))).argmax(dim=1)
        logp = torch.log_softmax(logits, dim=1).gather(1, actions[:, None])[:, 0]
        values = self.critic(seen) if self.critic is not None else torch.zeros_like(logp)
        return actions.cpu().numpy(), logp.cpu().numpy(), values.cpu().numpy()

    def descend(self, loss: torch.Tensor) -> None:
        """One step of the optimiser. Raises FloatingPointError for a loss that is no number."""
        if not torch.isfinite(loss):
            raise FloatingPointError(f"the loss is {loss.item()}")
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()
        self.step()

    def step(self) -> None:
        """Follow the gradients that have been gathered."""
        for group in self.optimiser.param_groups:
            torch.nn.utils.clip_grad_norm_(group["params"], self.settings.max_norm)
        self.optimiser.step()

    def rescale(self, g: np.ndarray) -> None:
        """Take note of how large returns g are; rewards are divided by their root mean square so far."""
        square = float(np.square(g).mean())
        self.count += 1
        self.scale += (square - self.scale) / min(self.count, 100)

    @property
    def unit(self) -> float:
        """What rewards are divided by."""
        return max(self.scale, 1e-12) ** 0.5 if self.count else 1.0

    def weights(self) -> dict[str, np.ndarray]:
        """The actor's, for a policy file."""
        return weights(self.actor)

    def state(self) -> dict:
        """All there is to go on from: nested dictionaries of tensors and numbers."""
        state = {
            "actor": self.actor.state_dict(),
            "critic": self.critic.state_dict() if self.critic is not None else {},
            "optimiser": self.optimiser.state_dict(),
            "random": self.random.get_state(),
            "scale": [self.scale, self.count],
        }
        return deepcopy(state)

    def restore(self, state: dict) -> None:
        """Go on from a state."""
        self.actor.load_state_dict(state["actor"])
        if self.critic is not None:
            self.critic.load_state_dict(state["critic"])
        self.optimiser.load_state_dict(state["optimiser"])
        self.random.set_state(state["random"])
        self.scale, self.count = state["scale"]


def collect(envs, agent: Agent, steps: int | None) -> Rollout:
    """Choose `steps` times in every simulation of `envs` (a BatchVectorEnv); None: one whole episode each."""
    E, whole, ragged = envs.num_envs, steps is None, agent.ragged
    xs, masks, parts, ended, t = [], [], [], [], 0
    active = np.ones(E, bool)
    while t < steps if steps is not None else active.any():
        counts, mask = envs.counts.copy(), envs.masks
        if whole and not active.all():  # ended simulations have no jobs to look at: let the others alone be looked at
            mask = None if mask is None else mask[active]
            seen, rows = agent.look(np.ascontiguousarray(envs.show()[active]), counts[active], mask)
        else:
            seen, rows = agent.look(envs.show(), counts, mask)
        actions, logp, values = np.zeros(E, np.int64), np.zeros(E, np.float32), np.zeros(E, np.float32)
        actions[active], logp[active], values[active] = agent.act(seen)
        xs.append(rows.copy())
        if mask is not None:
            masks.append(mask.astype(bool))
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
    if not whole and agent.critic is not None:
        with torch.no_grad():
            last = agent.critic(agent.look(envs.show(), envs.counts.copy(), envs.masks)[0]).cpu().numpy()
    counts = counts.reshape(-1)
    first = np.concatenate([[0], np.cumsum(counts)[:-1]]) if ragged else np.arange(len(counts))
    if whole and not ragged:
        first = np.cumsum(there.reshape(-1)) - 1
    return Rollout(
        np.concatenate(xs),
        first,
        counts,
        actions.reshape(-1),
        logp,
        values,
        rewards,
        over.astype(float),
        last,
        there.astype(float),
        np.concatenate(ended) if ended else np.zeros(0),
        np.concatenate(masks) if masks else None,
    )


def _chosen(agent: Agent, rollout: Rollout, which: np.ndarray):
    """(log probabilities of what was done [B], of everything [B, W], the observations) with the present network."""
    seen = rollout.seen(which, agent.ragged, agent.device)
    every = torch.log_softmax(agent.actor(seen), dim=1)
    done = torch.from_numpy(rollout.actions[which]).to(agent.device)
    return every.gather(1, done[:, None])[:, 0], every, seen


def _tensor(x: np.ndarray, agent: Agent) -> torch.Tensor:
    return torch.from_numpy(np.ascontiguousarray(x, np.float32)).to(agent.device)


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
    logp, every, _ = _chosen(agent, rollout, which)
    loss = losses.policy_gradient(logp, _tensor(advantage[which], agent))
    spread = losses.entropy(every)
    agent.descend(loss - k.entropy * spread)
    return {"loss": loss.item(), "entropy": spread.item()}


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
    logp, every, seen = _chosen(agent, rollout, which)
    loss, spread = losses.policy_gradient(logp, _tensor(advantage, agent)), losses.entropy(every)
    error = losses.squared(agent.critic(seen), _tensor(target, agent))
    agent.descend(loss - agent.settings.entropy * spread + 0.5 * error)
    return {"loss": loss.item(), "value_loss": error.item(), "entropy": spread.item()}


def ppo(agent: Agent, rollout: Rollout) -> dict[str, float]:
    """`epochs` passes in random minibatches with the clipped objective (Schulman et al. 2017); the policy stops moving
    once it is 1.5 `target_kl` away from the one that chose."""
    k = agent.settings
    advantage, target = _advantages(agent, rollout)
    old, stopped, found = rollout.logp.reshape(-1), False, []
    for _ in range(k.epochs):
        order = torch.randperm(len(old), generator=agent.random).numpy()
        for which in np.array_split(order, k.minibatches):
            logp, every, seen = _chosen(agent, rollout, which)
            before = _tensor(old[which], agent)
            kl = (before - logp).mean().item()
            stopped = stopped or kl > 1.5 * k.target_kl
            error = losses.squared(agent.critic(seen), _tensor(target[which], agent))
            loss, spread = losses.clipped(logp, before, _tensor(advantage[which], agent), k.clip), losses.entropy(every)
            agent.descend(0.5 * error + (0.0 if stopped else loss - k.entropy * spread))
            found.append((loss.item(), error.item(), spread.item(), kl))
    mean = np.mean(found, axis=0)
    return dict(zip(("loss", "value_loss", "entropy", "kl"), map(float, mean), strict=True))


LEARNERS: dict[str, Callable[[Agent, Rollout], dict[str, float]]] = {
    "reinforce": reinforce,
    "actor_critic": actor_critic,
    "ppo": ppo,
}

"""REINFORCE on jobsets (DeepRM, HotNets'16; CuSH's Algorithm 1, DRL4KDD'19): many runs of the same jobs, each other's baseline.

One module chooses a slot; with a second one (CuSH's policy selector) that one chooses how the job is placed. Their rewards
are separate. Workers share the runs of every jobset and agree by `torch.distributed` where it is running (`torchrun`):
either every worker steps by the same summed gradient, or each steps alone and the parameters are averaged now and then.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any, cast

import numpy as np
import torch
import torch.distributed as dist

from jobwise.learn.agent import Agent
from jobwise.learn.losses import chosen
from jobwise.learn.losses import entropy as mean_entropy
from jobwise.learn.networks import Seen
from jobwise.learn.returns import discounted


def join() -> None:
    """Join the processes that `torchrun` has started: tables by gloo, gradients on GPUs by NCCL."""
    if not dist.is_initialized():
        dist.init_process_group("cpu:gloo,cuda:nccl" if torch.cuda.is_available() and dist.is_nccl_available() else "gloo")


def workers() -> tuple[int, int]:
    """(how many there are, which one this is)."""
    return (dist.get_world_size(), dist.get_rank()) if dist.is_available() and dist.is_initialized() else (1, 0)


def total(x: torch.Tensor, maximum: bool = False) -> torch.Tensor:
    """The sum (or the largest) over the workers."""
    if workers()[0] > 1:
        dist.all_reduce(x, dist.ReduceOp.MAX if maximum else dist.ReduceOp.SUM)
    return x


def average(agent: Agent) -> None:
    """Give every worker the mean of all workers' parameters."""
    if workers()[0] > 1:
        for p in agent.actor.state_dict().values():
            if p.is_floating_point():
                total(p)
                p.div_(workers()[0])


@dataclass
class Steps:
    """The choices of one module: B choices, [T, N] tables that say where they are."""

    x: torch.Tensor  # [B, ...] observations
    masks: np.ndarray  # [B, A]
    actions: np.ndarray  # [B], or [B, M] of M parts
    at: np.ndarray  # [B] step * N + run
    rewards: np.ndarray  # [T, N]


def runs_of(runs: int) -> slice:
    """Which of a jobset's runs are this worker's."""
    count, me = workers()
    return slice(runs * me // count, runs * (me + 1) // count)


class Dice:
    """Noise for the runs of jobsets: the same for a run whoever makes it, and however many there are beside it."""

    def __init__(self, seeds: list[tuple[int, ...]], runs: int):
        self.runs, self.mine = runs, runs_of(runs)
        self.random = [torch.Generator().manual_seed(int(np.random.SeedSequence(s).generate_state(1)[0])) for s in seeds]
        self.numbers = torch.zeros(0)

    def roll(self, count: int) -> None:
        """Another `count` uniform numbers for every run."""
        every = torch.stack([torch.rand((self.runs, count), generator=g) for g in self.random])
        self.numbers = every[:, self.mine].flatten(0, 1)

    def give(self, agent: Agent, runs: np.ndarray, first: int) -> None:
        """Let an agent use those of `runs` [N] bool, from the first-th on."""
        some = self.numbers[torch.from_numpy(runs)]
        agent.noise = lambda shape: some[:, first : first + prod(shape[1:])].reshape(shape)


def _noise(module, shape) -> torch.Tensor:
    """Numbers that a network draws, from its own generator."""
    return torch.rand(shape, generator=module.random)


def play(
    envs: Any, select: Agent, placer: Agent | None, jobsets: np.ndarray, dice: Dice, centred: bool = False
) -> tuple[Steps, Steps | None, np.ndarray]:
    """Play every jobset to its end, once per run of this worker: what each module did, and the runs' mean slowdowns [N].

    Observations lie in the modules' memory, which the next call overwrites.
    """
    per = envs.num_envs // len(jobsets)
    envs.begin(np.repeat(jobsets, per))
    N, P = envs.num_envs, len(envs.placements) if placer is not None else 0
    active, t = np.ones(N, bool), 0
    history: list[tuple] = []
    placed: list[tuple] = []
    rewards, local = [], []
    for module in (select, placer):
        if module is not None:
            module.actor.eval()
            module.shelf.clear()
    while active.any():
        mask = envs.mask
        if placer is not None:  # of slots, not of slots and placements
            mask = np.concatenate([mask[:, :-1:P], mask[:, -1:]], axis=1)
        x, mask = select.shelf.add(envs.show(), active), mask[active].astype(bool)
        dice.roll(mask[0].size + P)
        dice.give(select, active, 0)
        slots = np.full((N, *envs.action_shape), -1)
        slots[active] = select.choose(_seen(x, mask, select))[0].cpu().numpy()
        history.append((mask, slots[active], t * N + np.flatnonzero(active)))
        actions = slots.copy()
        if placer is not None:
            M = mask.shape[1] - 1
            asked = active & (slots < M) & envs.placeable[np.arange(N), np.clip(slots, 0, M - 1)]
            actions = np.where(slots < M, slots * P, envs.void)
            if asked.any():
                dice.give(placer, asked, M + 1)
                x = placer.shelf.add(envs.show_placing(np.where(asked, slots, -1)), asked)
                way = placer.choose(_seen(x, np.ones((len(x), P), bool), placer))[0].cpu().numpy()
                actions[asked] += way
                placed.append((np.ones((len(x), P), bool), way, t * N + np.flatnonzero(asked)))
        over = envs.choose(actions) > 0
        z = envs.intervals
        rewards.append(np.where(active, envs.reward(z), 0.0))
        if placer is not None:
            local.append(np.where(active & (z["placed"] > 0), -z["penalty"] + (z["mean"] if centred else 0.0), 0.0))
        active &= ~over
        t += 1
    z = envs.intervals
    result = z["total"] / np.maximum(z["started"], 1)
    for module in (select, placer):
        if module is not None:
            module.noise = partial(_noise, module)
    join = lambda parts: [np.concatenate(p) for p in zip(*parts, strict=True)]  # noqa: E731
    first = cast(Any, Steps)(select.shelf.x, *join(history), np.array(rewards))
    second = cast(Any, Steps)(cast(Agent, placer).shelf.x, *join(placed), np.array(local)) if placed else None
    return first, second, result


def _seen(x: torch.Tensor, mask: np.ndarray, agent: Agent) -> Seen:
    counts = np.full(len(x), mask.shape[1])
    return Seen(x, torch.from_numpy(counts), torch.from_numpy(mask)).to(agent.device)


def baseline(g: np.ndarray, jobsets: int, runs: int) -> np.ndarray:
    """[T, N] the mean over all runs of a jobset, whoever made them, of the returns g [T, N] at each step.

    Runs that are over count with the 0 they are padded with, as in DeepRM's code.
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
        every = torch.log_softmax(agent.scores(_seen(steps.x[part], steps.masks[part], agent)), dim=-1)
        done = torch.from_numpy(np.ascontiguousarray(steps.actions[part])).to(agent.device)
        logp = chosen(every, done)
        a = torch.from_numpy(advantage.reshape(-1)[steps.at[part]].astype(np.float32)).to(agent.device)
        part_loss = -(a * logp).sum() / count
        if weight:
            part_loss = part_loss - weight * mean_entropy(every) * len(done) / count
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
    loss, slowdowns, returns, choices = 0.0, [], [], 0
    for jobsets in groups:
        dice = Dice([(*seed, int(k)) for k in jobsets], runs)
        first, second, result = play(envs, select, placer, jobsets, dice, centred)
        g = discounted(first.rewards, gamma)
        loss += gather(select, first, g - baseline(g, len(jobsets), runs), entropy)
        if placer is not None:
            second = second or Steps(first.x[:0, :2], first.masks[:0, :1], first.actions[:0], first.at[:0], first.rewards)
            gather(placer, second, second.rewards, entropy)
        slowdowns.append(result)
        returns.append(g[0])
        choices += len(first.actions)
    count = workers()[0]
    for m in modules:
        for p in m.actor.parameters():
            if p.grad is None:
                p.grad = torch.zeros_like(p)
            if shared:
                total(p.grad)
            else:
                p.grad.mul_(count)
        m.step()
    line = {"loss": loss, "slowdown": float(np.mean(slowdowns)), "reward": float(np.mean(returns))}
    return line | {"choices": choices, "episodes": sum(map(len, slowdowns))}


def imitate(
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
            out = agent.scores(_seen(torch.from_numpy(x[part]), mask[part], agent)).flatten(0, -2)
            want = done[part].flatten()
            square = sum((p * p).sum() for p in agent.actor.parameters())
            agent.descend(torch.nn.functional.cross_entropy(out, want) + l2 * square)
            right += int((out.argmax(dim=1) == want).sum())
    return right / done.numel()

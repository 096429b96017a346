"""Playing jobsets to their end, each many times (DeepRM, HotNets'16; CuSH, DRL4KDD'19): what each module chose, its rewards.

One module chooses a slot; with a second one (CuSH's policy selector) that one chooses how the job is placed. Their rewards
are separate. Workers share the runs of every jobset where `torch.distributed` is running (`torchrun`).
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
    """Return this worker's share of a jobset's runs."""
    count, me = workers()
    return slice(runs * me // count, runs * (me + 1) // count)


class Dice:
    """Noise for the runs of jobsets: the same for a run in every worker, beside any number of other runs."""

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
    active, t, rewards, local = np.ones(N, bool), 0, [], []
    history, placed = cast(list[tuple], []), cast(list[tuple], [])
    modules = [module for module in (select, placer) if module is not None]
    for module in modules:
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
        slots[active] = select.choose(select.seen(x, mask))[0].cpu().numpy()
        history.append((mask, slots[active], t * N + np.flatnonzero(active)))
        actions = slots.copy()
        if placer is not None:
            M = mask.shape[1] - 1
            asked = active & (slots < M) & envs.placeable[np.arange(N), np.clip(slots, 0, M - 1)]
            actions = np.where(slots < M, slots * P, envs.void)
            if asked.any():
                dice.give(placer, asked, M + 1)
                x = placer.shelf.add(envs.show_placing(np.where(asked, slots, -1)), asked)
                way = placer.choose(placer.seen(x, np.ones((len(x), P), bool)))[0].cpu().numpy()
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
    for module in modules:
        module.noise = partial(_noise, module)
    join = lambda parts: [np.concatenate(p) for p in zip(*parts, strict=True)]  # noqa: E731
    first = cast(Any, Steps)(select.shelf.x, *join(history), np.array(rewards))
    second = cast(Any, Steps)(cast(Agent, placer).shelf.x, *join(placed), np.array(local)) if placed else None
    return first, second, result

"""Data-parallel collection: W batches of simulations, each played by a task of the current workers, and one learner.

A task is told all it needs: the networks, where its batch stands, which round it is. Its random numbers come from the seed, its
batch and the round. So a rollout is the same wherever its parts are collected; a part whose worker dies is collected again, and
a run that was stopped goes on with any workers. A worker that had a batch the round before goes on from its own memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple
from uuid import uuid4

import numpy as np
import torch

from jobwise.learn.agent import Agent
from jobwise.learn.collect import Rollout, collect, joined
from jobwise.learn.vector_env import VectorEnv
from jobwise.parallel import Shared, current

NEEDS = "collectors go with learners that have one network and one rollout at a time"


class _Task(NamedTuple):
    """The same for all batches of a round."""

    run: str  # a name that no other run has
    round: int
    make: Shared  # () -> (a batch, an agent)
    acting: Shared  # what the agent knows: `Agent.acting`
    seed: int
    steps: int | None
    narrow: bool  # the world says which parts of an action bind each other


_here: dict[tuple[str, int], tuple[int, VectorEnv, Agent]] = {}  # (run, batch) -> the round it is ready for, and what it needs


def _play(task: _Task, item: tuple[int, dict]) -> tuple[Rollout, dict]:
    """Collect one batch's part of a rollout: it, and where the batch stands then."""
    k, snapshot = item
    for old in [x for x in _here if x[0] != task.run]:
        _here.pop(old)[1].close()
    ready, envs, agent = _here.pop((task.run, k), (-1, None, None))
    torch.set_num_threads(1)  # of this thread; with others, sums could come out otherwise
    if envs is None or agent is None:
        envs, agent = task.make.get()()
    if ready != task.round:
        envs.restore(snapshot)
    agent.act_as(task.acting.get(), int(np.random.SeedSequence([task.seed, k, task.round]).generate_state(1)[0]))
    agent.narrow = envs.world.narrow if task.narrow else None
    rollout = collect(envs, agent, task.steps)
    _here[task.run, k] = task.round + 1, envs, agent
    return rollout, envs.snapshot()


class Collectors:
    """So many batches of simulations like `one`, as far as a run asks. `make()` makes a batch, `agent()` an agent like the one
    that learns; `threads`: of the learner."""

    def __init__(
        self, one: VectorEnv, make: Callable[[], VectorEnv], agent: Callable[[], Agent], count: int, seed: int, threads: int
    ):
        self._first, self._count, self._seed, self._threads = one, count, seed, threads
        self._make, self._run, self._round = partial(_made, make, agent), uuid4().hex, 0
        self.num_envs, self.reward = count * self._first.num_envs, self._first.reward
        self._stand: list[dict] = []

    def reset(self, seed: int | Sequence[int]) -> None:
        """Begin again; simulation e of all is seeded with seed + e, or with seed[e]."""
        per, self._stand = self._first.num_envs, []
        self._round += 1
        for k in range(self._count):
            own = slice(k * per, (k + 1) * per)
            self._first.reset(seed=seed + own.start if isinstance(seed, int) else list(seed)[own])
            self._stand.append(self._first.snapshot())

    @contextmanager
    def first(self) -> Iterator[VectorEnv]:
        """Yield the first batch, here; the next rollout goes on from where it stands then."""
        self._first.restore(self._stand[0])
        yield self._first
        self._stand[0] = self._first.snapshot()
        self._round += 1

    def collect(self, agent: Agent, steps: int | None) -> Rollout:
        """Collect a rollout of all batches, each in a task."""
        with current(self._count) as crew:
            same = crew.put(self._make), crew.put(agent.acting()), self._seed, steps, agent.narrow is not None
            task = _Task(self._run, self._round, *same)
            done = crew.map(partial(_play, task), list(enumerate(self._stand)))
        torch.set_num_threads(self._threads)
        self._round += 1
        self._stand = [stand for _, stand in done]
        return joined([rollout for rollout, _ in done])

    def snapshot(self) -> dict:
        """All there is to go on from."""
        return {"parts": self._stand, "round": self._round}

    def restore(self, snapshot: dict) -> None:
        """Stand where a snapshot of equal batches was taken."""
        self._stand, self._round = list(snapshot["parts"]), int(snapshot["round"])

    def close(self) -> None:
        """Let go of the batches of this process."""
        self._first.close()
        for key in [x for x in _here if x[0] == self._run]:
            _here.pop(key)[1].close()


def _made(make: Callable[[], VectorEnv], agent: Callable[[], Agent]) -> tuple[VectorEnv, Agent]:
    return make(), agent()

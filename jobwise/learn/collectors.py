"""Data-parallel collection: W batches of simulations, each played by a task of the current workers, and one learner.

A task is told the networks and which round it is; its random numbers come from the seed, its batch and the round. So a rollout
is the same wherever its parts are collected. A batch stays with the worker that had it before, which goes on from its own
memory. Another one (that worker died, or has no home) begins where the batch was seen last, and plays the rounds since again.
"""

from __future__ import annotations

import weakref
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
from jobwise.parallel import Shared, Workers, current

AGAIN = 32  # rounds after which it is seen anew where the batches stand: so many are played again at most
NEEDS = "collectors go with learners that have one network and one rollout at a time"


class _Batch(NamedTuple):
    """A batch, as a task is told of it: where it stood at the begin of round `seen`, and the networks of all rounds since."""

    run: str  # a name that no other run has
    number: int
    make: Shared  # () -> (a batch, an agent)
    seen: int
    stood: Shared
    acting: tuple[Shared, ...]  # `Agent.acting`, of rounds seen, seen + 1, …
    seed: int
    steps: int | None
    narrow: bool  # the world says which parts of an action bind each other


_here: dict[tuple[str, int], tuple[int, VectorEnv, Agent]] = {}  # (run, batch) -> the round it is ready for, and what it needs


def _play(batch: _Batch) -> Rollout | None:
    """Collect a batch's part of a rollout, in the last of the rounds that the task is told of. None: there are none."""
    for old in [x for x in _here if x[0] != batch.run]:
        _here.pop(old)[1].close()
    key, last = (batch.run, batch.number), batch.seen + len(batch.acting)
    ready, envs, agent = _here.pop(key, (-1, None, None))
    torch.set_num_threads(1)  # of this thread; with others, sums could come out otherwise
    if envs is None or agent is None:
        envs, agent = batch.make.get()()
        agent.narrow = envs.world.narrow if batch.narrow else None
    if not (batch.seen <= ready < last or ready == last == batch.seen):
        envs.restore(batch.stood.get())
        ready = batch.seen
    rollout = None
    for k in range(ready, last):
        seed = np.random.SeedSequence([batch.seed, batch.number, k]).generate_state(1)[0]
        agent.act_as(batch.acting[k - batch.seen].get(), int(seed))
        rollout = collect(envs, agent, batch.steps)
    _here[key] = last, envs, agent
    return rollout


def _stands(batch: _Batch) -> dict:
    """Where a batch stands behind the rounds that the task is told of."""
    ready = _here.get((batch.run, batch.number), (-1,))[0]
    if ready != batch.seen + len(batch.acting):
        _play(batch)
    return _here[batch.run, batch.number][1].snapshot()


def _nobody() -> None:
    return None


class Collectors:
    """So many batches of simulations like `one`, as far as a run asks. `make()` makes a batch, `agent()` an agent like the one
    that learns; `threads`: of the learner."""

    def __init__(
        self, one: VectorEnv, make: Callable[[], VectorEnv], agent: Callable[[], Agent], count: int, seed: int, threads: int
    ):
        self._first, self._count, self._seed, self._threads = one, count, seed, threads
        self._make, self._run = partial(_made, make, agent), uuid4().hex
        self.num_envs, self.reward = count * self._first.num_envs, self._first.reward
        self._seen = 0  # the round at whose begin the batches stood at `_stood`
        self._stood: list[dict] = []
        self._acting: list[dict] = []  # of the rounds since
        self._told: tuple[Callable, list[Shared], list[Shared]] = (_nobody, [], [])  # (which workers, both as they have them)

    def _sees(self, stood: list[dict], round: int) -> None:
        self._stood, self._seen, self._acting, self._told = stood, round, [], (_nobody, [], [])

    @property
    def _round(self) -> int:
        return self._seen + len(self._acting)

    def reset(self, seed: int | Sequence[int]) -> None:
        """Begin again; simulation e of all is seeded with seed + e, or with seed[e]."""
        per, stood = self._first.num_envs, []
        for k in range(self._count):
            own = slice(k * per, (k + 1) * per)
            self._first.reset(seed=seed + own.start if isinstance(seed, int) else list(seed)[own])
            stood.append(self._first.snapshot())
        self._sees(stood, self._round + 1)

    @contextmanager
    def first(self) -> Iterator[VectorEnv]:
        """Yield the first batch, here; the next rollout goes on from where it stands then."""
        stood = self.snapshot()["parts"]
        self._first.restore(stood[0])
        yield self._first
        self._sees([self._first.snapshot(), *stood[1:]], self._round + 1)

    def collect(self, agent: Agent, steps: int | None) -> Rollout:
        """Collect a rollout of all batches, each in a task."""
        self._steps, self._narrow = steps, agent.narrow is not None
        self._acting.append(agent.acting())
        with current(self._count) as crew:
            parts = crew.map(_play, self._batches(crew), home=True)
            if len(self._acting) >= (AGAIN if crew.homes else 1):
                self._sees(crew.map(_stands, self._batches(crew), home=True), self._round)
        torch.set_num_threads(self._threads)
        return joined(parts)

    def _batches(self, crew: Workers) -> list[_Batch]:
        """What tasks of these workers are told."""
        known, stood, acting = self._told
        if known() is not crew:
            stood, acting = [crew.put(x) for x in self._stood], []
        acting += [crew.put(x) for x in self._acting[len(acting) :]]
        self._told, make = (weakref.ref(crew), stood, acting), crew.put(self._make)
        same = self._seed, self._steps, self._narrow
        return [_Batch(self._run, k, make, self._seen, x, tuple(acting), *same) for k, x in enumerate(stood)]

    def snapshot(self) -> dict:
        """All there is to go on from."""
        if self._acting:
            with current(self._count) as crew:
                self._sees(crew.map(_stands, self._batches(crew), home=True), self._round)
        return {"parts": self._stood, "round": self._seen}

    def restore(self, snapshot: dict) -> None:
        """Stand where a snapshot of equal batches was taken."""
        self._sees(list(snapshot["parts"]), int(snapshot["round"]))

    def close(self) -> None:
        """Let go of the batches of this process."""
        self._first.close()
        for key in [x for x in _here if x[0] == self._run]:
            _here.pop(key)[1].close()


def _made(make: Callable[[], VectorEnv], agent: Callable[[], Agent]) -> tuple[VectorEnv, Agent]:
    return make(), agent()

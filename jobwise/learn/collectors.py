"""Data-parallel collection: W batches of simulations, each played by a task of the current workers, and one learner.

A task gets the networks and the number of the round; its random numbers come from the seed, its batch and the round. So a
rollout is the same wherever its parts are collected. A batch stays with its last worker, which goes on from its own memory.
Another worker (the last one died, or has no home) begins with the last snapshot, and plays the rounds since then again.
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

AGAIN = 32  # rounds between snapshots: so many are played again at most
NEEDS = "collectors go with learners that have one network and one rollout at a time"


class _Batch(NamedTuple):
    """A batch as a task has it: a snapshot from the begin of round `since`, and the networks of that round and those after."""

    run: str  # a name that no other run has
    number: int
    make: Shared  # () -> (a batch, an agent)
    since: int
    snapshot: Shared
    acting: tuple[Shared, ...]  # `Agent.acting`, of rounds since, since + 1, …
    seed: int
    steps: int | None
    narrow: bool  # the world says which parts of an action bind each other


_here: dict[tuple[str, int], tuple[int, VectorEnv, Agent]] = {}  # (run, batch) -> the round it is ready for, and what it needs


def _play(batch: _Batch) -> Rollout | None:
    """Collect a batch's part of the rollout of its last round. None: it has no rounds."""
    for old in [x for x in _here if x[0] != batch.run]:
        _here.pop(old)[1].close()
    key, last = (batch.run, batch.number), batch.since + len(batch.acting)
    ready, envs, agent = _here.pop(key, (-1, None, None))
    torch.set_num_threads(1)  # of this thread; with others, sums could come out otherwise
    if envs is None or agent is None:
        envs, agent = batch.make.get()()
        agent.narrow = envs.world.narrow if batch.narrow else None
    if not (batch.since <= ready < last or ready == last == batch.since):
        envs.restore(batch.snapshot.get())
        ready = batch.since
    rollout = None
    for k in range(ready, last):
        seed = np.random.SeedSequence([batch.seed, batch.number, k]).generate_state(1)[0]
        agent.act_as(batch.acting[k - batch.since].get(), int(seed))
        rollout = collect(envs, agent, batch.steps)
    _here[key] = last, envs, agent
    return rollout


def _snapshot(batch: _Batch) -> dict:
    """Return a snapshot of a batch behind its last round."""
    ready = _here.get((batch.run, batch.number), (-1,))[0]
    if ready != batch.since + len(batch.acting):
        _play(batch)
    return _here[batch.run, batch.number][1].snapshot()


class _Stored(NamedTuple):
    """The data of a `Collectors` that workers have stored: its snapshots, and the networks since."""

    workers: Callable[[], Workers | None]  # a weak reference
    snapshots: list[Shared]
    acting: list[Shared]


NOTHING = _Stored(lambda: None, [], [])


class Collectors:
    """`count` batches of simulations like `one`, collected as a run asks for them. `make()` makes a batch, `agent()` a copy of
    the learning agent; `threads`: of the learner."""

    def __init__(
        self, one: VectorEnv, make: Callable[[], VectorEnv], agent: Callable[[], Agent], count: int, seed: int, threads: int
    ):
        self._first, self._count, self._seed, self._threads = one, count, seed, threads
        self._make, self._run = partial(_made, make, agent), uuid4().hex
        self.num_envs, self.reward = count * self._first.num_envs, self._first.reward
        self._begin([], 0)

    def _begin(self, snapshots: list[dict], round: int) -> None:
        """Let this be the round from whose begin lost batches are played again, with the batches' snapshots."""
        self._since, self._snapshots, self._stored = round, snapshots, NOTHING
        self._acting: list[dict] = []  # of this round and those after

    @property
    def _round(self) -> int:
        return self._since + len(self._acting)

    def reset(self, seed: int | Sequence[int]) -> None:
        """Begin again; simulation e of all is seeded with seed + e, or with seed[e]."""
        per, snapshots = self._first.num_envs, []
        for k in range(self._count):
            own = slice(k * per, (k + 1) * per)
            self._first.reset(seed=seed + own.start if isinstance(seed, int) else list(seed)[own])
            snapshots.append(self._first.snapshot())
        self._begin(snapshots, self._round + 1)

    @contextmanager
    def first(self) -> Iterator[VectorEnv]:
        """Yield the first batch, here; the next rollout goes on from where it stands then."""
        first, *others = self.snapshot()["parts"]
        self._first.restore(first)
        yield self._first
        self._begin([self._first.snapshot(), *others], self._round + 1)

    def collect(self, agent: Agent, steps: int | None) -> Rollout:
        """Collect a rollout of all batches, each in a task."""
        self._steps, self._narrow = steps, agent.narrow is not None
        self._acting.append(agent.acting())
        with current(self._count) as crew:
            parts = crew.map(_play, self._batches(crew), home=True)
            if len(self._acting) >= (AGAIN if crew.homes else 1):
                self._begin(crew.map(_snapshot, self._batches(crew), home=True), self._round)
        torch.set_num_threads(self._threads)
        return joined(parts)

    def _batches(self, crew: Workers) -> list[_Batch]:
        """The batches as tasks of these workers have them."""
        if self._stored.workers() is not crew:
            self._stored = _Stored(weakref.ref(crew), [crew.put(x) for x in self._snapshots], [])
        acting = self._stored.acting
        acting += [crew.put(x) for x in self._acting[len(acting) :]]
        make, same = crew.put(self._make), (tuple(acting), self._seed, self._steps, self._narrow)
        return [_Batch(self._run, k, make, self._since, x, *same) for k, x in enumerate(self._stored.snapshots)]

    def snapshot(self) -> dict:
        """All there is to go on from."""
        if self._acting:
            with current(self._count) as crew:
                self._begin(crew.map(_snapshot, self._batches(crew), home=True), self._round)
        return {"parts": self._snapshots, "round": self._since}

    def restore(self, snapshot: dict) -> None:
        """Stand where a snapshot of equal batches was taken."""
        self._begin(list(snapshot["parts"]), int(snapshot["round"]))

    def close(self) -> None:
        """Let go of the batches of this process."""
        self._first.close()
        for key in [x for x in _here if x[0] == self._run]:
            _here.pop(key)[1].close()


def _made(make: Callable[[], VectorEnv], agent: Callable[[], Agent]) -> tuple[VectorEnv, Agent]:
    return make(), agent()

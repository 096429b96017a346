"""A conformance kit for parts of one's own, and a task every learner must solve. Tests of jobwise use it too."""

from __future__ import annotations

import numpy as np

from jobwise.actions import Act
from jobwise.encoders import Encoder
from jobwise.jobs import Workload
from jobwise.sim import choices, choosing
from jobwise.sim.state import allocate


def check_encoder(encoder: Encoder, workload: Workload, steps: int = 200, seed: int = 0) -> None:
    """Play random choices on copies of a workload and look at what the encoder shows. Raises AssertionError.

    Numbers are finite and within `bounds`; rows behind the last job of a per-job window are zero; the same state gives
    the same numbers, whatever the batch; and neither truth nor future shows: poisoned ones change nothing.
    """
    E, rng = 3, np.random.default_rng(seed)
    s = allocate([workload] * E, workload.cluster, seed=seed)
    c = Act("pick").allocate(s, encoder.window)
    out, work = encoder.buffers(E)
    low, high = encoder.bounds
    choosing.ask(s, c, choosing.BEGIN)
    for _ in range(steps):
        if not c.moment["count"].any():
            return
        encoder.encode(s, c, out, work)
        assert np.isfinite(out).all(), f"{encoder.name}: not all numbers are finite"
        assert low <= out.min() and out.max() <= high, (
            f"{encoder.name}: {out.min()} to {out.max()} is not within {encoder.bounds}"
        )
        if encoder.per_job:
            beyond = np.arange(encoder.window) >= c.moment["count"][:, None]
            assert not out[beyond].any(), f"{encoder.name}: rows behind the last job are not zero"
        saved, rows, jobs = s.truth.copy(), s.lists.copy(), s.jobs.copy()
        for e in range(E):  # the order of the running rows tells who ends first, the rows to come what comes
            rng.shuffle(s.lists[e, 0, : s.sims["running"][e]])
            coming = s.jobs[e, s.sims["next"][e] :]
            coming["submit"], coming["walltime"], coming["request"], coming["user"] = np.nan, np.nan, -9, -9
        for name in s.truth.dtype.names:
            s.truth[name] = np.nan if s.truth.dtype[name].kind == "f" else -9
        again, memory = encoder.buffers(E)
        for e in reversed(range(E)):
            encoder.encode(s, c, again, memory, e, e + 1)
        s.truth[:], s.lists[:], s.jobs[:] = saved, rows, jobs
        assert np.array_equal(out, again), f"{encoder.name}: the same state gives other numbers (does it read the truth?)"
        choosing.ask(s, c, rng.integers(0, np.maximum(c.moment["count"], 1)))


class Identity:
    """E games of one choice after the other: the right slot is the one whose first feature is largest.

    Has what learners need of an environment: `num_envs`, `counts`, `show`, `choose`, `reset`, `intervals`, `reward`. A
    reward is 1 for the right slot; an episode has 8 choices.
    """

    def __init__(self, encoder: Encoder, num_envs: int = 16, seed: int = 0):
        self.encoder, self.num_envs, self._rng = encoder, num_envs, np.random.default_rng(seed)
        self._out = encoder.buffers(num_envs)[0]
        self.counts = np.zeros(num_envs, np.int64)
        self.intervals = np.zeros(num_envs, choices.interval_dtype)
        self._step, self.masks = 0, None
        self._deal()

    def _deal(self) -> None:
        self.counts[:] = self._rng.integers(2, min(self.encoder.window, 6) + 1, self.num_envs)
        self._out[:] = 0
        for e, k in enumerate(self.counts):
            rows = k if self.encoder.per_job else len(self._out[e])
            self._out[e, :rows] = self._rng.random(self._out[e, :rows].shape)

    def right(self) -> np.ndarray:
        """[E] the right slots."""
        rows = self._out[:, :, 0] if self.encoder.per_job else self._out[:, 0 : 2 * self.encoder.window : 2, 0]
        there = np.arange(self.encoder.window) < self.counts[:, None]
        return np.where(there, rows[:, : self.encoder.window], -1.0).argmax(axis=1)

    def show(self) -> np.ndarray:
        """The observations."""
        return self._out

    def reset(self, *, seed=None) -> None:
        """Begin anew; equal seeds of all games make all games equal."""
        if isinstance(seed, list):
            self._rng = np.random.default_rng(seed[0])
        self._step = 0
        self._deal()
        if isinstance(seed, list):
            self.counts[:], self._out[:] = self.counts[0], self._out[0]

    def choose(self, actions: np.ndarray, again: bool = False) -> np.ndarray:
        """One choice in every game."""
        self.intervals["slowed"] = actions == self.right()
        self._step += 1
        equal = bool((self._out == self._out[0]).all())
        self._deal()
        if equal and not again:
            self.counts[:], self._out[:] = self.counts[0], self._out[0]
        return np.full(self.num_envs, self._step % 8 == 0, np.int8)

    @staticmethod
    def reward(z: np.ndarray) -> np.ndarray:
        """1 for the right slot."""
        return z["slowed"].copy()

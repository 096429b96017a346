"""A conformance kit for user-defined policies and encoders, and a task every learner must solve. Our tests use it too."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from jobwise.decision import Policy
from jobwise.policies.names import resolve
from jobwise.policies.scheduler import Scheduler
from jobwise.sim.simulation import Simulation
from jobwise.sim.state import State, allocate
from jobwise.simulate import simulate
from jobwise.workload import Workload
from jobwise.worlds import EpisodeWorld
from jobwise.worlds.window import passes as window
from jobwise.worlds.window import tables
from jobwise.worlds.window.encoder import Encoder
from jobwise.worlds.window.settings import WindowSettings


def check_encoder(encoder: Encoder, workload: Workload, steps: int = 200, seed: int = 0) -> None:
    """Play random choices on copies of a workload and look at what the encoder shows. Raises AssertionError.

    Numbers are finite and within `bounds`; rows behind the last job of a per-job window are zero; the same state gives
    the same numbers in every batch; truth, the order of ends and the future have no effect: hiding them changes nothing.
    """
    E, rng = 3, np.random.default_rng(seed)
    s = allocate([workload] * E, workload.cluster, seed=seed)
    c = WindowSettings("pick").allocate(s, encoder.window)
    out, work = encoder.buffers(E)
    low, high = encoder.bounds
    window.ask(s, c, window.BEGIN)
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
        saved = poison(s, rng)
        again, memory = encoder.buffers(E)
        for e in reversed(range(E)):
            encoder.encode(s, c, again, memory, e, e + 1)
        restore(s, saved)
        assert np.array_equal(out, again), f"{encoder.name}: the same state gives other numbers (does it read the truth?)"
        window.ask(s, c, rng.integers(0, np.maximum(c.moment["count"], 1)))


LINKS = ("heap", "next", "prev")  # of the queue and the heap: no truths


def poison(s: State, rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    """Hide from the state what no scheduler may know: truth becomes NaN, the heap of completions is shuffled, rows of jobs to
    come are nonsense. What `restore` needs to put it back."""
    saved = s.truth.copy(), s.lists.copy(), s.jobs.copy()
    for e in range(len(s.sims)):  # the order of the running rows tells who ends first, the rows to come what comes
        rng.shuffle(s.lists[e, 0, : s.sims["running"][e]])
        coming = s.jobs[e, s.sims["next"][e] :]
        coming["submit"], coming["walltime"], coming["request"], coming["user"] = np.nan, np.nan, -9, -9
    for name in set(s.truth.dtype.names or ()) - set(LINKS):
        s.truth[name] = np.nan if s.truth.dtype[name].kind == "f" else -9
    return saved


def restore(s: State, saved: tuple[np.ndarray, ...]) -> None:
    """Undo what `poison` did to a state."""
    s.truth[:], s.lists[:], s.jobs[:] = saved


def check_policy(policy: str | Policy, workload: Workload, long_jobs: int = 4, passes: int = 60, seed: int = 0) -> None:
    """Does a policy keep to what a scheduler may know? Raises AssertionError.

    Its decisions are the same where truth, the order of ends, and jobs to come are hidden from the state before a view is made
    (`passes` instants). And in whole replays: where one long job runs longer, or shorter, no start moves that was made before
    that job ended; where the jobs of the last third are others, none moves that was made before they came.
    """
    chosen: Any = resolve(policy)
    name = chosen.name
    clean, hidden = (_asked(chosen, workload, passes, seed, hide) for hide in (False, True))
    for k, (open_, masked) in enumerate(zip(clean, hidden, strict=True)):
        for what, a, b in zip(("queue", "running", "ended", "free", "decisions"), open_, masked, strict=True):
            assert a == b, f"{name}: at instant {k} its {what} are others where truth and future are hidden"
    plain = simulate(workload, chosen, seed=seed).jobs
    every = np.argsort(-workload.truth["runtime"], kind="stable")
    for j in every[: max(len(every) // 4, 1)][:: max(len(every) // 4 // long_jobs, 1)][:long_jobs]:
        for factor in (4.0, 0.25):
            other = replace(workload, truth=workload.truth.copy())
            other.truth["runtime"][j] *= factor
            moved = simulate(other, chosen, seed=seed).jobs
            _same_before(plain, moved, min(plain["end"][j], moved["end"][j]), f"{name}: job {j} runs {factor:g} times as long")
    cut = 2 * len(workload) // 3
    other = replace(workload, jobs=workload.jobs.copy(), truth=workload.truth.copy())
    for field in ("request", "user"):
        other.jobs[field][cut:] = other.jobs[field][cut:][::-1]
    for column in (other.jobs["walltime"], other.truth["runtime"]):
        column[cut:] = 3 * column[cut:][::-1]
    moved = simulate(other, chosen, seed=seed).jobs
    _same_before(plain, moved, workload.jobs["submit"][cut], f"{name}: later jobs are others")


def _asked(policy: Scheduler, workload: Workload, passes: int, seed: int, hide: bool) -> list[tuple]:
    """Return a policy's inputs and decisions at the first `passes` instants; `hide`: the state hides unknown values."""
    single = policy.single_events
    sim, rng, log = Simulation(workload, seed=seed, single_events=single), np.random.default_rng(seed), []
    run = policy.begin(sim.view())
    for _ in range(passes):
        if sim.done or not sim.advance():
            break
        saved = poison(sim.state, rng) if hide else None
        view = sim.view()
        if len(view.ended):
            run.ended(view, view.ended)
        decisions = list(run.decide(view) or ())
        if saved is not None:
            restore(sim.state, saved)
        log.append((*(x.tolist() for x in (view.queue, view.running, view.ended, view.free)), decisions))
        sim.apply(decisions)
    return log


def _same_before(one: np.ndarray, other: np.ndarray, time: float, what: str) -> None:
    early = (one["start"] < time) | (other["start"] < time)
    off = np.flatnonzero(early & (one["start"] != other["start"]))
    assert not len(off), (
        f"{what}, and job {off[0]} starts at {other['start'][off[0]]:g} s instead of {one['start'][off[0]]:g} s, which nobody "
        f"could know before {time:g} s"
    )


def check_world(world: EpisodeWorld, encoder: Encoder, steps: int = 200, seed: int = 0) -> None:
    """Play random valid actions in a world, with episodes that begin again. Raises AssertionError.

    A valid action is always there; transitions and observations are finite, and observations within the encoder's bounds; what
    has been restored from `arrays` goes on to the same transitions; an episode that is over begins again with a choice to make.
    """
    E, rng = len(world.done), np.random.default_rng(seed)
    dice = [np.random.default_rng([seed, e]) for e in range(E)]
    out, low, high = np.zeros((E, *encoder.shape), np.float32), *encoder.bounds
    shape = (*world.action_shape, world.actions)
    assert world.mask.shape == (E, *shape) and world.blank_mask().shape == shape
    for e in range(E):
        world.reset(e, dice[e], True)

    def step(actions: np.ndarray) -> np.ndarray:
        world.step(actions, True, 0, E)
        return world.transition.copy()

    for k in range(steps):
        world.encode(encoder, out, 0, E)
        assert world.mask.any(axis=-1).all() and (world.counts > 0).all(), "no action is valid"
        assert np.isfinite(out).all() and low <= out.min() and out.max() <= high, (
            f"observations are not within {encoder.bounds}"
        )
        every = world.mask.reshape(-1, world.actions)
        actions = np.array([rng.choice(np.flatnonzero(m)) for m in every]).reshape(world.mask.shape[:-1])
        if k % 10 == 0:
            kept = {name: x.copy() for name, x in world.arrays().items()}
            one = step(actions)
            for name, x in world.arrays().items():
                x[...] = kept[name]
            again = step(actions)
            assert one.tobytes() == again.tobytes(), "a restored world goes on in another way"
        else:
            one = step(actions)
        for name in one.dtype.names or ():
            assert np.isfinite(one[name]).all(), f"{name} of the transitions is not finite"
        for over in np.flatnonzero(world.done).tolist():
            world.next_episode(over, dice[over])


class Identity:
    """E games of one choice after the other: the right slot is the one whose first feature is largest.

    Has what learners need of an environment: `num_envs`, `counts`, `show`, `choose`, `reset`, `intervals`, `reward`. A
    reward is 1 for the right slot; an episode has 8 choices.
    """

    def __init__(self, encoder: Encoder, num_envs: int = 16, seed: int = 0):
        self.encoder, self.num_envs, self._rng = encoder, num_envs, np.random.default_rng(seed)
        self._out = encoder.buffers(num_envs)[0]
        self.counts = np.zeros(num_envs, np.int64)
        self.intervals = np.zeros(num_envs, tables.interval_dtype)
        self._step, self.masks, self.action_shape = 0, None, ()
        self._deal()

    def _deal(self) -> None:
        self.counts[:] = self._rng.integers(2, min(self.encoder.window, 6) + 1, self.num_envs)
        self._out[:] = 0
        for e, k in enumerate(self.counts):
            rows = k if self.encoder.per_job else len(self._out[e])
            self._out[e, :rows] = self._rng.random(self._out[e, :rows].shape)

    def right(self) -> np.ndarray:
        """The slots [E] that earn the reward."""
        rows = self._out[:, :, 0] if self.encoder.per_job else self._out[:, 0 : 2 * self.encoder.window : 2, 0]
        there = np.arange(self.encoder.window) < self.counts[:, None]
        return np.where(there, rows[:, : self.encoder.window], -1.0).argmax(axis=1)

    def show(self) -> np.ndarray:
        """Return the observations of all environments."""
        return self._out

    def reset(self, *, seed: Any = None) -> None:
        """Begin again; equal seeds of all games make all games equal."""
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


def check_workload(w: Workload) -> None:
    """Hold a workload to what simulations count on. Raises AssertionError.

    Submits ascend from 0; numbers are finite; requests fit the cluster; edges lead from job to job without a circle; nothing
    has happened yet; FCFS brings every job to its end.
    """
    J, jobs, truth = len(w), w.jobs, w.truth
    assert len(truth) == J, f"{len(jobs)} jobs, {len(truth)} run times"
    assert J == 0 or (jobs["submit"][0] == 0 and (np.diff(jobs["submit"]) >= 0).all()), "submits ascend from 0"
    for name, x in (("submit", jobs["submit"]), ("walltime", jobs["walltime"]), ("runtime", truth["runtime"])):
        assert np.isfinite(x).all() and (x >= 0).all(), f"{name} is finite and not negative"
    assert w.cluster.holds(jobs["request"], jobs["chunks"]).all(), "every request fits the empty cluster"
    for name in ("start", "end", "due", "reserved"):
        assert np.isnan(jobs[name]).all(), f"{name} is not known before a simulation"
    assert (jobs["status"] == 0).all() and (jobs["ran"] == 0).all(), "nothing has happened yet"
    edges = np.asarray(w.edges).reshape(-1, 2)
    assert ((edges >= 0) & (edges < J)).all() and (edges[:, 0] != edges[:, 1]).all(), "edges are rows of different jobs"
    assert np.array_equal(jobs["unmet"], np.bincount(edges[:, 1], minlength=J)), "unmet counts the parents of a job"
    assert (np.diff(w.past["end"]) >= 0).all() and (w.past["end"] <= 0).all(), "past jobs ended before time 0, in order of end"
    r = simulate(w, "fcfs")
    assert np.isfinite(r.jobs["end"]).all(), "every job comes to its end"
    assert (r.jobs["start"] >= jobs["submit"])[~np.isnan(r.jobs["start"])].all(), "no job starts before its submit"

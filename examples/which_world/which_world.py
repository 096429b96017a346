"""A world of another package: which of two rules makes the next scheduling pass?

action   0: first come, first served; 1: the shortest first (both with EASY backfilling)
policy   `which:fcfs`, `which:sjf`, and one that is trained: the shortest first where more than so many jobs wait
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import numpy as np

import jobwise as jw
from jobwise.errors import unknown
from jobwise.jobs import past_dtype
from jobwise.learn.run_folder import opened
from jobwise.learn.run_settings import RunSettings
from jobwise.policies import files
from jobwise.policies.chooser import Chooser
from jobwise.policies.names import load, resolve
from jobwise.sim.simulation import Simulation
from jobwise.workloads.jobsets import TEST, TRAIN, VALIDATION
from jobwise.worlds.spec import SystemSpec, WorldSpec

HEADING = "which rule makes a pass"
RULES = {"fcfs": np.inf, "sjf": -1.0}  # rule: jobs that wait at most where it makes the pass by first come, first served
report_dtype = np.dtype([("waited", "f8"), ("total", "f8"), ("started", "f8")])


class WhichWorld:
    """E simulations; see `jobwise.worlds.World`."""

    actions, action_shape, masks, measure = 2, (), None, "mean wait, s"

    def __init__(self, sims: Sequence[Simulation]):
        self.sims, E = list(sims), len(sims)
        self.rules = [resolve("fcfs+easy"), resolve("sjf+easy")]
        self.mask, self.counts = np.ones((E, 2), np.int8), np.full(E, 2)
        self.transition, self.done = np.zeros(E, report_dtype), np.zeros(E, np.int8)

    @property
    def asked(self) -> np.ndarray:
        """[E] bool: which simulations stand at a decision point."""
        return self.done == 0

    @property
    def state(self):
        """The State of the first simulation."""
        return self.sims[0].state

    @property
    def now(self) -> float:
        """Time of the first simulation, s."""
        return self.sims[0].now

    @property
    def moment(self) -> tuple[int, int]:
        """(time of the first simulation in s, jobs that wait)."""
        return int(self.now), len(self.sims[0].view().queue)

    def begin(self) -> int:
        """Go to the first decision points. Returns how many simulations stand at one."""
        for e in range(len(self.sims)):
            self._go_on(e)
        return int(self.asked.sum())

    def advance(self, actions: np.ndarray) -> int:
        """Make a pass by rule actions[e] in each simulation and go on. Returns how many stand at a decision point."""
        for e in np.flatnonzero(self.asked):
            self._pass(e, actions[e])
        return int(self.asked.sum())

    def _pass(self, e: int, action: int) -> None:
        sim = self.sims[e]
        sim.apply(self.rules[action].decide(sim.view()))
        self._go_on(e)

    def _go_on(self, e: int) -> None:
        """Go on to the next instant at which a job waits that could start."""
        sim, told = self.sims[e], self.transition[e]
        told["waited"] = 0.0
        while True:
            waiting, before = len(sim.view().queue), sim.now
            if sim.done or not sim.advance():
                break
            told["waited"] += waiting * (sim.now - before)
            if len(sim.view().queue):
                break
        jobs = sim.state.jobs[0]
        started = ~np.isnan(jobs["start"])
        told["total"], told["started"] = (jobs["start"] - jobs["submit"])[started].sum(), started.sum()
        self.done[e] = sim.done

    def encode(self, encoder, out: np.ndarray, first: int = 0, last: int | None = None) -> None:
        """Fill out[first:last] with observations."""
        for e in range(first, len(out) if last is None else last):
            out[e] = encoder.numbers(self.sims[e].view())

    def picture(self, e: int) -> np.ndarray:
        """[24, 200, 3] uint8: how much of the machine is busy, and a dot for each job that waits."""
        view, out = self.sims[e].view(), np.full((24, 200, 3), 255, np.uint8)
        out[2:10, : int(200 * (1 - view.free.sum() / view.cluster.total.sum()))] = (27, 108, 168)
        out[14:18, : min(3 * len(view.queue), 200) : 3] = (209, 73, 91)
        return out


class WhichEpisodes(WhichWorld):
    """Windows of `jobs` jobs of a log, drawn anew; see `jobwise.worlds.EpisodeWorld`."""

    ends, steps_in_stream = {"wait": "total", "jobs": "started"}, None

    def __init__(self, log: jw.Workload, count: int, jobs: int):
        self.log, self.jobs = log, min(jobs, len(log))
        super().__init__([None] * count)

    def reset(self, e: int, rng: np.random.Generator, seeded: bool) -> None:
        """Begin an episode of simulation e."""
        first = int(rng.integers(len(self.log) - self.jobs + 1))
        self.sims[e] = Simulation(self.log.take(slice(first, first + self.jobs)))
        self._go_on(e)

    def step(self, actions: np.ndarray, autoreset: bool, first: int, last: int) -> None:
        """Make the passes of simulations first .. last - 1."""
        for e in range(first, last):
            self._pass(e, actions[e])

    def next_episode(self, e: int, rng: np.random.Generator) -> bool:
        """Begin again."""
        self.reset(e, rng, False)
        return True

    def blank_mask(self) -> np.ndarray:
        """[A] both actions."""
        return self.mask[0]

    def forget(self, cut: np.ndarray) -> None:
        """There are no streams."""

    def arrays(self) -> dict[str, np.ndarray]:
        """All there is to go on from, by name."""
        states = {f"{k}{e}": v for e, sim in enumerate(self.sims) for k, v in sim.state._asdict().items()}
        return states | {"told": self.transition, "done": self.done}


@dataclass(frozen=True)
class Load:
    """An encoder: how many jobs wait, how much of the machine is free."""

    shape: tuple = (2,)
    bounds: tuple = (0.0, 1.0)

    def numbers(self, view) -> tuple[float, float]:
        """Return the two numbers of a view."""
        return len(view.queue) / (1 + len(view.queue)), view.free.sum() / view.cluster.total.sum()


# ------------------------------------------------------------------ policies


@dataclass(frozen=True, eq=False)
class WhichPolicy(Chooser):
    """The shortest first where more than `threshold` jobs wait, else first come, first served."""

    spec, jobsets, single_events = "which", True, False

    threshold: float
    label: str
    about: dict = field(default_factory=dict)
    tick: float = 0.0
    limit: float = np.inf

    @property
    def name(self) -> str:
        """Its label."""
        return self.label

    def attach(self, s, cluster) -> WhichWorld:
        """Return its world over the simulations of `s`."""
        none = {"cluster": cluster, "edges": np.zeros((0, 2), int), "past": np.zeros(0, past_dtype), "offset": 0.0}
        return WhichWorld([Simulation.of(s.one(e), SimpleNamespace(**none), cluster) for e in range(len(s.sims))])

    def chooser(self, world, cluster) -> Callable:
        """Return what chooses actions [E]."""
        return lambda world: np.array([len(sim.view().queue) > self.threshold for sim in world.sims], int)

    def save(self, path: str | Path) -> None:
        """Write the policy file."""
        files.write(path, {"kind": "which", "about": self.about}, {"threshold": np.array([self.threshold])})


def from_file(parts: dict, weights: dict[str, np.ndarray], label: str) -> WhichPolicy:
    """Return the policy of a file that has been read."""
    return WhichPolicy(float(weights["threshold"][0]), label, dict(parts["about"]))


def named(policy: str) -> WhichPolicy:
    """Return the policy of a name `which:RULE`. Raises InputError."""
    rule = policy.removeprefix("which:")
    if rule not in RULES:
        raise unknown("rule", rule, RULES, f"policy {policy!r}: ")
    return WhichPolicy(RULES[rule], policy)


def rows() -> dict[str, str]:
    """Return {name: what it does}, for `jobwise policies`."""
    return {f"which:{rule}": f"{rule} with EASY makes every pass" for rule in RULES}


# ------------------------------------------------------------------ learning


class WhichConfig(RunSettings):
    """Everything that decides what a run becomes."""

    measure: ClassVar[str] = "mean bounded slowdown"
    aside: ClassVar[str] = "nothing"
    logged: ClassVar[bool] = False

    system: str = "which"
    jobs: int = 60
    jobsets: int = 4

    @classmethod
    def of(cls, policy: WhichPolicy) -> WhichConfig:
        """Return what a policy was trained with."""
        return cls.checked(policy.about["config"])

    def checked_log(self, log, name: str) -> None:
        """Raises InputError where a log is given: the jobs are generated."""
        if log is not None:
            raise jw.InputError(f"policy {name} is for generated jobs: name no log")

    def sets(self, part: int, count: int, log=None) -> list[jw.Workload]:
        """Return `count` jobsets to train on, validate or test with."""
        return [jw.lublin(self.jobs, procs=32, load=1.0, seed=1000 * part + i) for i in range(count)]

    def rules(self) -> list[str]:
        """Return the rules to compare with."""
        return list(RULES)

    def rule(self, name: str) -> WhichPolicy:
        """Return a rule by name."""
        return named(f"which:{name}")

    def judged(self, sets, policy: str | WhichPolicy, seed: int, row_s: float) -> dict[str, list]:
        """Return per jobset what a policy makes of it."""
        found = [r.summary() for r in jw.simulate_many(sets, self.rule(policy) if isinstance(policy, str) else policy)]
        none = [0.0] * len(found)
        slowdown, longest = ([x[k] for x in found] for k in ("bounded_slowdown", "max_wait"))
        return {"slowdown": slowdown, "longest": longest, "stretch": none, "lost": none}

    def train(self, log, folder, *, seeds=1, device="cpu", resume=False, report=None) -> list[WhichPolicy]:
        """Try thresholds on the training jobsets."""
        folder, train = Path(folder), self.sets(TRAIN, self.jobsets)
        opened(folder, self, train[0], resume)

        def score(policy, sets) -> float:
            return float(np.mean(self.judged(sets, policy, self.seed, 0.0)["slowdown"]))

        best = min((-1.0, 2.0, 8.0, 32.0), key=lambda x: score(WhichPolicy(x, "tried"), train))
        kept = self.sets(VALIDATION, self.jobsets)
        rules = {r: score(r, kept) for r in RULES}
        rule, mine = min(rules, key=rules.get), WhichPolicy(best, folder.name)
        about = {"config": self.model_dump(), "best_rule": [rule, rules[rule]], "validation": score(mine, kept), "choices": 4}
        WhichPolicy(best, folder.name, about).save(folder / "policy.safetensors")
        if report:
            report(0, {"part": 1.0})
        return [load(folder)]


def configure(log, preset: str) -> WhichConfig:
    """Return the configuration: more jobsets for larger presets."""
    return WhichConfig(preset=preset, jobsets={"smoke": 2, "small": 8, "paper": 50}[preset])


def generated(name: str, number: int, machine) -> jw.Workload:
    """Return the unseen jobset `number`."""
    return WhichConfig().sets(TEST, number + 1)[number]


def __getattr__(name: str):
    """WhichEnv and WhichVectorEnv, made at first use: they need Gymnasium."""
    if name not in ("WhichEnv", "WhichVectorEnv"):
        raise AttributeError(name)
    from jobwise.learn.vector_env import SingleEnv, VectorEnv

    class WhichVectorEnv(VectorEnv):
        """E simulations. Observations [E, 2]; actions [E], 0 or 1; reward: minus the hours waited until the next choice."""

        def __init__(self, num_envs: int = 1, workload: jw.Workload | None = None, *, jobs: int = 50, **settings):
            world = WhichEpisodes(workload or jw.lublin(400, procs=32, seed=0), num_envs, jobs)
            super().__init__(world, Load(), lambda told: -told["waited"] / 3600, **settings)

    class WhichEnv(SingleEnv):
        """One simulation."""

        batch = WhichVectorEnv

    return {"WhichEnv": WhichEnv, "WhichVectorEnv": WhichVectorEnv}[name]


SPEC = WorldSpec(
    "which",
    policy="which_world",
    env="which_world:Which",
    ids=("Which",),
    kinds={"which": "from_file"},
    config="which_world:WhichConfig",
    systems=(SystemSpec("which", "which_world:configure", on_log=False, needs=()),),
    generated={"which": "which_world:generated"},
    films="which",
)

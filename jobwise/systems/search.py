"""Search: a log-linear order with history and ageing, its weights found by evolution strategies on the log itself.

State: 14 features of a job (`jobwise.sim.memory.loglinear`). Action: the smallest score is next, EASY behind it. Reward:
bounded slowdown of whole time-shifted windows against a reference. Of the first 70 % of the log, the last fifth is not
searched on: there it is decided whether the search has beaten the order it began at. See `docs/systems/search.md`.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from pydantic import Field

from jobwise import __version__
from jobwise.compare import windows
from jobwise.compare.fingerprint import public_hash, sketch
from jobwise.errors import InputError
from jobwise.learn import evolution
from jobwise.learn.evolution import ORDERS, Search, SearchGround, fitness
from jobwise.learn.run import Trainer
from jobwise.learn.run_folder import score
from jobwise.learn.run_settings import RunSettings
from jobwise.policies import loglinear
from jobwise.policies.list_scheduler import ListScheduler
from jobwise.policies.loglinear import INDICES, Index
from jobwise.sim.memory.loglinear import F, weights
from jobwise.sim.pool import replay_batch
from jobwise.simulate import simulate_many
from jobwise.workload import Workload
from jobwise.workloads.transform import SEEN, shake, stretch

AGEING: tuple[dict[str, float], ...] = (
    {},
    {"log_stretch": -4.0},
    {"log_wait": -2.0},
    {"log_wait": -4.0},
    {"log_wait": -2.0, "log_stretch": -2.0},
)
KEPT = 0.2  # share of the training part that is not searched on
JUDGED = 24  # windows of it on which progress is shown


class SearchConfig(RunSettings):
    """Everything that decides what a search finds. TOML files have the same keys."""

    system: str = "search"
    window_jobs: int = Field(1024, ge=2)
    windows: int = Field(256, ge=1)  # places in the training part where windows begin
    shakes: int = Field(2, ge=1)  # replicas of each
    shake_s: float = Field(300.0, ge=0, le=1e8)
    loads: list[float] = [1.0]  # factors on the arrival rate, replica by replica
    generations: int = Field(80, ge=1)
    pairs: int = Field(12, ge=1)
    sample: int = Field(24, ge=1)  # windows a generation
    validations: int = Field(20, ge=1)

    share: float = Field(SEEN, gt=0, le=1)  # of the log that it may see: the first part

    def trainer(self, log: Workload, device: str) -> SearchTrainer:
        """Return the trainer that a run asks: see `jobwise.learn.run.Trainer`."""
        return SearchTrainer(self, log)

    def device(self, name: str) -> str:
        """Return cpu. Raises InputError for a device that is no processor."""
        if name not in ("cpu", "auto"):
            raise InputError(f"search replays on processors; it has no use for the device {name!r}")
        return "cpu"


def configure(log: Workload, preset: str) -> SearchConfig:
    """The configuration for a log."""
    jobs = min(1024, max(len(log) // 20, 2))
    if preset == "smoke":
        return SearchConfig(window_jobs=jobs, windows=4, shakes=1, generations=4, pairs=3, sample=4, validations=2)
    return SearchConfig(window_jobs=jobs, generations=80 if preset == "small" else 300)


def starts() -> dict[str, np.ndarray]:
    """Return the starting points of a search: the indices, each with some ways to age."""
    plain = {name: x.terms() for name, x in INDICES.items() if not name.endswith("-aged")}
    plain["no-width"] = plain["smith"] | {"log_processors": 0.0}
    return {
        "+".join([name, *(f"{k}{v:+g}" for k, v in aged.items())]): weights(**{**terms, **aged})
        for name, terms in plain.items()
        for aged in AGEING
    }


class SearchTrainer(Trainer):
    """A search on a log: on the first four fifths of what it may see; on the last fifth it is decided whether the search has
    beaten the order that it began at."""

    board, newest = False, True

    def __init__(self, config: SearchConfig, log: Workload):
        self.config, self.log, self.recent = config, log, []
        self.seen = log.take(slice(0, int(config.share * len(log))))
        self.cut = int((1 - KEPT) * len(self.seen))
        jobs = config.window_jobs
        if not 2 <= jobs <= self.cut or len(self.seen) - self.cut < 2:
            raise InputError(f"{log.name}: windows of {jobs} jobs do not fit {self.cut} jobs to learn from")
        self.search = Search(config.generations, config.pairs, config.sample)
        first = np.unique(np.linspace(0, self.cut - jobs, config.windows).astype(int))
        self.ground = SearchGround(self._windows(first, jobs, config.shakes, config.loads), config.threads)
        self.jobs = jobs = min(jobs, len(self.seen) - self.cut)
        first = np.unique(np.linspace(self.cut, len(self.seen) - jobs, JUDGED).astype(int))
        self.judged = SearchGround(self._windows(first, jobs, 1, [1.0]), config.threads)
        self.budget = [("updates", config.generations)]

    def _windows(self, first: np.ndarray, jobs: int, shakes: int, loads: list[float]) -> list[Workload]:
        return [
            shake(stretch(self.seen.take(slice(i, i + jobs)), 1 / loads[k % len(loads)]), self.config.shake_s, [i, k])
            for i in first
            for k in range(shakes)
        ]

    def begin(self) -> None:
        """Begin at the best of the known orders."""
        names, vectors = zip(*starts().items(), strict=True)
        every = np.arange(self.ground.count)
        self.base = self.ground.measure(INDICES["smith"].weights[None], every)[0, :, replay_batch.BOUNDED]
        k = int(np.argmin(fitness(self.ground.measure(np.array(vectors), every), self.base)))
        self.name, self.start = names[k], vectors[k]
        self.found = evolution.begin(self.start)

    def update(self, updates: int) -> dict:
        """Try directions for one generation, and move along them."""
        self.found = evolution.generation(self.ground, self.found, self.base, self.search, self.config.seed)
        replays = self.found.pop("replays")
        return {"fitness": self.found.pop("fitness"), "choices": replays * self.jobs, "episodes": replays}

    def score(self, weights: np.ndarray) -> float:
        """`jobwise.learn.run_folder.score` of weights on windows that the search does not see."""
        return score(self.judged.measure(weights[None], np.arange(self.judged.count))[0, :, replay_batch.BOUNDED])

    def validate(self, policy: ListScheduler) -> dict:
        """The score of the mean weights so far."""
        return {"validation": self.score(evolution.answer(self.found))}

    def best_rule(self) -> tuple[str, float]:
        """The rule that does best on the same windows, and its score."""
        scores = [(f"{n}+easy", score(self.judged.rule(n))) for n in ORDERS]
        scores += [(f"{n}+easy", self.score(x.weights)) for n, x in INDICES.items()]
        return min(scores, key=lambda x: x[1])

    def weights(self) -> dict[str, np.ndarray]:
        """Return the mean weights so far."""
        return {"weights": evolution.answer(self.found)}

    def policy(self, weights: dict[str, np.ndarray], about: dict) -> ListScheduler:
        """The order with these weights."""
        known = {
            "system": "search",
            "log": self.log.name,
            "log_sha256": public_hash(self.log),
            "trained_on": sketch([self.seen]),
            "jobs": len(self.log),
            "processors": self.log.cluster.processors,
            "seed": self.config.seed,
            "preset": self.config.preset,
            "start": self.name,
            "jobwise": __version__,
        }
        return ListScheduler(Index("search", np.asarray(weights["weights"]), known | about), "easy")

    def keep(self, policy: ListScheduler, folder: Path) -> ListScheduler:
        """Write the better one of what was searched and its start, by the jobs kept back, as `policy.safetensors`; both beside
        it, as `searched.safetensors` and `start.safetensors`."""
        both = {"start": self.start, "searched": evolution.answer(self.found)}
        scores = self._judged(both)
        chosen = min(both, key=lambda k: (scores[k], k != "start"))
        about = policy.about | {"chosen": chosen, "judged": scores, "validation": self.score(both[chosen])}
        for which, vector in both.items():
            loglinear.save(Index(which, vector, about | {"chosen": which}), folder / f"{which}.safetensors")
        order = Index(folder.name, both[chosen], about)
        loglinear.save(order, folder / "policy.safetensors")
        return ListScheduler(order, "easy")

    def _judged(self, candidates: dict[str, np.ndarray]) -> dict[str, float]:
        """Return {name: geometric mean of bounded slowdowns on windows of the jobs kept back}."""
        size, shaking = min(self.jobs, windows.SIZE), (2, self.config.shake_s, self.config.seed)
        rows = windows.begins(self.cut, len(self.seen), size)
        parts = [x for row in rows for x in windows.shifted(self.seen, int(row), size, *shaking)]
        orders = {k: ListScheduler(Index(k, v), "easy") for k, v in candidates.items()}
        slowdowns = {k: windows.slowdowns(simulate_many(parts, order)) for k, order in orders.items()}
        return {k: float(np.exp(np.log(x).mean())) for k, x in slowdowns.items()}

    def state(self) -> dict:
        """Return where the search stands."""
        return dict(self.found)

    def restore(self, state: dict) -> None:
        """Go on from a checkpoint's state. Raises ValueError for one of other features."""
        self.begin()
        if not len(state["weights"]) == len(state["sum"]) == F:
            raise ValueError(f"{len(state['weights'])} weights; {F} are expected")
        self.found = state

"""Search: a log-linear order with history and ageing, its weights found by evolution strategies on the log itself.

State: 14 features of a job (`jobwise.sim.memory.loglinear`). Action: the smallest score is next, EASY behind it. Reward:
bounded slowdown of whole time-shifted windows against a reference. Of the first 70 % of the log, the last fifth is not
searched on: there it is decided whether the search has beaten the order it began at. See `docs/systems/search.md`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import Field

from jobwise import __version__
from jobwise.compare import windows
from jobwise.compare.fingerprint import public_hash, sketch
from jobwise.errors import InputError
from jobwise.files import write_whole
from jobwise.learn.evolution import ORDERS, Search, SearchGround, evolve, fitness
from jobwise.learn.run_folder import opened, per_seed, score
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

    def train(self, log: Workload, folder: str | Path, **options: Any) -> list[ListScheduler]:
        """Search on a log; options as `train`."""
        self.alone()
        return train(self, log, folder, **options)


def configure(log: Workload, preset: str) -> SearchConfig:
    """The configuration for a log."""
    jobs = min(1024, max(len(log) // 20, 2))
    if preset == "smoke":
        return SearchConfig(window_jobs=jobs, windows=4, shakes=1, generations=4, pairs=3, sample=4, validations=2)
    return SearchConfig(window_jobs=jobs, generations=80 if preset == "small" else 300)


def starts() -> dict[str, np.ndarray]:
    """Where a search may begin: the indices, each with some ways to age."""
    plain = {name: x.terms() for name, x in INDICES.items() if not name.endswith("-aged")}
    plain["no-width"] = plain["smith"] | {"log_processors": 0.0}
    return {
        "+".join([name, *(f"{k}{v:+g}" for k, v in aged.items())]): weights(**{**terms, **aged})
        for name, terms in plain.items()
        for aged in AGEING
    }


class SearchRun:
    """One search in a folder. It searches on the first 56 % of the log and chooses on the next 14 %; the rest stays unseen."""

    def __init__(self, config: SearchConfig, log: Workload, folder: Path, resume: bool = False, share: float = SEEN):
        self.config, self.log, self.folder = config, log, folder
        self.seen = log.take(slice(0, int(share * len(log))))
        self.cut = int((1 - KEPT) * len(self.seen))
        self.part = self.seen.take(slice(0, self.cut))
        jobs = config.window_jobs
        if not 2 <= jobs <= len(self.part) or len(self.seen) - self.cut < 2:
            raise InputError(f"{log.name}: windows of {jobs} jobs do not fit {len(self.part)} jobs to learn from")
        self.search = Search(config.generations, config.pairs, config.sample)
        begin = np.unique(np.linspace(0, len(self.part) - jobs, config.windows).astype(int))
        self.ground = SearchGround(self._windows(begin, jobs, config.shakes, config.loads), config.threads)
        self.jobs = jobs = min(jobs, len(self.seen) - self.cut)
        begin = np.unique(np.linspace(self.cut, len(self.seen) - jobs, JUDGED).astype(int))
        self.judged = SearchGround(self._windows(begin, jobs, 1, [1.0]), config.threads)
        self.file = folder / "checkpoint.json"
        self.state: Any = None
        self.lines: list[dict] = []
        self.replays = 0
        if opened(folder, config, log, resume):
            self._restore()

    def _windows(self, begin: np.ndarray, jobs: int, shakes: int, loads: list[float]) -> list[Workload]:
        return [
            shake(stretch(self.seen.take(slice(i, i + jobs)), 1 / loads[k % len(loads)]), self.config.shake_s, [i, k])
            for i in begin
            for k in range(shakes)
        ]

    def _restore(self) -> None:
        if not self.file.exists():
            return
        try:
            kept = json.loads(self.file.read_text())
            self.state, self.lines, self.replays = kept["state"], kept["lines"], kept["replays"]
            good = len(self.state["weights"]) == len(self.state["sum"]) == F and self.state["generation"] >= 0
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InputError(f"{self.file}: is damaged: {error}; begin again in another folder") from None
        if not good:
            raise InputError(f"{self.file}: was written by another version of jobwise; begin again in another folder")

    def _start(self) -> tuple[str, np.ndarray]:
        """(name, weights) of the best of the known orders."""
        names, vectors = zip(*starts().items(), strict=True)
        every = np.arange(self.ground.count)
        self.base = self.ground.measure(INDICES["smith"].weights[None], every)[0, :, replay_batch.BOUNDED]
        k = int(np.argmin(fitness(self.ground.measure(np.array(vectors), every), self.base)))
        return names[k], vectors[k]

    def score(self, weights: np.ndarray) -> float:
        """`jobwise.learn.run_folder.score` of weights on windows that the search does not see."""
        return score(self.judged.measure(weights[None], np.arange(self.judged.count))[0, :, replay_batch.BOUNDED])

    def best_rule(self) -> tuple[str, float]:
        """The rule that does best on the same windows, and its score."""
        scores = [(f"{n}+easy", score(self.judged.rule(n))) for n in ORDERS]
        scores += [(f"{n}+easy", self.score(x.weights)) for n, x in INDICES.items()]
        return min(scores, key=lambda x: x[1])

    def run(self, report: Callable[[dict], None] | None = None) -> ListScheduler:
        """Search to the end; the policy, saved as `policy.safetensors`, beside `start.safetensors` and `searched.safetensors`,
        the two it was chosen from."""
        began = time.perf_counter()
        name, start = self._start()
        best_rule = self.best_rule()
        each = max(self.config.generations // self.config.validations, 1)

        def told(state: dict) -> None:
            done = state["generation"]
            self.replays += state.pop("replays")
            line = {"updates": done, "choices": self.replays * self.jobs, "fitness": state.pop("fitness")}
            if done % each == 0 or done == self.config.generations:
                mean = np.array(state["sum"]) / state["summed"] if state["summed"] else np.array(state["weights"])
                line |= {"validation": self.score(mean), "best_rule": best_rule[1]}
                line["best"] = line["validation"]  # the weights at the end count, not the luckiest on the way
            self.lines.append(line)
            if "validation" in line:
                write_whole(self.folder / "metrics.jsonl", "".join(f"{json.dumps(x)}\n" for x in self.lines))
                write_whole(self.file, json.dumps({"state": state, "lines": self.lines, "replays": self.replays}))
            if report:
                report(line | {"part": done / self.config.generations})

        best = evolve(self.ground, start, self.base, self.search, self.config.seed, self.state, told)
        both = {"start": start, "searched": best}
        scores = self._judged(both)
        chosen = min(both, key=lambda k: (scores[k], k != "start"))
        about = {
            "system": "search",
            "log": self.log.name,
            "log_sha256": public_hash(self.log),
            "trained_on": sketch([self.seen]),
            "jobs": len(self.log),
            "processors": self.log.cluster.processors,
            "seed": self.config.seed,
            "preset": self.config.preset,
            "choices": self.replays * self.jobs,
            "start": name,
            "chosen": chosen,
            "judged": scores,
            "validation": self.score(both[chosen]),
            "best_rule": list(best_rule),
            "seconds": time.perf_counter() - began,
            "jobwise": __version__,
        }
        for which, vector in both.items():
            one = Index(which, vector, about | {"chosen": which})
            loglinear.save(one, self.folder / f"{which}.safetensors")
        order = Index(self.folder.name, both[chosen], about)
        loglinear.save(order, self.folder / "policy.safetensors")
        return ListScheduler(order, "easy")

    def _judged(self, candidates: dict[str, np.ndarray]) -> dict[str, float]:
        """Return {name: geometric mean of bounded slowdowns on windows of the jobs kept back}."""
        size, shaking = min(self.jobs, windows.SIZE), (2, self.config.shake_s, self.config.seed)
        rows = windows.begins(self.cut, len(self.seen), size)
        parts = [x for row in rows for x in windows.replicas(self.seen, int(row), size, *shaking)]
        orders = {k: ListScheduler(Index(k, v), "easy") for k, v in candidates.items()}
        slowdowns = {k: windows.slowdowns(simulate_many(parts, order)) for k, order in orders.items()}
        return {k: float(np.exp(np.log(x).mean())) for k, x in slowdowns.items()}


def train(
    config: SearchConfig,
    log: Workload,
    folder: str | Path,
    *,
    seeds: int = 1,
    device: str = "cpu",
    resume: bool = False,
    share: float = SEEN,
    report: Callable[[int, dict], None] | None = None,
) -> list[ListScheduler]:
    """Search once per seed, as `jobwise.learn.run.train`, on the first `share` of the log. Raises InputError for a device that
    is no processor."""
    if device not in ("cpu", "auto"):
        raise InputError(f"search replays on processors; it has no use for the device {device!r}")

    def one(settings: SearchConfig, place: Path, report_line: Callable[[dict], None] | None) -> ListScheduler:
        return SearchRun(settings, log, place, resume, share).run(report_line)

    return per_seed(config, log, folder, seeds, resume, report, one)

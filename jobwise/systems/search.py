"""Search: a log-linear order with history and ageing, its weights found by evolution strategies on the log itself.

State: 14 features of a job (`jobwise.sim.linear`). Action: the smallest score is next, EASY behind it. Reward: bounded
slowdown of whole shaken windows against a reference, with a price on the longest wait if asked. See `docs/systems/search.md`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from jobwise import __version__
from jobwise.actions import Act
from jobwise.agents.search import Ground, Search, evolve, fitness
from jobwise.errors import InputError
from jobwise.files import write_whole
from jobwise.jobs import Workload
from jobwise.policies import index
from jobwise.policies.index import INDICES, Index
from jobwise.policies.listing import ListScheduler
from jobwise.policies.neural import load, public_hash, rules
from jobwise.sim import trial
from jobwise.simulate import simulate_many
from jobwise.train import about_run, check_same, explained, parts, run_folders, windows
from jobwise.workloads.transform import shake


class Config(BaseModel):
    """Everything that decides what a search finds. TOML files have the same keys."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    system: str = "search"
    window_jobs: int = Field(1024, ge=2)
    windows: int = Field(64, ge=1)  # places in the training part where windows begin
    shakes: int = Field(4, ge=1)  # replicas of each
    shake_s: float = Field(300.0, ge=0, le=1e8)
    generations: int = Field(120, ge=1)
    pairs: int = Field(12, ge=1)
    sample: int = Field(20, ge=1)  # windows a generation
    max_wait: float | None = Field(None, gt=0)  # times the longest wait of FCFS with EASY; None: any
    validations: int = Field(20, ge=1)
    seed: int = Field(0, ge=0, lt=2**31)
    threads: int = Field(2, ge=1, le=1024)

    def changed(self, **changes: Any) -> Config:
        """The same with changes, checked. Raises InputError."""
        try:
            return Config(**(self.model_dump() | changes))
        except ValidationError as error:
            raise explained(error, Config) from None


def configure(log: Workload, preset: str) -> Config:
    """The configuration for a log."""
    jobs = min(1024, max(len(log) // 20, 2))
    if preset == "smoke":
        return Config(window_jobs=jobs, windows=4, shakes=1, generations=4, pairs=3, sample=4, validations=2)
    return Config(window_jobs=jobs, generations=120 if preset == "small" else 300)


class Run:
    """One search in a folder."""

    def __init__(self, config: Config, log: Workload, folder: Path, resume: bool = False):
        self.config, self.log, self.folder = config, log, folder
        train, validate, _ = parts(log)
        if config.window_jobs > len(train):
            raise InputError(f"{log.name}: windows of {config.window_jobs} jobs do not fit {len(train)} jobs to learn from")
        self.search = Search(
            config.generations, config.pairs, config.sample, max_wait=np.inf if config.max_wait is None else config.max_wait
        )
        begin = np.unique(np.linspace(0, len(train) - config.window_jobs, config.windows).astype(int))
        places = [train.take(slice(i, i + config.window_jobs)) for i in begin]
        self.windows = [
            shake(w, config.shake_s, [config.seed, int(i), k])
            for i, w in zip(begin, places, strict=True)
            for k in range(config.shakes)
        ]
        self.ground = Ground(self.windows, config.threads)
        self.validation = windows(validate, config.window_jobs, 16, config.shake_s, config.seed)
        self.judge = Ground(self.validation, config.threads)
        self.file = folder / "checkpoint.json"
        self.state, self.lines, self.placements = None, [], 0
        about = about_run(config, log)
        if (folder / "run.json").exists():
            if not resume:
                raise InputError(f"{folder}: holds a run already; --resume goes on with it, or name another folder")
            check_same(folder, about)
            if self.file.exists():
                kept = json.loads(self.file.read_text())
                self.state, self.lines, self.placements = kept["state"], kept["lines"], kept["placements"]
        else:
            folder.mkdir(parents=True, exist_ok=True)
            write_whole(folder / "run.json", json.dumps(about, indent=1))

    def score(self, weights: np.ndarray) -> float:
        """On the validation windows, as `jobwise.train.score`."""
        x = self.judge.measure(weights[None], np.arange(self.judge.count))[0, :, trial.BOUNDED]
        return float(np.exp(0.5 * np.log(x.mean()) + 0.5 * np.log(x).mean()))

    def run(self, report: Callable[[dict], None] | None = None) -> ListScheduler:
        """Search to the end; the policy, saved as `policy.safetensors`."""
        began = time.perf_counter()
        fcfs = np.array([r.summary()["max_wait"] for r in simulate_many(self.windows, "fcfs+easy")])
        every = np.arange(self.ground.count)
        found = self.ground.measure(np.array([x.weights for x in INDICES.values()]), every)
        base = found[list(INDICES).index("smith-aged"), :, trial.BOUNDED]
        first = int(np.argmin(fitness(found, base, fcfs, self.search)))
        start = list(INDICES.values())[first]
        names = [*rules(Act("pick")), *(f"{name}+easy" for name in INDICES)]
        best_rule = min(((r, _score(self.validation, r)) for r in names), key=lambda x: x[1])
        each = max(self.config.generations // self.config.validations, 1)

        def told(state: dict) -> None:
            fit = {k: state.pop(k) for k in ("fitness", "best")}
            done = state["generation"]
            self.placements += 2 * self.config.pairs * self.config.sample * self.config.window_jobs
            line = {"updates": done, "choices": self.placements, "fitness": fit["fitness"]}
            if done % each == 0 or done == self.config.generations:
                mean = np.array(state["sum"]) / state["summed"] if state["summed"] else np.array(state["weights"])
                line |= {"validation": self.score(mean), "best_rule": best_rule[1]}
                line["best"] = line["validation"]  # the weights at the end count, not the luckiest on the way
            self.lines.append(line)
            if "validation" in line:
                write_whole(self.folder / "metrics.jsonl", "".join(f"{json.dumps(x)}\n" for x in self.lines))
                kept = {"state": state, "lines": self.lines, "placements": self.placements}
                write_whole(self.file, json.dumps(kept))
            if report:
                report(line | {"part": done / self.config.generations})

        weights = evolve(self.ground, start.weights, base, fcfs, self.search, self.config.seed, self.state, told)
        about = {
            "system": "search",
            "log": self.log.name,
            "log_sha256": public_hash(self.log),
            "jobs": len(self.log),
            "processors": self.log.cluster.processors,
            "seed": self.config.seed,
            "choices": self.placements,
            "start": start.label,
            "max_wait": self.config.max_wait,
            "validation": self.score(weights),
            "best_rule": list(best_rule),
            "seconds": time.perf_counter() - began,
            "jobwise": __version__,
        }
        self.ground.close()
        self.judge.close()
        policy = Index(self.folder.name, weights, about)
        index.save(policy, self.folder / "policy.safetensors")
        return ListScheduler(policy, "easy")


def _score(parts: list[Workload], rule: str) -> float:
    x = np.array([r.summary()["bounded_slowdown"] for r in simulate_many(parts, rule)])
    return float(np.exp(0.5 * np.log(x.mean()) + 0.5 * np.log(x).mean()))


def train(
    config: Config,
    log: Workload,
    folder: str | Path,
    *,
    seeds: int = 1,
    device: str = "cpu",
    resume: bool = False,
    report: Callable[[int, dict], None] | None = None,
) -> list[ListScheduler]:
    """Search once per seed, as `jobwise.train.train`; `device` is the processor, whatever is said."""
    policies = []
    for k, place in enumerate(run_folders(folder, seeds)):
        one = config.changed(seed=config.seed + k)
        if resume and (place / "policy.safetensors").exists():
            check_same(place, about_run(one, log))
            policies.append(load(place))
            continue
        policies.append(Run(one, log, place, resume).run(None if report is None else lambda line, k=k: report(k, line)))
    if seeds > 1:
        best = min(policies, key=lambda p: p.order.about["validation"])
        index.save(best.order, Path(folder) / "policy.safetensors")
    return policies

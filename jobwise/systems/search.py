"""Search: a log-linear order with history and ageing, its weights found by evolution strategies on the log itself.

State: 14 features of a job (`jobwise.sim.linear`). Action: the smallest score is next, EASY behind it. Reward: bounded slowdown
of whole shaken windows against a reference. With `max_wait` the windows are long, a guard relative to FCFS + EASY is part of
what is looked for, and waits beyond the bound cost. See `docs/systems/search.md`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from jobwise import __version__
from jobwise.agents.search import Ground, Search, evolve, fitness
from jobwise.errors import InputError
from jobwise.files import write_whole
from jobwise.jobs import Workload
from jobwise.policies import index
from jobwise.policies.index import INDICES, Index
from jobwise.policies.listing import ListScheduler
from jobwise.policies.neural import RULES, public_hash
from jobwise.runs import about_run, check_same, explained, per_seed, score, slowdowns
from jobwise.sim import trial
from jobwise.sim.linear import F, weights
from jobwise.simulate import simulate, simulate_many
from jobwise.workloads.transform import SEEN, shake, stretch

AGEING = ({}, {"log_stretch": -4.0}, {"log_wait": -2.0}, {"log_wait": -4.0}, {"log_wait": -2.0, "log_stretch": -2.0})
TIMES = (0.65, 0.8, 1.0, 1.2, 1.4)  # relative guards tried where waits are bounded
TIGHTER = (0.35, 0.5)  # and when what was found is calibrated
MARGIN = 0.95  # of the bound is aimed at: other months are not like these


class Config(BaseModel):
    """Everything that decides what a search finds. TOML files have the same keys."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    system: str = "search"
    window_jobs: int = Field(1024, ge=2)
    windows: int = Field(256, ge=1)  # places in the training part where windows begin
    shakes: int = Field(2, ge=1)  # replicas of each
    shake_s: float = Field(300.0, ge=0, le=1e8)
    loads: list[float] = [1.0]  # factors on the arrival rate, replica by replica
    generations: int = Field(80, ge=1)
    pairs: int = Field(12, ge=1)
    sample: int = Field(24, ge=1)  # windows a generation
    max_wait: float | None = Field(None, ge=1)  # times the longest wait of FCFS with EASY; None: any
    validations: int = Field(20, ge=1)
    seed: int = Field(0, ge=0, lt=2**31)
    threads: int = Field(2, ge=1, le=1024)

    def changed(self, **changes: Any) -> Config:
        """The same with changes, checked. A bound on waits takes long windows. Raises InputError."""
        if changes.get("max_wait") is not None and self.max_wait is None:
            long = {"window_jobs": 4 * self.window_jobs, "windows": 24, "sample": 6, "loads": [1.0, 1.1]}
            changes = long | {"generations": max(self.generations // 2, 1)} | changes
        try:
            return Config(**(self.model_dump() | changes))
        except ValidationError as error:
            raise explained(error, Config) from None


def configure(log: Workload, preset: str) -> Config:
    """The configuration for a log."""
    jobs = min(1024, max(len(log) // 20, 2))
    if preset == "smoke":
        return Config(window_jobs=jobs, windows=4, shakes=1, generations=4, pairs=3, sample=4, validations=2)
    return Config(window_jobs=jobs, generations=80 if preset == "small" else 300)


def starts() -> dict[str, np.ndarray]:
    """Where a search may begin: the indices, each with some ways to age."""
    plain = {name: x.terms() for name, x in INDICES.items() if not name.endswith("-aged")}
    plain["no-width"] = plain["smith"] | {"log_processors": 0.0}
    return {
        "+".join([name, *(f"{k}{v:+g}" for k, v in aged.items())]): weights(**{**terms, **aged})
        for name, terms in plain.items()
        for aged in AGEING
    }


class Run:
    """One search in a folder. It learns from the first 70 % of the log, to the last of them: the most recent jobs say most of
    those to come. The rest stays unseen."""

    def __init__(self, config: Config, log: Workload, folder: Path, resume: bool = False):
        self.config, self.log, self.folder = config, log, folder
        self.part = log.take(slice(0, int(SEEN * len(log))))
        jobs = min(config.window_jobs, len(self.part) // 4) if config.max_wait else config.window_jobs
        if not 2 <= jobs <= len(self.part):
            raise InputError(f"{log.name}: windows of {jobs} jobs do not fit {len(self.part)} jobs to learn from")
        bound = np.inf if config.max_wait is None else config.max_wait
        self.search = Search(config.generations, config.pairs, config.sample, max_wait=bound)
        begin = np.unique(np.linspace(0, len(self.part) - jobs, config.windows).astype(int))
        self.windows = [
            shake(stretch(self.part.take(slice(i, i + jobs)), 1 / config.loads[k % len(config.loads)]), config.shake_s, [i, k])
            for i in begin
            for k in range(config.shakes)
        ]
        self.ground = Ground(self.windows, config.threads)
        self.file = folder / "checkpoint.json"
        self.state, self.lines, self.replays = None, [], 0
        about = about_run(config, log)
        if (folder / "run.json").exists():
            if not resume:
                raise InputError(f"{folder}: holds a run already; --resume goes on with it, or name another folder")
            check_same(folder, about)
            self._restore()
        else:
            folder.mkdir(parents=True, exist_ok=True)
            write_whole(folder / "run.json", json.dumps(about, indent=1))

    def _restore(self) -> None:
        if not self.file.exists():
            return
        try:
            kept = json.loads(self.file.read_text())
            self.state, self.lines, self.replays = kept["state"], kept["lines"], kept["replays"]
            good = len(self.state["weights"]) == len(self.state["sum"]) == F and self.state["generation"] >= 0
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InputError(f"{self.file}: is damaged: {error}; begin anew in another folder") from None
        if not good:
            raise InputError(f"{self.file}: was written by another version of jobwise; begin anew in another folder")

    def _start(self) -> tuple[str, np.ndarray, float]:
        """(name, weights, relative guard) of the best of the known orders."""
        names, given = zip(*starts().items(), strict=True)
        every = np.arange(self.ground.count)
        tries = [np.inf] if self.search.max_wait == np.inf else TIMES
        self.base = self.ground.measure(INDICES["smith"].weights[None], every)[0, :, trial.BOUNDED]
        found = [
            fitness(self.ground.measure(np.array(given), every, t), self.base, self.ground.longest, self.search) for t in tries
        ]
        t, k = np.unravel_index(np.argmin(found), (len(tries), len(names)))
        return names[k], given[k], tries[t]

    def score(self, given: np.ndarray, times: float) -> float:
        """`jobwise.runs.score` of weights on the latest windows, which were learnt from, too."""
        found = self.ground.measure(given[None], self.latest, times)[0, :, trial.BOUNDED]
        return score(found)

    def run(self, report: Callable[[dict], None] | None = None) -> ListScheduler:
        """Search to the end; the policy, saved as `policy.safetensors`."""
        began = time.perf_counter()
        name, start, times = self._start()
        self.search = replace(self.search, times=times)
        count = max(self.ground.count // 5, 1)
        self.latest = np.arange(self.ground.count - count, self.ground.count)
        latest = self.windows[-count:]
        best_rule = min(((r, score(slowdowns(simulate_many(latest, r)))) for r in _rules()), key=lambda x: x[1])
        each = max(self.config.generations // self.config.validations, 1)

        def told(state: dict) -> None:
            done = state["generation"]
            self.replays += state.pop("replays")
            line = {"updates": done, "choices": self.replays * len(self.windows[0]), "fitness": state.pop("fitness")}
            if done % each == 0 or done == self.config.generations:
                mean = np.array(state["sum"]) / state["summed"] if state["summed"] else np.array(state["weights"])
                line |= {"validation": self.score(mean, times), "best_rule": best_rule[1]}
                line["best"] = line["validation"]  # the weights at the end count, not the luckiest on the way
            self.lines.append(line)
            if "validation" in line:
                write_whole(self.folder / "metrics.jsonl", "".join(f"{json.dumps(x)}\n" for x in self.lines))
                write_whole(self.file, json.dumps({"state": state, "lines": self.lines, "replays": self.replays}))
            if report:
                report(line | {"part": done / self.config.generations})

        found = evolve(self.ground, start, self.base, self.search, self.config.seed, self.state, told)
        choice = {}
        if times < np.inf:
            found, times, choice = self._calibrated({name: start, "searched": found})
        about = {
            "system": "search",
            "log": self.log.name,
            "log_sha256": public_hash(self.log),
            "jobs": len(self.log),
            "processors": self.log.cluster.processors,
            "seed": self.config.seed,
            "choices": self.replays * len(self.windows[0]),
            "start": name,
            "max_wait": self.config.max_wait,
            "calibration": choice,
            "validation": self.score(found, times),
            "best_rule": list(best_rule),
            "seconds": time.perf_counter() - began,
            "jobwise": __version__,
        }
        self.ground.close()
        policy = ListScheduler(Index(self.folder.name, found, about), "easy", times=times)
        index.save(policy.order, self.folder / "policy.safetensors", times)
        return policy

    def _calibrated(self, given: dict[str, np.ndarray]) -> tuple[np.ndarray, float, dict]:
        """(weights, relative guard, what was seen): the best, in the continuous replay of the whole part that is learnt from,
        of those that keep the bound there; if none does, the one that comes nearest."""
        replicas = [shake(self.part, self.config.shake_s, [self.config.seed, k]) for k in range(2)]
        fcfs = np.mean([simulate(x, "fcfs+easy").summary()["max_wait"] for x in replicas])
        tries = [(name, t) for name in given for t in (*TIGHTER, *TIMES)]

        def one(a: tuple[str, float]) -> tuple[float, float]:
            p = ListScheduler(Index(a[0], given[a[0]]), "easy", times=a[1])
            found = [simulate(x, p).summary() for x in replicas]
            slow, longest = (float(np.mean([f[key] for f in found])) for key in ("bounded_slowdown", "max_wait"))
            return slow, longest / max(fcfs, trial.HOUR)

        with ThreadPoolExecutor(self.config.threads) as workers:
            found = dict(zip(tries, workers.map(one, tries), strict=True))
        seen = {f"{name}+guard{t:g}x": x for (name, t), x in found.items()}
        chosen = calibrated(seen, self.search.max_wait)
        name, t = next(a for a in tries if f"{a[0]}+guard{a[1]:g}x" == chosen)
        return given[name], t, seen | {"chosen": chosen}


def calibrated(seen: dict[str, tuple[float, float]], bound: float) -> str:
    """Of name -> (bounded slowdown, longest wait as a multiple of FCFS + EASY's): the best that keeps MARGIN of the bound; the
    one that comes nearest if none does."""
    good = {k: x[0] for k, x in seen.items() if x[1] <= MARGIN * bound}
    return min(good, key=good.get) if good else min(seen, key=lambda k: seen[k][1])


def _rules() -> list[str]:
    return [f"{name}+easy" for name in (*RULES, *INDICES)]


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
    """Search once per seed, as `jobwise.train.train`. Raises InputError for a device that is no processor."""
    if device not in ("cpu", "auto"):
        raise InputError(f"search replays on processors; it has no use for the device {device!r}")

    def one(settings: Config, place: Path, told: Callable[[dict], None] | None) -> ListScheduler:
        return Run(settings, log, place, resume).run(told)

    return per_seed(config, log, folder, seeds, resume, report, one)

"""Search: a log-linear order with history and ageing, its weights found by evolution strategies on the log itself.

State: 14 features of a job (`jobwise.sim.loglinear`). Action: the smallest score is next, EASY behind it. Reward: bounded
slowdown of whole time-shifted windows against a reference. With `max_wait` the windows are long, a guard relative to FCFS +
EASY is part of what is looked for, and waits beyond the bound cost. Of the first 70 % of the log, the last fifth is not
searched on: there it is decided whether the search has beaten the order it began at. See `docs/systems/search.md`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
from pydantic import Field

from jobwise import __version__
from jobwise.compare import windows
from jobwise.compare.fingerprint import public_hash, sketch
from jobwise.errors import InputError
from jobwise.files import write_whole
from jobwise.learn.evolution import ORDERS, Ground, Search, evolve, fitness
from jobwise.learn.run_folder import opened, per_seed, score
from jobwise.learn.run_settings import RunSettings
from jobwise.parallel import Shared, current
from jobwise.policies import loglinear
from jobwise.policies.list_scheduler import ListScheduler
from jobwise.policies.loglinear import INDICES, Index
from jobwise.sim import replay_batch
from jobwise.sim.easy import HOUR
from jobwise.sim.loglinear import F, weights
from jobwise.simulate import simulate, simulate_many
from jobwise.workload import Workload
from jobwise.workloads.transform import SEEN, shake, stretch

AGEING: tuple[dict[str, float], ...] = (
    {},
    {"log_stretch": -4.0},
    {"log_wait": -2.0},
    {"log_wait": -4.0},
    {"log_wait": -2.0, "log_stretch": -2.0},
)
TIMES = (0.65, 0.8, 1.0, 1.2, 1.4)  # relative guards tried where waits are bounded
TIGHTER = (0.35, 0.5)  # and when a guard is chosen for what was found
MARGIN = 0.95  # of the bound is aimed at: other months are not like these
KEPT = 0.2  # share of the training part that is not searched on
JUDGED = 24  # windows of it on which progress is shown


class Config(RunSettings):
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
    max_wait: float | None = Field(None, ge=1)  # times the longest wait of FCFS with EASY; None: any
    validations: int = Field(20, ge=1)

    def changed(self, **changes: Any) -> Config:
        """Return a copy with changes, checked. A bound on waits takes long windows. Raises InputError."""
        if changes.get("max_wait") is not None and self.max_wait is None:
            long = {"window_jobs": 4 * self.window_jobs, "windows": 24, "sample": 6, "loads": [1.0, 1.1]}
            changes = long | {"generations": max(self.generations // 2, 1)} | changes
        return super().changed(**changes)

    def train(self, log: Workload, folder: str | Path, **options: Any) -> list[ListScheduler]:
        """Search on a log; options as `train`."""
        self.alone()
        return train(self, log, folder, **options)


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
    """One search in a folder. It searches on the first 56 % of the log and chooses on the next 14 %; the rest stays unseen."""

    def __init__(self, config: Config, log: Workload, folder: Path, resume: bool = False, share: float = SEEN):
        self.config, self.log, self.folder = config, log, folder
        self.seen = log.take(slice(0, int(share * len(log))))
        self.cut = int((1 - KEPT) * len(self.seen))
        self.part = self.seen.take(slice(0, self.cut))
        jobs = min(config.window_jobs, len(self.part) // 4) if config.max_wait else config.window_jobs
        if not 2 <= jobs <= len(self.part) or len(self.seen) - self.cut < 2:
            raise InputError(f"{log.name}: windows of {jobs} jobs do not fit {len(self.part)} jobs to learn from")
        bound = np.inf if config.max_wait is None else config.max_wait
        self.search = Search(config.generations, config.pairs, config.sample, max_wait=bound)
        begin = np.unique(np.linspace(0, len(self.part) - jobs, config.windows).astype(int))
        self.ground = Ground(self._windows(begin, jobs, config.shakes, config.loads), config.threads)
        self.jobs = jobs = min(jobs, len(self.seen) - self.cut)
        begin = np.unique(np.linspace(self.cut, len(self.seen) - jobs, JUDGED).astype(int))
        self.judged = Ground(self._windows(begin, jobs, 1, [1.0]), config.threads)
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

    def _start(self) -> tuple[str, np.ndarray, float]:
        """(name, weights, relative guard) of the best of the known orders."""
        names, vectors = zip(*starts().items(), strict=True)
        every = np.arange(self.ground.count)
        tries = [np.inf] if self.search.max_wait == np.inf else TIMES
        self.base = self.ground.measure(INDICES["smith"].weights[None], every)[0, :, replay_batch.BOUNDED]
        ground, starts_ = self.ground, np.array(vectors)
        scores = [fitness(ground.measure(starts_, every, t), self.base, ground.longest, self.search) for t in tries]
        t, k = np.unravel_index(np.argmin(scores), (len(tries), len(names)))
        return names[k], vectors[k], tries[t]

    def score(self, weights: np.ndarray, times: float) -> float:
        """`jobwise.learn.run_folder.score` of weights on windows that the search does not see."""
        slowdowns = self.judged.measure(weights[None], np.arange(self.judged.count), times)[0, :, replay_batch.BOUNDED]
        return score(slowdowns)

    def best_rule(self, times: float) -> tuple[str, float]:
        """The rule that does best on the same windows under the same guard, and its score."""
        behind = "" if times == np.inf else f"+guard{times:g}x"
        scores = [(f"{n}+easy{behind}", score(self.judged.rule(n, times))) for n in ORDERS]
        scores += [(f"{n}+easy{behind}", self.score(x.weights, times)) for n, x in INDICES.items()]
        return min(scores, key=lambda x: x[1])

    def run(self, report: Callable[[dict], None] | None = None) -> ListScheduler:
        """Search to the end; the policy, saved as `policy.safetensors`, beside `start.safetensors` and `searched.safetensors`,
        the two it was chosen from."""
        began = time.perf_counter()
        name, start, times = self._start()
        self.search = replace(self.search, times=times)
        best_rule = self.best_rule(times)
        each = max(self.config.generations // self.config.validations, 1)

        def told(state: dict) -> None:
            done = state["generation"]
            self.replays += state.pop("replays")
            line = {"updates": done, "choices": self.replays * self.jobs, "fitness": state.pop("fitness")}
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

        best = evolve(self.ground, start, self.base, self.search, self.config.seed, self.state, told)
        both = {"start": start, "searched": best}
        scores, guards = self._judged_bounded(both) if times < np.inf else self._judged(both)
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
            "max_wait": self.config.max_wait,
            "chosen": chosen,
            "judged": {k: list(v) for k, v in scores.items()},
            "validation": self.score(both[chosen], guards[chosen]),
            "best_rule": list(best_rule),
            "seconds": time.perf_counter() - began,
            "jobwise": __version__,
        }
        for which, vector in both.items():
            one = Index(which, vector, about | {"chosen": which})
            loglinear.save(one, self.folder / f"{which}.safetensors", guards[which])
        policy = ListScheduler(Index(self.folder.name, both[chosen], about), "easy", times=guards[chosen])
        loglinear.save(cast(Any, policy.order), self.folder / "policy.safetensors", policy.times)
        return policy

    def _judged(self, candidates: dict[str, np.ndarray]) -> tuple[dict, dict]:
        """(name -> (geometric mean of bounded slowdowns on windows of the jobs kept back,), name -> no guard)."""
        size, shaking = min(self.jobs, windows.SIZE), (2, self.config.shake_s, self.config.seed)
        rows = windows.begins(self.cut, len(self.seen), size)
        parts = [x for row in rows for x in windows.replicas(self.seen, int(row), size, *shaking)]
        orders = {k: ListScheduler(Index(k, v), "easy") for k, v in candidates.items()}
        slowdowns = {k: windows.slowdowns(simulate_many(parts, order)) for k, order in orders.items()}
        return {k: (float(np.exp(np.log(x).mean())),) for k, x in slowdowns.items()}, dict.fromkeys(candidates, np.inf)

    def _judged_bounded(self, candidates: dict[str, np.ndarray]) -> tuple[dict, dict]:
        """(name -> (is the bound broken?, bounded slowdown, longest wait against FCFS with EASY), name -> guard), in continuous
        replays of the jobs kept back. The guard: the best of those that keep MARGIN of the bound in every replica; if none,
        the one that comes nearest. Weights and guard stay together."""
        kept = self.seen.take(slice(self.cut, None))
        replicas = [shake(kept, self.config.shake_s, [self.config.seed, k]) for k in range(2)]
        fcfs = [max(simulate(x, "fcfs+easy").summary()["max_wait"], HOUR) for x in replicas]
        tries = [(name, t) for name in candidates for t in (*TIGHTER, *TIMES)]

        with current(self.config.threads) as workers:
            work = partial(_under_guard, workers.put(replicas), candidates, fcfs)
            results = dict(zip(tries, workers.map(work, tries), strict=True))
        scores, guards = {}, {}
        for name in candidates:
            mine = {t: results[name, t] for k, t in tries if k == name}
            guards[name] = calibrated(mine, self.search.max_wait)
            slow, longest = mine[guards[name]]
            scores[name] = (longest > MARGIN * self.search.max_wait, slow, longest)
        return scores, guards


def _under_guard(
    replicas: Shared, candidates: dict[str, np.ndarray], fcfs: list[float], trial: tuple[str, float]
) -> tuple[float, float]:
    """(bounded slowdown, longest wait against FCFS with EASY) of a candidate under a guard."""
    name, times = trial
    p = ListScheduler(Index(name, candidates[name]), "easy", times=times)
    summaries = [simulate(x, p).summary() for x in replicas.get()]
    longest = max(f["max_wait"] / most for f, most in zip(summaries, fcfs, strict=True))
    return float(np.mean([f["bounded_slowdown"] for f in summaries])), longest


def calibrated(measured: dict[float, tuple[float, float]], bound: float) -> float:
    """Of guard -> (bounded slowdown, longest wait as a multiple of FCFS + EASY's): the best that keeps MARGIN of the bound; the
    one that comes nearest if none does."""
    good = {k: x[0] for k, x in measured.items() if x[1] <= MARGIN * bound}
    return min(good, key=lambda k: good[k]) if good else min(measured, key=lambda k: measured[k][1])


def train(
    config: Config,
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

    def one(settings: Config, place: Path, report_line: Callable[[dict], None] | None) -> ListScheduler:
        return Run(settings, log, place, resume, share).run(report_line)

    return per_seed(config, log, folder, seeds, resume, report, one)

"""A site's own trees for the order `smith-forecast`: behind those of the forest that comes with the package, or alone.

Learnt on the jobs of the first 60 % of a log as it was recorded; judged on windows of the next 10 % beside the same order with
the shipped forest alone and the best classic rule. See `docs/history.md`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
from pydantic import Field, model_validator

from jobwise import __version__
from jobwise.compare.fingerprint import sketches
from jobwise.compare.windows import shake_for, slowdowns
from jobwise.errors import InputError
from jobwise.forecast import forests
from jobwise.learn.run_folder import opened, parts, per_seed, score, windows
from jobwise.learn.run_settings import RunSettings
from jobwise.policies import loglinear
from jobwise.policies.list_scheduler import ListScheduler
from jobwise.policies.loglinear import INDICES, Index
from jobwise.policies.names import load, resolve
from jobwise.sim.forest import NOTHING
from jobwise.simulate import simulate_many
from jobwise.workload import Workload

RULES = ("sjf+easy", "saf+easy", "f2+easy", "f4+easy", "lxf+easy", "wfp3+easy", "unicef+easy")


class Config(RunSettings):
    """Everything that decides what the trees become. TOML files have the same keys."""

    system: str = "smith-forecast"
    trees: int = Field(forests.TREES, ge=1, le=2000)  # of each output
    jobs: int = Field(60_000, ge=forests.LEAST)  # that ended last, whose history is followed
    ageing: float = Field(0.0, ge=0, le=10)
    window_jobs: int = Field(1024, ge=2)
    windows: int = Field(24, ge=1)

    @model_validator(mode="before")
    @classmethod
    def _without_shipped(cls, values: dict) -> dict:
        """Drop `shipped = false`, which run folders of versions before 0.2 hold."""
        return {k: v for k, v in values.items() if (k, v) != ("shipped", False)}

    def train(self, log: Workload, folder: str | Path, *, seeds: int = 1, device: str = "cpu", resume: bool = False,
              report: Callable[[int, dict], None] | None = None) -> list[ListScheduler]:  # fmt: skip
        """Learn trees once per seed; as `jobwise.learn.run.train`. Raises InputError."""
        self.alone()
        if device not in ("cpu", "auto"):
            raise InputError(f"trees are learnt on processors; they have no use for the device {device!r}")
        return per_seed(self, log, folder, seeds, resume, report, lambda c, place, line: _run(c, log, place, resume, line))


def configure(log: Workload, preset: str) -> Config:
    """The configuration: fewer trees for `smoke`."""
    if preset == "smoke":
        return Config(trees=10, windows=4, window_jobs=200, preset="smoke")
    return Config(preset="paper")  # trees are learnt whole in seconds


def trees_of(
    past: np.ndarray, total: int, label: str, *, trees: int = forests.TREES, seed: int = 0, ageing: float = 0.0
) -> Index:
    """Learn the order smith-forecast's trees from jobs [K] of past_dtype, in order of end, of a machine of so many processors.
    Raises InputError for too few."""
    if len(past) < forests.LEAST:
        raise InputError(f"{label}: {len(past)} jobs had ended by then; trees are learnt from {forests.LEAST} at least")
    x, y, weight = forests.rows_of(past, total)
    return Index(label, INDICES["smith"].weights, {"rows": len(x)}, forests.learnt(x, y, weight, NOTHING, trees, seed), ageing)


def _run(config: Config, log: Workload, folder: Path, resume: bool, report: Callable[[dict], None] | None) -> ListScheduler:
    train, kept, _ = parts(log)
    past, total = log.by_end[log.by_end["end"] < kept.offset - log.offset][-config.jobs :], log.cluster.processors
    if len(past) < forests.LEAST:
        raise InputError(f"{log.name}: {len(past)} jobs had ended by then; trees are learnt from {forests.LEAST} at least")
    forests.check_lightgbm()
    opened(folder, config, log, resume)
    began = time.perf_counter()
    shipped = resolve("smith-forecast+easy").order
    order = trees_of(past, total, folder.name, trees=config.trees, seed=config.seed, ageing=config.ageing)
    rows, count = order.about["rows"], len(order.forest.tree) if order.forest else 0
    places = windows(kept, config.window_jobs, config.windows, shake_for(train), config.seed)

    def measured(p: ListScheduler | str) -> float:
        return score(slowdowns(simulate_many(places, p)))

    validation, rules = measured(ListScheduler(order, "easy")), {r: measured(r) for r in (*RULES, "smith+easy")}
    before = measured(ListScheduler(replace(shipped, ageing=config.ageing), "easy"))
    best = min(rules, key=lambda n: rules[n])
    known = {"system": config.system, "log": log.name, "processors": total, "seed": config.seed, "trees": count,
             "preset": config.preset,
             "validation": validation, "best_rule": [best, rules[best]], "shipped": before, "choices": rows,
             "seconds": time.perf_counter() - began, "jobwise": __version__,
             "trained_on": sketches([train])}  # fmt: skip
    loglinear.save(replace(order, about=known), folder / "policy.safetensors")
    if report:
        scores = {"validation": validation, "best": validation, "best_rule": rules[best]}
        report(scores | {"part": 1.0, "choices": rows, "updates": 1})
    return load(folder)

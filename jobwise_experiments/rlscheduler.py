"""RLScheduler's own game (SC'20, its published table on `lublin_256`): its ten sequences, its convention, its network and ours.

Ten sequences of 1,024 jobs, each on an empty machine; a picked job must start next; decisions after every single event; no
backfilling, or its greedy rule. Estimates are run times. All but the rows of ours are also tests of the simulator.
"""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np

from jobwise.learn.config import Config
from jobwise.policies.list_scheduler import ListScheduler
from jobwise.report.sections import Section, Table
from jobwise.simulate import simulate_many
from jobwise.systems import configure
from jobwise.workload import Workload
from jobwise_experiments.study import Study, anchors, prose, read_log, text_interval

FIRST = (1981, 2756, 4299, 8850, 3316, 2714, 5228, 7762, 4022, 7085)
PUBLISHED = anchors("rlscheduler")


VALIDATION = {"whole_log": True, "validation_jobs": 1024, "validation_windows": 16}  # on the log it is tested on, as there


def study(logs: Path, s: Study, preset: str, seeds: int) -> list[Section]:
    """Both columns of the table."""
    log = read_log(logs, "lublin_256")
    return s.parts(*(lambda backfill=backfill: _column(s, log, backfill, preset, seeds) for backfill in PUBLISHED))


def sequences(log: Workload) -> list[Workload]:
    """Return the ten sequences that are judged."""
    return [log.take(slice(i, i + 1024)) for i in FIRST]


def theirs(log: Workload, backfill: str, preset: str) -> Config:
    """Its features, network, critic and reward; our minibatches."""
    short = {"choices": 1_000, "validations": 2} if preset == "smoke" else {}
    return configure("rlscheduler", log, preset).changed(backfill=backfill, **VALIDATION | short)


def ours(log: Workload, backfill: str, preset: str) -> Config:
    """The same game with our features and the reward as it accrues."""
    c = configure("perjob", log, preset)
    learner = c.learner | {"steps": 128 if preset != "smoke" else 32}
    size, jobs = (64, 1024) if preset != "smoke" else (8, 256)
    budget = {"smoke": 1_000, "small": 3_000_000, "paper": 10_000_000}[preset]
    return c.changed(
        act="commit",
        backfill=backfill,
        learner=learner,
        simulations=size,
        jobs=jobs,
        choices=budget,
        shake_s=0.0,
        **VALIDATION,
    )


def _column(s: Study, log: Workload, backfill: str, preset: str, seeds: int) -> Section:
    games, rows = sequences(log), []
    for name in ("fcfs", "sjf", "f1"):

        def rule(name=name) -> float:
            policy = ListScheduler(name, backfill, commit=True)
            records = simulate_many(games, policy, single_events=True)
            return float(np.mean([r.summary()["bounded_slowdown"] for r in records]))

        value = s.piece(f"{backfill}-{name}", rule)
        rows.append([name.upper(), f"{PUBLISHED[backfill][name]:.4f}", f"{value:.4f}", "", ""])
    published = PUBLISHED[backfill]["agent"]
    for label, make in (("its network, our training", theirs), ("our features and reward", ours)):
        config, results = make(log, backfill, preset), []
        for k in range(seeds):

            def learnt(label=label, config=config, k=k) -> dict:
                begin, folder = time.perf_counter(), s.folder(f"{backfill}-{config.system}{k}")
                policy = s.train(config, log, folder.name, k)
                seconds = time.perf_counter() - begin
                value = np.mean([r.summary()["bounded_slowdown"] for r in simulate_many(games, policy)])
                return {"value": float(value), "seconds": seconds}

            results.append(s.piece(f"{backfill}-{config.system}-{k}", learnt))
        values = [x["value"] for x in results]
        rows.append(
            [
                label,
                f"{published:.4f}",
                text_interval(values, 2),
                f"{np.mean(values) / published - 1:+.1%}",
                f"{np.mean([x['seconds'] for x in results]) / 60:.1f}",
            ]
        )
    text = prose("rlscheduler", "column", backfill=backfill, seeds=seeds)
    columns = ["scheduler", "published", "here", "against the published agent", "minutes of training"]
    return Section(f"RLScheduler on lublin_256, {backfill} backfilling", text, [Table(columns, rows)])

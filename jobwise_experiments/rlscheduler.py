"""RLScheduler's own game (SC'20, its published table on `lublin_256`): its ten sequences, its convention, its network and ours.

Ten sequences of 1,024 jobs, each on an empty machine; a picked job must start next; decisions after every single event; no
backfilling, or its greedy rule. Estimates are run times. All but the rows of ours are also tests of the simulator.
"""

from __future__ import annotations

import time
from functools import partial

import numpy as np

from jobwise.learn.config import Config
from jobwise.policies.list_scheduler import ListScheduler
from jobwise.report.sections import Section
from jobwise.simulate import simulate_many
from jobwise.systems import configure
from jobwise.workload import Workload
from jobwise_experiments.study import Study, anchors, text_interval

FIRST = (1981, 2756, 4299, 8850, 3316, 2714, 5228, 7762, 4022, 7085)
PUBLISHED = anchors("rlscheduler")
VALIDATION = {"whole_log": True, "validation_jobs": 1024, "validation_windows": 16}  # on the log it is tested on, as there


def study(s: Study) -> list[Section]:
    """Both columns of the table."""
    return s.parts(*(partial(column, backfill=backfill) for backfill in PUBLISHED))


def theirs(s: Study, log: Workload, backfill: str) -> Config:
    """Its features, network, critic and reward; our minibatches."""
    short = {"choices": 1_000, "validations": 2} if s.smoke else {}
    return configure("rlscheduler", log, s.preset).changed(backfill=backfill, **VALIDATION | short)


def ours(s: Study, log: Workload, backfill: str) -> Config:
    """The same game with our features and the reward as it accrues."""
    c, (simulations, jobs) = configure("perjob", log, s.preset), s.pick((8, 256), (64, 1024), (64, 1024))
    size = {"simulations": simulations, "jobs": jobs, "choices": s.pick(1_000, 3_000_000, 10_000_000), "shake_s": 0.0}
    learner = c.learner | {"steps": s.pick(32, 128, 128)}
    return c.changed(act="commit", backfill=backfill, learner=learner, **VALIDATION, **size)


def column(s: Study, backfill: str) -> Section:
    """One column of the table, rules and agents."""
    log, published = s.log("lublin_256"), PUBLISHED[backfill]
    games, rows = [log.take(slice(i, i + 1024)) for i in FIRST], []

    def mean(policy, **how) -> float:
        return float(np.mean([r.summary()["bounded_slowdown"] for r in simulate_many(games, policy, **how)]))

    def learnt(config: Config, k: int) -> dict:
        begin = time.perf_counter()
        policy = s.train(config, log, f"{backfill}-{config.system}{k}", k)
        seconds = time.perf_counter() - begin
        return {"value": mean(policy), "seconds": seconds}

    for name in ("fcfs", "sjf", "f1"):
        rule = ListScheduler(name, backfill, commit=True)
        value = s.piece(f"{backfill}-{name}", mean, rule, single_events=True)
        rows.append([name.upper(), published[name], f"{value:.4f}", "", ""])
    for label, make in (("its network, our training", theirs), ("our features and reward", ours)):
        config = make(s, log, backfill)
        results = [s.piece(f"{backfill}-{config.system}-{k}", learnt, config, k) for k in range(s.seeds)]
        values, minutes = [x["value"] for x in results], np.mean([x["seconds"] for x in results]) / 60
        against = np.mean(values) / published["agent"] - 1
        rows.append([label, published["agent"], text_interval(values, 2), against, minutes])
    return s.section("RLScheduler on lublin_256, {backfill} backfilling", rows, backfill=backfill)

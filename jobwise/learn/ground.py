"""Training and test data of networks in the world of windows: windows of a log, or streams of workflows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from jobwise.compare.baselines import rules
from jobwise.compare.windows import slowdowns
from jobwise.errors import InputError
from jobwise.learn.config import Config
from jobwise.learn.run_folder import parts, windows
from jobwise.metrics import workflows
from jobwise.record import Record
from jobwise.workload import Workload
from jobwise.workloads.streams import arrivals, flows_of
from jobwise.worlds.rewards import terms
from jobwise.worlds.window.episodes import Episodes

OF_FLOWS = ("flow-work", "flow-sjf", "flow-bound", "flow-path", "rank", "sjf", "fcfs")  # rules for streams
SINGLE_TASKS = ("sjf", "saf", "fcfs")  # rules that see single tasks, as the window does


@dataclass(frozen=True, eq=False)
class Ground:
    """`episodes` to learn from; `judged`, pieces that a policy is measured on, in which a job is `overlap` times on average;
    `known`: the logs that a policy has then seen; `rules` it is compared with; `measure`: of records, a mean slowdown each;
    `imitated`: the rules that a cold start may imitate (the best of them, of `rules` where there are none)."""

    episodes: Episodes
    judged: list[Workload]
    known: list[Workload]
    rules: list[str]
    measure: Callable[[Sequence[Record]], np.ndarray] = slowdowns
    overlap: float = 1.0
    imitated: tuple[str, ...] = ()


def of_log(config: Config, log: Workload) -> Ground:
    """The ground of a log: its training part, windows of its validation part. Raises InputError."""
    train, judged = (log, log) if config.whole_log else parts(log)[:2]
    known = [log] if config.whole_log else [train, judged]
    if config.validate_seen:
        judged = log.take(slice(0, sum(map(len, known))))
    if config.jobs > len(train):
        raise InputError(f"{log.name}: episodes of {config.jobs} jobs do not fit the {len(train)} jobs of the training part")
    size = config.validation_jobs or config.jobs
    pieces = windows(judged, size, config.validation_windows, config.shake_s, config.seed)
    overlap = max(sum(map(len, pieces)) / len(judged), 1.0)
    episodes = Episodes([train], config.jobs, loads=tuple(config.loads), shake_s=config.shake_s)
    measure = partial(slowdowns_and_costs, {name: weight for weight, name in terms(config.reward)})
    return Ground(episodes, pieces, known, rules(config.acts), measure if config.waits else slowdowns, overlap)


def slowdowns_and_costs(weights: dict[str, float], records: Sequence[Record]) -> np.ndarray:
    """[W] mean bounded slowdowns and what energy costs against the mean price, by the weights of the reward."""
    slow, paid = weights.get("bounded_slowdown", 0.0), weights.get("energy_cost", 0.0)
    return np.array([slow * x + paid * _price_paid(r) for x, r in zip(slowdowns(records), records, strict=True)])


def _price_paid(r: Record) -> float:
    """The mean price of the energy of a record's jobs, as a part of the mean price of the time."""
    steps, adds = r.cluster.power.prices.first, r.workload.columns["adds"]
    begin, end = r.workload.origin + r.jobs["start"], r.workload.origin + r.jobs["end"]
    mean = float(steps.until(steps.time[-1:])[0] / (steps.time[-1] - steps.time[0]))
    return float((adds * (steps.until(end) - steps.until(begin))).sum() / max((adds * (end - begin)).sum() * mean, 1e-12))


def flow_slowdowns(records: Sequence[Record]) -> np.ndarray:
    """[W] mean slowdowns of the workflows of streams."""
    return np.array([float(workflows(r)["slowdown"].mean()) for r in records])


def of_streams(training: list[Workload], judged: list[Workload]) -> Ground:
    """The ground of streams of workflows, each one episode."""
    return Ground(Episodes(training, None), judged, training, list(OF_FLOWS), flow_slowdowns, imitated=SINGLE_TASKS)


def of_flows(config: Config, log: Workload) -> Ground:
    """The ground of streams drawn from the workflows of `log`, others to judge on than to learn from."""
    flows = flows_of(log)
    made = [
        arrivals(flows, config.workflows, log.cluster, config.load, [11, config.seed, k], size=0.3, estimate=0.5)
        for k in range(2 * config.streams)
    ]
    return of_streams(made[: config.streams], made[config.streams :])

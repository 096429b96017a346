"""Ours for streams of workflows: a graph network over the ready tasks, which may keep them waiting, found by evolution
strategies that begin at the best rule with a reserve.

State: what every task asks for and where it stands in its graph (two rounds of messages), what is left of its workflow, the
machine. Action: an order of the ready tasks, and for each the share of the machine that its start must leave free. Reward: mean
workflow slowdown of whole streams against the rule it begins at, less what the makespan exceeds that of upward rank by. See
`docs/systems/mars.md`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
from pydantic import Field

from jobwise import __version__
from jobwise.errors import InputError
from jobwise.files import write_whole
from jobwise.learn.evolution import Search, evolve
from jobwise.learn.run_folder import opened, per_seed
from jobwise.learn.run_settings import RunSettings
from jobwise.metrics import makespan, workflows
from jobwise.parallel import Shared, current
from jobwise.policies import flow_net
from jobwise.policies.flow_net import FlowNet
from jobwise.policies.list_scheduler import ListScheduler
from jobwise.policies.names import resolve
from jobwise.sim.flow_net import N, blank
from jobwise.sim.replay_batch import BOUNDED, LONGEST, RESULTS, WAIT
from jobwise.simulate import simulate
from jobwise.systems.mars import tuned
from jobwise.workload import Workload
from jobwise.workloads.streams import arrivals, flows_of


class Config(RunSettings):
    """Everything that decides what a search finds. TOML files have the same keys."""

    system: str = "flow-net"
    streams: int = Field(12, ge=2)  # to search on
    kept: int = Field(4, ge=1)  # to choose on, between what was found and where it began
    workflows: int = Field(60, ge=1)  # of a stream
    load: float = Field(0.9, gt=0, le=5)
    estimates: float = Field(0.5, ge=0, le=3)  # sigma of the lognormal factor by which estimates are off
    makespan: float = Field(1.02, ge=1)  # times that of upward rank are allowed
    generations: int = Field(40, ge=1)
    pairs: int = Field(8, ge=1)
    sample: int = Field(4, ge=1)  # streams a generation

    def train(self, log: Workload, folder: str | Path, *, seeds: int = 1, device: str = "cpu", resume: bool = False,
              report: Callable[[int, dict], None] | None = None) -> list[ListScheduler]:  # fmt: skip
        """Search once per seed on streams drawn from the workflows of `log`; as `jobwise.learn.run.train`."""
        self.alone()
        if device not in ("cpu", "auto"):
            raise InputError(f"flow-net replays on processors; it has no use for the device {device!r}")
        if not (log.jobs["flow"] >= 0).any():
            raise InputError(f"{log.name}: flow-net learns from workflows: a folder or a file of them")
        return per_seed(self, log, folder, seeds, resume, report, lambda c, place, line: _run(c, log, place, resume, line))


def configure(log: Workload, preset: str) -> Config:
    """The configuration: the more generations the larger the preset."""
    if preset == "smoke":
        return Config(streams=2, kept=1, workflows=6, generations=2, pairs=2, sample=2)
    return Config(generations=40 if preset == "small" else 200)


class Streams:
    """Streams to search on: what `jobwise.learn.evolution` asks. `longest` [W]: makespans (s) under upward rank."""

    def __init__(self, streams: Sequence[Workload], base: str, reserve: tuple[float, float], threads: int):
        self.streams, self.count, self._base, self._reserve, self._threads = streams, len(streams), base, reserve, threads
        self.longest = np.array([makespan(simulate(w, "rank")) for w in streams])

    def policy(self, net: np.ndarray, label: str = "flow-net", about: dict | None = None) -> ListScheduler:
        """The list scheduler of a network."""
        return ListScheduler(FlowNet(label, net, self._base, about or {}), reserve=self._reserve)

    def measure(self, nets: np.ndarray, which: np.ndarray, times: float = np.inf) -> np.ndarray:
        """[K, len(which), RESULTS] of K networks: mean workflow slowdown, makespan, mean turnaround (s)."""
        pairs = [(k, int(i)) for k in range(len(nets)) for i in which]
        with current(self._threads) as workers:
            held = [workers.put(w) for w in self.streams]
            tasks = [(held[i], self.policy(nets[k])) for k, i in pairs]
            return np.array(workers.map(_measured, tasks)).reshape(len(nets), len(which), RESULTS)


def _measured(task: tuple[Shared, ListScheduler]) -> list[float]:
    """RESULTS of a network on a stream."""
    stream, policy = task
    r = simulate(stream.get(), policy)
    table = workflows(r)
    out = [0.0] * RESULTS
    out[BOUNDED], out[LONGEST], out[WAIT] = table["slowdown"].mean(), makespan(r), table["turnaround"].mean()
    return out


def _run(config: Config, log: Workload, folder: Path, resume: bool, report: Callable[[dict], None] | None) -> ListScheduler:
    opened(folder, config, log, resume)
    began = time.perf_counter()
    cores, flows = log.cluster.processors, flows_of(log)
    made = [
        arrivals(flows, config.workflows, cores, config.load, [9, config.seed, k], estimate=config.estimates)
        for k in range(config.streams + config.kept)
    ]
    training, kept, file = made[: config.streams], made[config.streams :], folder / "checkpoint.json"
    state = _state(file) if file.exists() else {}
    rule = state.get("rule") or tuned(training[: config.sample], config.makespan)
    base, reserve = parsed(rule)
    ground, judged = (Streams(x, base, reserve, config.threads) for x in (training, kept))
    start = blank(config.seed)
    first = ground.measure(start[None], np.arange(ground.count))[0, :, BOUNDED]
    search = Search(config.generations, config.pairs, min(config.sample, ground.count), sigma=(0.1, 0.05), rate=(0.2, 0.1),
                    max_wait=config.makespan, floor=0.0, price=20.0)  # fmt: skip

    def told(now: dict) -> None:
        write_whole(file, json.dumps({"rule": rule, "state": now}))
        done = now["generation"]
        if report:
            report({"updates": done, "choices": done * replays, "fitness": now["fitness"], "part": done / config.generations})

    replays = 2 * config.pairs * search.windows  # a generation
    best = evolve(cast(Any, ground), start, first, search, config.seed, state.get("state"), told)
    every = np.arange(judged.count)
    both = {k: judged.measure(x[None], every)[0] for k, x in (("start", start), ("searched", best))}
    means = {k: float(np.exp(np.log(x[:, BOUNDED]).mean())) for k, x in both.items()}
    span = float(np.mean(both["searched"][:, LONGEST] / judged.longest))
    chosen = "searched" if means["searched"] < means["start"] and span <= config.makespan else "start"
    known = {"system": "flow-net", "log": log.name, "processors": cores, "seed": config.seed, "start": rule, "chosen": chosen,
             "preset": config.preset,
             "judged": means, "makespan": span, "validation": means[chosen], "best_rule": [rule, means["start"]],
             "choices": config.generations * replays, "jobwise": __version__}  # fmt: skip
    policy = judged.policy({"start": start, "searched": best}[chosen], folder.name, known)
    flow_net.save(cast(Any, policy.order), policy.reserve, folder / "policy.safetensors")
    if report:
        report({"updates": config.generations, "part": 1.0, "validation": means[chosen], "best": means[chosen],
                "best_rule": means["start"], "choices": known["choices"], "seconds": time.perf_counter() - began})  # fmt: skip
    return policy


def _state(file: Path) -> dict:
    """What a checkpoint says: `rule`, and the `state` of the search. Raises InputError."""
    try:
        kept = json.loads(file.read_text())
        good = len(kept["state"]["weights"]) == len(kept["state"]["sum"]) == N and isinstance(kept["rule"], str)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{file}: is damaged: {error}; begin again in another folder") from None
    if not good:
        raise InputError(f"{file}: was written by another version of jobwise; begin again in another folder")
    return kept


def parsed(rule: str) -> tuple[str, tuple[float, float]]:
    """(order, reserve) of a name such as flow-work+reserve0.1x60s; without a reserve (0, inf)."""
    p = resolve(rule)
    return str(p.order), p.reserve

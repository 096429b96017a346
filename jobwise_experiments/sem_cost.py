"""SEM's experiments 7 and 8: the time of training and of inference, at the size of Theta and on machines up to eight times
as large. A network that does not fit the memory of this machine is not run; the law of smaller ones says how long it would
take."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from jobwise.learn.collect import collect
from jobwise.learn.config import Config
from jobwise.learn.learners import LEARNERS
from jobwise.learn.networks import actor, weights
from jobwise.learn.networks import parameters as count
from jobwise.learn.run import TrainingRun
from jobwise.policies.networks import Forward, choose
from jobwise.report.sections import Figure, Section
from jobwise.sim.state import allocate
from jobwise.simulate import simulate
from jobwise.systems import configure
from jobwise.workload import Workload
from jobwise.workloads.transform import first, replicate
from jobwise.worlds.window import encoders
from jobwise.worlds.window.passes import BEGIN, ask
from jobwise.worlds.window.policy import WindowPolicy
from jobwise_experiments.study import Study

TIMES = 5  # repeats of a timing; the median counts
SCALES = (1, 2, 4, 8)  # times Theta's nodes
THETA = 4360  # nodes
LAYERS = (4000, 1000)  # of DRAS, for Theta
KINDS: dict[str, Callable[[int], int] | None] = {  # how many times as wide DRAS's layers are on so many times the nodes
    "SEM": None,
    "DRAS, layers scaled": lambda times: times,
    "DRAS, layers fixed": lambda times: 1,
}
COPIES = {"training": 5, "inference": 2}  # of the weights: gradients, two moments of Adam, room to work


def time_training(s: Study, config: Config, log: Workload, jobs: int, name: str) -> dict[str, float]:
    """Seconds to train on `jobs` jobs (warm): all, of the updates alone, and how many choices that were."""
    shutil.rmtree(s.folder(name), ignore_errors=True)
    changes = {"jobs": jobs, "episodes": 1, "choices": None, "validations": 1, "threads": s.threads}
    t = TrainingRun(config.changed(**changes), log, s.folder(name)).trainer
    learn, steps = LEARNERS[t.settings.learner], t.settings.steps
    learn(t.agent, collect(t.envs, t.agent, steps))
    t.envs.reset(seed=0)
    begin, update, choices, ended = time.perf_counter(), 0.0, 0, 0
    while not ended:
        rollout = collect(t.envs, t.agent, steps)
        collected = time.perf_counter()
        learn(t.agent, rollout)
        update += time.perf_counter() - collected
        choices, ended = choices + int(rollout.there.sum()), len(rollout.episodes)
    seconds = time.perf_counter() - begin
    shutil.rmtree(s.folder(name), ignore_errors=True)
    return {"seconds": seconds, "update": update, "choices": choices, "parameters": t.agent.parameters}


def time_inference(config: Config, log: Workload, jobs: int) -> dict[str, float]:
    """Seconds to schedule `jobs` jobs with an untrained network (it costs the same): all, and of each part."""
    part = first(log, min(jobs, len(log)))
    encoder = encoders.make(config.encoder, log.cluster, log.jobs, config.window, **config.encoding)
    spec = config.network_spec(encoder)
    act = config.acts
    policy = WindowPolicy(Forward(spec, weights(actor(spec))), encoder, act)
    simulate(first(log, min(jobs, 50, len(log))), policy)
    state = allocate([part], part.cluster, single_events=act.single_events)
    c, (out, work), clock = act.allocate(state, encoder.window), encoder.buffers(1), time.perf_counter
    seconds, choices, begin = {"encode": 0.0, "forward": 0.0, "simulate": 0.0}, 0, clock()
    left = ask(state, c, BEGIN)
    while left:
        a = clock()
        encoder.encode(state, c, out, work)
        b = clock()
        chosen = choose(policy.forward, out, c.moment["count"])
        d = clock()
        left = ask(state, c, chosen)
        seconds["encode"] += b - a
        seconds["forward"] += d - b
        seconds["simulate"] += clock() - d
        choices += 1
    return seconds | {"seconds": clock() - begin, "choices": choices}


def cost(s: Study, log: Workload) -> Section:
    """The time of a training and of schedules, by the encoding."""
    train_jobs, test_jobs = s.pick(50, 300, 2000), s.pick(100, 1000, 6000)
    rows, shares, each = [], [], {}

    def median(timings: list[dict], key: str, by: str) -> float:  # ms
        return float(np.median([1000 * x[key] / x[by] for x in timings]))

    for name in ("sem", "dras"):
        c = configure(name, log, s.preset)
        c = c.changed(hidden=[64, 32]) if s.smoke and name == "dras" else c
        learnt = [s.piece(f"cost-train-{name}-{k}", time_training, s, c, log, train_jobs, "cost") for k in range(TIMES)]
        timed = [s.piece(f"cost-infer-{name}-{k}", time_inference, c, log, test_jobs) for k in range(TIMES)]
        seconds = ((np.median([x["seconds"] for x in y]) / n) for y, n in ((learnt, train_jobs), (timed, test_jobs)))
        each[name] = per, infer = [float(x) for x in seconds]
        rows.append([name.upper(), learnt[0]["parameters"], 60_000 * per, 6_000 * infer, 1000 * per, 1000 * infer])
        spent = [median(timed, key, "choices") for key in ("encode", "forward", "simulate")]
        shares.append([name.upper(), *spent, median(learnt, "update", "choices")])
    faster = np.divide(each["dras"], each["sem"])
    values = {"train_jobs": train_jobs, "test_jobs": test_jobs, "times": TIMES, "threads": s.threads}
    return s.section("7. Cost", rows, shares, faster=faster, **values)


# ------------------------------------------------------------------ 8: larger machines


def memory() -> float:
    """The memory (bytes) that may still be used here: what the kernel has available, or what is left of a container's limit."""
    lines = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    free, group = 1024.0 * float(lines["MemAvailable"].split()[0]), Path("/sys/fs/cgroup")
    try:
        free = min(free, float((group / "memory.max").read_text()) - float((group / "memory.current").read_text()))
    except (OSError, ValueError):  # no container, or one without a limit ("max")
        return free
    return free


def scaling(s: Study, log: Workload) -> Section:
    """The time of a choice, in training and in inference, by the size of the machine, and the law that it follows."""
    tables: dict[str, list[list]] = {}
    measured: dict[str, dict[str, list[tuple[float, float]]]] = {}
    for work in COPIES:
        points: dict[str, list[tuple[float, float]]] = {name: [] for name in KINDS}
        tables[work] = [_row(s, log, work, times, points) for times in s.pick((1, 2), SCALES, SCALES)]
        measured[work] = points
    laws = [[work, *(_law(x) for x in points.values())] for work, points in measured.items()]
    figure = _figure(s, measured)
    room = f"{memory() / 1e9:.0f} GB"
    return s.section(
        "8. Scaling", tables["training"], tables["inference"], laws, figures=[figure], room=room, kinds=tuple(KINDS)
    )


def _row(s: Study, log: Workload, work: str, times: int, points: dict[str, list[tuple[float, float]]]) -> list:
    """A size of machine: parameters and milliseconds a choice by kind; how many times SEM's."""
    jobs = s.pick(30, 60, 1000)
    big = first(log, jobs * 40) if times == 1 else replicate(first(log, max(jobs * 40 // times, 400)), times, seed=0)
    nodes, row = big.cluster.processors, []
    for name, wider in KINDS.items():
        c, parameters = _sem(s, log, big) if wider is None else _dras(s, log, nodes, wider(times))
        need = COPIES[work] * 4.0 * parameters
        piece = f"scale-{work}-{_slug(name)}-{times}"
        if not (s.out / "pieces" / f"{piece}.json").exists() and need > memory():
            row += [parameters, f"needs {need / 1e9:.0f} GB"]
            continue
        few = jobs if wider is None else max(jobs // (2 * times), 12)
        few *= 1 if work == "training" else 4
        do = (time_training, s, c, big, few, "scale") if work == "training" else (time_inference, c, big, few)
        x = s.piece(piece, *do)
        ms = 1000 * x["seconds"] / x["choices"]
        points[name].append((nodes, ms))
        ours = points["SEM"][-1][1]
        row += [parameters, f"{ms:.2f}" if wider is None else f"{ms:.1f} ({ms / ours:,.0f}x)"]
    return [nodes, *row]


def _slug(name: str) -> str:
    """The name of a kind in those of pieces: sem, dras-scaled, dras-fixed."""
    return name.lower().replace(", layers ", "-")


def _sem(s: Study, log: Workload, big: Workload) -> tuple[Config, int]:
    """(configuration, parameters) of SEM on the machine of a log `big`."""
    c = configure("sem", log, s.preset).changed(encoding={"minimum": 128})
    encoder = encoders.make(c.encoder, big.cluster, big.jobs, c.window, **c.encoding)
    return c, count(actor(c.network_spec(encoder)))


def _dras(s: Study, log: Workload, nodes: int, wider: int) -> tuple[Config, int]:
    """(configuration, parameters) of DRAS on so many nodes, its layers so many times as wide."""
    hidden = [n * wider for n in ((64, 32) if s.smoke else LAYERS)]
    c = configure("dras", log, s.preset).changed(hidden=hidden)
    return c, (nodes + 100) * hidden[0] + hidden[0] * hidden[1] + hidden[1] * 50


@dataclass(frozen=True)
class Law:
    """Milliseconds as a power of the nodes: `at_one` * nodes ** `power`."""

    at_one: float
    power: float

    def __call__(self, nodes: np.ndarray | float) -> np.ndarray:
        """Return the milliseconds at so many nodes."""
        return self.at_one * np.asarray(nodes, float) ** self.power


def _fit(points: Sequence[tuple[float, float]]) -> Law | None:
    """The law through (nodes, ms), by least squares on logarithms; None for fewer than two points."""
    if len(points) < 2:
        return None
    power, constant = np.polyfit(*np.log(np.array(points)).T, 1)
    return Law(float(np.exp(constant)), float(power))


def _law(points: Sequence[tuple[float, float]]) -> str:
    """The power of the size that the time follows, and what it says at the largest size."""
    law, most = _fit(points), THETA * max(SCALES)
    return f"N^{law.power:.2f}, {law(most):,.1f} ms at {most:,}" if law else ""


def _figure(s: Study, measured: dict[str, dict[str, list[tuple[float, float]]]]) -> Figure:
    """Milliseconds a choice by the size of the machine, points as measured and lines of the law."""

    def draw(fig) -> None:
        for axes, (work, points) in zip(fig.subplots(1, len(measured)), measured.items(), strict=True):
            for k, (name, xy) in enumerate(points.items()):
                x, y = np.array(xy).T
                axes.plot(x, y, "o", color=f"C{k}", label=name)
                if law := _fit(xy):
                    wide = np.geomspace(x[0], max(x[0] * max(SCALES), x[-1]), 20)
                    axes.plot(wide, law(wide), "--", lw=1, color=f"C{k}")
            axes.set(xscale="log", yscale="log", xlabel="nodes", ylabel="ms a choice", title=work)
            axes.legend(fontsize=7)

    return s.figure("scaling", draw, label="time of a choice by the size of the machine")

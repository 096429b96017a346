"""The eight experiments of SEM (Li, Fan, Papka, Lan), on real logs, the paper's number beside ours.

Theta is ALCF's yearly table where the folder has one, else the log of 2023; DataStar is SDSC-DS (`sdsc-ds` of the catalogue),
else SDSC-BLUE, from the same site and of the same kind, stands in. Mira is ALCF's table, or left out. The report says which.
"""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import numpy as np

from jobwise.compare.intervals import over_seeds
from jobwise.learn.config import Config
from jobwise.learn.run_folder import parts
from jobwise.report import figures
from jobwise.report.sections import Section
from jobwise.simulate import simulate
from jobwise.systems import configure
from jobwise.workload import Workload
from jobwise.workloads.transform import first
from jobwise_experiments import sem_cost
from jobwise_experiments.sem_cost import time_training
from jobwise_experiments.sem_running import largest_running
from jobwise_experiments.study import Study, anchors, files_of, text_interval

LOGS = {  # how the names of files begin, the best first
    "Theta": ("ANL-ALCF-DJC-THETA", "ALCF-Theta"),
    "Mira": ("ANL-ALCF-DJC-MIRA",),
    "Atlas": ("LLNL-Atlas",),
    "DataStar": ("SDSC-DS", "SDSC-BLUE"),
}
OPTIONAL = ("Mira",)  # left out where its log is not at hand
KS = (30, 40, 50)
PAPER = anchors("sem")
AXES = ("utilisation", "1 / mean wait", "1 / longest wait", "1 / mean slowdown")
RULES = ("fcfs+easy", "sjf+easy", "wfp3+easy")
WINDOWS = (10, 20, 30, 40, 50, 60, 70, 80, 90, 100)
SMALL = {"hidden": [64, 32]}  # DRAS's layers at the preset smoke
# side: (log, changes of the configuration, the paper's episodes to convergence, its largest difference in quality)
SIDES = {
    "Theta": ("Theta", {}, {"sem": "60", "dras": "86"}, 0.04),
    "DataStar": ("DataStar", {"reward": "datastar"}, {"sem": "53", "dras": "74"}, 0.06),
}


def study(s: Study) -> list[Section]:
    """All experiments; `preset` small and smoke train on fewer episodes than the paper's 100."""
    return s.parts(running, coverage, windows, *(partial(learning, side=side) for side in SIDES), levels, cost, scaling)


def _kiviat(values: dict[str, np.ndarray], names: tuple[str, ...]) -> str:
    """A polygon per scheduler, an axis per metric, 1 (outside) is the best of all."""

    def draw(figure: Any) -> None:
        axes = figure.add_subplot(projection="polar")
        angles = np.linspace(0, 2 * np.pi, len(names), endpoint=False)
        for i, (name, x) in enumerate(values.items()):
            axes.plot(np.append(angles, angles[0]), np.append(x, x[0]), color=figures.colour(i), label=name)
            axes.fill(angles, x, color=figures.colour(i), alpha=0.05)
        for tick, x in zip(axes.set_xticks(angles, names), np.cos(angles), strict=True):  # labels stand beside the circle
            tick.label1.set_horizontalalignment("left" if x > 0.1 else "right" if x < -0.1 else "center")
        axes.set_ylim(0, 1)
        axes.legend(loc="upper left", bbox_to_anchor=(1.1, 1.0))

    return figures.svg(draw, height=4.2, label="Kiviat diagram")


def _log(s: Study, name: str) -> Workload:
    return s.log(*LOGS[name], smoke=3000)


def _config(s: Study, name: str, log: Workload) -> Config:
    c = configure(name, log, s.preset)
    return c.changed(**SMALL) if s.smoke and name != "sem" else c


# ------------------------------------------------------------------ 1-3: how many jobs run, what K largest lose


def _running(s: Study, name: str) -> dict:
    log = _log(s, name)
    return s.piece(f"running-{name}", lambda: largest_running(simulate(log, "fcfs+easy"), KS))


def running(s: Study) -> Section:
    """How many jobs run at once."""
    there = [n for n in LOGS if n not in OPTIONAL or files_of(s.logs, *LOGS[n])]
    results = {name: _running(s, name) for name in there}
    rows = [[_log(s, n).name, PAPER["maximum"][n], f"{x['most']}", x["mean"]] for n, x in results.items()]
    drawn = figures.running_jobs({_log(s, n).name: x["jobs_share"] for n, x in results.items()})
    return s.section("1. Jobs running at once", rows, figures=[drawn])


def coverage(s: Study) -> Section:
    """What is lost where the K largest running jobs alone are encoded."""
    rows = []
    for name in ("Atlas", "DataStar"):
        x, paper = _running(s, name), [PAPER[key][name] for key in ("loss", "cover")]
        for i, k in enumerate(KS):
            both = f"{x['cover90'][i]:.2%} / {x['cover95'][i]:.2%}"
            rows.append([_log(s, name).name, str(k), paper[0][i], x["loss"][i], paper[1][i], both])
    return s.section("2-3. Node-hour loss and coverage", rows)


# ------------------------------------------------------------------ 4: the window


def windows(s: Study) -> Section:
    """The time of a training by the length of the window."""
    jobs, rows, log = s.pick(50, 200, 1000), [], _log(s, "Theta")
    for window in s.pick((10, 50, 100), WINDOWS, WINDOWS):
        c = _config(s, "dras", log).changed(window=window)
        x = s.piece(f"window-{window}", time_training, s, c, log, jobs, "window")
        rows.append([str(window), x["seconds"], str(x["choices"]), 1000 * x["seconds"] / x["choices"]])
    return s.section("4. The window costs nothing", rows, jobs=jobs)


# ------------------------------------------------------------------ 5, 6: convergence and quality


def convergence(scores: np.ndarray, wide: int = 5, last: int = 10, within: float = 0.02) -> int:
    """First episode (from 1) from which the moving average of `wide` rewards stays within 2 % of the mean of the last ten."""
    scores = np.asarray(scores, float)
    wide, last = min(wide, len(scores)), min(last, len(scores))
    mean = np.convolve(scores, np.ones(wide) / wide, "valid")
    end = scores[-last:].mean()
    off = np.flatnonzero(np.abs(mean - end) > within * abs(end))
    return int(off[-1] + 1 + wide) if len(off) else wide


def _test(log: Workload) -> Workload:
    test = parts(log)[2]
    return first(test, min(6000, len(test)))


def _trained(s: Study, log: Workload, config: Config, name: str, seed: int) -> dict:
    """Train one, replay the test jobs: validation scores, the four axes, seconds."""
    begin = time.perf_counter()
    policy = s.train(config, log, f"{name}{seed}", seed)
    lines, axes = s.metrics(f"{name}{seed}", "validation"), _axes(log, policy)
    scores = {"validation": [x["validation"] for x in lines], "reward": [x["validation_reward"] for x in lines], "axes": axes}
    return scores | {"seconds": time.perf_counter() - begin, "parameters": policy.forward.parameters}


def _axes(log: Workload, policy) -> list[float]:
    summary = simulate(_test(log), policy).summary()
    return [summary["utilisation"], 1 / summary["wait"], 1 / summary["max_wait"], 1 / summary["slowdown"]]


def _seeds(s: Study, log: Workload, c: Config, piece: str, name: str) -> list[dict]:
    return [s.piece(f"{piece}-{k}", _trained, s, log, c, name, k) for k in range(s.seeds)]


def learning(s: Study, side: str) -> list[Section]:
    """Convergence and quality of one side: both encodings with every seed, the paper's figures beside them."""
    of, changes, paper, most = SIDES[side]
    log = _log(s, of)
    runs = {}
    for name in ("sem", "dras"):
        runs[name] = _seeds(s, log, _config(s, name, log).changed(**changes), f"train-{side}-{name}", f"{side}-{name}")
    where = f"{log.name}" + (" in place of DataStar's log" if side == "DataStar" else "")
    episodes = {name: [convergence(x["reward"]) for x in curves] for name, curves in runs.items()}
    area = {name: [float(np.mean(x["reward"])) for x in curves] for name, curves in runs.items()}
    rows = [[name.upper(), paper[name], text_interval(episodes[name]), text_interval(area[name], 4)] for name in runs]
    sooner = [a - b for a, b in zip(episodes["dras"], episodes["sem"], strict=True)]
    rows.append(["DRAS less SEM", f"{int(paper['dras']) - int(paper['sem'])}", text_interval(sooner), ""])
    drawn = figures.convergence({n.upper(): [x["reward"] for x in curves] for n, curves in runs.items()}, "mean reward")
    values = {"side": side, "where": where, "total": len(runs["sem"][0]["validation"])}
    five = s.section("5. Convergence: {side}", rows, figures=[drawn], **values)
    ours, theirs = (np.array([x["axes"] for x in runs[name]]) for name in ("sem", "dras"))
    axes = {"SEM": ours.mean(axis=0), "DRAS": theirs.mean(axis=0)}
    axes |= {r: np.array(s.piece(f"rule-{side}-{r}", _axes, log, r)) for r in RULES}
    best = np.max(list(axes.values()), axis=0)
    rows = [*([name, *(x / best)] for name, x in axes.items()), ["SEM against DRAS", *_paired(theirs, ours)]]
    worst = max(np.exp(np.log(ours / theirs).mean(axis=0)) - 1, key=abs)
    drawn = _kiviat({k: v / best for k, v in axes.items()}, AXES)
    values |= {"test": len(_test(log)), "most": most, "worst": worst, "axes": AXES}
    return [five, s.section("6. Quality: {side}", rows, figures=[drawn], **values)]


def _paired(base: np.ndarray, ours: np.ndarray) -> list[str]:
    """Per axis the change of the geometric mean over seeds [S, axes], paired; its interval from five seeds on."""
    rows = []
    for x in np.log(ours / base).T:
        mean, low, high = (float(np.exp(v)) - 1 for v in over_seeds(x))
        rows.append(f"{mean:+.1%}" if len(x) < 5 else f"{mean:+.1%} [{low:+.1%}, {high:+.1%}]")
    return rows


def levels(s: Study) -> Section:
    """The whole of DRAS, whose second network chooses whom to backfill, against its first level with EASY."""
    log = _log(s, "DataStar")
    c = _config(s, "dras2", log)
    whole = _seeds(s, log, c, "train-levels", "levels")
    one = c.changed(system="dras", encoding={}, network="rows", backfill="easy")
    level = _seeds(s, log, one, "train-level", "level")
    ours, base = (np.array([x["axes"] for x in runs]) for runs in (whole, level))
    best = np.maximum(ours.mean(axis=0), base.mean(axis=0))
    rows = [
        ["DRAS, EASY backfills", level[0]["parameters"], *(base.mean(axis=0) / best)],
        ["DRAS, its second network does", whole[0]["parameters"], *(ours.mean(axis=0) / best)],
        ["the second against EASY", "", *_paired(base, ours)],
    ]
    return s.section("DRAS's second level", rows, name=log.name, axes=AXES)


def cost(s: Study) -> Section:
    """The time of a training and of schedules, by the encoding."""
    return sem_cost.cost(s, _log(s, "Theta"))


def scaling(s: Study) -> Section:
    """The same on larger machines."""
    return sem_cost.scaling(s, _log(s, "Theta"))

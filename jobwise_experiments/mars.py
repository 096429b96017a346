"""MARS's experiments (Baheri, Guan, arXiv:2005.01584): figure 4 as six configurations in three sizes, and plate by plate;
figure 5's learning curves, by jobs and by iterations; the delay between arrivals; ablations. Costs, the model store and
workflows are in `mars_layers.py`. The paper gives no numbers but "5 to 60 % better than other policies"."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from jobwise.compare.intervals import Effect, crossed, in_blocks, log_ratio
from jobwise.compare.windows import begins, numbers, shifted
from jobwise.learn.config import Config
from jobwise.learn.run_folder import parts, windows
from jobwise.report import figures
from jobwise.report.sections import Section
from jobwise.simulate import simulate_many
from jobwise.systems import rla3c
from jobwise.systems.mars import HEURISTICS
from jobwise.systems.rla3c import configure_plain, without
from jobwise.workload import Workload
from jobwise.workloads.lublin import lublin
from jobwise.workloads.transform import first, load, scale_load, stretch
from jobwise_experiments.mars_layers import layers, streams
from jobwise_experiments.study import Study, text_interval

LOGS = ("SDSC-SP2", "SDSC-BLUE", "HPC2N", "ALCF-Theta", "Lublin 256", "Lublin 1024")
SIZES = {"small": 2_000, "medium": 9_000, "large": 25_000}
BUDGET = {"small": 200_000, "medium": 400_000, "large": 600_000}
CURVES = (256, 512, 4_000, 20_000)
SHAKES, CHECKS = 4, 30
EPISODE = 256  # jobs of an iteration


class Plate(NamedTuple):
    """A plate of figure 4: its log, the jobs taken from it (the first, or drawn at random), the loads of training, who of MARS
    and RL-A3C is ahead in the paper."""

    log: str
    jobs: int
    drawn: bool
    loads: tuple[float, ...]
    ahead: str


PLATES = {
    "a": Plate("SDSC-BLUE", 26_000, False, (1.0,), "MARS"),
    "b": Plate("SDSC-BLUE", 15_000, True, (1.0,), "MARS"),
    "c": Plate("HPC2N", 4_000, False, (1.0,), "not said"),
    "d": Plate("ALCF-Theta", 2_000, False, (1.0,), "not said"),
    "e": Plate("SDSC-SP2", 5_700, False, (1.0,), "RL-A3C"),
    "f": Plate("SDSC-SP2", 5_700, False, (0.7, 1.0, 1.3), "MARS"),
}
ITERATIONS = (250, 500, 1_000, 2_000, 4_000, 10_000, 20_000, 50_000)  # at which the curves by iterations are looked at
LEARNT = (256, 20_000)  # jobs that these curves are learnt from: too few, and a large set
DELAYS = (1.5, 1.2, 1.0, 0.85, 0.7)
VARIANTS: dict[str, Callable[[Config], Config]] = {
    "no cold start": lambda c: c.changed(warm=0),
    "no rollback": lambda c: c.changed(rollback=False),
    "features as parts, as published": lambda c: c.changed(encoding={"logs": False}),
    "A3C instead of clipped updates": lambda c: c.changed(learner=c.learner | {"learner": "a3c", "steps": 16}),
    "one-step actor-critic": lambda c: c.changed(learner=c.learner | {"learner": "one_step_ac", "steps": 1}),
    "one process (PPO)": lambda c: c.changed(learner=c.learner | {"learner": "ppo"}),
}


def study(s: Study) -> list[Section]:
    """Everything, in the paper's order; the folder of SWF logs has the folder `workflows` beside it."""
    return s.parts(figure4, plates, delays, figure5, iterations, ablations, layers, streams)


def _log(s: Study, name: str) -> Workload:
    """A log of the folder, or a generated one."""
    if not name.startswith("Lublin"):
        return s.log(name)
    processors = int(name.split()[1])
    return lublin(25_000, processors, processors, load=0.85, estimates="users")


def _cell(s: Study, name: str, size: str) -> tuple[Workload, Config] | None:
    """(the log's first jobs, the configuration of MARS) of a size; None where the log has not nearly as many."""
    log, count = _log(s, name), SIZES[size]
    if len(log) < 0.9 * count:
        return None
    part, factor = first(log, min(count, len(log))), s.pick(0.002, 1.0, 10.0)
    return part, rla3c.ours(part, s.preset).changed(choices=int(factor * BUDGET[size]))


def _key(name: str, size: str) -> str:
    return f"{name.replace(' ', '')}-{size}"


# ------------------------------------------------------------------ figure 4


def measured(test: Workload, policies: list) -> dict:
    """[P] of windows' bounded slowdowns [W, K], and of longest waits (s): the largest of the windows, mean over replicas."""
    size = max(min(256, len(test) // 16), 16)
    rows = begins(0, len(test), size)
    several = [x for row in rows for x in shifted(test, int(row), size, SHAKES, 300.0, 0)]
    results: dict[str, list] = {"slowdown": [], "longest": []}
    for policy in policies:
        each = [numbers(r) for r in simulate_many(several, policy)]
        slow, longest = (np.array([x[k] for x in each]).reshape(len(rows), SHAKES) for k in ("bounded_slowdown", "max_wait"))
        results["slowdown"].append(slow.tolist())
        results["longest"].append(float(longest.max(axis=0).mean()))
    return results


def _trained(s: Study, log: Workload, config: Config, name: str, k: int) -> dict:
    """A policy of `config` with seed k on the unseen jobs; what MARS would have let schedule: it, or the best rule."""

    def learnt() -> dict:
        policy = s.train(config, log, f"{name}-{k}", k)
        by = policy.about.get("serves", "model")
        results = measured(parts(log)[2], [policy, *([by] if by != "model" else [])])
        alone = {"slowdown": results["slowdown"][0], "longest": results["longest"][0], "by": by}
        return alone | {"served": [results["slowdown"][-1], results["longest"][-1]]}

    return s.piece(f"{name}-{k}", learnt)


def change(base: list, ours: list) -> Effect:
    """Of the geometric mean: base [W, K] or [S, W, K], ours [S, W, K]."""
    base = np.array(base)
    each = base if base.ndim == 3 else [base] * len(ours)
    return crossed(np.array([in_blocks(log_ratio(b, np.array(x))) for b, x in zip(each, ours, strict=True)]))


def figure4(s: Study) -> Section:
    """MARS, RL-A3C as published and plain actor-critic beside rules: six workloads, three sizes."""
    rows, every, shown = [], [], {}
    for name in s.pick(LOGS[:1], LOGS, LOGS):
        for size in s.pick(("small",), SIZES, SIZES):
            cell = _cell(s, name, size)
            if cell is not None:
                row, against, means = _compared(s, *cell, f"{name}, {size}", _key(name, size))
                rows.append(row)
                every.append(_against(row, against))
                shown.setdefault(name, {})[row[0]] = means
    drawn = [figures.bars(x, "mean bounded slowdown") for x in shown.values()]
    return s.section("Figure 4: six workloads, three sizes", rows, every, figures=drawn, rules=HEURISTICS, shakes=SHAKES)


def _against(row: list, against: list[Effect]) -> list:
    """A row of the changes against every rule, their mean last."""
    return [row[0], *against, np.mean([e.change for e in against])]


def _compared(s: Study, log: Workload, config: Config, label: str, tag: str) -> tuple[list, list[Effect], dict]:
    """(a row, the changes against every rule, mean slowdowns by name) of a workload; `tag`: in the names of its pieces."""
    test = parts(log)[2]
    of_rules = s.piece(f"rules-{tag}", measured, test, list(HEURISTICS))
    rules = {n: (of_rules["slowdown"][i], of_rules["longest"][i]) for i, n in enumerate(HEURISTICS)}
    published = configure_plain(log, s.preset).changed(choices=config.choices, loads=config.loads)
    configs = {"mars": config, "published": published, "plain": without(config)}
    runs = {n: [_trained(s, log, c, f"{n}-{tag}", k) for k in range(s.seeds)] for n, c in configs.items()}
    ours, waits = zip(*(x["served"] for x in runs["mars"]), strict=True)
    best = min(HEURISTICS, key=lambda n: float(np.log(rules[n][0]).mean()))
    against = {n: change(rules[n][0], ours) for n in HEURISTICS}
    by = [x["by"] for x in runs["mars"]]
    schedules = f"{by.count('model')} of {s.seeds}" if "model" in by else ", ".join(sorted(set(by)))
    row = [
        label,
        f"{len(test):,}",
        np.mean(ours),
        schedules,
        f"{best} {np.mean(rules[best][0]):.2f}",
        against[best],
    ]
    published, plain = ([x["slowdown"] for x in runs[n]] for n in ("published", "plain"))
    row += [
        np.mean(published),
        change(published, ours),
        np.mean(plain),
        change(plain, ours),
        np.mean(waits) / rules[best][1] - 1,
    ]
    shown = {n: rules[n][0] for n in HEURISTICS} | {"RL-A3C": published, "MARS": ours}
    return row, list(against.values()), {n: float(np.mean(x)) for n, x in shown.items()}


def plates(s: Study) -> Section:
    """Figure 4 plate by plate: the paper's logs, numbers of jobs and iterations."""
    rows, every, shown, count = [], [], {}, s.pick(2, 1_000, 4_000)
    for name in s.pick(("b", "f"), PLATES, PLATES):
        plate = PLATES[name]
        log = _jobs(s, plate)
        config = rla3c.ours(log, "smoke" if s.smoke else "small")
        config = config.changed(choices=count * EPISODE, loads=list(plate.loads))
        label = f"{name}: {plate.log}, {len(log):,} jobs"
        row, against, means = _compared(s, log, config, label, f"plate-{name}")
        rows.append([*row[:2], plate.ahead, *row[2:]])
        every.append(_against(row, against))
        shown[label.replace(", ", ",\n")] = means
    drawn = [figures.bars(shown, "mean bounded slowdown")]
    values = {"rules": HEURISTICS, "shakes": SHAKES, "iterations": count}
    return s.section("Figure 4: plate by plate", rows, every, figures=drawn, **values)


def _jobs(s: Study, plate: Plate) -> Workload:
    """The jobs of a plate; where they are drawn at random, gaps shrink so that the load stays that of the log."""
    log = s.log(plate.log)
    count = min(s.pick(600, plate.jobs, plate.jobs), len(log))
    if not plate.drawn:
        return first(log, count)
    some = np.sort(np.random.default_rng(0).choice(len(log), count, replace=False))
    return scale_load(log.take(some), load(log))


def delays(s: Study) -> Section:
    """MARS, RL-A3C and rules where jobs arrive at other distances: all gaps between submits of a log times a factor."""
    rows, every = [], []
    log = first(s.log("SDSC-SP2"), s.pick(600, 9_000, 9_000))
    for factor in s.pick(DELAYS[:1], DELAYS, DELAYS):
        part = stretch(log, factor)
        config = rla3c.ours(part, "smoke" if s.smoke else "small").changed(choices=s.pick(400, 400_000, 400_000))
        row, against, _ = _compared(s, part, config, f"{factor:g}", f"delay-{factor:g}")
        rows.append([row[0], load(part), *row[2:]])
        every.append(_against(row, against))
    return s.section("The delay between arrivals", rows, every, rules=HEURISTICS, jobs=len(log))


# ------------------------------------------------------------------ figure 5


def figure5(s: Study) -> Section:
    """Learning curves by the number of jobs that are learnt from."""
    looks, seeds, log, end = s.pick(6, CHECKS, CHECKS), range(min(s.seeds, 3)), s.log("SDSC-SP2"), 24_000
    unseen, curves, rows = windows(log.take(slice(end, end + 6_000)), 256, 12), {}, []
    for n in s.pick(CURVES[:2], CURVES, CURVES):
        for loads in ([1.0], [0.7, 1.0, 1.3]) if n == 4_000 else ([1.0],):
            part, drawn = log.take(slice(end - n, end)), len(loads) > 1
            config = rla3c.ours(log, s.preset).changed(loads=loads, rollback=False, warm=0, jobs=min(256, n), threads=s.threads)
            config = config.changed(learner=config.learner | {"critic_first": 0}, whole_log=True)
            config = config.changed(choices=500) if s.smoke else config

            def learnt(config: Config = config, part: Workload = part) -> list:
                marks = [(k + 1) / looks * config.choices for k in range(looks)]
                return [curve(config.changed(seed=k), part, unseen, marks) for k in seeds]

            points = s.piece(f"curve-{n}{'-loads' if drawn else ''}", learnt)
            label = f"n = {n:,}" + (", load drawn anew" if drawn else "")
            curves[label] = [[y for _, y in x] for x in points]
            at = [min(x, key=lambda p: p[1])[0] / x[-1][0] for x in points]
            final, least = ([f(x) for x in curves[label]] for f in (lambda x: x[-1], min))
            rows.append([label, text_interval(least, 2), text_interval(final, 2), f"{100 * np.mean(at):.0f} %"])
    shown = figures.convergence(curves, "score on unseen jobs", f"look, {looks} in all")
    values = {"windows": len(unseen), "seeds": len(seeds), "checks": looks}
    return s.section("Figure 5: learning curves", rows, figures=[shown], **values)


def iterations(s: Study) -> Section:
    """Learning curves by the number of iterations, up to the paper's 50,000: when there is too much of it."""
    log, end, curves, rows = s.log("SDSC-SP2"), 24_000, {}, []
    unseen = windows(log.take(slice(end, end + 6_000)), EPISODE, 12)
    marks = ITERATIONS[: s.pick(1, 5, None)]
    for n in s.pick(LEARNT[:1], LEARNT, LEARNT):
        part = log.take(slice(end - n, end))
        config = rla3c.ours(log, "small").changed(rollback=False, warm=0, jobs=EPISODE, threads=s.threads, whole_log=True)
        config = config.changed(learner=config.learner | {"critic_first": 0})
        at = [400] if s.smoke else [EPISODE * k for k in marks]
        points = [s.piece(f"iterations-{n}-{k}", curve, config.changed(seed=k), part, unseen, at) for k in range(s.seeds)]
        curves[f"n = {n:,}"] = [[y for _, y in x] for x in points]
        rows.append([f"{n:,}", *(text_interval(x, 2) for x in zip(*curves[f"n = {n:,}"], strict=True))])
    means = {name: (marks, np.mean(x, axis=0)) for name, x in curves.items()}
    shown = s.lines("iterations", means, "iterations", "score on unseen jobs", xscale="log")
    values = {"windows": len(unseen), "marks": [f"{k:,}" for k in marks], "episode": EPISODE}
    return s.section("Figure 5: learning curves by iterations", rows, figures=[shown], **values)


def curve(config: Config, part: Workload, unseen: list[Workload], marks: Sequence[float]) -> list[list[float]]:
    """[choices made, score on unseen windows] of a training run, after `marks` choices."""
    trainer, done, updates, points = config.trainer(part, "cpu"), 0, 0, []
    trainer.validation = unseen
    trainer.begin()
    while len(points) < len(marks):
        done += trainer.update(updates)["choices"]
        updates += 1
        while len(points) < len(marks) and done >= marks[len(points)]:
            points.append([done, trainer.validate(trainer.policy(trainer.weights(), {}))["validation"]])
    trainer.envs.close()
    return points


# ------------------------------------------------------------------ ablations


def ablations(s: Study) -> Section:
    """The model without its parts."""
    name, size, seeds = "SDSC-SP2", s.pick("small", "medium", "medium"), range(min(s.seeds, 3))
    log, config = _cell(s, name, size)
    configs = {"MARS's model": ("mars", config)}
    made = {label: (f"ablation{i}", f(config)) for i, (label, f) in enumerate(VARIANTS.items())}
    configs |= dict(list(made.items())[:: s.pick(3, 1, 1)])
    slow = {n: [_trained(s, log, c, f"{k}-{_key(name, size)}", j)["slowdown"] for j in seeds] for n, (k, c) in configs.items()}
    base = slow["MARS's model"]
    rows = [[name, label, np.mean(x), "" if x is base else change(base, x)] for label, x in slow.items()]
    return s.section("What the model is made of", rows, seeds=len(seeds))

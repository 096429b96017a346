"""MARS's experiments (Baheri, Guan, arXiv:2005.01584): figure 4 as six configurations in three sizes, figure 5's learning
curves, ablations; costs, the model store and workflows are in `mars_layers.py`. The paper gives no numbers but "5 to 60 %
better than other policies"."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from jobwise.compare.intervals import Effect, crossed, in_blocks, log_ratio
from jobwise.compare.windows import begins, numbers, replicas
from jobwise.learn.config import Config
from jobwise.learn.run_folder import parts, windows
from jobwise.report.sections import Section, Table
from jobwise.simulate import simulate_many
from jobwise.systems.mars import HEURISTICS
from jobwise.systems.rla3c import configure, configure_plain, without
from jobwise.workload import Workload
from jobwise.workloads.lublin import lublin
from jobwise.workloads.transform import first
from jobwise_experiments.mars_layers import layers
from jobwise_experiments.study import Study, prose, read_log, text_interval

LOGS = ("SDSC-SP2", "SDSC-BLUE", "HPC2N", "ALCF-Theta", "Lublin 256", "Lublin 1024")
SIZES = {"small": 2_000, "medium": 9_000, "large": 25_000}
BUDGET = {"small": 200_000, "medium": 400_000, "large": 600_000}
CURVES = (256, 512, 4_000, 20_000)
SHAKES, CHECKS = 4, 30
VARIANTS: dict[str, Callable[[Config], Config]] = {
    "no cold start": lambda c: c.changed(warm=0),
    "no rollback": lambda c: c.changed(rollback=False),
    "features as parts, as published": lambda c: c.changed(encoding={"logs": False}),
    "A3C instead of clipped updates": lambda c: c.changed(learner=c.learner | {"learner": "a3c", "steps": 16}),
    "one-step actor-critic": lambda c: c.changed(learner=c.learner | {"learner": "one_step_ac", "steps": 1}),
    "one process (PPO)": lambda c: c.changed(learner=c.learner | {"learner": "ppo"}),
}


def log_of(logs: Path, name: str) -> Workload:
    """A log of the folder, or a generated one."""
    if name.startswith("Lublin"):
        procs = int(name.split()[1])
        return lublin(25_000, procs, procs, load=0.85, estimates="users")
    return read_log(logs, name)


def cell(log: Workload, size: str, preset: str) -> tuple[Workload, Config] | None:
    """(the log's first jobs, the configuration of MARS) of a size; None where the log has not nearly as many."""
    count = SIZES[size]
    if len(log) < 0.9 * count:
        return None
    part = first(log, min(count, len(log)))
    factor = {"smoke": 0.002, "small": 1.0, "paper": 10.0}[preset]
    return part, configure(part, preset).changed(choices=int(factor * BUDGET[size]))


def key(name: str, size: str) -> str:
    """Return the name of a piece or run."""
    return f"{name.replace(' ', '')}-{size}"


def study(logs: Path, s: Study, preset: str, seeds: int) -> list[Section]:
    """Everything, in the paper's order; `logs`: SWF logs, and beside it the folder `workflows`."""
    some = preset == "smoke"
    cells = [(name, size) for name in (LOGS[:1] if some else LOGS) for size in (("small",) if some else SIZES)]
    return s.parts(
        lambda: _figure4(s, logs, cells, preset, seeds),
        lambda: _figure5(s, logs, preset, seeds),
        lambda: _ablations(s, logs, preset, seeds),
        lambda: layers(s, logs, preset),
    )


# ------------------------------------------------------------------ figure 4


def measured(test: Workload, policies: list) -> dict:
    """[P] of windows' bounded slowdowns [W, K], and of longest waits (s): the largest of the windows, mean over replicas."""
    size = max(min(256, len(test) // 16), 16)
    rows = begins(0, len(test), size)
    parts = [x for row in rows for x in replicas(test, int(row), size, SHAKES, 300.0, 0)]
    results: dict[str, list] = {"slowdown": [], "longest": []}
    for policy in policies:
        each = [numbers(r) for r in simulate_many(parts, policy)]
        slow, longest = (np.array([x[k] for x in each]).reshape(len(rows), SHAKES) for k in ("bounded_slowdown", "max_wait"))
        results["slowdown"].append(slow.tolist())
        results["longest"].append(float(longest.max(axis=0).mean()))
    return results


def rules_of(s: Study, log: Workload, name: str) -> dict:
    """The heuristics on the unseen jobs."""
    results = s.piece(f"rules-{name}", lambda: measured(parts(log)[2], list(HEURISTICS)))
    return {n: (results["slowdown"][i], results["longest"][i]) for i, n in enumerate(HEURISTICS)}


def trained(s: Study, log: Workload, config: Config, name: str, k: int) -> dict:
    """A policy of `config` with seed k on the unseen jobs; what MARS would have let schedule: it, or the best rule."""

    def learnt() -> dict:
        policy = s.train(config, log, f"{name}-{k}", k)
        by = policy.about.get("serves", "model")
        results = measured(parts(log)[2], [policy, *([by] if by != "model" else [])])
        alone = {"slowdown": results["slowdown"][0], "longest": results["longest"][0], "by": by}
        return alone | {"served": [results["slowdown"][-1], results["longest"][-1]]}

    return s.piece(f"{name}-{k}", learnt)


def played(s: Study, log: Workload, config: Config, preset: str, tag: str, k: int) -> tuple[dict, dict, dict]:
    """(MARS, RL-A3C as published, plain actor-critic in the environment of MARS) of one cell with seed k."""
    published = configure_plain(log, preset).changed(choices=config.choices)
    made = {"mars": config, "published": published, "plain": without(config)}
    return tuple(trained(s, log, c, f"{name}-{tag}", k) for name, c in made.items())


def change(base: list, ours: list) -> Effect:
    """Of the geometric mean: base [W, K] or [S, W, K], ours [S, W, K]."""
    base = np.array(base)
    each = base if base.ndim == 3 else [base] * len(ours)
    return crossed(np.array([in_blocks(log_ratio(b, np.array(x))) for b, x in zip(each, ours, strict=True)]))


def _figure4(s: Study, logs: Path, cells: list, preset: str, seeds: int) -> Section:
    from jobwise.report import figures

    rows, every, shown = [], [], {}
    for name, size in cells:
        if (made := cell(log_of(logs, name), size, preset)) is None:
            continue
        (log, config), label, tag = made, f"{name}, {size}", key(name, size)
        rules = rules_of(s, log, tag)
        alone, published, plain = zip(*[played(s, log, config, preset, tag, k) for k in range(seeds)], strict=True)
        mars, published, plain = [m["served"] for m in alone], *([x["slowdown"] for x in y] for y in (published, plain))
        ours = [x for x, _ in mars]
        best = min(HEURISTICS, key=lambda n: float(np.log(rules[n][0]).mean()))
        against = {n: change(rules[n][0], ours) for n in HEURISTICS}
        count = sum(m["by"] == "model" for m in alone)
        by = f"{count} of {seeds}" if count else ", ".join(sorted({m["by"] for m in alone}))
        row = [label, f"{len(parts(log)[2]):,}", f"{np.mean(ours):.2f}", by, f"{best} {np.mean(rules[best][0]):.2f}"]
        row += [against[best].text(), f"{np.mean(published):.2f}", change(published, ours).text()]
        row += [f"{np.mean(plain):.2f}", change(plain, ours).text()]
        rows.append([*row, f"{np.mean([w for _, w in mars]) / rules[best][1] - 1:+.0%}"])
        mean = np.mean([e.change for e in against.values()])
        every.append([label, *[against[n].text() for n in HEURISTICS], f"{mean:+.0%}"])
        shown[label] = {n: float(np.mean(rules[n][0])) for n in HEURISTICS}
        shown[label] |= {"RL-A3C": float(np.mean(published)), "MARS": float(np.mean(ours))}
    columns = ["workload", "judged jobs", "MARS", "the model schedules", "best rule", "against it", "RL-A3C", "against it"]
    columns += ["actor-critic", "against it", "longest wait against the best rule's"]
    tables = [Table(columns, rows), Table(["MARS against", *HEURISTICS, "mean"], every)]
    text = prose("mars", "figure 4", shakes=SHAKES, seeds=seeds)
    each = [{k: v for k, v in shown.items() if k.startswith(f"{name},")} for name in dict.fromkeys(n for n, _ in cells)]
    drawn = [figures.bars(x, "mean bounded slowdown") for x in each if x]
    return Section("Figure 4: six workloads, three sizes", text, tables, drawn)


# ------------------------------------------------------------------ figure 5


def _figure5(s: Study, logs: Path, preset: str, seeds: int) -> Section:
    from jobwise.report import figures

    looks = 6 if preset == "smoke" else CHECKS
    log, curves, rows, judged, many = log_of(logs, "SDSC-SP2"), {}, [], 24_000, range(min(seeds, 3))
    unseen = windows(log.take(slice(judged, judged + 6_000)), 256, 12)
    for n in CURVES if preset != "smoke" else CURVES[:2]:
        for loads in ([1.0], [0.7, 1.0, 1.3]) if n == 4_000 else ([1.0],):
            part, drawn = log.take(slice(judged - n, judged)), len(loads) > 1
            config = configure(log, preset).changed(loads=loads, rollback=False, warm=0, jobs=min(256, n), threads=s.threads)
            config = config.changed(learner=config.learner | {"critic_first": 0}, whole_log=True)
            config = config.changed(choices=500) if preset == "smoke" else config

            def learnt(config=config, part=part) -> list:
                return [curve(config.changed(seed=k), part, unseen, looks) for k in many]

            points = s.piece(f"curve-{n}{'-loads' if drawn else ''}", learnt)
            label = f"n = {n:,}" + (", load drawn anew" if drawn else "")
            curves[label] = [[y for _, y in x] for x in points]
            at = [min(x, key=lambda p: p[1])[0] / x[-1][0] for x in points]
            final, least = ([f(x) for x in curves[label]] for f in (lambda x: x[-1], min))
            rows.append([label, text_interval(least, 2), text_interval(final, 2), f"{100 * np.mean(at):.0f} %"])
    text = prose("mars", "figure 5", windows=len(unseen), seeds=len(many), checks=looks)
    shown = figures.convergence(curves, "score on unseen jobs", f"look, {looks} in all")
    return Section("Figure 5: learning curves", text, [Table(["jobs", "least", "at the end", "least at"], rows)], [shown])


def curve(config: Config, part: Workload, unseen: list[Workload], looks: int) -> list[list[float]]:
    """[choices made, score on unseen windows] of a training run, `looks` times."""
    trainer, done, updates, points = config.trainer(part, "cpu"), 0, 0, []
    trainer.validation = unseen
    trainer.begin()
    while len(points) < looks:
        done += trainer.update(updates)["choices"]
        updates += 1
        while len(points) < looks and done >= (len(points) + 1) / looks * config.choices:
            points.append([done, trainer.validate(trainer.policy(trainer.weights(), {}))["validation"]])
    trainer.envs.close()
    return points


# ------------------------------------------------------------------ ablations


def _ablations(s: Study, logs: Path, preset: str, seeds: int) -> Section:
    rows, some = [], range(min(seeds, 3))
    for name, size in (("SDSC-SP2", "medium" if preset != "smoke" else "small"),):
        log, config = cell(log_of(logs, name), size, preset)
        tag = key(name, size)
        base = [trained(s, log, config, f"mars-{tag}", k)["slowdown"] for k in some]
        rows.append([name, "MARS's model", f"{np.mean(base):.2f}", ""])
        made = {label: f(config) for label, f in VARIANTS.items()}
        for i, (label, changed) in enumerate(made.items()):
            slowdowns = [trained(s, log, changed, f"ablation{i}-{tag}", k)["slowdown"] for k in some]
            rows.append([name, label, f"{np.mean(slowdowns):.2f}", change(base, slowdowns).text()])
    text = f"The model alone, 9,000 jobs, {len(some)} seeds; a change above 0 says that the part that was left out helped."
    return Section("What the model is made of", text, [Table(["workload", "variant", "bounded slowdown", "change"], rows)])

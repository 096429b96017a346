"""Does every learner learn? Ours on two logs, against random, FCFS and the best rules on windows nobody has seen."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from jobwise.compare.baselines import CLASSIC as RULES
from jobwise.compare.intervals import compared, crossed, in_blocks, log_ratio
from jobwise.compare.procedure import compare
from jobwise.learn.run_folder import parts
from jobwise.report.sections import Section, Table
from jobwise.systems import configure
from jobwise.workload import Workload
from jobwise.workloads.transform import first
from jobwise_experiments.study import Study, prose, read_log

LOGS = ("SDSC-SP2", "lublin_256")
LEARNERS = {
    "ppo": {},
    "actor_critic": {"learner": "actor_critic", "steps": 16, "critic_lr": 5e-3},
    "reinforce": {"learner": "reinforce", "actor_lr": 1e-2},
}


def study(logs: Path, s: Study, preset: str, seeds: int) -> list[Section]:
    """Train each learner with each seed on the first 70 %, compare on the last 30 %."""
    some = LOGS[:1] if preset == "smoke" else LOGS
    return s.parts(*(lambda name=name: _one(s, read_log(logs, name), preset, seeds) for name in some))


def _one(s: Study, log: Workload, preset: str, seeds: int) -> Section:
    from jobwise.report import figures

    log = first(log, min(len(log), 2000)) if preset == "smoke" else log
    base, windows = configure("perjob", log, preset), {}
    base = base.changed(choices=1_500, validations=2, validation_windows=4) if preset == "smoke" else base
    test = parts(log)[2]
    size = min(256, len(test) // 8)
    shakes = 1 if preset == "smoke" else 4
    rules = ["fcfs+easy", "random+easy", *(f"{r}+easy" for r in RULES if r != "fcfs")]

    def against_rules() -> dict:
        c = compare(test, rules, window_jobs=size, shakes=shakes, shake_s=300.0)
        return dict(zip(c.policies, c.windows["bounded_slowdown"].tolist(), strict=True))

    windows = s.piece(f"rules-{log.name}", against_rules)
    rows = []
    best = min(rules, key=lambda r: np.mean(windows[r]))
    for name, changes in LEARNERS.items():
        validated = []
        for k in range(seeds):

            def learnt(name=name, changes=changes, k=k) -> list[float]:
                config = base.changed(learner=base.learner | changes)
                policy = s.train(config, log, f"{log.name}-{name}{k}", k)
                c = compare(test, [policy], window_jobs=size, shakes=shakes, shake_s=300.0)
                return c.windows["bounded_slowdown"][0].tolist()

            validated.append(s.piece(f"{log.name}-{name}-{k}", learnt))
        windows[name] = validated
        row = [name, f"{np.mean(validated):.2f}", " ".join(f"{np.mean(x):.1f}" for x in validated)]
        for other in ("random+easy", "fcfs+easy", best):
            row.append(change(windows[other], windows[name]))
        rows.append(row)
    for r in rules:
        row = [r, f"{np.mean(windows[r]):.2f}", ""]
        rows.append(row + [change(windows[o], windows[r]) if o != r else "" for o in ("random+easy", "fcfs+easy", best)])
    text = prose(
        "learners", "one", name=log.name, choices=base.choices, seeds=seeds, best=len(windows[best]), size=size, shakes=shakes
    )
    columns = ["scheduler", "mean bounded slowdown", "each seed", "against random", "against FCFS", f"against {best}"]
    shown = {k: float(np.mean(windows[k])) for k in ("random+easy", "fcfs+easy", best, *LEARNERS)}
    return Section(log.name, text, [Table(columns, rows)], [figures.bars({log.name: shown}, "mean bounded slowdown")])


def change(base: list, ours: list) -> str:
    """Change of the geometric mean over windows, over blocks of two: base [W, K], ours the same or [S, W, K] of S seeds."""
    ours = np.array(ours)
    if ours.ndim < 3:
        return compared(np.array(base), ours).text()
    return crossed(np.array([in_blocks(log_ratio(np.array(base), x)) for x in ours])).text()

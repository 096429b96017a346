"""Does every learner learn? Ours on two logs, against random, FCFS and the best rules on windows nobody has seen."""

from __future__ import annotations

from functools import partial

import numpy as np

from jobwise.compare.baselines import CLASSIC
from jobwise.compare.procedure import compare
from jobwise.learn.run_folder import parts
from jobwise.report.figures import bars
from jobwise.report.sections import Section
from jobwise.systems import configure
from jobwise_experiments.mars import change
from jobwise_experiments.study import Study

LOGS = ("SDSC-SP2", "lublin_256")
RULES = ["fcfs+easy", "random+easy", *(f"{r}+easy" for r in CLASSIC if r != "fcfs")]
LEARNERS = {
    "ppo": {},
    "actor_critic": {"learner": "actor_critic", "steps": 16, "critic_lr": 5e-3},
    "reinforce": {"learner": "reinforce", "actor_lr": 1e-2},
}


def study(s: Study) -> list[Section]:
    """Train each learner with each seed on the first 70 %, compare on the last 30 %."""
    return s.parts(*(partial(one, name=name) for name in s.pick(LOGS[:1], LOGS, LOGS)))


def one(s: Study, name: str) -> Section:
    """All learners on one log."""
    log = s.log(name, smoke=2000)
    base, test = configure("perjob", log, s.preset), parts(log)[2]
    base = base.changed(choices=1_500, validations=2, validation_windows=4) if s.smoke else base
    size, shakes = min(256, len(test) // 8), s.pick(1, 4, 4)

    def on_windows(policies: list) -> dict[str, list]:
        c = compare(test, policies, window_jobs=size, replicas=shakes, jitter_s=300.0)
        return dict(zip(c.policies, c.windows["bounded_slowdown"].tolist(), strict=True))

    def learnt(learner: str, k: int) -> list:
        config = base.changed(learner=base.learner | LEARNERS[learner])
        return next(iter(on_windows([s.train(config, log, f"{log.name}-{learner}{k}", k)]).values()))

    rules = s.piece(f"rules-{log.name}", on_windows, RULES)
    seeds = {n: [s.piece(f"{log.name}-{n}-{k}", learnt, n, k) for k in range(s.seeds)] for n in LEARNERS}
    best, rows = min(RULES, key=lambda r: np.mean(rules[r])), []
    for n, x in (seeds | {r: [rules[r]] for r in RULES}).items():
        each = " ".join(f"{np.mean(y):.1f}" for y in x) if n in LEARNERS else ""
        rows.append([n, np.mean(x), each, *("" if n == o else change(rules[o], x) for o in ("random+easy", "fcfs+easy", best))])
    shown = {n: float(np.mean(x)) for n, x in ({r: rules[r] for r in ("random+easy", "fcfs+easy", best)} | seeds).items()}
    values = {"choices": base.choices, "windows": len(rules[best]), "size": size, "shakes": shakes, "best": best}
    return s.section("{name}", rows, figures=[bars({log.name: shown}, "mean bounded slowdown")], name=log.name, **values)

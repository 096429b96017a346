"""Forecasts online, the express lane, the promise: measured at rolling origins of each log, with forests that have not seen it.

Windows: from an empty machine, no bound on waits. Continuous: the tenth of the log after each origin in one piece, beside the
rule that was best on the jobs before it within the same bound.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from jobwise.compare.intervals import Effect, effect, pooled
from jobwise.compare.origins import Origins, origins
from jobwise.policies.list_scheduler import ListScheduler
from jobwise.policies.names import load, resolve
from jobwise.report.sections import Section, Table
from jobwise.studies import Study, forest, read_log
from jobwise.workload import Workload
from jobwise.workloads.transform import first

LOGS = ("HPC2N", "lublin_256", "SDSC-SP2", "ALCF-Theta", "LANL-CM5", "SDSC-BLUE")
RULES = ("fcfs+easy", "smith+easy", "general+easy")
BOUND = 1.2
SHAKES = 4


def study(logs: Path, s: Study, preset: str, seeds: int) -> list[Section]:
    """Forests, windows, continuous. Raises InputError."""
    found = forest.study(logs, s, preset, seeds)
    every = {}
    for name in LOGS:
        log = read_log(logs, name)
        log = first(log, min(len(log), 3000)) if preset == "smoke" else log
        every[log.name] = s.piece(f"origins-{name}", lambda log=log: _one(s, log, preset))
    return [*found, _windows(every), _continuous(every)]


def _order(s: Study, log: Workload) -> ListScheduler:
    """`smith-forecast` with a forest that has not seen this log."""
    file = forest.without(s.out, log)
    found = load(file) if file.is_file() else resolve("smith-forecast+easy")
    return ListScheduler(replace(found.order, label="smith-forecast"), "easy")


def _one(s: Study, log: Workload, preset: str) -> dict:
    shakes, count = (1, 2) if preset == "smoke" else (SHAKES, 6)
    plain = _order(s, log)
    aged = replace(plain, order=replace(plain.order, label="smith-forecast-aged", ageing=1.0))
    s.say(f"windows of {log.name}")
    o = origins(log, [*RULES, plain], count, shakes=shakes)
    told = {"windows": [o.effects(b) for b in (None, 1, 2)], "means": [o.mean(p) for p in range(len(o.policies))]}
    told = {"windows": [[vars(e[p]) for p in range(len(o.policies))] for e in told["windows"]], "means": told["means"]}
    told |= {"policies": o.policies, "chosen": o.chosen}
    kept = [replace(aged, promise=1.1, express=x) for x in (0.0, 0.01, 0.03)]
    s.say(f"continuous replays of {log.name}")
    o = origins(log, ["fcfs+easy", *kept], count, shakes=shakes, max_wait=BOUND)
    told["continuous"] = [_whole(o, p) for p in range(len(o.policies))]
    return told | {"bounded": o.policies, "bounded chosen": o.chosen}


def _whole(o: Origins, p: int) -> dict:
    """What a policy makes of continuous replays: means, change against the fair rule, longest waits as multiples."""
    fair, d, slow, ratio = len(o.policies) - 1, [], [], []
    for k, c in enumerate(o.found):
        mine, base = c.blocks[o._place(k, p)].mean(axis=0), c.blocks[o._place(k, fair)].mean(axis=0)
        d.append(np.log(mine / base))
        slow.append(c.blocks[o._place(k, p)].mean())
        ratio += list(c.wait_ratios(o._place(k, p), 0))
    return {"mean": float(np.mean(slow)), "effect": vars(effect(np.concatenate(d))), "ratio": [float(x) for x in ratio]}


def _windows(every: dict[str, dict]) -> Section:
    rows, per = [], [[] for _ in range(3)]
    for name, x in every.items():
        p = len(RULES)
        effects = [Effect(**x["windows"][b][p]) for b in range(3)]
        for b, e in enumerate(effects):
            per[b].append(e)
        rows.append([name, *(f"{m:.2f}" for m in x["means"]), *(e.text() for e in effects)])
    rows.append(["all logs", *[""] * (len(RULES) + 2), *(pooled(e).text() for e in per)])
    columns = ["log", *RULES, "smith-forecast", "fair best rule", "against it", "against smith", "against general"]
    note = (
        "Mean bounded slowdown (tau = 10 s) on windows of 1,024 jobs after six origins (0.4 to 0.9 of a log), four shaken "
        "replicas each; the fair best rule is chosen anew on the jobs before each origin, among all classic rules with their "
        "backfilling and guards. Changes: geometric mean over blocks of two windows, 95 %. `smith-forecast` has a forest that "
        "was learnt without this log (lublin: with all). Last row: random effects over logs."
    )
    return Section("Windows", note, [Table(columns, rows)])


def _continuous(every: dict[str, dict]) -> Section:
    rows, per, ratios = [], {}, {}
    for name, x in every.items():
        for p, policy in enumerate(x["bounded"]):
            y = x["continuous"][p]
            e, r = Effect(**y["effect"]), np.array(y["ratio"])
            per.setdefault(policy, []).append(e)
            ratios.setdefault(policy, []).append(r)
            cells = [f"{np.median(r):.2f} ({r.max():.2f})", f"{(r <= BOUND).mean():.0%}", f"{(r > 1.5).sum()}"]
            rows.append([name, policy, f"{y['mean']:.1f}", "" if p == len(x["bounded"]) - 1 else e.text(), *cells])
    for policy, effects in per.items():
        r = np.concatenate(ratios[policy])
        told = "" if policy == "fair best rule" else pooled(effects).text()
        rows.append(["all logs", policy, "", told, f"{np.median(r):.2f} ({r.max():.2f})", f"{(r <= BOUND).mean():.0%}",
                     f"{(r > 1.5).sum()}"])  # fmt: skip
    columns = ["log", "policy", "slowdown", "against the fair rule", "longest wait", f"at most {BOUND:g} x", "above 1.5 x"]
    note = (
        "The tenth of the log after each of six origins in one piece, four shaken replicas. Longest wait: as a multiple of "
        "that of fcfs+easy, median (largest) over origins and replicas; the fair best rule was within "
        f"{BOUND:g} x on the jobs before the origin. Changes: geometric mean over blocks of time, 95 %. No lane, and "
        "express lanes of 1 and 3 % of the work; the forest learnt without this log. The shadow of the promise is no oracle: "
        "it knows how long jobs ran that have ended, and forecasts. Settings were chosen on 30 to 70 % of five of these logs."
    )
    return Section("Continuous, with a promise about waits", note, [Table(columns, rows)])

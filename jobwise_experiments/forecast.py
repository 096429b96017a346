"""Forecasts online, the express lane, the promise: measured at rolling origins of each log, with forests that have not seen it.

Windows: from an empty machine, no bound on waits. Continuous: the tenth of the log after each origin in one piece, beside the
rule that was best on the jobs before it within the same bound.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from jobwise.compare.intervals import Effect, effect, in_blocks, log_ratio, pooled
from jobwise.compare.origins import FAIR, FROM, MOST, STEP, Origins, origins
from jobwise.compare.procedure import compare
from jobwise.errors import InputError
from jobwise.forecast import forests
from jobwise.policies import refit
from jobwise.policies.list_scheduler import ListScheduler
from jobwise.policies.loglinear import Index
from jobwise.policies.names import load, resolve
from jobwise.policies.recommended import aged, recommended
from jobwise.report.sections import Section, Table
from jobwise.sim.forest import NOTHING
from jobwise.workload import Workload
from jobwise.workloads.transform import first, overruns
from jobwise_experiments import forest
from jobwise_experiments.study import Study, prose, read_log

LOGS = ("HPC2N", "lublin_256", "SDSC-SP2", "ALCF-Theta", "NASA-iPSC", "MetaCentrum", "LLNL-Atlas", "LANL-CM5")
LOGS += ("SDSC-BLUE", "RICC")
SMOKE = ("SDSC-SP2",)  # logs of the preset smoke
RULES = ("fcfs+easy", "smith+easy", "general+easy")
KEPT = ("fcfs+easy", "no promise", "promise 1.1x", "promise 1.1x, lane 1 %", "jobwise", FAIR)  # continuous
OURS = ("smith-forecast", "jobwise-unbounded", "jobwise", "true run times")
AGAINST = (None, 1, 2)  # policies on windows that ours are measured against: the fair best rule, smith, general
AT = [round(FROM + STEP * k, 1) for k in range(MOST)]  # origins
BOUND = 1.2
SHAKES = 4
BUSY = 1.5  # mean slowdown of FCFS with EASY on windows; logs with less, where hardly anybody waits, are not pooled


def study(logs: Path, s: Study, preset: str, seeds: int) -> list[Section]:
    """Forests, windows, continuous. Raises InputError."""
    every: dict = {}

    def one(name: str) -> list[Section]:
        log = read_log(logs, name)
        log = first(log, min(len(log), 700)) if preset == "smoke" else log
        every[log.name] = _one(s, log, preset)
        return []

    return s.parts(
        lambda: forest.study(logs, s, preset, seeds),
        *(lambda name=name: one(name) for name in (SMOKE if preset == "smoke" else LOGS)),
        lambda: [_windows(every), _exact(every), _local(every), _kill(every), _continuous(every)],
    )


def _order(s: Study, log: Workload) -> Index:
    """`smith-forecast` with a forest that has not seen this log."""
    file = forest.without(s.out, log)
    if not file.is_file():
        raise InputError(f"{file}: is missing, and the shipped forest may have seen {log.name}; begin again in another folder")
    return replace(load(file).order, label="smith-forecast")


def _one(s: Study, log: Workload, preset: str) -> dict:
    shakes, count = (1, 2) if preset == "smoke" else (SHAKES, 6)
    order, general = _order(s, log), resolve("general").order
    free, bounded = (recommended(name, order, general) for name in ("jobwise-unbounded", "jobwise"))
    plain, exact = ListScheduler(order, "easy"), replace(resolve("smith+easy+actual"), label="true run times")

    def on_windows(kill: bool) -> dict:
        o = origins(log, [*RULES, plain, free, bounded, exact], count, shakes=shakes, kill_at_walltime=kill)
        effects = [[vars(x) for x in o.effects(base)] for base in AGAINST]
        return {"effects": effects, "means": [o.mean(p) for p in range(len(o.policies))], "chosen": o.chosen}

    def continuous(kill: bool = False) -> dict:
        old = ListScheduler(aged(order), "easy")
        kept = [old, replace(old, promise=1.1), replace(old, promise=1.1, express=0.01), bounded]
        o = origins(log, ["fcfs+easy", *kept], count, shakes=shakes, max_wait=BOUND, kill_at_walltime=kill)
        wholes = [_whole(o, p) for p in range(len(o.policies))]
        return {"found": wholes, "chosen": o.chosen}

    def local() -> dict:
        effects: dict = {"local": [], "both": [], "refit": []}
        for t in AT[-1:] if preset == "smoke" else AT:
            cut = int(t * len(log))
            past = log.by_end[log.by_end["end"] < log.jobs["submit"][cut]]
            trees = [forests.of_past(past, log.cluster.processors, base) for base in (NOTHING, order.forest)]
            learnt = [replace(plain, label=k, order=replace(order, forest=x)) for k, x in zip(effects, trees, strict=False)]
            learnt.append(replace(plain, refit=refit.DEFAULT))
            c = compare(log, [plain, *learnt], since=t, until=round(t + STEP, 1), earlier=False, shakes=shakes)
            x = c.windows["bounded_slowdown"]
            for k, name in enumerate(effects):
                effects[name] += list(in_blocks(log_ratio(x[0], x[1 + k])))
        return {name: vars(effect(np.array(d))) for name, d in effects.items()}

    return {
        "local": s.piece(f"local-{log.name}", local),
        "windows": s.piece(f"windows-{log.name}", lambda: on_windows(False)),
        "continuous": s.piece(f"continuous-{log.name}", continuous),
        "kill": s.piece(f"kill-{log.name}", lambda: on_windows(True)) if overruns(log) > 0.05 else None,
        "ended": s.piece(f"continuous-kill-{log.name}", lambda: continuous(True)) if overruns(log) > 0.05 else None,
        "outlive": overruns(log),
    }


def _whole(o: Origins, p: int) -> dict:
    """What a policy makes of continuous replays: means, change against the fair rule, longest waits as multiples."""
    fair, d, slow, ratio = len(o.policies) - 1, [], [], []
    for k, c in enumerate(o.comparisons):
        mine, base = c.blocks[o._place(k, p)].mean(axis=0), c.blocks[o._place(k, fair)].mean(axis=0)
        d.append(np.log(mine / base))
        slow.append(c.blocks[o._place(k, p)].mean())
        ratio += list(c.wait_ratios(o._place(k, p), 0))
    return {"mean": float(np.mean(slow)), "effect": vars(effect(np.concatenate(d))), "ratio": [float(x) for x in ratio]}


def busy(x: dict) -> bool:
    """Do jobs of this log wait?"""
    return x["windows"]["means"][0] >= BUSY


def _row(name: str, x: dict, per: dict, what: tuple[int, ...]) -> list[str]:
    """A row of a table of windows: means, and changes of policies what[...] of OURS against the fair best rule."""
    cells = []
    for p in what:
        e = Effect(**x["effects"][0][len(RULES) + p])
        per.setdefault(p, []).append(e)
        cells.append(e.text())
    return [name, *(f"{m:.2f}" for m in x["means"]), *cells]


def _windows(every: dict[str, dict]) -> Section:
    per: dict = {}
    rows = [_row(name, x["windows"], per if busy(x) else {}, (0, 1, 2)) for name, x in every.items()]
    blank = [""] * (len(RULES) + len(OURS) + 1)
    rows.append(["all busy logs", *blank, *(pooled(per[p]).text() for p in (0, 1, 2))])
    columns = ["log", *RULES, *OURS, "fair best rule", *(f"{n} against it" for n in OURS[:3])]
    more = []
    for base, name in ((1, "smith"), (2, "general")):
        effects = [[Effect(**x["windows"]["effects"][base][len(RULES) + p]) for x in every.values() if busy(x)] for p in (0, 1)]
        more.append([f"against {name}", *(pooled(e).text() for e in effects)])
    note = prose("forecast", "windows", busy=BUSY)
    tables = [Table(columns, rows), Table(["over all busy logs", *OURS[:2]], more)]
    return Section("Windows", note, tables)


def _exact(every: dict[str, dict]) -> Section:
    """How much of what true run times would give is taken."""
    rows, smith, exact = [], RULES.index("smith+easy"), len(RULES) + OURS.index("true run times")
    for name, x in every.items():
        e = [Effect(**x["windows"]["effects"][0][p]) for p in (smith, len(RULES), exact)]
        log = [x.log for x in e]
        share = [f"{100 * a / log[2]:.0f}%" if log[2] < np.log(0.95) else "" for a in log[:2]]
        rows.append([name, *(x.text() for x in e), *share])
    columns = ["log", "history (smith)", "forecasts", "true run times", "history takes", "forecasts take"]
    note = prose("forecast", "exact")
    return Section("What forecasts take of what true run times give", note, [Table(columns, rows)])


def _local(every: dict[str, dict]) -> Section:
    rows, per = [], {}
    for name, x in every.items():
        effects = [Effect(**x["local"][k]) for k in ("local", "both", "refit")]
        rows.append([name, *(e.text() for e in effects)])
        for k, e in enumerate(effects if busy(x) else []):
            per.setdefault(k, []).append(e)
    rows.append(["all busy logs", *(pooled(e).text() for e in per.values())])
    note = prose("forecast", "local")
    columns = ["log", "local trees", "behind those of other logs", "refitted"]
    return Section("Trees of the log itself", note, [Table(columns, rows)])


def _kill(every: dict[str, dict]) -> Section:
    rows, per = [], {}
    for name, x in every.items():
        for how in ("windows", "kill") if x["kill"] else ():
            label = f"{name}, {x['outlive']:.0%} outlive; {'ended' if how == 'kill' else 'run on'}"
            rows.append(_row(label, x[how], per, (0, 1, 2)))
    columns = ["log", *RULES, *OURS, "fair best rule", *(f"{n} against it" for n in OURS[:3])]
    note = "Logs where more than 5 % of the jobs outlive their request: the same windows, and with jobs ended at their request."
    ended = [r for name, x in every.items() if x["ended"] for r in _bounded(f"{name}; ended", x["ended"]["found"])]
    note += f" Below: the continuous replays with the bound of {BOUND:g} x, with jobs ended at their request."
    return Section("Jobs that outlive their request", note, [Table(columns, rows), Table(COLUMNS, ended)])


COLUMNS = ["log", "policy", "slowdown", "against the fair rule", "longest wait", f"at most {BOUND:g} x", "above 1.5 x"]


def _bounded(name: str, wholes: list[dict]) -> list[list[str]]:
    """Rows of COLUMNS: what each of KEPT did in continuous replays of a log."""
    rows = []
    for policy, y in zip(KEPT, wholes, strict=True):
        e, r = Effect(**y["effect"]), np.array(y["ratio"])
        cells = [f"{np.median(r):.2f} ({r.max():.2f})", f"{(r <= BOUND).mean():.0%}", f"{(r > 1.5).sum()}"]
        rows.append([name, policy, f"{y['mean']:.1f}", "" if policy == FAIR else e.text(), *cells])
    return rows


def _continuous(every: dict[str, dict]) -> Section:
    rows, per, ratios = [], {}, {}
    for name, x in every.items():
        rows += _bounded(name, x["continuous"]["found"])
        for policy, y in zip(KEPT, x["continuous"]["found"], strict=True):
            if busy(x):
                per.setdefault(policy, []).append(Effect(**y["effect"]))
                ratios.setdefault(policy, []).append(np.array(y["ratio"]))
    for policy, effects in per.items():
        r = np.concatenate(ratios[policy])
        text = "" if policy == FAIR else pooled(effects).text()
        rows.append(["all busy logs", policy, "", text, f"{np.median(r):.2f} ({r.max():.2f})", f"{(r <= BOUND).mean():.0%}",
                     f"{(r > 1.5).sum()}"])  # fmt: skip
    note = prose("forecast", "continuous", bound=BOUND)
    return Section("Continuous, with a promise about waits", note, [Table(COLUMNS, rows)])

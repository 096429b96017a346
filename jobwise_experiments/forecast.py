"""Forecasts online, the express lane, the promise: measured at rolling origins of each log, with forests that have not seen it.

Windows: from an empty machine, no bound on waits. Continuous: the tenth of the log after each origin in one piece, beside the
rule that was best on the jobs before it within the same bound.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from jobwise.compare.intervals import Effect, effect, in_blocks, log_ratio, pooled
from jobwise.compare.origins import FAIR, FROM, MOST, STEP, Origins, origins
from jobwise.compare.procedure import compare
from jobwise.forecast import forests
from jobwise.policies import refit
from jobwise.policies.list_scheduler import ListScheduler
from jobwise.policies.names import resolve
from jobwise.policies.recommended import aged, recommended
from jobwise.report.sections import Section
from jobwise.sim.forest import NOTHING
from jobwise.workload import Workload
from jobwise.workloads.transform import overruns
from jobwise_experiments import forest
from jobwise_experiments.study import Study

LOGS = ("HPC2N", "lublin_256", "SDSC-SP2", "ALCF-Theta", "NASA-iPSC", "MetaCentrum", "LLNL-Atlas", "LANL-CM5")
LOGS += ("SDSC-BLUE", "RICC")
RULES = ("fcfs+easy", "smith+easy", "general+easy")
OURS = ("smith-forecast", "jobwise-unbounded", "jobwise", "true run times")
KEPT = ("fcfs+easy", "no promise", "promise 1.1x", "promise 1.1x, lane 1 %", "jobwise", FAIR)  # continuous
TREES = ("local", "both", "refit")
FIRST = len(RULES)  # of OURS among the policies
AT = [round(FROM + STEP * k, 1) for k in range(MOST)]  # origins
BOUND = 1.2
BUSY = 1.5  # mean slowdown of FCFS with EASY on windows; logs with less, where hardly anybody waits, are not pooled


def study(s: Study) -> list[Section]:
    """Forests, windows, continuous. Raises InputError."""
    every: dict[str, dict] = {}
    some = s.pick(("SDSC-SP2",), LOGS, LOGS)
    tables = (on_windows, exact, local, kill, continuous)
    return s.parts(
        forest.section, *(partial(measure, name=n, every=every) for n in some), *(partial(t, every=every) for t in tables)
    )


def measure(s: Study, name: str, every: dict) -> list[Section]:
    """What all schedulers do on a log: no section of its own."""
    log = s.log(name, smoke=700)
    order, general = forest.unseen(s.out, log), resolve("general").order
    how = {"shakes": s.pick(1, 4, 4), "count": s.pick(2, 6, 6)}
    free, bounded = (recommended(name, order, general) for name in ("jobwise-unbounded", "jobwise"))
    plain, exact = ListScheduler(order, "easy"), replace(resolve("smith+easy+actual"), label="true run times")
    old = ListScheduler(aged(order), "easy")
    promised = [old, replace(old, promise=1.1), replace(old, promise=1.1, express=0.01), bounded]

    def on_windows(kill: bool) -> dict:
        o = origins(log, [*RULES, plain, free, bounded, exact], **how, kill_at_walltime=kill)
        effects = [[vars(x) for x in o.effects(base)] for base in (None, 1, 2)]  # the fair best rule, smith, general
        return {"effects": effects, "means": [o.mean(p) for p in range(len(o.policies))], "chosen": o.chosen}

    def in_one(kill: bool) -> dict:
        o = origins(log, ["fcfs+easy", *promised], **how, max_wait=BOUND, kill_at_walltime=kill)
        return {"found": [_whole(o, p) for p in range(len(o.policies))], "chosen": o.chosen}

    outlive, key = overruns(log), log.name
    every[key] = {"local": s.piece(f"local-{key}", _local, s, log, plain, how["shakes"]), "outlive": outlive}
    every[key] |= {"windows": s.piece(f"windows-{key}", on_windows, False)}
    every[key] |= {"continuous": s.piece(f"continuous-{key}", in_one, False)}
    if outlive > 0.05:
        every[key] |= {"kill": s.piece(f"kill-{key}", on_windows, True)}
        every[key] |= {"ended": s.piece(f"continuous-kill-{key}", in_one, True)}
    return []


def _local(s: Study, log: Workload, plain: ListScheduler, shakes: int) -> dict:
    """Effects of trees of the log itself against those of other logs."""
    d: dict[str, list] = {name: [] for name in TREES}
    for t in AT[-1:] if s.smoke else AT:
        past = log.by_end[log.by_end["end"] < log.jobs["submit"][int(t * len(log))]]
        made = {
            k: forests.of_past(past, log.cluster.processors, x)
            for k, x in zip(TREES, (NOTHING, plain.order.forest), strict=False)
        }
        learnt = [replace(plain, label=k, order=replace(plain.order, forest=x)) for k, x in made.items()]
        learnt.append(replace(plain, refit=refit.DEFAULT))
        c = compare(log, [plain, *learnt], since=t, until=round(t + STEP, 1), earlier=False, shakes=shakes)
        x = c.windows["bounded_slowdown"]
        for k, name in enumerate(d):
            d[name] += list(in_blocks(log_ratio(x[0], x[1 + k])))
    return {name: vars(effect(np.array(x))) for name, x in d.items()}


def _whole(o: Origins, p: int) -> dict:
    """What a policy makes of continuous replays: means, change against the fair rule, longest waits as multiples."""
    fair, d, slow, ratio = len(o.policies) - 1, [], [], []
    for k, c in enumerate(o.comparisons):
        mine, base = (c.blocks[o.place(k, x)] for x in (p, fair))
        d.append(np.log(mine.mean(axis=0) / base.mean(axis=0)))
        slow.append(mine.mean())
        ratio += list(c.wait_ratios(o.place(k, p), 0))
    return {"mean": float(np.mean(slow)), "effect": vars(effect(np.concatenate(d))), "ratio": [float(x) for x in ratio]}


def _busy(every: dict) -> list[dict]:
    """The logs whose jobs wait."""
    return [x for x in every.values() if x["windows"]["means"][0] >= BUSY]


def _effects(x: dict, places: range = range(FIRST, FIRST + 3), base: int = 0) -> list[Effect]:
    return [Effect(**x["effects"][base][p]) for p in places]


def _pooled(rows: list[list[Effect]]) -> list[Effect]:
    """Over logs, column by column."""
    return [pooled(list(column)) for column in zip(*rows, strict=True)]


def on_windows(s: Study, every: dict) -> Section:
    """Windows after all origins."""
    rows = [[name, *x["windows"]["means"], *_effects(x["windows"])] for name, x in every.items()]
    logs = [x["windows"] for x in _busy(every)]
    if logs:
        rows.append(["all busy logs", *[""] * (FIRST + len(OURS) + 1), *_pooled([_effects(x) for x in logs])])
    bases, both = {"smith": 1, "general": 2} if logs else {}, range(FIRST, FIRST + 2)
    more = [[f"against {n}", *_pooled([_effects(x, both, b) for x in logs])] for n, b in bases.items()]
    return s.section("Windows", rows, more, busy=BUSY, rules=RULES, ours=OURS)


def exact(s: Study, every: dict) -> Section:
    """How much of what true run times would give is taken."""
    rows = []
    for name, x in every.items():
        e = [Effect(**x["windows"]["effects"][0][p]) for p in (RULES.index("smith+easy"), FIRST, FIRST + len(OURS) - 1)]
        share = [f"{100 * y.log / e[2].log:.0f}%" if e[2].log < np.log(0.95) else "" for y in e[:2]]
        rows.append([name, *e, *share])
    return s.section("What forecasts take of what true run times give", rows)


def local(s: Study, every: dict) -> Section:
    """Trees of the log itself."""

    def effects(x: dict) -> list[Effect]:
        return [Effect(**x["local"][k]) for k in TREES]

    rows = [[name, *effects(x)] for name, x in every.items()]
    if _busy(every):
        rows.append(["all busy logs", *_pooled([effects(x) for x in _busy(every)])])
    return s.section("Trees of the log itself", rows)


def kill(s: Study, every: dict) -> Section:
    """Logs with many jobs that outlive their request."""
    rows, logs = [], {name: x for name, x in every.items() if "kill" in x}
    for name, x in logs.items():
        for how, key in (("run on", "windows"), ("ended", "kill")):
            rows.append([f"{name}, {x['outlive']:.0%} outlive; {how}", *x[key]["means"], *_effects(x[key])])
    ended = [row for name, x in logs.items() for row in _promises(f"{name}; ended", x["ended"]["found"])]
    return s.section("Jobs that outlive their request", rows, ended, bound=BOUND, rules=RULES, ours=OURS)


def _promises(name: str, wholes: list[dict]) -> list[list]:
    """A row for each of KEPT in continuous replays of a log."""
    return [
        [name, policy, f"{y['mean']:.1f}", "" if policy == FAIR else Effect(**y["effect"]), *_ratios(y["ratio"])]
        for policy, y in zip(KEPT, wholes, strict=True)
    ]


def _ratios(ratio: list[float]) -> list:
    """Longest waits as multiples: median (largest), share within the bound, how many far above it."""
    r = np.array(ratio)
    return [f"{np.median(r):.2f} ({r.max():.2f})", (r <= BOUND).mean(), (r > 1.5).sum()]


def continuous(s: Study, every: dict) -> Section:
    """The tenth of the log after each origin, with a promise about waits."""
    rows = [row for name, x in every.items() for row in _promises(name, x["continuous"]["found"])]
    for policy, several in zip(KEPT, zip(*(x["continuous"]["found"] for x in _busy(every)), strict=True), strict=False):
        change = "" if policy == FAIR else pooled([Effect(**y["effect"]) for y in several])
        rows.append(["all busy logs", policy, "", change, *_ratios([r for y in several for r in y["ratio"]])])
    return s.section("Continuous, with a promise about waits", rows, bound=BOUND)

"""CuSH's experiments (DRL4KDD'19): mixes of job types, loads, what order and placement bring each, unknown types, GPU logs.

Jobsets are generated as its specification assumes (8 nodes of 2 CPUs and 4 GPUs); unseen ones test. Everything is paired.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from jobwise.errors import Unfinished
from jobwise.learn.judged import means, of_records
from jobwise.learn.slots_config import SlotsConfig
from jobwise.policies.attained import AttainedService
from jobwise.policies.names import load
from jobwise.report.figures import bars
from jobwise.report.sections import Section
from jobwise.simulate import simulate_many
from jobwise.systems import cush as system
from jobwise.workload import Workload
from jobwise.workloads.gpu import read_alibaba, read_philly
from jobwise.workloads.jobsets import TEST, cush
from jobwise.workloads.locality import gavel_jobs
from jobwise.worlds.slots.rules import RULES
from jobwise_experiments.study import Arms, Study

MIXES = (1.0, 0.75, 0.5, 0.25, 0.0)
RATES = (0.5, 0.7, 0.9, 1.1, 1.3)
ORDERS = tuple(r for r in RULES if r != "las")  # least attained service without preemption is FCFS, to the digit
CLASSIC = tuple(r for r in ORDERS if r != "hold")  # `hold` is ours, made after the agents
SWEPT = ("fcfs", "sjf", "saf", "tetris", "hold")
FIXED, PLACES = ("pack", "spread"), ("pack", "spread", "typed")
SHOWN = (*(f"{r}+{p}" for r in ("fcfs", "sjf", "hold") for p in FIXED), "sjf+typed", "hold+typed", "ours")
EXECUTIONS = {"given": None} | {str(n): n for n in (0, 1, 3, 10, 30)}
LOGS = {"philly": read_philly, "alibaba": read_alibaba, "gavel": gavel_jobs}
SERVICE = 40  # unit-rows in the first queue of preemptive LAS
SETS, STEPS = {"smoke": 4, "small": 300, "paper": 300}, {"smoke": 1, "small": 60, "paper": 500}  # of the two modules
UNMASKED = {"smoke": 1, "small": 10, "paper": 500}  # of the two as published, whose iterations take ten times as long
BUDGET = {"smoke": (1, 1_500, 1_500), "small": (5, 450_000, 1_500_000), "paper": (500, 4_000_000, 8_000_000)}
BY_RULE = "Types are assigned by a rule (`jobwise.workloads.gpu`), for no log tells them."
MEASURED = "Types are those of Gavel's authors, with the measured profiles `v100` (`jobwise.workloads.locality`)."
KEPT = ("slowdown", "longest", "stretch", "lost", "kinds")


def study(s: Study) -> list[Section]:
    """Mixes, what brings what, loads, kinds, unknown kinds, and GPU logs where there is a folder with them."""
    return s.parts(mixes, shares, modules, loads, kinds, unknown, gpu_logs, curves)


def config(s: Study, name: str) -> SlotsConfig:
    """The configuration of a variant for the study."""
    iterations, choices, ours = BUDGET[s.preset]
    c = system.published(s.preset).changed(**system.VARIANTS[name])
    if s.smoke:
        c = c.changed(jobsets=4, warm=min(c.warm, 1), validation_jobsets=1, simulations=16, runs=2)
    validations = 2 if s.smoke else 10
    if c.network == "slots":
        return c.changed(iterations=None, choices=ours if name == "joint" else choices, validations=validations)
    return c.changed(iterations=iterations, choices=None, validations=min(iterations, validations))


def _unseen(s: Study, compute: float = 0.5, rate: float = system.RATE, most: int = 200) -> list[Workload]:
    return [cush(50, rate, [TEST, i], compute=compute) for i in range(min(s.pick(4, 100, 200), most))]


def _world() -> dict:
    return {k: v for k, v in system.published("small").world.items() if k not in ("placements", "encoder")}


def _judged(sets: list[Workload], policy, world: dict, **more) -> dict:
    x = means(sets, policy, world, **more)
    return {k: x[k] for k in KEPT}


def _rules(sets: list[Workload], orders: Sequence[str] = ORDERS, row_s: float = 1.0) -> dict[str, dict]:
    rules = {f"{r}+{p}": _judged(sets, f"{r}+{p}", _world(), row_s=row_s) for r in orders for p in PLACES}
    return rules | {f"las+{p}": _preemptive(sets, p, row_s) for p in PLACES}


def _preemptive(sets: list[Workload], placement: str, row_s: float) -> dict:
    """Least attained service, which stops jobs for nothing and is not told how long they run."""
    records = simulate_many(sets, AttainedService(SERVICE * row_s, placement=placement), tick=row_s)
    x = of_records(records, row_s)
    return {k: x[k] for k in KEPT}


def _all(s: Study, sets: list[Workload], orders: Sequence[str] = ORDERS) -> dict:
    """Rules, and our agents of every seed."""
    ours = [_judged(sets, load(s.folder(f"joint{k}")), {}, seed=k) for k in range(s.seeds)]
    return {"rules": _rules(sets, orders), "ours": ours}


def _arms(x: dict) -> Arms:
    return Arms(x["rules"] | {"ours": x["ours"]})


def _mix(s: Study, mix: float = 0.5) -> Arms:
    return _arms(s.piece(f"mix-{mix}", lambda: _all(s, _unseen(s, mix))))


def _best(x: Arms, orders: Sequence[str] = CLASSIC) -> str:
    """The best order with the best of the placements that know no types."""
    return x.best(n for n in x if n != "ours" and n.split("+")[0] in orders and n.split("+")[1] in FIXED)


def _typed(rule: str) -> str:
    return rule.split("+")[0] + "+typed"


def mixes(s: Study) -> Section:
    """Agents trained on one mix, on each."""
    for k in range(s.seeds):
        s.train(config(s, "joint"), None, f"joint{k}", k)
    rows, every, drawn = [], [], {}
    for mix in MIXES:
        x, name = _mix(s, mix), f"{mix:.0%} / {1 - mix:.0%}"
        fixed, held, las = _best(x), _best(x, ("hold",)), _best(x, ("las",))
        cells = [cell for base in (fixed, _typed(fixed), held, las) for cell in (x.mean(base), x.change("ours", base))]
        rows.append([name, x.mean("ours"), fixed, *cells, x.change("ours", "hold+typed"), x.ratio("ours", fixed)])
        every += [[name, n, *(x.mean(f"{n}+{p}") for p in PLACES)] for n in (*ORDERS, "las")]
        drawn[name] = {n: x.mean(n) for n in SHOWN}
    shown = [bars(drawn, "normalised turnaround")]
    count = len(_unseen(s))
    return s.section("Turnaround by mix of types", rows, every, figures=shown, count=count, rate=system.RATE, places=PLACES)


def _run(variant: str) -> str:
    return variant.replace(", ", "-").replace(" ", "-") + "0"


def _variant(s: Study, name: str) -> dict:
    policy = s.train(config(s, name), None, _run(name))
    return _judged(_unseen(s), policy, {}) | {k: policy.about[k] for k in ("seconds", "choices")}


def _against(x: Arms, arm: str, base: str) -> list:
    return [x.mean(arm), x.change(arm, base), x.mean(arm, "stretch"), x.mean(arm, "longest")]


def shares(s: Study) -> Section:
    """What order and placement bring each, and our options: one seed."""
    rules = _mix(s)
    fixed = _best(rules)
    agents = {name: s.piece(f"variant-{_run(name)}", _variant, s, name) for name in system.VARIANTS}
    x = Arms(agents | {f"rule {n}": rules[n] for n in (fixed, _typed(fixed))})
    costs = {n: [a["choices"], a["seconds"] / 60] for n, a in agents.items()}
    rows = [[n, *_against(x, n, f"rule {fixed}"), *costs.get(n, ["", ""])] for n in x]
    return s.section("What is order, what is placement", rows, fixed=fixed)


def _module(s: Study, name: str) -> dict:
    """What two modules of a variant do on unseen jobsets, and what their training took; the latter alone where they leave jobs
    waiting for ever."""
    c = system.published(s.preset)
    c = c.changed(jobsets=SETS[s.preset], drawn=10, runs=10, group=10, iterations=STEPS[s.preset], validations=10)
    c = c.changed(**system.MODULES[name])
    c = c if c.masked else c.changed(iterations=UNMASKED[s.preset])
    if s.smoke:
        c = c.changed(warm=min(c.warm, 1), validation_jobsets=1, runs=2, group=4, drawn=4)
    c = c.changed(validations=min(c.validations, c.iterations or 1))
    policy = s.train(c, None, f"modules-{_run(name)}")
    about = {k: policy.about[k] for k in ("seconds", "choices")}
    try:
        return _judged(_unseen(s), replace(policy, limit=2000), {}) | about
    except Unfinished:
        return about


def modules(s: Study) -> Section:
    """The paper's two modules, and what holds them back: one thing after the other."""
    rules = _mix(s)
    fixed = _best(rules)
    agents = {name: s.piece(f"modules-{_run(name)}", _module, s, name) for name in system.MODULES}
    las = _best(rules, ("las",))
    x, rows = Arms({n: a for n, a in agents.items() if "slowdown" in a} | {f"rule {n}": rules[n] for n in (fixed, las)}), []
    for n, a in agents.items():
        cells = _against(x, n, f"rule {fixed}") if n in x else ["∞", "", "", ""]
        rows.append([n, *cells, a["choices"], a["seconds"] / 60])
    rows += [[f"rule {n}", *_against(x, f"rule {n}", f"rule {fixed}"), "", ""] for n in (fixed, las)]
    figure = s.learning({n: [f"modules-{_run(n)}"] for n in agents}, "turnaround", "modules")
    return s.section("The two modules, one change after the other", rows, figures=[figure], fixed=fixed, sets=SETS[s.preset])


def loads(s: Study) -> Section:
    """Agents trained at one rate, at each."""
    rates = s.pick(RATES[::2], RATES, RATES)
    sweep = s.piece("loads", lambda: {str(rate): _all(s, _unseen(s, rate=rate, most=60), SWEPT) for rate in rates})
    arms = {rate: _arms(sweep[str(rate)]) for rate in rates}
    rows = [[f"{r}", x.mean("ours"), _best(x), x.mean(_best(x)), x.change("ours", _best(x))] for r, x in arms.items()]
    shown = ("fcfs+pack", "sjf+pack", "sjf+spread", "sjf+typed", "hold+typed", "ours")
    drawn = {n: (rates, [x.mean(n) for x in arms.values()]) for n in shown}
    figure = s.lines("loads", drawn, "arrivals per row", "normalised turnaround")
    return s.section("Turnaround against load", rows, figures=[figure], rate=system.RATE)


def kinds(s: Study) -> Section:
    """The two types of jobs apart."""
    x, rows = _mix(s), []
    for n in (_best(x), _typed(_best(x)), "fcfs+pack", "fcfs+spread", "ours"):
        both = np.nanmean(np.nanmean(x.of(n, "kinds").astype(float), axis=1), axis=0)
        rows.append([n, *both, x.mean(n, "stretch")])
    return s.section("By type", rows)


def unknown(s: Study) -> Section:
    """Types said by a classifier that has watched few executions of a user."""
    from jobwise.forecast.job_types import learning_curve, told

    accuracy, sets = s.piece("accuracy", lambda: [list(x) for x in learning_curve()]), _unseen(s)

    def measured() -> dict:
        named = {key: sets if n is None else told(sets, n) for key, n in EXECUTIONS.items()}
        policies = {"ours": (load(s.folder("joint0")), {}), "rule": ("sjf+typed", _world())}
        return {k: {n: means(x, *p)["slowdown"] for n, p in policies.items()} for k, x in named.items()}

    results = s.piece("unknown", measured)
    rows = []
    for key, result in results.items():
        x = Arms({f"{n} {k}": {"slowdown": results[k][n]} for n in result for k in ("given", key)})
        rows.append([key, *(cell for n in result for cell in (x.mean(f"{n} {key}"), x.change(f"{n} {key}", f"{n} given")))])
    return s.section("Unknown types", [[f"{int(n)}", a, b] for n, a, b in accuracy], rows)


def gpu_logs(s: Study) -> list[Section]:
    """The real logs that the folder has."""
    logs = {name: read(s.logs) for name, read in LOGS.items()} if s.logs else {}
    return [_log(s, name, w) for name, w in logs.items() if w is not None]


def _log(s: Study, name: str, w: Workload) -> Section:
    c = config(s, "joint").changed(generator="log", jobs=min(96, len(w) // 27), jobsets=200, settings={}, row_s=1800.0, rows=20)
    sets = c.sets(TEST, s.pick(3, 40, 100), w)

    def measured() -> dict:
        ours = _judged(sets, s.train(c, w, f"log-{name}"), {})
        return {"rules": _rules(sets, SWEPT, row_s=c.row_s), "ours": ours}

    x = _arms(s.piece(f"log-{name}", measured))
    fixed, machine = _best(x), w.cluster.capacity
    rows = [[n, x.mean(n), x.change(n, fixed), x.mean(n, "stretch"), x.mean(n, "longest")] for n in x]
    values = {"sets": len(sets), "jobs": c.jobs, "row_s": c.row_s, "nodes": len(machine), "each": machine[0].tolist()}
    values["typed"] = MEASURED if w.cluster.slowdown and w.cluster.slowdown.types else BY_RULE
    return s.section("A real GPU log: {name}", rows, name=name, fixed=fixed, **values)


def curves(s: Study) -> Section:
    """Validations of all agents."""
    runs = {name: [_run(name)] for name in system.VARIANTS} | {"joint": [f"joint{k}" for k in range(s.seeds)]}
    return s.section("Learning curves", figures=[s.learning(runs, "turnaround")])

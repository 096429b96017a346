"""CuSH's experiments (DRL4KDD'19): mixes of job types, loads, what order and placement bring each, unknown types, GPU logs.

Jobsets are generated as its specification assumes (8 nodes of 2 CPUs and 4 GPUs); unseen ones test. Everything is paired.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from jobwise.learn.judged import change, means, text
from jobwise.learn.slots_config import SlotsConfig
from jobwise.policies.names import load
from jobwise.report.sections import Section, Table
from jobwise.systems import cush as system
from jobwise.workload import Workload
from jobwise.workloads.jobsets import TEST, cush
from jobwise.worlds.slots.rules import RULES
from jobwise_experiments.jobsets import curve, figure
from jobwise_experiments.study import Study, prose

MIXES = (1.0, 0.75, 0.5, 0.25, 0.0)
RATES = (0.5, 0.7, 0.9, 1.1, 1.3)
ORDERS = tuple(r for r in RULES if r != "las")  # least attained service without preemption is FCFS, to the digit
FIXED = ("pack", "spread")
CLASSIC = tuple(r for r in ORDERS if r != "hold")  # `hold` is ours, made after the agents
CLAIM = 0.19
BUDGET = {"smoke": (1, 1_500, 1_500), "small": (5, 450_000, 1_500_000), "paper": (500, 4_000_000, 8_000_000)}


def study(logs: Path | None, s: Study, preset: str, seeds: int) -> list[Section]:
    """Mixes, what brings what, loads, kinds, unknown kinds, and GPU logs where there is a folder with them."""
    count = {"smoke": 4, "small": 100, "paper": 200}[preset]

    def mixes() -> Section:
        for k in range(seeds):
            s.train(config("joint", preset), None, f"joint{k}", k)
        return _mixes(s, count, seeds)

    return s.parts(
        mixes,
        lambda: _parts(s, preset, count),
        lambda: _loads(s, preset, count, seeds),
        lambda: _kinds(s, count, seeds),
        lambda: _unknown(s, count, seeds),
        lambda: [] if logs is None else _logs(s, logs, preset),
        lambda: _curves(s, seeds),
    )


def config(name: str, preset: str) -> SlotsConfig:
    """The configuration of a variant for the study."""
    iterations, choices, ours = BUDGET[preset]
    c = system.published(preset).changed(**system.VARIANTS[name])
    validations = 10
    if preset == "smoke":
        c, validations = c.changed(jobsets=4, warm=min(c.warm, 1), validation_jobsets=1, simulations=16, runs=2), 2
    if c.network == "slots":
        return c.changed(iterations=None, choices=ours if name == "joint" else choices, validations=validations)
    return c.changed(iterations=iterations, choices=None, validations=min(iterations, validations))


def _unseen(compute: float, count: int, rate: float = system.RATE) -> list[Workload]:
    return [cush(50, rate, [TEST, i], compute=compute) for i in range(count)]


def _world() -> dict:
    return {k: v for k, v in system.published("small").world.items() if k not in ("placements", "encoder")}


def _ours(s: Study, seeds: int, sets: list[Workload]) -> list[dict]:
    return [_short(means(sets, load(s.folder(f"joint{k}")), {}, seed=k)) for k in range(seeds)]


def _short(x: dict) -> dict:
    return {k: x[k] for k in ("slowdown", "longest", "stretch", "lost", "kinds")}


def _rules(sets: list[Workload], orders=ORDERS, placements=(*FIXED, "typed"), row_s: float = 1.0) -> dict[str, dict]:
    return {f"{r}+{p}": _short(means(sets, f"{r}+{p}", _world(), row_s=row_s)) for r in orders for p in placements}


def _best(x: dict[str, dict], *placements: str, orders: tuple = CLASSIC) -> str:
    names = [n for n in x if n.split("+")[1] in placements and n.split("+")[0] in orders]
    return min(names, key=lambda n: np.mean(x[n]["slowdown"]))


def _mixes(s: Study, count: int, seeds: int) -> Section:
    rows, drawn, every = [], {}, []
    for mix in MIXES:

        def measured(mix=mix) -> dict:
            sets = _unseen(mix, count)
            return {"rules": _rules(sets), "ours": _ours(s, seeds, sets)}

        x = s.piece(f"mix-{mix}", measured)
        ours = np.array([r["slowdown"] for r in x["ours"]])
        fixed = _best(x["rules"], *FIXED)
        oracle = fixed.split("+")[0] + "+typed"
        name = f"{mix:.0%} / {1 - mix:.0%}"
        drawn[name] = {n: np.mean(v["slowdown"]) for n, v in x["rules"].items()} | {"ours": ours.mean()}
        held = _best(x["rules"], *FIXED, orders=("hold",))
        wait = np.mean([np.mean(r["longest"]) for r in x["ours"]]) / np.mean(x["rules"][fixed]["longest"])
        rows.append(
            [
                name,
                f"{ours.mean():.3f}",
                fixed,
                f"{drawn[name][fixed]:.3f}",
                text(change(ours, x["rules"][fixed]["slowdown"])),
                f"{drawn[name][oracle]:.3f}",
                text(change(ours, x["rules"][oracle]["slowdown"])),
                f"{drawn[name][held]:.3f}",
                text(change(ours, x["rules"][held]["slowdown"])),
                text(change(ours, x["rules"]["hold+typed"]["slowdown"])),
                f"{wait:.2f}",
            ]
        )
        every += [[name, n, *(f"{drawn[name][f'{n}+{p}']:.3f}" for p in (*FIXED, "typed"))] for n in ORDERS]

    def draw(fig) -> None:
        axes = fig.subplots()
        shown = [
            "fcfs+pack",
            "fcfs+spread",
            "sjf+pack",
            "sjf+spread",
            "hold+pack",
            "hold+spread",
            "sjf+typed",
            "hold+typed",
            "ours",
        ]
        for i, n in enumerate(shown):
            axes.bar([k + i * 0.1 for k in range(len(drawn))], [d[n] for d in drawn.values()], 0.095, label=n)
        axes.set_xticks([k + 0.35 for k in range(len(drawn))], list(drawn))
        axes.set(xlabel="compute- / network-intensive jobs", ylabel="normalised turnaround", ylim=(1, None))
        axes.legend(ncols=4)

    note = prose("cush", "mixes", count=count, rate=system.RATE, seeds=seeds, claim=CLAIM)
    columns = ["compute / network", "ours", "best fixed", "", "ours against it", "its order, typed", "ours against it"]
    columns += ["hold, best fixed", "ours against it", "against hold, typed", "longest wait"]
    tables = [Table(columns, rows), Table(["compute / network", "order", *FIXED, "typed"], every)]
    return Section("Turnaround by mix of types", note, tables, [figure(s, "mixes", draw, height=4.2)])


def _parts(s: Study, preset: str, count: int) -> Section:
    """What order and placement bring each, and our options: one seed."""
    sets, rows = _unseen(0.5, count), []
    rules = s.piece("mix-0.5", dict)["rules"]
    fixed = _best(rules, *FIXED)
    for name in system.VARIANTS:
        run = name.replace(", ", "-").replace(" ", "-") + "0"

        def learnt(name=name, run=run) -> dict:
            policy = s.train(config(name, preset), None, run)
            return _short(means(sets, policy, {})) | {"seconds": policy.about["seconds"], "choices": policy.about["choices"]}

        x = s.piece(f"variant-{run}", learnt)
        rows.append(
            [
                name,
                f"{np.mean(x['slowdown']):.3f}",
                text(change(x["slowdown"], rules[fixed]["slowdown"])),
                f"{np.mean(x['stretch']):.3f}",
                f"{np.mean(x['longest']):.0f}",
                f"{x['choices']:,}",
                f"{x['seconds'] / 60:.1f}",
            ]
        )
    for n in (fixed, fixed.split("+")[0] + "+typed"):
        x = rules[n]
        against = "" if n == fixed else text(change(x["slowdown"], rules[fixed]["slowdown"]))
        stretch, longest = f"{np.mean(x['stretch']):.3f}", f"{np.mean(x['longest']):.0f}"
        rows.append([f"rule {n}", f"{np.mean(x['slowdown']):.3f}", against, stretch, longest, "", ""])
    note = prose("cush", "parts")
    columns = ["agent", "turnaround", f"against {fixed}", "longer", "longest wait, rows", "choices", "minutes"]
    return Section("What is order, what is placement", note, [Table(columns, rows)])


def _loads(s: Study, preset: str, count: int, seeds: int) -> Section:
    rates, rows = (RATES[::2] if preset == "smoke" else RATES), []
    count = min(count, 60)

    def swept() -> dict:
        by_load = {}
        for rate in rates:
            sets = _unseen(0.5, count, rate)
            rules = _rules(sets, ("fcfs", "sjf", "saf", "tetris", "hold"))
            by_load[str(rate)] = {"rules": rules, "ours": _ours(s, seeds, sets)}
        return by_load

    sweep = s.piece("loads", swept)
    for rate in rates:
        x = sweep[str(rate)]
        fixed = _best(x["rules"], *FIXED)
        ours = np.array([r["slowdown"] for r in x["ours"]])
        base = x["rules"][fixed]["slowdown"]
        rows.append([f"{rate}", f"{ours.mean():.3f}", fixed, f"{np.mean(base):.3f}", text(change(ours, base))])

    def draw(fig) -> None:
        axes = fig.subplots()
        for n in ("fcfs+pack", "sjf+pack", "sjf+spread", "sjf+typed", "hold+typed"):
            axes.plot(rates, [np.mean(sweep[str(r)]["rules"][n]["slowdown"]) for r in rates], "o-", ms=3, label=n)
        y = [np.mean([v["slowdown"] for v in sweep[str(r)]["ours"]]) for r in rates]
        axes.plot(rates, y, "o-", ms=3, color="#d1495b", label="ours")
        axes.set(xlabel="arrivals per row", ylabel="normalised turnaround")
        axes.legend()

    note = f"Half of the jobs of each type. Our agents were trained at rate {system.RATE} alone; arrivals above 1 are Poisson."
    columns = ["rate", "ours", "best fixed", "", "ours against it"]
    return Section("Turnaround against load", note, [Table(columns, rows)], [figure(s, "loads", draw)])


def _kinds(s: Study, count: int, seeds: int) -> Section:
    x, rows = s.piece("mix-0.5", dict), []
    fixed = _best(x["rules"], *FIXED)
    named = [(n, [x["rules"][n]]) for n in (fixed, fixed.split("+")[0] + "+typed", "fcfs+pack", "fcfs+spread")]
    for name, runs in [*named, ("ours", x["ours"])]:
        kinds = np.nanmean([np.nanmean(np.array(r["kinds"], float), axis=0) for r in runs], axis=0)
        stretch = np.mean([r["stretch"] for r in runs])
        rows.append([name, f"{kinds[0]:.3f}", f"{kinds[1]:.3f}", f"{stretch:.3f}"])
    columns = ["policy", "compute-intensive", "network-intensive", "longer than at their best"]
    return Section("By type", "Mean normalised turnaround, half of the jobs of each type.", [Table(columns, rows)])


def _unknown(s: Study, count: int, seeds: int) -> Section:
    from jobwise.forecast.job_types import learning_curve, told

    rows, regret = [], []
    curve_of_accuracy = s.piece("accuracy", lambda: [list(x) for x in learning_curve()])
    for executions, accuracy, known in curve_of_accuracy:
        rows.append([f"{int(executions)}", f"{accuracy:.1%}", f"{known:.1%}"])
    sets = _unseen(0.5, count)

    def measured() -> dict:
        results = {}
        policy = load(s.folder("joint0"))
        for executions in (None, 0, 1, 3, 10, 30):
            said = sets if executions is None else told(sets, executions)
            key = "given" if executions is None else str(executions)
            results[key] = {"ours": means(said, policy, {})["slowdown"], "rule": means(said, "sjf+typed", _world())["slowdown"]}
        return results

    x = s.piece("unknown", measured)
    for key, v in x.items():
        cells = [f"{np.mean(v['ours']):.3f}", text(change(v["ours"], x["given"]["ours"])) if key != "given" else ""]
        cells += [f"{np.mean(v['rule']):.3f}", text(change(v["rule"], x["given"]["rule"])) if key != "given" else ""]
        regret.append([key, *cells])
    note = prose("cush", "unknown")
    tables = [
        Table(["executions of the user", "accuracy", "classified"], rows),
        Table(["executions", "ours", "regret", "sjf+typed", "regret"], regret),
    ]
    return Section("Unknown types", note, tables)


def _logs(s: Study, logs: Path, preset: str) -> list[Section]:
    from jobwise.workloads.gpu import read_alibaba, read_philly

    sections = []
    for name, read in (("philly", read_philly), ("alibaba", read_alibaba)):
        w = read(logs)
        if w is None:
            continue
        sections.append(_log(s, name, w, preset))
    return sections


def _log(s: Study, name: str, w: Workload, preset: str) -> Section:
    c = config("joint", preset).changed(generator="log", jobs=96, jobsets=200, settings={}, **LOGS[name])
    sets = c.sets(TEST, {"smoke": 3, "small": 40, "paper": 100}[preset], w)

    def measured() -> dict:
        policy = s.train(c, w, f"log-{name}")
        rules = _rules(sets, ("fcfs", "sjf", "saf", "tetris", "hold"), row_s=c.row_s)
        return {"rules": rules, "ours": _short(means(sets, policy, {}))}

    x = s.piece(f"log-{name}", measured)
    rows = []
    fixed = _best(x["rules"], *FIXED)
    for n, v in [*x["rules"].items(), ("ours", x["ours"])]:
        against = "" if n == fixed else text(change(v["slowdown"], x["rules"][fixed]["slowdown"]))
        rows.append(
            [n, f"{np.mean(v['slowdown']):.3f}", against, f"{np.mean(v['stretch']):.3f}", f"{np.mean(v['longest']):.0f}"]
        )
    note = prose(
        "cush",
        "log",
        sets=len(sets),
        jobs=c.jobs,
        row_s=c.row_s,
        capacity=len(w.cluster.capacity),
        tolist=w.cluster.capacity[0].tolist(),
    )
    columns = ["policy", "turnaround", f"against {fixed}", "longer", "longest wait, rows"]
    return Section(f"A real GPU log: {name}", note, [Table(columns, rows)])


LOGS = {"philly": {"row_s": 1800.0, "rows": 20}, "alibaba": {"row_s": 1800.0, "rows": 20}}


def _curves(s: Study, seeds: int) -> Section:
    def draw(fig) -> None:
        axes = fig.subplots()
        for name in system.VARIANTS:
            for k in range(seeds if name == "joint" else 1):
                folder = s.folder(name.replace(", ", "-").replace(" ", "-") + str(k))
                if (folder / "metrics.jsonl").is_file():
                    x, y = curve(folder)
                    axes.plot(x, y, lw=1.2, label=name if k == 0 else None, color="#d1495b" if name == "joint" else None)
        axes.set(xlabel="choices made in training", ylabel="turnaround in validation", yscale="log", xscale="log")
        axes.legend()

    return Section("Learning curves", "Validation jobsets, sampled actions.", figures=[figure(s, "curves", draw)])

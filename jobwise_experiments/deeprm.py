"""DeepRM's experiments (HotNets'16; the CuSH review's run of its code): rules, agents, the distribution of slowdowns, loads.

Jobsets are generated; 100 unseen ones test. Everything is paired over jobsets. `spec` numbers are those of a throw-away
re-implementation, mean slowdown of 20 sequences.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from jobwise.learn.judged import change, means, text
from jobwise.learn.slots_config import SlotsConfig
from jobwise.policies.names import load
from jobwise.report.sections import Section, Table
from jobwise.systems import deeprm as system
from jobwise.workload import Workload
from jobwise.workloads.jobsets import TEST, deeprm, load_of
from jobwise_experiments.jobsets import cdf, curve, figure
from jobwise_experiments.study import Study, anchors, prose

ANCHORS = {(x["rate"], x["rows"]): x["slowdown"] for x in anchors("deeprm")["rules"]}
RATES = (0.054, 0.163, 0.271, 0.379, 0.488, 0.596, 0.705, 0.813, 0.921, 0.976)  # 10 % to 180 % of the capacity
RULES = ("sjf", "tetris", "random", "saf", "fcfs", "hold")
COLOURS = {"ours": "#d1495b", "plain": "#e09f3e", "sjf": "#1b6ca8", "tetris": "#2e8b57", "random": "#6b7280", "hold": "#7b5ea7"}
BUDGET = {  # of the variants but ours: iterations, or choices of those with PPO
    "smoke": (1, 1_500),
    "small": (8, 650_000),
    "paper": (1000, 6_000_000),
}
OURS = {"smoke": 1_500, "small": 650_000, "paper": 6_000_000}


def study(logs: Path | None, s: Study, preset: str, seeds: int) -> list[Section]:
    """Anchors, agents, distributions, loads, learning curves."""
    count = {"smoke": 6, "small": 100, "paper": 200}[preset]
    world = system.published(preset).changed(**system.STUDIED).world
    trained, rules = {}, {}

    def agents() -> Section:
        rules.update(s.piece("rules", lambda: {r: means(_unseen(0.7, 50, count), r, world) for r in RULES}))
        trained.update({n: _variant(s, n, preset, seeds if n == "ours" else 1, count) for n in system.VARIANTS})
        return _agents(s, trained, rules, seeds)

    return s.parts(
        lambda: _anchors(s, preset, world),
        agents,
        lambda: _distribution(s, trained, rules, preset, world),
        lambda: _loads(s, preset, world, seeds),
        lambda: _curves(s, seeds),
    )


def _unseen(rate: float, steps: int, count: int) -> list[Workload]:
    return [deeprm(steps, rate, [TEST, i]) for i in range(count)]


def config(name: str, preset: str) -> SlotsConfig:
    """The configuration of a variant for the study: 50 rows, rate 0.7 (129 % of the capacity)."""
    changes = dict(system.VARIANTS[name])
    iterations, choices = BUDGET[preset]
    c = system.published(preset).changed(**system.STUDIED | changes)
    validations = 10
    if preset == "smoke":
        c, validations = c.changed(jobsets=5, validation_jobsets=3, simulations=16, warm=min(c.warm, 1)), 2
    if c.learner["learner"] == "ppo":
        return c.changed(iterations=None, choices=OURS[preset] if name == "ours" else choices, validations=validations)
    return c.changed(iterations=iterations, choices=None, validations=min(iterations, validations))


def _variant(s: Study, name: str, preset: str, seeds: int, count: int) -> list[dict]:
    results = []
    for k in range(seeds):

        def learnt(k=k) -> dict:
            policy = s.train(config(name, preset), None, f"{name.replace(', ', '-').replace(' ', '-')}{k}", k)
            about = {key: policy.about[key] for key in ("seconds", "choices", "validation")}
            return means(_unseen(0.7, 50, count), policy, {}, seed=k) | about

        results.append(s.piece(f"agent-{name.replace(', ', '-').replace(' ', '-')}-{k}", learnt))
    return results


def _anchors(s: Study, preset: str, world: dict) -> Section:
    count, rows = {"smoke": 6, "small": 200, "paper": 400}[preset], []

    def measured() -> dict:
        return {
            f"{rate} {steps}": {r: float(np.mean(means(_unseen(rate, steps, count), r, world)["slowdown"])) for r in anchors}
            for (rate, steps), anchors in ANCHORS.items()
        }

    results = s.piece("anchors", measured)
    for (rate, steps), rules in ANCHORS.items():
        for rule, value in rules.items():
            x = results[f"{rate} {steps}"][rule]
            near = "yes" if abs(x / value - 1) <= 0.15 else "no"
            rows.append([f"{rate}", f"{steps}", rule, f"{value:.2f}", f"{x:.2f}", f"{x / value - 1:+.0%}", near])
    note = prose("deeprm", "anchors", count=count)
    columns = ["rate", "rows", "rule", "reference", "here", "difference", "within 15 %"]
    return Section("The rules, against reference values", note, [Table(columns, rows)])


def _agents(s: Study, agents: dict[str, list[dict]], rules: dict[str, dict], seeds: int) -> Section:
    rows, base, strong = [], rules["sjf"]["slowdown"], rules["hold"]["slowdown"]
    for r in RULES:
        x, same = rules[r], r == "sjf"
        against = ["" if same else text(change(x["slowdown"], base)), text(change(x["slowdown"], strong))]
        longest = f"{np.mean(x['longest']):.0f}"
        rows.append([r, "", f"{np.mean(x['slowdown']):.2f}", *against, longest, f"{sum(x['lost'])}", "", ""])
    for name, runs in agents.items():
        slow = np.array([x["slowdown"] for x in runs])
        rows.append(
            [
                name,
                f"{len(runs)}",
                f"{slow.mean():.2f}",
                text(change(slow, base)),
                text(change(slow, strong)),
                f"{np.mean([x['longest'] for x in runs]):.0f}",
                f"{sum(sum(x['lost']) for x in runs)}",
                f"{runs[0]['choices']:,}",
                f"{np.mean([x['seconds'] for x in runs]) / 60:.1f}",
            ]
        )
    note = prose("deeprm", "agents")
    columns = [
        "policy",
        "seeds",
        "mean slowdown",
        "against SJF",
        "against hold",
        "longest wait, rows",
        "jobs not done",
        "choices",
        "minutes",
    ]
    return Section("Agents and rules on unseen jobsets", note, [Table(columns, rows)])


def _distribution(s: Study, agents: dict, rules: dict, preset: str, world: dict) -> Section:
    drawn = {"ours": [x for run in agents["ours"] for x in run["jobs"]], "plain": agents["plain"][0]["jobs"]}
    drawn |= {r: rules[r]["jobs"] for r in ("sjf", "tetris", "random", "hold")}

    def slides() -> dict:
        sets = _unseen(0.3, 200, 10)
        by_rule = {r: means(sets, r, world)["jobs"] for r in ("sjf", "tetris", "random", "hold")}
        for name in ("ours", "plain"):
            policy = load(s.folder(f"{name}0"))
            by_rule[name] = means(sets, policy, {})["jobs"]
        return by_rule

    light = s.piece("slides", slides)

    def draw(fig) -> None:
        for axes, data, title in zip(
            fig.subplots(1, 2), (drawn, light), ("rate 0.7, 50 rows", "rate 0.3, 200 rows"), strict=True
        ):
            for name, colour in COLOURS.items():
                cdf(axes, data[name], name, colour)
            axes.set(xscale="log", xlabel="slowdown", ylabel="share of jobs", title=title)
            axes.legend()

    rows = []
    for title, data in (("rate 0.7", drawn), ("rate 0.3", light)):
        for name in COLOURS:
            x = np.asarray(data[name])
            qs = [f"{np.quantile(x, q):.2f}" for q in (0.5, 0.75, 0.9, 0.95, 0.99)]
            rows.append([title, name, *qs, _left(np.asarray(data["ours"]), x) if name not in ("ours", "plain") else ""])
    note = prose("deeprm", "distribution")
    columns = ["jobs", "policy", "median", "75 %", "90 %", "95 %", "99 %", "ours is left"]
    svg = figure(s, "cdf", draw, label="distribution of slowdowns")
    return Section("Distribution of slowdowns", note, [Table(columns, rows)], [svg])


def _left(ours: np.ndarray, other: np.ndarray) -> str:
    q = np.arange(1, 100) / 100
    return f"{int((np.quantile(ours, q) <= np.quantile(other, q) + 1e-9).sum())} of 99"


def _loads(s: Study, preset: str, world: dict, seeds: int) -> Section:
    count = {"smoke": 4, "small": 60, "paper": 200}[preset]
    rates = RATES[::3] if preset == "smoke" else RATES

    def swept() -> dict:
        by_load: dict[str, dict] = {}
        for rate in rates:
            sets = _unseen(rate, 50, count)
            one = {r: means(sets, r, world)["slowdown"] for r in ("sjf", "tetris", "random", "hold")}
            one["ours"] = [means(sets, load(s.folder(f"ours{k}")), {}, seed=k)["slowdown"] for k in range(seeds)]
            by_load[str(rate)] = one
        return by_load

    sweep, rows = s.piece("loads", swept), []
    for rate in rates:
        x = sweep[str(rate)]
        ours = np.array(x["ours"])
        means_of = [f"{np.mean(x[r]):.2f}" for r in ("sjf", "tetris", "random", "hold")]
        rows.append(
            [
                f"{load_of(rate):.0%}",
                f"{ours.mean():.2f}",
                *means_of,
                text(change(ours, x["sjf"])),
                text(change(ours, x["hold"])),
            ]
        )

    def draw(fig) -> None:
        axes = fig.subplots()
        for name in ("ours", "sjf", "tetris", "random", "hold"):
            y = [np.mean(sweep[str(rate)][name]) for rate in rates]
            axes.plot([100 * load_of(rate) for rate in rates], y, "o-", ms=3, label=name, color=COLOURS[name])
        axes.set(xlabel="offered load, % of the capacity", ylabel="mean slowdown", yscale="log")
        axes.legend()

    note = prose("deeprm", "loads")
    columns = ["load", "ours", "sjf", "tetris", "random", "hold", "ours against SJF", "ours against hold"]
    return Section("Slowdown against load", note, [Table(columns, rows)], [figure(s, "loads", draw)])


def _curves(s: Study, seeds: int) -> Section:
    def draw(fig) -> None:
        axes = fig.subplots()
        for name in system.VARIANTS:
            for k in range(seeds if name == "ours" else 1):
                folder = s.folder(f"{name.replace(', ', '-').replace(' ', '-')}{k}")
                if (folder / "metrics.jsonl").is_file():
                    x, y = curve(folder)
                    colour = "#d1495b" if name == "ours" else None
                    axes.plot(x, y, lw=1.2, label=name if k == 0 else None, color=colour)
        axes.set(xlabel="choices made in training", ylabel="mean slowdown in validation", yscale="log", xscale="log")
        axes.legend()

    return Section("Learning curves", "Validation jobsets, sampled actions.", figures=[figure(s, "curves", draw)])

"""Telemetry-driven scheduling: the two small worlds with all figures of the slides, factors that are others in every jobset,
and which inputs help. `telemetry_nodes` has the rest.

The slides give no numbers; where a number stands beside ours it is the specification's own sanity check of its assumptions.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np

from jobwise.learn.judged import change, placed, text
from jobwise.learn.nodes_config import NodesConfig
from jobwise.report.sections import Section, Table
from jobwise.systems import telemetry as system
from jobwise.workloads import affinity as made
from jobwise.workloads.jobsets import TEST
from jobwise.worlds.nodes.policy import NodesRule
from jobwise.worlds.nodes.world import NodesSettings
from jobwise_experiments import telemetry_nodes
from jobwise_experiments.jobsets import figure
from jobwise_experiments.study import Study, anchors, prose
from jobwise_experiments.telemetry_risk import foreseen

ANCHORS = [(x["world"], x["rate"], x["rows"]) for x in anchors("telemetry")["rules"]]
PLACES = {"distances": 2, "affinities": 1}
LB = {"distances": "lb", "affinities": "fewest"}  # what the source calls LB in each part
WHAT = {"distances": "A: two nodes at a distance", "affinities": "B: six nodes, three applications"}
INPUTS = {"distances": ("memory", "request", "preference"), "affinities": ("nodes", "buffer", "next")}


def study(logs: Path | None, s: Study, preset: str, seeds: int) -> list[Section]:
    """Anchors, parts A and B, hidden factors, ablations; with --logs placement on real speeds, forecasts, failures."""
    count = {"smoke": 4, "small": 200, "paper": 500}[preset]
    helps: list[str] = []  # what answers the first question, and the second
    foretold: list[str] = []

    def inputs() -> Section:
        section, sentences = _inputs(s, preset, min(seeds, 3), count)
        helps.extend(sentences)
        return section

    def nodes() -> list[Section]:
        sections, sentences = telemetry_nodes.sections(logs, s, preset, seeds)
        foretold.extend(sentences)
        return sections

    def risks() -> Section:
        section, sentence = foreseen(s, preset, seeds, count)
        foretold.extend(sentence)
        return section

    return s.parts(
        lambda: _anchors(s, count),
        *(lambda p=p: _part(s, p, preset, seeds, count) for p in WHAT),
        lambda: _hidden(s, preset, seeds, count),
        inputs,
        nodes,
        risks,
        lambda: [] if preset == "smoke" else _answers(helps, foretold),
    )


def _sets(c: NodesConfig, count: int) -> list:
    return c.sets(TEST, count)


def _anchors(s: Study, count: int) -> Section:
    rows = []
    for name, rate, known in ANCHORS:

        def measure(name=name, rate=rate, known=known) -> dict:
            sets = [getattr(made, name)(50, rate, [TEST, k]) for k in range(count)]
            rules = {r: NodesRule(r, NodesSettings(PLACES[name])) for r in known}
            return {r: float(np.mean(placed(sets, p, 10_000)["slowdown"])) for r, p in rules.items()}

        results = s.piece(f"anchors-{name}-{rate:g}", measure)
        rows += [
            [WHAT[name], f"{rate:g}", r, f"{v:g}", f"{results[r]:.2f}", f"{results[r] / v - 1:+.0%}"] for r, v in known.items()
        ]
    note = prose("telemetry", "anchors")
    return Section("Rules", note, [Table(["world", "arrivals a row", "rule", "specification", "here", "difference"], rows)])


# ------------------------------------------------------------------ parts A and B


def _agents(s: Study, part: str, kind: str, c: NodesConfig, seeds: int, count: int) -> list[dict]:
    """What agents of `seeds` seeds make of the unseen jobsets, arg-max and drawn."""

    def one(k: int) -> dict:
        policy = s.train(c, None, f"{part}-{kind}{k}", k)
        sets = _sets(c, count)
        drawn = placed(sets, replace(policy, greedy=False), c.limit, seed=k)["slowdown"]
        return placed(sets, policy, c.limit) | {"drawn": drawn, "seconds": policy.about["seconds"]}

    return [s.piece(f"{part}-{kind}-{k}", lambda k=k: one(k)) for k in range(seeds)]


def _rules(s: Study, part: str, c: NodesConfig, count: int) -> dict[str, dict]:
    """The rules, those that learn with what they saw in the training jobsets."""

    def measure() -> dict:
        names = ["lb", "fewest", "random", "robin", "first", "greedy", "oracle"]
        rules = {n: c.rule(n) for n in names}
        for n in ("learned", "patient"):
            for explore in (0.0, 0.5, 1.0) if c.varies else (0.0,):
                rules[f"{n}+explore{explore:g}" if explore else n] = c.rule(n, explore)
        return {n: placed(_sets(c, count), p, c.limit) for n, p in rules.items()}

    return s.piece(f"rules-{part}{'-hidden' if c.varies else ''}", measure)


def _table(rules: dict, agents: dict[str, list[dict]], lb: str) -> tuple[list[list[str]], str]:
    fair = min((r for r in rules if r.startswith(("learned", "patient"))), key=lambda r: np.mean(rules[r]["slowdown"]))
    rows = []
    for name, x in [*rules.items(), *agents.items()]:
        several = x if isinstance(x, list) else [x]
        slow = np.array([y["slowdown"] for y in several])
        cells = [
            f"{slow.mean():.2f}",
            f"{np.mean([y['longest'] for y in several]):.1f}",
            f"{np.mean([y['stretch'] for y in several]):.2f}",
        ]
        against = ["" if name == r else text(change(slow, rules[r]["slowdown"])) for r in (lb, fair, "oracle")]
        if isinstance(x, list):
            name = f"{name} ({np.mean([y['seconds'] for y in x]):.0f} s)"
        rows.append([name, *cells, *against])
        if isinstance(x, list):
            drawn = np.array([y["drawn"] for y in several])
            against = [text(change(drawn, rules[r]["slowdown"])) for r in (lb, fair, "oracle")]
            rows.append([f"{name.split(' (')[0]}, actions drawn", f"{drawn.mean():.2f}", "", "", *against])
    return rows, fair


def _part(s: Study, part: str, preset: str, seeds: int, count: int) -> Section:
    published = getattr(system, part)(None, preset, published=True)
    ours = getattr(system, part)(None, preset)
    rules = _rules(s, part, published, count)
    agents = {"as in the slides": _agents(s, part, "published", published, seeds, count)}
    agents["ours, a network per node, PPO"] = _agents(s, part, "ours", ours, seeds, count)
    rows, fair = _table(rules, agents, LB[part])
    figures = [_figure(s, part, rules, agents, seeds)]
    note = prose("telemetry", "part", count=count, seeds=seeds, fair=fair)
    columns = [
        "policy",
        "rows in the system",
        "longest wait",
        "unevenness",
        f"against {LB[part]}",
        f"against {fair}",
        "against oracle",
    ]
    return Section(f"Part {WHAT[part]}", note, [Table(columns, rows)], figures)


def _figure(s: Study, part: str, rules: dict, agents: dict, seeds: int) -> str:
    """The figures of the slides: duration and reward by iteration, duration of agent and LB, difference of memory used."""

    def draw(fig) -> None:
        axes, lb = fig.subplots(2, 2).ravel(), LB[part]
        for k in range(seeds):
            file = s.folder(f"{part}-published{k}") / "metrics.jsonl"
            lines = [json.loads(x) for x in file.read_text().splitlines()] if file.is_file() else []
            kept = [x for x in lines if "validation" in x]
            label = "agent" if k == 0 else None
            axes[0].plot([x["updates"] for x in kept], [x["validation"] for x in kept], color="#1b6ca8", lw=0.9, label=label)
            axes[1].plot([x["updates"] for x in lines], [x["reward"] for x in lines], color="#1b6ca8", lw=0.5, label=label)
        axes[0].axhline(np.mean(rules[lb]["slowdown"]), color="#6b7280", ls="--", lw=1, label=lb)
        axes[0].axhline(np.mean(rules["oracle"]["slowdown"]), color="#2e8b57", ls="--", lw=1, label="oracle")
        axes[0].set(xlabel="iterations", ylabel="rows in the system", title="average job duration")
        axes[1].set(xlabel="iterations", ylabel="reward", title="average total reward, training")
        axes[0].legend(fontsize=7, frameon=False)
        shown = {lb: [rules[lb]], "agent": agents["as in the slides"], "ours": agents["ours, a network per node, PPO"]}
        shown["oracle"] = [rules["oracle"]]
        colours = ["#6b7280", "#1b6ca8", "#7b5ea7", "#2e8b57"]
        for ax, key, title in (
            (axes[2], "slowdown", "average job duration, unseen"),
            (axes[3], "stretch", "difference of use between nodes"),
        ):
            ax.bar(list(shown), [np.mean([x[key] for x in v]) for v in shown.values()], color=colours)
            ax.set(title=title, ylabel="rows" if key == "slowdown" else "share of a node")

    return figure(s, f"part-{part}", draw, 7.6, 5.4)


# ------------------------------------------------------------------ hidden factors


def _hidden(s: Study, preset: str, seeds: int, count: int) -> Section:
    c = system.affinities(None, preset, hidden=True)
    rules = _rules(s, "affinities", c, count)
    agents = {"ours, adapts": _agents(s, "affinities", "hidden", c, seeds, count)}
    rows, fair = _table(rules, agents, "fewest")
    ours = np.array([x["slowdown"] for x in agents["ours, adapts"]])
    e = change(ours, rules[fair]["slowdown"])
    said = "beats" if e.high < 0 else "does not beat" if e.low <= 0 else "is behind"
    note = prose("telemetry", "hidden", steps=c.steps, said=said, fair=fair, text=text(e))
    columns = [
        "policy",
        "rows in the system",
        "longest wait",
        "unevenness",
        "against fewest",
        f"against {fair}",
        "against oracle",
    ]
    return Section("Factors that nobody has seen", note, [Table(columns, rows)])


# ------------------------------------------------------------------ which inputs help


def _inputs(s: Study, preset: str, seeds: int, count: int) -> tuple[Section, list[str]]:
    effects = []  # (world, input, rows in the system, effect)

    def compare(world: str, part: str, kind: str, c: NodesConfig, inputs: tuple[str, ...]) -> None:
        whole = np.array([x["slowdown"] for x in _agents(s, part, kind, c, seeds, count)]).mean(axis=0)
        for without in inputs:
            name = f"{'' if kind == 'published' else kind + '-'}without-{without.replace(' ', '-')}"
            blind = _agents(s, part, name, c.changed(encoder_settings={"without": without}), seeds, count)
            slow = np.array([x["slowdown"] for x in blind])
            effects.append((world, without, slow.mean(), change(slow, whole)))

    for part, names in INPUTS.items():
        compare(WHAT[part], part, "published", getattr(system, part)(None, preset, published=True), names)
    hidden = system.affinities(None, preset, hidden=True)
    compare("B, factors drawn anew, ours", "affinities", "hidden", hidden, ("run times", "room", "next"))
    rows = [[world, without, f"{slow:.2f}", text(e)] for world, without, slow, e in effects]
    helps = sorted((x for x in effects if x[3].low > 0), key=lambda x: -x[3].change)
    none = [f"{x[1]} ({x[0].split(':')[0]})" for x in effects if not x[3].low > 0]
    said = [f"without {x[1]} ({x[0]}) jobs are {text(x[3])} longer in the system" for x in helps]
    note = f"The same agents, trained and tested without one group of inputs, {seeds} seeds: what that costs."
    columns = ["world", "without", "rows in the system", "change"]
    sentences = [f"Yes: {'; '.join(said)}." if said else "Nothing can be told from these runs."]
    if none:
        sentences.append(f"Nothing, or a gain, by leaving out: {', '.join(none)}.")
    return Section("Question 1: which telemetry helps", note, [Table(columns, rows)]), sentences


def _answers(first: list[str], second: list[str]) -> Section:
    questions = ("(1) Does telemetry help a learned scheduler?", "(2) Can it predict load and avoid failures?")
    return Section("The two questions", " ".join([questions[0], *first, questions[1], *second]), [])

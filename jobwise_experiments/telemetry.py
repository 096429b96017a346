"""Telemetry-driven scheduling: the two small worlds with all figures of the slides, factors that are others in every jobset,
and which inputs help. `telemetry_nodes` has the rest.

The slides give no numbers; where a number stands beside ours it is the specification's own sanity check of its assumptions.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from jobwise.learn.judged import change, placed
from jobwise.learn.nodes_config import NodesConfig
from jobwise.report.sections import Figure, Section
from jobwise.systems import telemetry as system
from jobwise.workloads import affinity as made
from jobwise.workloads.jobsets import TEST
from jobwise.worlds.nodes.policy import NodesRule
from jobwise.worlds.nodes.world import NodesSettings
from jobwise_experiments.study import Arms, Study, anchors
from jobwise_experiments.telemetry_nodes import real
from jobwise_experiments.telemetry_risk import foreseen

PLACES = {"distances": 2, "affinities": 1}
LB = {"distances": "lb", "affinities": "fewest"}  # what the source calls LB in each part
TITLES = {"distances": "A: two nodes at a distance", "affinities": "B: six nodes, three applications"}
INPUTS = {"distances": ("memory", "request", "preference"), "affinities": ("nodes", "buffer", "next")}
RULES = ("lb", "fewest", "random", "robin", "first", "greedy", "oracle")
SLIDES, OURS = "as in the slides", "ours, a network per node, PPO"


def study(s: Study) -> list[Section]:
    """Anchors, parts A and B, hidden factors, ablations; with --logs placement on real speeds, forecasts, failures."""
    first: list[str] = []  # what answers the first question, and the second
    second: list[str] = []
    steps = [references, *(partial(part, part=p) for p in TITLES), hidden, partial(inputs, said=first)]
    steps += [partial(real, said=second), partial(foreseen, said=second)]
    return s.parts(*steps, partial(answers, first=first, second=second))


def _count(s: Study) -> int:
    return s.pick(4, 200, 500)


def references(s: Study) -> Section:
    """Rules beside reference values."""
    rows = []

    def measured(name: str, rate: float, rules: dict) -> dict:
        sets = [getattr(made, name)(50, rate, [TEST, k]) for k in range(_count(s))]
        world = NodesSettings(PLACES[name])
        return {r: float(np.mean(placed(sets, NodesRule(r, world), 10_000)["slowdown"])) for r in rules}

    for x in anchors("telemetry")["rules"]:
        name, rate, known = x["world"], x["rate"], x["rows"]
        here = s.piece(f"anchors-{name}-{rate:g}", measured, name, rate, known)
        rows += [[TITLES[name], f"{rate:g}", r, v, here[r], here[r] / v - 1] for r, v in known.items()]
    return s.section("Rules", rows)


# ------------------------------------------------------------------ parts A and B


def _agents(s: Study, part: str, kind: str, c: NodesConfig, most: int = 100) -> list[dict]:
    """What agents of every seed (of `most` at most) make of the unseen jobsets, arg-max and drawn."""

    def one(k: int) -> dict:
        policy, sets = s.train(c, None, f"{part}-{kind}{k}", k), c.sets(TEST, _count(s))
        drawn = placed(sets, replace(policy, greedy=False), c.limit, seed=k)["slowdown"]
        return placed(sets, policy, c.limit) | {"drawn": drawn, "seconds": policy.about["seconds"]}

    return [s.piece(f"{part}-{kind}-{k}", one, k) for k in range(min(s.seeds, most))]


def _rules(s: Study, part: str, c: NodesConfig) -> dict[str, dict]:
    """The rules, those that learn with what they saw in the training jobsets."""

    def measured() -> dict:
        rules = {n: c.rule(n) for n in RULES}
        for n in ("learned", "patient"):
            for explore in (0.0, 0.5, 1.0) if c.varies else (0.0,):
                rules[f"{n}+explore{explore:g}" if explore else n] = c.rule(n, explore)
        return {n: placed(c.sets(TEST, _count(s)), p, c.limit) for n, p in rules.items()}

    return s.piece(f"rules-{part}{'-hidden' if c.varies else ''}", measured)


def _fair(x: Arms) -> str:
    """The best of the rules that learn."""
    return x.best(r for r in x if r.startswith(("learned", "patient")))


def _rows(x: Arms, lb: str) -> list[list]:
    """A row for each rule and agent, and for each agent one with drawn actions."""
    rows, bases = [], (lb, _fair(x), "oracle")
    for n, runs in x.items():
        label = f"{n} ({np.mean([y['seconds'] for y in runs]):.0f} s)" if "seconds" in runs[0] else n
        rows.append([label, x.mean(n), x.mean(n, "longest"), x.mean(n, "stretch"), *(x.change(n, b) for b in bases)])
        if "drawn" in runs[0]:
            drawn = Arms(x | {"drawn": [{"slowdown": y["drawn"]} for y in runs]})
            rows.append([f"{n}, actions drawn", drawn.mean("drawn"), "", "", *(drawn.change("drawn", b) for b in bases)])
    return rows


def part(s: Study, part: str) -> Section:
    """A part of the slides: rules, the agent as published, ours."""
    published, ours = (getattr(system, prefix + part)(None, s.preset) for prefix in ("", "our_"))
    agents = {SLIDES: _agents(s, part, "published", published), OURS: _agents(s, part, "ours", ours)}
    x = Arms(_rules(s, part, published) | agents)
    values = {"title": TITLES[part], "lb": LB[part], "fair": _fair(x), "count": _count(s)}
    return s.section("Part {title}", _rows(x, LB[part]), figures=[_figure(s, part, x)], **values)


def _figure(s: Study, part: str, x: Arms) -> Figure:
    """The figures of the slides: duration and reward by iteration, duration of agent and LB, difference of memory used."""

    def draw(fig) -> None:
        axes, lb = fig.subplots(2, 2).ravel(), LB[part]
        for k in range(s.seeds):
            for ax, key, width in ((axes[0], "validation", 0.9), (axes[1], "reward", 0.5)):
                lines = s.metrics(f"{part}-published{k}", key)
                label = None if k else "agent"
                ax.plot([y["updates"] for y in lines], [y[key] for y in lines], color="#1b6ca8", lw=width, label=label)
        for rule, colour in ((lb, "#6b7280"), ("oracle", "#2e8b57")):
            axes[0].axhline(x.mean(rule), color=colour, ls="--", lw=1, label=rule)
        axes[0].set(xlabel="iterations", ylabel="rows in the system", title="average job duration")
        axes[1].set(xlabel="iterations", ylabel="reward", title="average total reward, training")
        axes[0].legend(fontsize=7, frameon=False)
        shown, colours = (
            {lb: lb, "agent": SLIDES, "ours": OURS, "oracle": "oracle"},
            ["#6b7280", "#1b6ca8", "#7b5ea7", "#2e8b57"],
        )
        axes[2].bar(list(shown), [x.mean(n) for n in shown.values()], color=colours)
        axes[2].set(title="average job duration, unseen", ylabel="rows")
        axes[3].bar(list(shown), [x.mean(n, "stretch") for n in shown.values()], color=colours)
        axes[3].set(title="difference of use between nodes", ylabel="share of a node")

    return s.figure(f"part-{part}", draw, 7.6, 5.4)


# ------------------------------------------------------------------ hidden factors, and which inputs help


def hidden(s: Study) -> Section:
    """Factors drawn anew in every jobset."""
    c, ours = system.our_affinities(None, s.preset, hidden=True), "ours, adapts"
    x = Arms(_rules(s, "affinities", c) | {ours: _agents(s, "affinities", "hidden", c)})
    e = change(x.of(ours), x.of(_fair(x))[0])
    said = "beats" if e.high < 0 else "does not beat" if e.low <= 0 else "is behind"
    values = {"steps": c.steps, "said": said, "fair": _fair(x), "e": e}
    return s.section("Factors that nobody has seen", _rows(x, "fewest"), **values)


def inputs(s: Study, said: list[str]) -> Section:
    """Agents without one group of inputs; and sentences that answer the first question."""
    effects, most = [], 3  # (world, input, rows in the system, effect); seeds

    def compare(world: str, part: str, kind: str, c: NodesConfig, groups: tuple[str, ...]) -> None:
        x, prefix = {"whole": _agents(s, part, kind, c, most)}, "" if kind == "published" else f"{kind}-"
        for group in groups:
            name = f"{prefix}without-{group.replace(' ', '-')}"
            x[group] = _agents(s, part, name, c.changed(encoder_settings={"without": group}), most)
        arms = Arms(x)
        whole = arms.of("whole").mean(axis=0)
        effects.extend((world, group, arms.mean(group), change(arms.of(group), whole)) for group in groups)

    for part, groups in INPUTS.items():
        compare(TITLES[part], part, "published", getattr(system, part)(None, s.preset), groups)
    c = system.our_affinities(None, s.preset, hidden=True)
    compare("B, factors drawn anew, ours", "affinities", "hidden", c, ("run times", "room", "next"))
    helps = sorted((x for x in effects if x[3].low > 0), key=lambda x: -x[3].change)
    none = [f"{x[1]} ({x[0].split(':')[0]})" for x in effects if not x[3].low > 0]
    worse = [f"without {x[1]} ({x[0]}) jobs are {x[3]:+.1%} longer in the system" for x in helps]
    said.append(f"Yes: {'; '.join(worse)}." if worse else "Nothing can be told from these runs.")
    if none:
        said.append(f"Nothing, or a gain, by leaving out: {', '.join(none)}.")
    return s.section("Question 1: which telemetry helps", effects, seeds=min(s.seeds, most))


def answers(s: Study, first: list[str], second: list[str]) -> list[Section]:
    """Both questions of the slides, where the trainings were long enough to answer them."""
    values = {"first": " ".join(first), "second": " ".join(second)}
    return [] if s.smoke else [s.section("The two questions", **values)]

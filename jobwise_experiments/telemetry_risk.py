"""The agent with risks in its state: nodes that fail, a forecast of it, and who makes most of that."""

from __future__ import annotations

from dataclasses import replace

from jobwise.learn.judged import placed
from jobwise.learn.nodes_config import NodesConfig
from jobwise.report.sections import Section
from jobwise.systems import telemetry as system
from jobwise.workloads.jobsets import TEST
from jobwise.worlds.nodes.policy import NodesRule
from jobwise_experiments.study import Arms, Study

FORECASTS = {"as good as ours": {}, "perfect": {"perfect": True}}
AGENTS = {"risk": "agent, sees risks", "blind": "agent, blind"}


def foreseen(s: Study, said: list[str]) -> Section:
    """Agents that see risks and agents that do not, rules that mask nodes at risk or prefer others; and a sentence on it."""
    count, rows = s.pick(4, 200, 500), []
    kinds = {"risk": system.failing(None, s.preset), "blind": system.failing(None, s.preset, risk=False)}

    def learnt(c: NodesConfig, name: str, k: int) -> dict:
        return placed(c.sets(TEST, count), s.train(c, None, f"{name}{k}", k), c.limit)

    for forecast, settings in FORECASTS.items():
        own = {k: c.changed(settings=settings) for k, c in kinds.items() if not (settings and k == "blind")}
        key = "perfect-" if settings else ""  # without risks the forecast does not matter
        results = s.piece(f"failing-{key}rules", _rules, own["risk"], count)
        for kind, c in own.items():
            name = f"failing-{key}{kind}"
            results[AGENTS[kind]] = [s.piece(f"{name}-{k}", learnt, c, name, k) for k in range(s.seeds)]
        x = Arms(results)
        for n in x:
            against = [x.change(n, base) for base in ("first", "safest")]
            rows.append([forecast, n, x.mean(n), *against, *(x.mean(n, key) for key in ("undone", "hit", "longest"))])
        if not settings:
            first, safest = (x.change(AGENTS["risk"], base) for base in ("first", "safest"))
            said.append(f"An agent that sees risks: {first} of the time in the system against none, {safest} against the rule "
                        "that prefers safe nodes.")  # fmt: skip
    return s.section("Question 2: an agent that sees risks", rows, count=count)


def _rules(c: NodesConfig, count: int) -> dict[str, dict]:
    sets, free = c.sets(TEST, count), replace(c.world, joint=True, masked=False)
    rules = {"first": NodesRule("first", free), "first, masked": NodesRule("first", replace(free, avoid=0.5))}
    return {n: placed(sets, p, c.limit) for n, p in (rules | {"safest": NodesRule("safest", free)}).items()}

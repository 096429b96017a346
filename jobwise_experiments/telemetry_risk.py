"""The agent with risks in its state: nodes that fail, a forecast of it, and who makes most of that."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from jobwise.learn.judged import change, placed, text
from jobwise.learn.nodes_config import NodesConfig
from jobwise.report.sections import Section, Table
from jobwise.systems import telemetry as system
from jobwise.workloads.jobsets import TEST
from jobwise.worlds.nodes.policy import NodesRule
from jobwise_experiments.study import Study, prose

FORECASTS = {"as good as ours": {}, "perfect": {"perfect": True}}


def foreseen(s: Study, preset: str, seeds: int, count: int) -> tuple[Section, list[str]]:
    """Agents that see risks and agents that do not, rules that mask nodes at risk or prefer others; and a sentence on it."""
    base = system.failing(None, preset)
    kinds = {"risk": base, "blind": system.failing(None, preset, risk=False)}
    results = {}
    for forecast, settings in FORECASTS.items():
        own = {k: c.changed(settings=settings) for k, c in kinds.items()}
        key = "perfect-" if settings else ""
        results[forecast] = s.piece(f"failing-{key}rules", lambda c=own["risk"]: _rules(c, count))
        for kind, c in own.items():
            if not (settings and kind == "blind"):  # without risks the forecast does not matter
                results[forecast][f"agent, {'sees risks' if kind == 'risk' else 'blind'}"] = [
                    s.piece(f"failing-{key}{kind}-{k}", lambda c=c, k=k, n=f"failing-{key}{kind}{k}": _agent(s, c, n, k, count))
                    for k in range(seeds)
                ]
    rows = [[f, *row] for f, x in results.items() for row in _rows(x)]
    note = prose("telemetry_risk", "foreseen", count=count, seeds=seeds)
    columns = ["forecast", "policy", "rows in the system", "against first", "against safest", "work undone, rows", "jobs hit"]
    section = Section("Question 2: an agent that sees risks", note, [Table([*columns, "longest wait"], rows)])
    x = results["as good as ours"]
    ours = np.array([a["slowdown"] for a in x["agent, sees risks"]])
    sentence = f"An agent that sees risks: {text(change(ours, x['first']['slowdown']))} of the time in the system against none"
    return section, [f"{sentence}, {text(change(ours, x['safest']['slowdown']))} against the rule that prefers safe nodes."]


def _rules(c: NodesConfig, count: int) -> dict[str, dict]:
    sets, open_ = c.sets(TEST, count), replace(c.world, joint=True, masked=False)
    rules = {
        "first": NodesRule("first", open_),
        "first, masked": NodesRule("first", replace(open_, avoid=0.5)),
        "safest": NodesRule("safest", open_),
    }
    return {n: placed(sets, p, c.limit) for n, p in rules.items()}


def _agent(s: Study, c: NodesConfig, name: str, seed: int, count: int) -> dict:
    return placed(c.sets(TEST, count), s.train(c, None, name, seed), c.limit)


def _rows(results: dict) -> list[list[str]]:
    rows = []
    for name, x in results.items():
        several = x if isinstance(x, list) else [x]
        slow, undone, hit, longest = (np.array([y[k] for y in several]) for k in ("slowdown", "undone", "hit", "longest"))
        against = ["" if name == r else text(change(slow, results[r]["slowdown"])) for r in ("first", "safest")]
        rows.append(
            [name, f"{slow.mean():.2f}", *against, f"{undone.mean():.1f}", f"{hit.mean():.2f}", f"{longest.mean():.1f}"]
        )
    return rows

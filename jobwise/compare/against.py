"""Policies against the best rules of a comparison, in numbers and words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf, isnan

import numpy as np

from jobwise.compare.comparison import Comparison
from jobwise.compare.intervals import Effect, claims


def against(c: Comparison, ours: Sequence[int], bound: float = inf) -> list[tuple[dict, dict | None]]:
    """Return for each policy of `ours` (against the best in hindsight, against the fair best), in numbers and words.

    On windows; with a bound on waits in the continuous replay, and in hindsight against those that keep it in every replica.
    A sentence says lower or higher only where Student's t, adjusted over `ours` (Holm), and sign flips carry it.
    """
    keeps = bound < inf
    geometric = [float(np.log(x).mean()) for x in (c.blocks if keeps else c.windows["bounded_slowdown"])]
    first = _first(c)

    def best(p: int) -> int:
        others = [q for q in range(len(c.policies)) if q != p]
        return min((q for q in others if not keeps or q == first or c.keeps(q, bound, first)), key=lambda q: geometric[q])

    hindsight = _all(c, ours, [best(p) for p in ours], bound, _hindsight)
    fair = [None] * len(ours) if c.fair is None else _all(c, ours, [c.fair] * len(ours), bound, _fair)
    return list(zip(hindsight, fair, strict=True))


def verdicts(c: Comparison, ours: Sequence[int], bound: float = inf) -> list[str]:
    """Return for each policy of `ours` what it does against the first scheduler, against the rule that did best before, and
    against the best in hindsight: a sentence each."""
    sentences = []
    beside_first = _all(c, ours, [_first(c)] * len(ours), bound, _whole)
    for start, (hindsight, fair) in zip(beside_first, against(c, ours, bound), strict=True):
        sentences += [x["verdict"] for x in (start, fair, hindsight) if x]
        if hindsight["rule"] in (start["rule"], fair and fair["rule"]):
            sentences.pop()  # it would be said twice
    return sentences


def _first(c: Comparison) -> int:
    return c.policies.index("fcfs+easy") if "fcfs+easy" in c.policies else 0


def _all(c: Comparison, ours: Sequence[int], rules: Sequence[int], bound: float, sentence: Callable[..., str]) -> list[dict]:
    """Each policy of `ours` beside its rule, in numbers and in a `sentence` (c, policy, rule, bound, change)."""
    effects = [(c.change_whole if bound < inf else c.change)(p, q) for p, q in zip(ours, rules, strict=True)]
    sure = claims(effects)
    if sentence is _whole and bound == inf and not any(rules):  # the table's own claims, adjusted for all that are in it
        sure = [c.claimed[p] for p in ours]
    comparisons = []
    for p, q, e, claimed in zip(ours, rules, effects, sure, strict=True):
        middle, least, most = c.waits(p, q)
        ratio = {"median": middle, "least": least, "most": most}
        text = sentence(c, p, q, bound, f"{e.text()} block by block, {_word(e, claimed)}")
        numbers = {"rule": c.policies[q]} | e.to_dict() | {"claimed": claimed, "longest_wait_ratio": ratio}
        comparisons.append(numbers | {"kept": c.keeps(p, bound, _first(c)), "verdict": text})
    return comparisons


def _mean(c: Comparison, p: int, bound: float) -> str:
    """The mean bounded slowdown that a sentence names: of the continuous replay where there is a bound, else on windows."""
    return f"{c.whole[p]['bounded_slowdown'] if bound < inf else float(c.windows['bounded_slowdown'][p].mean()):,.1f}"


def _within(bound: float) -> str:
    return f" within {bound:g} times" if bound < inf else ""


def _whole(c: Comparison, p: int, rule: int, bound: float, change: str) -> str:
    where = "on later jobs, in one continuous replay" if bound < inf else "on windows"
    means = f"{_mean(c, p, bound)} against {_mean(c, rule, bound)} of {c.policies[rule]}"
    return f"{c.policies[p]}: mean bounded slowdown {means} {where}: {change}. {_waits(c, p, bound)}"


def _fair(c: Comparison, p: int, rule: int, bound: float, change: str) -> str:
    best = f"The rule that did best on the earlier jobs{_within(bound)}, of all that were tried, is {c.policies[rule]}"
    return f"{best}: mean {_mean(c, rule, bound)}; {c.policies[p]} against it: {change}. {_waits(c, rule, bound)}"


def _hindsight(c: Comparison, p: int, rule: int, bound: float, change: str) -> str:
    best = f"In hindsight, on these very jobs, {c.policies[rule]} is the best of this table{_within(bound)}"
    return f"{best}: mean {_mean(c, rule, bound)}; {c.policies[p]} against it: {change}."


def _waits(c: Comparison, p: int, bound: float) -> str:
    """The longest wait of policy p against that of FCFS with EASY, and whether the bound is kept."""
    first = _first(c)
    if p == first:
        return ""
    ratios = c.wait_ratios(p, first)
    text = f"Its longest wait is {np.median(ratios):.2f} times that of {c.policies[first]}"
    if bound == inf:
        return f"{text} (at most {max(ratios):.2f})."
    broken = sum(x > bound for x in ratios)
    how = f"exceeded in {broken} of {len(ratios)} replays ({max(ratios):.2f} at most)" if broken else "kept in every replay"
    return f"{text}; at most {bound:g} was asked for: {how}."


def _word(e: Effect, sure: bool) -> str:
    if sure:
        return "lower" if e.change < 0 else "higher"
    if isnan(e.low) or e.low > 0 or e.high < 0:
        return f"not to be claimed from {e.blocks} blocks of time"
    return "not to be told from it"

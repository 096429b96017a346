"""Policies against the best rules of a comparison, in numbers and words."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, isnan

import numpy as np

from jobwise.compare.comparison import Comparison
from jobwise.compare.intervals import Effect, claims

FAIR, HINDSIGHT = "fair", "hindsight"  # the rule that did best on the earlier jobs; on the judged jobs themselves


def against(c: Comparison, ours: Sequence[int], bound: float) -> list[tuple[dict, dict | None]]:
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

    hindsight = _all(c, ours, [best(p) for p in ours], HINDSIGHT, bound)
    fair = [None] * len(ours) if c.fair is None else _all(c, ours, [c.fair] * len(ours), FAIR, bound)
    return list(zip(hindsight, fair, strict=True))


def verdicts(c: Comparison, ours: Sequence[int], bound: float) -> list[str]:
    """Return for each policy of `ours` what it does against the first scheduler, against the rule that did best before, and
    against the best in hindsight: a sentence each."""
    said = []
    found = _all(c, ours, [_first(c)] * len(ours), "", bound)
    for start, (hindsight, fair) in zip(found, against(c, ours, bound), strict=True):
        said += [x["verdict"] for x in (start, fair, hindsight) if x]
        if hindsight["rule"] in (start["rule"], fair and fair["rule"]):
            said.pop()  # it would be said twice
    return said


def _first(c: Comparison) -> int:
    return c.policies.index("fcfs+easy") if "fcfs+easy" in c.policies else 0


def _all(c: Comparison, ours: Sequence[int], rules: Sequence[int], what: str, bound: float) -> list[dict]:
    effects = [(c.change_whole if bound < inf else c.change)(p, q) for p, q in zip(ours, rules, strict=True)]
    sure = claims(effects)
    if not what and bound == inf and not any(rules):  # the table's own claims, which are adjusted for all that are in it
        sure = [c.claimed[p] for p in ours]
    return [_one(c, *x, what, bound) for x in zip(ours, rules, effects, sure, strict=True)]


def _one(c: Comparison, ours: int, rule: int, e: Effect, sure: bool, what: str, bound: float) -> dict:
    name, its = c.policies[ours], c.policies[rule]
    keeps = f" within {bound:g} times" if bound < inf else ""
    if bound < inf:
        means = [c.whole[p]["bounded_slowdown"] for p in (ours, rule)]
    else:
        means = [float(c.windows["bounded_slowdown"][p].mean()) for p in (ours, rule)]
    change = f"{e.text()} block by block, {_word(e, sure)}"
    where = "on later jobs, in one piece" if bound < inf else "on windows"
    if what == FAIR:
        text = f"The rule that did best on the earlier jobs{keeps}, of all that were tried, is {its}: mean {means[1]:,.1f}; "
        text += f"{name} against it: {change}. {_waits(c, rule, bound)}"
    elif what == HINDSIGHT:
        text = f"In hindsight, on these very jobs, {its} is the best of this table{keeps}: mean {means[1]:,.1f}; "
        text += f"{name} against it: {change}."
    else:
        text = f"{name}: mean bounded slowdown {means[0]:,.1f} against {means[1]:,.1f} of {its} {where}: {change}. "
        text += _waits(c, ours, bound)
    middle, least, most = c.waits(ours, rule)
    ratio = {"median": middle, "least": least, "most": most}
    found = {"rule": its} | e.to_dict() | {"claimed": sure, "longest_wait_ratio": ratio}
    return found | {"kept": c.keeps(ours, bound, _first(c)), "verdict": text}


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

"""Policies against the best rules of a comparison, in numbers and words."""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan

import numpy as np

from jobwise.compare.comparison import Comparison
from jobwise.compare.intervals import Effect, claims

FAIR, HINDSIGHT = "the best rule of the earlier jobs", "the best rule in hindsight"


def against(c: Comparison, ours: Sequence[int], bound: float) -> list[tuple[dict, dict | None]]:
    """Return for each policy of `ours` (against the best in hindsight, against the fair best), in numbers and words.

    On windows; with a bound on waits in the continuous replay, and in hindsight against those that keep it in every replica.
    A sentence says lower or higher only where Student's t, adjusted over `ours` (Holm), and sign flips carry it.
    """
    keeps = bound < float("inf")
    geometric = [float(np.log(x).mean()) for x in (c.blocks if keeps else c.windows["bounded_slowdown"])]
    fcfs = c.policies.index("fcfs+easy") if "fcfs+easy" in c.policies else 0

    def best(p: int) -> int:
        others = [q for q in range(len(c.policies)) if q != p]
        return min((q for q in others if not keeps or q == fcfs or c.keeps(q, bound, fcfs)), key=lambda q: geometric[q])

    def all_against(rules: Sequence[int], what: str) -> list[dict]:
        effects = [(c.change_whole if keeps else c.change)(p, rule) for p, rule in zip(ours, rules, strict=True)]
        sure = claims(effects)
        return [_one(c, *x, what, bound, fcfs) for x in zip(ours, rules, effects, sure, strict=True)]

    hindsight = all_against([best(p) for p in ours], HINDSIGHT)
    fair = [None] * len(ours) if c.fair is None else all_against([c.fair] * len(ours), FAIR)
    return list(zip(hindsight, fair, strict=True))


def _one(c: Comparison, ours: int, rule: int, e: Effect, sure: bool, what: str, bound: float, fcfs: int) -> dict:
    if bound < float("inf"):
        first = c.policies[fcfs]
        text = f"in one piece; longest wait {_times(c, ours, fcfs, bound)} that of {first}, that of {c.policies[rule]} "
        text += f"{_times(c, rule, fcfs, bound)}; at most {bound:g} was asked for."
    else:
        text = f"on windows; {c.price(ours, rule)} in the continuous replay."
    kept = f", which keeps the longest wait within {bound:g} times" if what == HINDSIGHT and bound < float("inf") else ""
    head = f"{c.policies[ours]} against {c.policies[rule]}, {what}{kept}: bounded slowdown {e.text()}, {_word(e, sure)}, "
    middle, least, most = c.waits(ours, rule)
    ratio = {"median": middle, "least": least, "most": most}
    found = {"rule": c.policies[rule]} | e.to_dict() | {"claimed": sure, "longest_wait_ratio": ratio}
    return found | {"kept": c.keeps(ours, bound, fcfs), "verdict": head + text}


def _times(c: Comparison, p: int, fcfs: int, bound: float) -> str:
    ratios = c.wait_ratios(p, fcfs)
    broken = sum(x > bound for x in ratios)
    how = "kept in every replay" if not broken else f"bound broken in {broken} of {len(ratios)} replays"
    return f"{np.median(ratios):.2f} times (at most {max(ratios):.2f}: {how})"


def _word(e: Effect, sure: bool) -> str:
    if sure:
        return "lower" if e.change < 0 else "higher"
    if isnan(e.low) or e.low > 0 or e.high < 0:
        return f"not to be claimed from {e.blocks} blocks of time"
    return "not to be told from it"

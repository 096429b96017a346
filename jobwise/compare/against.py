"""Policies against the best rules of a comparison: the best of the earlier jobs, and the best in hindsight."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import NamedTuple

import numpy as np

from jobwise.compare.comparison import Comparison, verdict_of
from jobwise.compare.intervals import Effect, claims


class AgainstRule(NamedTuple):
    """A policy beside a rule, by their places in a comparison: the change in a typical block of time, the verdict, and why."""

    policy: int
    rule: int
    change: Effect
    claimed: bool
    verdict: str
    why: str


def against(c: Comparison, ours: Sequence[int], bound: float = inf) -> list[tuple[AgainstRule, AgainstRule | None]]:
    """Return for each policy of `ours` (against the best rule in hindsight, against the best of the earlier jobs).

    With a bound on waits the best in hindsight is one that keeps it in every replica. Verdicts are adjusted over `ours` (Holm).
    """
    geometric = [float(np.log(x).mean()) for x in c.blocks]
    first = first_of(c)

    def best(p: int) -> int:
        others = [q for q in range(len(c.policies)) if q != p]
        return min((q for q in others if bound == inf or q == first or c.keeps(q, bound, first)), key=lambda q: geometric[q])

    hindsight = _all(c, ours, [best(p) for p in ours])
    fair = [None] * len(ours) if c.fair is None else _all(c, ours, [c.fair] * len(ours))
    return list(zip(hindsight, fair, strict=True))


def first_of(c: Comparison) -> int:
    """Return the place of FCFS with EASY, whose longest wait bounds are multiples of; without it of the first policy."""
    return c.policies.index("fcfs+easy") if "fcfs+easy" in c.policies else 0


def _all(c: Comparison, ours: Sequence[int], rules: Sequence[int]) -> list[AgainstRule]:
    effects = [c.change(p, q) for p, q in zip(ours, rules, strict=True)]
    rows = zip(ours, rules, effects, claims(effects), strict=True)
    return [AgainstRule(p, q, e, sure, *verdict_of(e, sure)) for p, q, e, sure in rows]


def to_dict(c: Comparison, x: AgainstRule, bound: float = inf) -> dict:
    """Return a policy beside a rule for JSON."""
    middle, least, most = c.waits(x.policy, x.rule)
    waits = {
        "longest_wait_times": c.times(x.policy, x.rule),
        "longest_wait_ratio": {"median": middle, "least": least, "most": most},
    }
    about = {
        "policy": c.policies[x.policy],
        "rule": c.policies[x.rule],
        "verdict": x.verdict,
        "why": x.why,
        "claimed": x.claimed,
    }
    return about | x.change.to_dict() | waits | {"kept": c.keeps(x.policy, bound, first_of(c))}

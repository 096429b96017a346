"""The answer of a comparison in at most three sentences: who is better, by how much and how surely, at what price in waits."""

from __future__ import annotations

from math import inf

from jobwise.compare.comparison import LONGER, Comparison
from jobwise.workloads.transform import overruns


def _better(c: Comparison) -> list[int]:
    """The policies that may be claimed to be better than the first."""
    return [p for p in range(1, len(c.policies)) if c.claimed[p] and c.change(p).change < 0]


def best(c: Comparison) -> int:
    """Return the policy with the lowest change on windows among the claimed, or, where none is, of all."""
    return min(_better(c) or range(1, len(c.policies)), key=lambda p: c.change(p).change)


def answer(c: Comparison) -> list[str]:
    """Return at most three sentences: the scheduler that is best on windows, and whether that may be claimed; its mean and its
    longest wait where the whole log is simulated continuously; the best of those that keep the longest wait."""
    if not c.queues:
        return ["This log has hardly a queue: no order matters on it. Scale its load (--load 0.9), or take another log."]
    if len(c.policies) < 2:
        return []
    base = c.policies[0]
    better, first = _better(c), best(c)
    e, count = c.change(first), len(c.policies) - 1
    if better:
        sure = f"95 % interval {e.low:+.0%} to {e.high:+.0%}" + (f", adjusted for {count} comparisons" if count > 1 else "")
        said = [f"{c.policies[first]}: its bounded slowdown is {-e.change:.0%} lower than that of {base} ({sure})."]
    elif e.change < 0:
        said = [f"No scheduler here can be said to be better than {base}: {c.policies[first]} has {e.text()}; {c.why(first)}."]
    else:
        return [f"No scheduler here is better than {base}: the next one, {c.policies[first]}, has {e.text()}."]
    ours, its = (c.whole[p]["bounded_slowdown"] for p in (first, 0))
    whole = f"{ours:,.1f} against {its:,.1f} (typical block of time: {c.change_whole(first).text()})"
    said.append(f"Simulated continuously, its mean is {whole}, and its {c.price(first)}.")
    limit = LONGER if c.bound == inf else c.bound
    safe = [p for p in better if c.keeps(p, limit)]
    if not better:
        return said
    if first in safe:
        said.append(f"Its longest wait is within {limit:g} times that of {base} in every replay.")
    elif safe:
        kept = min(safe, key=lambda p: c.change(p).change)
        said.append(
            f"Of those that keep the longest wait within {limit:g} times in every replay, {c.policies[kept]} is best: "
            f"its slowdown is {-c.change(kept).change:.0%} lower."
        )
    else:
        said.append(f"No scheduler that is better keeps the longest wait within {limit:g} times {base}'s in every replay.")
    return said


def other_way(c: Comparison, other: Comparison, kill: bool, ours: int | None = None) -> str:
    """Return what ending jobs at their request (or, where `kill` is set, letting them run on) would change, in a sentence: of
    policy `ours`, by default of the one that `answer` names."""
    share = f"{overruns(c.workload):.0%} of the jobs outlive their request and {'are ended at it' if kill else 'run on'} here; "
    how = "if they ran on" if kill else "if they were ended at it (--kill)"
    first = c.policies[0]
    if len(c.policies) < 2:
        means = f"{other.whole[0]['bounded_slowdown']:,.1f} instead of {c.whole[0]['bounded_slowdown']:,.1f}"
        return f"{share}{how} the mean bounded slowdown of {first} would be {means}."
    p = best(c) if ours is None else ours
    turned = [n for q, n in enumerate(c.policies) if q and c.claimed[q] != other.claimed[q]]
    same = "the same could be claimed" if any(c.claimed) else f"no difference from {first} could be claimed either"
    changed = f"other differences from {first} could be claimed ({', '.join(turned)})" if turned else same
    own = f"{c.policies[p]} would have {other.change(p).text()} instead of {c.change(p).text()}"
    return f"{share}{how}, {own}, and {changed}."

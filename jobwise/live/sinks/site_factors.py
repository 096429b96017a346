"""Find the site factors that give a queue a policy's order, and the factors among them that have to be written."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator

NEAR = 0.05  # of the span: factors that differ by less are left as they are
ROOM = 8  # times as far apart as they have to be: others fit between
LARGEST = 2_000_000_000  # a site factor is no larger


def wanted(order: list[int], span: int, factors: dict[int, tuple[int, int]]) -> dict[int, int]:
    """The site factors that jobs (numbers, first to start first) should have. `factors`: their priority and present factor."""
    ranked = [id for id in order if id in factors]
    if span > 0:
        return {id: round(span * (1.0 - k / max(len(ranked) - 1, 1))) for k, id in enumerate(ranked)}
    own = [priority - site for priority, site in (factors[id] for id in ranked)]
    step = ROOM * (1 + max(own, default=0) - min(own, default=0))  # more than all else can make up for, with room between
    step = max(min(step, LARGEST // max(len(ranked), 1)), 1)
    return {id: step * (len(ranked) - k) for k, id in enumerate(ranked)}


def differing(goal: dict[int, int], factors: dict[int, tuple[int, int]], span: int) -> dict[int, int]:
    """The factors that have to be written, in the order of `goal`: with a span those that are far off, else those of jobs that
    are not where they belong. Where the present factors leave room, few are changed."""
    if span > 0:
        off = max(round(NEAR * span), 1)
        return {id: x for id, x in goal.items() if abs(factors[id][1] - x) >= off or not 0 <= factors[id][1] <= span}
    own = {id: factors[id][0] - factors[id][1] for id in goal}
    gap = 1 + max(own.values(), default=0) - min(own.values(), default=0)
    ids, present = list(goal), [factors[id][1] for id in goal]
    kept = set(_falling(present, gap))
    out: dict[int, int] = {}
    for first, last in _runs(kept, len(ids)):
        high = present[first - 1] if first > 0 else None
        low = present[last] if last < len(ids) else 0
        count = last - first
        if high is None:
            high = low + gap * (count + 1)
        if high - low < gap * (count + 1) or high > LARGEST:  # no room: all anew
            return {id: x for id, x in goal.items() if factors[id][1] != x}
        for k in range(first, last):
            out[ids[k]] = high - (high - low) * (k - first + 1) // (count + 1)
    return out


def _falling(values: list[int], gap: int) -> list[int]:
    """Places of a longest subsequence of positive values in which each is smaller by `gap` at least than the one before."""
    last: list[int] = []  # of each length, the negative of the last value of the best sequence
    at: list[int] = []  # and its place
    back = [-1] * len(values)
    for i, value in enumerate(values):
        if value <= 0:
            continue
        length = bisect_right(last, -value - gap)
        if length == len(last):
            last.append(-value)
            at.append(i)
        elif -value < last[length]:
            last[length], at[length] = -value, i
        else:
            continue
        back[i] = at[length - 1] if length else -1
    out, i = [], at[-1] if at else -1
    while i >= 0:
        out.append(i)
        i = back[i]
    return out[::-1]


def _runs(kept: set[int], count: int) -> Iterator[tuple[int, int]]:
    """(first, last) of each run of places that are not kept."""
    first = None
    for k in range(count + 1):
        if k < count and k not in kept:
            first = k if first is None else first
        elif first is not None:
            yield first, k
            first = None

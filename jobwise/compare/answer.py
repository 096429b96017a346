"""The answer of a comparison in at most four sentences: who is better and how surely, at what price in waits, beside which rule
that one would have chosen, and what this does not show."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from jobwise.compare.against import AgainstRule, against, first_of
from jobwise.compare.comparison import BETTER, FEW, LONGER, WORSE, Comparison, hours
from jobwise.workloads.transform import overruns


def best(c: Comparison) -> int:
    """Return the scheduler with the lowest change among those that are better than the first, or, where none is, of all."""
    every = range(1, len(c.policies))
    return min([p for p in every if c.verdict(p) == BETTER] or every, key=lambda p: c.change(p).change)


def answer(c: Comparison, learnt: Sequence[int] = (), other: Comparison | None = None, ended: bool = False) -> list[str]:
    """Return at most four sentences on the scheduler that was learnt, or on the best of a comparison.

    Parameters
    ----------
    c : Comparison
        What was compared.
    learnt : sequence of int
        The places of learnt schedulers: they are judged against the best rules, too. The last one is spoken of.
    other : Comparison, optional
        The same with jobs ended at their request, or not.
    ended : bool
        Are they ended at it in `c`?
    """
    if not c.queues:
        return ["This log has hardly a queue: no order matters on it. Scale its load (--load 0.9), or take another log."]
    beyond = [overrun(c, other, ended)] if other else []
    if len(c.policies) < 2:
        return beyond
    p = learnt[-1] if learnt else best(c)
    said = [_standing(c, p, bool(learnt)), _price(c, p, bool(learnt))]
    if not learnt:
        return [*said, *(beyond or ["Not shown: how users would have reacted to other waits."])]
    hindsight, fair = against(c, learnt, c.bound)[-1]
    if fair and fair.rule != hindsight.rule:
        said.append(_fair(c, fair))
    if hindsight.rule != first_of(c):
        said.append(_hindsight(c, hindsight, fair is not None and fair.rule == hindsight.rule))
    return [*said, *beyond][:4]


def _standing(c: Comparison, p: int, learnt: bool) -> str:
    """Is policy p better than the first, and how surely?"""
    name, base, e, (verdict, why) = c.policies[p], c.policies[0], c.change(p), c.judged(p)
    count = c.asked - 1
    if verdict in (BETTER, WORSE):
        low, high = sorted((abs(e.low), abs(e.high)))
        sure = f"95 % interval {low:.0%} to {high:.0%}" + (f", adjusted for {count} comparisons" if count > 1 else "")
        way = "lower" if verdict == BETTER else "higher"
        mean, its = (c.whole[q]["bounded_slowdown"] for q in (p, 0))
        but = " A few jobs wait so long that its mean is not lower." if verdict == BETTER and mean >= its else ""
        return f"{name} is {verdict} than {base}: slowdown {abs(e.change):.0%} {way} in a typical block of time ({sure}).{but}"
    none = "" if learnt or count == 1 else f"No scheduler here is better than {base}. "
    whether = f"{verdict} whether it is better than {base}" if verdict == FEW else f"{verdict} from {base}"
    return f"{none}{name}: {whether} ({e.text()} in a typical block of time{f'; {why}' if why else ''})."


def _price(c: Comparison, p: int, learnt: bool) -> str:
    """The longest wait of policy p, and whether a bound is kept; else the best of those that keep LONGER times."""
    first, limit = first_of(c) if c.bound < inf else 0, LONGER if c.bound == inf else c.bound
    wait = (
        f"Its longest wait is {hours(c.whole[p]['max_wait'])} h, {c.times(p, first):.2f} times that under {c.policies[first]}"
    )
    if c.bound < inf:
        ratios = c.wait_ratios(p, first)
        broken = sum(x > limit for x in ratios)
        how = f"exceeded in {broken} of {len(ratios)} replays" if broken else "kept in every replay"
        return f"{wait}; at most {limit:g} was asked for: {how}."
    better = [q for q in range(1, len(c.policies)) if c.verdict(q) == BETTER]
    safe = [q for q in better if c.keeps(q, limit)]
    if learnt or p in safe or not better:
        return f"{wait}."
    if not safe:
        return f"{wait}; no scheduler that is better stays within {limit:g} times."
    kept = min(safe, key=lambda q: c.change(q).change)
    return f"{wait}. Of those that stay within {limit:g} times, {c.policies[kept]} is best ({c.change(kept).text()})."


def _fair(c: Comparison, x: AgainstRule) -> str:
    """A policy against the rule that one would have chosen."""
    rule, name, first = c.policies[x.rule], c.policies[x.policy], first_of(c)
    mean, times = c.whole[x.rule]["bounded_slowdown"], c.times(x.rule, first)
    chosen = (
        f"The rule that was best on the earlier jobs, {rule}, has slowdown {mean:,.1f} and {times:.2f} times the longest wait"
    )
    return f"{chosen}; {name} against it: {_word(x)}."


def _hindsight(c: Comparison, x: AgainstRule, also: bool) -> str:
    """A policy against the best rule in hindsight; `also`: it was the best on the earlier jobs, too."""
    name, mean = c.policies[x.policy], c.whole[x.rule]["bounded_slowdown"]
    rule = f"the best other of this table, {c.policies[x.rule]} (slowdown {mean:,.1f}{'; chosen before, too' * also})"
    if x.verdict == BETTER:
        return f"{name} is better even than {rule}: {x.change.text()}."
    return f"Not shown: that {name} is better than {rule}. Against it: {_word(x)}."


def _word(x: AgainstRule) -> str:
    return f"{x.verdict}, {x.change.text()}"


def overrun(c: Comparison, other: Comparison, ended: bool) -> str:
    """Return what ending jobs at their request (or, where they are ended here, letting them run on) would change."""
    share = (
        f"{overruns(c.workload):.0%} of the jobs outlive their request and {'are ended at it' if ended else 'run on'} here; "
    )
    how = "if they ran on" if ended else "ended at it (--end-at-limit)"
    first = c.policies[0]
    if len(c.policies) < 2:
        means = f"{other.whole[0]['bounded_slowdown']:,.1f} instead of {c.whole[0]['bounded_slowdown']:,.1f}"
        return f"{share}{how}, the mean slowdown of {first} would be {means}."
    turned = [f"{n} {other.verdict(p)}" for p, n in enumerate(c.policies) if p and c.verdict(p) != other.verdict(p)]
    return f"{share}{how}, {'other verdicts: ' + ', '.join(turned) if turned else 'every verdict is the same'}."

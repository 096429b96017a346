"""One policy against the best rules of a comparison, in numbers and words."""

from __future__ import annotations

import numpy as np

from jobwise.compare.comparison import Comparison


def against(c: Comparison, ours: int, bound: float) -> tuple[dict | None, dict | None]:
    """Policy `ours` against (the best in hindsight, the fair best), in numbers and words: on windows; with a bound on waits in
    the continuous replay, and there against those that keep it in every replica."""
    fcfs = c.policies.index("fcfs+easy") if "fcfs+easy" in c.policies else 0
    keeps = bound < float("inf")

    def one(rule: int, what: str) -> dict:
        e = c.change_whole(ours, rule) if keeps else c.change(ours, rule)
        word = "lower" if e.high < 0 else "higher" if e.low > 0 else "not to be told from it"
        text = f"{c.policies[ours]} against {what}, {c.policies[rule]}: bounded slowdown {e.text()} ({word})"
        if keeps:
            mine, its = c.waits(ours, fcfs), c.waits(rule, fcfs)
            text += (
                f" in the continuous replay; longest wait {mine[0]:.2f} (up to {mine[2]:.2f}) against {its[0]:.2f} times that "
            )
            text += "of " + f"{c.policies[fcfs]}, at most {bound:g} was asked for: {'kept' if mine[2] <= bound else 'broken'}."
        else:
            text += f"; {c.price(ours, rule)} in the continuous replay."
        middle, least, most = c.waits(ours, rule)
        found = (
            {"rule": c.policies[rule]} | e.to_dict() | {"longest_wait_ratio": {"median": middle, "least": least, "most": most}}
        )
        return found | {"kept": c.keeps(ours, bound, fcfs), "verdict": text}

    others = [p for p in range(len(c.policies)) if p != ours]
    geometric = [float(np.log(x).mean()) for x in (c.blocks if keeps else c.windows["bounded_slowdown"])]
    kept = [p for p in others if not keeps or p == fcfs or c.keeps(p, bound, fcfs)]
    best = min(kept, key=lambda p: geometric[p])
    fair = None if c.fair is None else one(c.fair, "the fair best rule")
    return one(best, f"the best {f'within {bound:g}x ' if keeps else ''}in hindsight"), fair

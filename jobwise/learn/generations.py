"""Generations of a model, and when to go back to an earlier one (MARS, section 8 of its specification).

    the present net G_m, after each window:  gain = (base - score) / base,  base the better of G_m-1 and the rule
    gain >= 0                        it is confirmed: a new generation, and the same net learns on
    two windows below 0 in a row     back to G_m-1; if that is behind the rule now, too, to G_m-2; if that is, the rule
                                     schedules. The rate of learning is halved

What schedules is the newest confirmed generation that is ahead of the rule by more than chance (ours: two standard errors
of the windows' log ratios), or the rule; never a net that is not confirmed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from jobwise.learn.run_folder import score

Weights = dict[str, np.ndarray]
PATIENCE, KEPT = 2, 2  # windows below 0 before going back; confirmed generations that are kept
Z = 2.0  # standard errors by which a net must be ahead of the rule to schedule


def ahead(ours: np.ndarray, rule: np.ndarray, overlap: float = 1.0) -> bool:
    """Is `ours` [W] below `rule` [W], slowdowns of the same pieces of a log, by more than Z standard errors of the mean log
    ratio? `overlap`: in how many pieces a job is, on average. One piece proves nothing."""
    if len(ours) < 2:
        return False
    d = np.log(ours / rule)
    error = float(d.std(ddof=1)) / np.sqrt(len(d) / overlap)
    return bool(score(ours) < score(rule) and d.mean() + Z * error < 0)


@dataclass
class Generations:
    """`kept`: (number, weights) of confirmed generations, the newest last, the first of them where learning began. `lost`:
    windows below 0 in a row. `rate`: what the rate of learning is multiplied by. `serves`: the number of the generation that
    schedules; -1: the rule does. `rollbacks`: how many there were."""

    kept: list[tuple[int, Weights]] = field(default_factory=list)
    number: int = 0
    lost: int = 0
    rate: float = 1.0
    serves: int = -1
    rollbacks: int = 0

    def begin(self, weights: Weights) -> None:
        """These weights are the first generation."""
        self.kept, self.number = [(0, weights)], 0

    def judge(
        self, present: Weights, measure: Callable[[Weights], np.ndarray], rule: np.ndarray, overlap: float = 1.0
    ) -> tuple[float, Weights | None]:
        """(gain of the present net in this window, weights to go back to or None). `measure(weights)` [W]: mean bounded
        slowdowns of pieces of the window; `rule` [W]: those of the best rule. `overlap`: as in `ahead`."""
        every = {n: measure(w) for n, w in self.kept}
        now, before, by_rule = score(measure(present)), {n: score(x) for n, x in every.items()}, score(rule)
        base = min(before[self.kept[-1][0]], by_rule)
        gain, back = (base - now) / base, None
        if gain >= 0:
            self.number += 1
            self.kept = [*self.kept, (self.number, present)][-KEPT:]
            before[self.number], every[self.number] = now, measure(present)
            self.lost = 0
        else:
            self.lost += 1
            if self.lost >= PATIENCE:
                back = self._back(before, by_rule)
        proven = [n for n, _ in self.kept if ahead(every[n], rule, overlap)]
        self.serves = proven[-1] if proven else -1
        return float(gain), back

    def _back(self, before: dict[int, float], rule: float) -> Weights:
        """The newest generation that is ahead of the rule; if none is, the best of them learns on."""
        self.lost, self.rate, self.rollbacks = 0, self.rate / 2, self.rollbacks + 1
        good = [x for x in self.kept if before[x[0]] <= rule]
        number, weights = good[-1] if good else min(self.kept, key=lambda x: before[x[0]])
        self.kept = [x for x in self.kept if x[0] <= number]
        return weights

    @property
    def served(self) -> Weights | None:
        """The weights that schedule; None: the rule does."""
        return dict(self.kept).get(self.serves)

    def state(self) -> dict:
        """Plain values and arrays; `Generations(**state)` again."""
        return {k: getattr(self, k) for k in ("number", "lost", "rate", "serves", "rollbacks")} | {
            "kept": [list(x) for x in self.kept]
        }

    @staticmethod
    def of(state: dict) -> Generations:
        """Return the generations of a stored state."""
        return Generations(**(state | {"kept": [(int(n), {k: np.asarray(v) for k, v in w.items()}) for n, w in state["kept"]]}))

"""Generations of a model, and when to go back to an earlier one (MARS, section 8 of its specification).

    the present one G_m, after each window:  gain = (base - score) / base,  base the better of G_m-1 and the rule
    gain >= 0                        it is confirmed: a new generation, which learns on
    two windows below 0 in a row     back to G_m-1; if that is behind the rule now, too, to G_m-2; if that is, the rule
                                     schedules. The rate of learning is halved

Who schedules is the newest confirmed generation that is ahead of the rule by more than chance (ours: two standard errors
of the windows' log ratios), or the rule; never one that is not confirmed. `Kept` is how a folder says so: MARS's store
(`systems/store.py`) and a live cluster (`live/retrain.py`) keep generations in one way.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from jobwise.learn.run_folder import score
from jobwise.worlds.rows import taken

G = TypeVar("G")  # a generation: weights by name, or an order
PATIENCE, KEPT = 2, 2  # windows below 0 before going back; confirmed generations that are kept
Z = 2.0  # standard errors by which a generation must be ahead of the rule to schedule


def ahead(ours: np.ndarray, rule: np.ndarray, overlap: float = 1.0) -> bool:
    """Is `ours` [W] below `rule` [W], slowdowns of the same pieces of a log, by more than Z standard errors of the mean log
    ratio? `overlap`: in how many pieces a job is, on average. One piece proves nothing."""
    if len(ours) < 2:
        return False
    d = np.log(ours / rule)
    error = float(d.std(ddof=1)) / np.sqrt(len(d) / overlap)
    return bool(score(ours) < score(rule) and d.mean() + Z * error < 0)


@dataclass
class Generations(Generic[G]):
    """`kept`: (number, generation) of confirmed ones, the newest last, the first of them where learning began. `lost`:
    windows below 0 in a row. `rate`: what the rate of learning is multiplied by. `serves`: the number of the generation that
    schedules; -1: the rule does. `rollbacks`: how many there were."""

    kept: list[tuple[int, G]] = field(default_factory=list)
    number: int = 0
    lost: int = 0
    rate: float = 1.0
    serves: int = -1
    rollbacks: int = 0

    def begin(self, first: G) -> None:
        """Take it as the first generation."""
        self.kept, self.number = [(0, first)], 0

    def judge(
        self, present: G, measure: Callable[[G], np.ndarray], rule: np.ndarray, overlap: float = 1.0
    ) -> tuple[float, G | None]:
        """(gain of the present one in this window, the generation to go back to or None). The gain is relative to the better
        one of the rule and the newest generation: below 0 the present one is worse. With a gain the present one is kept as a
        new generation; after PATIENCE windows without one there is a generation to go back to. `serves` becomes the newest
        generation that is proven to be ahead of the rule.

        `measure(generation)` [W]: mean bounded slowdowns of pieces of the window; `rule` [W]: those of the best rule.
        `overlap`: as in `ahead`."""
        every = {n: measure(generation) for n, generation in self.kept}
        ours = measure(present)
        now, before, by_rule = score(ours), {n: score(x) for n, x in every.items()}, score(rule)
        base = min(by_rule, before[self.kept[-1][0]]) if self.kept else by_rule
        gain, back = (base - now) / base, None
        if gain >= 0:
            self.number += 1
            self.kept = [*self.kept, (self.number, present)][-KEPT:]
            every[self.number] = ours
            self.lost = 0
        else:
            self.lost += 1
            if self.lost >= PATIENCE and self.kept:
                back = self._back(before, by_rule)
        proven = [n for n, _ in self.kept if ahead(every[n], rule, overlap)]
        self.serves = proven[-1] if proven else -1
        return float(gain), back

    def _back(self, before: dict[int, float], rule: float) -> G:
        """The newest generation that is ahead of the rule; if none is, the best of them learns on."""
        self.lost, self.rate, self.rollbacks = 0, self.rate / 2, self.rollbacks + 1
        good = [x for x in self.kept if before[x[0]] <= rule]
        number, weights = good[-1] if good else min(self.kept, key=lambda x: before[x[0]])
        self.kept = [x for x in self.kept if x[0] <= number]
        return weights

    @property
    def served(self) -> G | None:
        """The generation that schedules; None: the rule does."""
        return dict(self.kept).get(self.serves)

    def state(self) -> dict:
        """Plain values and arrays; `Generations(**state)` again."""
        return taken(self, NUMBERS) | {"kept": [list(x) for x in self.kept]}

    @staticmethod
    def of(state: dict) -> Generations[dict[str, np.ndarray]]:
        """Return the generations of a stored state, which are weights."""
        return Generations(**(state | {"kept": [(int(n), {k: np.asarray(v) for k, v in w.items()}) for n, w in state["kept"]]}))


NUMBERS = ("number", "lost", "rate", "serves", "rollbacks")


class Kept(BaseModel):
    """The generations of a folder, which holds each as g3.safetensors: the numbers of `Generations`, and who schedules."""

    model_config = ConfigDict(extra="forbid")

    number: int = 0
    lost: int = 0
    rate: float = Field(1.0, gt=0)
    serves: int = -1
    rollbacks: int = 0
    kept: list[int] = []
    schedules: str = ""  # a file of the folder, or a rule

    def open(self, read: Callable[[str], Any]) -> Generations:
        """Return the generations; `read` gets the name of a file without its ending."""
        return Generations([(n, read(f"g{n}")) for n in self.kept], **taken(self, NUMBERS))

    def keep(self, g: Generations, folder: Path, write: Callable[[Any, Path], None]) -> None:
        """Take the numbers over, and write the generations that are new."""
        for name, value in taken(g, NUMBERS).items():
            setattr(self, name, value)
        for number, generation in g.kept:
            if number not in self.kept:
                write(generation, folder / f"g{number}.safetensors")
        self.kept = [n for n, _ in g.kept]

    def tidy(self, folder: Path, *others: str) -> None:
        """Delete the files of generations that are kept no more; `others`: names of files that stay."""
        for file in folder.glob("*.safetensors"):
            if file.stem not in {*others, *(f"g{n}" for n in self.kept)}:
                file.unlink(missing_ok=True)

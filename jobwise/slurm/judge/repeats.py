"""The same jobs run more than once on a real Slurm: how far it differs from itself, and whether the simulation differs more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from jobwise.errors import InputError
from jobwise.slurm.judge.fidelity import Fidelity, correlation, near, recorded
from jobwise.workload import Workload

COLUMNS = ("between", "mean wait", "order", "near")


@dataclass(frozen=True)
class Beside:
    """Two runs of the same jobs: the difference of their mean waits as a share, the rank correlation of their starts, the share
    of the jobs that start near each other."""

    name: str
    difference: float
    order: float
    near: float

    def row(self, signed: bool = False) -> list[str]:
        """Return its cells under COLUMNS."""
        difference = f"{self.difference:+.1%}" if signed else f"{abs(self.difference):.1%}"
        return [self.name, difference, f"{self.order:.3f}", f"{self.near:.0%}"]


@dataclass(frozen=True)
class Repeats:
    """`pairs` of real runs, and the simulation beside real runs: the mean over them and over phases of its clocks."""

    pairs: tuple[Beside, ...]
    simulated: Beside

    @property
    def within(self) -> bool:
        """Does the simulation differ from real runs no more than they differ from each other?"""
        return not self._beyond()

    def _beyond(self) -> list[str]:
        wait, order, close = (
            max(abs(x.difference) for x in self.pairs),
            *(min(getattr(x, k) for x in self.pairs) for k in KEYS),
        )
        x, beyond = self.simulated, []
        if round(abs(x.difference), 3) > round(wait, 3):
            beyond.append(f"its mean wait is {x.difference:+.1%} off, two real runs differ by {wait:.1%} at most")
        if round(x.order, 3) < round(order, 3):
            beyond.append(f"the rank correlation of its starts is {x.order:.3f}, of two real runs {order:.3f} at least")
        if x.near < close:
            beyond.append(f"{x.near:.0%} of its starts are near real ones, of two real runs {close:.0%} at least")
        return beyond

    def sentence(self) -> str:
        """Say whether the simulation differs more."""
        if self.within:
            return "The simulation is within what Slurm differs from itself."
        return f"The simulation differs from Slurm more than Slurm from itself: {'; '.join(self._beyond())}."

    def table(self) -> list[list[str]]:
        """Return rows under COLUMNS: pairs of real runs, then the simulation."""
        return [*(x.row() for x in self.pairs), self.simulated.row(signed=True)]

    def to_dict(self) -> dict:
        """Return its numbers as JSON takes them."""
        return {"within": self.within, "pairs": [vars(x) for x in self.pairs], "simulated": vars(self.simulated)}


KEYS = ("order", "near")


def repeats(runs: Sequence[Workload], replays: Sequence[Fidelity]) -> Repeats:
    """Compare real runs of the same jobs with each other and with replays, `replays[k]` of `runs[k]`. Raises InputError where
    there are fewer than two runs, or where their jobs are not the same."""
    if len(runs) < 2:
        raise InputError("how far Slurm differs from itself needs two runs of the same jobs at least")
    order = [_by_number(w) for w in runs]
    for w, rows in zip(runs[1:], order[1:], strict=True):
        if len(w) != len(runs[0]) or (w.jobs["request"][rows] != runs[0].jobs["request"][order[0]]).any():
            raise InputError(f"{w.name}: its jobs are not those of {runs[0].name}; runs of the same jobs are needed")
    waits = [recorded(w)[rows] for w, rows in zip(runs, order, strict=True)]
    starts = [w.jobs["submit"][rows] + x for w, rows, x in zip(runs, order, waits, strict=True)]
    pairs = []
    for a, b in combinations(range(len(runs)), 2):
        difference = float(waits[b].mean() / max(waits[a].mean(), 1e-9) - 1)
        both = (near(waits[a], waits[b]) + near(waits[b], waits[a])) / 2
        pairs.append(Beside(f"runs {a + 1} and {b + 1}", difference, correlation(starts[a], starts[b]), both))
    difference = np.mean([f.wait.mean() for f in replays]) / max(np.mean([x.mean() for x in waits]), 1e-9) - 1
    like = (float(np.mean([getattr(f, k) for f in replays])) for k in KEYS)
    return Repeats(tuple(pairs), Beside(f"{replays[0].policy}, simulated", float(difference), *like))


def _by_number(w: Workload) -> np.ndarray:
    """[J] rows in the order of job ids: that in which the jobs were submitted."""
    return np.argsort(w.columns["job"], kind="stable") if "job" in w.columns else np.arange(len(w))

"""A shadow of a running cluster: cycle by cycle it predicts, asks a policy, and writes down; nothing is written to Slurm."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from jobwise.errors import InputError, plain
from jobwise.live.sinks.journal import Journal
from jobwise.live.sources import Now
from jobwise.live.starts import Predicted, predict
from jobwise.live.views import Wishes
from jobwise.starts.calibration import Calibration

KEPT_BACK_S = 1.0  # a clock that goes back by more has been set


@dataclass
class Shadow:
    """Looks at a cluster; with a `journal` it remembers. `site`: who is taken to decide (slurm)."""

    policy: Any
    journal: Journal | None = None
    site: Any = "slurm"
    calibration: Calibration = field(default_factory=Calibration)
    problem: str = ""
    order: list[dict] = field(default_factory=list)
    begin: set[int] = field(default_factory=set)

    def __post_init__(self):
        if self.journal:
            self.calibration = self.journal.calibration()

    def cycle(self, c: Now, seed: int = 0, wishes: Wishes | None = None) -> tuple[Predicted, dict[str, list[int]]]:
        """(predictions, which jobs came, started, ended, changed, were cancelled since the last cycle: `Journal.write`), of a
        cluster as it is now. `wishes`: of the policy, where it has been asked. Raises InputError where the clock has been set
        back."""
        self.problem = ""
        if self.journal and c.now + c.workload.origin < self.journal.last - KEPT_BACK_S:
            raise InputError("the clock has been set back; nothing is written until it is past the last cycle again")
        p = predict(c, self.site, calibration=self.calibration, seed=seed)
        try:
            wishes = wishes or Wishes(self.policy, c)
            self.order, self.begin = wishes.order, set(wishes.starts)
        except Exception as error:  # a user's policy may raise anything
            self.order, self.begin, self.problem = [], set(), f"the policy failed: {plain(str(error))[:200]}"
        events = self.journal.write(p, self.order, self.begin, self.problem) if self.journal else {}
        self.calibration.gone(set(events.get("gone", ())))
        return p, events

"""A shadow of a running cluster: cycle by cycle it predicts, asks a policy, and writes down; nothing is written to Slurm."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from jobwise.errors import InputError, plain
from jobwise.live.cycle import Sink, Turn
from jobwise.live.sinks.journal import Journal
from jobwise.live.starts import predict
from jobwise.starts.calibration import Calibration

KEPT_BACK_S = 1.0  # a clock that goes back by more has been set


@dataclass
class Shadow(Sink):
    """Predict starts; a `journal` stores the predictions. `site`: the scheduler that is assumed to decide (slurm). `order`,
    `begin`: the policy's ranking of the queue at the last look, and the jobs that it would have started."""

    journal: Journal | None = None
    site: Any = "slurm"
    calibration: Calibration = field(default_factory=Calibration)
    order: list[dict] = field(default_factory=list)
    begin: set[int] = field(default_factory=set)
    title = "the journal"

    def __post_init__(self):
        if self.journal:
            self.calibration = self.journal.calibration()

    def take(self, turn: Turn) -> None:
        """Predict, ask, and write down: `predicted`, `events` and `problem` of the turn. Raises InputError where the clock has
        been set back, and where the journal cannot be written."""
        c = turn.now
        if self.journal and c.now + c.workload.origin < self.journal.last - KEPT_BACK_S:
            raise InputError("the clock has been set back; nothing is written until it is past the last cycle again")
        p = predict(c, self.site, calibration=self.calibration, seed=turn.n)
        problem = ""
        try:
            self.order, self.begin = turn.wishes.order, set(turn.wishes.starts)
        except Exception as error:  # a user's policy may raise anything
            self.order, self.begin, problem = [], set(), f"the policy failed: {plain(str(error))[:200]}"
        events = self.journal.write(p, self.order, self.begin, problem) if self.journal else {}
        self.calibration.gone(set(events.get("gone", ())))
        turn.predicted, turn.events, turn.problem = p, events, turn.problem or problem

"""The recommended scheduler: one order with start deadlines and a short-job lane.

`jobwise` bounds waits: order smith-aged, the smallest jobs that make `LANE` of the work first, deadlines of `PROMISE` times the
longest wait of FCFS with EASY. No other scheduler that was tried was better on the shared logs (docs/tried.md).
Where jobs may be stopped and begun again, `jobwise+trial` lets waiting jobs run in processors that this leaves idle
(docs/studies/trial.md).
"""

from __future__ import annotations

from jobwise.policies.list_scheduler import ListScheduler

LANE, PROMISE = 0.02, 1.2
NAME = "jobwise"
OPTIONS = ("trial", "shift")  # that go with it


class Recommended(ListScheduler):
    """A list scheduler with one word for a name, and one for trial runs or for cheaper hours."""

    @property
    def name(self) -> str:
        """The word that stands for all of its parts."""
        return "+".join([self.label, *(word for part, word in self.used if part.field in OPTIONS)])


def recommended(trial: tuple[float, float] = (0.0, 0.0), shift: float = 0.0) -> Recommended:
    """Return the scheduler that the product recommends; `trial`, `shift`: as of `ListScheduler`."""
    return Recommended("smith-aged", "easy", express=LANE, promise=PROMISE, label=NAME, trial=trial, shift=shift)

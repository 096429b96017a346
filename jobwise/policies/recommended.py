"""The recommended scheduler: one order with start deadlines and a short-job lane.

`jobwise` bounds waits: order smith-aged, the smallest jobs that make `LANE` of the work first, deadlines of `PROMISE` times the
longest wait of FCFS with EASY. No other scheduler that was tried was better on the shared logs (docs/tried.md).
"""

from __future__ import annotations

from jobwise.policies.list_scheduler import ListScheduler

LANE, PROMISE = 0.02, 1.2
NAME = "jobwise"


class Recommended(ListScheduler):
    """A list scheduler with one word for a name."""

    @property
    def name(self) -> str:
        """The word that stands for all of its parts."""
        return self.label


def recommended() -> Recommended:
    """Return the scheduler that the product recommends."""
    return Recommended("smith-aged", "easy", express=LANE, promise=PROMISE, label=NAME)

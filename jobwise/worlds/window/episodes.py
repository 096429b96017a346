"""Episodes: which jobs a simulation is begun with. Random windows of logs, whole logs, or a log without end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from jobwise.errors import InputError
from jobwise.workload import Workload


@dataclass(frozen=True, eq=False)
class Episodes:
    """Source of episodes from logs.

    `jobs`: consecutive jobs per episode, from a random place of a random log (logs weigh by their length); None: the whole
    log. `stream`: from a random place to the end of the log; the environment cuts after `jobs` choices without emptying the
    machine. `loads`: factors on the arrival rate, one is drawn. `shake_s`: submits move by U(-shake_s, shake_s).
    `starts`: first rows to draw from (of the only log), instead of all.
    """

    logs: Sequence[Workload]
    jobs: int | None = 256
    stream: bool = False
    loads: tuple[float, ...] = (1.0,)
    shake_s: float = 0.0
    starts: tuple[int, ...] | None = None

    def __post_init__(self):
        if not self.logs or any(len(w) == 0 for w in self.logs):
            raise InputError("episodes need at least one log with at least one job")
        for w in self.logs:
            if not w.cluster.is_bag:
                raise InputError(f"{w.name}: this environment takes pools; this log is of {len(w.cluster.capacity)} nodes")
            first = self.logs[0].cluster
            if not (first.is_pool and w.cluster.is_pool or np.array_equal(first.capacity, w.cluster.capacity)):
                raise InputError(f"{w.name}: logs are all of pools of processors, or all of one machine of several resources")
            if len(w.edges) and (self.jobs is not None or self.shake_s > 0 or self.stream):
                raise InputError(f"{w.name}: jobs wait for others: an episode is all of it, as it is (jobs None, shake_s 0)")
            if len(w.cluster.outages):
                raise InputError(f"{w.name}: this environment has no node failures")
            if self.jobs is not None and not 1 <= self.jobs <= len(w):
                raise InputError(f"{w.name}: a window of {self.jobs} jobs does not fit a log of {len(w)}")
        if self.stream and self.jobs is None:
            raise InputError("a stream is cut after a number of choices: say how many with jobs")
        if not self.loads or not all(0 < x < np.inf for x in self.loads):
            raise InputError(f"loads are factors > 0 on the arrival rate, not {self.loads}")
        if not 0 <= self.shake_s <= 1e8:
            raise InputError(f"submits can be moved by 0 to 1e8 s, not {self.shake_s:g}")
        if self.starts is not None and (
            len(self.logs) > 1 or not self.starts or min(self.starts) < 0 or max(self.starts) >= len(self.logs[0])
        ):
            raise InputError("starts are rows of one log")

    @property
    def longest(self) -> int:
        """Jobs of the longest episode."""
        return max(len(w) for w in self.logs) if self.stream or self.jobs is None else self.jobs

    @property
    def processors(self) -> int:
        """The processors of the largest machine."""
        return max(w.cluster.processors for w in self.logs)

    def draw(self, rng: np.random.Generator) -> tuple[int, int, int]:
        """(number of the log, first row, rows) of the next episode."""
        log = 0
        if len(self.logs) > 1:
            ends = np.cumsum([len(w) for w in self.logs])
            log = int(np.searchsorted(ends, rng.integers(ends[-1]), side="right"))
        w = self.logs[log]
        if self.jobs is None:
            return log, 0, len(w)
        if self.starts is not None:
            first = int(self.starts[rng.integers(len(self.starts))])
        else:
            first = int(rng.integers(len(w) - self.jobs + 1))
        return log, first, len(w) - first if self.stream else min(self.jobs, len(w) - first)

    def factor(self, rng: np.random.Generator) -> float:
        """Return the number that the next episode's submits are divided by."""
        return self.loads[int(rng.integers(len(self.loads)))] if len(self.loads) > 1 else self.loads[0]

    def shaken(
        self, w: Workload, first: int, count: int, factor: float, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return (rows of `w`, their submits in s from 0), of rows first .. first + count - 1, scaled and time-shifted."""
        submit = (w.jobs["submit"][first : first + count] - w.jobs["submit"][first]) / factor
        submit = np.round(submit + rng.uniform(-self.shake_s, self.shake_s, count))
        order = np.argsort(submit, kind="stable")
        return first + order, submit[order] - submit[order[0]]

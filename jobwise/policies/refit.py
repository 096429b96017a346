"""Trees learnt anew on the way (`+refit`): every so many arrivals, from the jobs of the log or cluster that have ended.

In a simulation it is done at once. On a live cluster it is done aside: the old trees serve until the new ones are there.
"""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from threading import Lock

import numpy as np

from jobwise.jobs import digest
from jobwise.sim.forest import Forest

DEFAULT = 5000  # jobs that arrive between two fits
FOLLOWED = 60_000  # jobs that ended last
KEPT = 32  # forests: shaken replicas of a window ask for the same

_known: dict[tuple[bytes, int], Forest] = {}
_lock = Lock()


class Refit:
    """Of one simulation or cluster. `aside`: in a thread."""

    def __init__(self, every: int, total: int):
        self.every, self.total, self.aside, self._next = every, total, False, 0
        self._waiting: Future | None = None
        self._thread = ThreadPoolExecutor(1)

    @property
    def next(self) -> int:
        """How many jobs have arrived when it is to be looked at again."""
        return self._next if self._waiting is None else 0

    def look(self, past: np.ndarray, arrived: int) -> Forest | None:
        """New trees, if there are some; `past` [K] of past_dtype in order of end. Raises InputError without LightGBM."""
        if self._waiting is not None:
            if not self._waiting.done():
                return None
            found, self._waiting = self._waiting.result(), None
            return found
        if arrived < self._next:
            return None
        self._next = arrived + self.every
        if self.aside:
            self._waiting = self._thread.submit(learnt, past.copy(), self.total)
            return None
        return learnt(past, self.total)


def learnt(past: np.ndarray, total: int) -> Forest | None:
    """Trees of these jobs, learnt now or kept from before; None where they are too few."""
    from jobwise.forecast import forests  # here, so that forests may be used without what they are learnt with

    if len(past) < forests.LEAST:
        return None
    key = digest(past[-FOLLOWED:]), total
    with _lock:  # a comparison replays windows in two threads; LightGBM has threads of its own
        if key not in _known:
            while len(_known) >= KEPT:
                _known.pop(next(iter(_known)))
            _known[key] = forests.of_past(past[-FOLLOWED:], total)
        return _known[key]

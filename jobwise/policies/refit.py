"""Trees learnt anew on the way (`+refit`): every so many arrivals, from the jobs of the log or cluster that have ended.

In a simulation it is done at once. On a live cluster it is done aside: the old trees serve until the new ones are there.
"""

from __future__ import annotations

import warnings
from concurrent.futures import Future, ThreadPoolExecutor
from importlib import import_module
from threading import Lock

import numpy as np

from jobwise.jobs import digest
from jobwise.sim.forest import Forest

DEFAULT = 5000  # jobs that arrive between two fits
FOLLOWED = 60_000  # jobs that ended last
FEWEST = 500  # jobs that have ended; with fewer it waits for as many
LEAST = 100  # jobs between two fits
KEPT = 32  # forests: time-shifted replicas of a window ask for the same

_known: dict[tuple[bytes, int], Forest] = {}
_lock = Lock()


class Refit:
    """The refits of one simulation or cluster. `aside`: in a thread."""

    def __init__(self, every: int, total: int):
        self.every, self.total, self.aside, self._next = every, total, False, 0
        self._waiting: Future | None = None

    @property
    def next(self) -> int:
        """How many jobs have arrived when it is to be looked at again."""
        return self._next if self._waiting is None else 0

    def look(self, past: np.ndarray, arrived: int) -> Forest | None:
        """New trees, if there are some; `past` [K] of past_dtype in order of end. Raises InputError without LightGBM."""
        if self._waiting is not None:
            if not self._waiting.done():
                return None
            waited, self._waiting = self._waiting, None
            try:
                return waited.result()
            except Exception as error:  # a cluster goes on with the trees it has
                warnings.warn(f"no new trees: {type(error).__name__}: {error}", RuntimeWarning, stacklevel=2)
                return None
        if arrived < self._next:
            return None
        if len(past) < FEWEST:
            self._next = arrived + FEWEST
            return None
        self._next = arrived + self.every
        if self.aside:
            self._waiting = ThreadPoolExecutor(1).submit(learnt, past.copy(), self.total)
            return None
        return learnt(past, self.total)


def learnt(past: np.ndarray, total: int) -> Forest:
    """Trees of these jobs, learnt now or kept from before."""
    forests = import_module("jobwise.forecast.forests")  # by name: forests are used without what they are learnt with

    key = digest(past[-FOLLOWED:]), total
    with _lock:  # a comparison replays windows in two threads; LightGBM has threads of its own
        if key not in _known:
            while len(_known) >= KEPT:
                _known.pop(next(iter(_known)))
            _known[key] = forests.of_past(past[-FOLLOWED:], total)
        return _known[key]

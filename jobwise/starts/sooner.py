"""What would start sooner: the same futures again, in which one job asks for less. Told only where likely, and with the end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from jobwise.cluster import Cluster
from jobwise.starts.futures import Drawn, play

LEAST_S, LEAST_SHARE = 600.0, 0.2  # a gain is told from so many s and such a share of the wait on
FITS = 0.9  # a shorter limit is tried only where so many futures of the job end within it
SAME_S = 1.0


@dataclass(frozen=True)
class Offer:
    """A change of a waiting job, and what it would bring: medians over paired futures, in s from now."""

    walltime: float  # s
    size: int
    words: str
    start: float
    end: float
    gain: float  # s by which it starts sooner
    sooner: float  # how likely that is
    later: float
    own: tuple[float, float]  # start and end as it is

    @property
    def worth_telling(self) -> bool:
        """Is it likely to start sooner, by much?"""
        return self.sooner > 0.5 and self.gain > max(LEAST_S, LEAST_SHARE * self.own[0])


def variants(walltime: float, size: int) -> list[tuple[float, int, str]]:
    """(s, processors, words) of what a job may ask for instead."""
    some = [(walltime / 2, size, "half the time limit"), (walltime / 4, size, "a quarter of the time limit")]
    some = [(t, n, words) for t, n, words in some if t >= 60.0]
    return some + ([(2 * walltime, -(-size // 2), "half the processors for twice the time")] if size > 1 else [])


def offers(
    drawn: Drawn,
    job: int,
    policy: Any,
    cluster: Cluster,
    past: np.ndarray,
    tried: Sequence[tuple[float, int, str]] | None = None,
    most: float = np.inf,
) -> list[Offer]:
    """Try what job `job` (a row of the history, which waits) may ask for instead (`tried`, by default `variants`), each against
    itself in the same futures. Limits longer than `most` s are not tried, nor any that its run may not fit."""
    place, now = int(np.searchsorted(drawn.rows, job)), drawn.history.now
    among, table = np.array([place]), drawn.table[place]
    own = play(drawn, policy, cluster, past, among)[:, 0] - now
    before = float(np.median(own)), float(np.median(own + drawn.run[:, place]))
    out = []
    for walltime, size, words in tried if tried is not None else variants(float(table["walltime"]), int(table["request"][0])):
        shorter = size == table["request"][0]
        if walltime > most or shorter and (drawn.run[:, place] <= walltime).mean() < FITS:
            continue
        other = drawn.changed(place, walltime, size)
        start = play(other, policy, cluster, past, among)[:, 0] - now
        sooner, later = (start < own - SAME_S).mean(), (start > own + SAME_S).mean()
        end, gain = float(np.median(start + other.run[:, place])), float(np.median(own - start))
        out.append(Offer(walltime, size, words, float(np.median(start)), end, gain, float(sooner), float(later), before))
    return out

"""Find requests with earlier starts: the same futures again, in which one job asks for less; likely gains alone are offered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from jobwise.starts.futures import Drawn, Player

LEAST_S, LEAST_SHARE = 600.0, 0.2  # a gain is told from so many s and such a share of the wait on
FITS = 0.9  # a shorter limit is tried only where so many futures of the job end within it
REQUEUED_S = 121.0  # s after which a job that was put back may start again
SAME_S = 1.0


@dataclass(frozen=True)
class OtherRequest:
    """Another request of a waiting job: fields of job_dtype (`request`: units of the first resource, or [R] of all), and how
    many times as long it runs then. `again`: where its limit ends it, it begins again, with its own limit."""

    words: str
    fields: dict[str, Any]
    slower: float = 1.0
    again: bool = False


@dataclass(frozen=True)
class Offer:
    """Effect of a changed request: medians over paired futures, in s from now."""

    change: OtherRequest
    start: float
    end: float
    gain: float  # s by which it starts sooner; of one that may begin again, by which it ends sooner
    sooner: float  # how likely that is
    later: float
    own: tuple[float, float]  # start and end as it is

    @property
    def worth_telling(self) -> bool:
        """Is it likely to start sooner, by much?"""
        return self.sooner > 0.5 and self.gain > max(LEAST_S, LEAST_SHARE * self.own[0])

    def to_dict(self) -> dict:
        """Return it as JSON takes it."""
        own = {"start_now": self.own[0], "end_now": self.own[1], "probability": self.sooner}
        return {"change": self.change.words, "start": self.start, "end": self.end} | own


def shorter(walltime: float) -> list[OtherRequest]:
    """Return shorter time limits than `walltime` s."""
    some = (("half the time limit", walltime / 2), ("a quarter of the time limit", walltime / 4))
    return [OtherRequest(words, {"walltime": t}) for words, t in some if t >= 60.0]


def variants(walltime: float, size: int) -> list[OtherRequest]:
    """Return other requests for a job of `walltime` s and `size` processors."""
    half = {"walltime": 2 * walltime, "request": -(-size // 2)}
    return shorter(walltime) + ([OtherRequest("half the processors for twice the time", half, 2.0)] if size > 1 else [])


def begun_again(walltime: float) -> list[OtherRequest]:
    """Return what a job of `walltime` s that can begin again may ask Slurm for: a start in a gap shorter than its limit."""
    minutes = [int(walltime / k // 60) for k in (4, 16)]
    return [
        OtherRequest(f"--time-min={m} --requeue, if it can begin again", {"walltime": 60.0 * m}, again=True)
        for m in minutes
        if m >= 5
    ]


def offers(drawn: Drawn, job: int, player: Player, changes: Sequence[OtherRequest] | None = None) -> list[Offer]:
    """Try what job `job` (a row of the history, which waits) may ask for instead (`changes`, by default `variants`), each
    against itself in the same futures. Shorter limits that its run may not fit are left out, but for jobs that begin again; of
    these the ends are compared, for a start alone is worth nothing."""
    place, now = int(np.searchsorted(drawn.rows, job)), drawn.history.now
    among, table = np.array([place]), drawn.table[place]
    own = player.play(drawn, among)[:, 0] - now
    before = float(np.median(own)), float(np.median(own + drawn.run[:, place]))
    out = []
    for change in variants(float(table["walltime"]), int(table["request"][0])) if changes is None else changes:
        limit = change.fields.get("walltime", np.inf)
        if change.slower == 1.0 and not change.again and (drawn.run[:, place] <= limit).mean() < FITS:
            continue
        other = drawn.changed(place, change.fields, change.slower)
        start = player.play(other, among)[:, 0] - now
        run, first, then = drawn.run[:, place], own, start
        ends = start + other.run[:, place]
        if change.again:
            ends = np.where(run <= limit, start + run, np.maximum(start + limit + REQUEUED_S, own) + run)
            first, then = own + run, ends
        sooner, later = (then < first - SAME_S).mean(), (then > first + SAME_S).mean()
        end, gain = float(np.median(ends)), float(np.median(first - then))
        out.append(Offer(change, float(np.median(start)), end, gain, float(sooner), float(later), before))
    return out

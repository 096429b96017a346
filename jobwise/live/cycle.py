"""The cycle of a running cluster: look, ask the policy, hand what was seen to the sinks; again and again.

A source is looked at (`sources.ClusterReader`); one run of the policy goes on from look to look (`wishes.py`); sinks make of
it what their command is for: a journal, a page, site factors, nodes, lines on a terminal.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from jobwise.errors import InputError
from jobwise.live.sources import Now
from jobwise.live.starts import Predicted
from jobwise.live.wishes import Wishes

STEP_S = 0.2  # between two questions whether somebody wants it to end


@dataclass
class Turn:
    """One look at a cluster: its number `n` from 1 on, what is there, what the policy wants; and what sinks have made of it for
    those behind them: predictions, `events` (`Journal.write`), a problem of the policy, how many jobs were `changed`; `off`:
    a guard rail ends it all; `follows`: the policy from the next look on, of which `news` tells ("" none)."""

    n: int
    now: Now
    wishes: Wishes
    begun: float = field(default_factory=time.monotonic)
    predicted: Predicted | None = None
    events: dict[str, list[int]] = field(default_factory=dict)
    problem: str = ""
    changed: int = 0
    off: bool = False
    follows: Any = None
    news: str = ""


class Source(Protocol):
    """A cluster that can be looked at."""

    def look(self) -> Now:
        """Read the cluster as it is now. Raises InputError."""


class Sink:
    """Takes what each look at a cluster brings; the base of all does nothing. `title`: in messages."""

    title = "a sink"

    @property
    def stopped(self) -> bool:
        """Does it want no more looks?"""
        return False

    def take(self, turn: Turn) -> None:
        """Do its part with a look. Raises InputError where it cannot, now."""

    def failed(self, problem: str, looked: bool) -> None:
        """Take note that a turn failed; `looked`: the cluster was read, and a sink failed that is not the first."""

    def learnt(self, news: str) -> None:
        """Take note of what learning beside the cluster has brought."""


class Cycle:
    """Looks at a source again and again for a policy. The first of the `sinks` is what it is all for: where it fails the turn
    has failed; others may fail as they like."""

    def __init__(self, source: Source, policy: Any, sinks: Sequence[Sink]):
        self.source, self.policy, self.sinks = source, policy, sinks
        self._n = 0
        self._wishes: Wishes | None = None

    def once(self) -> Turn:
        """Look once, and hand it to the sinks. Raises InputError where the source or the first sink fails."""
        self._n += 1
        begun, now = time.monotonic(), self.source.look()
        self._wishes = Wishes(self.policy, now, self._wishes)
        turn = Turn(self._n, now, self._wishes, begun)
        self.sinks[0].take(turn)
        for sink in self.sinks[1:]:
            try:
                sink.take(turn)
            except Exception as error:  # the clock, a full disk, a damaged journal; whatever it is, the first sink goes on
                self._tell(f"{sink.title}: {error}", True)
        if turn.news:
            self.policy = turn.follows
            for sink in self.sinks:
                sink.learnt(turn.news)
        return turn

    def run(self, pause: float, count: int | None = None) -> bool:
        """Go on until a sink wants to stop, `count` times at most, every `pause` s; False where a guard rail has ended it."""
        for n in itertools.count(1) if count is None else range(1, count + 1):
            if self._stopped:
                break
            try:
                if self.once().off:
                    return False
            except InputError as error:
                self._tell(str(error), False)
            end = time.monotonic() + pause
            while n != count and time.monotonic() < end and not self._stopped:
                time.sleep(min(STEP_S, pause))
        return True

    @property
    def _stopped(self) -> bool:
        return any(sink.stopped for sink in self.sinks)

    def _tell(self, problem: str, looked: bool) -> None:
        for sink in self.sinks:
            sink.failed(problem, looked)

"""Looks at a cluster, told in words: lines on a terminal, say."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from jobwise.live.cycle import Sink, Turn


@dataclass
class Told(Sink):
    """Tells each look: `tell(turn)`; `say(news)` what learning has brought; `complain(problem)`."""

    tell: Callable[[Turn], None]
    say: Callable[[str], None]
    complain: Callable[[str], None]
    title = "what is told"

    def take(self, turn: Turn) -> None:
        """Tell a look, once it has been taken."""
        self.tell(turn)

    def failed(self, problem: str, looked: bool) -> None:
        """Complain; a look that failed is tried again."""
        self.complain(problem if looked else f"{problem}; trying again")

    def learnt(self, news: str) -> None:
        """Say who ranks from now on."""
        self.say(news)

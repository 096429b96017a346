"""Reports of looks at a cluster in words, as lines on a terminal for example."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from jobwise.live.cycle import Sink, Turn


@dataclass
class Told(Sink):
    """Report each look: `tell(turn)` the look, `say(news)` the news of learning, `complain(problem)` a problem."""

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

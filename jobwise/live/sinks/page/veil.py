"""What a private page shows of all users together: nothing that could tell of single jobs."""

from __future__ import annotations

from jobwise.live.sinks.page.state import State, Waits

FEWEST, FEWEST_USERS = 20, 5  # jobs whose times are summed up; of waits by partition and QOS: and users
HELD_S = 3600.0  # waits stay as they are for so long: two looks a minute apart would tell of the one job between them


class Veil:
    """Veils the states of one page, one after the other."""

    def __init__(self) -> None:
        self._at, self._waits = -float("inf"), list[Waits]()

    def __call__(self, s: State) -> State:
        """Return the state without scores of few predictions; its waits as of the hour, of many jobs alone, without sums."""
        if s.time - self._at >= HELD_S:
            many = [x for x in s.waits if sum(x.counts) >= FEWEST and x.users >= FEWEST_USERS]
            self._at, self._waits = s.time, [x.model_copy(update={"seconds": None}) for x in many]
        score = s.score if s.score and s.score.predictions >= FEWEST else None
        return s.model_copy(update={"waits": self._waits, "score": score})

"""The three ways to act, by name: what a choice means. `jobwise/worlds/window/passes.py` carries them out."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Any

from jobwise.errors import InputError, unknown
from jobwise.worlds.window import tables

# name: (a head keeps its turn, decisions after every single event, what each backfill rule is to the kernel)
ACTS = {
    "pick": (False, False, {"easy": "chosen", "none": "none"}),
    "reserve": (True, False, {"easy": "easy", "none": "none", "agent": "chosen"}),
    "commit": (True, True, {"none": "none", "greedy": "greedy", "easy": "easy"}),
}


@dataclass(frozen=True)
class WindowSettings:
    """Settings of a chooser in the world of windows.

    `pick`: within a pass the next job is chosen, what fits starts, the first that does not is reserved and of the rest those
    are chosen from that may run beside or before it (EASY); at the next event everything is decided again. `reserve` (DRAS,
    SEM): a reserved job stays reserved, the rest backfills in order of arrival, or is chosen by the agent too (`agent`: DRAS).
    `commit` (RLScheduler): the same, after every single event, and nobody (or its greedy rule) backfills. `fill`: where more
    jobs wait than the window holds it shows the `oldest`, or a `mixed` one: in turn the oldest, the shortest, the smallest.
    `guard`: s of waiting after which a job goes first, unasked. `tries`: in what a pass leaves idle, jobs are chosen that run
    there until a start needs their processors (`sim/pool/trials.py`); on a cluster in use there are none. `waits`: nobody may
    be chosen, to wait for a cheaper hour (`waiting.py`); a job that has waited for the guard, a day by default, goes first.
    """

    mode: str = "pick"
    backfill: str = ""
    fill: str = ""
    guard: float = inf
    tries: bool = False
    waits: bool = False

    def __post_init__(self):
        if self.mode not in ACTS:
            raise unknown("way to act", self.mode, ACTS)
        rules = ACTS[self.mode][2]
        object.__setattr__(self, "backfill", self.backfill or next(iter(rules)))
        object.__setattr__(self, "fill", self.fill or ("oldest" if self.mode == "reserve" else "mixed"))
        if self.backfill not in rules:
            raise InputError(f"acting by {self.mode!r} backfills by {' or '.join(map(repr, rules))}, not {self.backfill!r}")
        if self.fill not in tables.FILLS:
            raise unknown("fill", self.fill, tables.FILLS)
        if not self.guard > 0:
            raise InputError(f"the guard is {self.guard} s; it must be more than 0")
        if self.waits and (self.mode != "pick" or self.tries):
            raise InputError("waiting for cheaper hours is for agents that act by 'pick', without trial runs")
        if self.waits and self.guard == inf:
            object.__setattr__(self, "guard", 86_400.0)
        if self.tries and self.mode != "pick":
            raise InputError(f"trial runs are for agents that act by 'pick', not by {self.mode!r}")

    @property
    def single_events(self) -> bool:
        """Are decisions made after every single event, arrivals first?"""
        return ACTS[self.mode][1]

    def allocate(self, state, window: int, bound_s: float = 86400.0) -> tables.Choices:
        """Memory for the choices of `state`."""
        sticky, _, rules = ACTS[self.mode]
        settings: dict[str, Any] = {"sticky": sticky, "backfill": rules[self.backfill], "fill": self.fill, "guard": self.guard}
        settings |= {"trials": self.tries, "waits": self.waits}
        return tables.allocate(state, window, bound=bound_s, **settings)

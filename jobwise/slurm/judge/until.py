"""How many nodes it takes until a mean wait, slowdown, or the longest wait is below a goal."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from jobwise.compare.windows import shake_for
from jobwise.errors import InputError
from jobwise.slurm.judge.changes import changed
from jobwise.slurm.judge.what_if import Change, Replays, Unit, against, replays
from jobwise.workload import Workload
from jobwise.workloads.durations import SECONDS

MOST = 4  # times the nodes of the site are added at most
MEASURES: dict[str, tuple[Callable[[Replays], float], str]] = {  # name -> how it is measured, in words
    "wait": (lambda r: r.wait, "the mean wait"),
    "p95": (lambda r: r.p95, "the wait that 95 % of the jobs stay below"),
    "longest": (lambda r: r.longest_wait, "the longest wait"),
    "slowdown": (lambda r: r.slowdown, "the mean slowdown"),
}


@dataclass(frozen=True)
class Goal:
    """A measure that shall be below a value (s, or a slowdown); `text`: as it was asked for."""

    measure: str
    below: float
    text: str

    def of(self, r: Replays) -> float:
        """Return the measure of replays."""
        return MEASURES[self.measure][0](r)


def goal(text: str) -> Goal:
    """Return the goal in a text: wait<1h, p95<30m, longest<2d, slowdown<10. Raises InputError."""
    parts = re.fullmatch(r"\s*(\w+)\s*<=?\s*([\d.]+)\s*([smhd]?)\s*", text)
    if parts is None or parts[1] not in MEASURES or bool(parts[3]) == (parts[1] == "slowdown"):
        raise InputError(f"--until {text!r}: one of {', '.join(MEASURES)} below a value is expected: 'wait<1h', 'slowdown<10'")
    try:
        below = float(parts[2]) * SECONDS.get(parts[3], 1.0)
    except ValueError:
        raise InputError(f"--until {text!r}: {parts[2]!r} is no number") from None
    return Goal(parts[1], below, text.strip())


def until(
    w: Workload,
    aim: Goal,
    *,
    changes: str = "",
    replicas: int = 5,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[list[Change], str]:
    """Return (the numbers of nodes that were tried, in order, as changes from none; the answer in a sentence). Nodes like the
    last one are added: 1, 2, 4 and so on until the goal is met, then fewer as long as it is. `changes`: what else is other than
    at present with the jobs `w`, in words. Raises InputError."""
    by, count, most = shake_for(w), len(w.cluster.capacity), MOST * len(w.cluster.capacity)
    steps, done = 2 * int(np.ceil(np.log2(most))) + 2, [0]

    def step(_: int) -> None:
        done[0] += 1
        if progress:
            progress(min(done[0], steps * (1 + replicas)), steps * (1 + replicas))

    tried = {0: replays(w, "slurm", by, replicas, seed, step=step)}

    def meets(n: int) -> bool:
        if n not in tried:
            tried[n] = replays(changed(w, nodes=n), "slurm", by, replicas, seed, step=step)
        return aim.of(tried[n]) < aim.below

    high = 0
    while not meets(high) and high < most:
        high = min(max(2 * high, 1), most)
    low = max((n for n in tried if n < high), default=0)
    while meets(high) and high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if meets(middle) else (middle, high)
    what, as_it_is = MEASURES[aim.measure][1], "with these nodes" if changes else "now"
    value = partial(_told, aim, unit=tried[0].unit)
    goal_text = f"{changes}, {aim.text}" if changes else aim.text
    if meets(0):
        answer = f"{goal_text}: {what} is {value(tried[0])} {as_it_is}, no more nodes are needed."
    elif meets(high):
        more = f"{high:,} more node{'s' * (high > 1)} beside the {count:,}"
        answer = f"{goal_text}: it takes {more}: {what} is {value(tried[high])} then, {value(tried[0])} {as_it_is}."
    else:
        answer = f"{goal_text}: not with {most:,} more nodes either, {what} is {value(tried[most])} then."
    present = tried[0]
    return [against(f"{n:+d} nodes", present, tried[n]) for n in sorted(tried) if n], answer


def _told(aim: Goal, r: Replays, unit: Unit) -> str:
    return f"{aim.of(r):,.1f}" if aim.measure == "slowdown" else f"{unit.text(aim.of(r))} {unit.name}"

"""The rules a newcomer must beat: every order that makes sense on a pool × backfilling × guard, and which of them is best.

*Fair best* is the rule that did best on earlier jobs of the same log: what a site could have chosen. *Best in hindsight* is the
one that does best on the very jobs of the comparison: nobody could have known it. Both are chosen by the number they are judged
by: the geometric mean over windows, or, with a bound on the longest wait, over blocks of the continuous replay, among the rules
that keep the bound in every replica.

The whole table has 13 orders × 3 ways of backfilling × (no guard, one of 4, a short-job lane, start deadlines, or
both); nothing in it is learnt. It is searched in three rounds: all orders ×
backfillings on a few windows, the best of them there under every guard, and the best dozen of all on all windows and replicas.
Orders that no site would choose (last come first, longest first, random) are not in it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import inf
from typing import Any

import numpy as np

from jobwise.compare import windows
from jobwise.parallel import Shared, current
from jobwise.policies.loglinear import INDICES
from jobwise.simulate import simulate
from jobwise.workload import Workload
from jobwise.workloads.transform import shake

ORDERS = tuple("fcfs sjf saf laf smallest largest lxf wfp3 unicef f1 f2 f3 f4".split())
BACKFILLS = ("easy", "easy-sjbf", "conservative")
FIXED = ("guard72h", "guard48h", "guard24h", "guard12h")
LANES, PROMISES = ("", "express2%", "express5%"), ("promise1.1x", "promise1.2x", "promise1.5x")  # of a bounded search
PROMISED = tuple("+".join(filter(None, (lane, promise))) for lane in LANES for promise in PROMISES)
LANE = "express2%"  # where waits are not bounded
FCFS = "fcfs+easy"
UNGUARDED = tuple(f"{order}+{backfill}" for order in ORDERS for backfill in BACKFILLS)
FEW, BEST, DOZEN = 12, 4, 12  # windows of the first rounds; rules that are guarded; rules that are measured
LATELY = 40_000  # jobs of the continuous replay by which rules within a bound are chosen
DEEP = 300.0  # jobs waiting on average: beyond it conservative backfilling takes too long, and is left out


def guarded(rule: str, pool: bool = True, bounded: bool = False) -> list[str]:
    """The rule under every guard, where waits are `bounded` also with start deadlines."""
    more = (PROMISED if bounded else (LANE,)) if pool and not rule.endswith("conservative") else ()
    return [f"{rule}+{guard}" for guard in (*FIXED, *more)]


@dataclass
class Baselines:
    """Results of rules on rows 0 .. `last` - 1 of a log; measured as they are asked for, kept by name.

    `windows[name]`: [W, K] mean bounded slowdown of windows × replicas. `whole[name]`: ([K, B] of blocks of the continuous
    replay, [K] its longest waits in s).
    """

    log: Workload
    first: int
    last: int
    size: int
    replicas: int
    jitter_s: float
    seed: int = 0
    kill_at_walltime: bool = False
    restart_cost_s: float = 0.0
    progress: Callable[[int], None] = lambda count: None
    cache: dict[tuple, np.ndarray] = field(default_factory=dict, repr=False)  # of windows; may be shared between parts of a log
    windows: dict[str, np.ndarray] = field(default_factory=dict)
    whole: dict[str, tuple[np.ndarray, np.ndarray]] = field(default_factory=dict)

    @property
    def rows(self) -> np.ndarray:
        """[W] first rows of the windows."""
        return windows.begins(self.first, self.last, self.size)

    def _settings(self) -> dict:
        return {"kill_at_walltime": self.kill_at_walltime, "restart_cost_s": self.restart_cost_s, "seed": self.seed}

    def _on_windows(self, names: Sequence[str], rows: np.ndarray, replicas: int) -> dict[str, np.ndarray]:
        made = windows.LogWindows(self.log, self.size, replicas, self.jitter_s, self.seed)
        todo = {n: [row for row in map(int, rows) if (n, row, replicas) not in self.cache] for n in names}
        with current() as workers:
            work = partial(_slowdowns, workers.put(made), self._settings())
            for (n, missing), slow in zip(todo.items(), workers.map(work, todo.items(), self.progress), strict=True):
                self.cache |= {(n, row, replicas): x for row, x in zip(missing, slow, strict=True)}
        return {n: np.array([self.cache[n, int(row), replicas] for row in rows]) for n in names}

    def measure_windows(self, names: Sequence[str]) -> None:
        """Replay rules on all windows and replicas."""
        missing = [n for n in dict.fromkeys(names) if n not in self.windows]
        self.windows |= self._on_windows(missing, self.rows, self.replicas)

    def measure_whole(self, names: Sequence[str], replays: int) -> None:
        """Replay rules on the part, continuously (of earlier jobs on the last LATELY), `replays` times time-shifted (0: as
        logged)."""
        missing = [n for n in dict.fromkeys(names) if n not in self.whole or len(self.whole[n][1]) < max(replays, 1)]
        lately = max(self.first, self.last - LATELY) if self.first == 0 else self.first  # judged jobs count, all of them
        part = self.log.take(slice(lately, self.last))
        parts = [shake(part, self.jitter_s, [self.seed, k]) for k in range(replays)] or [part]
        blocks = max(len(part) // self.size // 2, 1)
        with current() as workers:
            work = partial(_whole, workers.put(parts), blocks, self._settings())
            self.whole |= dict(zip(missing, workers.map(work, missing, self.progress), strict=True))

    def _unguarded(self) -> list[str]:
        """All orders × backfillings, but conservative where the queue is too deep for it."""
        r = simulate(self.log.take(slice(self.first, self.last)), FCFS, **self._settings())
        deep = r.summary()["queue_length"] > DEEP
        return [n for n in UNGUARDED if not (deep and n.endswith("conservative"))]

    def shortlist(self) -> None:
        """The rounds that measure whatever may be the best on windows."""
        few = windows.begins(self.first, self.last, self.size, FEW)
        tried = self._on_windows(self._unguarded(), few, min(self.replicas, 1))
        best = sorted(tried, key=lambda n: _rank(n, tried[n]))[:BEST]
        more = [g for n in best for g in guarded(n, self.log.cluster.is_pool)]
        tried |= self._on_windows(more, few, min(self.replicas, 1))
        kept = sorted(tried, key=lambda n: _rank(n, tried[n]))[:DOZEN]
        self.measure_windows([*kept, *best, FCFS])

    def shortlist_bounded(self, bound: float, replays: int) -> None:
        """Return the shortlist of the continuous replay: guards are what keeps a bound there, so more orders are tried under
        them."""
        one = min(replays, 1)
        tried = [n for n in self._unguarded() if n.split("+")[0] not in HOPELESS]
        self.measure_whole(tried, one)
        kept = sorted(tried, key=lambda n: _rank(n, self.whole[n][0]))[: DOZEN // 2]
        patient = sorted(tried, key=lambda n: (self.whole[n][1][0], n))[:2]
        tried += [g for n in dict.fromkeys([*kept, *patient]) for g in guarded(n, self.log.cluster.is_pool, bounded=True)]
        self.measure_whole(tried, one)
        near = [n for n in tried if self.whole[n][1][0] <= 1.1 * bound * self.whole[FCFS][1][0]]
        near.sort(key=lambda n: _rank(n, self.whole[n][0]))
        self.measure_whole([FCFS], replays)
        for first in range(0, len(near), BEST):  # the fastest first, until some keep the bound in every replica
            self.measure_whole(near[first : first + BEST], replays)
            if len(self._within(near[: first + BEST], bound, replays)) >= BEST // 2:
                break

    def _within(self, names: Sequence[str], bound: float, replays: int) -> list[str]:
        """Of `names` those that keep the bound in every replica."""
        allowed = bound * self.whole[FCFS][1] + 1e-6
        whole = {n: self.whole[n][1] for n in names if len(self.whole[n][1]) >= max(replays, 1)}
        return [n for n, longest in whole.items() if (longest <= allowed).all()]

    def best(self, before: int | None = None) -> str:
        """The best rule on windows, of those whose last job is before row `before`."""
        keep = self.rows + self.size <= (self.last if before is None else before)
        return min(self.windows, key=lambda n: _rank(n, self.windows[n][keep]))

    def best_within(self, bound: float, replays: int) -> str:
        """The best rule of the continuous replay whose longest wait is at most `bound` times that of FCFS with EASY in every
        replica; if none keeps it, FCFS with EASY."""
        return min(self._within(list(self.whole), bound, replays) or [FCFS], key=lambda n: _rank(n, self.whole[n][0]))


def _slowdowns(made: Shared, settings: dict, rule: tuple[str, list[int]]) -> list[np.ndarray]:
    """The mean bounded slowdowns of the replicas of each of some windows, by their first rows, under a rule."""
    name, rows = rule
    return [windows.slowdowns([simulate(x, name, **settings) for x in made.get().of(row)]) for row in rows]


def _whole(replicas: Shared, blocks: int, settings: dict, name: str) -> tuple[np.ndarray, np.ndarray]:
    """([K, B] of blocks of time, [K] longest waits) of continuous replays under a rule."""
    records = [simulate(x, name, **settings) for x in replicas.get()]
    longest = [windows.numbers(r)["max_wait"] for r in records]
    return np.array([windows.in_time(r, blocks) for r in records]), np.array(longest)


HOPELESS = ("laf", "largest")  # in a continuous replay their queues never end


def _rank(name: str, x: np.ndarray) -> tuple[float, int, str]:
    """Smaller is better: the geometric mean; of equal ones the plainer, then by name."""
    return float(np.log(x).mean()) if x.size else inf, name.count("+"), name


CLASSIC = ("fcfs", "sjf", "saf", "f1", "f2", "f3", "f4", "wfp3", "unicef", "lxf")


def rules(policy: Any) -> list[str]:
    """Return the fixed rules that a policy, or the settings of one, is measured against: re-deciding, with its backfilling and
    guard, and trial runs where it has some; those with history too for a list scheduler."""
    act = getattr(policy, "world", policy)
    backfill = "" if act.backfill == "none" else "+easy"
    guard = f"+guard{act.guard:g}s" if act.guard < np.inf else ""
    trial = "+trial" if act.tries else ""
    family = [*INDICES] if hasattr(act, "learns") else []
    return [r + backfill + guard + trial for r in (*CLASSIC, *family)]

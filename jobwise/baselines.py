"""The rules a newcomer must beat: every classic order with EASY, under every guard, and which of them is best.

*Fair best* is the rule that did best on earlier jobs of the same log: what a site could have chosen. *Best in hindsight* is the
one that does best on the very jobs of the comparison: nobody could have known it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from jobwise import metrics
from jobwise.jobs import Workload
from jobwise.policies.neural import RULES as ORDERS
from jobwise.simulate import simulate, simulate_many
from jobwise.workloads.transform import shake

GUARDS = ("", "+guard72h", "+guard48h", "+guard24h", "+guard12h")
RULES = tuple(f"{order}+easy{guard}" for order in ORDERS for guard in GUARDS if order != "fcfs" or not guard)
FCFS = "fcfs+easy"


@dataclass(frozen=True, eq=False)
class Baselines:
    """What N rules did on some jobs: mean bounded slowdown of windows [N] and of the continuous replay [N], and its longest
    wait [N] in s; means over replicas."""

    names: tuple[str, ...]
    windows: np.ndarray
    whole: np.ndarray
    longest: np.ndarray

    def best(self, max_wait: float = np.inf) -> str:
        """The best rule on windows; with a bound the best in the continuous replay of those whose longest wait is at most
        `max_wait` times that of FCFS + EASY."""
        if max_wait == np.inf:
            return self.names[int(np.argmin(self.windows))]
        within = self.longest <= max_wait * self.longest[self.names.index(FCFS)] + 1e-6
        return self.names[int(np.argmin(np.where(within, self.whole, np.inf)))]


def measure(
    w: Workload,
    window_jobs: int,
    *,
    names: Sequence[str] = RULES,
    shakes: int = 2,
    shake_s: float = 300.0,
    seed: int = 0,
    kill_at_walltime: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Baselines:
    """Replay the rules on shaken replicas of `w`, whole and in windows of so many jobs."""
    settings = {"kill_at_walltime": kill_at_walltime, "seed": seed}
    replicas = [shake(w, shake_s, [seed, k]) for k in range(shakes)] or [w]
    rows = range(0, max(len(w) - window_jobs, 0) + 1, window_jobs)
    parts = [x for row in rows for x in shaken(w, row, window_jobs, shakes, shake_s, seed)]
    done = 0

    def one(name: str) -> tuple[float, float, float]:
        nonlocal done
        windows = np.mean([metrics.bounded_slowdown(r).mean() for r in simulate_many(parts, name, **settings)])
        whole = [r.summary() for r in (simulate(x, name, **settings) for x in replicas)]
        done += 1
        if progress:
            progress(done, len(names))
        return windows, np.mean([s["bounded_slowdown"] for s in whole]), np.mean([s["max_wait"] for s in whole])

    with ThreadPoolExecutor(2) as workers:
        found = np.array(list(workers.map(one, names)))
    return Baselines(tuple(names), *found.T)


def shaken(w: Workload, row: int, jobs: int, shakes: int, shake_s: float, seed: int) -> list[Workload]:
    """Replicas of the window of `jobs` jobs from `row`; the window itself where none are asked for."""
    part = w.take(slice(row, row + jobs))
    return [shake(part, shake_s, [seed, row, k]) for k in range(shakes)] or [part]

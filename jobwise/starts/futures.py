"""Sampled futures: every job that waits or runs draws a run time, past days are copied as arrivals to come, and the site's
scheduler plays them. It plans with requests; jobs end at the drawn run times."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from jobwise.cluster import Cluster
from jobwise.errors import InputError
from jobwise.jobs import QUEUED, RUNNING
from jobwise.policies.scheduler import scheduler
from jobwise.sim import reset
from jobwise.sim.lists.easy import HOUR
from jobwise.sim.simulation import Simulation
from jobwise.sim.state import State
from jobwise.simulate import asked
from jobwise.starts import bags
from jobwise.starts.history import History
from jobwise.workload import supposed

DAY = 24 * HOUR
FUTURES, AHEAD = 32, 4  # how many are sampled; days of arrivals to come
LAGS = (1, 2, 3), (7, 14, 21, 28)  # days: day d to come is copied from d + one of the first, or one of the second, days before
STEPS = 64  # instants of choice between two looks at whether all have started


@dataclass(frozen=True, eq=False)
class Drawn:
    """The data of K futures. `rows` [B]: jobs of the history that wait or run; `run` [K, B] s: their whole run times;
    `arrivals`: K pairs (rows [A] of the history, s by which they come later [A])."""

    history: History
    rows: np.ndarray
    run: np.ndarray
    arrivals: list[tuple[np.ndarray, np.ndarray]]
    anew: bool = False  # a job asks for something else now: the scheduler looks at once
    known: bool = False  # arrivals run as long as the history says, whether they have ended by now or not

    @cached_property
    def table(self) -> np.ndarray:
        """The jobs `rows` [B] as they are now."""
        return self.history.table(self.rows)

    @property
    def waiting(self) -> np.ndarray:
        """Return the places [Q] of the waiting jobs in `rows`."""
        return np.flatnonzero(self.table["status"] == QUEUED)

    def future(self, k: int) -> tuple[np.ndarray, np.ndarray]:
        """(jobs of future k in order of submit, s that they run): first those of `rows`."""
        rows, later = self.arrivals[k]
        table = np.concatenate([self.table, self.history.copies(rows, later)])
        run, h = self.history.run[rows], self.history
        open_ = ~(h.jobs["end"][rows] <= h.now)
        if open_.any() and not self.known:
            run = np.where(open_, self.run[k][np.searchsorted(self.rows, rows) % len(self.rows)], run)
        run = np.minimum(np.concatenate([self.run[k], run]), np.maximum(table["walltime"], 1.0))
        run[: len(self.rows)] = self.run[k]  # one that has outlived its request runs on
        return table, np.maximum(run, 1e-3)

    def alone(self) -> Drawn:
        """Return one future by requests: each job runs for its requested time, and no job comes."""
        run = np.maximum(self.table["walltime"], 1.0)
        going = self.table["status"] == RUNNING
        run[going] = np.maximum(run[going], self.history.now - self.table["start"][going] + 1.0)
        none = np.zeros(0, np.int64)
        return replace(self, run=run[None], arrivals=[(none, none)])

    def changed(self, place: int, fields: dict[str, Any], slower: float = 1.0) -> Drawn:
        """The same futures, in which the waiting job rows[place] asks for something else (`sooner.Change`), and runs `slower`
        times as long."""
        run, table = self.run.copy(), self.table.copy()
        for key, value in fields.items():
            if key == "request":
                table["request"][place, : np.size(value)] = value
            else:
                table[key][place] = value
        run[:, place] = np.minimum(run[:, place] * slower, max(table["walltime"][place], 1.0))
        out = replace(self, run=run, anew=True)
        out.__dict__["table"] = table  # in place of the cached one
        return out


def draw(history: History, futures: int = FUTURES, seed: Any = 0) -> Drawn:
    """Draw `futures` futures from the present state of the history."""
    rng, rows = np.random.default_rng(seed), history.present()
    jobs, ids = history.table(rows), history.ids[rows]
    elapsed = np.where(jobs["status"] == RUNNING, history.now - np.nan_to_num(jobs["start"]), 0.0)
    level, run = np.empty((futures, len(rows))), np.empty((futures, len(rows)))
    users, own = np.unique(ids[:, 1], return_inverse=True)
    z, e = rng.standard_normal((futures, max(len(users), 1))), rng.standard_normal((futures, len(rows)))
    bags.levels(own.astype(np.int64), z, e, level)
    bags.draw(history.bags, ids, jobs["walltime"], elapsed, level, run)
    return Drawn(history, rows, run, [_arrivals(history, rng) for _ in range(futures)])


def _arrivals(history: History, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """(rows, s later) of the arrivals of AHEAD days to come: of each day those of one past day, at the same time of day."""
    submit, now = history.jobs["submit"], history.now
    rows, later = [], []
    for d in range(1, AHEAD + 1):
        lags = [x for x in (*(d + x for x in LAGS[0]), *LAGS[1]) if x >= d and now + (d - 1 - x) * DAY >= submit[0]]
        if not lags:
            continue
        lag = DAY * lags[int(rng.integers(len(lags)))]
        first, last = np.searchsorted(submit, [now + (d - 1) * DAY - lag, now + d * DAY - lag], side="right")
        rows.append(np.arange(first, last))
        later.append(np.full(last - first, lag))
    none = np.zeros(0, np.int64)
    return np.concatenate([none, *rows]), np.concatenate([none, *later])


class Player(Protocol):
    """Plays futures under a scheduler, from the middle on."""

    def play(self, drawn: Drawn, among: np.ndarray) -> np.ndarray:
        """[K, Q] s: when jobs (places `among` [Q] of `drawn.rows`, which wait) start in each future; NaN: never."""
        ...

    @property
    def fast(self) -> bool:
        """Does it take ms rather than s?"""
        ...


@dataclass(frozen=True)
class PoolPlayer:
    """Plays futures on a pool of processors under any policy. `past` [K]: jobs that ended before the history begins."""

    policy: Any
    cluster: Cluster
    past: np.ndarray

    def __post_init__(self):
        if not self.cluster.is_pool:
            raise InputError("starts are predicted for pools of processors")

    @property
    def fast(self) -> bool:
        """Do compiled loops play the policy from the middle on? Any other is asked at every instant."""
        return scheduler(self.policy).resumes(self.cluster)

    def play(self, drawn: Drawn, among: np.ndarray) -> np.ndarray:
        """[K, Q] s: see `Player`."""
        most = max((len(drawn.rows) + len(a) for a, _ in drawn.arrivals), default=1)
        s, out = reset.room(max(most, 1), self.cluster), np.empty((len(drawn.run), len(among)))
        for k in range(len(drawn.run)):
            table, run = drawn.future(k)
            reset.amid(s, drawn.history.now, table, run, drawn.anew)
            start = s.jobs[0]["start"]
            for _ in self._steps(s, table, run):
                if not np.isnan(start[among]).any():
                    break
            out[k] = start[among]
        return out

    def _steps(self, s: State, table: np.ndarray, run: np.ndarray) -> Iterator[None]:
        """Carry simulation 0 on; yields now and then."""
        if self.fast:
            yield from self.policy.resume(s, self.cluster, self.past, STEPS)
            return
        w = supposed(table, run, self.cluster, past=self.past)
        yield from asked(Simulation.of(s, w, self.cluster), self.policy)

"""A gate: a rule to fall back on, and others that take over only while they are better by more than chance.

Every so many jobs the jobs that ended last are replayed, shifted in time, under all candidates; the best one decides from then
on if it beats the fallback significantly, else the fallback does. With a bound on the longest wait, candidates beyond it are
out (the bound is a multiple of what FCFS with EASY would have made of the same jobs). A gate sees nothing but jobs that have
ended: it works in replay as it does on a live cluster. Why so: `docs/systems/gate.md`.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import replace
from threading import Lock

import numpy as np

from jobwise.cluster import Cluster
from jobwise.errors import InputError
from jobwise.jobs import digest
from jobwise.policies import files
from jobwise.policies.foreseen import at_submit
from jobwise.policies.list_run import Remembering
from jobwise.policies.list_scheduler import ListScheduler
from jobwise.policies.loglinear import Index
from jobwise.policies.relative_guard import steered
from jobwise.policies.replay import past_waits, remembering
from jobwise.record import Look
from jobwise.sim import easy, replay_batch, scored_pool
from jobwise.sim.list_pass import Rule
from jobwise.sim.loglinear import F
from jobwise.sim.state import State, allocate
from jobwise.workload import Workload, shake, workload

BLOCKS = 8  # of consecutive jobs: what tells chance from a difference
ENOUGH = 500  # jobs that have ended; with fewer the fallback decides
SHAKE_S = 300.0


class Gate(Remembering):
    """`candidates`: the first is the fallback; a bound on waits is `max_wait` times the longest of FCFS with EASY.

    `every`: jobs that arrive between two looks. `trail`: jobs replayed `shakes` times.
    `z`: standard errors by which a candidate must be better than the fallback. `last`: who decides where not even the fallback
    keeps the bound (default: FCFS with EASY). In replays forecasts are those that were made when the jobs came. Raises
    InputError.
    """

    def __init__(
        self,
        candidates: Sequence[ListScheduler],
        max_wait: float = np.inf,
        *,
        every: int = 1000,
        trail: int = 8000,
        shakes: int = 2,
        z: float = 1.0,
        last: ListScheduler | None = None,
        label: str = "",
    ):
        if len(candidates) < 2:
            raise InputError("a gate needs a rule to fall back on and at least one candidate: gated:RULE,CANDIDATE")
        for p in candidates:
            if not (isinstance(p, ListScheduler) and scored_pool.suits(p.rule)):
                raise InputError(
                    f"gate: {getattr(p, 'name', p)} cannot be replayed quickly; candidates are ORDER[+easy][+GUARD]"
                )
        if not max_wait >= 1:
            raise InputError(f"gate: the longest wait may be {max_wait:g} times that of fcfs+easy; it must be 1 or more")
        forests = [p.forecaster for p in candidates if p.forecaster is not None]
        if not all(np.array_equal(a, b) for f in forests for a, b in zip(f, forests[0], strict=True)):
            raise InputError("gate: its candidates forecast with different forests; give all of them the same")
        if len({p.refit for p in candidates if p.forest is not None}) > 1:
            raise InputError("gate: +refit is for all of its candidates with forests, or for none")
        self._forest = forests[0] if forests else None
        self.last = last or FALLBACK
        self.candidates, self.max_wait, self.label = tuple(candidates), float(max_wait), label
        self.every, self.trail, self.shakes, self.z = every, trail, shakes, z
        self._seen: dict[tuple[bytes, int], Look] = {}
        self._lock = Lock()

    def __getstate__(self) -> dict:
        return {k: v for k, v in self.__dict__.items() if k not in ("_lock", "_seen")}

    def __setstate__(self, state: dict) -> None:
        self.__dict__ |= state | {"_lock": Lock(), "_seen": {}}

    @property
    def name(self) -> str:
        """Its label, or as on the command line."""
        if self.label:
            return self.label
        bound = [f"{self.max_wait:g}x"] if self.max_wait < np.inf else []
        return "gated:" + ",".join([p.name for p in self.candidates] + bound)

    @property
    def rule(self) -> Rule:
        """The rule of the fallback, as numbers for kernels."""
        return self.candidates[0].rule

    @property
    def everyone(self) -> tuple[ListScheduler, ...]:
        """The schedulers that may decide."""
        return self.candidates

    @property
    def refit(self) -> int:
        """Jobs that arrive between two fits of new trees; 0: none. Replays of the past go by the first trees."""
        return max(p.refit for p in self.candidates)

    @property
    def about(self) -> dict:
        """The data that its candidates were trained on."""
        every = {tuple(x) for p in self.candidates for x in files.sketches(p.about)}
        return {"trained_on": [list(x) for x in sorted(every)]} if every else {}

    @property
    def times(self) -> float:
        """A gate has no guard of its own."""
        return np.inf

    def check(self, cluster: Cluster) -> None:
        """Raises InputError where it cannot schedule this cluster."""
        if not cluster.is_pool:
            raise InputError(f"{self.name}: a gate takes pools of processors")

    def is_compiled(self, cluster: Cluster) -> bool:
        """It runs compiled wherever it runs."""
        return True

    def replay(self, s: State, cluster: Cluster, pasts: Sequence[np.ndarray], after=None) -> Generator[None, None, list]:
        """Whole simulations, one after the other; the looks of each."""
        looks = []
        for e, past in enumerate(pasts):
            looks.append((yield from steered(s, e, self, cluster, past)))
        return looks

    def choose(self, past: np.ndarray, cluster: Cluster, arrived: int) -> tuple[ListScheduler, Look]:
        """Return who decides from now on, by jobs that have ended [K] of past_dtype in order of end; and what it has seen."""
        past = past[past["size"] <= cluster.processors]
        last = np.argsort(past, order="submit")[-self.trail :]
        recent = past[last]
        if len(recent) < ENOUGH:
            name = self.candidates[0].name
            return self.candidates[0], Look(arrived, name, 1.0, 0.0, np.nan, np.nan, f"only {len(recent)} jobs have ended")
        key = digest(past), cluster.processors  # the next time-shifted replica of a window asks the same
        look = self._seen.get(key)
        if look is None:
            forecasts = None
            if self._forest is not None:
                forecasts = at_submit(self._forest, past, cluster.processors, recent["submit"][0])[last]
            look = self._judge(replays(recent, past[past["end"] < recent["submit"][0]], cluster, self, forecasts))
            with self._lock:  # a comparison replays windows in two threads
                while len(self._seen) >= 8:
                    self._seen.pop(next(iter(self._seen)))
                self._seen[key] = look
        now = replace(look, at=arrived)
        return next((p for p in self.candidates if p.name == now.chosen), self.last), now

    def _judge(self, replicas: list[Workload]) -> Look:
        trials, bench, which = replay_batch.prepare(replicas), replay_batch.bench(replicas), np.arange(len(replicas))

        waits = None
        if any(p.promises for p in self.candidates) and self.max_wait < np.inf:  # one piece: the same past for all
            waits = past_waits(replicas[0].past, replicas[0].cluster.processors)

        def measure(p: ListScheduler) -> tuple[np.ndarray, float]:
            pieces = 1 if self.max_wait == np.inf else BLOCKS
            if p.promises or p.forest is not None:
                guards = [easy.relative(p.guard, p.times, x) for x in np.maximum(trials.longest, 1.0)]
                pairs = zip(replicas, guards, strict=True)
                results = np.array([alone(w, p, guard, pieces, waits) for w, guard in pairs])
            else:
                weights = p.order.weights if isinstance(p.order, Index) else np.zeros(F)
                results = replay_batch.trial(bench, p.rule, weights, trials, which, p.times, pieces)
            blocks = results[:, replay_batch.RESULTS :].reshape(self.shakes, BLOCKS).mean(axis=0)
            return blocks, float(results[:, replay_batch.LONGEST].reshape(self.shakes, -1).max(axis=1).mean())

        longest = trials.longest.reshape(self.shakes, -1).max(axis=1).mean()
        bound = self.max_wait * max(float(longest), easy.HOUR)
        fallback = self.candidates[0]
        base, longest = measure(fallback)
        if longest > bound:
            fallback = self.last
            base, longest = measure(fallback)
        best = Look(0, fallback.name, 1.0, 0.0, longest, bound, "nothing within the bound is better by more than chance")
        for p in self.candidates[1:]:
            blocks, longest = measure(p)
            ratio = float(blocks.mean() / base.mean())
            off = blocks - ratio * base
            error = float(np.sqrt((off**2).sum() / (BLOCKS - 1) / BLOCKS) / blocks.mean())
            if longest <= bound and np.log(ratio) + self.z * error < 0 and ratio < best.ratio:
                best = Look(0, p.name, ratio, error, longest, bound, f"better than {fallback.name} in the replay")
        return best


FALLBACK = ListScheduler("fcfs", "easy")


def alone(w: Workload, p: ListScheduler, guard: float, pieces: int, waits: np.ndarray | None = None) -> np.ndarray:
    """Return what `replay_batch.trial` measures of one replica under this list scheduler; forecasts are the replica's columns.
    `waits`: `past_waits` of its past."""
    s = allocate([w], w.cluster)
    forecasts = np.stack([w.columns["ratio"], w.columns["short"]], axis=1) if "ratio" in w.columns else None
    b = remembering(s, 0, p, w.past, forecasts, waits)
    return replay_batch.to_the_end(s, b, p.rule._replace(guard=guard), pieces)


def replays(
    recent: np.ndarray, before: np.ndarray, cluster: Cluster, gate: Gate, forecasts: np.ndarray | None = None
) -> list[Workload]:
    """Return what a gate replays: time-shifted replicas of jobs that ended (of past_dtype, in order of submit), `before`
    having ended before them. With a bound on waits in one continuous replay; without, in BLOCKS windows, each from an empty
    machine. `forecasts` [K, 2] of these jobs."""
    first = recent["submit"][0]
    w = workload(
        recent["submit"] - first,
        recent["size"],
        recent["runtime"],
        recent["walltime"],
        cluster=cluster,
        name="trail",
        user=recent["user"],
    )
    before = before.copy()
    before["submit"] -= first
    before["end"] -= first
    w = replace(w, past=before, columns={} if forecasts is None else {"ratio": forecasts[:, 0], "short": forecasts[:, 1]})
    edges = np.linspace(0, len(w), 2 if gate.max_wait < np.inf else BLOCKS + 1).astype(int)
    parts = [w.take(slice(a, b)) for a, b in zip(edges[:-1], edges[1:], strict=True)]
    return [shake(x, SHAKE_S, [k, i]) for k in range(gate.shakes) for i, x in enumerate(parts)]

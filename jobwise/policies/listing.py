"""List schedulers: an order, a backfill rule, a placement and a guard against starvation, chosen independently."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import inf

import numpy as np

from jobwise.cluster import Cluster
from jobwise.decision import Decision, Reserve, Start, View
from jobwise.errors import InputError, unknown
from jobwise.policies.ahead import rescored
from jobwise.policies.index import INDICES, Index, Memory
from jobwise.policies.steering import Steering
from jobwise.sim import bag, lookahead, scores
from jobwise.sim.backfill import BACKFILLS, CONSERVATIVE, ESTIMATES, Rule, blank, plan_pass
from jobwise.sim.placement import PLACEMENTS
from jobwise.sim.profile import plan_conservative

Order = Callable[[np.ndarray, float], np.ndarray]  # (rows of the job table in the queue [Q], now s) -> scores [Q]


@dataclass(frozen=True)
class ListScheduler:
    """A list scheduler; it is a Policy, and run whole by compiled loops where its order is built in.

    `order`: a name, or a function of the queued jobs' table and the time that returns one score per job (smaller starts
    first). `guard`: s of waiting after which a job goes before all others, oldest first; `times`: the same as a multiple of
    the longest wait that FCFS with EASY would have caused lately (`steering.py`; pools only). `commit`: a picked job stays
    picked until it starts (as RLScheduler does; re-deciding is the default). `lookahead`: futures in which the first jobs are
    tried at the head before deciding (`jobwise.sim.lookahead`; pools only); 0: none. `estimate`: what the order takes a run
    time to be: as requested, predicted from history, or actual (nobody knows that: simulations of pools only). Reservations
    go by requests all the same, so that no prediction delays the head.
    """

    order: str | Order | Index = "fcfs"
    backfill: str = "none"
    placement: str = "first"
    guard: float = inf
    times: float = inf
    commit: bool = False
    lookahead: int = 0
    estimate: str = "requested"
    label: str = ""

    def __post_init__(self):
        if isinstance(self.order, str) and self.order in INDICES:
            object.__setattr__(self, "order", INDICES[self.order])
        if not callable(self.order) and not isinstance(self.order, Index) and self.order not in scores.CODES:
            raise unknown("order", str(self.order), [*scores.CODES, *INDICES])
        if self.backfill not in BACKFILLS:
            raise unknown("backfill rule", self.backfill, BACKFILLS)
        if self.placement not in PLACEMENTS:
            raise unknown("placement", self.placement, PLACEMENTS)
        if not self.guard > 0:
            raise InputError(f"the guard is {self.guard} s; it must be more than 0")
        if not self.times > 0:
            raise InputError(f"the guard is {self.times} times the longest wait of fcfs+easy; it must be more than 0")
        if not 0 <= self.lookahead <= lookahead.MOST or self.lookahead == 1:
            raise InputError(f"look-ahead tries 2 to {lookahead.MOST} futures, not {self.lookahead}")
        if self.lookahead and not bag.suits(self.rule):
            raise InputError("look-ahead goes with built-in orders and trained indices, with easy or without backfilling")
        if self.estimate not in ESTIMATES:
            raise unknown("estimate", self.estimate, ESTIMATES)
        if self.estimate == "predicted" and isinstance(self.order, Index):
            raise InputError(f"order {self.name} predicts run times from history already")
        if self.estimate != "requested" and self.lookahead:
            raise InputError("look-ahead draws run times from history itself; it goes with requests")
        if self.estimate != "requested" and not (bag.suits(self.rule) and self.rule.order >= 0):
            raise InputError(f"{self.estimate} run times go with built-in orders, with easy, easy-sjbf or without backfilling")
        if self.commit and self.backfill == "conservative":
            raise InputError("conservative backfilling reserves for every job; it cannot be combined with commit")

    @property
    def name(self) -> str:
        """Canonical name, ORDER[+BACKFILL][+PLACEMENT][+GUARD][+commit]."""
        order = self.order
        own = order if isinstance(order, str) else getattr(order, "label" if isinstance(order, Index) else "__name__", "order")
        parts = [self.label or own]
        if self.backfill != "none":
            parts.append(self.backfill)
        if self.placement != "first":
            parts.append(self.placement)
        if self.lookahead:
            parts.append("lookahead" + (str(self.lookahead) if self.lookahead != lookahead.DEFAULT else ""))
        if self.estimate != "requested":
            parts.append(self.estimate)
        if self.guard < inf:
            hours = self.guard / 3600
            parts.append(f"guard{hours:g}h")
        if self.times < inf:
            parts.append(f"guard{self.times:g}x")
        return "+".join(parts + ["commit"] * self.commit)

    @property
    def rule(self) -> Rule:
        """The same as numbers, for the kernels."""
        code = scores.CODES[self.order] if isinstance(self.order, str) else scores.GIVEN
        if isinstance(self.order, Index):
            code = scores.LINEAR
        backfill, estimate = BACKFILLS.index(self.backfill), ESTIMATES.index(self.estimate)
        return Rule(code, backfill, PLACEMENTS[self.placement], float(self.guard), self.commit, estimate, self.lookahead)

    @property
    def is_static(self) -> bool:
        """The order depends on the job alone."""
        static = isinstance(self.order, str) and scores.ORDERS[self.order] == scores.STATIC
        return static and self.estimate == "requested"

    @property
    def about(self) -> dict:
        """What a trained order was trained on; empty for others."""
        return self.order.about if isinstance(self.order, Index) else {}

    def is_compiled(self, cluster: Cluster) -> bool:
        """Is it run whole by a compiled loop on this cluster? Else it is asked, pass by pass."""
        if isinstance(self.order, Index) or self.times < inf or self.lookahead or self.estimate != "requested":
            return cluster.is_pool and bag.suits(self.rule)
        return isinstance(self.order, str)

    @property
    def everyone(self) -> tuple[ListScheduler, ...]:
        """Who may decide: itself."""
        return (self,)

    @property
    def every(self) -> float:
        """It never looks for another scheduler (a gate does)."""
        return inf

    def choose(self, past: np.ndarray, cluster: Cluster, arrived: int) -> tuple[ListScheduler, None]:
        """Itself, at every look."""
        return self, None

    def scores(self, view: View, memory: Memory) -> np.ndarray:
        """The given scores of the queue [Q]; empty where the order is built in. Raises InputError for nonsense."""
        if isinstance(self.order, str):
            return np.empty(len(view.queue))
        if isinstance(self.order, Index):
            return memory.scores(self.order, view)
        try:
            out = np.asarray(self.order(view.jobs[view.queue], view.now))
            if np.iscomplexobj(out):
                raise TypeError("scores are complex numbers")
            out = out.astype(float)
        except (Exception, SystemExit) as error:  # a user's function may raise anything
            raise InputError(f"order {self.name!r} failed at time {view.now:g} s: {type(error).__name__}: {error}") from error
        if out.shape != (len(view.queue),):
            raise InputError(f"order {self.name!r} returned shape {out.shape} for {len(view.queue)} jobs; one score per job")
        if np.isnan(out).any():
            raise InputError(f"order {self.name!r} returned NaN for job {view.queue[np.isnan(out)][0]} at time {view.now:g} s")
        return out

    def explain(self, view: View) -> list[dict]:
        """Per queued job its row and score, smallest first; of a log-linear order also its features and what they moved."""
        if isinstance(self.order, Index):
            return self.memory(view).explain(self.order, view)
        out = self.scores(view, self.memory(view))
        if isinstance(self.order, str):
            scores.score_rows(
                scores.CODES[self.order], view.now, view.origin, np.uint64(view.seed), view.table, view.queue, out
            )
        every = np.lexsort((view.queue, out))
        return [{"job": int(view.queue[i]), "score": float(out[i]), "features": {}, "moved": {}} for i in every]

    def memory(self, view: View) -> Memory:
        """Its memory of jobs that have ended; it begins with what had ended before time 0."""
        if not hasattr(self, "_memory"):
            object.__setattr__(self, "_memory", Memory(view.past))
        return self._memory

    def reset(self, view: View) -> None:
        """Forget, but for what had ended before."""
        object.__setattr__(self, "_memory", Memory(view.past))
        if (self.times < inf or self.lookahead) and not view.cluster.is_pool:
            raise InputError(f"{self.name}: look-ahead and guards relative to FCFS take pools of processors")
        if self.times < inf:
            object.__setattr__(self, "_steering", Steering(self, view.past, view.cluster))

    def ended(self, view: View, rows: np.ndarray) -> None:
        """An order with history learns how long these ran."""
        if isinstance(self.order, Index) or self.estimate == "predicted":
            self.memory(view).add(view, rows)

    def decide(self, view: View) -> Iterable[Decision]:
        """One pass over the queue of a view, from a simulation or a live cluster."""
        if self.times < inf:
            if not hasattr(self, "_steering"):
                self.reset(view)
            if len(view.jobs) >= self._steering.next:
                self._steering.look(view.jobs, view.now)
            return self.decide_by(self._steering.rule, view, self.memory(view))
        return self.decide_by(self.rule, view, self.memory(view))

    def decide_by(self, rule: Rule, view: View, memory: Memory) -> list[Decision]:
        """The same with another guard, and with somebody's memory of what has ended."""
        if self.backfill == "easy-oracle":
            raise InputError("easy-oracle knows the true run times; it exists for built-in orders in compiled simulations only")
        if self.estimate == "actual" or (self.estimate == "predicted" and self.backfill == "easy-sjbf"):
            raise InputError(f"{self.name}: exists in simulations of pools only")
        if len(view.queue) == 0:
            return []
        capacity = view.cluster.capacity
        if isinstance(self.order, Index):
            rule = rule._replace(order=scores.GIVEN)
        p = blank(len(view.queue), *capacity.shape)
        due, est, free = view.jobs["due"][view.running], np.empty(0), view.free.copy()
        given = self.scores(view, memory)
        if rule.ahead or rule.estimate:
            given, rule = rescored(view, rule, given, self.order, memory)
        head = (
            rule,
            view.now,
            view.origin,
            np.uint64(view.seed),
            view.table,
            est,
            view.queue,
            given,
            view.running,
            due,
            free,
            capacity,
        )
        if rule.backfill == CONSERVATIVE:
            early = bool((view.jobs["due"][view.ended] > view.now).any())
            plan_conservative(*head, early, p)
        else:
            plan_pass(*head, view.held, p)
        starts, promises = p.count
        out: list[Decision] = []
        for i in range(starts):
            held = None
            if not view.cluster.is_pool:
                a, b = p.first[i], p.first[i + 1]
                held = tuple((int(n), tuple(x.tolist())) for n, x in zip(p.node[a:b], p.amount[a:b], strict=True))
            out.append(Start(int(p.row[i]), held))
        return out + [Reserve(int(p.promised[i]), float(p.at[i])) for i in range(promises)]

"""List schedulers: an order, a backfill rule, a placement and a guard against starvation, chosen independently."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from math import inf

import numpy as np

from jobwise.cluster import Cluster
from jobwise.decision import View
from jobwise.errors import InputError, unknown
from jobwise.policies import refit
from jobwise.policies.flow_net import FlowNet
from jobwise.policies.list_run import Remembering
from jobwise.policies.loglinear import INDICES, Index
from jobwise.policies.relative_guard import steered
from jobwise.policies.replay import replay
from jobwise.policies.slurm import check_on_site, replay_on_site
from jobwise.sim import orders, scored_pool
from jobwise.sim.forest import Forest
from jobwise.sim.list_pass import BACKFILLS, ESTIMATES, Rule
from jobwise.sim.placement import PLACEMENTS
from jobwise.sim.state import State

Order = Callable[[np.ndarray, float], np.ndarray]  # (rows of the job table in the queue [Q], now s) -> scores [Q]


@dataclass(frozen=True)
class ListScheduler(Remembering):
    """A list scheduler: a Policy, which compiled loops replay as a whole where its order is built in.

    `order`: a name, or a function of the queued jobs' table and the time that returns one score per job (smaller starts
    first). `guard`: s of waiting after which a job goes before all others, oldest first; `times`: the same as a multiple of
    the longest wait that FCFS with EASY would have caused lately (`relative_guard.py`; pools only). `commit`: a picked job
    stays picked until it starts (as RLScheduler does; re-deciding is the default). `estimate`: what the order takes a run
    time to be: as requested, predicted from history, or actual (nobody knows that: simulations of pools only).
    Reservations go by requests all the same, so that no prediction delays the head. `reserve` (share, s): jobs that ask for
    longer hold no more than the rest of the units, but one alone may always run. `promise`: no job waits much longer than
    this many times the longest wait of FCFS with EASY, measured, not guaranteed; `express`: jobs that together are this share
    of the work go before those of the promise (`jobwise.sim.promise`; pools only). `refit`: jobs that arrive between two fits
    of new trees to the jobs that have ended (`refit.py`; 0: those of the order serve).
    """

    order: str | Order | Index | FlowNet = "fcfs"
    backfill: str = "none"
    placement: str = "first"
    guard: float = inf
    times: float = inf
    commit: bool = False
    reserve: tuple[float, float] = (0.0, inf)
    estimate: str = "requested"
    label: str = ""
    promise: float = inf
    express: float = 0.0
    refit: int = 0

    def __post_init__(self):
        if isinstance(self.order, str) and self.order in INDICES:
            object.__setattr__(self, "order", INDICES[self.order])
        if not callable(self.order) and not isinstance(self.order, Index | FlowNet) and self.order not in orders.CODES:
            raise unknown("order", str(self.order), [*orders.CODES, *INDICES])
        if self.backfill not in BACKFILLS:
            raise unknown("backfill rule", self.backfill, BACKFILLS)
        if self.placement not in PLACEMENTS:
            raise unknown("placement", self.placement, PLACEMENTS)
        if not self.guard > 0:
            raise InputError(f"the guard is {self.guard} s; it must be more than 0")
        if not self.times > 0:
            raise InputError(f"the guard is {self.times} times the longest wait of fcfs+easy; it must be more than 0")
        if self.estimate not in ESTIMATES:
            raise unknown("estimate", self.estimate, ESTIMATES)
        if self.estimate == "predicted" and isinstance(self.order, Index):
            raise InputError(f"order {self.name} predicts run times from history already")
        if self.estimate != "requested" and not (scored_pool.suits(self.rule) and self.rule.order >= 0):
            raise InputError(f"{self.estimate} run times go with built-in orders, with easy, easy-sjbf or without backfilling")
        if not (self.promise >= 1 and 0 <= self.express < 1):
            raise InputError(
                f"a promise is 1 or more times, an express lane 0 to 99 % of the work; not {self.promise:g}, {self.express:g}"
            )
        if self.promises and not (scored_pool.suits(self.rule) and self.times == inf):
            text = "go with built-in orders and trained indices, with easy or none, without …x guards"
            raise InputError(f"promises and express lanes {text}")
        if self.refit and self.forest is None:
            raise InputError(f"order {self.name} has no trees to fit anew; smith-forecast has, and runs of jobwise train")
        if self.refit and not refit.LEAST <= self.refit <= 10**9:
            raise InputError(f"trees are fitted anew every {refit.LEAST} to 1e9 arrivals, not {self.refit}")
        if self.refit and find_spec("lightgbm") is None:
            raise InputError("+refit needs lightgbm: pip install 'jobwise[forecast]'")
        share, short = self.reserve
        if not (0 <= share < 1 and short > 0):
            raise InputError(
                f"a reserve of {share:g} of the units for jobs of up to {short:g} s cannot be: 0 to 1, and more than 0 s"
            )
        if share and (self.commit or self.backfill == "conservative" or isinstance(self.order, Index)):
            raise InputError("a reserve goes with built-in orders and your own, not with commit, conservative, history")
        if isinstance(self.order, FlowNet) and (self.backfill != "none" or self.commit):
            raise InputError(f"order {self.name} keeps tasks waiting itself; it goes without backfilling and commit")
        if self.commit and self.backfill == "conservative":
            raise InputError("conservative backfilling reserves for every job; it cannot be combined with commit")

    @property
    def name(self) -> str:
        """Canonical name, ORDER[+BACKFILL][+PLACEMENT][+GUARD][+commit]."""
        order = self.order
        own = order if isinstance(order, str) else getattr(order, "label", getattr(order, "__name__", "order"))
        parts = [self.label or own]
        if self.backfill != "none":
            parts.append(self.backfill)
        if self.placement != "first":
            parts.append(self.placement)
        if self.estimate != "requested":
            parts.append(self.estimate)
        if self.guard < inf:
            hours = self.guard / 3600
            parts.append(f"guard{hours:g}h")
        if self.times < inf:
            parts.append(f"guard{self.times:g}x")
        if self.reserve[0]:
            parts.append(f"reserve{self.reserve[0]:g}x{self.reserve[1]:g}s")
        if self.express:
            parts.append(f"express{100 * self.express:g}%")
        if self.promise < inf:
            parts.append(f"promise{self.promise:g}x")
        if self.refit:
            parts.append("refit" + (str(self.refit) if self.refit != refit.DEFAULT else ""))
        return "+".join(parts + ["commit"] * self.commit)

    @property
    def promises(self) -> bool:
        """Has it a promise or an express lane?"""
        return self.promise < inf or self.express > 0

    @property
    def forest(self) -> Forest | None:
        """The trees of its order, if it forecasts with some."""
        return getattr(self.order, "forest", None)

    @property
    def rule(self) -> Rule:
        """The same as numbers, for the kernels."""
        code = orders.CODES[self.order] if isinstance(self.order, str) else getattr(self.order, "code", orders.GIVEN)
        backfill, estimate = BACKFILLS.index(self.backfill), ESTIMATES.index(self.estimate)
        behind = (float(self.guard), self.commit, estimate)
        lane = (*self.reserve, self.express, self.promise - 1.0)
        return Rule(code, backfill, PLACEMENTS[self.placement], *behind, *map(float, lane), self.forest is not None)

    @property
    def is_static(self) -> bool:
        """The order depends on the job alone."""
        static = isinstance(self.order, str) and orders.ORDERS[self.order] == orders.STATIC
        return static and self.estimate == "requested" and not (self.reserve[0] or self.promises)

    @property
    def about(self) -> dict:
        """What a trained order was trained on; empty for others."""
        return getattr(self.order, "about", {})

    def check(self, cluster: Cluster) -> None:
        """Raises InputError where it cannot schedule this cluster."""
        if cluster.site is not None:
            check_on_site(self)
            return
        if self.backfill == "slurm":
            raise InputError(f"policy {self.name}: +slurm takes its passes from a site; see `jobwise slurm site`")
        if self.placement != "first" and cluster.is_pool:
            raise InputError(
                f"policy {self.name}: a pool of processors has no places; +{self.placement} is for clusters of nodes"
            )
        if isinstance(self.order, FlowNet) and not cluster.is_pool:
            raise InputError(f"{self.name}: the graph network takes pools of processors")
        if (self.times < inf or self.promises) and not cluster.is_pool:
            raise InputError(f"{self.name}: promises and guards relative to FCFS take pools of processors")

    def is_compiled(self, cluster: Cluster) -> bool:
        """Is it run whole by a compiled loop on this cluster? Else it is asked, pass by pass."""
        if cluster.site is not None:
            return True
        if isinstance(self.order, Index) or self.times < inf or self.estimate != "requested" or self.promises:
            return cluster.is_pool and scored_pool.suits(self.rule)
        return isinstance(self.order, str | FlowNet)

    def replay(self, s: State, cluster: Cluster, pasts: Sequence[np.ndarray], after=None) -> Generator[None, None, list]:
        """Whole simulations, one after the other, by compiled loops."""
        for e, past in enumerate(pasts):
            if cluster.site is not None:
                yield from replay_on_site(s, e, self, cluster, past)
                continue
            plain = self.times == inf and not self.refit
            yield from replay(s, e, self, cluster, past) if plain else steered(s, e, self, cluster, past)

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

    def explain(self, view: View) -> list[dict]:
        """Per queued job its row and score, smallest first; of a log-linear order also its features and what they moved."""
        return self.begin(view).explain(view)

"""What the product recommends: a gate over one order with several promises, and over rules that might do better.

`jobwise` aims at waits of at most 1.2 times the longest of FCFS with EASY; `jobwise-unbounded` at the mean alone.
"""

from __future__ import annotations

from dataclasses import replace

from jobwise.errors import InputError
from jobwise.policies.gate import Gate
from jobwise.policies.list_scheduler import ListScheduler
from jobwise.policies.loglinear import Index

AGED = 1.0  # an order with a forest is divided by ((w + p) / p) to this power
BOUND = 1.15  # in replays of the past, times the longest wait of FCFS with EASY; the future is worse
EVERY = 2500  # jobs between two looks
PROMISES = ((0.01, 1.1), (0.03, 1.1), (0.03, 1.3), (0.1, 1.3), (0.01, 1.5))  # (share of the express lane, promise)
SURE = 2.0  # standard errors by which a rule must be better where waits are not bounded
NAMES = ("jobwise", "jobwise-unbounded")


def aged(order: Index) -> Index:
    """Return the order with ageing, so that no job waits for ever."""
    return replace(order, label=f"{order.label}-aged", ageing=AGED)


def recommended(name: str, order: Index, general: Index, label: str = "", refit: int = 0) -> Gate:
    """`name` of NAMES, with an order that has a forest, and the general one. `refit`: jobs between two fits of new trees (0:
    none). Raises InputError."""
    if order.forest is None:
        raise InputError(f"{label or name}: order {order.label} has no forest; train one with jobwise train smith-forecast")
    if name == "jobwise-unbounded":
        rules = [ListScheduler(x, "easy") for x in (general, "smith-geo", "area-history", "saf", "f2")]
        rules.insert(0, ListScheduler(order, "easy", refit=refit))
        return Gate(rules, every=EVERY, z=SURE, label=label or name)
    kept = [ListScheduler(aged(order), "easy", express=x, promise=p, refit=refit) for x, p in PROMISES]
    return Gate(kept, BOUND, every=EVERY, last=kept[0], label=label or name)

"""What the product recommends: one order behind a promise and an express lane, by history alone; and a gate for the mean.

`jobwise` keeps waits in bounds: smith-aged, the smallest jobs that make LANE of the work first, deadlines of PROMISE times the
longest wait of FCFS with EASY. Trees, a gate over several lanes, and other orders were no better on the shared logs
(docs/studies/forecast.md). `jobwise-unbounded` aims at the mean alone.
"""

from __future__ import annotations

from dataclasses import replace

from jobwise.errors import InputError
from jobwise.policies.gate import Gate
from jobwise.policies.list_scheduler import ListScheduler
from jobwise.policies.loglinear import Index

AGED = 1.0  # an order with a forest is divided by ((w + p) / p) to this power
LANE, PROMISE = 0.02, 1.2
EVERY = 2500  # jobs between two looks
SURE = 2.0  # standard errors by which a rule must be better where waits are not bounded
NAMES = ("jobwise", "jobwise-unbounded")


class Recommended(ListScheduler):
    """A list scheduler with one word for a name."""

    @property
    def name(self) -> str:
        """The word that stands for all of its parts."""
        return self.label


def aged(order: Index) -> Index:
    """Return the order with ageing, so that no job waits for ever."""
    return replace(order, label=f"{order.label}-aged", ageing=AGED)


def by_history(label: str = "jobwise") -> Recommended:
    """`jobwise`, which needs no trees."""
    return Recommended("smith-aged", "easy", express=LANE, promise=PROMISE, trees="history", label=label)


def recommended(name: str, order: Index, general: Index, label: str = "", refit: int = 0) -> ListScheduler | Gate:
    """`name` of NAMES, with an order that has a forest, and the general one. `refit`: jobs between two fits of new trees (0:
    none). Raises InputError."""
    if order.forest is None:
        raise InputError(f"{label or name}: order {order.label} has no forest; train one with jobwise train smith-forecast")
    if name == "jobwise-unbounded":
        rules = [ListScheduler(x, "easy") for x in (general, "smith-geo", "area-history", "saf", "f2")]
        rules.insert(0, ListScheduler(order, "easy", refit=refit))
        return Gate(rules, every=EVERY, z=SURE, label=label or name)
    return Recommended(aged(order), "easy", express=LANE, promise=PROMISE, refit=refit, label=label or name)

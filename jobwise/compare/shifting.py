"""Waiting for cheaper hours beside what it is to be measured against: nothing done, power-down alone, and the oracle.

The oracle holds jobs by the same rule, but knows how long they run (and all prices, as all of them do).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from jobwise.compare import energy
from jobwise.compare.intervals import RatioOfMeans
from jobwise.errors import InputError
from jobwise.record import Record
from jobwise.simulate import simulate
from jobwise.workload import Workload

BLOCKS = 16
ROWS = ("nothing done", "power-down alone", "held for cheaper hours", "oracle")
HEADS = ("", "cost", "saved", "change [95 %]", "mean slowdown", "mean wait h", "longest wait h", "x first")


@dataclass(frozen=True, eq=False)
class Shifted:
    """The four schedules (ROWS) of a policy that holds jobs: records of R replays each. `what`: `energy_cost`, or `co2`."""

    policy: str
    what: str
    records: tuple[list[Record], ...]

    def total(self, row: int) -> float:
        """Return what a schedule costs, of means over replays."""
        return float(np.mean([energy.spent(r, 1)[self.what].sum() for r in self.records[row]]))

    def saved(self, row: int) -> float:
        """Return what a schedule costs less than the first."""
        return self.total(0) - self.total(row)

    def change(self, row: int, base: int = 0) -> RatioOfMeans:
        """Return the change of cost against a row, with its interval over blocks of time."""
        a, b = (np.array([energy.spent(r, BLOCKS)[self.what] for r in self.records[k]]) for k in (base, row))
        return energy.change(a, b)

    def share(self) -> float:
        """Return what holding jobs saves beyond power-down alone, as a share of what the oracle does; NaN where that is
        nothing."""
        oracle = self.total(1) - self.total(3)
        return (self.total(1) - self.total(2)) / oracle if oracle > 0 else float("nan")

    def mean(self, row: int, key: str) -> float:
        """Return the mean over replays of a key of the summary."""
        return float(np.mean([r.summary()[key] for r in self.records[row]]))

    def rows(self) -> list[list[str]]:
        """Return the table as text, HEADS."""
        rows, scale = [], 1.0 if self.what == "energy_cost" else 1e-3
        for k, name in enumerate(ROWS):
            longest = self.mean(k, "max_wait")
            cells = [
                name,
                f"{self.total(k) * scale:,.0f}",
                f"{self.saved(k) * scale:,.0f}",
                self.change(k).text("+.1%") if k else "",
            ]
            cells += [
                f"{self.mean(k, 'bounded_slowdown'):,.1f}",
                f"{self.mean(k, 'wait') / 3600:,.2f}",
                f"{longest / 3600:,.1f}",
            ]
            rows.append([*cells, f"{longest / max(self.mean(0, 'max_wait'), 1.0):.2f}"])
        return rows

    def sentence(self) -> str:
        """Return what holding jobs is worth, in a sentence."""
        share, x = self.share(), self.change(2, 1)
        of = f"{share:.0%} of what the oracle saves" if np.isfinite(share) else "and the oracle saves nothing either"
        price = f"longest wait {self.mean(2, 'max_wait') / max(self.mean(0, 'max_wait'), 1.0):.2f} times"
        return f"{self.policy}: {x.text('+.1%')} against power-down alone, {of}; {price}."

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers, for JSON."""
        rows = {
            name: {"cost": self.total(k), "saved": self.saved(k), "change": vars(self.change(k)) if k else None}
            | {key: self.mean(k, key) for key in ("bounded_slowdown", "wait", "max_wait", "energy", "peak_power")}
            for k, name in enumerate(ROWS)
        }
        return {"policy": self.policy, "of": self.what, "rows": rows, "share_of_oracle": self.share()}


def shifted(
    logs: Sequence[Workload], policy: Any, seed: int = 0, step: Callable[[int], None] | None = None, **settings: Any
) -> Shifted:
    """Replay logs (time-shifted replicas of one) under a policy that holds jobs, beside the three that it is measured against.

    Parameters
    ----------
    logs : sequence of Workload
        The jobs, on a machine whose power and prices are known.
    policy : ListScheduler
        The policy, with `shift`.
    seed : int
        Of the simulations.
    step : callable, optional
        Called with how many replays are done.
    **settings
        As of `simulate`.

    Raises
    ------
    InputError
        The policy holds no jobs, or no price is known.
    """
    power = logs[0].cluster.power
    if not policy.shifts or power is None or power.prices is None:
        raise InputError(f"{policy.name}: holds no jobs for cheaper hours, or no prices are known")
    plain = replace(policy, shift=0.0)
    on = replace(power, table=replace(power.table, suspend=0.0))
    ways: tuple[tuple[Any, Any], ...] = (
        (plain, on),
        (plain, power),
        (policy, power),
        (replace(policy, estimate="actual"), power),
    )
    out = []
    for chosen, of in ways:
        runs = []
        for w in logs:
            machine = replace(w.cluster, power=of)
            runs.append(simulate(replace(w, cluster=machine), chosen, seed=seed, **settings))
            if step:
                step(1)
        out.append(runs)
    return Shifted(policy.name, "energy_cost" if power.prices.price else "co2", tuple(out))

"""What schedules cost in energy, beside each other: kWh, cost, CO2 over time, their changes with intervals, a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from jobwise.compare.intervals import LEAST, RatioOfMeans, ratio_interval
from jobwise.record import Record

COLUMNS = (  # head, key of a summary
    ("kWh", "energy"),
    ("±", "energy_plus_minus"),
    ("peak kW", "peak_power"),
    ("95 % kW", "p95_power"),
    ("cost", "energy_cost"),
    ("CO2 kg", "co2"),
    ("off node-h", "node_hours_off"),
    ("h above cap", "hours_above_cap"),
    ("kW above", "most_above_cap"),
)
CHANGED = {"energy_cost": "change of cost [95 %]", "co2": "change of CO2 [95 %]", "energy": "change of kWh [95 %]"}
ENERGY = (
    "Energy of jobs and idle nodes until the last job ends; ±: what the site's table may be wrong by. Changes: of the totals, "
    "their intervals over blocks of time. Above the cap: by the power as it was, which the scheduler did not know"
)


def spent(r: Record, blocks: int) -> dict[str, np.ndarray]:
    """Return what blocks of time of a record cost, [B] each: `energy` (kWh), `energy_cost` and `co2` (g) where they are known;
    nothing where nothing is known of power. The last block goes on to the last end."""
    if r.energy is None:
        return {}
    e, prices = r.energy, r.energy.power.prices
    edges = np.linspace(0.0, float(r.jobs["submit"][-1]), blocks + 1)
    edges[-1] = max(edges[-1], e.edge[-1])
    out = {"energy": np.diff(e.upto(edges))}
    return out | {name: np.diff(e.upto(edges, steps)) for name, steps in (prices.costs if prices else {}).items()}


def change(base: np.ndarray, ours: np.ndarray) -> RatioOfMeans:
    """Return the change of a total over blocks [R, B] of R replays, its interval by bootstrap-t over blocks;
    none where it would be wider than tenfold."""
    a, b = base.mean(axis=0), ours.mean(axis=0)
    if a.sum() <= 0:
        return RatioOfMeans(np.nan, np.nan, np.nan, 0.0)
    low, high = ratio_interval(a, b) if len(a) >= LEAST else (np.nan, np.nan)
    if not np.isnan(low) and high > 10 * max(low, 1e-12):
        low = high = np.nan
    return RatioOfMeans(float(b.sum() / a.sum()) - 1, low - 1, high - 1, float((a + b).max() / (a + b).sum()))


def heads(first: str, summary: Mapping[str, float]) -> list[str]:
    """The columns of the table, as far as a summary has them; the change last, of the cost where it is known, else of CO2, else
    of the energy."""
    return [first, *(head for head, key in COLUMNS if key in summary), CHANGED[changed(summary)]]


def changed(summary: Mapping[str, float]) -> str:
    """Return the key whose change the table has."""
    return next(key for key in CHANGED if key in summary)


def row(name: str, summary: Mapping[str, float], x: RatioOfMeans | None, like: Mapping[str, float] | None = None) -> list[str]:
    """A row of the table; `x`: the change, None for the reference. `like`: the summary whose columns the table has; what this
    one lacks stays empty."""
    keys = [key for _, key in COLUMNS if key in (summary if like is None else like)]
    return [name, *(_digits(summary[key]) if key in summary else "" for key in keys), x.text("+.1%") if x else ""]


def _digits(x: float) -> str:
    """Three digits that count, or all in front of the point."""
    return f"{x:,.0f}" if abs(x) >= 100 or x == 0 else f"{x:.3g}"


def means(summaries: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Means of summaries of energy."""
    return {key: float(np.mean([s[key] for s in summaries])) for key in summaries[0]}

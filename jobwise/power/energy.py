"""What a schedule costs in energy: power over time, kWh, peak, cost, CO2, and what of it is estimated.

The machine draws what its nodes draw idle, all of them, what each running job adds, and less where nodes are off. A job counts
from its start to its end, also while nodes boot for it; of one that was stopped the last run counts at its time, and the runs
that were lost as work of the mean draw, at no time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from jobwise.power.prices import Stepwise

KWH = 3.6e6  # J
WORDS = {"energy_cost": "the prices", "co2": "the intensities", "cap": "the rows of the cap"}


@dataclass(frozen=True, eq=False)
class Energy:
    """Power over time: `watts[k]` from edge[k] to edge[k + 1] (s from the first submit), by the jobs as they were; `assumed`
    the same by the jobs as they were thought to be. `jobs`, `idle`, `off`: J of running jobs (with their share of their nodes),
    of nodes that are on and idle, or off; `lost`: J of runs that were stopped. `estimated`: J that no meter measured.
    `plus_minus`: by what share these may be wrong. `power`: the jobwise.power.setting.Power; `origin`: s since 1970."""

    edge: np.ndarray
    watts: np.ndarray
    assumed: np.ndarray
    jobs: float
    idle: float
    off: float
    lost: float
    estimated: float
    off_s: float
    wakes: int
    power: Any
    origin: float

    @property
    def joules(self) -> float:
        """J of everything: the integral of the power over time, and the runs that were lost."""
        return float((np.diff(self.edge) * self.watts).sum()) + self.lost

    @property
    def plus_minus_kwh(self) -> float:
        """By how many kWh the energy may be wrong."""
        return float(self.power.table.plus_minus) * self.estimated / KWH

    def upto(self, times: np.ndarray, steps: Stepwise | None = None) -> np.ndarray:
        """Return the kWh (with `steps`: what they cost) until times [N], s from the first submit."""
        per = (self.edge - self.edge[0]) if steps is None else steps.until(self.origin + self.edge)
        sums = np.append(0.0, np.cumsum(np.diff(per) * self.watts)) / KWH
        at = np.clip(np.searchsorted(self.edge, times, side="right") - 1, 0, max(len(self.watts) - 1, 0))
        now = (times - self.edge[0]) if steps is None else steps.until(self.origin + times)
        inside = np.minimum(now, per[-1]) - per[at]
        return sums[at] + inside * (self.watts[at] if len(self.watts) else 0.0) / KWH

    def over(self, watts: np.ndarray) -> tuple[float, float]:
        """(h in which this power is above the cap, W by which at most)."""
        cap = self.power.cap
        if cap is None or not len(watts):
            return 0.0, 0.0
        origin = np.nan_to_num(self.origin)
        inner = cap.time - origin
        inner = inner[(inner > self.edge[0]) & (inner < self.edge[-1])]
        edge = np.unique(np.concatenate([self.edge, inner]))
        at = np.searchsorted(self.edge, edge[:-1], side="right") - 1
        beyond = watts[at] - cap.at(edge[:-1] + origin)
        above = beyond > 1e-3
        return float(np.diff(edge)[above].sum()) / 3600.0, float(beyond[above].max(initial=0.0))

    def summary(self) -> dict[str, float]:
        """The usual numbers: kWh and by how many they may be wrong, the share that is estimated, peak and 95 % of the time,
        idle and off, cost and CO2 where prices are known, and time above a cap."""
        length, prices = np.diff(self.edge), self.power.prices
        order = np.argsort(self.watts, kind="stable")
        share = np.cumsum(length[order]) / max(length.sum(), 1e-9)
        p95 = self.watts[order[np.searchsorted(share, 0.95 - 1e-12)]] if len(order) else 0.0
        out = {
            "energy": self.joules / KWH,
            "energy_plus_minus": self.plus_minus_kwh,
            "energy_estimated": self.estimated / max(self.joules, 1e-9),
            "idle_energy": self.idle / KWH,
            "peak_power": float(self.watts.max(initial=0.0)) / 1e3,
            "p95_power": float(p95) / 1e3,
        }
        if self.lost:
            out["energy_of_stopped_runs"] = self.lost / KWH
        if self.power.table.suspend > 0:
            out |= {"node_hours_off": self.off_s / 3600.0, "wake_ups": float(self.wakes)}
        for name, steps in (prices.costs if prices else {}).items():
            out[name] = float(self.upto(self.edge[-1:], steps)[0]) / (1e3 if name == "co2" else 1.0)
        if self.power.cap is not None:
            (out["hours_above_cap"], most), out["hours_assumed_above_cap"] = self.over(self.watts), self.over(self.assumed)[0]
            out["most_above_cap"] = most / 1e3
        return out


def remarks(r: Any) -> list[str]:
    """Return what a reader must know of the energy of a record, a sentence each: what is estimated, how it compares with the
    meter, how well jobs' power was foreseen, and what a price file left open."""
    e, w = r.energy, r.workload
    power, measured, end = e.power, int(w.columns["measured"].sum()), w.origin + e.edge[-1]
    wrong = f"; the table may be wrong by {power.table.plus_minus:.0%}" if power.table.plus_minus else ""
    share = e.estimated / max(e.joules, 1e-9)
    out = [f"energy: {measured:,} of {len(w):,} jobs were measured; {share:.0%} of it is estimated{wrong}"]
    if meter := power.table.meter:
        jobs, every = e.jobs / KWH / 1e3, e.joules / KWH / 1e3
        out.append(f"jobs {jobs:,.1f} MWh, with idle nodes {every:,.1f} MWh; meter {meter:,.1f} MWh ({every / meter:.0%})")
    if power.cap is not None and not np.isnan(power.error):
        out.append(f"the cap goes by what a user's jobs of a name drew before: off by {power.error:.0%} in the mean")
    out += [*power.notes, *([f"costs are in {power.prices.unit}"] if power.prices and power.prices.unit else [])]
    for what, x in {**(power.prices.costs if power.prices else {}), "cap": power.cap}.items():
        if x is not None:
            out += [*x.notes, *x.ends_of(w.origin, end, WORDS[what])]
    return list(dict.fromkeys(out))  # a file of prices and intensities has the same gaps for both


def energy(r: Any) -> Energy:
    """Return what the schedule of a record costs. Its cluster's power is known."""
    jobs, power, w = r.jobs, r.cluster.power, r.workload
    table, k = power.table, ~np.isnan(jobs["start"])
    adds, held, measured = (w.columns[name][k] for name in ("adds", "held nodes", "measured"))
    assumed = jobs["draw"][k] / 1e3
    end = jobs["end"][k]
    begin = np.where(end - jobs["start"][k] > jobs["ran"][k] + 1e-6, end - jobs["ran"][k], jobs["start"][k])
    last = float(end.max(initial=0.0))
    off = r.idles[r.idles["end"] - r.idles["begin"] > table.suspend_s] if len(r.idles) else r.idles
    off_begin, saved = off["begin"] + table.suspend_s, off["nodes"] * (table.off - table.idle)
    base = power.nodes * table.idle
    edge, watts, thought = _over_time(
        np.concatenate([begin, off_begin, end, off["end"]]),
        [np.concatenate([x, saved, -x, -saved]) for x in (adds, assumed)],
        base,
        last,
    )
    run, off_s = end - begin, float(((off["end"] - off_begin) * off["nodes"]).sum())
    of_jobs = float(((adds + table.idle * held) * run).sum())
    metered = float((((adds + table.idle * held) * run)[measured]).sum())
    work = float((jobs["request"][k, 0] * run).sum())
    lost = r.lost * float((adds * run).sum()) / max(work, 1e-9)
    idle = base * last - table.idle * float((held * run).sum()) - table.idle * off_s
    whole = float((np.diff(edge) * watts).sum()) + lost
    numbers = {"jobs": of_jobs, "idle": idle, "off": table.off * off_s, "lost": lost, "estimated": max(whole - metered, 0.0)}
    return Energy(
        edge,
        watts,
        thought,
        **numbers,
        off_s=off_s,
        wakes=int(off["nodes"][off["end"] < last].sum()),
        power=power,
        origin=w.origin,
    )


def _over_time(
    when: np.ndarray, changes: list[np.ndarray], base: float, last: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(edges from 0 to `last`, s; W between them, of each of two lists of changes)."""
    edge, sums = np.unique(np.concatenate([[0.0, last], when])), []
    for x in changes:
        total = np.zeros(len(edge))
        np.add.at(total, np.searchsorted(edge, when), x)
        sums.append(base + np.cumsum(total)[:-1])
    return edge, sums[0], sums[1]

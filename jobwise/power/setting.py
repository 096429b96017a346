"""A machine whose power is known: its table, the price of energy, a cap; and the jobs with what they draw."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from jobwise.cluster import UNCAPPED, idle_dtype, step_dtype
from jobwise.errors import InputError
from jobwise.power.prices import Prices, Stepwise, read_cap, read_prices
from jobwise.power.table import PowerTable, read_table
from jobwise.power.watts import nodes_of, watts
from jobwise.sim.power import is_idle
from jobwise.workload import Workload

MOST_IDLES = 1 << 24  # idle times that are noted
NEVER = "could never start under the cap"


@dataclass(frozen=True, eq=False)
class Power:
    """What is known of a machine's power: `table`; `nodes` that draw `table.idle` each; the `prices`; a `cap`, W, on all that
    the machine draws. `error`: mean relative error of what jobs were assumed to draw, of those that a meter knows; NaN
    without. `notes`: what a reader must know of the watts of these jobs."""

    table: PowerTable
    nodes: float
    prices: Prices | None = None
    cap: Stepwise | None = None
    error: float = float("nan")
    notes: tuple[str, ...] = ()

    @property
    def room(self) -> Stepwise | None:
        """The cap on what jobs add to nodes that are all on, W; None: there is none."""
        return self.cap._replace(value=self.cap.value - self.nodes * self.table.idle) if self.cap else None

    def steps(self, origin: float, price: bool) -> np.ndarray:
        """Return the steps [K] of a simulation whose time 0 is `origin` (s since 1970): of the cap, and, with `price`, of the
        price; times in s. Raises InputError where it must be known when that was."""
        price_of = self.prices.first if self.prices and price else None
        if not self.cap and price_of is None:
            return np.zeros(0, step_dtype)
        changing = [x for x in (self.room, price_of) if x]
        begin = 0.0 if np.isnan(origin) else origin
        times = np.unique(np.concatenate([[begin], *(x.time[x.time > begin] for x in changing)]))
        out = np.zeros(len(times), step_dtype)
        out["time"], out["cap"] = times - begin, UNCAPPED
        if self.room:
            out["cap"] = np.minimum(np.floor(np.maximum(self.room.at(times), 0.0) * 1000.0 + 1e-6), UNCAPPED)
        if price_of is not None:
            out["price"], out["paid"] = price_of.at(times), (price_of.until(times) - price_of.until(times[:1])) / 3600.0
        return out

    def arrays(self, workloads: Sequence[Any], cluster: Any, shifts: bool) -> dict[str, np.ndarray]:
        """Return `steps`, `idles` and `stack` of a state of these simulations."""
        tables = [self.steps(w.origin, shifts) for w in workloads]
        if (cluster.slowdown or cluster.topology or cluster.affinity) and any(len(t) > 1 for t in tables):
            raise InputError("caps and prices over time are for jobs that run equally fast everywhere")
        steps = np.zeros((len(workloads), max(map(len, tables))), step_dtype)
        steps["time"], steps["cap"] = np.inf, UNCAPPED
        for e, t in enumerate(tables):
            steps[e, : len(t)] = t
        rows = most = 0
        if self.table.suspend > 0:
            if cluster.is_bag and not cluster.is_pool:
                raise InputError(
                    "nodes that go off (suspend) are for processors, nodes and sites, not for pools of several resources"
                )
            held = [np.minimum(w.jobs["request"][:, 0], 1 if cluster.is_pool else len(cluster.capacity)) for w in workloads]
            rows = min(max(int(x.sum()) for x in held) * (4 if cluster.is_pool else 1) + 64, MOST_IDLES)
            most = int(self.nodes) + 1 if cluster.is_pool else 0
        idles = np.zeros((len(workloads), rows), idle_dtype)
        return {"steps": steps, "idles": idles, "stack": np.zeros((len(workloads), most), idle_dtype)}

    def begin(self, s: Any, workloads: Sequence[Any]) -> None:
        """Set up what the simulations of a state know of power."""
        sims = s.sims
        for e, w in enumerate(workloads):
            size = np.maximum(w.jobs["request"][:, 0], 1)
            sims[e]["least"] = float((w.jobs["draw"] / size).min()) if len(w) else 0.0
        if s.idles.shape[1]:
            sims["suspend"], sims["boot"], sims["per_node"] = self.table.suspend_s, self.table.wake, max(self.table.cores, 1)
            if s.stack.shape[1]:
                sims["idle"], sims["stack"] = int(self.nodes), 1
                s.stack["nodes"][:, 0], s.stack["end"][:, 0] = int(self.nodes), np.inf

    def idle_times(self, s: Any, e: int) -> np.ndarray:
        """Return the times [I] of idle_dtype at which nodes of simulation e, which is over, were idle. Raises InputError."""
        if not (rows := s.idles.shape[1]):
            return np.zeros(0, idle_dtype)
        if s.sims[e]["idles"] > rows:
            raise InputError(
                f"nodes were idle more than {rows:,} times, which is more than is noted; take a part of the log (--jobs)"
            )
        end = float(np.nanmax(s.jobs[e]["end"][: s.sims[e]["jobs"]], initial=0.0))
        past = s.idles[e, : s.sims[e]["idles"]]
        if s.stack.shape[1]:
            still = s.stack[e, : s.sims[e]["stack"]].copy()
        else:
            rest = [float(x["since"]) for x in s.nodes[e] if is_idle(x)]
            still = np.array([(x, np.inf, 1) for x in rest], idle_dtype)
        still["end"] = end
        every = np.concatenate([past, still])
        return every[every["end"] > every["begin"]]


def powered(
    w: Workload,
    table: PowerTable | None = None,
    prices: Prices | None = None,
    cap: Stepwise | None = None,
    predict: bool = True,
    leave_out: bool = True,
) -> Workload:
    """Return the jobs with what they draw, on a machine whose power is known.

    Parameters
    ----------
    w : Workload
        The jobs; a column `power` (W of the whole job) or `energy` (J) is what a meter said.
    table : PowerTable, optional
        What nodes, cores and GPUs draw.
    prices : Prices, optional
        The price and the carbon intensity of a kWh over time.
    cap : Stepwise, optional
        W that the machine may draw. Jobs that could never start under it are left out, and counted.
    predict : bool
        Schedulers know of a job what jobs of its user and name drew before; else what it draws.
    leave_out : bool
        Leave out the jobs that could never start under the cap; else they wait for ever.

    Returns
    -------
    Workload

    Raises
    ------
    InputError
        Nothing is known of what jobs draw; a cap is below what idle nodes draw.
    """
    if np.isnan(w.origin) and (prices or (cap is not None and len(cap.time) > 1)):
        text = "does not say when it began (UnixStartTime, or times of a calendar), which prices and caps over time need"
        raise InputError(f"{w.name}: {text}")
    table = table or PowerTable()
    x = watts(w, table, predict)
    _, nodes, _ = nodes_of(w, table)
    power = Power(table, nodes, prices, cap, x.error, x.notes)
    jobs = w.jobs.copy()
    jobs["draw"] = np.ceil(x.assumed * 1000.0 - 1e-6).astype(np.int64)
    columns = w.columns | {"adds": x.adds, "measured": x.measured, "held nodes": x.nodes}
    w = replace(w, jobs=jobs, columns=columns, cluster=replace(w.cluster, power=power))
    if cap is not None and leave_out:
        fits = could_start(w)
        if not fits.all():
            dropped = w.dropped | {NEVER: int((~fits).sum())}
            w = replace(w.take(np.flatnonzero(fits)), dropped=dropped)
    return w


def powered_by(
    w: Workload, table: str | None = None, prices: str | None = None, cap: str | None = None, leave_out: bool = True
) -> Workload:
    """Return the jobs with what they draw, by files as the command line names them: a table (`log` or None: what the log says
    alone), prices, a cap. Raises InputError."""
    return powered(
        w,
        read_table(table) if table and table != "log" else None,
        read_prices(prices) if prices else None,
        read_cap(cap) if cap else None,
        leave_out=leave_out,
    )


def could_start(w: Workload) -> np.ndarray:
    """[J] bool: does the last step of the cap, which holds on for ever, let a job run alone? Raises InputError where it lets
    none."""
    power = w.cluster.power
    most, base = power.cap.value[-1], power.nodes * power.table.idle
    if most <= base:
        raise InputError(
            f"a cap of {most:,.0f} W: the idle nodes alone draw {base:,.0f} W ({power.nodes:,.0f} of {power.table.idle:g} W)"
        )
    fits = w.jobs["draw"] <= power.steps(w.origin, False)["cap"][-1]
    if not fits.any():
        raise InputError(f"no job of {w.name} could ever start under the cap")
    return fits

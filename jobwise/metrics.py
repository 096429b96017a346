"""Metrics: functions of a Record. Times in s; tau is the bound of bounded slowdown, 10 s wherever nothing else is said.

Symbols: s submit, b first start, f end, p run: the time executed, w = f - s - p wait, n processors, P machine size; the window
is first submit to last end. A pause is waiting, and so is what execution takes beyond the job's work at full rate: work lost to
a failed node, the extra work of a restart, a slow place. Without these w = b - s and p = f - b.
Sources: Feitelson, JSSPP'01 (slowdowns); Jain et al. 1984 (fairness).
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from jobwise.errors import unknown
from jobwise.jobs import DONE, FAILED, TAU
from jobwise.sim.dag import graph, ranks

DAY_S = 86400.0  # s: jobs that wait longer are counted


class Finished(Protocol):
    """The part of a finished simulation that metrics read: a `jobwise.record.Record`."""

    @property
    def jobs(self) -> np.ndarray:
        """The public table of jobs [J]."""
        ...

    @property
    def runtime(self) -> np.ndarray:
        """The true run times [J], s."""
        ...

    @property
    def cluster(self) -> Any:
        """The cluster that the jobs run on."""
        ...

    @property
    def workload(self) -> Any:
        """The workload that was simulated."""
        ...

    @property
    def preemptions(self) -> int:
        """The number of preemptions and failures."""
        ...


def ran(r: Finished) -> np.ndarray:
    """[J] bool: jobs that started (a job whose parent failed never does)."""
    return ~np.isnan(r.jobs["start"])


def wait(r: Finished) -> np.ndarray:
    """w = f - s - p of the jobs that ran, s [K]."""
    k = ran(r)
    beyond = r.jobs["end"][k] - r.jobs["start"][k] - run(r)  # 0, to the last bit, of a job that ran in one go
    return r.jobs["start"][k] - r.jobs["submit"][k] + beyond


def run(r: Finished) -> np.ndarray:
    """p: time executed, at most the job's work at full rate, s [K]."""
    k = ran(r)
    executed, work = r.jobs["ran"][k], r.runtime[k]
    if r.cluster.topology:  # where jobs run faster on more units than they ask for
        return work
    return np.where(executed > work * (1 + 1e-9) + 1e-6, work, executed)


def processors(r: Finished) -> np.ndarray:
    """n, units of the first resource [K]."""
    return r.jobs["request"][ran(r), 0]


def turnaround(r: Finished) -> np.ndarray:
    """f - s, s [K]."""
    return wait(r) + run(r)  # in this order: to the last digit of published numbers


def normalised_turnaround(r: Finished, floor: bool = False) -> np.ndarray:
    """Normalised turnaround (end - submit) / run time at its best [K] of the jobs that were done: DeepRM's slowdown, CuSH's
    measure. Jobs that were turned away or cut off do not count: see `r.jobs["status"]`. `floor`: rounded down, as DeepRM's code
    has it (integers of Python 2)."""
    done = r.jobs["status"] == DONE
    ratio = (r.jobs["end"][done] - r.jobs["submit"][done]) / r.runtime[done]
    return np.floor(ratio) if floor else ratio


def slowdown(r: Finished) -> np.ndarray:
    """(w + p) / p [K]."""
    return turnaround(r) / np.maximum(run(r), 1e-9)


def nominal_slowdown(r: Finished) -> np.ndarray:
    """(f - s) / work: against the run time at full speed, alone [K]. DeepRM, RL-TAPS, CuSH (normalised turnaround)."""
    return turnaround(r) / np.maximum(r.runtime[ran(r)], 1e-9)


def bounded(turnaround: np.ndarray, run: np.ndarray, tau: float = TAU) -> np.ndarray:
    """Return max((w + p) / max(p, tau), 1) [K] of turnarounds w + p and run times p, s (Feitelson, JSSPP'01)."""
    return np.maximum(turnaround / np.maximum(run, tau), 1.0)


def bounded_slowdown(r: Finished, tau: float = TAU) -> np.ndarray:
    """max((w + p) / max(p, tau), 1) [K]."""
    return bounded(turnaround(r), run(r), tau)


def for_all(r: Finished, values: np.ndarray, otherwise: float = np.nan) -> np.ndarray:
    """Return values [K] of the jobs that ran as values [J] of all jobs, with `otherwise` for a job that never ran."""
    of_all = np.full(len(r.jobs), otherwise)
    of_all[ran(r)] = values
    return of_all


def per_processor_slowdown(r: Finished, tau: float = TAU) -> np.ndarray:
    """max((w + p) / (n max(p, tau)), 1) [K] (Zotkin & Keleher; bounded, as MARS has it)."""
    return np.maximum(turnaround(r) / (np.maximum(processors(r), 1) * np.maximum(run(r), tau)), 1.0)


def workflows(r: Finished) -> dict[str, np.ndarray]:
    """Of workflows all of whose tasks were done [F]: `turnaround`, s, from first submit to last end; `bound`, s, the longer of
    the longest way and all work on all units: no schedule is shorter; `slowdown`, one divided by the other."""
    jobs, of = r.jobs, r.jobs["flow"]
    k = of >= 0
    count = int(of.max(initial=-1)) + 1
    begin, end, way = np.full(count, np.inf), np.zeros(count), np.zeros(count)
    np.minimum.at(begin, of[k], jobs["submit"][k])
    np.maximum.at(end, of[k], jobs["end"][k])
    np.maximum.at(way, of[k], ranks(graph(len(jobs), r.workload.edges), r.runtime)[k])
    work = np.bincount(of[k], weights=(r.runtime * jobs["request"][:, 0])[k], minlength=count)
    whole = np.bincount(of[k], weights=(jobs["status"] == DONE)[k], minlength=count) == np.bincount(of[k], minlength=count)
    whole &= np.isfinite(begin)
    bound = np.maximum(np.maximum(way, work / r.cluster.processors), 1e-9)
    table = {"turnaround": end - begin, "bound": bound, "slowdown": (end - begin) / bound}
    return {key: value[whole] for key, value in table.items()}


def makespan(r: Finished) -> float:
    """First submit to last end, s."""
    k = ran(r)
    return float(r.jobs["end"][k].max() - r.jobs["submit"].min()) if k.any() else 0.0


def utilisation(r: Finished) -> float:
    """sum n p / (P * makespan), p the time actually executed; NaN where jobs hold other numbers of units than they ask for."""
    if r.cluster.topology:
        return float("nan")
    k = ran(r)
    used = (processors(r) * r.jobs["ran"][k]).sum()
    return float(used / (r.cluster.processors * makespan(r))) if makespan(r) > 0 else 0.0


def area(r: Finished) -> np.ndarray:
    """n p: units of the first resource times the time executed, s [K]."""
    return processors(r) * run(r)


def area_weighted(r: Finished, values: np.ndarray) -> float:
    """sum n p v / sum n p of values v [K]: of turnarounds the area-weighted response time, of waits the area-weighted wait
    (Ernemann et al., JSSPP'04; Boëzennec et al., TOMPECS'24: it does not fall because short jobs pass long ones)."""
    weight = area(r)
    return float((weight * values).sum() / weight.sum()) if weight.sum() > 0 else 0.0


def throughput_spread(r: Finished) -> float:
    """Standard deviation of the jobs that end in a day over their mean, whole days from the first submit to the last; NaN for
    fewer than two of them (Boëzennec et al., TOMPECS'24, in units of the mean)."""
    begin, last = float(r.jobs["submit"].min()), float(r.jobs["submit"].max())
    day = ((r.jobs["end"][ran(r)] - begin) // DAY_S).astype(int)
    return spread(np.bincount(day), int((last - begin) // DAY_S))


def spread(count: np.ndarray, days: int) -> float:
    """Return the standard deviation of the first `days` counts over their mean; NaN for fewer than two, and where all are 0."""
    count = np.append(count, np.zeros(max(days - len(count), 0)))[:days]
    return float(count.std() / count.mean()) if days > 1 and count.any() else float("nan")


def jain(values: np.ndarray) -> float:
    """Jain's fairness index (sum x)^2 / (k sum x^2): 1 is equal."""
    return float(values.sum() ** 2 / (len(values) * (values**2).sum())) if len(values) and values.any() else 1.0


def user_fairness(r: Finished) -> float:
    """Jain's index over the users' mean bounded slowdowns; NaN where the log does not tell users apart."""
    users, index = np.unique(r.jobs["user"][ran(r)], return_inverse=True)
    if len(users) < 2:
        return float("nan")
    sums = np.bincount(index, weights=bounded_slowdown(r), minlength=len(users))
    return jain(sums / np.bincount(index, minlength=len(users)))


def queue_length(r: Finished) -> tuple[np.ndarray, np.ndarray]:
    """(time s, jobs waiting from then on): a step function."""
    return _steps(r, r.jobs["submit"], r.jobs["start"], np.ones(len(r.jobs)))


def busy(r: Finished) -> tuple[np.ndarray, np.ndarray]:
    """(time s, processors in use from then on); pauses of preempted jobs are counted as in use."""
    return _steps(r, r.jobs["start"], r.jobs["end"], r.jobs["request"][:, 0])


def _steps(r: Finished, begin: np.ndarray, end: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    k = ran(r)
    when = np.concatenate([begin[k], end[k]])
    change = np.concatenate([weight[k], -weight[k]])
    order = np.argsort(when, kind="stable")
    when, level = when[order], np.cumsum(change[order])
    last = np.append(np.diff(when) > 0, True)
    return when[last], level[last]


def fragmentation(r: Finished) -> float:
    """Mean share of the machine that is idle while jobs wait; NaN as `utilisation`, and where jobs were stopped on the way and
    others ran in their pauses."""
    if r.cluster.topology:
        return float("nan")
    (tq, q), (tb, b) = queue_length(r), busy(r)
    if (b > r.cluster.processors).any():
        return float("nan")
    when = np.union1d(tq, tb)
    if len(when) < 2:
        return 0.0

    def at(times: Any, levels: Any) -> Any:
        i = np.searchsorted(times, when[:-1], side="right") - 1
        return np.where(i >= 0, levels[np.maximum(i, 0)], 0)

    blocked = at(tq, q) > 0
    length = np.diff(when)[blocked]
    idle = 1 - at(tb, b)[blocked] / r.cluster.processors
    return float((length * idle).sum() / length.sum()) if length.sum() > 0 else 0.0


def backfill_rate(r: Finished) -> float:
    """Share of jobs that started before a job submitted earlier."""
    start = r.jobs["start"][ran(r)]
    latest = np.maximum.accumulate(start) if len(start) else start
    return float((start[1:] < latest[:-1]).mean()) if len(start) > 1 else 0.0


def summary(r: Finished) -> dict[str, float]:
    """The usual numbers of a record; means unless the name says otherwise. bounded_slowdown has tau = 10 s."""
    w, bsld = wait(r), bounded_slowdown(r)
    if not len(w):
        return {"jobs": 0.0}
    q = np.quantile(w, [0.5, 0.95, 0.99])
    b = np.quantile(bsld, [0.5, 0.95, 0.99])
    span = makespan(r)
    used = float("nan") if r.cluster.topology else float((processors(r) * r.jobs["ran"][ran(r)]).sum() / 3600.0)
    flows = workflows(r) if (r.jobs["flow"] >= 0).any() else None
    of_flows = {}
    if flows is not None and len(flows["slowdown"]):
        of_flows = {"workflows": float(len(flows["slowdown"])), "workflow_slowdown": float(flows["slowdown"].mean())}
        of_flows |= {"max_workflow_slowdown": float(flows["slowdown"].max())}
        of_flows |= {"workflow_turnaround": float(flows["turnaround"].mean())}
    return of_flows | {
        "jobs": float(len(w)),
        "bounded_slowdown": float(bsld.mean()),
        "median_bounded_slowdown": float(b[0]),
        "p95_bounded_slowdown": float(b[1]),
        "p99_bounded_slowdown": float(b[2]),
        "slowdown": float(slowdown(r).mean()),
        "per_processor_slowdown": float(per_processor_slowdown(r).mean()),
        "wait": float(w.mean()),
        "median_wait": float(q[0]),
        "p95_wait": float(q[1]),
        "p99_wait": float(q[2]),
        "max_wait": float(w.max()),
        "over_a_day": float((w > DAY_S).mean()),
        "turnaround": float(turnaround(r).mean()),
        "area_weighted_response": area_weighted(r, turnaround(r)),
        "area_weighted_wait": area_weighted(r, w),
        "makespan": span,
        "utilisation": utilisation(r),
        "throughput": float(len(w) / span * 3600) if span > 0 else 0.0,
        "throughput_spread": throughput_spread(r),
        "processor_hours": used,
        "idle_processor_hours": r.cluster.processors * span / 3600.0 - used,
        "queue_length": float(w.sum() / span) if span > 0 else 0.0,  # Little's law
        "fragmentation": fragmentation(r),
        "backfill_rate": backfill_rate(r),
        "user_fairness": user_fairness(r),
        "preemptions": float(r.preemptions),
        "failed": float((r.jobs["status"] == FAILED).sum()),
    }


UNITS = {
    "wait": "s",
    "median_wait": "s",
    "p95_wait": "s",
    "p99_wait": "s",
    "max_wait": "s",
    "turnaround": "s",
    "area_weighted_response": "s",
    "area_weighted_wait": "s",
    "processor_hours": "h",
    "idle_processor_hours": "h",
    "makespan": "s",
    "throughput": "jobs/h",
    "queue_length": "jobs",
    "workflow_turnaround": "s",
    "processor_hours_held": "h",
    "energy": "kWh",
    "energy_plus_minus": "kWh",
    "idle_energy": "kWh",
    "energy_of_stopped_runs": "kWh",
    "peak_power": "kW",
    "p95_power": "kW",
    "node_hours_off": "h",
    "co2": "kg",
    "hours_above_cap": "h",
    "hours_assumed_above_cap": "h",
    "most_above_cap": "kW",
}


def size_class(r: Finished) -> tuple[np.ndarray, list[str]]:
    """Classes of processors by powers of four: (index [K], labels)."""
    n = processors(r)
    edges = [1, 4, 16, 64, 256, 1024, 4096, 16384, 65536]
    edges = [x for x in edges if x < r.cluster.processors] + [r.cluster.processors]
    index = np.searchsorted(edges, n)
    labels = [str(hi) if hi - lo == 1 else f"{lo + 1}-{hi}" for lo, hi in zip([0, *edges[:-1]], edges, strict=True)]
    return index, labels


def run_class(r: Finished) -> tuple[np.ndarray, list[str]]:
    """Classes of work at full speed: (index [K], labels)."""
    edges = [60, 600, 3600, 6 * 3600, 86400]
    return np.searchsorted(edges, r.runtime[ran(r)]), ["< 1 min", "1-10 min", "10-60 min", "1-6 h", "6-24 h", "> 1 day"]


def user_class(r: Finished, most: int = 20) -> tuple[np.ndarray, list[str]]:
    """The users with the most processor-seconds, and the rest: (index [K], labels)."""
    k = ran(r)
    users, index = np.unique(r.jobs["user"][k], return_inverse=True)
    load = np.bincount(index, weights=processors(r) * np.maximum(r.runtime[k], 1), minlength=len(users))
    top = np.argsort(-load, kind="stable")[:most]
    place = np.full(len(users), len(top))
    place[top] = np.arange(len(top))
    names = r.workload.names.get("user", {})
    labels = [f"user {names.get(int(users[u]), users[u])}" if users[u] >= 0 else "unknown" for u in top]
    return place[index], labels + (["others"] if len(users) > most else [])


CLASSES = {"size": size_class, "run time": run_class, "user": user_class}


def breakdown(r: Finished, by: str) -> list[dict[str, Any]]:
    """Per class (`size`, `run time`, `user`): jobs, mean, 95 % and longest wait, mean bounded slowdown; no empty classes."""
    if by not in CLASSES:
        raise unknown("breakdown", by, CLASSES)
    index, labels = CLASSES[by](r)
    w, b = wait(r), bounded_slowdown(r)
    rows = []
    for i, label in enumerate(labels):
        k = index == i
        if k.any():
            rows.append(
                {
                    "class": label,
                    "jobs": int(k.sum()),
                    "wait": float(w[k].mean()),
                    "p95_wait": float(np.quantile(w[k], 0.95)),
                    "max_wait": float(w[k].max()),
                    "bounded_slowdown": float(b[k].mean()),
                }
            )
    return rows

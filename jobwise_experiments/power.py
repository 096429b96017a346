"""Power: what power-down and waiting for cheaper hours save beside an oracle, what a cap costs in waits, and what all of it
hangs on. No log here has a power: a table of one kind of node stands in, and its error is carried through."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from jobwise.compare import windows
from jobwise.compare.shifting import Shifted, shifted
from jobwise.policies.names import resolve
from jobwise.power.prices import Prices, Stepwise
from jobwise.power.setting import powered
from jobwise.power.table import PowerTable
from jobwise.report.sections import Section
from jobwise.simulate import simulate
from jobwise.workload import Workload, shake
from jobwise_experiments.study import Study

LOGS = ("SDSC-SP2", "HPC2N")
TABLE = PowerTable(idle=120, core=280, cores=1, off=5, suspend=30, wake=180, plus_minus=0.2)  # a processor is a node
EARLIER, BOUND = 0.5, 1.2
ORDERS = ("fcfs+easy", "saf+easy+promise1.2x", "jobwise")
DELAYS = (2, 4, 8, 12, 24)  # h
CAPS = (1.0, 0.9, 0.8, 0.7, 0.6)  # of what the machine draws when all of it runs
CAPPED = ("fcfs+easy", "saf+easy+guard24h")
SPREAD = 0.25  # of the power of jobs of one user and name, and between them


def study(s: Study) -> list[Section]:
    """Four ways beside each other, a cap, a cap by predicted power, what it hangs on."""
    logs = [s.log(name, smoke=600) for name in s.pick(LOGS[:1], LOGS, LOGS)]
    return s.parts(*(partial(part, logs=logs) for part in (shifting, caps, predicted, sensitivity)))


def made_prices(begin: float, hours: int, swing: float = 0.3, seed: int = 0) -> Prices:
    """Return made-up hourly prices (a kWh) and intensities (g): two peaks on work days, cheap nights and weekends, `swing` of
    the mean, and noise that lasts for hours; the intensity follows the price by half."""
    h = np.arange(hours)
    of_day, weekday = h % 24, (h // 24) % 7
    shape = np.exp(-(((of_day - 8) / 3.0) ** 2)) + 1.3 * np.exp(-(((of_day - 19) / 3.0) ** 2)) - 0.45
    shape = np.where(weekday < 5, shape, 0.5 * shape - 0.4)
    noise, rng = np.zeros(hours), np.random.default_rng(seed)
    for k in range(1, hours):
        noise[k] = 0.9 * noise[k - 1] + 0.15 * rng.standard_normal()
    price = 0.1 * np.maximum(1.0 + swing * (shape + noise), 0.02)
    time = begin + 3600.0 * h
    return Prices(Stepwise(time, price), Stepwise(time, 200.0 + 1000.0 * price))


def _priced(w: Workload, table: PowerTable = TABLE, swing: float = 0.3) -> Workload:
    origin = 3600.0 * np.floor((0.0 if np.isnan(w.origin) else w.origin) / 3600.0)
    hours = int((float(w.jobs["submit"][-1]) + 60 * 86400.0) // 3600)
    return powered(replace(w, origin=origin), table, made_prices(origin, hours, swing))


def _replicas(s: Study, w: Workload) -> list[Workload]:
    by = windows.shake_for(w)
    return [w, *(shake(w, by, [0, k]) for k in range(s.pick(0, 4, 4)))]


def _halves(w: Workload) -> tuple[Workload, Workload]:
    middle = int(EARLIER * len(w))
    return w.take(slice(0, middle)), w.take(slice(middle, len(w)))


# ------------------------------------------------------------------ the parts


def _numbers(x: Shifted) -> dict[str, Any]:
    change, beyond = x.change(1), x.change(2, 1)
    worst = [b["max_wait"] / max(a["max_wait"], 3600.0) for a, b in zip(*(_summaries(x, k) for k in (0, 2)), strict=True)]
    return {
        "costs": [x.total(k) for k in range(4)],
        "down": [change.change, change.low, change.high],
        "held": [beyond.change, beyond.low, beyond.high],
        "oracle": x.total(3) / x.total(1) - 1,
        "share": x.share(),
        "longest": max(worst),
        "slowdown": [x.mean(k, "bounded_slowdown") for k in (1, 2)],
        "wait": [x.mean(k, "wait") / 3600 for k in (1, 2)],
    }


def _summaries(x: Shifted, row: int) -> list[dict[str, float]]:
    return [r.summary() for r in x.records[row]]


def _held(
    s: Study, w: Workload, order: str, hours: int, table: PowerTable = TABLE, swing: float = 0.3, share: float = 1.0
) -> dict:
    """What an order does that holds a share of the jobs for so many hours."""
    logs = []
    for x in _replicas(s, w):
        priced = _priced(x, table, swing)
        if share < 1:
            patience = np.where(np.random.default_rng(1).random(len(priced)) < share, np.inf, 0.0)
            priced.jobs["patience"] = patience
        logs.append(priced)
    return _numbers(shifted(logs, resolve(f"{order}+shift{hours}h")))


def shifting(s: Study, logs: list[Workload]) -> Section:
    """The longest delay that keeps waits on the earlier half, judged on the later one."""
    rows = []
    for w in logs:
        earlier, later = _halves(w)
        for order in s.pick(ORDERS[:1], ORDERS, ORDERS):
            tried = {
                h: s.piece(f"earlier-{w.name}-{order}-{h}", _held, s, earlier, order, h) for h in s.pick((4,), DELAYS, DELAYS)
            }
            kept = [h for h, x in tried.items() if x["longest"] <= BOUND] or [min(tried)]
            best = min(kept, key=lambda h: tried[h]["costs"][2])
            x = s.piece(f"later-{w.name}-{order}-{best}", _held, s, later, order, best)
            rows.append([w.name, f"{order}+shift{best}h", _interval(x["down"]), _interval(x["held"]), x["oracle"], _share(x)])
            rows[-1] += [x["longest"], *x["slowdown"], *x["wait"]]
    return s.section("Waiting for cheaper hours", rows, bound=BOUND, table=_words(TABLE))


def _interval(x: list[float]) -> str:
    return f"{x[0]:+.1%}" + ("" if x[1] is None or np.isnan(x[1]) else f" [{x[1]:+.1%}, {x[2]:+.1%}]")


def _share(x: dict) -> str:
    return "-" if x["share"] is None or np.isnan(x["share"]) else f"{x['share']:.0%}"


def _words(table: PowerTable) -> str:
    return (
        f"a node draws {table.idle:g} W idle, {table.idle + table.core:g} W in use and {table.off:g} W off, each ± "
        f"{table.plus_minus:.0%}; it goes off after {table.suspend:g} min and is back in {table.wake:g} s"
    )


def _capped(s: Study, w: Workload, order: str, share: float) -> dict:
    """What a cap at a share of the full power costs in waits."""
    full = w.cluster.processors * (TABLE.idle + TABLE.core)
    cap = Stepwise(np.array([-np.inf]), np.array([share * full])) if share < 1 else None
    every = [simulate(powered(x, replace(TABLE, suspend=0.0), cap=cap, leave_out=False), order) for x in _replicas(s, w)]
    return _means([r.summary() for r in every])


def _means(every: list[dict[str, float]]) -> dict[str, float]:
    return {k: float(np.mean([x[k] for x in every])) for k in every[0]}


def caps(s: Study, logs: list[Workload]) -> Section:
    """What a cap costs in waits."""
    rows = []
    for w in logs:
        _, later = _halves(w)
        most = int(0.6 * later.cluster.processors) if not s.smoke else later.cluster.processors
        fits = np.flatnonzero(later.jobs["request"][:, 0] <= _under(later, min(s.pick(CAPS[:2], CAPS, CAPS))))
        part = later.take(fits[later.jobs["request"][fits, 0] <= most])
        for order in s.pick(CAPPED[:1], CAPPED, CAPPED):
            base: dict = {}
            for share in s.pick(CAPS[:2], CAPS, CAPS):
                x = s.piece(f"cap-{w.name}-{order}-{share:g}", _capped, s, part, order, share)
                base = base or x
                rows.append([w.name, order, share, x["peak_power"], x["wait"] / 3600, x["wait"] / max(base["wait"], 1.0)])
                rows[-1] += [x["max_wait"] / 3600, x["bounded_slowdown"], x.get("hours_above_cap", 0.0)]
    return s.section("What a cap costs in waits", rows)


def _under(w: Workload, share: float) -> int:
    """The processors of the largest job that a cap at a share of the full power lets run."""
    full = w.cluster.processors * (TABLE.idle + TABLE.core)
    return int((share * full - w.cluster.processors * TABLE.idle) / TABLE.core)


def _drawn(w: Workload, seed: int = 0) -> Workload:
    """The jobs with a measured power: means of users and names that differ by SPREAD, and jobs of one that do."""
    rng = np.random.default_rng([seed, 11])
    _, of = np.unique(w.jobs["user"].astype(np.int64) * (1 << 32) + w.jobs["app"], return_inverse=True)
    each = np.exp(SPREAD * rng.standard_normal(of.max() + 1))[of] * np.exp(SPREAD * rng.standard_normal(len(w)))
    whole = w.jobs["request"][:, 0] * (TABLE.idle + TABLE.core * np.clip(each, 0.2, 2.0))
    return replace(w, columns=w.columns | {"power": whole})


def _foreseen(s: Study, w: Workload, share: float) -> dict:
    full = w.cluster.processors * (TABLE.idle + TABLE.core)
    cap = Stepwise(np.array([-np.inf]), np.array([share * full]))
    out = []
    for k, x in enumerate(_replicas(s, w)):
        r = simulate(powered(_drawn(x, k), replace(TABLE, suspend=0.0), cap=cap), "fcfs+easy")
        assert r.energy is not None
        hours = float(r.energy.edge[-1]) / 3600
        out.append(r.summary() | {"error": r.cluster.power.error, "share_above": r.summary()["hours_above_cap"] / hours})
        out[-1] |= {
            "most": r.summary()["most_above_cap"] * 1e3 / (share * full),
            "assumed": r.summary()["hours_assumed_above_cap"],
        }
    return _means(out)


def predicted(s: Study, logs: list[Workload]) -> Section:
    """A cap that goes by predicted power: how often it is exceeded."""
    rows = []
    for w in logs:
        for share in s.pick((0.8,), (0.9, 0.8, 0.7), (0.9, 0.8, 0.7)):
            x = s.piece(f"foreseen-{w.name}-{share:g}", _foreseen, s, _halves(w)[1], share)
            rows.append([w.name, share, x["error"], x["assumed"], x["share_above"], x["most"]])
    return s.section("A cap by predicted power", rows, spread=SPREAD)


def sensitivity(s: Study, logs: list[Workload]) -> Section:
    """What the saving hangs on."""
    twice = replace(TABLE, idle=2 * TABLE.idle)
    half = replace(TABLE, idle=TABLE.idle / 2)
    ways: dict[str, dict[str, Any]] = {
        "as above": {},
        "idle nodes draw half": {"table": half},
        "idle nodes draw twice": {"table": twice},
        "jobs add 20 % more": {"table": replace(TABLE, core=1.2 * TABLE.core)},
        "jobs add 20 % less": {"table": replace(TABLE, core=0.8 * TABLE.core)},
        "prices swing by 15 %": {"swing": 0.15},
        "prices swing by 60 %": {"swing": 0.6},
        "30 % of the jobs may be held": {"share": 0.3},
    }
    rows = []
    for w in logs:
        for words, how in list(ways.items())[: s.pick(2, len(ways), len(ways))]:
            x = s.piece(f"sensitive-{w.name}-{words}", _held, s, _halves(w)[1], "fcfs+easy", 8, **how)
            down = 1 - x["costs"][1] / x["costs"][0]
            rows.append([w.name, words, -down, x["costs"][2] / x["costs"][1] - 1, x["oracle"], _share(x), x["longest"]])
    return s.section("What it hangs on", rows)

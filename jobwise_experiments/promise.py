"""Promises about waits, and what each part of the recommended scheduler brings: continuous replays of each log.

Whole logs: is the bound kept in every fifth, at what price in slowdown. Six origins: the tenth of the log after each, beside
the rule that did best before, with and without the parts that any rule may have (a promise, an express lane).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from jobwise.compare import windows
from jobwise.compare.baselines import LANES, PROMISED, Baselines
from jobwise.compare.bounds import BOUNDS
from jobwise.compare.comparison import REPLAYS
from jobwise.compare.intervals import Effect, effect, pooled
from jobwise.compare.origins import FROM, MOST, STEP
from jobwise.metrics import wait
from jobwise.parallel import Shared, current
from jobwise.policies.list_scheduler import ListScheduler
from jobwise.policies.names import resolve
from jobwise.policies.recommended import LANE, PROMISE
from jobwise.report.sections import Section
from jobwise.sim.lists.easy import HOUR
from jobwise.simulate import simulate
from jobwise.workload import Workload
from jobwise.workloads.transform import first, overruns, shake
from jobwise_experiments.study import Study

LOGS = ("HPC2N", "lublin_256", "SDSC-SP2", "ALCF-Theta", "NASA-iPSC", "MetaCentrum", "LLNL-Atlas", "LANL-CM5")
LOGS += ("SDSC-BLUE", "RICC")
AT = [round(FROM + STEP * k, 1) for k in range(MOST)]  # origins
BUSY = 1.5  # mean slowdown of FCFS with EASY on windows; logs with less, where hardly anybody waits, are not pooled
FIFTHS, REPLICAS = 5, 5
ORDERS = ("saf", "f4", "smith-aged")  # of the trade-off
RULES = ("saf", "sjf", "f4", "lxf")  # fixed rules in hindsight, under
UNDER = ("", "+guard72h", *(f"+{x}promise{PROMISE:g}x" for x in ("", f"{LANES[1]}+")))
FAIR, PLAIN, FIXED = "fair rule", "fair rule without them", "best fixed rule in hindsight"
DEEP = {"RICC": 40_000}  # logs whose queues are thousands deep: so many first jobs, whole; no origins
OUTLIVE = 0.05  # share of the jobs that outlive their request from which replays are made both ways


def study(s: Study) -> list[Section]:
    """Bounds on whole logs, the trade-off, the parts at six origins. Raises InputError."""
    every: dict[str, dict] = {}
    some = s.pick(("SDSC-SP2",), LOGS, LOGS)
    there = [n for n in some if s.logs and any(p.name.startswith(n) for p in s.logs.glob("*"))]
    left = ", ".join(n for n in some if n not in there) or "none"
    steps = [partial(measure, name=n, every=every) for n in there] + [partial(ended, name=n, every=every) for n in there]
    return s.parts(*steps, *(partial(t, every=every, left=left) for t in (bounds, trade_off, parts, against, in_hindsight)))


def _parts() -> dict[str, ListScheduler]:
    """The schedulers of the table of parts."""
    names = [f"{o}+easy" for o in ORDERS]
    names += [f"{o}+easy+promise{PROMISE:g}x" for o in ("saf", "smith-aged")]
    names += [f"{o}+easy+express{100 * LANE:g}%+promise{PROMISE:g}x" for o in ("saf", "f4", "lxf")]
    return {n: resolve(n) for n in (*names, "jobwise")}


def measure(s: Study, name: str, every: dict) -> list[Section]:
    """Measure all of it on a log: no section of its own."""
    log = s.log(name, smoke=700)
    if name in DEEP:
        log = first(log, min(len(log), DEEP[name]))
    x = every[log.name] = {"outlive": overruns(log)}
    x["whole"] = s.piece(f"whole-{log.name}", _whole, log, s.pick(1, REPLICAS, REPLICAS))
    if name not in DEEP:
        x["run on"] = _at_origins(s, log, "run on")
    return []


def ended(s: Study, name: str, every: dict) -> list[Section]:
    """Measure a log whose jobs outlive their request again, with jobs ended at it (not at the preset small): no section of its
    own."""
    log = s.log(name, smoke=700)
    if s.pick(True, False, True) and every.get(log.name, {}).get("outlive", 0.0) > OUTLIVE and name not in DEEP:
        every[log.name]["ended"] = _at_origins(s, log, "ended")
    return []


def _at_origins(s: Study, log: Workload, way: str) -> dict:
    origins = s.pick(AT[-1:], AT, AT)
    return _joined([s.piece(f"origin-{t}-{way}-{log.name}", _origin, log, t, way == "ended", s.smoke) for t in origins])


def cells_of(log: Workload, policy: str, replicas: Sequence[Workload], longest: Sequence[np.ndarray]) -> dict:
    """Return the mean slowdown, and of every replica the longest wait of each fifth's jobs over that of FCFS with EASY so
    far."""
    edges, slow, cells = np.linspace(0, len(log), FIFTHS + 1).astype(int), [], []
    for w, so_far in zip(replicas, longest, strict=True):
        r = simulate(w, policy)
        slow.append(r.summary()["bounded_slowdown"])
        waits = wait(r)
        cells.append([waits[a:b].max() / max(so_far[b - 1], HOUR) for a, b in zip(edges[:-1], edges[1:], strict=True)])
    return {"slowdown": float(np.mean(slow)), "cells": cells}


def _whole(log: Workload, count: int) -> dict:
    """All bounds on the whole log, in so many time-shifted replicas."""
    replicas = [shake(log, windows.shake_for(log), [0, k]) for k in range(count)]
    longest = [np.maximum.accumulate(wait(simulate(w, "fcfs+easy"))) for w in replicas]
    lane = f"express{100 * LANE:g}%"
    names = ["fcfs+easy", *(f"{o}+easy" for o in ORDERS)]
    names += [f"{o}+easy+{lane}+promise{p:g}x" for o in ORDERS for p in BOUNDS]
    return {n: cells_of(log, n, replicas, longest) for n in names}


def _origin(log: Workload, t: float, kill: bool, smoke: bool) -> dict:
    """What the parts, the fair rules and the fixed ones do on the tenth of a log after share t."""
    size, begin = min(windows.SIZE, int(0.1 * len(log)) // 2), int(t * len(log))
    shakes = 1 if smoke else REPLAYS
    earlier = Baselines(log, 0, begin, size, shakes, windows.shake_for(log.take(slice(0, begin))), kill_at_walltime=kill)
    earlier.shortlist_bounded(PROMISE, shakes)
    with_all = earlier.best_within(PROMISE, shakes)
    earlier.whole = {n: x for n, x in earlier.whole.items() if not any(n.endswith(p) for p in PROMISED)}
    plain = earlier.best_within(PROMISE, shakes)
    fixed = [f"{rule}+easy{guard}" for rule in RULES[: 1 if smoke else None] for guard in UNDER]
    ours = _parts()
    names = list(dict.fromkeys(["fcfs+easy", with_all, plain, *fixed]))
    names = [n for n in names if n not in ours]
    last = int(round((t + 0.1) * len(log)))
    part = log.take(slice(begin, last))
    shifted = [shake(part, windows.shake_for(part), [0, k]) for k in range(shakes)]
    blocks = max(len(windows.begins(begin, last, size)) // 2, 1)

    with current() as workers:
        work = partial(_judged, workers.put([*shifted, part]), blocks, kill)
        results = dict(zip([*names, *ours], workers.map(work, [*names, *ours.values()]), strict=True))
    base = np.array(results["fcfs+easy"][1])
    rows = {
        n: {"blocks": np.log(x).tolist(), "mean": float(x.mean()), "ratio": (np.array(longest) / base).tolist()}
        for n, (x, longest) in results.items()
    }
    return {"rows": rows, "fair": with_all, "plain": plain}


def _judged(replicas: Shared, blocks: int, kill: bool, policy: str | ListScheduler) -> tuple[np.ndarray, list[float]]:
    """(mean of the time-shifted replicas over blocks of time, longest waits of all replicas in s) under a policy."""
    records = [simulate(w, policy, kill_at_walltime=kill) for w in replicas.get()]
    return np.mean([windows.in_time(r, blocks) for r in records[:-1]], axis=0), [max(wait(r).max(), 1.0) for r in records]


def _joined(pieces: list[dict]) -> dict:
    """The origins of a log put together: policy -> logs of block means, mean, ratios of longest waits."""
    names = [n for n in pieces[0]["rows"] if all(n in x["rows"] for x in pieces)]
    rows = {n: [x["rows"][n] for x in pieces] for n in names}
    rows[FAIR], rows[PLAIN] = ([x["rows"][x[key]] for x in pieces] for key in ("fair", "plain"))
    out = {
        n: {
            "blocks": sum((y["blocks"] for y in x), []),
            "mean": float(np.mean([y["mean"] for y in x])),
            "ratio": sum((y["ratio"] for y in x), []),
        }
        for n, x in rows.items()
    }
    ours = _kept(out["jobwise"]["ratio"])
    fixed = [f"{rule}+easy{guard}" for rule in RULES for guard in UNDER]
    careful = [n for n in fixed if n in out and _kept(out[n]["ratio"]) >= ours] or ["fcfs+easy"]
    best = min(careful, key=lambda n: float(np.mean(out[n]["blocks"])))
    out[FIXED] = out[best]
    chosen = {"fair": [x["fair"] for x in pieces], "plain": [x["plain"] for x in pieces], "fixed": best}
    return {"rows": out, "chosen": chosen}


def _kept(ratio: list[float]) -> float:
    return float((np.array(ratio) <= PROMISE).mean())


def _change(x: dict, policy: str, base: str) -> Effect:
    """The change of a policy against another one on the blocks of all origins of a log."""
    return effect(np.array(x["rows"][policy]["blocks"]) - np.array(x["rows"][base]["blocks"]))


def _over(effects: list[Effect]) -> Effect:
    """One effect of several logs; of one log its own."""
    return pooled(effects) if len(effects) > 1 else effects[0]


def bounds(s: Study, every: dict, left: str) -> Section:
    """Is the bound kept in every fifth of a log?"""
    rows, all_cells = [], []
    name = f"smith-aged+easy+express{100 * LANE:g}%+promise{PROMISE:g}x"
    for log, x in every.items():
        fcfs, ours = x["whole"]["fcfs+easy"], x["whole"][name]
        cells = np.array(ours["cells"])
        all_cells.append(cells.ravel())
        rows.append([log, fcfs["slowdown"], ours["slowdown"], *_shares(cells)])
    every_cell = np.concatenate(all_cells)
    rows.append(["all logs", "", "", *_shares(every_cell)])
    held = float(np.quantile(every_cell, 0.95))
    return s.section("Bounds kept", rows, replicas=s.pick(1, REPLICAS, REPLICAS), left=left, bound=PROMISE, held=f"{held:.2f}")


def _shares(cells: np.ndarray) -> list[float]:
    return [float((cells <= PROMISE).mean()), float((cells <= 1.4).mean()), float(np.median(cells)), float(cells.max())]


def trade_off(s: Study, every: dict, left: str) -> Section:
    """Slowdown against longest wait for a row of bounds, each order a curve."""
    rows, curves = [], {}
    lane = f"express{100 * LANE:g}%"
    logs = [x["whole"] for x in every.values()]
    for order in ORDERS:
        points = []
        names = [f"{order}+easy+{lane}+promise{p:g}x" for p in BOUNDS]
        for p, n in zip((*BOUNDS, None), (*names, f"{order}+easy"), strict=True):
            change = np.exp(np.mean([np.log(x[n]["slowdown"] / x["fcfs+easy"]["slowdown"]) for x in logs])) - 1
            cells = np.concatenate([np.ravel(x[n]["cells"]) for x in logs])
            kept = float((cells <= p).mean()) if p else ""
            rows.append([order, f"{p:g}" if p else "none", f"{change:+.1%}", "" if p is None else f"{kept:.0%}",
                         float(np.quantile(cells, 0.95)), float(cells.max())])  # fmt: skip
            if p:
                points.append((float(np.quantile(cells, 0.95)), 100 * float(change)))
        curves[order] = tuple(zip(*points, strict=True))
    axes = ("longest wait over that of fcfs+easy, 95 % of the fifths below", "slowdown against fcfs+easy, %")
    figure = s.lines("trade-off", curves, *axes)
    return s.section("Slowdown against longest wait", rows, figures=[figure], bounds=", ".join(f"{b:g}" for b in BOUNDS))


def _followed(every: dict) -> dict:
    """The logs that are replayed at origins, too."""
    return {n: x for n, x in every.items() if "run on" in x}


def _busy(every: dict) -> dict:
    """Those of them whose jobs wait."""
    return {n: x for n, x in _followed(every).items() if x["whole"]["fcfs+easy"]["slowdown"] >= BUSY}


def _rows_of(name: str, x: dict, policies: Sequence[str], base: str) -> list[list]:
    out = []
    for p in policies:
        y = x["rows"][p]
        r = np.array(y["ratio"])
        change = "" if p == base else _change(x, p, base)
        out.append([name, p, f"{y['mean']:.1f}", change, f"{np.median(r):.2f} ({r.max():.2f})", _kept(y["ratio"])])
    return out


def _pooled_rows(logs: dict[str, dict], policies: Sequence[str], base: str) -> list[list]:
    out = []
    for p in policies:
        r = np.concatenate([x["rows"][p]["ratio"] for x in logs.values()])
        change = "" if p == base else _over([_change(x, p, base) for x in logs.values()])
        out.append(["all busy logs", p, "", change, f"{np.median(r):.2f} ({r.max():.2f})", _kept(list(r))])
    return out


def parts(s: Study, every: dict, left: str) -> Section:
    """What each part brings, beside fcfs+easy."""
    every = _followed(every)
    known = next(iter(every.values()))["run on"]["rows"]
    ours = [n for n in _parts() if n in known]
    rows = []
    for name, x in every.items():
        for way in ("run on", "ended"):
            if way in x:
                label = f"{name}; {way}" if "ended" in x else name
                rows += _rows_of(label, x[way], ["fcfs+easy", *ours], "fcfs+easy")
    busy = {n: x["run on"] for n, x in (_busy(every) or every).items()}
    return s.section("What each part brings", [*_pooled_rows(busy, ["fcfs+easy", *ours], "fcfs+easy"), *rows], bound=PROMISE)


def against(s: Study, every: dict, left: str) -> Section:
    """`jobwise` against the fair rules, on jobs after each origin."""
    rows = []
    for name, x in every.items():
        for way in ("run on", "ended"):
            if way in x:
                label = f"{name}; {way}" if "ended" in x else name
                rows.append([label, *_against(x[way])])
    for way in ("run on", "ended"):
        logs = {n: x.get(way, x["run on"]) for n, x in _busy(every).items()}
        if logs and any(way in x for x in every.values()):
            changes = [_over([_change(x, "jobwise", base) for x in logs.values()]) for base in (FAIR, PLAIN, FIXED)]
            kept = [_kept(sum((x["rows"][n]["ratio"] for x in logs.values()), [])) for n in ("jobwise", FAIR, PLAIN, FIXED)]
            cells = [cell for pair in zip(changes, kept[1:], strict=True) for cell in pair]
            rows.append([f"all busy logs; {way}", "", kept[0], *cells])
    return s.section("Against the rules that did best before", rows, bound=PROMISE)


def _against(x: dict) -> list:
    """Return the slowdown of `jobwise`, how often it keeps the bound, its change against each baseline, how often that does."""
    out: list = [f"{x['rows']['jobwise']['mean']:.1f}", _kept(x["rows"]["jobwise"]["ratio"])]
    for base in (FAIR, PLAIN, FIXED):
        out += [_change(x, "jobwise", base), _kept(x["rows"][base]["ratio"])]
    return out


def in_hindsight(s: Study, every: dict, left: str) -> Section:
    """Name the rules that were chosen."""
    rows = []
    for name, x in _followed(every).items():
        chosen = x["run on"]["chosen"]
        rows.append(
            [name, ", ".join(dict.fromkeys(chosen["fair"])), ", ".join(dict.fromkeys(chosen["plain"])), chosen["fixed"]]
        )
    return s.section("The rules that were chosen", rows)

"""How often is the bound on waits kept on a log that did not choose the constants? Each log is left out once: the lane and the
deadline of `jobwise` are chosen anew on the others, and judged on it."""

from __future__ import annotations

from functools import partial

import numpy as np

from jobwise.compare import windows
from jobwise.metrics import wait
from jobwise.parallel import Shared, current
from jobwise.policies.recommended import LANE, PROMISE
from jobwise.report.sections import Section
from jobwise.simulate import simulate
from jobwise.workload import Workload
from jobwise.workloads.transform import first, shake
from jobwise_experiments.promise import DEEP, LOGS, cells_of
from jobwise_experiments.study import Study

LANES, DEADLINES = (0.005, 0.01, 0.02, 0.05), (1.0, 1.1, 1.2, 1.3)
KEPT = 0.94  # share of the cells of the other logs that must be within PROMISE: what `jobwise` reaches on all of them
REPLICAS = 3


def study(s: Study) -> list[Section]:
    """Replay every log under every choice of constants, then choose without each log."""
    there = [n for n in s.pick(LOGS[:3], LOGS, LOGS) if s.logs and any(p.name.startswith(n) for p in s.logs.glob("*"))]
    every: dict[str, dict[str, dict]] = {}
    return s.parts(*(partial(measure, name=n, every=every) for n in there), partial(without, every=every))


def name_of(lane: float, deadline: float) -> str:
    """Return the scheduler with an express lane of this share of the work and deadlines of so many times the longest wait."""
    return f"smith-aged+easy+express{100 * lane:g}%+promise{deadline:g}x"


GRID = {(lane, x): name_of(lane, x) for lane in LANES for x in DEADLINES}


def measure(s: Study, name: str, every: dict) -> list[Section]:
    """Replay a log under all of them: no section of its own."""
    log = s.log(name, smoke=700)
    if name in DEEP:
        log = first(log, min(len(log), DEEP[name]))
    names = list(GRID.values()) if not s.smoke else [name_of(LANE, PROMISE), name_of(0.005, 1.1)]
    every[log.name] = s.piece(f"grid-{log.name}", replayed, log, names, s.pick(1, REPLICAS, REPLICAS))
    return []


def replayed(log: Workload, names: list[str], count: int) -> dict[str, dict]:
    """Return {scheduler: its mean slowdown, the longest waits of each fifth over those of FCFS with EASY so far} of a log, in
    so many time-shifted replicas."""
    replicas = [shake(log, windows.shake_for(log), [0, k]) for k in range(count)]
    longest = [np.maximum.accumulate(wait(simulate(w, "fcfs+easy"))) for w in replicas]
    with current() as workers:
        work = partial(_one, workers.put([log, replicas, longest]))
        return dict(zip(names, workers.map(work, names), strict=True))


def _one(held: Shared, policy: str) -> dict:
    log, replicas, longest = held.get()
    return cells_of(log, policy, replicas, longest)


def chosen(others: list[dict[str, dict]]) -> str:
    """Return the scheduler of the lowest slowdown (geometric mean over logs) among those that keep PROMISE in KEPT of the
    cells; where none does, the one that keeps it most often."""
    kept = {n: kept_in([x[n]["cells"] for x in others]) for n in others[0]}
    slow = {n: float(np.mean([np.log(x[n]["slowdown"]) for x in others])) for n in others[0]}
    careful = [n for n in kept if kept[n] >= KEPT]
    return min(careful, key=lambda n: slow[n]) if careful else max(kept, key=lambda n: (kept[n], -slow[n]))


def kept_in(cells: list) -> float:
    """Return the share of cells within PROMISE."""
    return float((np.concatenate([np.ravel(x) for x in cells]) <= PROMISE).mean())


def without(s: Study, every: dict) -> Section:
    """What is chosen without each log, and what comes of it there, beside the constants of `jobwise`."""
    rows, ours, theirs, name = [], [], [], name_of(LANE, PROMISE)
    labels = {n: f"{100 * lane:g} %, {x:g} times" for (lane, x), n in GRID.items()}
    for log, x in every.items():
        pick = chosen([y for other, y in every.items() if other != log] or [x])
        ours.append(np.ravel(x[name]["cells"]))
        theirs.append(np.ravel(x[pick]["cells"]))
        change = f"{x[pick]['slowdown'] / x[name]['slowdown'] - 1:+.0%}"
        rows.append([log, labels[pick], kept_in(x[pick]["cells"]), float(theirs[-1].max()), kept_in(x[name]["cells"]),
                     float(ours[-1].max()), change])  # fmt: skip
    both = [z for y in (theirs, ours) for z in (kept_in(y), float(np.concatenate(y).max()))]
    rows.append(["all logs", "", *both, ""])
    return s.section(
        "Chosen without the log", rows, grid=len(GRID), kept=KEPT, bound=PROMISE, replicas=s.pick(1, REPLICAS, REPLICAS),
        lanes=", ".join(f"{100 * x:g}" for x in LANES), deadlines=", ".join(f"{x:g}" for x in DEADLINES),
        present=f"{100 * LANE:g} % and {PROMISE:g}",
    )  # fmt: skip

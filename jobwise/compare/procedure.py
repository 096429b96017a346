"""THE comparison: several schedulers on the same jobs, paired, with intervals, in words that claim no more than they carry.

Two replays of a log answer two questions. The *whole* log, replayed continuously, is what a site would have seen: it shows
starvation, but it is one sample of a chaotic system. *Windows* of consecutive jobs (`windows.py`) are many samples that do not
overlap. Both are repeated with submits shifted in time, the same for all; what they carry is the business of `intervals.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from math import inf
from typing import Any, cast

import numpy as np

from jobwise.compare import bounds, energy, windows
from jobwise.compare.baselines import Baselines
from jobwise.compare.comparison import REPLAYS, Comparison
from jobwise.decision import Policy
from jobwise.errors import InputError
from jobwise.parallel import Shared, current
from jobwise.policies.files import short
from jobwise.policies.names import resolve
from jobwise.policies.scheduler import Scheduler
from jobwise.record import Record
from jobwise.simulate import simulate
from jobwise.workload import Workload
from jobwise.workloads.transform import overruns, shake

SHORT = 100  # jobs of a window
BEFORE, HINDSIGHT = "best rule of the earlier jobs", "best rule in hindsight"  # marks of rules that join


def compare(
    workload: Workload,
    policies: Sequence[str | Policy],
    *,
    since: float = 0.0,
    until: float = 1.0,
    max_wait: float = inf,
    window_jobs: int | None = None,
    replicas: int = 8,
    jitter_s: float | None = None,
    seed: int = 0,
    kill_at_walltime: bool = False,
    restart_cost_s: float = 0.0,
    hindsight: bool | Baselines = True,
    earlier: Baselines | bool = True,
    trade_off: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Comparison:
    """Compare schedulers on the same jobs: in one continuous replay of a log and on consecutive windows of it.

    Parameters
    ----------
    workload : Workload
        The log.
    policies : sequence of str or Policy
        The schedulers; the first is the reference.
    since, until : float
        Judge on the jobs between these shares of the log alone. With `since` > 0 the rule that was best on the jobs before
        joins as the fair best, and, unless `hindsight` is False, the rule that is best on the judged jobs.
    max_wait : float
        Those two are chosen among rules whose longest wait is at most this multiple of that of FCFS with EASY.
    window_jobs : int, optional
        Jobs of a window; by default 1,024, fewer where the log is short.
    replicas : int
        Replicas of each window, and of the whole, whose submits are moved at random, for all schedulers alike; 0: as logged.
    jitter_s : float, s, optional
        By at most so much; by default as the log's gaps suggest (`windows.shake_for`).
    seed : int
        Of what is drawn.
    kill_at_walltime, restart_cost_s
        As of `simulate`.
    hindsight, earlier : bool or Baselines
        What rules did on the judged jobs, and on the jobs before, where that is known; False: such rules do not join.
    trade_off : bool
        Also replay each scheduler that may have start deadlines under several bounds (`Comparison.curves`).
    progress : callable, optional
        Called now and then with (replays done, replays; 0 while rules are searched: their number is unknown).

    Returns
    -------
    Comparison
        ``verdict(p)`` says in words what is known of policy p against the reference; ``write_report(path)`` writes a page.

    Raises
    ------
    InputError
        A policy is unknown, named twice, or cannot schedule the cluster; a setting cannot be.
    """
    chosen, names = _named(policies)
    first, last, size = _rows(workload, since, until, max_wait, window_jobs, replicas, jitter_s)
    part = workload.take(slice(first, last)) if (first, last) != (0, len(workload)) else workload
    jitter_s = windows.shake_for(part) if jitter_s is None and replicas else jitter_s or 0.0
    rows = windows.begins(first, last, size)
    settings = {"kill_at_walltime": kill_at_walltime, "restart_cost_s": restart_cost_s, "seed": seed}
    replays, done, total = min(replicas, REPLAYS), 0, 0

    def report(count: int = 1) -> None:
        nonlocal done
        done += count
        if progress:
            progress(done, total)

    marks: dict[str, list[str]] = {}
    if first > 0 and earlier is not False:
        shared = {"replicas": replicas, "jitter_s": jitter_s, "progress": lambda count: report(), **settings}
        marks = _joining(workload, first, last, size, max_wait, replays, earlier, hindsight, shared)
        for name in marks:
            if name not in names:
                chosen.append(resolve(name))
                names.append(name)

    done, total = 0, len(chosen) * (len(rows) + 1)
    shaking = (replicas, jitter_s, seed)
    logs = [part, *(shake(part, jitter_s, [seed, k]) for k in range(replays))]
    records, summaries, in_time, costs, table = _measured(workload, logs, chosen, rows, size, shaking, settings, report)
    fair = next((p for p, n in enumerate(names) if any(m.startswith(BEFORE) for m in marks.get(n, []))), None)
    cautions = tuple(_cautions(chosen, names))
    drawn = bounds.curves(logs[1:] or logs, chosen, names, summaries[0], settings) if trade_off else {}
    return Comparison(
        workload=part,
        policies=names,
        windows=table,
        blocks=np.array(in_time)[:, :, 0],
        weighted=np.array(in_time)[:, :, 1],
        spent={key: np.array([[one[key] for one in runs] for runs in costs]) for key in costs[0][0]},
        replays=[list(x) for x in summaries],
        logged=[r.summary() for r in records],
        first_row=rows - first,
        window_jobs=size,
        replicas=replicas,
        jitter_s=jitter_s,
        records=list(records),
        marks=[", ".join(marks.get(n, [])) for n in names],
        fair=fair,
        joined=len(names) - len(policies),
        bound=max_wait,
        notes=(*cautions, *_notes(part, chosen, names, size, kill_at_walltime)),
        cautions=cautions,
        curves=drawn,
    )


def _named(policies: Sequence[str | Policy]) -> tuple[list[Scheduler], list[str]]:
    if len(policies) < 1:
        raise InputError("a comparison needs at least one policy")
    chosen = [resolve(p) for p in policies]
    names = [p.name for p in chosen]
    if len(set(names)) < len(names):
        twice = next(n for n in names if names.count(n) > 1)
        raise InputError(f"policy {twice} is named twice")
    return chosen, names


def _measured(
    workload: Workload,
    logs: list[Workload],
    chosen: Sequence[Scheduler],
    rows: np.ndarray,
    size: int,
    shaking: tuple[int, float, int],
    settings: dict,
    report: Callable[..., None],
) -> tuple[Sequence, Sequence, Sequence, Sequence, dict[str, np.ndarray]]:
    """(records as logged, summaries of every replay, their measures and costs over time, metric -> [P, W, K] of windows ×
    replicas). `logs`: the judged jobs as logged, then time-shifted; `shaking`: replicas, jitter_s, seed of windows."""
    compiled = all(p.is_compiled(workload.cluster) for p in chosen)
    blocks = max(len(rows) // 2, 1)  # long blocks: congestion lasts
    with current() as workers:
        policies = workers.put(list(chosen))
        work = partial(_continuous, workers.put(logs), policies, blocks, settings)
        logged, summaries, in_time, costs = zip(*workers.map(work, range(len(chosen)), report, compiled), strict=True)
        judge = partial(_window, workers.put(workload), policies, (size, *shaking), settings)
        per_window = workers.map(judge, map(int, rows), lambda count: report(count * len(chosen)), compiled)
    records = [replace(r, workload=logs[0]) for r in logged]
    table = {m: np.array([[[x[m] for x in one[p]] for one in per_window] for p in range(len(chosen))]) for m in windows.NUMBERS}
    return records, summaries, in_time, costs, table


def _continuous(
    logs: Shared, policies: Shared, blocks: int, settings: dict, p: int
) -> tuple[Record, list[dict[str, float]], list[np.ndarray], list[dict[str, np.ndarray]]]:
    """(the record of the jobs as logged, the summaries of all logs, their bounded slowdowns and area-weighted response times
    over time [2, B], what they cost over time [B] by name) under policy p."""
    policy = policies.get()[p]
    logged, *records = (simulate(x, policy, **settings) for x in logs.get())
    records = records or [logged]
    alone = replace(logged, workload=cast(Any, None))  # the driver has it
    in_time = [np.stack([windows.in_time(r, blocks), windows.weighted_in_time(r, blocks)]) for r in records]
    return alone, [r.summary() for r in records], in_time, [energy.spent(r, blocks) for r in records]


def _window(
    log: Shared, policies: Shared, how: tuple[int, int, float, int], settings: dict, row: int
) -> list[list[dict[str, float]]]:
    """The numbers of each policy in the logs of the window from `row`; `how` these are made, as `windows.shifted` takes
    it."""
    logs = windows.shifted(log.get(), row, *how)
    return [[windows.numbers(simulate(x, p, **settings)) for x in logs] for p in policies.get()]


def _joining(
    workload: Workload,
    first: int,
    last: int,
    size: int,
    max_wait: float,
    replays: int,
    earlier: Baselines | bool,
    hindsight: Baselines | bool,
    shared: dict,
) -> dict[str, list[str]]:
    """Rules that join a comparison of rows `first` .. `last` - 1 -> their marks: the best of the rows before, the best in
    hindsight. `shared`: settings of Baselines."""
    known = earlier if isinstance(earlier, Baselines) else Baselines(workload, 0, first, min(size, first), **shared)
    parts = [(BEFORE, known, first)]
    if hindsight:
        these = hindsight if isinstance(hindsight, Baselines) else Baselines(workload, first, last, size, **shared)
        parts.append((HINDSIGHT, these, last))
    marks: dict[str, list[str]] = {}
    for mark, rules, before in parts:
        bound = f" within {max_wait:g}x" if max_wait < inf else ""
        marks.setdefault(_best(rules, max_wait, replays, before), []).append(mark + bound)
    return marks


def _rows(
    workload: Workload,
    since: float,
    until: float,
    max_wait: float,
    window_jobs: int | None,
    replicas: int,
    jitter_s: float | None,
) -> tuple[int, int, int]:
    """(first row, the row behind the last, jobs in a window) of a comparison. Raises InputError for settings that cannot be."""
    if replicas < 0 or not max_wait >= 1:
        raise InputError(f"replicas are 0 or more, and a bound on waits is 1 or more, not {replicas} and {max_wait:g}")
    if jitter_s and not replicas:
        raise InputError("without replicas nothing is moved: leave jitter_s out, or ask for replicas")
    first, last = int(since * len(workload)), int(round(until * len(workload)))
    if not 0 <= since < until <= 1 or last - first < 1 or (since > 0 and first < 2):
        raise InputError(f"{workload.name}: shares {since:g} to {until:g} of {len(workload)} jobs hold none")
    if window_jobs is not None and not 2 <= window_jobs <= last - first:
        raise InputError(f"a window of {window_jobs} jobs does not fit {last - first} jobs")
    return first, last, window_jobs or windows.size_for(last - first)


def _best(b: Baselines, max_wait: float, replays: int, before: int) -> str:
    if max_wait < inf:
        b.shortlist_bounded(max_wait, replays)
        return b.best_within(max_wait, replays)
    if not b.windows:
        b.shortlist()
    return b.best(before)


def _cautions(chosen: Sequence[Scheduler], names: Sequence[str]) -> list[str]:
    """Name the policies that were trained for a short time."""
    trainings = [(name, short(p.about)) for p, name in zip(chosen, names, strict=True)]
    return [f"{name} {text}" for name, text in trainings if text]


def _notes(w: Workload, chosen: Sequence[Scheduler], names: Sequence[str], size: int, kill: bool) -> list[str]:
    """What must be said of a comparison: policies that were trained on these jobs, short windows, jobs that
    outlive their requests."""
    from jobwise.compare.fingerprint import flattered

    notes = []
    for p, name in zip(chosen, names, strict=True):
        notes += [note for note in (flattered(w, p, name), p.assumes(w)) if note]
    if (w.jobs["flow"] >= 0).any():
        notes.append(
            "jobs are tasks of workflows: their waits count from the arrival of the workflow; `simulate` measures workflows"
        )
    if size < SHORT:
        notes.append(f"windows of {size} jobs are short: a long queue does not build up in them")
    over = overruns(w)
    if over > 0.05:
        how = (
            "are ended at their request (--end-at-limit)"
            if kill
            else "run on; --end-at-limit ends them, and may change who is best"
        )
        notes.append(f"{over:.0%} of the jobs outlive their requested time; here they {how}")
    return notes


def both_ways(workload: Workload, policies: Sequence[str | Policy], **settings: Any) -> tuple[Comparison, Comparison | None]:
    """The comparison, and, where more than 5 % of the jobs outlive their request, the same with jobs ended at it (or, where
    `kill_at_walltime` is set, with jobs that run on)."""
    c = compare(workload, policies, **settings)
    if overruns(c.workload) <= 0.05:
        return c, None
    joined = [n for n in c.policies if n not in {p.name for p in map(resolve, policies)}]
    kill = not settings.pop("kill_at_walltime", False)
    changed = settings | {"kill_at_walltime": kill, "earlier": False, "jitter_s": c.jitter_s or None, "trade_off": False}
    other = compare(workload, [*policies, *joined], **changed)  # the same rules: chosen as the first way has it
    return c, replace(other, marks=c.marks, fair=c.fair, joined=c.joined)

"""The result of a comparison."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import inf
from pathlib import Path
from typing import Any

import numpy as np

from jobwise import metrics
from jobwise.compare.answer import answer
from jobwise.compare.comparison import LONGER, Comparison, conventions
from jobwise.errors import InputError
from jobwise.report import page
from jobwise.report.result import Progress, Result
from jobwise.report.sections import Cell, Column, Figure, Section, Table
from jobwise.workload import Workload
from jobwise.workloads.transform import date, recorded, span, statistics

THRESHOLD_H = 24.0  # waits beyond it are counted as starvation
NARROW, WIDE = 110, 175  # columns of a terminal: below the first, and from the second on, tables look different


def result(
    c: Comparison,
    *,
    verdicts: Sequence[str] = (),
    other: Comparison | None = None,
    beside: str = "",
    ours: int | None = None,
    day: float | None = None,
    curve: str | Path | None = None,
    data: dict | None = None,
) -> Result:
    """Return the result of comparison `c`. `verdicts`: sentences about a trained policy, which are the answer then.

    `other`: the same policies with jobs ended at their request (or not), and `beside` what that would change, in a sentence.
    `ours`: the policy that a report is about. `day`: that of its Gantt chart (default: the one with the longest queue).
    `curve`: the `metrics.jsonl` of a training run, to be drawn. `data`: more numbers. Raises InputError for a day outside the
    log.
    """
    w = c.workload
    check_day(w, day)
    marks = [f"{name}: {mark}" for name, mark in zip(c.policies, c.marks, strict=True) if mark]
    notes = [f"note: {n}" for n in c.notes if n not in c.cautions and not (beside and "outlive" in n)]  # it says more of that
    return Result(
        title=f"{w.name}: what other schedulers would have done",
        head=f"{w.name}: {len(w):,} jobs (left out: {w.left_out})",
        answer=list(verdicts or answer(c)),
        cautions=[f"Note: {n}." for n in c.cautions],
        tables=[_table(c)],
        after=[*marks, *([beside] if beside else [])],
        notes=[*notes, _columns(c)],
        data=lambda: c.to_dict() | ({"other_way": other.to_dict()} if other else {}) | (data or {}),
        facts=_facts(c),
        sections=partial(_sections, c, other, beside, ours, day, curve),
        steps=_steps(c) if ours is None or not verdicts else STEPS_OF_OURS,
    )


def check_day(w: Workload, day: float | None) -> None:
    """Raises InputError for a day that is not in the log."""
    if day is not None and not 0 <= day * 86400 <= float(w.jobs["submit"][-1]):
        raise InputError(f"day {day:g} is not in the log; it has days 0 to {w.jobs['submit'][-1] / 86400:.0f}")


def write_report(
    c: Comparison, path: str | Path, *, force: bool = False, progress: Progress | None = None, **settings: Any
) -> None:
    """Write the report of a comparison; settings as `result`. Raises InputError where the file cannot be written, or exists and
    `force` is not set."""
    page.write(result(c, **settings), path, force=force, progress=progress)


STEPS_OF_OURS = (
    "Look at what it chooses, and why: jobwise explain RUN LOG --choice 100",
    "Let it stop short of starving anybody: jobwise compare LOG -p fcfs+easy -p RUN+guard24h",
    "Train more seeds, or for longer, and judge again: jobwise train SYSTEM LOG --seeds 5 --preset paper --out RUN2",
)


def _steps(c: Comparison) -> list[str]:
    """What a reader may do next."""
    if not c.queues:
        return ["Look at a busier log, or at this one with more load: jobwise compare LOG --load 0.9"]
    steps = []
    if c.bound == inf:
        steps.append(
            "Decide how long the unluckiest job may wait, and judge on later jobs alone what kept it on earlier ones: jobwise "
            f"compare LOG --split 0.7 --max-wait {LONGER:g}x -p {c.policies[0]} -p jobwise"
        )
    if c.shakes == 0:
        steps.append("See whether the differences outlast small shifts of the submits: --shakes 5")
    steps.append(
        "Look at a single choice, and at why each job had its place: jobwise explain "
        f"{c.policies[min(1, len(c.policies) - 1)]} LOG --choice 100"
    )
    if c.workload.cluster.site is None:
        steps.append("Put the same question to your Slurm, with its partitions, limits and priorities: jobwise slurm site")
    return steps


# ------------------------------------------------------------------ on a terminal


def _hours(seconds: float) -> str:
    return f"{seconds / 3600:,.1f}" if seconds < 1e6 else f"{seconds / 3600:,.0f}"


def _several(count: int, what: str) -> str:
    return f"{count:,} {what}{'s' * (count != 1)}"


def _columns(c: Comparison) -> str:
    """What the columns of the table mean."""
    each = f", {_several(c.shakes, 'time-shifted replica')} each" if c.shakes else ""
    windows = f"{len(c.first_row)} windows of {c.window_jobs:,} jobs{each}"
    replays = f"mean of {_several(len(c.replays[0]), 'time-shifted replay')}" if c.shakes else "as logged"
    base = c.policies[0]
    return (
        f"windows: mean bounded slowdown (tau 10 s) over {windows}; change: geometric mean against {base}, 95 % interval over "
        f"blocks of two windows; !: claimed (Holm, 5 %). whole: the same of the whole log in one replay, {replays}; max h: its "
        f"longest wait; x first: largest multiple of that of {base} in these and as logged; *: no other is better on both."
    )


COLUMNS = (
    Column("scheduler"),
    Column("windows"),
    Column("change [95 %]"),
    Column("of the mean", WIDE),
    Column("largest", WIDE),
    Column("rank", WIDE),
    Column("won/tied/lost", WIDE),
    Column("whole"),
    Column("wait h", NARROW),
    Column("p99 h", WIDE),
    Column("max h"),
    Column("x first", NARROW),
    Column("x first", below=NARROW),
    Column("use", WIDE),
)


def _table(c: Comparison) -> Table:
    """The table of a comparison, with the columns of every width of a terminal."""
    ranks, pareto, claimed, rows = c.ranks(), c.pareto(), c.claimed, []
    for p, name in enumerate(c.policies):
        x, e, t, s = c.windows["bounded_slowdown"][p], c.change(p), c.totals(p), c.whole[p]
        _, least, most = c.waits(p)
        over = f"{most:.2f}" if most < 100 else f"{most:,.0f}"
        row = [name + " *" * (p in pareto), f"{x.mean():,.2f}", "reference" if p == 0 else e.text() + " !" * claimed[p]]
        row += ["" if p == 0 else t.text(), f"{t.share:.0%}", f"{ranks[p]:.1f}", "/".join(map(str, c.wins(p))) if p else ""]
        row += [f"{s['bounded_slowdown']:,.2f}", _hours(s["wait"]), _hours(s["p99_wait"]), _hours(s["max_wait"])]
        row += ["", ""] if p == 0 else [over if not c.shakes else f"{least:.2f}-{over}", over]
        rows.append([*row, f"{s['utilisation']:.3f}"])
    if site := recorded(c.workload):
        row = ["as recorded", *[""] * 6, f"{site['bounded_slowdown']:,.2f}", _hours(site["wait"]), "", _hours(site["max_wait"])]
        rows.append([*row, "", "", ""])
    return Table(COLUMNS, rows)


# ------------------------------------------------------------------ in a report


def _facts(c: Comparison) -> list[tuple[str, str]]:
    s, begins, ends = statistics(c.workload), date(c.workload, 0.0), date(c.workload, span(c.workload))
    facts = [
        ("jobs", f"{len(c.workload):,}"),
        ("machine", c.workload.cluster.words),
        ("users", f"{s['users']:,.0f}"),
        ("days", f"{s['span_days']:,.0f}"),
    ]
    facts += [("from", begins[:10]), ("to", ends[:10])] if begins else []
    windows = f"{len(c.first_row)} × {c.window_jobs:,} jobs"
    return [*facts, ("offered load", f"{s['load']:.2f}"), ("windows", windows)]


def _sections(
    c: Comparison,
    other: Comparison | None,
    beside: str,
    ours: int | None,
    day: float | None,
    curve: str | Path | None,
    progress: Progress | None,
) -> list[Section]:
    from jobwise.report import figures
    from jobwise.report.gantt import busiest, gantt

    best = min(range(len(c.policies)), key=lambda p: c.whole[p]["bounded_slowdown"]) if ours is None else ours
    day = busiest(c.records[0]) if day is None else day
    shown = [] if c.workload.cluster.topology else [0] if best == 0 else [0, best]
    users = [partial(figures.by_class, c, "user")] if len(np.unique(c.workload.jobs["user"])) > 1 else []
    when, days = date(c.workload, day * 86400)[:10], statistics(c.workload)["span_days"] / 160
    several = len(c.policies) > 1
    drawn: list[tuple[Section, Sequence[Callable[[], str | Figure]]]] = [
        (Section("The trade-off", TRADE_OFF), [partial(figures.trade_off, c)]),
        (_compared(c, beside, figures.colour), [partial(figures.changes, c)] if several else []),
        *([(_other(other, figures.colour), [])] if other else []),
        *([(_bounds(c), [partial(figures.bounds, c)])] if c.curves else []),
        (Section("Starvation", "Continuous replay of the whole log, as logged.", [_starvation(c)]), []),
        *([(_winners(c), [partial(figures.winners, c)])] if several else []),
        (Section("Over time", OVER_TIME.format(days)), [partial(figures.over_time, c)]),
        (Section("Distribution of bounded slowdown", DISTRIBUTION), [partial(figures.distribution, c)]),
        (
            Section("Waits by class of job", CLASSES + USERS * len(users)),
            [*(partial(figures.by_class, c, by) for by in ("size", "run time")), *users],
        ),
        (
            Section("A day on the machine", DAY.format(f"{day:g}" + f", {when}" * bool(when))),
            [partial(gantt, c.records[p], day, c.policies[p]) for p in shown],
        ),
        *([(Section("How it was learnt", LEARNT), [partial(figures.learning, curve)])] if curve is not None else []),
        (Section("Conventions", "", items=conventions(c)), []),
    ]  # fmt: skip
    done, total = 0, sum(len(steps) for _, steps in drawn)
    for section, steps in drawn:
        for draw in steps:
            section.figures = [*section.figures, draw()]
            done += 1
            if progress:
                progress(done, total)
    return [section for section, _ in drawn]


TRADE_OFF = (
    "Bounded slowdown is (wait + run) / run, of runs of at least 10 s: 1 is no wait. Low slowdown is easily "
    "bought with the starvation of large jobs. Down and to the left is better on both; the dashed line "
    "joins what no other scheduler beats on both axes. Diamond: the reference."
)
BOUNDS = (
    "Each scheduler that may have a promise, without its guard, under several bounds: a job goes ahead of others only "
    "while all can start within so many times the longest wait under fcfs+easy so far. A point is a bound; x: the largest "
    "multiple of the first scheduler's longest wait over all replays. Choose a bound knowing its price."
)
OVER_TIME = "Share of processors in use, and jobs waiting, while jobs arrive (averages over {:.1f} days)."
DISTRIBUTION = "A curve further left is better; its right end is who suffers most."
CLASSES, USERS = "By size, by run time", ", and by the users with the most processor time"
DAY = (
    "Day {}; each rectangle is a job, its colour how long it had waited. Processors are numbered as if the lowest free were "
    "taken first. In a browser the chart shows any job that one points at, and the three days before and after."
)
LEARNT = (
    "Score on windows kept back from training (the geometric mean of the mean and of the geometric mean of bounded slowdown; "
    "smaller is better), on jobs before those compared here; the rule has the same guard. Of a network the best point became "
    "the policy; of a search the mean of its last generations, if it was better than the order it began at."
)


def _bounds(c: Comparison) -> Section:
    bounds = [f"{x.bound:g}" for x in next(iter(c.curves.values()))]
    rows = [
        [n, *(f"{x.bounded_slowdown:,.1f} / {_hours(x.max_wait)} h / {x.largest:.2f} x" for x in y)]
        for n, y in c.curves.items()
    ]
    return Section("What a bound on waits costs", BOUNDS, [Table(["slowdown / longest wait / x", *bounds], rows)])


def _compared(c: Comparison, beside: str, colour: Callable[[int], str]) -> Section:
    verdicts = [c.verdict(p) for p in range(1, len(c.policies))]
    return Section("The comparison", beside, _tables(c, colour), items=[*verdicts, *(f"Note: {n}." for n in c.notes)])


def _other(other: Comparison, colour: Callable[[int], str]) -> Section:
    title = "The same, jobs that outlive their request treated the other way"
    return Section(title, "", _tables(other, colour), folded=True)


def _tables(c: Comparison, colour: Callable[[int], str]) -> list[Table]:
    """On windows, and in the continuous replay."""
    whole, ranks, pareto, claimed = c.whole, c.ranks(), c.pareto(), c.claimed
    windows: list[list[str | Cell]] = []
    continuous: list[list[str | Cell]] = []
    for p, name in enumerate(c.policies):
        e, t, first, s = c.change(p), c.totals(p), p == 0, whole[p]
        tone = ("better" if e.change < 0 else "worse") if claimed[p] else "open"
        row: list[str | Cell] = [
            Cell(name, colour=colour(p), small=c.marks[p]),
            f"{c.windows['bounded_slowdown'][p].mean():,.2f}",
        ]
        row += [Cell("reference" if first else e.text(), tone), "" if first else t.text(), f"{t.share:.0%}"]
        windows.append([*row, f"{ranks[p]:.1f}", "" if first else "/".join(map(str, c.wins(p)))])
        middle, least, most = c.waits(p)
        times = f"{middle:.2f} ({least:.2f}–{most:.2f})" if c.shakes else f"{middle:.2f}"
        row = [Cell(name + " *" * (p in pareto), colour=colour(p)), f"{c.logged[p]['bounded_slowdown']:,.2f}"]
        row += [f"{s['bounded_slowdown']:,.2f}", "reference" if first else c.change_whole(p).text()]
        row += [f"{s[k] / 3600:,.1f}" for k in ("wait", "p99_wait", "max_wait")]
        continuous.append([*row, "" if first else times, f"{s['utilisation']:.3f}"])
    if site := recorded(c.workload):
        row = ["as recorded by the site", f"{site['bounded_slowdown']:,.2f}", "", "", f"{site['wait'] / 3600:,.1f}", ""]
        continuous.append([*row, f"{site['max_wait'] / 3600:,.1f}", "", ""])
    shifted = f", means of {c.shakes} time-shifted replicas" if c.shakes else ""
    note = (
        f"Bounded slowdown in {len(c.first_row)} windows of {c.window_jobs:,} jobs{shifted}. Change: geometric mean, 95 % over "
        "blocks of two windows; coloured where it may be claimed. Largest: share of the largest window in the totals. Rank: "
        "mean place over windows. Won/tied/lost: windows against the reference."
    )
    replays = ": as logged, and means of time-shifted replays" if c.shakes else ""
    whole_note = (
        f"As the site would have seen it{replays}. The last but one column: longest wait as a multiple of that of "
        f"{c.policies[0]}, with its range. * no other is better on both slowdown and longest wait."
    )
    heads = ["scheduler", "mean", "change [95 %]", "change of the mean", "largest", "rank", "won/tied/lost"]
    ends = [
        "scheduler",
        "slowdown, as logged",
        "time-shifted" if c.shakes else "same",
        "change [95 %]",
        "mean wait h",
        "p99 wait h",
    ]
    return [
        Table(heads, windows, "Windows", note),
        Table([*ends, "longest h", "times the first's", "use"], continuous, "The whole log in one replay", whole_note),
    ]


def _starvation(c: Comparison) -> Table:
    rows = []
    for p, name in enumerate(c.policies):
        r = c.records[p]
        w = metrics.wait(r) / 3600
        late = np.flatnonzero(metrics.ran(r))[np.argmax(w)]
        job = f"job {late}: {r.jobs['request'][late, 0]:,} processors, {r.jobs['walltime'][late] / 3600:.1f} h requested"
        when = date(c.workload, float(r.jobs["submit"][late]))[:10]
        over = w > THRESHOLD_H
        row = [name, f"{w.max():,.1f}", f"{np.quantile(w, 0.99):,.1f}", f"{over.sum():,}", f"{over.mean():.2%}"]
        rows.append([*row, job + f", submitted {when}" * bool(when)])
    heads = ["scheduler", "longest wait h", "p99 wait h", f"jobs over {THRESHOLD_H:g} h", "share"]
    return Table([*heads, "the one that waited longest"], rows)


def _winners(c: Comparison) -> Section:
    rows: list[list[str | Cell]] = []
    for p in range(1, len(c.policies)):
        gain, loss = _moved(c, p)
        better, worse = "better" if gain[0] < 0 else "open", "worse" if loss[0] > 0 else "open"
        rows.append([c.policies[p], gain[1], Cell(f"{gain[0]:+,.1f}", better), loss[1], Cell(f"{loss[0]:+,.1f}", worse)])
    heads = ["scheduler", "gains most", "mean wait, h", "loses most", "mean wait, h"]
    text = f"Job by job against {c.policies[0]}, continuous replay, and the classes of jobs whose mean wait changes most."
    return Section("Who wins, who loses", text, [Table(heads, rows)])


def _moved(c: Comparison, p: int) -> tuple[tuple[float, str], tuple[float, str]]:
    """Which class of jobs gains and loses most against the first policy."""
    rows = []
    for by in ("size", "run time", "user"):
        base = {x["class"]: x for x in metrics.breakdown(c.records[0], by)}
        for x in metrics.breakdown(c.records[p], by):
            if x["class"] in base and x["jobs"] >= max(10, 0.002 * len(c.workload)):
                rows.append(((x["wait"] - base[x["class"]]["wait"]) / 3600, f"{by} {x['class']}".replace("user user", "user")))
    return min(rows, default=(0.0, "-")), max(rows, default=(0.0, "-"))

"""The result of a comparison."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import inf
from pathlib import Path
from typing import Any, cast

import numpy as np

from jobwise import metrics
from jobwise.compare import energy
from jobwise.compare.answer import answer
from jobwise.compare.comparison import BETTER, HEADS, LONGER, WORSE, Comparison, conventions, hours, several
from jobwise.compare.shifting import HEADS as SHIFTING
from jobwise.compare.shifting import Shifted
from jobwise.errors import InputError
from jobwise.power.energy import remarks
from jobwise.report import page
from jobwise.report.result import Progress, Result
from jobwise.report.sections import Cell, Figure, Section, Table
from jobwise.workload import Workload
from jobwise.workloads.transform import date, recorded, span, statistics

THRESHOLD_H = metrics.DAY_S / 3600  # waits beyond it are counted as starvation


def result(
    c: Comparison,
    *,
    learnt: Sequence[int] = (),
    other: Comparison | None = None,
    ended: bool = False,
    system: str = "",
    day: float | None = None,
    curve: str | Path | None = None,
    data: dict | None = None,
    everything: bool = False,
    shifted: Sequence[Shifted] = (),
) -> Result:
    """Return the result of comparison `c`.

    Parameters
    ----------
    c : Comparison
        What was compared.
    learnt : sequence of int
        The places of learnt schedulers; the answer and the report are about the last one.
    other : Comparison, optional
        The same schedulers with jobs ended at their request, or not.
    ended : bool
        Are jobs ended at their request in `c`?
    system : str
        The system that the learnt scheduler was trained by; "" for a rule, which cannot be trained.
    day : float, days, optional
        Day of the Gantt chart; by default the one with the longest queue.
    curve : path, optional
        The `metrics.jsonl` of a training run, to be drawn.
    data : dict, optional
        More numbers, for JSON.
    everything : bool
        Show on a terminal what else there is: means as logged, windows, ranks.
    shifted : sequence of Shifted
        Policies that hold jobs for cheaper hours, beside nothing done, power-down alone and the oracle.

    Raises
    ------
    InputError
        The day lies outside the log.
    """
    check_day(c.workload, day)
    marks = [f"{name}: {mark}" for name, mark in zip(c.policies, c.marks, strict=True) if mark]
    notes = [f"note: {n}" for n in c.notes if n not in c.cautions and not (other and "outlive" in n)]  # the answer says it
    said = answer(c, learnt, other, ended)
    ours = learnt[-1] if learnt else None
    return Result(
        title=f"{c.workload.name}: what other schedulers would have done",
        head=c.compared + (f" Left out: {c.workload.left_out}." if c.workload.dropped else ""),
        answer=[*said, *(x.sentence() for x in shifted)],
        cautions=[f"Note: {n}." for n in c.cautions],
        tables=[Table(HEADS, c.rows(), left=1), *_energy(c), *_shifting(shifted), *(_more(c) if everything else [])],
        after=marks,
        notes=[
            *notes,
            *(remarks(c.records[0]) if c.spent else []),
            COLUMNS.format(c.policies[0]),
            *([RECORDED] if recorded(c.workload) else []),
        ],
        data=lambda: (
            c.to_dict()
            | ({"other_way": other.to_dict()} if other else {})
            | (data or {})
            | ({"shifting": [x.to_dict() for x in shifted]} if shifted else {})
        ),
        sections=partial(_sections, c, other, said, ours, day, curve, shifted),
        steps=_steps(c) if ours is None else [*STEPS_OF_OURS, *([TRAIN.format(system)] if system else [])],
    )


RECORDED = "as recorded: under the site's own rules (partitions, limits, reservations), which are not replayed here"
COLUMNS = (
    "slowdown: (wait + run) / run, run at least 10 s; typical change: against {} in a typical block of time, with its 95 % "
    "interval; "
    "--all: windows, replicas, ranks"
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
)
TRAIN = "Train more seeds, or for longer, and judge again: jobwise train {} LOG --seeds 5 --preset paper --out RUN2"


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
    if c.replicas == 0:
        steps.append("See whether the differences outlast small shifts of the submits: --replicas 5")
    steps.append(
        "Look at a single choice, and at why each job had its place: jobwise explain "
        f"{c.policies[min(1, len(c.policies) - 1)]} LOG --choice 100"
    )
    if c.workload.cluster.site is None:
        steps.append("Put the same question to your Slurm, with its partitions, limits and priorities: jobwise slurm site")
    return steps


# ------------------------------------------------------------------ in a report


def _facts(c: Comparison) -> Section:
    s, begins, ends = statistics(c.workload), date(c.workload, 0.0), date(c.workload, span(c.workload))
    facts = [
        ("jobs", f"{len(c.workload):,}"),
        ("left out", c.workload.left_out),
        ("machine", c.workload.cluster.words),
        ("users", f"{s['users']:,.0f}"),
        ("days", f"{s['span_days']:,.0f}"),
    ]
    facts += [("from", begins[:10]), ("to", ends[:10])] if begins else []
    rows = [*facts, ("offered load", f"{s['load']:.2f}"), ("windows", f"{len(c.first_row)} of {c.window_jobs:,} jobs")]
    why = "how large the log is, and how every number was made"
    return Section("The log and the method", "", [Table(["", ""], rows)], items=conventions(c), folded=True, why=why)


def _sections(
    c: Comparison,
    other: Comparison | None,
    said: Sequence[str],
    ours: int | None,
    day: float | None,
    curve: str | Path | None,
    shifted: Sequence[Shifted],
    progress: Progress | None,
) -> list[Section]:
    from jobwise.report import figures
    from jobwise.report.gantt import busiest, gantt

    best = min(range(len(c.policies)), key=lambda p: c.whole[p]["bounded_slowdown"]) if ours is None else ours
    day = busiest(c.records[0]) if day is None else day
    shown = [] if c.workload.cluster.topology else [0] if best == 0 else [0, best]
    users = [partial(figures.by_class, c, "user")] if len(np.unique(c.workload.jobs["user"])) > 1 else []
    when, days = date(c.workload, day * 86400)[:10], statistics(c.workload)["span_days"] / 160
    drawn: list[tuple[Section, Sequence[Callable[[], str | Figure]]]] = [
        (Section("The trade-off", TRADE_OFF), [partial(figures.trade_off, c)]),
        (_compared(c, said[1:], figures.colour), []),
    ]

    def fold(title: str, text: str, why: str, *draws: Callable[[], str | Figure], tables: Sequence[Table] = ()) -> None:
        drawn.append((Section(title, text, list(tables), folded=True, why=why), draws))

    if len(c.policies) > 1:
        fold("The changes", CHANGES, "how sure each change is", partial(figures.changes, c))
        drawing, text = partial(figures.winners, c), WINNERS.format(c.policies[0])
        fold("Who wins, who loses", text, "which users and sizes gain, and which pay", drawing, tables=[_winners(c)])
    fold("Starvation", STARVATION, "which job waits longest", tables=[_starvation(c)])
    if c.curves:
        fold("What a bound on waits costs", BOUNDS, "which bound to choose", partial(figures.bounds, c), tables=[_bounds(c)])
    fold("Over time", OVER_TIME.format(days), "when the queue was long", partial(figures.over_time, c))
    curves = partial(figures.distribution, c)
    fold("Distribution of slowdown", DISTRIBUTION, "whether a mean hides a few bad cases", curves)
    classes = [*(partial(figures.by_class, c, by) for by in ("size", "run time")), *users]
    fold("Waits by class of job", CLASSES + USERS * len(users), "how long jobs like yours wait", *classes)
    charts = [partial(gantt, c.records[p], day, c.policies[p]) for p in shown]
    fold("A day on the machine", DAY.format(f"{day:g}" + f", {when}" * bool(when)), "which job ran where and when", *charts)
    if c.spent:
        fold(
            "Energy",
            energy.ENERGY + ".",
            "what each schedule costs, and when",
            partial(figures.power, c),
            tables=[*_energy(c), *_shifting(shifted)],
        )
    if curve is not None:
        fold("How it was learnt", LEARNT, "whether training had come to rest", partial(figures.learning, curve))
    fold("Other measures", "", "windows, ranks, replicas, mean waits, utilisation", tables=_measures(c, figures.colour))
    if other:
        fold(OTHER_WAY, "", "whether the verdicts depend on it", tables=_measures(other, figures.colour))
    drawn.append((_facts(c), []))
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
    "Each scheduler that may have start deadlines, without its guard, under several bounds. A job goes ahead of others only "
    "while all can start within this multiple of the longest wait under fcfs+easy so far. A point is a bound; x: the largest "
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


def _bounds(c: Comparison) -> Table:
    bounds = [f"{x.bound:g}" for x in next(iter(c.curves.values()))]
    rows = [
        [n, *(f"{x.bounded_slowdown:,.1f} / {hours(x.max_wait)} h / {x.largest:.2f} x" for x in y)] for n, y in c.curves.items()
    ]
    return Table(["slowdown / longest wait / x", *bounds], rows)


def _compared(c: Comparison, said: Sequence[str], colour: Callable[[int], str]) -> Section:
    """The table of the terminal, and the rest of the answer."""
    rows: list[list[str | Cell]] = []
    for p, row in enumerate(c.rows()):
        if p >= len(c.policies):
            rows.append(list(row))
            continue
        verdict, why = c.judged(p) if p else ("", "")
        tone = verdict if verdict in (BETTER, WORSE) else "open"
        rows.append([Cell(row[0], colour=colour(p), small=c.marks[p]), *row[1:6], Cell(verdict, tone, small=why)])
    over = any("outlive" in x for x in said)  # the answer says more of that
    items = [*said, *(f"Note: {n}." for n in c.notes if n not in c.cautions and not (over and "outlive" in n))]
    return Section("The comparison", COLUMNS.format(c.policies[0]).partition("; --all")[0], [Table(HEADS, rows)], items=items)


def _energy(c: Comparison) -> list[Table]:
    """What the schedules cost, where power is known."""
    if not c.spent:
        return []
    what = energy.changed(c.whole[0])
    rows = [energy.row(n, c.whole[p], c.change_spent(p, what) if p else None) for p, n in enumerate(c.policies)]
    return [Table(energy.heads("scheduler", c.whole[0]), rows, "Energy")]


def _shifting(shifted: Sequence[Shifted]) -> list[Table]:
    """Policies that hold jobs for cheaper hours, each beside what it is measured against."""
    return [Table(SHIFTING, x.rows(), f"{x.policy}: {'cost' if x.what == 'energy_cost' else 'kg of CO2'}") for x in shifted]


def _measures(c: Comparison, colour: Callable[[int], str]) -> list[Table]:
    """The tables of other measures, for a report."""
    tables = _more(c)
    for table in tables:
        for p, row in enumerate(table.rows[: len(c.policies)]):
            cast(list, row)[0] = Cell(str(row[0]), colour=colour(p))
    return tables


def _more(c: Comparison) -> list[Table]:
    """Windows of the log, and the other measures of the continuous replay."""
    ranks, windows, whole, weighted = c.ranks(), [], [], []
    for p, name in enumerate(c.policies):
        e, t, first, s = c.change_in_windows(p), c.totals(p), p == 0, c.whole[p]
        row = [name, f"{c.windows['bounded_slowdown'][p].mean():,.2f}", "reference" if first else e.text()]
        row += ["" if first else t.text(), f"{t.share:.0%}", f"{ranks[p]:.1f}"]
        windows.append([*row, "" if first else "/".join(map(str, c.wins(p)))])
        middle, least, most = c.waits(p)
        times = f"{middle:.2f} ({least:.2f} to {most:.2f})" if c.replicas else f"{middle:.2f}"
        row = [name, f"{c.logged[p]['bounded_slowdown']:,.2f}", *(hours(s[k]) for k in ("wait", "p99_wait"))]
        whole.append([*row, "" if first else times, f"{s['utilisation']:.3f}"])
        row = [name, hours(s["area_weighted_response"]), "reference" if first else c.change_weighted(p).text()]
        beside = (f"{s['throughput_spread']:.2f}", *(f"{s[k]:,.0f}" for k in ("processor_hours", "idle_processor_hours")))
        weighted.append([*row, hours(s["area_weighted_wait"]), *("" if x == "nan" else x for x in beside)])
    if site := recorded(c.workload):
        whole.append(["as recorded", f"{site['bounded_slowdown']:,.2f}", hours(site["wait"]), "", "", ""])
    shifted = f", means of {several(c.replicas, 'time-shifted replica')}" if c.replicas else ""
    title = f"{several(len(c.first_row), 'window')} of {c.window_jobs:,} jobs{shifted}"
    heads = ["scheduler", "slowdown", "change [95 %]", "of the mean", "largest", "rank", "won/tied/lost"]
    ends = ["scheduler", "as logged", "mean wait h", "p99 wait h", "x ref, of every replica", "utilisation"]
    units = c.workload.cluster.resources[0].rstrip("s")
    by_area = ["scheduler", "response h", "change [95 %]", "wait h", "throughput ±", f"{units} hours", "idle"]
    return [
        Table(heads, windows, title, WINDOWS),
        Table(ends, whole, "The continuous replay, other measures"),
        Table(by_area, weighted, "Weighted by area: a job counts as much as it holds", AREA),
    ]


WINDOWS = (
    "Change: geometric mean, 95 % over blocks of two windows. Largest: share of the largest window in the totals. Rank: mean "
    "place over windows. Won/tied/lost: windows against the reference."
)
AREA = (
    "Response and wait: means weighted by processors × run time. Change: of that response in a typical block of time. "
    "Throughput ±: standard deviation of the jobs ended in a day over their mean."
)
STARVATION = "Continuous replay of the whole log, as logged."
CHANGES = "Change of slowdown in a typical block of time of the continuous replay, with its 95 % interval."
WINNERS = "Job by job against {}, continuous replay, and the classes of jobs whose mean wait changes most."
OTHER_WAY = "Jobs that outlive their request treated the other way"


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


def _winners(c: Comparison) -> Table:
    rows: list[list[str | Cell]] = []
    for p in range(1, len(c.policies)):
        gain, loss = _moved(c, p)
        better, worse = "better" if gain[0] < 0 else "open", "worse" if loss[0] > 0 else "open"
        rows.append([c.policies[p], gain[1], Cell(f"{gain[0]:+,.1f}", better), loss[1], Cell(f"{loss[0]:+,.1f}", worse)])
    return Table(["scheduler", "gains most", "mean wait, h", "loses most", "mean wait, h"], rows)


def _moved(c: Comparison, p: int) -> tuple[tuple[float, str], tuple[float, str]]:
    """Which class of jobs gains and loses most against the first policy."""
    rows = []
    for by in ("size", "run time", "user"):
        base = {x["class"]: x for x in metrics.breakdown(c.records[0], by)}
        for x in metrics.breakdown(c.records[p], by):
            if x["class"] in base and x["jobs"] >= max(10, 0.002 * len(c.workload)):
                rows.append(((x["wait"] - base[x["class"]]["wait"]) / 3600, f"{by} {x['class']}".replace("user user", "user")))
    return min(rows, default=(0.0, "-")), max(rows, default=(0.0, "-"))

"""One self-contained HTML file about a comparison: it opens offline, in any browser, on a phone too."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from jobwise import __version__, metrics
from jobwise.compare.answer import answer
from jobwise.compare.comparison import Comparison, conventions
from jobwise.errors import InputError, plain
from jobwise.files import check_writable, write_whole
from jobwise.workloads.transform import date, recorded, span, statistics

THRESHOLD_H = 24.0  # waits beyond it are counted as starvation


def write_report(
    c: Comparison,
    path: str | Path,
    *,
    day: float | None = None,
    curve: str | Path | None = None,
    other: Comparison | None = None,
    ours: int | None = None,
    said: Sequence[str] = (),
    beside: str = "",
    force: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> None:
    """Write the report of comparison `c` to `path`. `day`: the Gantt chart's (default: the one with the longest queue).

    `curve`: the `metrics.jsonl` of a training run, to be drawn. `other`: the same policies with jobs ended at their request (or
    not), and `beside` what that would change, in a sentence. `ours`: the policy that a trained policy's report is about;
    `said`: verdicts on it, the headline.

    Raises InputError where the file cannot be written, or exists and `force` is not set.
    """
    check_writable(path)
    if Path(path).exists() and not force:
        raise InputError(f"{path}: exists already; force overwrites it")
    write_whole(path, render(c, day=day, curve=curve, other=other, ours=ours, said=said, beside=beside, progress=progress))


def render(
    c: Comparison,
    *,
    day: float | None = None,
    curve: str | Path | None = None,
    other: Comparison | None = None,
    ours: int | None = None,
    said: Sequence[str] = (),
    beside: str = "",
    progress: Callable[[int, int], None] | None = None,
) -> str:
    """The report as HTML text; settings as `write_report`."""
    import jinja2

    from jobwise.report import figures

    best = min(range(len(c.policies)), key=lambda p: c.whole[p]["bounded_slowdown"])
    if day is None:
        day = figures.busiest_day(c)
    elif not 0 <= day * 86400 <= float(c.workload.jobs["submit"][-1]):
        raise InputError(f"day {day:g} is not in the log; it has days 0 to {c.workload.jobs['submit'][-1] / 86400:.0f}")
    best = best if ours is None else ours
    shown = [] if c.workload.cluster.topology else [0] if best == 0 else [0, best]
    steps: list[tuple[str, Callable[[], str]]] = [
        ("trade_off", lambda: figures.trade_off(c)),
        ("over_time", lambda: figures.over_time(c)),
        ("distribution", lambda: figures.distribution(c)),
        ("by_size", lambda: figures.by_class(c, "size")),
        ("by_run", lambda: figures.by_class(c, "run time")),
        *([("by_user", lambda: figures.by_class(c, "user"))] if len(np.unique(c.workload.jobs["user"])) > 1 else []),
        *[(f"gantt{p}", lambda p=p: figures.gantt(c.records[p], day)) for p in shown],
    ]
    if len(c.policies) > 1:
        steps += [("winners", lambda: figures.winners(c)), ("forest", lambda: figures.forest(c))]
    if curve is not None:
        steps.append(("learning", lambda: figures.learning(curve)))
    drawn = {}
    for i, (name, draw) in enumerate(steps):
        drawn[name] = draw()
        if progress:
            progress(i + 1, len(steps))
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
    template = environment.from_string((Path(__file__).parent / "comparison.html").read_text())
    page = template.render(
        c=c,
        version=__version__,
        figures=drawn,
        day=day,
        gantts=[(c.policies[p], drawn[f"gantt{p}"]) for p in shown],
        rows=_rows(c, figures.colour),
        others=[] if other is None else _rows(other, figures.colour),
        site=recorded(c.workload),
        begins=date(c.workload, 0.0),
        ends=date(c.workload, span(c.workload)),
        day_date=date(c.workload, day * 86400)[:10],
        starving=[_starving(c, p) for p in range(len(c.policies))],
        threshold=THRESHOLD_H,
        verdicts=[*(c.verdict(p) for p in range(1, len(c.policies)))],
        headline=said or answer(c),
        beside=beside,
        statistics=statistics(c.workload),
        losers=[_moved(c, p) for p in range(1, len(c.policies))],
        conventions=conventions(c),
    )
    return plain(page)


def _rows(c: Comparison, colour: Callable[[int], str]) -> list[dict]:
    whole, ranks, pareto, claims = c.whole, c.ranks(), c.pareto(), c.claimed
    rows = []
    for p, name in enumerate(c.policies):
        e, t = c.change(p), c.totals(p)
        middle, least, most = c.waits(p)
        row = {
            "name": plain(name),
            "colour": colour(p),
            "pareto": p in pareto,
            "mark": c.marks[p],
            "mean": float(c.windows["bounded_slowdown"][p].mean()),
            "change": e.text(),
            "totals": t.text(),
            "share": t.share,
            "claim": ("better" if e.change < 0 else "worse") if claims[p] else "open",
            "rank": float(ranks[p]),
            "wins": c.wins(p),
            "logged": c.logged[p],
            "whole": whole[p],
            "continuous": c.change_whole(p).text(),
            "waits": f"{middle:.2f} ({least:.2f}–{most:.2f})" if c.shakes else f"{middle:.2f}",
        }
        rows.append(row)
    return rows


def _starving(c: Comparison, p: int) -> dict:
    r = c.records[p]
    w = metrics.wait(r) / 3600
    late = np.flatnonzero(metrics.ran(r))[np.argmax(w)]
    return {
        "name": plain(c.policies[p]),
        "max": float(w.max()),
        "p99": float(np.quantile(w, 0.99)),
        "over": int((w > THRESHOLD_H).sum()),
        "share": float((w > THRESHOLD_H).mean()),
        "job": f"job {late}: {r.jobs['request'][late, 0]:,} processors, {r.jobs['walltime'][late] / 3600:.1f} h requested"
        + (f", submitted {when}" if (when := date(c.workload, float(r.jobs["submit"][late]))[:10]) else ""),
    }


def _moved(c: Comparison, p: int) -> dict:
    """Which class of jobs gains and loses most against the first policy."""
    rows = []
    for by in ("size", "run time", "user"):
        base = {x["class"]: x for x in metrics.breakdown(c.records[0], by)}
        for x in metrics.breakdown(c.records[p], by):
            if x["class"] in base and x["jobs"] >= max(10, 0.002 * len(c.workload)):
                rows.append(((x["wait"] - base[x["class"]]["wait"]) / 3600, f"{by} {x['class']}".replace("user user", "user")))
    gain, loss = min(rows, default=(0.0, "-")), max(rows, default=(0.0, "-"))
    return {"name": c.policies[p], "gain": gain, "loss": loss}

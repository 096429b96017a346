"""One self-contained HTML file about a comparison: it opens offline, in any browser, on a phone too."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from jobwise import __version__, metrics
from jobwise.compare import METRICS, Comparison, between, conventions
from jobwise.errors import InputError
from jobwise.files import check_writable, write_whole
from jobwise.workloads.transform import statistics

THRESHOLD_H = 24.0  # waits beyond it are counted as starvation


def write_report(
    c: Comparison,
    path: str | Path,
    *,
    day: float | None = None,
    curve: str | Path | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> None:
    """Write the report of comparison `c` to `path`. `day`: the Gantt chart's (default: the one with the longest queue).

    `curve`: the `metrics.jsonl` of a training run, to be drawn.

    Raises InputError where matplotlib and jinja2 are missing or the file cannot be written.
    """
    check_writable(path)
    write_whole(path, render(c, day=day, curve=curve, progress=progress))


def render(
    c: Comparison,
    *,
    day: float | None = None,
    curve: str | Path | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> str:
    """The report as HTML text."""
    try:
        import jinja2

        from jobwise.report import figures
    except ImportError as error:
        raise InputError(f"reports need {error.name}; pip install 'jobwise[report]'") from None
    best = min(range(len(c.policies)), key=lambda p: c.whole[p]["bounded_slowdown"])
    if day is None:
        day = figures.busiest_day(c)
    elif not 0 <= day * 86400 <= float(c.workload.jobs["submit"][-1]):
        raise InputError(f"day {day:g} is not in the log; it has days 0 to {c.workload.jobs['submit'][-1] / 86400:.0f}")
    shown = [0] if best == 0 else [0, best]
    steps: list[tuple[str, Callable[[], str]]] = [
        ("trade_off", lambda: figures.trade_off(c)),
        ("over_time", lambda: figures.over_time(c)),
        ("distribution", lambda: figures.distribution(c)),
        ("by_size", lambda: figures.by_class(c, "size")),
        ("by_run", lambda: figures.by_class(c, "run time")),
        ("by_user", lambda: figures.by_class(c, "user")),
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
    return template.render(
        c=c,
        version=__version__,
        figures=drawn,
        day=day,
        gantts=[(c.policies[p], drawn[f"gantt{p}"]) for p in shown],
        rows=[_row(c, p, figures.colour(p)) for p in range(len(c.policies))],
        starving=[_starving(c, p) for p in range(len(c.policies))],
        threshold=THRESHOLD_H,
        verdicts=[c.verdict(p) for p in range(1, len(c.policies))],
        headline=headline(c),
        statistics=statistics(c.workload),
        losers=[_moved(c, p) for p in range(1, len(c.policies))],
        conventions=conventions(c),
    )


def headline(c: Comparison) -> str:
    """The finding in one sentence."""
    if not c.queues:
        return "This log has hardly a queue: no order matters on it, and this comparison says nothing."
    claims = [p for p in range(1, len(c.policies)) if len(c.first_row) >= 5 and c.change(p)[2] < 0]
    longest = c.whole[0]["max_wait"]
    safe = [p for p in claims if c.whole[p]["max_wait"] <= 1.2 * longest]
    base = c.policies[0]
    if not claims:
        return f"No scheduler here can be said to be better than {base}."
    best = min(claims, key=lambda p: c.change(p)[0])
    text = f"{c.policies[best]} lowers mean bounded slowdown by {-c.change(best)[0]:.0%} against {base}"
    if best in safe:
        return f"{text}, and keeps the longest wait within 1.2 times."
    text += f", but its longest wait is {c.whole[best]['max_wait'] / max(longest, 1):.1f} times as long"
    if safe:
        kept = min(safe, key=lambda p: c.change(p)[0])
        return f"{text}. With the longest wait kept within 1.2 times: {c.policies[kept]}, by {-c.change(kept)[0]:.0%}."
    return f"{text}; none here is better and keeps the longest wait within 1.2 times."


def _row(c: Comparison, p: int, colour: str) -> dict:
    change = c.change(p)
    return {
        "name": c.policies[p],
        "colour": colour,
        "pareto": p in c.pareto(),
        "mark": c.marks[p],
        "geometric": c.geometric(p),
        "continuous": c.change_whole(p),
        "continuous_between": between(*c.change_whole(p)[1:], "+.0%"),
        "mean": {m: float(c.windows[m][p].mean()) for m in METRICS},
        "interval": between(*c.interval(p), ",.2f"),
        "between": between(*change[1:], "+.0%"),
        "change": change,
        "claim": "better" if change[2] < 0 else "worse" if change[1] > 0 else "open",
        "rank": float(c.ranks()[p]),
        "wins": c.wins(p),
        "whole": c.whole[p],
    }


def _starving(c: Comparison, p: int) -> dict:
    r = c.records[p]
    w = metrics.wait(r) / 3600
    late = np.flatnonzero(metrics.ran(r))[np.argmax(w)]
    return {
        "name": c.policies[p],
        "max": float(w.max()),
        "p99": float(np.quantile(w, 0.99)),
        "over": int((w > THRESHOLD_H).sum()),
        "share": float((w > THRESHOLD_H).mean()),
        "job": f"job {late}: {r.jobs['request'][late, 0]:,} processors, {r.jobs['walltime'][late] / 3600:.1f} h requested",
    }


def _moved(c: Comparison, p: int) -> dict:
    """Which class of jobs gains and loses most against the first policy."""
    found = []
    for by in ("size", "run time", "user"):
        base = {x["class"]: x for x in metrics.breakdown(c.records[0], by)}
        for x in metrics.breakdown(c.records[p], by):
            if x["class"] in base and x["jobs"] >= max(10, 0.002 * len(c.workload)):
                found.append(((x["wait"] - base[x["class"]]["wait"]) / 3600, f"{by} {x['class']}".replace("user user", "user")))
    gain, loss = min(found, default=(0.0, "-")), max(found, default=(0.0, "-"))
    return {"name": c.policies[p], "gain": gain, "loss": loss}

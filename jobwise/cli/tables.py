"""Tables, lines and JSON documents on a terminal."""

from __future__ import annotations

import json
import sys
from math import isfinite

from jobwise.cli.options import left_out
from jobwise.errors import plain

NARROW, WIDE = 110, 140  # columns of a terminal: below the first, and from the second on, tables look different
COUNTS = ("jobs", "workflows", "users", "processors", "preemptions", "failed")  # metrics that are whole numbers


def width() -> int:
    """Columns of the terminal; of what is no terminal, as many as a table may need."""
    if not sys.stdout.isatty():
        return 200
    from rich.console import Console

    return Console().width


def print_table(title: str, columns: list[str], rows: list[list[str]], left: int = 1) -> None:
    """A table on the terminal, its first `left` columns flush left; names are shown as they are, whatever is in them."""
    from rich.box import SIMPLE
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=Text(plain(title)), title_justify="left", box=SIMPLE, pad_edge=False)
    for i, name in enumerate(columns):
        words = [word for row in rows for word in row[i].split()] + name.split()
        least = min(max(map(len, words), default=0), 28 if i == 0 else 14)  # words are broken only where nothing else helps
        table.add_column(Text(name), justify="left" if i < left else "right", overflow="fold", min_width=least)
    for row in rows:
        table.add_row(*(Text(plain(cell)) for cell in row))
    Console(width=None if sys.stdout.isatty() else max(120, 24 + 14 * len(columns)), markup=False, highlight=False).print(table)


def broken(name: str, width: int) -> str:
    """Return a name in lines of at most `width` letters, broken behind one of + , = : - where that can be."""
    lines, rest = [], name
    while len(rest) > width:
        at = max((rest.rfind(c, 0, width) for c in "+,=: -"), default=-1)
        at = at + 1 if at > width // 3 else width
        lines.append(rest[:at])
        rest = rest[at:]
    return "\n".join([*lines, rest])


def say(text: str) -> None:
    """A line for people, wrapped to the terminal between words, without control characters."""
    import textwrap

    if not sys.stdout.isatty():
        print(plain(text))
        return
    for line in plain(text).split("\n"):
        print("\n".join(textwrap.wrap(line, width(), break_long_words=False, break_on_hyphens=False, subsequent_indent="  ")))


def print_json(data) -> None:
    """One JSON document; what is no number is null."""
    print(json.dumps(_finite(json.loads(json.dumps(data, default=float))), indent=1, allow_nan=False))


def _finite(x):
    if isinstance(x, dict):
        return {k: _finite(v) for k, v in x.items()}
    if isinstance(x, list):
        return [_finite(v) for v in x]
    return None if isinstance(x, float) and not isfinite(x) else x


def _hours(seconds: float) -> str:
    return f"{seconds / 3600:,.1f}" if seconds < 1e6 else f"{seconds / 3600:,.0f}"


def _times(c, p: int, narrow: bool) -> str:
    """Longest wait as a multiple of the first's, with its range (where it is narrow, the range alone)."""
    middle, least, most = c.waits(p)
    over = f"{least:.2f}-{most:.2f}"
    return f"{middle:.2f}" if not c.shakes else over if narrow else f"{middle:.2f} ({over})"


def print_comparison(c) -> None:
    """The tables and the verdicts of a comparison, as wide as the terminal is."""
    from jobwise.compare.intervals import LEAST
    from jobwise.workloads.transform import recorded

    columns = width()
    narrow, wide = columns < NARROW, columns >= WIDE
    ranks, pareto, claims, whole = c.ranks(), c.pareto(), c.claimed, c.whole
    w, title = c.workload, f"{c.workload.name}: {len(c.workload):,} jobs (left out: {left_out(c.workload)})"
    names = [n + " *" * (p in pareto) for p, n in enumerate(c.policies)]
    rows = []
    for p, name in enumerate(names):
        x, e, t = c.windows["bounded_slowdown"][p], c.change(p), c.totals(p)
        row = [name, f"{x.mean():,.2f}", "reference" if p == 0 else e.text() + " !" * claims[p]]
        row += [] if narrow else ["" if p == 0 else t.text(), f"{t.share:.0%}"]
        row += ([] if narrow else [f"{ranks[p]:.1f}"]) + ["/".join(map(str, c.wins(p))) if p else ""]
        rows.append(row)
    heads = ["scheduler", "mean", "change [95 %]"] + ([] if narrow else ["of the mean", "largest", "rank"]) + ["won/tied/lost"]
    head = f"Bounded slowdown, {len(c.first_row)} windows of {c.window_jobs:,} jobs"
    print_table(f"{title}\n{head}{f', means of {c.shakes} shaken replicas' if c.shakes else ''}", heads, rows)
    rows = []
    for p, name in enumerate(names):
        s, log = whole[p], c.logged[p]
        row = [name, f"{log['bounded_slowdown']:,.2f}"] + ([f"{s['bounded_slowdown']:,.2f}"] if c.shakes else [])
        row += ["" if p == 0 else c.change_whole(p).text()] if wide else []
        row += [_hours(s["wait"])] + ([_hours(s["p99_wait"])] if not narrow else []) + [_hours(s["max_wait"])]
        row += ["" if p == 0 else _times(c, p, narrow)] + ([f"{s['utilisation']:.3f}"] if wide else [])
        rows.append(row)
    if site := recorded(w):
        row = ["as recorded", f"{site['bounded_slowdown']:,.2f}"] + [""] * (c.shakes > 0) + [""] * wide + [_hours(site["wait"])]
        rows.append(row + [""] * (not narrow) + [_hours(site["max_wait"]), ""] + [""] * wide)
    heads = ["scheduler", "logged" if narrow else "as logged"] + (["shaken"] if c.shakes else [])
    heads += (["change [95 %]"] if wide else []) + ["wait h"] + ([] if narrow else ["p99 h"])
    heads += ["max h" if narrow else "longest h", "x first"] + (["use"] if wide else [])
    how = f"waits are means of {len(c.replays[0])} shaken replays" if c.shakes else "as logged"
    print_table(f"The whole log in one replay: bounded slowdown; {how}", heads, rows)
    for p in range(len(c.policies)):
        if c.marks[p]:
            say(f"{c.policies[p]}: {c.marks[p]}")
    for note in c.notes:
        say(f"note: {note}")
    if not c.queues:
        say("This log has hardly a queue: no order matters on it. Scale its load (--load 0.9), or take another log.")
    if c.queues and len(c.policies) > 1 and c.change(1).blocks < LEAST:
        say(f"{len(c.first_row)} windows are too few to tell any of these from {c.policies[0]}.")
    elif c.queues:
        for p in range(1, len(c.policies)):
            say(c.verdict(p))
    say(
        "bounded slowdown: tau = 10 s; change: geometric mean over blocks of two windows; !: claimed (Holm, 5 %); *: no other "
        "is better on both slowdown and longest wait in the whole replay"
    )


def print_origins(o) -> None:
    """The table of rolling origins."""
    rows, effects = [], o.effects()
    for p, name in enumerate(o.policies):
        middle, least, most = o.waits(p)
        text = "reference" if p == len(o.policies) - 1 else effects[p].text()
        rows.append([name, f"{o.mean(p):,.2f}", text, f"{middle:.2f} ({least:.2f}-{most:.2f})"])
    windows = sum(len(c.first_row) for c in o.found)
    head = f"{o.workload.name}: {len(o.at)} origins, {windows} windows of {o.found[0].window_jobs:,} unseen jobs"
    print_table(head, ["scheduler", "mean", "against the fair best rule", f"longest wait x {o.policies[0]}"], rows)
    chosen = ", ".join(f"{t:g}: {n}" for t, n in zip(o.at, o.chosen, strict=True))
    say(f"fair best rule, chosen on the jobs before each origin: {chosen}")
    if o.bound < float("inf"):
        kept = [n for p, n in enumerate(o.policies) if o.keeps(p, o.bound)]
        say(f"longest wait at most {o.bound:g} times that of {o.policies[0]} in every origin and replica: {', '.join(kept)}")
    for note in o.notes:
        say(f"note: {note}")

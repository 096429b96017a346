"""Tables, lines and JSON documents on a terminal."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Sequence
from math import isfinite

from jobwise.cli.options import left_out
from jobwise.errors import plain

NARROW, WIDE = 110, 175  # columns of a terminal: below the first, and from the second on, tables look different
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

    words = [[*name.split(), *(w for row in rows for w in row[i].split())] for i, name in enumerate(columns)]
    widths = [min(max(map(len, w), default=0), 28 if i == 0 else 14) for i, w in enumerate(words)]  # of unbroken words
    if sys.stdout.isatty() and sum(widths) + 2 * len(columns) > Console().width:  # some would be cut: row by row
        say(title)
        for row in rows:
            say(f"{row[0]}: " + "; ".join(f"{name} {cell}" for name, cell in zip(columns[1:], row[1:], strict=True) if cell))
        return
    table = Table(title=Text(plain(title)), title_justify="left", box=SIMPLE, pad_edge=False)
    for i, name in enumerate(columns):
        table.add_column(Text(name), justify="left" if i < left else "right", overflow="fold", min_width=widths[i])
    for row in rows:
        table.add_row(*(Text(plain(cell)) for cell in row))
    if sys.stdout.isatty():
        Console(markup=False, highlight=False).print(table)
        return
    page = io.StringIO()
    Console(file=page, width=max(120, 24 + 14 * len(columns)), markup=False, highlight=False).print(table)
    print("\n".join(line.rstrip() for line in page.getvalue().split("\n")), end="")


def broken(name: str, width: int) -> str:
    """Return a name in lines of at most `width` letters, broken behind one of + , = : - where that can be."""
    lines, rest = [], name
    while len(rest) > width:
        at = max((rest.rfind(c, 0, width) for c in "+,=: -"), default=-1)
        at = at + 1 if at > 2 else width
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


def _several(count: int, what: str) -> str:
    return f"{count:,} {what}{'s' * (count != 1)}"


def print_comparison(c, first: Sequence[str] = (), other: str = "") -> None:
    """A comparison as wide as the terminal is: the answer (`first`, or that of `jobwise.compare.answer`), one table, `other`:
    what ending jobs at their request would change; what must be known, and what the columns are."""
    from jobwise.compare.answer import answer

    say(f"{c.workload.name}: {len(c.workload):,} jobs (left out: {left_out(c.workload)})\n")
    for text in [*(first or answer(c)), *(f"Note: {n}." for n in c.cautions)]:
        say(text)
    columns = width()
    heads, rows = _compared(c, wide=columns >= WIDE, narrow=columns < NARROW)
    print_table("", heads, rows)
    for p in range(len(c.policies)):
        if c.marks[p]:
            say(f"{c.policies[p]}: {c.marks[p]}")
    if other:
        say(other)
    for note in c.notes:
        if note not in c.cautions and not (other and "outlive" in note):  # `other` tells more of it
            say(f"note: {note}")
    each = f", {_several(c.shakes, 'shaken replica')} each" if c.shakes else ""
    of = f"{len(c.first_row)} windows of {c.window_jobs:,} jobs{each}"
    replays = f"mean of {_several(len(c.replays[0]), 'shaken replay')}" if c.shakes else "as logged"
    base = c.policies[0]
    say(
        f"windows: mean bounded slowdown (tau 10 s) over {of}; change: geometric mean against {base}, 95 % interval over "
        f"blocks of two windows; !: claimed (Holm, 5 %). whole: the same of the whole log in one replay, {replays}; max h: its "
        f"longest wait; x first: largest multiple of that of {base} in these and as logged; *: no other is better on both."
    )


def _compared(c, wide: bool, narrow: bool) -> tuple[list[str], list[list[str]]]:
    """Columns and rows of the table of a comparison."""
    from jobwise.workloads.transform import recorded

    ranks, pareto, claimed, whole = c.ranks(), c.pareto(), c.claimed, c.whole
    heads = ["scheduler", "windows", "change [95 %]"] + ["of the mean", "largest", "rank", "won/tied/lost"] * wide
    heads += ["whole"] + ["wait h"] * (not narrow) + ["p99 h"] * wide + ["max h", "x first"] + ["use"] * wide
    rows = []
    for p, name in enumerate(c.policies):
        x, e, t, s = c.windows["bounded_slowdown"][p], c.change(p), c.totals(p), whole[p]
        text = broken(name + " *" * (p in pareto), 16 if narrow else 40)
        row = [text, f"{x.mean():,.2f}", "reference" if p == 0 else e.text() + " !" * claimed[p]]
        if wide:
            row += ["" if p == 0 else t.text(), f"{t.share:.0%}", f"{ranks[p]:.1f}", "/".join(map(str, c.wins(p))) if p else ""]
        row += [f"{s['bounded_slowdown']:,.2f}"] + [_hours(s["wait"])] * (not narrow) + [_hours(s["p99_wait"])] * wide
        _, least, most = c.waits(p)
        over = f"{most:.2f}" if most < 100 else f"{most:,.0f}"
        row += [_hours(s["max_wait"]), "" if p == 0 else over if narrow or not c.shakes else f"{least:.2f}-{over}"]
        rows.append(row + [f"{s['utilisation']:.3f}"] * wide)
    if site := recorded(c.workload):
        row = ["as recorded", "", ""] + [""] * 4 * wide + [f"{site['bounded_slowdown']:,.2f}"]
        row += [_hours(site["wait"])] * (not narrow) + [""] * wide + [_hours(site["max_wait"]), ""] + [""] * wide
        rows.append(row)
    return heads, rows


def print_origins(o) -> None:
    """The table of rolling origins."""
    from jobwise.compare.intervals import claims

    rows, effects = [], o.effects()
    sure = [*claims(effects[:-1]), False]
    for p, name in enumerate(o.policies):
        middle, least, most = o.waits(p)
        text = "reference" if p == len(o.policies) - 1 else effects[p].text() + " !" * sure[p]
        rows.append([name, f"{o.mean(p):,.2f}", text, f"{middle:.2f} ({least:.2f}-{most:.2f})"])
    windows = sum(len(c.first_row) for c in o.comparisons)
    head = f"{o.workload.name}: {len(o.at)} origins, {windows} windows of {o.comparisons[0].window_jobs:,} unseen jobs"
    print_table(head, ["scheduler", "mean", "against the fair best rule", f"longest wait x {o.policies[0]}"], rows)
    chosen = ", ".join(f"{t:g}: {n}" for t, n in zip(o.at, o.chosen, strict=True))
    say("!: claimed, p < 0.05 adjusted for all schedulers of the table (Holm), and by sign flips")
    say(f"fair best rule, chosen on the jobs before each origin: {chosen}")
    if o.bound < float("inf"):
        kept = [n for p, n in enumerate(o.policies) if o.keeps(p, o.bound)]
        say(f"longest wait at most {o.bound:g} times that of {o.policies[0]} in every origin and replica: {', '.join(kept)}")
    for note in o.notes:
        say(f"note: {note}")

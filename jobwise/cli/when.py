"""`jobwise when`: predicted starts at a moment of a log."""

from __future__ import annotations

from typing import Annotated, Optional

import typer

from jobwise.cli.options import Jobs, Json, Log, Procs, Seed, open_log, policy_option
from jobwise.cli.progress import progress
from jobwise.cli.tables import NARROW, print_json, print_table, say, width
from jobwise.errors import InputError
from jobwise.policies.names import resolve
from jobwise.starts.on_log import rows_of
from jobwise.starts.on_log import when as predicted
from jobwise.starts.sooner import offers
from jobwise.workloads.durations import seconds_of

SHOWN = 20
NEVER_S = 1e8  # later than that jobs do not start


def seconds(text: str, of: str) -> float:
    """Seconds of "90m", "12h", "30d", "3600". Raises InputError."""
    try:
        return seconds_of(text)
    except ValueError:
        raise InputError(f"{of} {text!r}: a time such as 3600, 90m, 12h or 30d was expected") from None


def moment(text: str, origin: float) -> float:
    """Seconds from the first submit of a log, of such a time or of a date. Raises InputError."""
    from datetime import UTC, datetime
    from math import isnan

    if "-" not in text:
        return seconds(text, "--at")
    try:
        date = datetime.fromisoformat(text)
    except ValueError:
        raise InputError(f"--at {text!r}: a time such as 30d, or a date such as 2026-03-01T12:00, was expected") from None
    if isnan(origin):
        raise InputError(f"--at {text!r}: the log does not say when it begins; name a time since its first submit, such as 30d")
    return (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp() - origin


def span(s: float) -> str:
    """A duration in few letters; of what happens in no future, never."""
    if s >= NEVER_S:
        return "never"
    if s < 60:
        return "now" if s < 1 else f"{s:.0f} s"
    return f"{s / 60:.0f} min" if s < 5400 else f"{s / 3600:.1f} h" if s < 172_800 else f"{s / 86_400:.1f} d"


def due(s: float) -> str:
    """When something happens, from now: now, in 20 min, never."""
    text = span(s)
    return text if text in ("now", "never") else f"in {text}"


def short(s: float) -> str:
    """A duration for a cell of a table: 45s, 10m, 4.5h, 2.1d."""
    return span(s).replace("min", "m").replace(" ", "")


def chances(x: dict) -> list[str]:
    """The cells that every table of predictions has: start, its 80 % interval; where there is room, how likely it starts within
    1, 4, 24 h, and its end."""
    a, b = x["start_80"]
    sure = "/".join(f"{100 * x[f'within_{h}h']:.0f}" for h in (1, 4, 24))
    return [short(x["start"]), f"{short(a)}-{short(b)}", *([sure, short(x["end"])] if width() >= NARROW else [])]


def headed() -> list[str]:
    """The heads of the columns of `chances`."""
    return ["starts in", "80 %", *(["% in 1/4/24 h", "ends in"] if width() >= NARROW else [])]


def table_of(rows: list[dict]) -> list[list[str]]:
    """The cells of a table of predictions."""
    return [
        [str(x["job"]), f"{x['procs']:,}", short(x["limit"]), short(x["waited"]), *chances(x), str(x["ahead"])] for x in rows
    ]


def by(starts) -> str:
    """The method that predictions are made by, in words."""
    return ("sampled futures", "requests, for they have been closer lately")[starts.method]


def say_offers(offers, of: str = "") -> None:
    """Say what would start a job sooner, with the end; `of`: which job."""
    for x in [x for x in offers if x.worth_telling]:
        often = f"{'ends' if x.change.again else 'starts'} sooner in {100 * x.sooner:.0f} % of simulated futures"
        starts = f"starts {due(x.start)} instead of {due(x.own[0])} ({often})"
        say(f"{of and f'{of}: '}{x.change.words}: {starts}; it would end {due(x.end)} instead of {due(x.own[1])}")


def when(
    log: Log,
    at: Annotated[str, typer.Option("--at", metavar="TIME", help="30d after the first submit, or 2026-03-01T12:00 (UTC).")],
    policy: Annotated[str, policy_option(help="The scheduler that decides there.")] = "fcfs+easy",
    job: Annotated[Optional[list[int]], typer.Option("--job", help="Only these jobs (rows of the log, from 0).")] = None,
    user: Annotated[Optional[int], typer.Option("--user", help="Only jobs of this user; with --fits, who submits.")] = None,
    fits: Annotated[Optional[str], typer.Option("--fits", metavar="PROCSxTIME", help="One more job, such as 16x4h.")] = None,
    sooner: Annotated[bool, typer.Option("--sooner", help="What would start sooner, for each job shown.")] = False,
    shown: Annotated[bool, typer.Option("--outcome", help="Show when they started in the replay, too.")] = False,
    procs: Procs = None,
    jobs: Jobs = None,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """When will waiting jobs start, at a moment of a log? Medians, intervals, and what would start sooner.

    Examples:
        jobwise when log.swf.gz --at 3d -p fcfs+easy
        jobwise when log.swf.gz --at 3d --sooner
    """
    chosen = resolve(policy)
    w = open_log(log, procs, jobs)
    more = None
    if fits:
        size, _, time = fits.partition("x")
        if not size.isdigit() or int(size) < 1 or not time:
            raise InputError(f"--fits {fits!r}: processors and a time limit, such as 16x4h, were expected")
        more = (int(size), seconds(time, "--fits"), -1 if user is None else user)
    with progress(f"predicting starts in {w.name}") as show:
        m = predicted(w, chosen, moment(at, w.origin), more=more, seed=seed, progress=show)
    rows = rows_of(m.starts)
    new = len(m.predictor.history.jobs) - 1 if more else -1
    wanted = {new} if more else {j - m.first for j in job} if job else None
    users = m.predictor.history.jobs["user"]
    rows = [x for x in rows if (wanted is None or x["job"] in wanted) and (more or user is None or users[x["job"]] == user)]
    if job and wanted and (missing := sorted(wanted - {x["job"] for x in rows})):
        raise InputError(f"{w.name}: job {missing[0] + m.first} does not wait then")
    start = dict(zip(m.starts.rows.tolist(), m.came.tolist(), strict=True))
    asked = {x["job"]: offers(m.starts.drawn, x["job"], m.predictor.player) for x in (rows[:SHOWN] if sooner or more else [])}
    for x in rows:
        if shown and x["job"] != new:
            x["started"] = start[x["job"]]
        if x["job"] in asked:
            x["sooner"] = [o.to_dict() for o in asked[x["job"]] if o.worth_telling]
        x["job"], x["frees"] = x["job"] + m.first if x["job"] != new else "new", [j + m.first for j in x["frees"]]
    method, running = by(m.starts), m.starts.running
    if as_json:
        about = {"log": w.name, "policy": chosen.name, "at": m.starts.now, "running": running, "method": method}
        print_json(about | {"jobs": rows})
        return
    cells = table_of(rows[:SHOWN])
    if shown:
        cells = [[*c, short(x["started"]) if "started" in x else ""] for c, x in zip(cells, rows, strict=False)]
    columns = ["job", "procs", "limit", "waited", *headed(), "ahead"]
    waiting = f"{len(m.starts.rows):,} jobs wait, {running:,} run"
    print_table(f"{w.name} at {m.starts.now / 3600:,.1f} h under {chosen.name}: {waiting}", columns + ["was"] * shown, cells)
    if not rows:
        say("no job waits then")
        return
    if len(rows) > SHOWN:
        say(f"{len(rows) - SHOWN:,} more; --json has all")
    for j, changes in asked.items():
        say_offers(changes, "" if j == new else f"job {j + m.first}")
    if asked and not any(o.worth_telling for x in asked.values() for o in x):
        say("nothing that was tried (a shorter limit, fewer processors for longer) is likely to start much sooner")
    say(f"by {method}; ahead: jobs that start before it in most futures")

"""The result of the benchmark: who is best over all logs, then each log."""

from __future__ import annotations

from collections.abc import Sequence

from jobwise.compare.bench import SHARE, Standings
from jobwise.compare.comparison import BETTER, WORSE, hours, several
from jobwise.compare.fingerprint import public_hash
from jobwise.compare.intervals import interquartile_mean
from jobwise.report.result import Result
from jobwise.report.sections import Section, Table

WIDE = 10  # an interval over logs that is wider, as a factor, says nothing
COLUMNS = ("entry", "mean slowdown", "change [95 %]", "AWRT h", "longest wait h", "x ref", "processor-h", "verdict")
OVERALL = ("entry", "change [95 %]", "IQM of ratios [95 %]", "better", "worse", "wait x ref", "sees", "of")
NARROW = (0, 1, 5, 3, 4, 6)  # columns of OVERALL that a terminal shows


def of_bench(s: Standings) -> Result:
    """Return the result of the benchmark."""
    ranked, first = s.ranked(), s.entries[0].name
    overall = Table(OVERALL, [_row(s, e) for e in ranked], "Over all logs", left=1)
    tables = [Table(COLUMNS, _rows(s, t, ranked), _titled(s, t)) for t in range(len(s.tasks))]
    failed = [x for e in ranked for x in _failures(s, e)]
    able = [e for e in ranked if e and s.fair(e) and len(s.ran(e)) == len(s.tasks)]
    best = able[0] if able else 0
    jobs = sum(len(t.logs[0]) for t in s.tasks)
    count = sum(bool(s.ran(e)) for e in range(len(s.entries)))
    entered = f"Of {count} entries on {several(len(s.tasks), 'log')} ({jobs:,} later jobs)"
    words = {e: [s.verdicts[t][e] for t in s.ran(e)] for e in able}
    good = [f"{s.entries[e].name} ({words[e].count(BETTER)})" for e in able if BETTER in words[e] and WORSE not in words[e]]
    on = f"better than {first} on a log, and worse on none: {', '.join(good) or 'nobody'}"
    lowest = f"{s.entries[best].name} has the lowest change of bounded slowdown over all: {_change(s, best)}"
    answer = f"{entered}, {on}. {lowest if best and s.overall(best).change < 0 else f'None has a lower one than {first}'}."
    notes = [
        f"later months: behind {SHARE:.0%} of the jobs; jobs end at their request; times are whole s; all get the same files",
        f"change: of bounded slowdown against {first} in a typical block of time; over logs by random effects",
        "over all logs intervals are not adjusted for the number of entries; open: one is wider than tenfold",
        "IQM: interquartile mean of mean slowdowns over the reference's, replicas x logs, stratified bootstrap (as rliable)",
        "verdicts: better and worse need Holm's adjustment over the fixed entries (and the entry itself), and sign flips",
        "wait x ref: the longest wait over the reference's, the largest of all logs",
        "AWRT: area-weighted response time. processor-h: of the whole machine, from the first submit to the last end",
        f"means over {len(s.tasks[0].logs)} replicas whose submits are moved in time, for all entries alike",
        "sees: on each replica, at another moment, run times of jobs that had not ended were changed; starts before may not "
        "move. None of N: no start of N, in whose place such a job might have started, moved; untested: there were none",
        "an entry that knows these public logs from elsewhere, reads files that it was not given, or keeps the first run times "
        "that it is shown, is not found so: read its source, and run it again (--fresh)",
        *(f"{t.name}: {t.source}; hash of the jobs {public_hash(t.logs[0])[:12]}" for t in s.tasks),
        *(f"{x.name}: {x.source}" for x in s.entries if x.source),
    ]
    return Result(
        title="The benchmark",
        answer=[answer],
        cautions=failed,
        tables=[Table([OVERALL[k] for k in NARROW], [[row[k] for k in NARROW] for row in overall.rows], overall.title)],
        notes=["change: of bounded slowdown, over all logs. The page has more, log by log, and says how it is measured"],
        data=lambda: _data(s) | {"notes": [*failed, *notes]},
        sections=lambda progress: [
            Section("Over all logs", answer, [overall], items=failed),
            *(Section(t.title, "", [Table(t.columns, t.rows)]) for t in tables),
            Section("How it is measured", "", items=notes),
        ],
    )


def _row(s: Standings, e: int) -> list[str]:
    """An entry over all logs."""
    ran, entry = s.ran(e), s.entries[e]
    of = "jobwise" if e < s.fixed else "entered"
    if not ran:
        return [entry.name, "no score", "", "", "", "", "", of]
    words = [s.verdicts[t][e] for t in ran] if s.fair(e) else []
    times = [s.times(e, t) for t in ran]
    change = "reference" if e == 0 else _change(s, e) + ("" if len(ran) == len(s.tasks) else f" on {len(ran)}")
    sees = f"none of {s.tried(e):,}" if s.tried(e) else "untested"
    sees = "these jobs, in training" if any(s.scores[e][t].flattered for t in ran) else sees
    sees = f"run times: {several(s.moved(e), 'start')}" if s.moved(e) else sees
    counts = ["", ""] if e == 0 or not s.fair(e) else [str(words.count(x)) for x in (BETTER, WORSE)]
    middle, low, high = interquartile_mean(s.ratios(e))
    return [entry.name, change, f"{middle:.2f} [{low:.2f}, {high:.2f}]", *counts, f"{max(times):.2f}", sees, of]


def _change(s: Standings, e: int) -> str:
    """The change of an entry over all logs, with its interval where that says anything."""
    x = s.overall(e)
    return x.text() if len(s.ran(e)) == 1 or 1 + x.high <= WIDE * (1 + x.low) else f"{x.change:+.0%} (open)"


def _rows(s: Standings, t: int, ranked: Sequence[int]) -> list[list[str]]:
    """The entries on a log, the lowest mean slowdown first; those that knew more than they may stand at the end."""
    rows = []
    ran = [e for e in ranked if not s.scores[e][t].error]
    for e in sorted(ran, key=lambda e: (not s.fair(e), s.scores[e][t].numbers["bounded_slowdown"])):
        n = s.scores[e][t].numbers
        change = "reference" if e == 0 else s.change(e, t).text()
        row = [s.entries[e].name, f"{n['bounded_slowdown']:,.1f}", change, hours(n["awrt"]), hours(n["max_wait"])]
        rows.append([*row, f"{s.times(e, t):.2f}", f"{n['hours']:,.0f}", _word(s, t, e)])
    return rows


def _word(s: Standings, t: int, e: int) -> str:
    """The verdict on an entry on a log; none on the reference, nor on one that knew more than it may."""
    return "" if not e else s.verdicts[t][e] if s.fair(e) else "knew more"


def _titled(s: Standings, t: int) -> str:
    w = s.tasks[t].logs[0]
    return f"{s.tasks[t].name}: {len(w):,} jobs, {w.cluster.processors:,} processors"


def _failures(s: Standings, e: int) -> list[str]:
    return [f"{s.tasks[t].name}: {x.error}" for t, x in enumerate(s.scores[e]) if x.error]


def _data(s: Standings) -> dict:
    """Return every number of the page, for JSON."""
    entries = []
    for e, entry in enumerate(s.entries):
        ran = s.ran(e)
        logs = {}
        for t, task in enumerate(s.tasks):
            x = s.scores[e][t]
            numbers = (
                {"error": x.error}
                if x.error
                else x.numbers | {"starts_moved": x.moved, "starts_tried": x.tried, "flattered": x.flattered}
            )
            against = {} if x.error or not e else {"verdict": s.verdicts[t][e], "change": s.change(e, t).to_dict()}
            logs[task.name] = numbers | against
        whole = s.overall(e).to_dict() if e and ran else {}
        ratios = s.ratios(e).tolist() if ran else []  # [replicas, logs]: what rliable takes
        own = {"entry": entry.name, "key": entry.key, "sees_nothing": s.fair(e), "over_logs": whole, "ratios": ratios}
        entries.append(own | {"logs": logs})
    tasks = {t.name: {"jobs": len(t.logs[0]), "source": t.source, "hash": public_hash(t.logs[0])} for t in s.tasks}
    return {"reference": s.entries[0].name, "logs": tasks, "entries": entries, "order": [s.entries[e].name for e in s.ranked()]}

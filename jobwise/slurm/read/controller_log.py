"""The log of Slurm's controller, with DebugFlags=Backfill,Priority and SlurmctldDebug=debug: its events and plans."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from jobwise.errors import InputError

LOG = "slurmctld.log"
JOB = r"JobId=(\S+)"
EVENTS = {
    "main_pass": r"sched: Running job scheduler for (full queue|default depth)",
    "backfill_begin": r"_attempt_backfill: beginning()",
    "backfill_end": r"_attempt_backfill: completed testing (\S+)",
    "prio_pass": r"_decay_thread: PRIO: Decay factor()",
    "submit": rf"_slurm_rpc_submit_batch_(?:het_)?job: {JOB} ",
    "start_main": rf"sched: Allocate {JOB} NodeList=(\S+)",
    "start_backfill": rf"_start_job: (?:HETJOB: |BACKFILL: )?Started {JOB} in \S+ on (\S+)",
    "end": rf"_job_complete: {JOB} done",
    "stopped": rf"preempted {JOB} has been (killed|requeued)",
    "cleared": rf"Requeuing {JOB}()",
    "timeout": rf"Time limit exhausted for {JOB}",
    "draining": r"update_node: node (\S+) state set to DRAIN()",
    "resumed": r"Node (\S+) now responding()",
    "reserved": r"sched: Created reservation=\S+ (?:.* )?start=(\S+) ",
    "plan": rf"_dump_job_sched: (?:BACKFILL: )?{JOB} to start at (\S+), end at \S+ on nodes (\S+)",
}
LINE = re.compile(r"\[(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?)\] (.*)")
NAMED = ("draining", "resumed", "submit", "start_main", "start_backfill", "end", "timeout", "stopped", "cleared", "plan")
QUARTER_S = 900  # steps of time zones
HOUR_S, FEW = 3600, 0.05  # so large a share of submits an hour off means that the clock was changed


@dataclass(frozen=True)
class LogLine:
    """An event: where the log tells it, when (s since 1970 as the log's clock shows it, of no zone), its kind, the name of its
    job or node, what else it says (of a plan: nodes), and when a plan begins."""

    where: str
    time: float
    kind: str
    name: str = ""
    what: str = ""
    begin: float = 0.0


def lines(file: Path) -> Iterator[LogLine]:
    """Read the events of a log. Raises InputError for a log without a time on any line."""
    kinds = {k: re.compile(x) for k, x in EVENTS.items()}
    dated = False
    with open(file, errors="replace") as text:
        for number, row in enumerate(text, 1):
            if not (stamped := LINE.match(row)):
                continue
            dated = True
            for kind, pattern in kinds.items():
                if m := pattern.search(stamped[2]):
                    try:
                        yield _event(f"{file}:{number}", _clock(stamped[1]), kind, m)
                    except ValueError:
                        raise InputError(f"{file}:{number}: {row.strip()[:80]!r} holds no time that can be read") from None
                    break
    if not dated:
        raise InputError(f"{file}:1: no line begins with a time as in [2026-01-31T23:59:59.000] (LogTimeFormat=iso8601_ms)")


def _event(where: str, time: float, kind: str, m: re.Match[str]) -> LogLine:
    if kind == "reserved":
        return LogLine(where, time, kind, begin=_clock(m[1]))
    if kind not in NAMED:
        return LogLine(where, time, kind, what=m[1])
    if kind == "plan":
        return LogLine(where, time, kind, m[1], m[3], _clock(m[2]))
    return LogLine(where, time, kind, m[1], m[2] if kind.startswith(("start", "stop")) else "")


def _clock(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


def zone(file: Path, submits: list[tuple[float, float]]) -> float:
    """Seconds that the log's clock is ahead of UTC, from submits (as the log shows them, as accounting tells them; s since
    1970). Raises InputError where there are none, or where the clock was put forward or back between them."""
    ahead = Counter(round((shown - known) / QUARTER_S) * QUARTER_S for shown, known in submits)
    if not ahead:
        raise InputError(f"{file}: it shows no submit of a job that sacct.txt has")
    most = max(ahead, key=lambda x: ahead[x])  # jobs with a begin time count as submitted then
    if max(ahead[most - HOUR_S], ahead[most + HOUR_S]) > FEW * len(submits):
        raise InputError(f"{file}: its clock was put forward or back (summer time?)")
    return float(most)

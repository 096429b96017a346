"""Event files of UBCCR's Slurm simulator: -dt SECONDS -e submit_batch_job | options; -sim-walltime is the run time."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from typing import TYPE_CHECKING

from jobwise.workload import Workload
from jobwise.workloads.jobtable import JobTable

if TYPE_CHECKING:
    from jobwise.workloads.logfile import LogFile

EVENT = re.compile(r"\s*-dt\s+([\d.]+)\s+-e\s+(\w+)\s*(?:\|(.*))?$")
LONG = {
    "nodes": "N",
    "ntasks": "n",
    "time": "t",
    "account": "A",
    "partition": "p",
    "qos": "q",
    "job-name": "J",
    "cpus-per-task": "c",
}
READING = (
    "Times are from the begin of the simulation; a job starts nowhere in the file, so recorded waits are not known; run time "
    "= -sim-walltime (-1: until its limit).",
)


def knows(f: LogFile) -> bool:
    """Return whether the file has such events."""
    lines = [x for x in f.head.splitlines() if x.strip() and not x.lstrip().startswith("#")]
    return bool(lines) and EVENT.match(lines[0]) is not None


def read(f: LogFile) -> Workload:
    """Return the jobs that are submitted. Raises InputError."""
    t = JobTable(f.source, f.name, "processors", reading=READING)
    t.add_rows(_rows(f, t), lambda x: _job(*x))
    return t.workload(f.procs)


def _rows(f: LogFile, t: JobTable) -> Iterator[tuple[int, tuple[str, str]]]:
    for n, line in f.lines():
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        event = EVENT.match(line.rstrip("\n"))
        if not event:
            t.drop("that are no event", 1)
        elif event[2] != "submit_batch_job" or not event[3]:
            t.drop("events of other kinds than submit_batch_job", 1)
        else:
            yield n, (event[1], event[3])


def _job(when: str, text: str) -> dict[str, object]:
    try:
        words = shlex.split(text)
    except ValueError:
        words = text.split()
    x: dict[str, str] = {}
    for i, word in enumerate(words):
        if word.startswith("-"):
            key, eq, value = word.lstrip("-").partition("=")
            nxt = words[i + 1] if i + 1 < len(words) and not re.match(r"-[A-Za-z-]", words[i + 1]) else ""
            x[LONG.get(key, key)] = value if eq else nxt
    tasks, nodes = _count(x, "n"), _count(x, "N")
    if tasks is None:
        tasks = (nodes or 1) * (_count(x, "ntasks-per-node") or 1)
    limit, run = minutes(x.get("t", "")), x.get("sim-walltime", "")
    gpus = re.search(r"gpu(?::[\w.-]+)?:(\d+)", x.get("gres", ""))
    return {
        "job": (re.search(r"\d+", x.get("J", "") or x.get("jid", "")) or [""])[0],
        "submit": when,
        "run": limit if run.startswith("-1") else run,
        "walltime": limit,
        "processors": tasks * (_count(x, "c") or 1),
        "nodes": nodes or "",
        "gpus": int(gpus[1]) * (nodes or 1) if gpus else 0,
        "user": x.get("uid"),
        "group": x.get("A"),
        "queue": x.get("q"),
        "partition": x.get("p"),
    }


def _count(x: dict[str, str], key: str) -> int | None:
    match = re.match(r"\d+", x.get(key, ""))
    return int(match[0]) if match else None


def minutes(text: str) -> float | str:
    """s of a limit as sbatch takes it: minutes, minutes:seconds, hours:minutes:seconds, days-hours[:minutes[:seconds]]."""
    match = re.fullmatch(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?", text)
    if not match:
        return ""
    a, b, c = (float(x or 0) for x in match.groups()[1:])
    if match[1] is not None:
        return float(match[1]) * 86400 + a * 3600 + b * 60 + c
    return a * 3600 + b * 60 + c if match[4] else a * 60 + b

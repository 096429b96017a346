"""LSF's lsb.acct: a line a record, fields by place; "JOB_FINISH" records of jobs that have ended.

Places up to the hosts and to the project are those of all versions; behind them they are read as 9.1 and 10.1 write them, and
where a record ends before, the run limit is not known. Source: IBM, lsb.acct; records of 9.1 and 10.1.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from jobwise.workload import Workload
from jobwise.workloads.jobtable import JobTable

if TYPE_CHECKING:
    from jobwise.workloads.logfile import LogFile

BEGIN = re.compile(r'"[A-Z0-9_]+" "\d+(\.\d+)?" \d+ ')
DONE = 64  # jStatus of a job that ended well
USAGE = 19  # numbers of its resource usage
READING = (
    "A job is a JOB_FINISH; processors are its slots; it is submitted at its submit, or at its begin time where that is later.",
)


def knows(f: LogFile) -> bool:
    """Return whether the file begins with a record."""
    return BEGIN.match(f.head) is not None


def read(f: LogFile) -> Workload:
    """Return the jobs that ran. Raises InputError."""
    t = JobTable(f.source, f.name, "processors", reading=READING)
    t.add_rows(_rows(f, t), _job)
    return t.workload(f.procs)


def _rows(f: LogFile, t: JobTable) -> Iterator[tuple[int, str]]:
    for n, line in f.lines():
        if not line.startswith('"JOB_FINISH" '):
            t.drop("records of other kinds than JOB_FINISH", 1)
            continue
        yield n, line


def _job(line: str) -> dict[str, object]:
    try:
        (x,) = csv.reader([line], delimiter=" ")
    except csv.Error as error:
        raise ValueError(error) from None
    if len(x) < 25:
        raise ValueError(f"{len(x)} fields; a JOB_FINISH has more")
    asked = int(x[22])
    at = 23 + asked  # how many hosts it ran on, and which
    hosts = x[at + 1 : at + 1 + int(x[at])]
    at += 1 + len(hosts)
    status, project = int(x[at]), x[at + 4 + USAGE + 1]
    after = at + 4 + USAGE
    slots = max(int(x[after + 3]), sum(int(h.partition("*")[0]) if "*" in h else 1 for h in hosts))
    start, begin = int(x[10]), int(x[8])
    return {
        "job": x[3],
        "submit": x[7],
        "eligible": x[8] if begin > int(x[7]) else "",
        "start": x[10] if start else "",
        "end": x[2] if start else "",
        "walltime": _limit(x, after),
        "processors": slots,
        "nodes": len({h.rpartition("*")[2] for h in hosts}),
        "gpus": _gpus(x, after),
        "user": x[11],
        "queue": x[12],
        "group": project,
        "status": "completed" if status == DONE else "failed",
    }


def _limit(x: list[str], after: int) -> str:
    """s of the run limit; "" where the record does not tell it. `after`: place of the user to mail, behind the usage."""
    at = after + 30  # how many pairs of submit options follow, from 9 on
    try:
        at += 1 + 2 * int(x[at])
        at += 1 + 6 * int(x[at])  # usage of each host
        limit = int(x[at])
    except (ValueError, IndexError):
        return ""
    return str(limit) if 0 < limit < 10**8 else ""


def _gpus(x: list[str], after: int) -> int:
    """GPUs of its effective resource request, or of its option -gpu."""
    text = " ".join(x[after:])
    hosts = re.search(r"ngpus(?:_physical|_shared)?=(\d+)", text) or re.search(r"\bnum=(\d+):mode=", text)
    return int(hosts[1]) if hosts else 0

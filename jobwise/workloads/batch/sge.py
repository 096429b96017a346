"""Accounting of Grid Engine (SGE, OGE, UGE, OCS): a line a job, 43 fields or more between colons; OCS 9 writes JSON lines.

Source: accounting(5). UGE's times are in ms, OCS's in µs. A colon in a command shifts what is behind field 45: nothing is read
there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from jobwise.workload import Workload
from jobwise.workloads.jobtable import JobTable

if TYPE_CHECKING:
    from jobwise.workloads.logfile import LogFile

FIELDS = 42  # at least
TASKS = "tasks of a parallel job (the job has a record)"
READING = ("A job is a record; processors are its slots; its limit is h_rt, else s_rt, of its request.",)


def knows(f: LogFile) -> bool:
    """Return whether the first record has the fields of accounting."""
    line = next((x for x in f.head.splitlines() if x.strip() and not x.startswith("#")), "")
    x = line.split(":")
    return len(x) >= FIELDS and all(y.isdigit() for y in (x[5], x[8], x[9], x[10]))


def read(f: LogFile) -> Workload:
    """Return the jobs that ran. Raises InputError."""
    t = JobTable(f.source, f.name, "processors", reading=READING)
    t.add_rows(_rows(f, t), _job)
    return t.workload(f.procs)


def knows_json(f: LogFile) -> bool:
    """Return whether the file is OCS's accounting.jsonl."""
    return {"job_number", "submission_time", "slots"} <= set(f.keys)


def read_json(f: LogFile) -> Workload:
    """Return the jobs of accounting.jsonl. Raises InputError."""
    t = JobTable(f.source, f.name, "processors", reading=READING)
    rows = list(enumerate(f.objects, 1))
    of_tasks = {n for n, x in rows if str(x.get("pe_taskid") or x.get("pe_task_id") or "NONE") != "NONE"}
    t.drop(TASKS, len(of_tasks))
    t.add_rows(((n, x) for n, x in rows if n not in of_tasks), _job)
    return t.workload(f.procs)


def _rows(f: LogFile, t: JobTable) -> Iterator[tuple[int, dict[str, Any]]]:
    names = (
        "qname hostname group owner job_name job_number account priority submission_time start_time end_time failed exit_status"
    )
    for n, line in f.lines():
        x = line.rstrip("\n").split(":")
        if line.startswith("#"):
            continue
        if len(x) < FIELDS:
            t.drop("of another number of fields", 1)
        elif re.match(r"\d+\.[A-Za-z]", x[41]):
            t.drop(TASKS, 1)
        else:
            values: dict[str, Any] = dict(zip(names.split(), x, strict=False))
            yield n, values | {"project": x[31], "slots": x[34], "task_number": x[35], "category": ":".join(x[39:])}


def _job(x: dict[str, Any]) -> dict[str, object]:
    start, end = _time(x["start_time"]), _time(x["end_time"])
    asked = dict(re.findall(r"(\w+)=([^,\s]+)", str(x.get("category", ""))))
    good = str(x.get("failed", "0")) == "0" and str(x.get("exit_status", "0")) == "0"
    project = str(x.get("project", ""))
    return {
        "job": x["job_number"],
        "submit": _time(x["submission_time"]),
        "start": start or "",
        "end": end if start else "",
        "walltime": asked.get("h_rt") or asked.get("s_rt") or "",
        "processors": x["slots"],
        "gpus": asked.get("gpu", "0"),
        "user": x.get("owner"),
        "group": project if project not in ("NONE", "") else x.get("group"),
        "queue": x.get("qname"),
        "status": "completed" if good else "failed",
    }


def _time(text: Any) -> float:
    """s since 1970 of seconds, ms or µs; 0: never."""
    value = float(text)
    return value / (1e6 if value > 1e14 else 1e3 if value > 1e11 else 1.0)

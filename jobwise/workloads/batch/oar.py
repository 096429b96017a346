"""OAR: `oarstat -J --sql …` (a map of jobs by number), the jobs of its REST interface, and the columns of its table `jobs`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from jobwise.workload import Workload
from jobwise.workloads.jobtable import JobTable

if TYPE_CHECKING:
    from jobwise.workloads.logfile import LogFile

ASKED = re.compile(r"R=(\d+)(?:,W=([\d:]+))?")
STATES = {"Terminated": "completed", "Error": "failed"}  # all others have not ended
READING = ("Processors are a job's resources (assigned, else those of its message).",)


def knows(f: LogFile) -> bool:
    """Return whether the file has OAR's jobs."""
    keys = set(f.keys)
    return {"submissionTime", "startTime"} <= keys or ({"submission_time", "queue_name"} <= keys and "job_user" in keys)


def read(f: LogFile) -> Workload:
    """Return the jobs that ended. Raises InputError."""
    t = JobTable(f.source, f.name, "processors", reading=READING)
    t.add_rows(enumerate(f.objects, 1), _job)
    return t.workload(f.procs)


def _job(x: dict[str, Any]) -> dict[str, object]:
    def value(*names: str) -> Any:
        return next((x[n] for n in names if x.get(n) not in (None, "", 0, "0")), "")

    asked = ASKED.search(str(x.get("message") or ""))
    state = str(x.get("state", ""))
    start = value("startTime", "start_time")
    return {
        "job": value("Job_Id", "job_id", "id"),
        "submit": value("submissionTime", "submission_time"),
        "start": start,
        "end": value("stopTime", "stop_time") if start else "",
        "walltime": value("walltime", "moldable_walltime") or (asked[2] if asked and asked[2] else ""),
        "processors": len(x.get("assigned_resources") or []) or (asked[1] if asked else ""),
        "user": value("owner", "job_user"),
        "group": value("project"),
        "queue": value("queue", "queue_name"),
        "status": STATES.get(state, "running" if state else ""),
    }

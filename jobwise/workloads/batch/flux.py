"""Flux: `flux jobs -a --json`, and the lines of `flux job list` (a JSON object a job). GPUs are in neither."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jobwise.workload import Workload
from jobwise.workloads.jobtable import JobTable

if TYPE_CHECKING:
    from jobwise.workloads.logfile import LogFile

RESULTS = {"1": "completed", "2": "failed", "4": "cancelled", "8": "failed"}  # of flux job list
READING = (
    "A job is submitted when its dependencies are met; it ends at t_cleanup; its limit is its duration. GPUs are not told.",
)


def knows(f: LogFile) -> bool:
    """Return whether the file has Flux's jobs."""
    return "t_submit" in f.keys


def read(f: LogFile) -> Workload:
    """Return the jobs that ended. Raises InputError."""
    t = JobTable(f.source, f.name, reading=READING)
    t.add_rows(enumerate(f.objects, 1), _job)
    return t.workload(f.procs)


def _job(x: dict[str, Any]) -> dict[str, object]:
    ended = x.get("t_cleanup") or x.get("t_inactive")
    result = str(x.get("result", ""))
    return {
        "job": x.get("id"),
        "submit": x.get("t_submit"),
        "eligible": x.get("t_priority") or x.get("t_depend"),
        "start": x.get("t_run") or "",
        "end": ended if x.get("t_run") else "",
        "walltime": x.get("duration") or "",
        "processors": x.get("ncores"),
        "nodes": x.get("nnodes"),
        "user": x.get("username") or x.get("userid"),
        "group": x.get("bank"),
        "queue": x.get("queue"),
        "app": x.get("name"),
        "status": "running" if not ended and x.get("t_run") else RESULTS.get(result, result),
    }

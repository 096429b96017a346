"""HTCondor: `condor_history -long`, `-json` or `-jsonl`, and the history file itself (ads that end with ***).

Run times are those of the last attempt where it is known; RequestMemory is in MiB. Source: HTCondor's manual, attributes of
jobs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from jobwise.workload import Workload
from jobwise.workloads.jobtable import JobTable

if TYPE_CHECKING:
    from jobwise.workloads.logfile import LogFile

LINE = re.compile(r"^(\w+) = (.*)$")
STATES = {"1": "idle", "2": "running", "3": "removed", "4": "completed", "5": "held", "6": "running", "7": "suspended"}
READING = (
    "A job is submitted at QDate and runs from its last start to its end; earlier attempts are waits. Limits: "
    "AllowedExecuteDuration or AllowedJobDuration, where there is one.",
)


def knows(f: LogFile) -> bool:
    """Return whether the file has ads of jobs."""
    if f.keys:
        return "qdate" in {k.lower() for k in f.keys}
    return re.search(r"^(QDate|ClusterId) = \d+$", f.head, re.M) is not None


def read(f: LogFile) -> Workload:
    """Return the jobs that ended. Raises InputError."""
    t = JobTable(f.source, f.name, "processors", reading=READING)
    t.add_rows(enumerate(f.objects, 1) if f.keys else _ads(f), _job)
    return t.workload(f.procs)


def _ads(f: LogFile) -> Iterator[tuple[int, dict[str, Any]]]:
    ad: dict[str, Any] = {}
    begin = 1
    for n, line in f.lines(blank=True):
        match = LINE.match(line)
        if ad and (not match or match[1] in ad):  # the end of an ad, or its first attribute again
            yield begin, ad
            ad = {}
        if match:
            begin = begin if ad else n
            ad[match[1]] = match[2].strip('"')
    if ad:
        yield begin, ad


def _job(ad: dict[str, Any]) -> dict[str, object]:
    x = {k.lower(): v for k, v in ad.items()}

    def number(*names: str) -> str:
        texts = (str(x.get(n, "")).strip() for n in names)
        return next((v for v in texts if re.fullmatch(r"\d+(\.\d+)?", v) and float(v) > 0), "")

    state = STATES.get(str(x.get("jobstatus", "")), "")
    code = number("exitcode") or ("1" if str(x.get("exitbysignal", "")).lower() == "true" else "")
    start = number("jobcurrentstartdate", "jobstartdate")
    return {
        "job": number("clusterid"),
        "submit": number("qdate"),
        "start": start,
        "end": number("completiondate", "enteredcurrentstatus") if start else "",
        "walltime": number("allowedexecuteduration", "allowedjobduration"),
        "processors": number("requestcpus", "cpusprovisioned") or "1",
        "gpus": number("requestgpus") or "0",
        "memory": f"{number('requestmemory')}M" if number("requestmemory") else "",
        "user": x.get("owner"),
        "group": x.get("acctgroup"),
        "status": "failed" if state == "completed" and code else state,
    }

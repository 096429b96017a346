"""Accounting logs of OpenPBS, PBS Professional and Torque: a line a record, MM/DD/YYYY HH:MM:SS;TYPE;JOB;key=value key=value …

A job is its last E record (it ended). Times are epoch seconds in the record: it enters the queue at `etime`. Source: OpenPBS's
accounting.c, Torque's accounting documentation.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from jobwise.workload import Workload
from jobwise.workloads.jobtable import JobTable

if TYPE_CHECKING:
    from jobwise.workloads.logfile import LogFile

RECORD = re.compile(r"\d\d/\d\d/\d{4} \d\d:\d\d:\d\d;([A-Za-z]);([^;]*);(.*)", re.S)
PAIR = re.compile(r"""([\w.]+)=("(?:[^"]*)"|'(?:[^']*)'|\S*)""")
READING = (
    "A job is its record E; it is submitted when it becomes eligible (etime); processors are those of its nodes (exec_vnode, "
    "exec_host, select), else ncpus.",
)


def knows(f: LogFile) -> bool:
    """Return whether the file begins with such a record."""
    return RECORD.match(f.head.lstrip()) is not None


def read(f: LogFile) -> Workload:
    """Return the jobs that ended. Raises InputError."""
    t = JobTable(f.source, f.name, "processors", reading=READING)
    last: dict[str, int] = {}  # the line of the last record of each job
    for n, line in f.lines():
        record = RECORD.match(line)
        if not record:
            t.drop("that are no record", 1)
        elif record[1] != "E":
            t.drop("records of other kinds than E (job ended)", 1)
        elif "[]" in record[2]:
            t.drop("arrays as a whole (their jobs have records)", 1)
        else:
            t.drop("earlier runs of a job that was begun again", int(record[2] in last))
            last[record[2]] = n
    t.add_rows(_ended(f, last), lambda x: _job(*x))
    return t.workload(f.procs)


def _ended(f: LogFile, last: dict[str, int]) -> Iterator[tuple[int, tuple[str, str]]]:
    """Yield (line, (job, its record)) of the last record of each job."""
    for n, line in f.lines():
        record = RECORD.match(line)
        if record and record[1] == "E" and last.get(record[2]) == n:
            yield n, (record[2], record[3])


def _job(id: str, text: str) -> dict[str, object]:
    x = {k: v.strip("\"'") for k, v in PAIR.findall(text)}
    asked = {k.removeprefix("Resource_List."): v for k, v in x.items() if k.startswith("Resource_List.")}
    code = x.get("Exit_status", "")
    return {
        "job": (re.match(r"\d+", id) or [""])[0],
        "submit": x.get("ctime") or x.get("qtime"),
        "eligible": x.get("etime"),
        "start": x.get("start"),
        "end": x.get("end"),
        "walltime": asked.get("walltime"),
        "processors": _cores(x, asked),
        "nodes": _nodes(x, asked),
        "gpus": _gpus(asked),
        "memory": asked.get("mem"),
        "user": x.get("user"),
        "group": x.get("account") or x.get("project") or x.get("group"),
        "queue": x.get("queue"),
        "status": "" if not code else "completed" if code == "0" else "failed",
    }


def _cores(x: dict[str, str], asked: dict[str, str]) -> int:
    """Return the cores of the nodes that it had, else those that it asked for."""
    if each := re.findall(r"ncpus=(\d+)", x.get("exec_vnode", "")):
        return sum(map(int, each))
    held = sum(_held(part.partition("/")[2]) for part in x.get("exec_host", "").split("+") if part)
    slots, cpus = x.get("total_execution_slots", ""), asked.get("ncpus", "")
    wanted = _chunks(asked.get("select", ""), "ncpus") or _of_nodes(asked.get("nodes", ""), "ppn", 1)
    return held or (int(slots) if slots.isdecimal() else 0) or max(wanted, int(cpus) if cpus.isdecimal() else 0)


def _held(cores: str) -> int:
    """Return how many cores of a node: 7, 0-27, 0,2,4 or 0*13."""
    if "*" in cores:
        return int(cores.partition("*")[2])
    ends = (piece.partition("-") for piece in cores.split(",") if piece)
    return sum(int(last) - int(first) + 1 if last else 1 for first, _, last in ends)


def _of_nodes(text: str, key: str, least: int) -> int:
    """Return the sum of a resource over the parts of Torque's nodes, 1:ppn=4:gpus=1+n7:ppn=8; `least` of those without it."""
    total = 0
    for part in filter(None, text.split("+")):
        count, each = re.match(r"(\d+)(?=:|$)", part), re.search(rf":{key}=(\d+)", part)
        total += (int(count[1]) if count else 1) * (int(each[1]) if each else least)
    return total


def _chunks(select: str, key: str) -> int:
    """Return the sum of a resource over the chunks of a select."""
    parts = [re.match(r"(?:(\d+)(?::|$))?(.*)", c) for c in select.split("+") if c]
    named = [(int(p[1] or 1), re.search(rf"(?:^|:){key}=(\d+)", p[2])) for p in parts if p]
    return sum(n * int(r[1]) for n, r in named if r)


def _nodes(x: dict[str, str], asked: dict[str, str]) -> int:
    known = re.match(r"\d+", x.get("unique_node_count") or asked.get("nodect", ""))
    return int(known[0]) if known else len({h.partition("/")[0] for h in x.get("exec_host", "").split("+") if h})


def _gpus(asked: dict[str, str]) -> int:
    plain = next((asked[k] for k in ("ngpus", "gpus", "gpu") if asked.get(k, "").isdecimal()), "")
    return int(plain) if plain else _chunks(asked.get("select", ""), "ngpus") or _of_nodes(asked.get("nodes", ""), "gpus", 0)

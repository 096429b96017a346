"""Accounting logs of OpenPBS, PBS Professional and Torque: a line a record, MM/DD/YYYY HH:MM:SS;TYPE;JOB;key=value key=value …

A job is its last E record (it ended). Times are epoch seconds in the record: it enters the queue at `etime`. Source: OpenPBS's
accounting.c, Torque's accounting documentation.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from jobwise.workload import Workload
from jobwise.workloads.jobtable import JobTable, Row

if TYPE_CHECKING:
    from jobwise.workloads.logfile import LogFile

RECORD = re.compile(r"\d\d/\d\d/\d{4} \d\d:\d\d:\d\d;([A-Za-z]);([^;]*);(.*)", re.S)
PAIR = re.compile(r"""([\w.]+)=("(?:[^"]*)"|'(?:[^']*)'|\S*)""")
CHUNK = re.compile(r"(?:^|\+)(\d+)?([^+]*)")  # of a select: 2:ncpus=8:ngpus=1
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
    last: dict[str, tuple[int, str]] = {}
    for n, line in f.lines():
        match = RECORD.match(line)
        if not match:
            t.drop("that are no record", 1)
        elif match[1] != "E":
            t.drop("records of other kinds than E (job ended)", 1)
        elif "[]" in match[2]:
            t.drop("arrays as a whole (their jobs have records)", 1)
        else:
            t.drop("earlier runs of a job that was begun again", int(match[2] in last))
            last[match[2]] = (n, match[3])
    t.add_rows(_rows(last))
    return t.workload(f.procs)


def _rows(last: dict[str, tuple[int, str]]) -> Iterator[Row]:
    for id, (n, text) in last.items():
        x = {k: v.strip("\"'") for k, v in PAIR.findall(text)}
        asked = {k.removeprefix("Resource_List."): v for k, v in x.items() if k.startswith("Resource_List.")}
        code = x.get("Exit_status", "")
        yield (
            n,
            {
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
            },
        )


def _cores(x: dict[str, str], asked: dict[str, str]) -> int:
    """Cores of the nodes that it had, else those that it asked for."""
    if "exec_vnode" in x and (each := re.findall(r"ncpus=(\d+)", x["exec_vnode"])):
        return sum(map(int, each))
    held = 0
    for part in x.get("exec_host", "").split("+"):
        cores = part.partition("/")[2]
        if "*" in cores:
            held += int(cores.partition("*")[2] or 0)
        else:
            for piece in filter(None, cores.split(",")):
                first, _, end = piece.partition("-")
                held += int(end) - int(first) + 1 if end.isdigit() and first.isdigit() else 1
    ppn = re.search(r"ppn=(\d+)", asked.get("nodes", ""))
    known = int(asked.get("ncpus", "0") or 0) if asked.get("ncpus", "0").isdigit() else 0
    return max(held, known, _chunks(asked.get("select", ""), "ncpus"), _nodes(x, asked) * int(ppn[1]) if ppn else 0)


def _chunks(select: str, key: str) -> int:
    """The sum of a resource over the chunks of a select."""
    parts = [re.match(r"(?:(\d+)(?::|$))?(.*)", c) for c in select.split("+") if c]
    match = [(int(p[1] or 1), re.search(rf"(?:^|:){key}=(\d+)", p[2])) for p in parts if p]
    return sum(n * int(r[1]) for n, r in match if r)


def _nodes(x: dict[str, str], asked: dict[str, str]) -> int:
    known = re.match(r"\d+", x.get("unique_node_count") or asked.get("nodect", ""))
    return int(known[0]) if known else len({h.partition("/")[0] for h in x.get("exec_host", "").split("+") if h})


def _gpus(asked: dict[str, str]) -> int:
    known = next((asked[k] for k in ("ngpus", "gpus", "gpu") if asked.get(k, "").isdigit()), "")
    of_node = re.match(r"(\d+).*?gpus?=(\d+)", asked.get("nodes", ""))
    return int(known) if known else int(of_node[1]) * int(of_node[2]) if of_node else _chunks(asked.get("select", ""), "ngpus")

"""Event files of UBCCR's Slurm simulator: -dt SECONDS -e submit_batch_job | options; -sim-walltime is the run time."""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Iterator
from math import inf
from typing import TYPE_CHECKING, NoReturn

from jobwise.workload import Workload
from jobwise.workloads.fields import gpus_in, seconds
from jobwise.workloads.jobtable import JobTable

if TYPE_CHECKING:
    from jobwise.workloads.logfile import LogFile

EVENT = re.compile(r"\s*-dt\s+([\d.]+)\s+-e\s+(\w+)\s*(?:\|(.*))?$")
OPTIONS = (  # of an event; what else it has stays in the line that it submits
    ("-sim-walltime",), ("--uid",), ("-J", "--job-name"), ("-N", "--nodes"), ("-n", "--ntasks"), ("-c", "--cpus-per-task"),
    ("-t", "--time"), ("-p", "--partition"), ("-A", "--account"), ("-q", "--qos"), ("-C", "--constraint"),
    ("--mem",), ("--gres",), ("-a", "--array"), ("--ntasks-per-node",),
)  # fmt: skip
READING = (
    "Times are from the begin of the simulation; a job starts nowhere in the file, so recorded waits are not known; run time "
    "= -sim-walltime (-1: until its limit).",
)


class Options(argparse.ArgumentParser):
    """The options of an event that are read: `parse_known_args(words)`. Raises ValueError."""

    def __init__(self) -> None:
        super().__init__(add_help=False, allow_abbrev=False)
        for names in OPTIONS:
            self.add_argument(*names, dest=names[-1].strip("-").replace("-", "_"), default="")

    def error(self, message: str) -> NoReturn:
        """Raise ValueError in place of SystemExit."""
        raise ValueError(message)


def knows(f: LogFile) -> bool:
    """Return whether the file has such events."""
    lines = [x for x in f.head.splitlines() if x.strip() and not x.lstrip().startswith("#")]
    return bool(lines) and EVENT.match(lines[0]) is not None


def read(f: LogFile) -> Workload:
    """Return the jobs that are submitted. Raises InputError."""
    t = JobTable(f.source, f.name, "processors", reading=READING)
    options = Options()
    t.add_rows(_rows(f, t), lambda x: _job(options, *x))
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


def _job(options: Options, when: str, text: str) -> dict[str, object]:
    x, _ = options.parse_known_args(shlex.split(text)[:-1])
    nodes = int(x.nodes.partition("-")[0] or 0)
    tasks = int(x.ntasks or max(nodes, 1) * int(x.ntasks_per_node or 1))
    limit = seconds(x.time) if x.time else ""
    return {
        "job": (re.search(r"\d+", x.job_name) or [""])[0],
        "submit": when,
        "run": limit if float(x.sim_walltime or -1) < 0 else x.sim_walltime,  # it never ends by itself: its limit does
        "walltime": "UNLIMITED" if limit == inf else limit,
        "processors": tasks * int(x.cpus_per_task or 1),
        "nodes": nodes or "",
        "gpus": gpus_in(x.gres) * max(nodes, 1),
        "user": x.uid,
        "group": x.account,
        "queue": x.qos,
        "partition": x.partition,
    }

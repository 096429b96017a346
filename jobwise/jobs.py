"""The job tables, and a workload: jobs, what is true about them, and the machine they ran on.

Two tables with one row per job. `jobs` is what a scheduler may know; `truth` is what only the simulator knows.
Policies, encoders and a live cluster are handed `jobs` and never `truth`, so that peeking is impossible.
"""

from __future__ import annotations

from hashlib import sha1

import numpy as np

# The life of a job. WAITING: submitted, parents not done. PAUSED jobs stand in the queue like QUEUED ones.
FUTURE, WAITING, QUEUED, RUNNING, PAUSED, DONE, FAILED = range(7)
COMPUTE, NETWORK = range(2)  # what a job is bound by; -1 unknown
STATUS_NAMES = ("future", "waiting", "queued", "running", "paused", "done", "failed")
TAU = 10.0  # s: runs that are shorter count as this long in the bounded slowdown (Feitelson, JSSPP'01)


def job_dtype(resources: int = 1) -> np.dtype:
    """The public job table's row for `resources` kinds of resource (R)."""
    return np.dtype(
        [
            ("submit", "f8"),  # s, from the first submit of the workload
            ("walltime", "f8"),  # s, requested
            ("request", "i8", (resources,)),  # [R] units over the whole cluster
            ("start", "f8"),  # s, first start; NaN before
            ("end", "f8"),  # s; NaN before
            ("queued", "f8"),  # s, when it (last) became eligible to start
            ("due", "f8"),  # s, estimated end of the current run: start + max(walltime, 1)
            ("reserved", "f8"),  # s, promised start (conservative, DRAS, DeepRM); NaN without
            ("ran", "f8"),  # s of execution so far, before the current run; work lost to a failed node does not count
            ("user", "i4"),  # identifiers; -1 unknown
            ("group", "i4"),
            ("app", "i4"),
            ("queue", "i4"),
            ("partition", "i4"),
            ("kind", "i4"),  # COMPUTE, NETWORK, as its user says; -1 unknown
            ("chunks", "i4"),  # 0: units anywhere; k: k equal chunks, each whole on one node
            ("held", "i4"),  # first slice of its allocation; -1 none (or a pool)
            ("unmet", "i4"),  # parents not done yet
            ("ask", "i4"),  # what it asks of nodes, a row of the asks of its cluster's site; -1: its request is all
            ("restarts", "i4"),
            ("least", "i4"),  # units that it can run with, where it may hold other numbers than its request; 0: it may not
            ("most", "i4"),
            ("step", "f4"),  # s that one unit computes between two exchanges (a minibatch); 0: it never exchanges
            ("gradient", "f4"),  # MB that it exchanges
            ("memory", "f4"),  # kB a processor, requested; -1 unknown
            ("flow", "i4"),  # the workflow that it is a task of; -1 none
            ("rank", "f4"),  # s, the longest way from its begin to an end of its workflow, as requested
            ("level", "u2"),  # how many tasks are on the longest way to it, at most 65,535
            ("status", "i1"),
            ("restartable", "i1"),  # it may be stopped and begun again, from its begin
            ("patience", "f4"),  # s that its user lets it be held for cheaper hours (`+shift8h`)
            ("draw", "i8"),  # mW that it adds to the machine while it runs, as is assumed; 0: nothing is known
        ],
        align=True,
    )


# What only the simulator knows. The lower part is the kernel's book-keeping.
truth_dtype = np.dtype(
    [
        ("runtime", "f8"),  # s of work at rate 1
        ("left", "f8"),  # s of work left, as of `updated`
        ("rate", "f8"),  # work per second while running
        ("updated", "f8"),  # s
        ("saved", "f8"),  # what was left of the work when it started last: a failure brings it back there
        ("pause", "f8"),  # s for which it holds its units before it works on (a restart)
        ("finish", "f8"),  # s, projected end at the current rate
        ("heap", "i4"),  # place in the heap of completions; -1 not running
        ("next", "i4"),  # queue links
        ("prev", "i4"),
        ("child", "i4"),  # first child and how many
        ("children", "i4"),
        ("fails", "i1"),  # ends as FAILED
        ("kind", "i1"),  # COMPUTE, NETWORK, as it is; -1 neither
        ("least", "i4"),  # nodes that could hold it, and that it can use
        ("most", "i4"),
        ("sigma", "f8"),  # how many times as long it runs where it is
    ],
    align=True,
)

# A job that ended before time 0 of a workload: what history begins with, and what a gate replays.
past_dtype = np.dtype(
    [
        ("runtime", "f8"),  # s
        ("walltime", "f8"),  # s, requested
        ("size", "i8"),  # units of the first resource
        ("user", "i4"),
        ("submit", "f8"),  # s, from time 0 of the workload: below 0
        ("end", "f8"),  # s
        ("app", "i4"),
        ("queue", "i4"),
        ("memory", "f4"),  # kB a processor, requested; -1 unknown
    ],
    align=True,
)


# What happens to jobs, in the order in which a scheduler learns of it: see `jobwise.sim.events`.
STOPPED, SUBMITTED, STARTED, CANCELLED = range(4)  # at one time in this order; the last while it waited, on a live cluster
event_dtype = np.dtype(
    [
        ("time", "f8"),  # s
        ("run", "f8"),  # s that a job ran that has ended; NaN: it stopped and waits again, or it has not stopped
        ("job", "i4"),  # row
        ("kind", "i1"),
    ],
    align=True,
)


def blank_jobs(count: int, resources: int = 1) -> np.ndarray:
    """`count` empty rows of the job table: identifiers -1, observations NaN."""
    row, jobs = np.zeros(1, job_dtype(resources)), np.empty(count, job_dtype(resources))
    for key in ("start", "end", "queued", "due", "reserved"):
        row[key] = np.nan
    for key in ("user", "group", "app", "queue", "partition", "kind", "held", "flow", "ask"):
        row[key] = -1
    row["memory"], row["restartable"], row["patience"] = -1.0, 1, np.inf
    raw = f"V{row.dtype.itemsize}"
    jobs.view(raw)[:] = row.view(raw)  # as bytes: by field it is slow
    return jobs


def digest(past: np.ndarray) -> bytes:
    """A hash of rows of a table, by their fields: what lies between them in memory is anything."""
    return sha1(b"".join(np.ascontiguousarray(past[name]).tobytes() for name in past.dtype.names or ())).digest()

"""The tables of a memory: groups of jobs that are alike, and cells of jobs that have the same forecast.

Groups and cells are found by a hash table; `with_room` makes all tables larger, so that a live cluster may go on for ever.
What is done with them: `memory.py`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from jobwise.compiled import inlined, kernel
from jobwise.sim.random import GOLDEN, mixed

RECENT = 2000  # jobs that ended last
CHUNK = 4096  # jobs that are entered before room is made for more
ALL, USER, KEY = range(3)  # the groups of a job

run_dtype = np.dtype([("count", "f8"), ("ratio", "f8"), ("short", "f8"), ("log", "f8")])  # faded by FADE at each end
group_dtype = np.dtype([("running", "i4"), ("news", "i4")])  # jobs that run; events so far that make a forecast old
cell_dtype = np.dtype(  # jobs that have the same forecast
    [
        ("group", "i4", (3,)),  # ALL, USER, KEY
        ("request", "f8"),
        ("size", "f8"),
        ("ratio", "f8"),  # E[min(run / request, 1)]
        ("short", "f8"),  # E[10 / max(run, 10)]
        ("made", "f8"),  # s; -inf: never
        ("news", "i4"),  # of the user when it was made
        ("own", "i4"),  # of the key
    ],
    align=True,
)
slot_dtype = np.dtype([("hash", "u8"), ("at", "i8")])  # hash 0: free


class Memory(NamedTuple):
    """The groups and cells of the jobs of one simulation or cluster."""

    run: np.ndarray  # [G] of run_dtype; 0 is everyone
    group: np.ndarray  # [G] of group_dtype; empty where nothing is forecast
    cell: np.ndarray  # [C] of cell_dtype
    slot: np.ndarray  # [2^k] of slot_dtype: where groups and cells are, by open addressing
    used: np.ndarray  # [3] groups, cells, and jobs so far
    of: np.ndarray  # [J] i4 the cell of each job
    began: np.ndarray  # [J] s, when those that run started; NaN of the others
    total: np.ndarray  # [1] processors
    recent: np.ndarray  # [RECENT, 2] of jobs that ended last, in a ring: log index by their forecast, work
    ended: np.ndarray  # [1] how many there were
    error: np.ndarray  # [3] of jobs that ended lately: squared errors of log 10 / run, of forecasts, of requests; how many


def blank(total: int, forecasts: bool = False, jobs: int = 0, rows: int = 0) -> Memory:
    """Return the memory of a cluster of `total` processors before the first event. Without `forecasts` it remembers run times
    alone. `jobs`: room for the groups of that many jobs; `rows`: room for that many rows of jobs."""
    jobs = max(jobs, 1)
    groups = 1 + 2 * jobs
    return Memory(
        run=np.zeros(groups, run_dtype),
        group=np.zeros(groups if forecasts else 0, group_dtype),
        cell=np.zeros(jobs, cell_dtype),
        slot=np.zeros(1 << (6 * jobs).bit_length(), slot_dtype),
        used=np.array([1, 0, 0]),
        of=np.zeros(rows, np.int32),
        began=np.full(rows, np.nan),
        total=np.array([max(total, 1)], np.int64),
        recent=np.zeros((RECENT if forecasts else 0, 2)),
        ended=np.zeros(1),
        error=np.zeros(3),
    )


NO_MEMORY = blank(1)


@kernel
def _find(slot, hash_):
    """The slot of a hash, or the free one where it belongs."""
    mask = np.int64(len(slot) - 1)
    i = np.int64(hash_ >> np.uint64(20)) & mask
    while slot[i]["hash"] != np.uint64(0) and slot[i]["hash"] != hash_:
        i = (i + 1) & mask
    return i


@inlined
def _place(memory, hash_, kind):
    """(the number of a group (kind 0) or cell (1), True if it is new)."""
    hash_ = mixed(hash_) | np.uint64(1)
    i = _find(memory.slot, hash_)
    new = memory.slot[i]["hash"] == np.uint64(0)
    if new:
        memory.slot[i]["hash"], memory.slot[i]["at"] = hash_, memory.used[kind]
        memory.used[kind] += 1
    return memory.slot[i]["at"], new


@inlined
def _times(value, factor):
    return np.uint64(np.int64(value)) * np.uint64(factor)


@kernel
def _cell(memory, user, app, queue, kb, walltime, size):
    """The number of the cell of such a job."""
    own = np.uint64(np.int64(user) + 2) * GOLDEN
    of_user, _ = _place(memory, own, 0)
    key = own + _times(walltime, 0xD1B54A32D192ED03) + _times(size, 0x2545F4914F6CDD1D) + np.uint64(0x632BE59BD9B4E019)
    of_key, _ = _place(memory, key, 0)
    line = np.uint64(0)
    if len(memory.group) > 0:  # forecasts of a key are made line by line, each when it is asked for
        line = _times(app, 0xA0761D6478BD642F) + _times(queue, 0xE7037ED1A0B428DB)
        line += _times(np.float64(kb) * 4096.0, 0x8EBC6AF09C88C6E3)
    both = np.uint64(of_key) * np.uint64(0xFF51AFD7ED558CCD) + mixed(line) * np.uint64(0xC4CEB9FE1A85EC53)
    at, new = _place(memory, both + np.uint64(0x1D8E4E27C47D124F), 1)
    if new:
        x = memory.cell[at]
        x["group"][ALL], x["group"][USER], x["group"][KEY] = 0, of_user, of_key
        x["request"], x["size"], x["made"] = max(walltime, 1.0), size, -np.inf
    return at


@kernel
def _enter_jobs(memory, jobs, first, last, of):
    for i in range(first, last):
        x = jobs[i]
        of[i] = _cell(memory, x["user"], x["app"], x["queue"], x["memory"], x["walltime"], x["request"][0])


@kernel
def _enter_past(memory, past, first, last, of):
    for i in range(first, last):
        x = past[i]
        of[i] = _cell(memory, x["user"], x["app"], x["queue"], x["memory"], x["walltime"], x["size"])


def entered(m: Memory, table: np.ndarray, of: np.ndarray, first: int = 0) -> Memory:
    """Return the memory with the cells of rows `first` … of a table, of jobs or of the past, written into `of`."""
    enter = _enter_past if "size" in (table.dtype.names or ()) else _enter_jobs
    for a in range(first, len(table), CHUNK):
        b = min(a + CHUNK, len(table))
        m = with_room(m, b - a)
        enter(m, table, a, b, of)
    return m


def with_rows(m: Memory, jobs: np.ndarray) -> Memory:
    """Return the memory with the jobs of a table [J] that has grown since."""
    known, J = int(m.used[2]), len(jobs)
    if known >= J:
        return m
    if len(m.of) < J:
        more = max(J, 2 * len(m.of)) - len(m.of)
        m = m._replace(of=np.append(m.of, np.zeros(more, np.int32)), began=np.append(m.began, np.full(more, np.nan)))
    m = entered(m, jobs, m.of, known)
    m.used[2] = J
    return m


def with_room(m: Memory, jobs: int) -> Memory:
    """Return the memory, or a larger copy of it, with room for the groups and cells of `jobs` more jobs."""
    groups, cells = int(m.used[0]) + 2 * jobs, int(m.used[1]) + jobs
    if groups <= len(m.run) and cells <= len(m.cell) and 3 * (groups + cells) <= 2 * len(m.slot):
        return m
    large = blank(1, len(m.group) > 0, 2 * max(groups // 2, cells))
    for old, new in ((m.run, large.run), (m.group, large.group), (m.cell, large.cell)):
        new[: len(old)] = old
    _move(m.slot, large.slot)
    return m._replace(run=large.run, group=large.group, cell=large.cell, slot=large.slot)


@kernel
def _move(slot, larger):
    for i in range(len(slot)):
        if slot[i]["hash"] != np.uint64(0):
            larger[_find(larger, slot[i]["hash"])] = slot[i]

"""Run-time history: what jobs that have ended tell of jobs to come, in O(1) per completion.

Statistics are kept per class (user, requested time, processors), per user, and of everyone, each fading by FADE with every
completion it sees. A class leans on its user, a user on everyone, everyone on a prior (empirical Bayes with fixed weights).
Three numbers are kept: E[min(run / request, 1)], E[10 / max(run, 10)] (how likely is a short failure: what bounded slowdown
is about), and E[log(max(run, 10) / max(request, 10))].
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from jobwise.compiled import inlined, kernel
from jobwise.jobs import TAU
from jobwise.sim.random import GOLDEN, mixed

FADE = 0.95
LEAN_ON_USER, LEAN_ON_ALL, LEAN_ON_PRIOR = 1.0, 2.0, 20.0  # in completions
PRIOR_RATIO, PRIOR_SHORT, PRIOR_LOG = 0.5, 0.1, -1.0
SHORT = TAU  # s

entry_dtype = np.dtype([("key", "u8"), ("count", "f8"), ("ratio", "f8"), ("short", "f8"), ("log", "f8")], align=True)


class History(NamedTuple):
    """Place 0 is everyone; the rest is a hash table with open addressing (key 0: free)."""

    entry: np.ndarray  # [1 + 2^k] of entry_dtype


def blank(jobs: int) -> History:
    """Room for the classes and users of so many jobs: two entries each at most, and a third of the table stays free."""
    return History(np.zeros(1 + (1 << (3 * max(jobs, 1)).bit_length()), entry_dtype))


@inlined
def _find(h, key):
    mask = np.int64(len(h.entry) - 2)
    i = np.int64(key >> np.uint64(20)) & mask
    while h.entry[1 + i]["key"] != np.uint64(0) and h.entry[1 + i]["key"] != key:
        i = (i + 1) & mask
    return 1 + i


@kernel
def place(h, user, walltime, size, whole):
    """Place of the class (`whole`: of the user), entered if it is new."""
    key = np.uint64(np.int64(user) + 2) * GOLDEN
    if not whole:
        key += np.uint64(np.int64(walltime)) * np.uint64(0xD1B54A32D192ED03) + np.uint64(size) * np.uint64(0x2545F4914F6CDD1D)
        key += np.uint64(0x632BE59BD9B4E019)
    key = mixed(key) | np.uint64(1)
    at = _find(h, key)
    h.entry[at]["key"] = key
    return at


@kernel
def observe_at(entry, of_class, of_user, walltime, run):
    """A job of this class and user has ended after `run` seconds."""
    request = max(walltime, 1.0)
    ratio, short = min(run / request, 1.0), SHORT / max(run, SHORT)
    log = np.log(max(run, SHORT) / max(request, SHORT))
    for level in range(3):
        x = entry[0 if level == 0 else of_user if level == 1 else of_class]
        x["count"] = FADE * x["count"] + 1.0
        x["ratio"] = FADE * x["ratio"] + ratio
        x["short"] = FADE * x["short"] + short
        x["log"] = FADE * x["log"] + log


@kernel
def observe(h, user, walltime, size, run):
    """Take note of a run, its places looked up."""
    of_class, of_user = place(h, user, walltime, size, False), place(h, user, walltime, size, True)
    observe_at(h.entry, of_class, of_user, walltime, run)


@kernel
def warm(h, past):
    """Observe jobs that ended before."""
    for i in range(len(past)):
        x = past[i]
        observe(h, x["user"], x["walltime"], x["size"], x["runtime"])


@kernel
def observe_rows(h, jobs, rows):
    """Observe jobs of a job table that have just stopped, those that ended."""
    for i in range(len(rows)):
        job = jobs[rows[i]]
        if not np.isnan(job["end"]):
            observe(h, job["user"], job["walltime"], job["request"][0], job["ran"])


@inlined
def expect(entry, of_class, of_user, request):
    """(E[run / request], E[10 / max(run, 10)], E[log ratio], completions of the class, faded) from the two places of a job."""
    a, u, c = entry[0], entry[of_user], entry[of_class]
    n = a["count"] + LEAN_ON_PRIOR
    ratio = (a["ratio"] + LEAN_ON_PRIOR * PRIOR_RATIO) / n
    short = (a["short"] + LEAN_ON_PRIOR * PRIOR_SHORT) / n
    log = (a["log"] + LEAN_ON_PRIOR * PRIOR_LOG) / n
    n = 1.0 / (u["count"] + LEAN_ON_ALL)
    ratio, short, log = (
        (u["ratio"] + LEAN_ON_ALL * ratio) * n,
        (u["short"] + LEAN_ON_ALL * short) * n,
        (u["log"] + LEAN_ON_ALL * log) * n,
    )
    n = 1.0 / (c["count"] + LEAN_ON_USER)
    ratio, short, log = (
        (c["ratio"] + LEAN_ON_USER * ratio) * n,
        (c["short"] + LEAN_ON_USER * short) * n,
        (c["log"] + LEAN_ON_USER * log) * n,
    )
    return ratio, max(short, SHORT / max(request, SHORT)), log, c["count"]


@kernel
def expect_all(h, jobs, rows, out):
    """out[i] = what `expect` says of job rows[i]: ratio, short, log ratio, count [Q, 4]."""
    for i in range(len(rows)):
        job = jobs[rows[i]]
        n = job["request"][0]
        of_class, of_user = place(h, job["user"], job["walltime"], n, False), place(h, job["user"], job["walltime"], n, True)
        out[i, 0], out[i, 1], out[i, 2], out[i, 3] = expect(h.entry, of_class, of_user, max(job["walltime"], 1.0))


class Known(NamedTuple):
    """A history cut down to the jobs of one workload: nothing is looked up any more."""

    entry: np.ndarray  # [K] of entry_dtype; place 0 is everyone
    of_class: np.ndarray  # [J] i4 places
    of_user: np.ndarray  # [J]


def known(jobs: np.ndarray, past: np.ndarray) -> Known:
    """Return what is known of these jobs [J] before the first of them: `past` [K] in order of end."""
    h = blank(len(past) + len(jobs))
    warm(h, past)
    entry = np.zeros(1 + 2 * len(jobs), entry_dtype)
    of_class, of_user = np.empty(len(jobs), np.int32), np.empty(len(jobs), np.int32)
    used = _cut(h, jobs, entry, of_class, of_user, np.zeros(len(h.entry), np.int32))
    return Known(entry[:used].copy(), of_class, of_user)


@kernel
def _cut(h, jobs, entry, of_class, of_user, new):
    entry[0], used = h.entry[0], 1
    for i in range(len(jobs)):
        job = jobs[i]
        for whole in range(2):
            at = place(h, job["user"], job["walltime"], job["request"][0], whole == 1)
            if new[at] == 0:
                new[at], entry[used] = used, h.entry[at]
                used += 1
            if whole:
                of_user[i] = new[at]
            else:
                of_class[i] = new[at]
    return used


def with_room(h: History, jobs: int) -> History:
    """The history, or a larger one that knows the same, with room for the classes and users of so many jobs more."""
    used = int((h.entry["key"] > 0).sum()) + 2 * jobs
    if 3 * used <= 2 * len(h.entry):
        return h
    larger = blank(used)
    larger.entry[0] = h.entry[0]
    _copy(h.entry[h.entry["key"] > 0], larger)
    return larger


@kernel
def _copy(entries, h):
    for i in range(len(entries)):
        h.entry[_find(h, entries[i]["key"])] = entries[i]

"""Which jobs was a policy trained on? A sketch of a log that finds its jobs again in any part of it.

Eight consecutive jobs (requested time, size) make a shingle; the sketch is the smallest hashes of all shingles (Broder 1997).
Submits do not enter: a part of a log, or one whose load was scaled, is recognised too.
"""

from __future__ import annotations

import hashlib

import numpy as np

from jobwise.policies import files
from jobwise.policies.scheduler import Scheduler
from jobwise.sim.random import mix
from jobwise.workload import Workload

LENGTH, DISTINCT, SKETCH = 8, 5, 256
CHANCE = 0.1  # share that logs of one site may have in common by chance


def shingles(w: Workload) -> np.ndarray:
    """[S] u8 hashes of the shingles of a log, ascending: those with at least DISTINCT different jobs that occur once. Users
    submit the same few jobs again and again: such runs say nothing of a log."""
    if len(w) < LENGTH:
        return np.zeros(0, np.uint64)
    x = np.round(w.jobs["walltime"]).astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    x = mix(x ^ mix(w.jobs["request"][:, 0].astype(np.uint64)))
    rows = np.lib.stride_tricks.sliding_window_view(x, LENGTH)
    hashes = np.zeros(len(rows), np.uint64)
    for i in range(LENGTH):
        hashes = mix(hashes ^ rows[:, i])
    distinct = 1 + (np.diff(np.sort(rows, axis=1), axis=1) > 0).sum(axis=1)
    once, count = np.unique(hashes[distinct >= DISTINCT], return_counts=True)
    return once[count == 1]


def sketch(logs: list[Workload]) -> list[str]:
    """The SKETCH smallest hashes of some logs, as text for a policy file."""
    every = np.unique(np.concatenate([shingles(w) for w in logs]))
    return [f"{x:016x}" for x in every[:SKETCH]]


def sketches(logs: list[Workload]) -> list[list[str]]:
    """A sketch of each of many logs: in a common one small logs would be lost."""
    return [sketch([w])[: SKETCH // 4] for w in logs]


def seen(w: Workload, about: dict) -> float:
    """About which share of `w` (of its distinct shingles) a policy was trained on, by what its file says `about` it
    (`trained_on`: a sketch, or several); 0: none (less than CHANCE), or unknown."""
    here = shingles(w)
    try:
        every = [np.array([int(str(x), 16) for x in one], np.uint64) for one in files.sketches(about)]
    except (TypeError, ValueError, OverflowError, KeyError):
        return 0.0
    return max((_share(here, known) for known in every), default=0.0)


def flattered(w: Workload, policy: Scheduler, name: str) -> str:
    """Return what must be said of a policy that was trained on jobs of `w`; "" where it was not, or that is not known."""
    share = seen(w, policy.about)
    these = "these jobs" if share > 0.9 else "some of these jobs"
    return f"{name} was trained on {these}: its numbers flatter it" if share > 0 else ""


def _share(here: np.ndarray, known: np.ndarray) -> float:
    if not len(known) or not len(here):
        return 0.0
    least = here[here <= known.max()]  # a sketch holds all hashes of its log up to its largest
    if not len(least):
        return 0.0
    both = np.isin(least, known).sum()
    share = float(both / len(least))
    return share if both >= 3 and share > CHANCE else 0.0


def public_hash(w: Workload) -> str:
    """SHA-256 of what schedulers may know of a log's jobs."""
    columns = (np.ascontiguousarray(w.jobs[name]).tobytes() for name in ("submit", "walltime", "request"))
    return hashlib.sha256(b"".join(columns)).hexdigest()

"""Which jobs may be held for cheaper hours, and for how long their users let them be."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np

from jobwise.errors import InputError, shown
from jobwise.workload import Workload
from jobwise.workloads.durations import seconds_of

KEYS = {"queue": "queue", "qos": "queue", "partition": "partition", "user": "user", "group": "group", "account": "group"}


def flexible(w: Workload, text: str, seed: int = 0) -> Workload:
    """Return the jobs, of which some alone may be held: a share, drawn at random ("0.3"), or those of a queue, a partition, a
    user or a group ("queue=low"); behind a colon the longest that they may be ("0.3:4h"). Raises InputError."""
    which, _, most = text.partition(":")
    jobs = w.jobs.copy()
    jobs["patience"] = np.where(_chosen(w, which, seed), _seconds(most, text), 0.0)
    return replace(w, jobs=jobs)


def _chosen(w: Workload, which: str, seed: int) -> np.ndarray:
    key, equal, name = which.partition("=")
    if equal:
        if key not in KEYS:
            raise InputError(f"--flexible {which!r}: {', '.join(KEYS)} are known, or a share such as 0.3")
        numbers = {x: n for n, x in w.names.get(KEYS[key], {}).items()}
        number = numbers.get(name, int(name) if re.fullmatch(r"\d{1,9}", name) else None)
        if number is None or not (theirs := w.jobs[KEYS[key]] == number).any():
            names = shown(numbers) or shown(map(str, np.unique(w.jobs[KEYS[key]])))
            raise InputError(f"--flexible {which!r}: no job has this {key}; there are {names}")
        return theirs
    try:
        share = float(which)
    except ValueError:
        share = -1.0
    if not 0 <= share <= 1:
        raise InputError(f"--flexible {which!r}: a share of the jobs from 0 to 1 is expected, or queue=NAME")
    return np.random.default_rng([seed, len(w)]).random(len(w)) < share


def _seconds(text: str, whole: str) -> float:
    try:
        return seconds_of(text) if text else float("inf")
    except ValueError:
        raise InputError(f"--flexible {whole!r}: a time such as 4h is expected behind the colon") from None

"""Logs without names: who submitted is renumbered by a keyed hash whose key is never written, and free text is dropped."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import numpy as np

from jobwise.workload import Workload
from jobwise.workloads.swf import COLUMNS, directive

RENUMBERED = ("user", "group", "app", "queue", "partition")
NUMBERS = (*COLUMNS, "gpus", "nodes")  # columns of numbers that say nothing of a person
KEPT = ("Version", "MaxProcs", "MaxNodes", "UnixStartTime")  # of a header
STILL = (
    "Still in it: when jobs were submitted and started, for how long they ran, their sizes, limits and memory, how they ended, "
    "and which of them are of one user, group, program, queue and partition."
)


@dataclass(frozen=True)
class Names:
    """New names: of each kind "kind1", "kind2", …, in the order of a hash of the old ones with a key that is drawn anew and
    never written."""

    key: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)

    def ranks(self, old: Iterable[str | int]) -> dict[str | int, int]:
        """Return a number from 1 of each of these, by their hashes."""
        hashed = sorted(set(old), key=lambda x: hmac.digest(self.key, str(x).encode(errors="replace"), "sha256"))
        return {x: i for i, x in enumerate(hashed, 1)}

    def named(self, kind: str, old: Iterable[str]) -> dict[str, str]:
        """Return the new name of each of these."""
        ranks = self.ranks(old)
        width = len(str(len(ranks)))
        return {str(x): f"{kind}{i:0{width}d}" for x, i in ranks.items()}


def anonymous(w: Workload, shift_s: float = 0.0) -> Workload:
    """Return a log whose users, groups, programs, queues and partitions have other numbers, whose jobs are numbered anew, whose
    header has sizes alone, and whose calendar is moved by `shift_s`."""
    names, jobs, columns = Names(), w.jobs.copy(), {k: x.copy() for k, x in w.columns.items() if k in NUMBERS}
    for key in RENUMBERED:
        old = jobs[key]
        numbers, which = np.unique(old, return_inverse=True)
        ranks = names.ranks(numbers[numbers >= 0].tolist())
        jobs[key] = np.array([ranks.get(x, -1) for x in numbers.tolist()])[which]
        if key in columns:
            columns[key] = jobs[key].astype(float)
    if "job" in columns:
        own = columns["job"]
        number = {x: i for i, x in enumerate(own.tolist(), 1)}
        columns["job"] = np.arange(1.0, len(w) + 1)
        if "preceding" in columns:
            columns["preceding"] = np.array([float(number.get(x, -1)) for x in columns["preceding"].tolist()])
    absolute = "submit" in columns and columns["submit"][0] > 5e8  # Unix times
    if absolute:
        columns["submit"] = columns["submit"] + shift_s
    header = [f"; {k}: {v}" for k in KEPT if (v := directive(w.header, k)) is not None]
    if shift_s:
        header = [x if "UnixStartTime" not in x else f"; UnixStartTime: {int(float(x.split()[-1]) + shift_s)}" for x in header]
    w = replace(w, jobs=jobs, columns=columns, header=tuple(header), names={}, past=w.past[:0])
    return replace(w, name="anonymous", origin=w.origin + shift_s)

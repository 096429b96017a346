"""Estimate the gain or loss of a policy beside a running cluster: replay the jobs that ended since its journal began.

Both sides are simulations of the site, of its own Slurm and of the same Slurm with the policy's order in the place of its
priorities (as in steering), on the same jobs; `what_if.py` compares the two, with intervals, group by group.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from jobwise.errors import InputError
from jobwise.live.advice import ended
from jobwise.live.sources import look
from jobwise.policies.list_scheduler import ListScheduler
from jobwise.slurm.judge.what_if import Change, what_if

FEW = 100  # jobs that have ended


def behind_slurm(policy: Any) -> ListScheduler:
    """The policy's order in Slurm's own passes. Raises InputError where it has none."""
    order = policy.order
    if order is None:
        raise InputError(f"policy {policy.name}: has no order that Slurm's priorities could have")
    return ListScheduler(order, "slurm")


def gains(readings: Path, since: float, policy: Any, progress: Callable[[int, int], None] | None = None) -> Change:
    """Return the change by a policy to the jobs that were submitted `since` (s since 1970) and have ended. `readings`: a
    folder that a reader has filled. Raises InputError where they are too few."""
    c = look(readings)
    w = ended(c)
    rows = np.flatnonzero(w.jobs["submit"] + w.origin >= since)
    if len(rows) < FEW:
        raise InputError(f"an estimate of the gain of {policy.name} needs {FEW} ended jobs; {len(rows)} have ended")
    w = replace(w.take(rows), name=c.name)
    chosen = behind_slurm(policy)
    return what_if(w, [(chosen.name, w, chosen)], progress=progress)[0]

"""Verbs of trial runs, for every scheduler that has some; `put_back` of the kernel stops one."""

from __future__ import annotations

from jobwise.compiled import inlined
from jobwise.sim.kernel import start


@inlined
def start_trial(s, e, j, node, amount):
    """Start queued job j of a pool in a trial run."""
    start(s, e, j, 1.0, node, amount, 0)
    s.sims[e]["trials"] += 1


@inlined
def trial_shown(s, e):
    """Count a trial run in which its job has ended."""
    s.sims[e]["shown"] += 1

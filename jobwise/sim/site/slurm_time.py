"""Time as Slurm counts it: in whole seconds, half minutes, the resolution of its plans; list schedulers on a site: exactly."""

from __future__ import annotations

import numpy as np

from jobwise.compiled import inlined
from jobwise.site import WINDOWED


@inlined
def is_exact(slurm):
    """Does it count in parts of a second? A list scheduler does, Slurm in whole ones."""
    return slurm.site.settings[0]["bf_resolution"] == 0


@inlined
def is_windowed(slurm):
    """Does a try of a cycle look among the ends from its begin to the next try, as from Slurm 24.11 on?"""
    return slurm.site.settings[0]["version"] >= WINDOWED and not is_exact(slurm)


@inlined
def whole(slurm, t):
    """The scheduler counts in whole seconds."""
    return t if is_exact(slurm) else np.floor(t)


@inlined
def floored(slurm, t, step):
    """The last whole multiple of the step, as clocks show it."""
    zero = slurm.ledger.clock[0]["zero"]
    return np.floor((t + zero) / step) * step - zero


@inlined
def resolution(slurm):
    """The steps (s) of the calendar."""
    return slurm.site.settings[0]["bf_resolution"]


@inlined
def planned_from(slurm, t):
    """Plans begin at whole multiples of the resolution, not before the calendar does."""
    return t if is_exact(slurm) else max(floored(slurm, t, resolution(slurm)), slurm.work.begin[0])


@inlined
def plan_end(slurm, start, limit):
    """Plans end at whole multiples of the resolution, from 24.11 on at the next one."""
    if is_exact(slurm):
        return start + limit
    more = resolution(slurm) - 1.0 if is_windowed(slurm) else 0.0
    return floored(slurm, start + limit + more, resolution(slurm))

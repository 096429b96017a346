"""How Slurm counts time: in whole seconds, half minutes, the resolution of its plans; list schedulers on a site: exactly."""

from __future__ import annotations

import numpy as np

from jobwise.compiled import inlined


@inlined
def is_exact(m):
    """Does it count in parts of a second? A list scheduler does, Slurm in whole ones."""
    return m.settings[0]["bf_resolution"] == 0


@inlined
def whole(m, t):
    """The scheduler counts in whole seconds."""
    return t if is_exact(m) else np.floor(t)


@inlined
def floored(m, t, step):
    """The last whole multiple of the step, as clocks show it."""
    zero = m.clock[0]["zero"]
    return np.floor((t + zero) / step) * step - zero


@inlined
def plan_end(m, start, limit):
    """Plans end at whole multiples of the resolution."""
    return start + limit if is_exact(m) else floored(m, start + limit, m.settings[0]["bf_resolution"])

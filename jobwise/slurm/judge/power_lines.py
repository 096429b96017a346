"""A cap on power as lines for a real Slurm: licences of any version, and hierarchical resources from 25.11 on.

A licence is a W that jobs add to idle nodes; a plug-in has jobs ask for them (job_submit.lua). Where the cap changes over time,
reservations hold the licences that may not be used then.
"""

from __future__ import annotations

from datetime import UTC, datetime
from math import floor

import numpy as np

from jobwise.workload import Workload

MOST_LINES = 4  # reservations that are printed


def cap_lines(w: Workload) -> list[str]:
    """Return what keeps the cap of a site's machine in Slurm itself, a line each; W are whole ones."""
    power = w.cluster.power
    room, table, names = power.room, power.table, ",".join(w.cluster.known_site.names) or "ALL"
    most = floor(room.value.max())
    out = [
        f"slurm.conf, any version: Licenses=watts:{most}",
        f"job_submit.lua (integrations/slurm): local CORE, GPU, NODE = {table.core:g}, {table.gpu:g}, {table.node:g}",
    ]
    if len(room.time) > 1:
        out += _reservations(room.time, room.value, most)
    if w.cluster.known_site.settings["version"][0] >= 251100 or not w.cluster.known_site.settings["version"][0]:
        names = names if len(names) < 80 else f"{w.cluster.known_site.names[0]}, … (all nodes)"
        layer = f'{{nodes: ["{names}"], count: {most}}}'  # mode 3 with one layer holds nothing back (26.05.5)
        out.append(f"resources.yaml, 25.11 on, instead of Licenses: - {{resource: watts, mode: MODE_2, layers: [{layer}]}}")
    return out


def _reservations(time: np.ndarray, value: np.ndarray, most: int) -> list[str]:
    """The reservations of licences that lower the cap, from step to step."""
    lower = [k for k in range(len(time) - 1) if most - floor(value[k]) > 0 and np.isfinite(time[k])]
    out = []
    for k in lower[:MOST_LINES]:
        begin, minutes = datetime.fromtimestamp(time[k], UTC), max(round((time[k + 1] - time[k]) / 60), 1)
        flags = f"StartTime={begin:%Y-%m-%dT%H:%M} Duration={minutes} Licenses=watts:{most - floor(value[k])}"
        out.append(f"TZ=UTC scontrol create reservation {flags} Users=root Flags=LICENSE_ONLY")
    more = len(lower) - len(out)
    return [*out, *([f"… and {more:,} more such reservations"] if more else [])]

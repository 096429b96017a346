"""Times of closed nodes: out of service (`sacctmgr show event`), or reserved (`sacctmgr show reservation`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from jobwise.site import closure_dtype
from jobwise.slurm.read.text import nodes, said

IDLE = ("POWERED_DOWN", "POWERING", "POWER_", "PLANNED", "RESERVED", "MAINT")  # states in which nodes take jobs all the same
SERVICE = ("DOWN", "DRAIN", "FAIL")  # states in which they take none
FOREVER = 4e9  # s since 1970
AHEAD_S = 7 * 86_400.0  # a reservation is taken to be made so long before its begin


def closures(
    events: list[dict], reservations: list[dict], names: tuple[str, ...], add: Callable[[Iterable[int]], int], last: float
) -> tuple[np.ndarray, dict[str, int]]:
    """(rows of closure_dtype, the group of each reservation by its name). `names`: of the nodes; `add`: the number of
    a set of nodes; `last`: s since 1970, the end of the record: what comes later is not known, nodes work then. Raises
    ValueError, KeyError."""
    number: dict[str, int] = {}
    place, rows = {n: i for i, n in enumerate(names)}, []
    for r in events:
        if r["NodeName"] in place and not any(x in r["State"].upper() for x in IDLE):
            rows.append((add([place[r["NodeName"]]]), _second(r["TimeStart"]), _second(r["TimeEnd"]), 0, 0.0, 0))
    for r in reservations:
        mine = [place[n] for n in nodes(said(r["NodeName"])) if n in place]
        if mine:
            group, begin = number.setdefault(r["Name"], len(number) + 1), _second(r["TimeStart"])
            rows.append((add(mine), begin, _second(r["TimeEnd"]), 1, begin - AHEAD_S, group))
    table = np.array(rows, closure_dtype)
    table["end"] = np.minimum(table["end"], last)
    return table, number


def out_of_service(state: str) -> bool:
    """Does a node in this state (IDLE+CLOUD+POWERED_DOWN) take no jobs?"""
    words = state.upper().replace("*", "").split("+")
    return any(x in word for word in words if not any(i in word for i in IDLE) for x in SERVICE)


def _second(text: str) -> float:
    """s since 1970; what has not ended ends never."""
    if text.strip().upper() in ("UNKNOWN", "NONE", "", "0"):
        return FOREVER
    if not (text.strip().isascii() and text.strip().isdigit() and len(text.strip()) < 12):
        raise ValueError(f"{text[:30]!r} is no time in s since 1970 (SLURM_TIME_FORMAT=%s)")
    return float(text)

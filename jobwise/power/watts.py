"""Watts of jobs: measured where the log says them, else estimated by the site's table; and predicted for jobs to come.

What a job draws beyond what its nodes draw idle is what it *adds* to the machine. A measured energy is that of the job's nodes:
of nodes that it has alone the whole of what they draw idle is taken off it, of shared ones its share by cores.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from jobwise.errors import InputError
from jobwise.power.table import PowerTable
from jobwise.sim.power import drawn_before
from jobwise.workload import Workload

TRUST = 1e5  # W a unit: what a meter says beyond it is not believed


@dataclass(frozen=True, eq=False)
class Watts:
    """What jobs [J] add to the machine, W, and how that is known.

    `adds`: as it was, or, where nothing was measured, as estimated; `assumed`: as it is thought to be when the job is
    submitted. `measured`: bool. `nodes`: nodes that each holds, in parts where they are shared. `error`: mean relative error of
    what was assumed, of measured jobs; NaN without."""

    adds: np.ndarray
    assumed: np.ndarray
    measured: np.ndarray
    nodes: np.ndarray
    error: float
    notes: tuple[str, ...] = ()


def nodes_of(w: Workload, table: PowerTable) -> tuple[np.ndarray, float, bool]:
    """([J] nodes that each job holds, nodes of the machine, are there nodes that jobs do not share?)."""
    size = w.jobs["request"][:, 0].astype(float)
    if w.cluster.is_bag:
        per = float(table.cores or 1)
        return size / per, float(np.ceil(w.cluster.processors / per)), False
    count = float(len(w.cluster.capacity))
    held = size / (w.cluster.processors / count)
    if w.cluster.site is None:
        return held, count, False
    ask = w.cluster.site.asks[np.maximum(w.jobs["ask"], 0)]
    whole = (ask["whole"] > 0) & (w.jobs["ask"] >= 0)
    return np.where(whole, np.maximum(np.ceil(held), ask["nodes"]), held), count, bool(whole.any())


def watts(w: Workload, table: PowerTable, predict: bool = True) -> Watts:
    """Find what jobs draw. `predict`: jobs whose power was measured are assumed to draw what the jobs of their user and name
    have drawn before, a unit; else what they do draw. Raises InputError where neither the log nor the table says anything."""
    size, run = w.jobs["request"][:, 0].astype(float), w.truth["runtime"]
    held, _, some_whole = nodes_of(w, table)
    whole = np.full(len(w), np.nan)
    if "power" in w.columns:
        whole = w.columns["power"].astype(float)
    elif "energy" in w.columns:
        whole = w.columns["energy"].astype(float) / np.maximum(run, 1.0)
        whole[run < 1.0] = np.nan
    odd = (whole < 0) | (whole > TRUST * np.maximum(size, 1.0))
    measured = (whole > 0) & ~odd
    if not measured.any() and not table.estimates:
        raise InputError(f"{w.name}: says nothing of power or energy; --power TABLE.toml says what a core or a node draws")
    gpus = w.columns["gpus"] if "gpus" in w.columns else np.zeros(len(w))
    if w.cluster.site is not None:
        gpus = w.jobs["request"][:, 2]
    by_table = table.core * size + table.gpu * np.maximum(np.nan_to_num(gpus.astype(float)), 0.0) + table.node * held
    notes = []
    if odd.any():
        notes.append(f"{int(odd.sum()):,} jobs say a power that cannot be (below 0 or over {TRUST:,.0f} W a unit): estimated")
    base = table.idle * held
    adds = np.where(measured, np.maximum(np.nan_to_num(whole) - base, 0.0), by_table)
    if not table.estimates and not measured.all():
        adds[~measured] = size[~measured] * np.median(adds[measured] / np.maximum(size[measured], 1.0))
        notes.append(f"{int((~measured).sum()):,} jobs without a power count as the median of the others, a unit")
    if (below := measured & (whole < base)).any():
        notes.append(f"{int(below.sum()):,} jobs drew less than the table's idle nodes: they add nothing")
    if measured.any() and table.idle and (held % 1 > 0).any():
        share = "their share by cores" if not some_whole else "the whole of nodes they had alone, else their share by cores"
        notes.append(f"jobs on shared nodes: of what nodes draw idle, {share} is taken off what was measured")
    assumed, error = adds, float("nan")
    if predict and measured.any():
        start = by_table if table.estimates else size * np.median(adds[measured] / np.maximum(size[measured], 1.0))
        assumed = _predicted(w, adds, measured, start)
        off = np.abs(assumed - adds)[measured & (adds > 0)] / adds[measured & (adds > 0)]
        error = float(off.mean()) if len(off) else float("nan")
    return Watts(adds, assumed, measured, held, error, tuple(notes))


def _predicted(w: Workload, adds: np.ndarray, measured: np.ndarray, otherwise: np.ndarray) -> np.ndarray:
    """[J] W as assumed when each job is submitted: what the last jobs of its user and name that had ended drew a unit; else
    those of its user; else all; before any has ended `otherwise`."""
    user, app = w.jobs["user"].astype(np.int64), w.jobs["app"].astype(np.int64)
    _, of_name = np.unique(user * (1 << 32) + app, return_inverse=True)
    _, of_user = np.unique(user, return_inverse=True)
    end = w.ends["end"]
    order = np.argsort(np.where(measured, end, np.inf), kind="stable")[: int(measured.sum())]
    size = np.maximum(w.jobs["request"][:, 0].astype(float), 1.0)
    out = drawn_before(w.jobs["submit"], order, end, adds / size, of_name, of_user)
    return np.where(np.isnan(out), otherwise, out * size)

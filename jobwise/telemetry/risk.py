"""From a table of telemetry and a list of failures to the risks of every node."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from jobwise.errors import InputError
from jobwise.forecast.failures import NodeSamples
from jobwise.telemetry.read import frame_of, times_of
from jobwise.telemetry.table import Telemetry

OUT = 3  # steps without any sample: the node is down


def nodes_of(t: Telemetry, failures: np.ndarray, step_s: float = 0.0) -> tuple[NodeSamples, float, float]:
    """Return (samples of the nodes, time of the first step s, step s). `failures` [F, 3+]: time s, node number, 0 (others are
    left out). Raises InputError."""
    step = step_s or float(np.median([t.step(k) for k in range(t.count)]))
    begin = np.floor(t.time.min() / step) * step
    late = int((np.abs((t.time - begin) / step - np.round((t.time - begin) / step)) > 1e-6).any())  # known when a step is over
    T = int(np.floor((t.time.max() - begin) / step)) + 1 + late
    if T * len(t.nodes) * len(t.metrics) > 200_000_000:
        raise InputError(f"{t.name}: {T:,} steps of {len(t.nodes)} nodes are too many; take a longer --step")
    values = np.full((T, len(t.nodes), len(t.metrics)), np.nan)
    for k in range(t.count):
        first, _, y = t.regular(k, step)
        at = int(round((first - begin) / step)) + late
        values[at : at + len(y), t.node[k], t.metric[k]] = y[: T - at]
    silent = np.isnan(values).all(axis=2)
    run = silent.copy()
    for i in range(1, OUT):
        run[i:] &= silent[:-i]
    down = [f for f in failures if f[2] == 0]
    events = np.array([(int((f[0] - begin) / step), int(f[1])) for f in down], np.int64).reshape(-1, 2)
    events = events[(events[:, 0] > 0) & (events[:, 0] < T)]
    up = ~run
    for time, n in events:
        up[time : time + 1, n] = False
    return NodeSamples(t.metrics, values, up, events), float(begin), step


def read_failures(path: str | Path, t: Telemetry) -> np.ndarray:
    """[F, 3] time s, node, 0 of a CSV file with the columns time and node. Raises InputError."""
    frame = frame_of(Path(path))
    columns = {str(c).strip().lower(): c for c in frame.columns}
    if not {"time", "node"} <= set(columns):
        raise InputError(f"{path}: failures need the columns time and node; there are {', '.join(columns)}")
    time = times_of(frame[columns["time"]], Path(path))
    node = frame[columns["node"]].astype(str)
    if not np.isfinite(time).all():
        row = int(np.flatnonzero(~np.isfinite(time))[0])
        raise InputError(f"{path}:{row + 2}: {str(frame[columns['time']].iloc[row])[:40]!r} is no time")
    if wrong := [n for n in node if n not in t.nodes]:
        raise InputError(f"{path}: node {wrong[0]!r} is not among those of {t.name}: {', '.join(t.nodes[:8])}")
    return np.array([(a, t.nodes.index(n), 0) for a, n in zip(time, node, strict=True)], float).reshape(-1, 3)

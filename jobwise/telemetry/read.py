"""Readers of telemetry: CSV and Parquet files of known kinds (Bitbrains, NAB, Helios, Alibaba, SURF Lisa), any CSV with a
time, a value and perhaps a node, and any CSV with a time and a column per metric."""

from __future__ import annotations

import io
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from jobwise.errors import InputError
from jobwise.telemetry.table import Telemetry, seconds, table
from jobwise.workloads.opened import read_bytes

TIMES = ("time", "timestamp", "timestamp [ms]", "timestamp_anon", "date", "datetime", "ts")
NODES = ("node", "host", "hostname", "instance", "id", "container_ip", "machine", "vm")
VALUES = ("value", "v")
METRICS = ("metric", "__name__")
MOST_BYTES, MOST_HEAD = 1 << 30, 1 << 20  # of a file unpacked; of its first line
STEP_S = 600.0  # of a log of jobs that is read as a load


def read(path: str | Path, nodes: str | None = None) -> Telemetry:
    """The telemetry of a CSV file (.gz too), a Parquet file, or of all such files of a folder. `nodes`: the column that names
    them. Raises InputError."""
    path = Path(path)
    if path.is_dir():
        files = sorted(f for f in path.iterdir() if ".csv" in f.suffixes or f.suffix == ".parquet")
        if not files:
            raise InputError(f"{path}: is a folder without .csv or .parquet files")
        return together(path.name, [read(f, nodes) for f in files])
    frame = frame_of(path)
    name = path.name.split(".")[0]
    columns = {str(c).strip().lower(): c for c in frame.columns}
    if {"submission_time", "duration", "cpu_count"} <= set(columns):
        return _of_jobs(name, frame, columns)
    if {"failure_interval", "failure_duration"} <= set(columns):
        return _of_outages(name, frame)
    at = next((columns[c] for c in TIMES if c in columns), None)
    if at is None:
        raise InputError(f"{path}: no column of times; one of {', '.join(TIMES)} is expected, there are {', '.join(columns)}")
    time = times_of(frame[at], path)
    node = nodes or next((columns[c] for c in NODES if c in columns and columns[c] != at), None)
    if node is not None and node == at:
        raise InputError(f"{path}: the column {node!r} tells times, not nodes")
    if node is not None and node not in frame.columns:
        raise InputError(f"{path}: no column {node!r}; there are {', '.join(map(str, frame.columns))}")
    labels, which = _names(frame[node]) if node is not None else ([name], 0)
    which = np.broadcast_to(which, len(frame))
    metric = next((columns[c] for c in METRICS if c in columns), None)
    value = next((columns[c] for c in VALUES if c in columns), None)
    if metric is not None and value is not None:
        metrics, kind = _names(frame[metric])
        return table(name, time, which, kind, _numbers(frame[value]), list(labels), list(metrics))
    used = [at, node] + [c for c in frame.columns if str(c).lower() in ("duration",)]
    left = [c for c in frame.columns if c not in used and (c == value or np.isfinite(_numbers(frame[c])).mean() > 0.5)]
    if not left:
        raise InputError(f"{path}: has times but no column of numbers beside them")
    alone = "value" if node is None else name
    names = [alone if c == value else str(c).strip() for c in left]
    K = len(frame)
    return table(
        name,
        np.tile(time, len(left)),
        np.tile(which, len(left)),
        np.repeat(np.arange(len(left)), K),
        np.concatenate([_numbers(frame[c]) for c in left]),
        list(labels),
        names,
    )


def together(name: str, parts: list[Telemetry]) -> Telemetry:
    """Return one table of several."""
    nodes = list(dict.fromkeys(n for p in parts for n in p.nodes))
    metrics = list(dict.fromkeys(m for p in parts for m in p.metrics))
    place = [np.repeat(np.arange(p.count), np.diff(p.first)) for p in parts]
    node = [np.array([nodes.index(n) for n in p.nodes])[p.node][k] for p, k in zip(parts, place, strict=True)]
    metric = [np.array([metrics.index(m) for m in p.metrics])[p.metric][k] for p, k in zip(parts, place, strict=True)]
    whole = table(
        name,
        np.concatenate([p.time for p in parts]),
        np.concatenate(node),
        np.concatenate(metric),
        np.concatenate([p.value for p in parts]),
        nodes,
        metrics,
    )
    for p in parts:
        for k, n in p.notes.items():
            whole.notes[k] = whole.notes.get(k, 0) + n
    return whole


def frame_of(path: Path) -> Any:
    """The file as a pandas table. Raises InputError."""
    try:
        import pandas as pd
    except ImportError:
        raise InputError("telemetry takes pandas: pip install 'jobwise[forecast]'") from None
    if not path.is_file():
        raise InputError(f"{path}: no such file")
    try:
        if path.suffix == ".parquet":
            _check_parquet(path)
            return pd.read_parquet(path)
        data = read_bytes(path, MOST_BYTES)
        head = data[: data.find(b"\n") + 1] or data
        if len(head) > MOST_HEAD:
            raise InputError(f"{path}:1: {len(head):,} bytes; a line of names of columns is expected")
        sep = ";" if head.count(b";") > head.count(b",") else ","
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)
            return pd.read_csv(io.BytesIO(data), sep=sep, skipinitialspace=True, index_col=False)
    except pd.errors.ParserWarning:
        raise InputError(f"{path}: has rows with more fields than the first line names") from None
    except InputError:
        raise
    except (OSError, ValueError, EOFError, ImportError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read as a table: {str(error).splitlines()[0][:120]}") from None


def _check_parquet(path: Path) -> None:
    """Raises InputError for more than MOST_BYTES unpacked: it may be a bomb."""
    from pyarrow import parquet

    about = parquet.read_metadata(path)
    unpacked = sum(about.row_group(i).total_byte_size for i in range(about.num_row_groups))
    if max(unpacked, 8 * about.num_rows * about.num_columns) > 8 * MOST_BYTES:
        raise InputError(f"{path}: holds {about.num_rows:,} rows of {about.num_columns:,} columns, which are too many to read")


def times_of(column: Any, path: Path) -> np.ndarray:
    """Times in s of numbers, or of dates (UTC where they do not say). Raises InputError."""
    import pandas as pd

    if column.dtype.kind in "fiu":
        return seconds(column.to_numpy(float), str(path))
    texts = column
    if column.dtype.kind in "OTU":
        column = column.where(column.astype(str).str.contains(r"\d"))  # "now" is a time to pandas
    times = pd.to_datetime(column, utc=True, errors="coerce", format="mixed" if column.dtype.kind in "OTU" else None)
    if (wrong := times.isna()).any():
        row = int(np.flatnonzero(wrong.to_numpy())[0])
        if wrong.mean() > 0.5:
            raise InputError(f"{path}:{row + 2}: {str(texts.iloc[row])[:40]!r} is no time; e.g. 2026-01-31 12:00:00, or s")
    values = times.dt.tz_convert(None).to_numpy().astype("datetime64[us]")
    return np.where(np.isnat(values), np.nan, values.astype(np.int64) / 1e6)


def _names(column: Any) -> tuple[np.ndarray, np.ndarray]:
    """(the names in a column, the number of each row's); an empty cell is a name, too."""
    return np.unique(np.array([str(x) if x == x else "" for x in column], dtype=str), return_inverse=True)


def _numbers(column: Any) -> np.ndarray:
    import pandas as pd

    return pd.to_numeric(column, errors="coerce").to_numpy(float)


def _rows(name: str, frame: Any, columns: list) -> np.ndarray:
    """[columns, rows] of numbers, without rows in which one is missing. Raises InputError where none is left, or one is < 0."""
    x = np.stack([_numbers(frame[c]) for c in columns])
    x = x[:, np.isfinite(x).all(axis=0)]
    if x.shape[1] == 0 or (x < 0).any():
        raise InputError(f"{name}: {', '.join(map(str, columns))} are numbers >= 0; there are no such rows, or one is below")
    return x


def _of_jobs(name: str, frame: Any, columns: dict) -> Telemetry:
    """A log of jobs as the load of its cluster: cores and jobs running, and jobs submitted, by steps of ten minutes."""
    begin, length, cores = _rows(name, frame, [columns[k] for k in ("submission_time", "duration", "cpu_count")])
    begin, length = seconds(begin, name), length / 1000.0
    edges = np.arange(np.floor(begin.min() / STEP_S), np.ceil(begin.max() / STEP_S) + 1) * STEP_S
    running = np.zeros((2, len(edges)))
    for k, weight in enumerate((cores, np.ones(len(cores)))):
        change = np.zeros(len(edges) + 1)
        np.add.at(change, np.searchsorted(edges, begin), weight)
        np.add.at(change, np.searchsorted(edges, begin + length), -weight)
        running[k] = np.cumsum(change)[:-1]
    submitted = np.histogram(begin, np.append(edges, edges[-1] + STEP_S))[0]
    T = len(edges)
    metrics = ["cores_running", "jobs_running", "jobs_submitted"]
    values = np.concatenate([*running, submitted])
    return table(name, np.tile(edges, 3), np.zeros(3 * T, int), np.repeat(np.arange(3), T), values, [name], metrics)


def _of_outages(name: str, frame: Any) -> Telemetry:
    """A list of outages (ms between them, how long, which share of the hosts) as the share of hosts that are out, by ten
    minutes."""
    columns = _rows(name, frame, ["failure_interval", "failure_duration", "failure_intensity"])
    begin, length, share = np.cumsum(columns[0]) / 1000.0, columns[1] / 1000.0, columns[2]
    edges = np.arange(0, np.ceil(begin.max() / STEP_S) + 1) * STEP_S
    change = np.zeros(len(edges) + 1)
    np.add.at(change, np.searchsorted(edges, begin), share)
    np.add.at(change, np.minimum(np.searchsorted(edges, begin + length), len(edges)), -share)
    out = np.clip(np.cumsum(change)[:-1], 0.0, None)
    return table(name, edges, np.zeros(len(edges), int), np.zeros(len(edges), int), out, [name], ["share_out"])

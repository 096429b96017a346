"""A table of telemetry as a file, and in words."""

from __future__ import annotations

import io
from datetime import UTC, datetime

import numpy as np

from jobwise.files import write_whole
from jobwise.telemetry.table import Telemetry


def write(t: Telemetry, out: str) -> None:
    """Write time (s), node, metric, value as .csv, .csv.gz or .parquet, whole or not at all."""
    import pandas as pd

    which = np.repeat(np.arange(t.count), np.diff(t.first))
    frame = pd.DataFrame(
        {
            "time": t.time,
            "node": pd.Categorical.from_codes(t.node[which], t.nodes),
            "metric": pd.Categorical.from_codes(t.metric[which], t.metrics),
            "value": t.value,
        }
    )
    whole = io.BytesIO()
    if out.endswith(".parquet"):
        frame.to_parquet(whole, index=False)
    else:
        frame.to_csv(whole, index=False, compression={"method": "gzip", "mtime": 0} if out.endswith(".gz") else None)
    write_whole(out, whole.getvalue())


def described(t: Telemetry) -> dict:
    """Nodes, metrics, times, gaps and notes of a table."""
    lengths, rows = np.diff(t.first), []
    for m, name in enumerate(t.metrics):
        series = np.flatnonzero(t.metric == m)
        if len(series) == 0:
            continue
        steps = float(np.median([t.step(k) for k in series[:200]]))
        span = np.array([t.time[t.first[k + 1] - 1] - t.time[t.first[k]] for k in series])
        expected = np.maximum(np.round(span / max(steps, 1e-9)) + 1, lengths[series])
        values = [t.series(int(k))[1] for k in series]
        rows.append(
            {
                "metric": name,
                "series": len(series),
                "samples": int(lengths[series].sum()),
                "step_s": steps,
                "gaps": float(1 - lengths[series].sum() / expected.sum()),
                "mean": float(sum(v.sum() for v in values) / lengths[series].sum()),
                "largest": float(max(v.max() for v in values)),
            }
        )
    begin, end = float(t.time.min()), float(t.time.max())
    begins = datetime.fromtimestamp(begin, UTC).strftime("%Y-%m-%d %H:%M") if begin > 1e8 else f"{begin:g} s"
    return {
        "name": t.name, "nodes": len(t.nodes), "series": t.count, "samples": len(t), "begin": begins,
        "days": (end - begin) / 86_400, "metrics": rows, "notes": t.notes,
    }  # fmt: skip

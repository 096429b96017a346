"""Results as tables of pandas."""

from __future__ import annotations

from typing import Any

from jobwise.compare.comparison import Comparison
from jobwise.errors import library
from jobwise.record import Record
from jobwise.report.export import columns


def schedule(r: Record) -> Any:
    """Return a record as a pandas.DataFrame, a row a job, times in s. Raises InputError without pandas."""
    return library("pandas", "export").DataFrame(columns(r))


def comparison(c: Comparison) -> Any:
    """Return a comparison as a pandas.DataFrame, a row a scheduler, indexed by its name: numbers of the continuous replay, the
    change against the first with its interval, the verdict. Raises InputError without pandas."""
    rows = []
    for p, s in enumerate(c.whole):
        e, verdict = c.change(p), c.verdict(p) if p else "reference"
        row = {"mean_slowdown": s["bounded_slowdown"], "change": e.change, "low": e.low, "high": e.high}
        row |= {"mean_wait_h": s["wait"] / 3600, "longest_wait_h": s["max_wait"] / 3600, "longest_wait_times": c.times(p)}
        rows.append(row | {"over_a_day": s["over_a_day"], "utilisation": s["utilisation"], "verdict": verdict})
    pandas = library("pandas", "export")
    return pandas.DataFrame(rows, index=pandas.Index(c.policies, name="scheduler"))

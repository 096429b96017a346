"""The report of `jobwise trace forecast`: how good forecasts of run times are, whether they can be believed, how they drift."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from jobwise.report.figures import lines
from jobwise.report.sections import Section, Table
from jobwise.report.study import write_sections

WHAT = {
    "ratio": ("run / request", "Expected share of the request that a job uses."),
    "short": ("10 / max(run, 10)", "Expected 10 s / max(run, 10 s): how likely a short failure is."),
}


def write_forecast(
    name: str, table: tuple[Sequence[str], Sequence[Sequence[str]]], known: dict, path: str | Path, note: str = ""
) -> None:
    """Write the report of log `name` to one HTML file: the table that is printed, and a calibration curve and the loss over
    time of each forecast, `known` of `jobwise.forecast.runtimes.calibration`, and a `note`."""
    text = (
        "Forecasts made when jobs were submitted, from jobs that had ended by then, on the last 30 % of the log. Accuracy: "
        "mean of min(forecast / run, run / forecast). Exceeded: jobs that ran longer than foretold."
    )
    sections = [Section("Accuracy", " ".join(filter(None, [text, f"Note: {note}." if note else ""])), [Table(*table)])]
    for what, results in known.items():
        heading, text = WHAT[what]
        curves = {n: (x["told"], x["was"]) for n, x in results.items()}
        drift = {n: (list(range(1, len(x["loss"]) + 1)), x["loss"]) for n, x in results.items()}
        figures = [
            lines(curves, f"forecast of {heading}, mean of a tenth of the jobs", f"{heading} as it was", diagonal=True),
            lines(drift, "part of the judged jobs, in time", "cross-entropy"),
        ]
        how = "First: jobs in ten groups by forecast; on the dashed line a forecast is as it says. Then: the loss over time."
        sections.append(Section(heading, f"{text} {how}", [], figures))
    write_sections(f"{name}: forecasts of run times", sections, path)

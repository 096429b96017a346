"""The result of `jobwise trace forecast`: how good forecasts of run times are, whether they can be believed, how they drift."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from jobwise.forecast.runtimes import calibration
from jobwise.report.result import Progress, Result
from jobwise.report.sections import Section, Table
from jobwise.workload import Workload

WHAT = {
    "ratio": ("run / request", "Expected share of the request that a job uses."),
    "short": ("10 / max(run, 10)", "Expected 10 s / max(run, 10 s): how likely a short failure is."),
}
COLUMNS = ("forecast", "accuracy", "factor", "exceeded", "in 80 %", "by quarter")
EXPLAINED = (
    "Forecasts made when jobs were submitted, from jobs that had ended by then, on the last 30 % of the log. Accuracy: mean of "
    "min(forecast / run, run / forecast). Exceeded: jobs that ran longer than foretold."
)


def of_forecasts(w: Workload, results: Sequence[dict]) -> Result:
    """Return the result of forecasts of the run times of a log: `results` of `jobwise.forecast.runtimes.judge`."""
    rows = [
        [
            f["forecast"],
            f"{f['accuracy']:.3f}",
            f"{f['median_factor']:.2f}",
            f"{f['exceeded']:.1%}",
            "" if f["coverage"] != f["coverage"] else f"{f['coverage']:.1%}",
            " ".join(f"{x:.2f}" for x in f["by_quarter"]),
        ]
        for f in results
    ]
    best = max(results, key=lambda f: f["accuracy"])
    table = Table(COLUMNS, rows, f"{w.name}: run times of the last 30 %, foretold at submit")
    return Result(
        title=f"{w.name}: forecasts of run times",
        answer=[f'The most accurate forecast here is "{best["forecast"]}", with {best["accuracy"]:.3f}; 1 is a perfect one.'],
        tables=[table],
        notes=[EXPLAINED],
        data={"workload": w.name, "forecasts": list(results)},
        sections=partial(_sections, w, table),
        steps=["See whether a schedule gains by history: jobwise compare LOG -p saf+easy -p smith+easy"],
    )


def _sections(w: Workload, table: Table, progress: Progress | None) -> list[Section]:
    """The table, and a calibration curve and the loss over time of each forecast."""
    from jobwise.report.figures import lines

    sections = [Section("Accuracy", EXPLAINED, [table])]
    for value, results in calibration(w).items():
        heading, text = WHAT[value]
        curves = {n: (x["told"], x["was"]) for n, x in results.items()}
        drift = {n: ([float(k) for k in range(1, len(x["loss"]) + 1)], x["loss"]) for n, x in results.items()}
        figures = [
            lines(curves, f"forecast of {heading}, mean of a tenth of the jobs", f"{heading} as it was", diagonal=True),
            lines(drift, "part of the judged jobs, in time", "cross-entropy"),
        ]
        how = "First: jobs in ten groups by forecast; on the dashed line a forecast is as it says. Then: the loss over time."
        sections.append(Section(heading, f"{text} {how}", [], figures))
        if progress:
            progress(len(sections) - 1, len(WHAT))
    return sections

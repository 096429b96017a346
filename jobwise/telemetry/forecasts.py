"""Every series of a table forecast, by the workers at hand; and what came of it, in numbers and in a picture."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from jobwise.errors import InputError
from jobwise.forecast.load_models import Boosted, models_for
from jobwise.forecast.loads import EPOCHS, LEAST, LoadForecasts, Model, Series, intervals, judged, told
from jobwise.parallel import Shared, current, threads
from jobwise.telemetry.table import Telemetry

COSTLY = 500  # series: with more of them holt-winters, which is fitted to each, is left out


@dataclass(frozen=True, eq=False)
class Forecasts:
    """Results by series, the models, and why series were left out."""

    results: list[LoadForecasts]
    models: dict[str, Model]
    series: list[Series]
    horizons: tuple[int, ...]
    peak: bool
    left_out: dict[str, int]


def series_of(t: Telemetry, horizons: Sequence[int], step_s: float = 0.0) -> tuple[list[Series], dict[str, int]]:
    """The series of a table on a grid, without those that are too short or never change; how many those were."""
    series, out = [], {"too short": 0, "constant": 0}
    for k in range(t.count):
        s = Series(t.label(k), *t.regular(k, step_s))
        if len(s.y) < max(LEAST, 10 * max(horizons)):
            out["too short"] += 1
        elif np.nanmax(s.y) == np.nanmin(s.y):
            out["constant"] += 1
        else:
            series.append(s)
    return series, out


def _named(model: str, result: LoadForecasts) -> str:
    """The model itself, whichever a result has chosen."""
    return model


def _judged(asked: Shared, s: Series) -> LoadForecasts | None:
    """The result of a series; `asked`: models, horizons, peaks or not."""
    return judged(s, *asked.get())


def forecast_all(
    t: Telemetry,
    models: Sequence[str],
    horizons: Sequence[int],
    peak: bool = False,
    step_s: float = 0.0,
    progress: Callable[[int, int], None] | None = None,
) -> Forecasts:
    """Choose a model for every series and measure it: see `jobwise.forecast.loads`. Raises InputError."""
    series, out = series_of(t, horizons, step_s)
    if not series:
        raise InputError(f"{t.name}: no series can be forecast ({out['too short']} too short, {out['constant']} constant)")
    names = [m for m in models if m != "gru" and not (m == "holt-winters" and len(series) > COSTLY)]
    fits, total = 0, len(series) + len(horizons) * ("boosted" in models) + EPOCHS * ("gru" in models)

    def tell(done: int) -> None:
        if progress:
            progress(done, total)

    def fitting(k: int, count: int) -> None:
        nonlocal fits
        fits += 1
        tell(fits)

    tell(0)
    made = models_for(series, names, horizons, peak, fitting)
    if "gru" in models:
        from jobwise.learn.gru import fit

        made["gru"] = fit(series, horizons, peak, progress=fitting)
    few = len(series) <= 8 or "gru" in made  # a network stays here
    results: list[LoadForecasts | None] = []
    with threads(1) if few else current(suited="processes") as workers:
        judge = partial(_judged, workers.put((made, tuple(horizons), peak)))
        for result in workers.each(judge, series, compiled=False):
            results.append(result)
            tell(fits + len(results))
    out["do not change in the end"] = sum(r is None for r in results)
    if not any(results):
        raise InputError(f"{t.name}: none of the {len(series)} series changes in its last fifths")
    return Forecasts([r for r in results if r], made, series, tuple(horizons), peak, {k: n for k, n in out.items() if n})


def summary(f: Forecasts) -> dict:
    """By model: for how many series it was chosen, its median MASE, the share of series where it is below 1, the share of
    values in its 90 % intervals and their width; the same of the chosen models."""

    def row(name: str, of: Callable[[LoadForecasts], str]) -> dict:
        scores = [x for r in f.results for x in r.test[of(r)].values()]
        mase = np.array([r.mase(of(r)) for r in f.results])
        weights = [x.samples for x in scores]
        return {
            "model": name,
            "chosen": sum(r.chosen == name for r in f.results) if name != "chosen" else len(f.results),
            "mase": float(np.median(mase)),
            "better": float((mase < 1).mean()),
            "coverage": float(np.average([x.coverage for x in scores], weights=weights)),
            "width": float(np.median([x.width for x in scores])),
            "pinball": float(np.median([x.pinball for x in scores])),
            "under": float(np.average([x.under for x in scores], weights=weights)),
        }

    names = dict.fromkeys([*f.models, *f.results[0].test])
    rows = [row(m, partial(_named, m)) for m in names] + [row("chosen", lambda r: r.chosen)]
    boosted = next((m for m in f.models.values() if isinstance(m, Boosted)), None)
    why = {h: boosted.explained(k) for k, h in enumerate(f.horizons)} if boosted else {}
    out = ", ".join(f"{n} {k}" for k, n in f.left_out.items())
    return {"series": len(f.results), "left_out": out, "models": rows, "explained": why}


def draw(f: Forecasts, out: str) -> str:
    """A picture of the series whose chosen model is nearest to the median: its last samples, the forecasts of the longest
    horizon and their intervals. Its name."""
    from matplotlib.figure import Figure

    mase = np.array([r.mase(r.chosen) for r in f.results])
    r = f.results[int(np.argsort(mase)[len(mase) // 2])]
    s = next(x for x in f.series if x.name == r.series)
    k, h = len(f.horizons) - 1, f.horizons[-1]
    made = told(s, f.models, f.horizons, f.peak)[r.chosen]
    bounds = intervals(s, made, f.horizons, f.peak)
    rows = np.arange(max(len(s.y) - max(6 * h, 300), s.cuts[1]), len(s.y) - h)
    hours = (np.arange(len(s.y)) - rows[0]) * s.step / 3600
    figure = Figure(figsize=(8, 3.2), layout="constrained")
    axes = figure.subplots()
    axes.fill_between(
        hours[rows + h], bounds[rows, k, 0], bounds[rows, k, 1], color="#1b6ca8", alpha=0.18, label="90 % interval"
    )
    axes.plot(hours[rows + h], s.target(h, f.peak)[rows], color="#374151", lw=1.0, label="what came")
    axes.plot(hours[rows + h], made.point[rows, k], color="#d1495b", lw=1.2, label=f"{r.chosen}, made {h} steps before")
    axes.set(xlabel="hours", title=s.name)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=8, ncols=3, loc="upper left")
    axes.margins(y=0.25)
    figure.savefig(out, dpi=150)
    return f"{s.name}, {r.chosen}, MASE {r.mase(r.chosen):.2f}"

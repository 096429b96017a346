"""`jobwise telemetry`: what nodes tell of themselves, read from files and from Prometheus, and forecast."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, Optional

import typer

from jobwise.cli.groups import Output, Parallel, grouped
from jobwise.cli.options import Force, Json, check_outputs, needs
from jobwise.cli.progress import progress
from jobwise.cli.tables import print_json, print_table, say
from jobwise.errors import InputError, plain
from jobwise.files import write_whole
from jobwise.forecast.failures import fitted
from jobwise.telemetry.forecasts import draw, forecast_all, summary
from jobwise.telemetry.prometheus import Prometheus
from jobwise.telemetry.read import together
from jobwise.telemetry.risk import nodes_of, read_failures
from jobwise.telemetry.simulated import Faults, lives
from jobwise.telemetry.write import described, write

Source = Annotated[
    str, typer.Argument(metavar="SOURCE", help="CSV or Parquet file, a folder, the address of a Prometheus, or simulated:SEED.")
]
Metric = Annotated[Optional[list[str]], typer.Option("--metric", help="Metric (of a Prometheus: any PromQL). Repeat it.")]
Node = Annotated[Optional[str], typer.Option("--node", help="One node alone.")]
Last = Annotated[str, typer.Option("--last", help="How much of the past, of a Prometheus: 30m, 6h, 7d.")]
Step = Annotated[float, typer.Option("--step", min=0, help="s between samples; 0: as they are (a Prometheus: 60).")]
Column = Annotated[Optional[str], typer.Option("--nodes", help="Column of a file that names the nodes.")]
UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


@cache
def _simulated(source: str):
    """The telemetry and the failures of `simulated[:SEED]`; None for another source."""
    parsed = re.fullmatch(r"simulated(?::(\d+))?", source)
    return lives(Faults(), int(parsed[1] or 0)) if parsed else None


def _open(source: str, metrics: list[str] | None, node: str | None, last: str, step: float, column: str | None = None):
    needs("forecast", "pandas", "sklearn")
    if not step <= 1e9:
        raise InputError(f"--step {step:g}: a step is 0 s or more")
    if simulated := _simulated(source):
        return _some(simulated[0], metrics, node, step)
    if source.startswith(("http://", "https://")):
        parsed = re.fullmatch(r"(\d+(?:\.\d+)?)([smhdw])", last)
        if not parsed:
            raise InputError(f"--last {last!r}: a number and a unit are expected, e.g. 6h")
        if not metrics:
            raise InputError("which metrics? --metric node_load1, e.g.; `jobwise telemetry info ADDRESS` lists them")
        server = Prometheus.of(source)
        end = server.now()
        with progress("reading") as show:
            samples = server.read(metrics, end - float(parsed[1]) * UNITS[parsed[2]], end, step or 60.0, show)
        return samples.only(node=node)
    from jobwise.telemetry.read import read

    return _some(read(source, column), metrics, node, step)


def _some(t, metrics: list[str] | None, node: str | None, step: float):
    """The metrics and the node that are wanted, as often as wanted."""
    parts = [t.only(m, node) for m in metrics or list[Any]([None])]
    whole = parts[0] if len(parts) == 1 else together(t.name, parts)
    return whole.every(step) if step else whole


def read(
    source: Source,
    *,
    out: Annotated[str, typer.Option("--out", "-o", help="Table to write: .csv, .csv.gz or .parquet.")],
    metric: Metric = None,
    node: Node = None,
    last: Last = "1d",
    step: Step = 0.0,
    column: Column = None,
    force: Force = False,
) -> None:
    """Read telemetry, put it in order, and write one table: time, node, metric, value.

    Examples:
        jobwise telemetry read nodes.csv --out nodes.parquet
    """
    check_outputs(source, out, force=force, ending=".csv .csv.gz .parquet")
    t = _open(source, metric, node, last, step, column)
    write(t, out)
    _notes(t)
    print(f"{out}: {len(t):,} samples of {t.count:,} series")


def info(
    source: Source, metric: Metric = None, node: Node = None, last: Last = "1d", step: Step = 0.0, column: Column = None,
    as_json: Json = False,
) -> None:  # fmt: skip
    """What there is: nodes, metrics, how far apart samples are, gaps, and what was wrong with them.

    Examples:
        jobwise telemetry info nodes.csv
    """
    if source.startswith(("http://", "https://")) and not metric:
        names = Prometheus.of(source).metrics()
        print_json({"metrics": names}) if as_json else print("\n".join(map(plain, names)))
        return
    t = _open(source, metric, node, last, step, column)
    about = described(t)
    if as_json:
        print_json(about)
        return
    rows = [
        [m["metric"], f"{m['series']:,}", f"{m['samples']:,}", f"{m['step_s']:g}", f"{m['gaps']:.1%}", f"{m['mean']:.4g}",
         f"{m['largest']:.4g}"]
        for m in about["metrics"]
    ]  # fmt: skip
    columns = ["metric", "series", "samples", "step, s", "missing", "mean", "largest"]
    print_table(f"{t.name}: {len(t.nodes):,} nodes, {about['days']:.1f} days from {about['begin']}", columns, rows)
    _notes(t)


def _notes(t) -> None:
    for what, n in t.notes.items():
        say(f"{n:,} samples {what}" if what != "counters set back" else f"{n:,} times counters were set back")


@dataclass(frozen=True)
class Range:
    """Samples: what a command reads."""

    metric: Metric = None
    last: Last = "1d"
    step: Step = 0.0
    column: Column = None


@dataclass(frozen=True)
class Week(Range):
    """Samples: what is read; by default those of a week."""

    last: Last = "7d"


@grouped
def forecast(
    source: Source,
    node: Node = None,
    horizons: Annotated[str, typer.Option("--horizons", help="Steps ahead.")] = "1,6,12,36",
    models: Annotated[
        str, typer.Option("--models", help="Which to choose from; also gru (torch), five-sigma (peaks).")
    ] = "persistence,seasonal,ewma,holt-winters,ridge,boosted",
    peak: Annotated[bool, typer.Option("--peak", help="Forecast the largest value until then, not the value then.")] = False,
    out: Annotated[
        Optional[str], typer.Option("--out", "-o", help="Picture of one series and its forecast: .svg, .png, .pdf.")
    ] = None,
    samples: Range = Range(),
    parallel: Parallel = Parallel(),
    output: Output = Output(),
) -> None:
    """Forecast every series with several models, choose one for each, and measure it on the last fifth of the series.

    Examples:
        jobwise telemetry forecast nodes.csv
    """
    if out:
        check_outputs(source, out, force=output.force, ending=".svg .png .pdf")
    if not re.fullmatch(r"\d+(,\d+)*", horizons) or not (steps := sorted({int(h) for h in horizons.split(",")}))[0]:
        raise InputError(f"--horizons {horizons!r}: steps from 1 are expected, e.g. 1,6,12,36")
    t = _open(source, samples.metric, node, samples.last, samples.step, samples.column)
    with progress("forecasting") as show, parallel.workers():
        results = forecast_all(t, models.split(","), steps, peak, samples.step, show)
    by_model = summary(results)
    if output.as_json:
        print_json(by_model)
        return
    rows = [
        [r["model"], f"{r['chosen']:,}", f"{r['mase']:.3f}", f"{r['better']:.0%}", f"{r['coverage']:.1%}", f"{r['width']:.2f}"]
        for r in by_model["models"]
    ]
    columns = ["model", "chosen for", "median MASE", "below 1", "90 % intervals cover", "width"]
    print_table(f"{t.name}: {by_model['series']:,} series, {horizons} steps ahead; on their last fifths", columns, rows)
    say(f"MASE: mean absolute error by that of persistence; width by the same. Left out: {by_model['left_out'] or 'none'}")
    for h, gains in by_model["explained"].items():
        say(f"boosted, {h} steps ahead, gains most from {', '.join(f'{k} ({v:.0%})' for k, v in gains[:4])}")
    _notes(t)
    if out:
        print(f"{out}: {draw(results, out)}")


@grouped
def risk(
    source: Source,
    failures: Annotated[Optional[str], typer.Option("--failures", help="CSV file with the columns time and node.")] = None,
    models: Annotated[
        str, typer.Option("--models", help="threshold, logistic, boosted, gru (torch).")
    ] = "threshold,logistic,boosted",
    horizon: Annotated[int, typer.Option("--horizon", min=1, max=10_000, help="Steps ahead.")] = 20,
    out: Annotated[Optional[str], typer.Option("--out", "-o", help="Risks of the last fifth by the best model: .csv.")] = None,
    samples: Week = Week(),
    output: Output = Output(),
) -> None:
    """How likely is each node to fail soon: models learnt from telemetry and failures, measured on the last fifth of the
    time.

    Examples:
        jobwise telemetry risk nodes.csv --failures failures.csv
    """
    if out:
        check_outputs(source, out, force=output.force, ending=".csv")
    t = _open(source, samples.metric, None, samples.last, samples.step, samples.column)
    if simulated := _simulated(source):
        events = simulated[1]
    elif failures is None:
        raise InputError("when did nodes fail? --failures FILE, with the columns time and node")
    else:
        events = read_failures(failures, t)
    x, begin, step_s = nodes_of(t, events, samples.step)
    names, more = models.split(","), {}
    if "gru" in names:
        needs("learn", "torch")
        from jobwise.learn.gru import risks

        more["gru"] = risks
    done = {}
    with progress("learning") as show:
        for i, name in enumerate(names):
            done[name] = fitted(x, name, horizon, step_s, more)
            if show:
                show(i + 1, len(names))
    if output.as_json:
        print_json({"step_s": step_s, "horizon": horizon, "models": [r.to_dict() for r in done.values()]})
    else:
        _worth(t.name, done, horizon)
        _notes(t)
    best = max(done, key=lambda n: done[n].worth.auprc)
    if out:
        b = x.cuts[1]
        rows = ["time," + ",".join(t.nodes)]
        for k, risk in enumerate(done[best].risk[b:]):
            rows.append(f"{begin + (b + k) * step_s:.3f}," + ",".join(f"{v:.4f}" for v in risk))
        write_whole(out, ("\n".join(rows) + "\n").encode())
        print(f"{out}: risks of {len(t.nodes)} nodes by {best}, every {step_s:g} s")


def _worth(name: str, done: dict, horizon: int) -> None:
    first = next(iter(done.values())).worth
    rows = [
        [k, f"{w.auprc:.3f}", f"{w.brier:.4f}", f"{w.precision:.0%}", f"{w.caught:.0%}", f"{w.lead:g}", f"{w.false_alarms:.2f}",
         f"{w.theta:.2f}"]
        for k, w in ((k, r.worth) for k, r in done.items())
    ]  # fmt: skip
    columns = ["model", "AUPRC", "Brier", "precision", "caught", "lead", "false alarms", "above"]
    print_table(f"{name}: {first.failures} failures in the last fifth, foreseen {horizon} steps ahead", columns, rows)
    say(
        f"{first.base:.2%} of the samples are before a failure; caught: failures with an alarm before; lead: steps; false "
        "alarms: a node and day; above: this risk is an alarm; more with --json"
    )

"""The figures of a comparison, as SVG text to put into a page. matplotlib is imported here alone."""

from __future__ import annotations

import html
import io
import json
import re
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import to_hex, to_rgb
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter, NullLocator, PercentFormatter

from jobwise import metrics
from jobwise.compare.comparison import Comparison
from jobwise.errors import plain

DAY = 86400.0
ABREAST = 90  # letters of names that stand side by side under a figure
COLOURS = ("#1b6ca8", "#d1495b", "#2e8b57", "#e09f3e", "#7b5ea7", "#3bb3c3", "#8d6e4f", "#c95d9f", "#6b7280", "#94a84a")
SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "jobwise",
    "font.family": "sans-serif",
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e5e7eb",
    "grid.linewidth": 0.7,
    "axes.edgecolor": "#9ca3af",
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "text.parse_math": False,  # names of policies and users are no formulas
}


def colour(p: int) -> str:
    """Return the colour of policy p, the same in every figure. After COLOURS they come again, mixed with black or light grey in
    turn, more of it each time, so that no colour comes twice."""
    round_, index = divmod(p, len(COLOURS))
    red, green, blue = to_rgb(COLOURS[index])
    if round_ == 0:
        return COLOURS[index]
    share = round_ / (round_ + 1)  # of black (odd rounds) or of light grey
    mixed = [x * (1 - share) + (0.0 if round_ % 2 else share * 0.9) for x in (red, green, blue)]
    return to_hex((mixed[0], mixed[1], mixed[2]))


def number(x: float, _: object = None) -> str:
    """Return the label of a value on a logarithmic axis: 0.01, 1,000, 10⁶. Matplotlib's own are formulas, which are off."""
    if x and (abs(x) >= 1e5 or abs(x) < 1e-3):
        return f"{'-' if x < 0 else ''}10{str(round(np.log10(abs(x)))).translate(SUPERSCRIPTS)}"
    return f"{x:,.0f}" if abs(x) >= 1 and x == round(x) else f"{x:g}"


def _plain_axes(figure: plt.Figure) -> None:
    """Label logarithmic axes with plain numbers at powers of ten; between them too where an axis has few powers."""
    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            if axis.get_scale() not in ("log", "symlog"):
                continue
            low, high = sorted(axis.get_view_interval())
            decades = np.log10(high / low) if axis.get_scale() == "log" and low > 0 else 9.0
            axis.set_major_formatter(FuncFormatter(number))
            if decades < 0.7:
                axis.set_major_locator(MaxNLocator(5))
                axis.set_minor_locator(NullLocator())
                continue
            if decades >= 1.5:
                axis.set_minor_formatter(NullFormatter())
                continue
            axis.set_minor_locator(LogLocator(subs=(2, 3, 5)))
            axis.set_minor_formatter(FuncFormatter(number))


def svg(draw: Callable[[plt.Figure], None], width: float = 7.4, height: float = 3.4, label: str = "", pdf: Any = None) -> str:
    """Return what `draw` draws as SVG text, the same for the same data; `pdf`: a file to write it to as well."""
    with plt.rc_context(STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph")  # a name may be written in any script
        figure = plt.figure(figsize=(width, height), layout="constrained")
        draw(figure)
        _plain_axes(figure)
        out = io.StringIO()
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
        if pdf is not None:
            figure.savefig(pdf, format="pdf", metadata={"CreationDate": None})
        plt.close(figure)
    text = out.getvalue()
    text = re.sub(r"<!--.*?-->", "", text[text.index("<svg") :], flags=re.S)  # matplotlib repeats texts in comments
    head, rest = text.split(" ", 1)
    return f'{head} role="img" aria-label="{html.escape(plain(label), quote=True)}" {rest}'


def binned(steps: tuple[np.ndarray, np.ndarray], edges: np.ndarray) -> np.ndarray:
    """Time averages of a step function between edges."""
    when, level = steps
    area = np.concatenate([[0.0], np.cumsum(np.diff(when) * level[:-1])])
    return np.diff(np.interp(edges, when, area)) / np.diff(edges)


def _edges(c: Comparison, count: int) -> np.ndarray:
    """Bins over the time in which jobs arrive; what a starving order leaves for long after is not drawn."""
    return np.linspace(0, max(float(c.workload.jobs["submit"][-1]), 1.0), count + 1)


def over_time(c: Comparison) -> str:
    """Processors in use and queue length, averaged over bins."""
    edges = _edges(c, 160)
    days = (edges[1:] + edges[:-1]) / 2 / DAY

    def draw(figure: plt.Figure) -> None:
        top, bottom = figure.subplots(2, 1, sharex=True)
        for p, r in enumerate(c.records):
            top.plot(days, binned(metrics.busy(r), edges) / r.cluster.processors, color=colour(p), lw=0.9)
            bottom.plot(days, binned(metrics.queue_length(r), edges), color=colour(p), lw=0.9, label=plain(c.policies[p]))
        top.set(ylabel="share in use", ylim=(0, 1.02))
        bottom.set(ylabel="jobs waiting", xlabel="days since the first submit", yscale="symlog")
        bottom.set_ylim(bottom=0)
        figure.legend(loc="outside lower center", ncols=3)

    return svg(draw, height=4.8, label="Utilisation and queue length over time")


def power(c: Comparison) -> str:
    """Power over time, averaged over bins, with the cap, and the price where it is known."""
    first = c.records[0].energy
    assert first is not None
    edges = _edges(c, 160)
    days, begin = (edges[1:] + edges[:-1]) / 2 / DAY, 0.0 if np.isnan(first.origin) else first.origin
    price = first.power.prices.price if first.power.prices else None

    def draw(figure: plt.Figure) -> None:
        every = figure.subplots(2 if price else 1, 1, sharex=True, height_ratios=[3, 1] if price else None, squeeze=False)[:, 0]
        for p, r in enumerate(c.records):
            kwh = np.diff(r.energy.upto(edges))  # type: ignore[union-attr]
            every[0].plot(days, kwh / (np.diff(edges) / 3600), color=colour(p), lw=0.9, label=plain(c.policies[p]))
        if first.power.cap is not None:
            every[0].step(
                days, first.power.cap.at(begin + edges[:-1]) / 1e3, where="post", color="#374151", lw=1, ls="--", label="cap"
            )
        every[0].set(ylabel="kW")
        every[0].set_ylim(bottom=0)
        if price:
            every[1].step(days, price.at(begin + edges[:-1]), where="post", color="#374151", lw=0.9)
            every[1].set(ylabel="price")
        every[-1].set(xlabel="days since the first submit")
        figure.legend(loc="outside lower center", ncols=3)

    return svg(draw, height=4.4 if price else 3.4, label="Power over time")


def distribution(c: Comparison) -> str:
    """Share of jobs with a bounded slowdown above x."""

    def draw(figure: plt.Figure) -> None:
        ax = figure.subplots()
        for p, r in enumerate(c.records):
            x = np.sort(metrics.bounded_slowdown(r))
            above = np.unique(np.geomspace(1, len(x), 300).astype(int))  # dense where few are left
            ax.step(x[len(x) - above], above / len(x), where="post", color=colour(p), lw=1.3, label=plain(c.policies[p]))
        ax.set(xscale="log", yscale="log", xlabel="bounded slowdown", ylabel="share of jobs above")
        ax.set_ylim(bottom=max(0.5 / len(c.workload), 1e-5))
        figure.legend(loc="outside lower center", ncols=3)

    return svg(draw, height=4.2, label="Distribution of bounded slowdown")


def by_class(c: Comparison, by: str) -> str:
    """Mean wait per class of jobs and policy."""
    tables = [{row["class"]: row for row in metrics.breakdown(r, by)} for r in c.records]
    labels = [row["class"] for row in metrics.breakdown(c.records[0], by)]
    if by == "user":
        labels = labels[:12]

    def draw(figure: plt.Figure) -> None:
        ax = figure.subplots()
        width = 0.8 / len(tables)
        for p, table in enumerate(tables):
            hours = [table[x]["wait"] / 3600 if x in table else 0 for x in labels]
            ax.bar(np.arange(len(labels)) + (p + 0.5) * width - 0.4, hours, width, color=colour(p), label=plain(c.policies[p]))
        ax.set_xticks(
            range(len(labels)),
            [plain(x) for x in labels],
            rotation=35 if by == "user" else 0,
            ha="right" if by == "user" else "center",
        )
        ax.set_yscale("symlog", linthresh=1.0)
        ax.set_ylim(bottom=0)
        ax.set(ylabel="mean wait, h", xlabel={"size": "processors", "run time": "run time"}.get(by, ""))
        ax.grid(axis="x", visible=False)
        figure.legend(loc="outside lower center", ncols=3)

    return svg(draw, height=4.0, label=f"Mean wait by {by}")


def winners(c: Comparison) -> str:
    """Share of jobs that wait shorter, about as long (within a minute), or longer than under the first policy."""
    base = c.records[0].jobs["start"]
    names, shares = [], []
    for p in range(1, len(c.policies)):
        change = c.records[p].jobs["start"] - base
        change = change[~np.isnan(change)]
        shares.append([(change < -60).mean(), (np.abs(change) <= 60).mean(), (change > 60).mean()])
        names.append(plain(c.policies[p]))

    def draw(figure: plt.Figure) -> None:
        ax = figure.subplots()
        data = np.array(shares).reshape(-1, 3)
        left = np.zeros(len(data))
        for i, (label, shade) in enumerate((("shorter", "#2e8b57"), ("same (± 1 min)", "#d1d5db"), ("longer", "#d1495b"))):
            ax.barh(names, data[:, i], left=left, color=shade, label=label, height=0.62)
            left += data[:, i]
        ax.invert_yaxis()
        ax.set(xlim=(0, 1), xlabel=f"share of jobs: wait against {plain(c.policies[0])}")
        ax.grid(visible=False)
        figure.legend(loc="outside upper right", ncols=3)

    return svg(draw, height=1.2 + 0.36 * len(names), label="Who waits shorter, who longer")


def _label(ax: plt.Axes, x: list[float], y: list[float], names: list[str]) -> None:
    """Names beside their points, moved apart up or down where they would overlap."""
    height, width = 11.0, 5.2
    ax.figure.canvas.draw()
    scale = 72 / ax.figure.dpi
    spots = ax.transData.transform(np.column_stack([x, y])) * scale
    taken = [(at - 5, base - 3, 10.0) for at, base in spots]  # (left, base, length): the points, then the names
    for p in np.argsort(-spots[:, 1], kind="stable"):
        left, base, length = spots[p, 0] + 8, spots[p, 1] - 3, width * len(names[p])
        for move in (0, 1, -1, 2, -2, 3, -3, 4, -4, 5, -5):
            spot = base + move * height
            if not any(abs(spot - b) < height - 1 and left < a + n and a < left + length for a, b, n in taken):
                break
        taken.append((left, spot, length))
        line = {"arrowstyle": "-", "color": "#9ca3af", "lw": 0.6} if move else None
        offset = (8, spot - spots[p, 1])
        ax.annotate(
            names[p],
            (x[p], y[p]),
            xytext=offset,
            textcoords="offset points",
            fontsize=8.5,
            color="#374151",
            arrowprops=line,
            bbox={"boxstyle": "square,pad=0.1", "facecolor": "white", "edgecolor": "none", "alpha": 0.85},
        )


def trade_off(c: Comparison) -> str:
    """Mean bounded slowdown against longest wait, all schedulers, with the Pareto front."""
    x = [s["bounded_slowdown"] for s in c.whole]
    y = [max(s["max_wait"] / 3600, 0.01) for s in c.whole]  # both axes are logarithmic

    def draw(figure: plt.Figure) -> None:
        ax = figure.subplots()
        front = sorted(c.pareto(), key=lambda p: x[p])
        ax.step([x[p] for p in front], [y[p] for p in front], where="post", color="#9ca3af", lw=1.2, ls="--", zorder=1)
        for p in range(len(c.policies)):
            ax.scatter(x[p], y[p], s=46, color=colour(p), marker="D" if p == 0 else "o", zorder=3)
        ax.set(
            xscale="log",
            yscale="log",
            xlabel=f"mean bounded slowdown of the whole log{', time-shifted' * (c.replicas > 0)}",
            ylabel="longest wait, h",
        )
        ax.margins(x=0.22, y=0.12)
        _label(ax, x, y, [plain(n) for n in c.policies])

    return svg(draw, height=4.4, label="Trade-off between mean bounded slowdown and longest wait")


def bounds(c: Comparison) -> str:
    """Mean bounded slowdown against longest wait of each scheduler under start deadlines of several bounds, a curve each."""

    def draw(figure: plt.Figure) -> None:
        ax = figure.subplots()
        for name, curve in c.curves.items():
            p = c.policies.index(name)
            x, y = [a.bounded_slowdown for a in curve], [max(a.max_wait / 3600, 0.01) for a in curve]
            ax.plot(x, y, "o-", color=colour(p), ms=4, lw=1.3, label=plain(name))
        last = list(c.curves.values())[-1]
        for a in last:
            ax.annotate(
                f"{a.bound:g}x",
                (a.bounded_slowdown, max(a.max_wait / 3600, 0.01)),
                textcoords="offset points",
                xytext=(5, 4),
                fontsize=8,
            )
        ax.set(xscale="log", yscale="log", xlabel="mean bounded slowdown of the whole log", ylabel="longest wait, h")
        ax.margins(x=0.12, y=0.12)
        ax.legend()

    return svg(draw, height=4.2, label="Trade-off between slowdown and longest wait for several bounds")


def changes(c: Comparison) -> str:
    """Change of bounded slowdown over windows against the first policy, with 95 % intervals where there are any."""
    label = f"change against {c.policies[0][:30]}; left is better"
    return forest({"": {c.policies[p]: c.change(p) for p in range(1, len(c.policies))}}, label, 1)


class Interval(Protocol):
    """A change with its interval; `jobwise.compare.intervals.Effect` is one."""

    @property
    def change(self) -> float:
        """Return -0.2 for 20 % lower."""

    @property
    def low(self) -> float:
        """Return where the interval begins, NaN: there is none."""

    @property
    def high(self) -> float:
        """Return where the interval ends."""


def forest(series: Mapping[str, Mapping[str, Interval]], label: str, first: int = 0) -> str:
    """Changes with their intervals, a row per name. Several series stand side by side, a colour each; a single one has a colour
    per row, from that of policy `first` on."""
    names = list(dict.fromkeys(n for effects in series.values() for n in effects))
    least, most, several = -1.0, 1.5, len(series) > 1  # what lies beyond is drawn at the edge

    def draw(figure: plt.Figure) -> None:
        ax = figure.subplots()
        for k, (title, effects) in enumerate(series.items()):
            shift = (k - (len(series) - 1) / 2) * 0.8 / len(series)
            for n, e in effects.items():
                i = names.index(n)
                shade = colour(k if several else first + i)
                if not np.isnan(e.low):
                    ax.plot([max(e.low, least), min(e.high, most)], [i + shift] * 2, color=shade, lw=2.2)
                marker = ">" if e.change > most else "o"
                ax.scatter(min(e.change, most), i + shift, color=shade, s=30, zorder=3, marker=marker)
            if several:
                ax.scatter([], [], color=colour(k), label=plain(title))
        ax.axvline(0, color="#6b7280", lw=1)
        ax.set_yticks(range(len(names)), [plain(n) for n in names])
        ax.invert_yaxis()
        ends = [x for effects in series.values() for e in effects.values() for x in (e.change, e.high) if not np.isnan(x)]
        ax.set_xlim(least - 0.02, min(most, max([0.3, *ends])) + 0.05)
        ax.xaxis.set_major_formatter(PercentFormatter(1.0))
        ax.set_xlabel(plain(label), loc="right")  # a long one has room to the left
        if several:
            figure.legend(loc="outside upper center", ncols=len(series))

    row = max(0.36, 0.15 * len(series)) if len(names) < 12 else max(0.26, 0.15 * len(series))
    return svg(draw, height=1.2 + row * len(names), label="Changes with intervals")


def learning(metrics_file: str | Path) -> str:
    """A training run: validation score over choices, the best so far, and the best fixed rule."""
    lines = [json.loads(x) for x in Path(metrics_file).read_text().splitlines() if '"validation"' in x]

    def draw(figure: plt.Figure) -> None:
        axes = figure.add_subplot()
        x = [line["choices"] for line in lines]
        axes.plot(x, [line["validation"] for line in lines], ".-", color=COLOURS[0], label="the policy as it was")
        axes.plot(x, [line["best"] for line in lines], color=COLOURS[2], label="best so far")
        if lines:
            axes.axhline(lines[-1]["best_rule"], color=COLOURS[1], linestyle="--", label="best fixed rule")
        axes.set(xlabel="choices made in training", ylabel="validation score", yscale="log")
        axes.legend()

    return svg(draw, label="learning curve")


def running_jobs(curves: dict[str, list[float]]) -> str:
    """Share of time with at most x jobs running, one curve per log."""

    def draw(figure: plt.Figure) -> None:
        axes = figure.add_subplot()
        for i, (name, share) in enumerate(curves.items()):
            axes.step(range(len(share)), share, where="post", color=colour(i), label=name)
        axes.set(xlabel="jobs running at once", ylabel="share of time with at most so many", xlim=(0, None), ylim=(0, 1.02))
        axes.legend(loc="lower right")

    return svg(draw, label="running jobs over time")


def convergence(runs: dict[str, list[list[float]]], label: str, each: str = "episode") -> str:
    """Something after each episode (or `each`): every seed thin, their mean thick."""

    def draw(figure: plt.Figure) -> None:
        axes = figure.add_subplot()
        for i, (name, seeds) in enumerate(runs.items()):
            for one in seeds:
                axes.plot(range(1, len(one) + 1), one, color=colour(i), alpha=0.25, linewidth=0.8)
            mean = np.mean(seeds, axis=0)
            named = f"{name} ({len(seeds)} seed{'s' * (len(seeds) != 1)})"
            axes.plot(range(1, len(mean) + 1), mean, color=colour(i), linewidth=2, label=named)
        axes.set(xlabel=each, ylabel=label)
        axes.legend()

    return svg(draw, label="convergence")


def lines(curves: dict[str, tuple[list[float], list[float]]], x: str, y: str, diagonal: bool = False) -> str:
    """One line with points per name; `diagonal`: where both axes are equal."""

    def draw(figure: plt.Figure) -> None:
        axes = figure.add_subplot()
        if diagonal:
            most = max(max(max(a), max(b)) for a, b in curves.values())
            axes.plot([0, most], [0, most], color="0.7", linewidth=1, linestyle="--")
        for i, (name, (a, b)) in enumerate(curves.items()):
            axes.plot(a, b, color=colour(i), marker="o", markersize=3, label=name)
        axes.set(xlabel=x, ylabel=y, ylim=(0, None))
        axes.legend()

    return svg(draw, label=f"{y} by {x}")


def bars(groups: dict[str, dict[str, float]], label: str) -> str:
    """One group of bars per key, one bar per name in it, on a logarithmic axis."""

    def draw(figure: plt.Figure) -> None:
        axes = figure.add_subplot()
        names = list(dict.fromkeys(n for g in groups.values() for n in g))
        width = 0.8 / len(names)
        for i, name in enumerate(names):
            at = [k + (i - (len(names) - 1) / 2) * width for k, g in enumerate(groups.values()) if name in g]
            axes.bar(at, [g[name] for g in groups.values() if name in g], width, color=colour(i), label=name)
        axes.set_xticks(range(len(groups)), list(groups))
        if sum(max(map(len, name.split("\n"))) for name in groups) > ABREAST:
            axes.set_xticks(axes.get_xticks(), list(groups), rotation=25, ha="right", rotation_mode="anchor")
        axes.set(ylabel=label, yscale="log")
        figure.legend(ncols=5, loc="outside upper center")

    return svg(draw, label=label)

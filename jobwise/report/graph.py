"""Pictures of workflows: tasks level by level, in the colours of what they need most of, the critical path in red."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.collections import LineCollection

from jobwise.files import check_writable
from jobwise.report.figures import STYLE, colour
from jobwise.workloads.bundles import CLASSES, classes
from jobwise.workloads.workflows import Workflow

FEW, WIDEST = 60, 10  # tasks whose names are written: of a workflow, of a level
COLOURS = (colour(0), colour(3), colour(2))
MOST_EDGES = 50_000  # that are drawn


def places(w: Workflow, sweeps: int = 4) -> np.ndarray:
    """[N, 2] where tasks are drawn: down by level, across such that parents and children are near each other."""
    level, x = w.levels, np.zeros(len(w))
    a, b = w.edges[:, 0], w.edges[:, 1]
    rows = [np.flatnonzero(level == k) for k in range(int(level.max()) + 1)]
    for r in rows:
        x[r] = np.linspace(-0.5, 0.5, len(r) + 2)[1:-1]
    for sweep in range(2 * sweeps):
        one, other = (b, a) if sweep % 2 == 0 else (a, b)  # by parents, then by children
        count = np.bincount(one, minlength=len(w))
        mean = np.where(count > 0, np.bincount(one, weights=x[other], minlength=len(w)) / np.maximum(count, 1), x)
        for r in rows if sweep % 2 == 0 else rows[::-1]:
            r = r[np.argsort(mean[r], kind="stable")]
            x[r] = np.linspace(-0.5, 0.5, len(r) + 2)[1:-1]
    return np.stack([x, -level.astype(float)], axis=1)


def draw(w: Workflow, path: str | Path, cores: int = 64) -> None:
    """Write a picture (.svg, .png, .pdf). Raises InputError where that cannot be."""
    check_writable(path)
    at, kinds, way = places(w), classes(w, cores), w.longest_way()
    on = np.isin(np.arange(len(w)), way)
    levels = int(w.levels.max()) + 1
    with plt.rc_context(STYLE | {"svg.hashsalt": "jobwise"}):
        figure, axes = plt.subplots(figsize=(10.0, float(np.clip(0.7 * levels + 1.4, 2.6, 16.0))), layout="constrained")
        shown = w.edges[:: max(1, len(w.edges) // MOST_EDGES)]
        alpha = float(np.clip(60 / max(len(shown), 1), 0.08, 0.7))
        axes.add_collection(LineCollection(at[shown], colors="#6b7280", linewidths=0.6, alpha=alpha, zorder=1))
        axes.add_collection(LineCollection([at[way]], colors="#d1495b", linewidths=1.6, zorder=2))
        size = 12.0 + 90.0 * np.sqrt(w.tasks["runtime"] / max(w.tasks["runtime"].max(), 1e-9))
        size *= min(1.0, 40.0 / max(np.bincount(w.levels).max(), 1)) ** 0.5
        for k, name in enumerate(CLASSES):
            of = kinds == k
            if of.any():
                edges = np.where(on[of], "#d1495b", "white")
                axes.scatter(
                    at[of, 0],
                    at[of, 1],
                    s=size[of],
                    color=COLOURS[k],
                    edgecolors=cast(Any, edges),
                    linewidths=0.7,
                    label=name,
                    zorder=3,
                )
        beside = np.bincount(w.levels)[w.levels]  # tasks of the same level: names of many would lie on one another
        for i in np.flatnonzero(beside <= WIDEST) if len(w) <= FEW else ():
            axes.annotate(
                w.names[i][: 24 if beside[i] < 6 else 12],
                at[i],
                fontsize=6,
                ha="center",
                va="bottom",
                xytext=(0, 5),
                textcoords="offset points",
            )
        axes.set(
            xlim=(-0.55, 0.55), ylim=(-levels + 0.3, 0.8), xticks=[], yticks=-np.arange(levels), yticklabels=np.arange(levels)
        )
        axes.set(
            ylabel="level",
            title=f"{w.name}: {len(w):,} tasks, {len(w.edges):,} edges, critical path {w.critical_path:,.0f} s (red)",
        )
        axes.grid(False)
        axes.legend(loc="upper right", title="needs most", ncols=3)
        figure.savefig(path, dpi=150, metadata={"Date": None} if str(path).endswith(".svg") else None)
        plt.close(figure)


def dot(w: Workflow) -> str:
    """Return the graph in Graphviz's language."""

    def text(name: str) -> str:
        return '"' + name.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ") + '"'

    lines = [f"  {text(n)} [seconds={t['runtime']:g}, cores={t['cores']}];" for n, t in zip(w.names, w.tasks, strict=True)]
    lines += [f"  {text(w.names[a])} -> {text(w.names[b])};" for a, b in w.edges]
    return "\n".join([f"digraph {text(w.name)} {{", *lines, "}", ""])

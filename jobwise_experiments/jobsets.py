"""What the studies on jobsets share: figures and learning curves."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from jobwise_experiments.study import Study


def figure(s: Study, name: str, draw: Callable, width: float = 7.4, height: float = 3.4, label: str = "") -> str:
    """A figure as SVG for the report; the same as OUT/figures/NAME.pdf."""
    from jobwise.report.figures import svg_and_pdf

    folder = s.out / "figures"
    folder.mkdir(exist_ok=True)
    return svg_and_pdf(draw, folder / f"{name}.pdf", width, height, label or name)


def cdf(axes, values: Sequence[float], label: str, colour: str) -> None:
    """Draw a distribution of slowdowns."""
    x = np.sort(np.asarray(values, float))
    axes.step(x, np.arange(1, len(x) + 1) / len(x), where="post", label=label, color=colour)


def curve(folder) -> tuple[list[float], list[float]]:
    """(choices, validation) of a run's metrics."""
    import json

    lines = [json.loads(x) for x in (folder / "metrics.jsonl").read_text().splitlines()]
    validated = [x for x in lines if "validation" in x]
    return [x["choices"] for x in validated], [x["validation"] for x in validated]

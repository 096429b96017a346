"""The reports of `jobwise slurm fidelity`, `what-if` and `tune`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from jobwise.report.figures import lines as drawn
from jobwise.report.sections import Section, Table
from jobwise.report.study import write_sections

Tables = Sequence[tuple[str, Sequence[str], Sequence[Sequence[str]]]]  # (title, columns, rows)
PARTS = 40


def write_site_report(
    title: str,
    said: Sequence[str],
    tables: Tables,
    path: str | Path,
    waits: dict[str, tuple[np.ndarray, np.ndarray]],
    conf: Sequence[str] = (),
) -> None:
    """Write one HTML file: the sentences, lines of slurm.conf, if any, waits over time, and the tables. `waits`: name ->
    (submits [J], waits [J]), s."""
    sections = [Section("In short", " ".join(said), [Table(["slurm.conf"], [[x] for x in conf])] if conf else [])]
    if waits:
        text = f"Mean wait of the jobs of each of {PARTS} parts of the time, by submit."
        means = {name: _means(*x) for name, x in waits.items()}
        span, most = (max(float(x[i].max(initial=0.0)) for x in means.values()) for i in (0, 1))
        (day, x), (hour, y) = _unit(span), _unit(most)
        curves = {name: ((t / day).tolist(), (w / hour).tolist()) for name, (t, w) in means.items()}
        sections.append(Section("Waits over time", text, [], [drawn(curves, x, f"mean wait, {y}")]))
    write_sections(title, sections + [Section(t, "", [Table(c, r)]) for t, c, r in tables], path)


def _unit(most: float) -> tuple[float, str]:
    """(s, name) of the unit for times up to so many s."""
    return next(
        x for x in ((86_400.0, "days"), (3600.0, "hours"), (60.0, "minutes"), (1.0, "seconds")) if most >= 2 * x[0] or x[0] == 1
    )


def _means(submit: np.ndarray, wait: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(middles, mean waits), s, of equal parts of the time that have jobs."""
    last = max(float(submit.max()), 1.0)
    part = np.minimum((submit / last * PARTS).astype(int), PARTS - 1)
    count = np.bincount(part, minlength=PARTS)
    middle, mean = (np.arange(PARTS) + 0.5) * last / PARTS, np.bincount(part, wait, PARTS) / np.maximum(count, 1)
    return middle[count > 0], mean[count > 0]

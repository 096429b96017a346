"""Which job ran where: a day as a figure, and the days around it as data that a report draws in the browser (`page.js`)."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from matplotlib.collections import PolyCollection

from jobwise import metrics
from jobwise.errors import plain
from jobwise.record import Record
from jobwise.report.export import assign_processors, begins
from jobwise.report.figures import COLOURS, DAY, binned, svg
from jobwise.report.sections import Figure
from jobwise.workloads.transform import date

AROUND = 3  # days before and after the day, in the browser
DRAWN = 4_000  # rectangles of the figure: the largest
SENT = 10_000  # and of the browser's


def busiest(r: Record) -> float:
    """Return the day with the longest queue, of those on which jobs are submitted."""
    days = max(int(np.ceil(r.jobs["submit"][-1] / DAY)), 1)
    return float(np.argmax(binned(metrics.queue_length(r), np.arange(days + 1) * DAY)))


def gantt(r: Record, day: float, caption: str) -> Figure:
    """Return the chart of a day: a rectangle per job and stretch of processors (numbered lowest first). Both in the figure and
    in the browser the largest rectangles are shown where there are too many."""
    owner, first = assign_processors(r), begins(r)
    around = max(day - AROUND, 0.0) * DAY, (day + 1 + AROUND) * DAY
    job, low, high = _boxes(r, owner, first, day * DAY, (day + 1) * DAY, DRAWN)
    data = _data(r, day, around, *_boxes(r, owner, first, *around, SENT))
    return Figure(_figure(r, day, job, low, high), caption, chart=json.dumps(data, separators=(",", ":")))


Boxes = tuple[np.ndarray, np.ndarray, np.ndarray]  # [B] job, first processor, the one behind the last


def _boxes(r: Record, owner: np.ndarray, first: np.ndarray, begin: float, end: float, most: int) -> Boxes:
    """The `most` largest rectangles between two times, the largest first."""
    start, stop = r.jobs["start"], r.jobs["end"]
    visible = np.flatnonzero((stop > begin) & (start < end))
    size = first[visible + 1] - first[visible]
    job = np.repeat(visible, size)
    at = owner[np.arange(size.sum()) + np.repeat(first[visible] - (np.cumsum(size) - size), size)]
    opens = np.flatnonzero(np.diff(at, prepend=-2) * (np.diff(job, prepend=-1) == 0) != 1)
    job, low, high = job[opens], at[opens], at[np.append(opens[1:], len(at)) - 1] + 1 if len(at) else at
    area = (np.minimum(stop[job], end) - np.maximum(start[job], begin)) * (high - low)
    kept = np.argsort(-area, kind="stable")[:most]
    return job[kept], low[kept], high[kept]


def _figure(r: Record, day: float, job: np.ndarray, low: np.ndarray, high: np.ndarray) -> str:
    begin = day * DAY
    left = (np.maximum(r.jobs["start"][job], begin) - begin) / 3600
    right = (np.minimum(r.jobs["end"][job], begin + DAY) - begin) / 3600
    corners = np.stack([np.stack([left, low]), np.stack([right, low]), np.stack([right, high]), np.stack([left, high])])
    waited = r.jobs["start"][job] - r.jobs["submit"][job]  # until the first start

    def draw(figure: Any) -> None:
        ax = figure.subplots()
        shades = np.log10(np.maximum(waited, 60) / 60)
        shown = PolyCollection(
            list(corners.transpose(2, 0, 1)), array=shades, cmap="YlOrRd", edgecolors="white", linewidths=0.3, clim=(0, 4)
        )
        ax.add_collection(shown)
        ax.set(xlim=(0, 24), ylim=(0, r.cluster.processors), xlabel=f"hour of day {day:g}", ylabel="processor")
        ax.grid(visible=False)
        ax.set_xticks(range(0, 25, 4))
        bar = figure.colorbar(shown, ax=ax, pad=0.01, ticks=[0, np.log10(60), np.log10(1440), 4])
        bar.ax.set_yticklabels(["1 min", "1 h", "1 day", "7 days"])
        bar.set_label("had waited")

    return svg(draw, height=3.2, label=f"Gantt chart of day {day:g} under {r.policy}")


def _data(r: Record, day: float, around: tuple[float, float], job: np.ndarray, low: np.ndarray, high: np.ndarray) -> dict:
    """Everything that the browser draws and says: times in whole s from the first submit; a job by its place in `jobs`."""
    shown, place = np.unique(job, return_inverse=True)
    jobs, names = r.jobs[shown], r.workload.names.get("user", {})
    work = jobs["request"][:, 0] * (jobs["end"] - jobs["start"])
    users, user = np.unique(jobs["user"], return_inverse=True)
    order = np.argsort(-np.bincount(user, work, len(users)), kind="stable")  # most processor time first
    number = r.workload.columns.get("job")
    columns = {k: np.rint(jobs[k]).astype(int).tolist() for k in ("submit", "start", "end", "walltime")}
    return {
        "processors": r.cluster.processors,
        "day": [day * DAY, (day + 1) * DAY],
        "around": list(around),
        "origin": date(r.workload, 0.0),
        "boxes": [place.tolist(), low.tolist(), high.tolist()],
        "jobs": columns
        | {
            "number": (shown + 1 if number is None else number[shown].astype(int)).tolist(),
            "size": jobs["request"][:, 0].tolist(),
            "user": np.argsort(order)[user].tolist(),
        },
        "users": [plain(str(names.get(int(users[i]), users[i]))) for i in order],
        "colours": COLOURS,
    }

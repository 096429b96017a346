"""What an encoding of the K largest running jobs shows of a schedule (SEM, tables 2 and 3)."""

from __future__ import annotations

from bisect import bisect_left, insort

import numpy as np

from jobwise import metrics


def largest_running(r: metrics.Finished, ks: tuple[int, ...] = (30, 40, 50)) -> dict:
    """Return what an encoding of the K largest running jobs shows (SEM, tables 2 and 3), over the time some job runs.

    `most`, `mean`: running jobs. `jobs_share`: share of time with at most 0, 1, 2 … running jobs. Per K: `loss`, the share of
    node-seconds held by others; `cover90`, `cover95`, the share of time in which the K largest hold that much.
    """
    rows = np.flatnonzero(metrics.ran(r) & (r.jobs["end"] > r.jobs["start"]))
    size = metrics.processors(r)[metrics.ran(r) & (r.jobs["end"] > r.jobs["start"])].astype(int)
    when = np.concatenate([r.jobs["end"][rows], r.jobs["start"][rows]])
    sign = np.concatenate([np.full(len(rows), -1), np.full(len(rows), 1)])
    order = np.lexsort((sign, when))  # ends before starts of the same instant
    running: list[int] = []  # minus sizes, so that the largest come first
    seconds = np.zeros(len(rows) + 1)
    held = np.zeros(len(ks) + 1)
    cover = np.zeros((2, len(ks)))
    all_sizes, at = np.concatenate([size, size]), float(when[order[0]]) if len(order) else 0.0
    for i in order:
        dt = float(when[i]) - at
        if dt > 0 and running:
            seconds[len(running)] += dt
            total = -sum(running)
            held[-1] += total * dt
            for n, k in enumerate(ks):
                bound = -sum(running[:k])
                held[n] += bound * dt
                cover[0, n] += dt * (bound >= 0.9 * total)
                cover[1, n] += dt * (bound >= 0.95 * total)
        at = float(when[i])
        if sign[i] > 0:
            insort(running, -int(all_sizes[i]))
        else:
            del running[bisect_left(running, -int(all_sizes[i]))]
    time = max(seconds.sum(), 1e-300)
    most = int(np.flatnonzero(seconds).max(initial=0))
    return {
        "most": most,
        "mean": float((seconds * np.arange(len(seconds))).sum() / time),
        "jobs_share": (np.cumsum(seconds[: most + 1]) / time).tolist(),
        "loss": (1 - held[:-1] / max(held[-1], 1e-300)).clip(0, 1).tolist(),
        "cover90": (cover[0] / time).tolist(),
        "cover95": (cover[1] / time).tolist(),
    }

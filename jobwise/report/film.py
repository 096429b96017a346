"""Animations: of a world on a grid of time, its picture row after row; of a pool under a scheduler, hour after hour."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np

from jobwise.files import write_whole
from jobwise.policies.chooser import Chooser
from jobwise.record import Record
from jobwise.sim.state import allocate
from jobwise.workload import Workload
from jobwise.worlds.render import CELL, pool_picture

DAY = 86_400.0
TEXT = (55, 65, 81)


def film(w: Workload, policy: Chooser, out: str | Path, rows: int = 120, restart_cost_s: float = 0.0) -> int:
    """Write an animated GIF of a jobset, a frame per row of time; how many frames. Raises InputError."""
    state = allocate([w], w.cluster, tick=policy.tick, restart_cost_s=restart_cost_s)
    world = policy.attach(state, w.cluster)
    choose, left, last = policy.chooser(world, w.cluster), world.begin(), -1
    frames: list[Any] = []
    while left and len(frames) < rows:
        now, queued = world.moment
        if now != last:
            last, z = now, world.transition[0]
            mean = f"{z['total'] / z['started']:.2f}" if z["started"] else "-"
            text = f"{policy.name}   row {now}   waiting {queued}   done {int(z['started'])}   {world.measure} {mean}"
            frames.append(_frame(world.picture(0), text))
        left = world.advance(choose(world))
    return _write(frames, out)


def film_of_log(r: Record, out: str | Path, frames: int, day: float) -> int:
    """Write an animated GIF of a day of a schedule on a pool, `frames` of them; how many. Raises InputError."""
    j, total = r.jobs, float(r.cluster.processors)
    share, pictures = j["request"][:, 0] / total, []
    for now in day * DAY + np.arange(frames) / frames * DAY:
        started = np.flatnonzero((j["start"] <= now) & (j["end"] > now - 2 * DAY))
        ends = np.where(j["end"][started] <= now, j["end"][started], j["start"][started] + j["walltime"][started])
        waiting = np.flatnonzero((j["submit"] <= now) & ~(j["start"] <= now))
        running = j["end"][started] > now
        in_use = int(j["request"][started[running], 0].sum())
        when = f"day {day:g}, hour {now % DAY / 3600:.1f}"
        text = f"{r.policy}   {when}   in use {in_use / total:.0%}   waiting, at the right: {len(waiting)}"
        picture = pool_picture(
            now, share, started, j["start"][started], np.maximum(ends, j["start"][started]), waiting, 560, 240
        )
        pictures.append(_frame(np.pad(picture, ((2 * CELL + 2, 0), (0, 0), (0, 0)), constant_values=255), text))
    return _write(pictures, out)


def _frame(picture: np.ndarray, text: str) -> Any:
    from PIL import Image, ImageDraw, ImageFont

    image = Image.fromarray(picture)
    ImageDraw.Draw(image).text((CELL, 1), text, fill=TEXT, font=ImageFont.load_default(size=2 * CELL - 3))
    return image.quantize(64)


def _write(frames: list[Any], out: str | Path) -> int:
    whole = io.BytesIO()
    frames[0].save(whole, save_all=True, append_images=frames[1:], duration=160, loop=0, format="GIF")
    write_whole(out, whole.getvalue())
    return len(frames)

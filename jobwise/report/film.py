"""A film of a world on a grid of time: its picture, row after row."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from jobwise.files import write_whole
from jobwise.policies.chooser import Chooser
from jobwise.sim.state import allocate
from jobwise.workload import Workload
from jobwise.worlds.render import CELL

TEXT = (55, 65, 81)


def film(w: Workload, policy: Chooser, out: str | Path, rows: int = 120, restart_cost_s: float = 0.0) -> int:
    """Write an animated GIF of a jobset, a frame per row of time; how many frames. Raises InputError."""
    from PIL import Image, ImageDraw, ImageFont

    font = ImageFont.load_default(size=2 * CELL - 3)
    state = allocate([w], w.cluster, tick=policy.tick, restart_cost_s=restart_cost_s)
    world = policy.attach(state, w.cluster)
    choose, left, last = policy.chooser(world, w.cluster), world.begin(), -1
    frames: list[Any] = []
    while left and len(frames) < rows:
        now, queued = world.moment
        if now != last:
            last, image, z = now, Image.fromarray(world.picture(0)), world.transition[0]
            mean = f"{z['total'] / z['started']:.2f}" if z["started"] else "-"
            text = f"{policy.name}   row {now}   waiting {queued}   done {int(z['started'])}   {world.measure} {mean}"
            ImageDraw.Draw(image).text((CELL, 1), text, fill=TEXT, font=font)
            frames.append(image.quantize(64))
        left = world.advance(choose(world))
    whole = io.BytesIO()
    frames[0].save(whole, save_all=True, append_images=frames[1:], duration=160, loop=0, format="GIF")
    write_whole(out, whole.getvalue())
    return len(frames)

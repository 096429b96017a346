"""A film of a grid of time: its picture, row after row."""

from __future__ import annotations

import io
from pathlib import Path

from jobwise.errors import InputError
from jobwise.files import write_whole
from jobwise.learn.play import play
from jobwise.policies.slots import GridPolicy
from jobwise.workload import Workload
from jobwise.worlds.render import CELL, picture

TEXT = (55, 65, 81)


def film(w: Workload, policy: str | GridPolicy, world: dict, out: str | Path, rows: int = 120) -> int:
    """Write an animated GIF, a frame per row of time; how many frames. Raises InputError."""
    try:
        from PIL import Image, ImageDraw
    except ImportError:
        raise InputError("films take pillow: pip install 'jobwise[report]'") from None
    frames, last = [], -1

    def watch(env) -> None:
        nonlocal last
        now = int(env.state[1].moment[0]["now"])
        if now == last or len(frames) >= rows:
            return
        last = now
        image = Image.fromarray(picture(*env.state))
        z, queued = env.state[1].report[0], int((env.state[1].slot[0] >= 0).sum() + env.state[1].moment[0]["backlog"])
        done = int(z["started"])
        mean = z["total"] / done if done else float("nan")
        name = policy if isinstance(policy, str) else policy.label
        ImageDraw.Draw(image).text(
            (CELL, 2), f"{name}   row {now}   waiting {queued}   done {done}   mean slowdown {mean:.2f}", fill=TEXT
        )
        frames.append(image.quantize(64))

    play([w], policy, world, watch=watch)
    whole = io.BytesIO()
    frames[0].save(whole, save_all=True, append_images=frames[1:], duration=160, loop=0, format="GIF")
    write_whole(out, whole.getvalue())
    return len(frames)

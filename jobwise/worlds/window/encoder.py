"""Encoders: compiled functions from the tables that a scheduler may see to the numbers that a network sees."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from jobwise.sim.state import State
from jobwise.worlds.encoder import Groups
from jobwise.worlds.rows import taken
from jobwise.worlds.window.passes import show_running
from jobwise.worlds.window.tables import Choices, running_dtype

NOBODY = np.empty((1, 1), running_dtype)


@dataclass(frozen=True)
class Encoder:
    """Encoding of a state. W jobs in the window, `shape` = (rows, features) of one observation, float32.

    `kernel(running, moment, queue, slots, scale, work, out, first, last)` is compiled and fills out[first:last]: running
    [E, M] of `running_dtype`, the first moment["running"] of them, by estimated end (filled where `sees_running`), moment [E],
    queue [E, J] of `item_dtype`, the first moment["queued"] of them (slot i speaks of queue[e, slots[e, i]], i < count), slots
    [E, W], scale [S], work [E, `work`] i4 to remember things in, out [E, rows, features]. `per_job`: row i speaks of slot i.
    `settings` and `scale` are all that is needed to make the same encoder again. `nodes`: the one machine size it is made for
    (0: any). `bounds`: of all its numbers. `groups`: what they are about.
    """

    name: str
    version: int
    window: int
    shape: tuple[int, int]
    kernel: Callable = field(repr=False)
    per_job: bool = True
    features: tuple[str, ...] = ()
    settings: dict = field(default_factory=dict)
    scale: tuple[float, ...] = ()
    work: int = 1
    sees_running: bool = False
    nodes: int = 0
    bounds: tuple[float, float] = (-4.0, 4.0)
    groups: Groups = field(default_factory=dict)

    def metadata(self) -> dict:
        """Return the metadata that a policy file keeps; `load` makes the encoder again."""
        keys = ("name", "version", "window", "settings", "scale", "nodes")
        return taken(self, keys) | {"shape": list(self.shape), "features": list(self.features)}

    def buffers(self, count: int) -> tuple[np.ndarray, np.ndarray]:
        """(out [E, rows, features] float32, work [E, work] i4), zero, for `count` simulations."""
        return np.zeros((count, *self.shape), np.float32), np.zeros((count, self.work), np.int32)

    def _running(self, s: State, c: Choices, first: int, last: int) -> np.ndarray:
        if not self.sees_running:
            return NOBODY
        out = np.empty((last, max(int(c.moment["running"][first:last].max(initial=0)), 1)), running_dtype)
        show_running(s, c, out, first, last)
        return out

    def encode(self, s: State, c: Choices, out: np.ndarray, work: np.ndarray, first: int = 0, last: int | None = None) -> None:
        """Fill out[first:last] from the public tables of these simulations."""
        last = len(out) if last is None else last
        running = self._running(s, c, first, last)
        self.kernel(running, c.moment, c.queue, c.slots, np.array(self.scale or (0.0,)), work, out, first, last)

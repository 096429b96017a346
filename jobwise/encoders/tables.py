"""Encoders that see the state and the tables of a world of rows: of assignments (`gpus.py`), of buffers (`buffer.py`)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from jobwise.encoders.image import GridEncoder
from jobwise.errors import unknown
from jobwise.sim.state import State

KEPT = {"name": str, "version": int, "slots": int, "settings": dict, "shape": list}  # what a policy file tells of one


@dataclass(frozen=True)
class TableEncoder(GridEncoder):
    """How a state and a world's tables `g` are shown; `kernel(s, g, scale, out, first, last)` fills out[first:last]. It reads
    of the state what is known: jobs, what is free, how long restarts take. `slots`: places that the world shows jobs in."""

    slots: int = 10
    blind: tuple[int, ...] = ()  # columns that are not shown (ablations)

    def metadata(self) -> dict:
        """What a policy file keeps of it."""
        return {k: getattr(self, k) for k in ("name", "version", "slots", "settings")} | {"shape": list(self.shape)}

    def encode(self, s: State, g, out: np.ndarray, first: int = 0, last: int | None = None) -> None:
        """Fill out[first:last]."""
        last = len(out) if last is None else last
        self.kernel(s, g, np.array(self.scale or (0.0,)), out, first, last)
        if self.blind:
            out[first:last, ..., self.blind] = 0.0


def hidden(name: str, without: str, groups: dict[str, list[int]]) -> tuple[int, ...]:
    """The columns of the group `without` ("": none). Raises InputError."""
    if without and without not in groups:
        raise unknown(f"input of encoder {name}", without, groups)
    return tuple(groups[without]) if without else ()

"""Encoders of assignments (`worlds/assignment.py`): RL-TAPS's image. They see what is in the places, who has which GPU, and how
many jobs wait behind: neither jobs to come nor true run times."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from jobwise.cluster import Cluster
from jobwise.encoders.image import GridEncoder
from jobwise.errors import InputError, unknown
from jobwise.sim.compiled import kernel
from jobwise.sim.state import State
from jobwise.worlds.assignment import Gpus


@dataclass(frozen=True)
class GpuEncoder(GridEncoder):
    """How an assignment is shown; `kernel(place, has, moment, scale, out, first, last)` fills out[first:last]."""

    slots: int = 10

    def metadata(self) -> dict:
        """What a policy file keeps of it."""
        return {"name": self.name, "slots": self.slots, "settings": self.settings, "shape": list(self.shape)}

    def encode(self, s: State, g: Gpus, out: np.ndarray, first: int = 0, last: int | None = None) -> None:
        """Fill out[first:last]."""
        self.kernel(g.place, g.has, g.moment, np.array(self.scale), out, first, len(out) if last is None else last)


@kernel
def _image(place, has, moment, scale, out, first, last):
    rows, M, wide, B = out.shape[1], has.shape[1], np.int64(scale[0]), np.int64(scale[1])
    for e in range(first, last):
        out[e] = 0.0
        N = moment[e]["slots"]
        for i in range(M):
            p = has[e, i]
            if p >= 0:
                one, colour = place[e, p], (p + 1.0) / place.shape[1]
                for row in range(min(rows, np.int64(np.ceil(one["left"] / max(one["rate"], 1e-9))))):
                    out[e, row, i] = colour
        for p in range(N):
            one = place[e, p]
            for row in range(min(rows, np.int64(np.ceil(one["left"])) if one["job"] >= 0 else 0)):
                for c in range(min(one["request"], wide)):
                    out[e, row, M + p * wide + c] = 1.0
        x, columns = M + N * wide, (B + rows - 1) // rows
        for k in range(min(moment[e]["behind"], B)):
            out[e, k // columns, x + k % columns] = 1.0


def image(cluster: Cluster, slots: int, backlog: int = 60, *, rows: int = 10, widest: int = 12):
    """RL-TAPS's image (CASCON 2020): [rows, M + slots widest + ceil(backlog / rows)].

    A column per GPU: as many rows as its job will run at its last speed, in the colour (place + 1) / places. `widest` columns
    per slot: the GPUs that its job asks for by the rows that it would take with them, if exchanges cost nothing. At last the
    jobs behind the slots, row by row.
    """
    M = len(cluster.capacity)
    shape = (rows, M + slots * widest + -(-backlog // rows))
    settings = {"rows": rows, "widest": widest, "backlog": backlog}
    return GpuEncoder("rl-taps", 1, shape, rows, _image, (widest, backlog), settings, bounds=(0.0, 1.0), slots=slots)


MAKERS = {"rl-taps": image}


def make_gpus(name: str, cluster: Cluster, slots: int, **settings) -> GpuEncoder:
    """The encoder `name` for a cluster and so many slots. Raises InputError."""
    if name not in MAKERS:
        raise unknown("encoder", name, MAKERS)
    return MAKERS[name](cluster, slots, **settings)


def load_gpus(metadata: dict, cluster: Cluster) -> GpuEncoder:
    """The encoder of a policy file again: `name`, `slots`, `settings`, `shape`. Raises InputError."""
    found = make_gpus(metadata["name"], cluster, metadata["slots"], **metadata["settings"])
    if list(found.shape) != list(metadata["shape"]):
        raise InputError(f"sees {list(metadata['shape'])} numbers; this cluster shows {list(found.shape)}")
    return found

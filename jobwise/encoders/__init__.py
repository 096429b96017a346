"""Encoders: from the tables a scheduler may see to the numbers a network sees.

An encoder fills, for every simulation of a batch, `out[e]` with one row of features per job of the window (`per_job`), or
with one matrix for the whole state. It is compiled, and sees the public tables alone. `docs/add-an-encoder.md` shows how
to write one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from inspect import signature

import numpy as np

from jobwise.cluster import Cluster
from jobwise.errors import InputError, unknown
from jobwise.sim.choices import Choices, running_dtype
from jobwise.sim.choosing import show_running
from jobwise.sim.state import State

NOBODY = np.empty((1, 1), running_dtype)


@dataclass(frozen=True)
class Encoder:
    """How a state is encoded. W jobs in the window, `shape` = (rows, features) of one observation, float32.

    `kernel(running, moment, queue, slots, scale, work, out, first, last)` is compiled and fills out[first:last]: running
    [E, M] of `running_dtype`, the first moment["running"] of them, by estimated end (filled where `sees_running`), moment [E],
    queue [E, J] of `item_dtype`, the first moment["queued"] of them (slot i speaks of queue[e, slots[e, i]], i < count), slots
    [E, W], scale [S], work [E, `work`] i4 to remember things in, out [E, rows, features]. `per_job`: row i speaks of slot i.
    `settings` and `scale` are all that is needed to make the same encoder again. `nodes`: the one machine size it is made for
    (0: any). `bounds`: of all its numbers.
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

    def metadata(self) -> dict:
        """What a policy file keeps of it; `load` makes the encoder again."""
        keys = ("name", "version", "window", "settings", "scale", "nodes")
        return {k: getattr(self, k) for k in keys} | {"shape": list(self.shape), "features": list(self.features)}

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


def make(name: str, cluster: Cluster, jobs: np.ndarray | None = None, window: int | None = None, **settings) -> Encoder:
    """The encoder `name` for a machine, scaled to a public job table, e.g. `make("sem", w.cluster, w.jobs, minimum=128)`.

    Raises InputError for an unknown name or settings that make no sense.
    """
    from jobwise.encoders import perjob, sem

    makers = {"rls": perjob.rls, "perjob": perjob.rich, "sem": sem.sem, "dras": sem.dras}
    if name not in makers:
        raise unknown("encoder", name, makers)
    if window is not None and not 1 <= window <= 100_000:
        raise InputError(f"encoder {name}: a window of {window} jobs; it must be 1 to 100,000")
    known = set(signature(makers[name]).parameters) - {"cluster", "jobs", "window"}
    if wrong := sorted(set(settings) - known):
        raise unknown(f"setting of encoder {name}", wrong[0], known)
    for key, value in settings.items():
        kind = type(signature(makers[name]).parameters[key].default)
        if type(value) is not kind:
            raise InputError(f"encoder {name}: {key} is {value!r}; a {kind.__name__} is expected")
    return makers[name](cluster, jobs, **({} if window is None else {"window": window}), **settings)


def load(metadata: dict, cluster: Cluster) -> Encoder:
    """The encoder of a policy file again, for the machine it now meets. Raises InputError where it cannot be."""
    try:
        found = make(metadata["name"], cluster, None, metadata["window"], **metadata["settings"])
    except (TypeError, AttributeError, OverflowError, ValueError) as error:
        raise (
            error if isinstance(error, InputError) else InputError(f"encoder settings {metadata['settings']!r}: {error}")
        ) from None
    what = f"encoder {found.name}"
    if found.version != metadata["version"]:
        raise InputError(f"{what} is version {found.version} here; the policy was trained with version {metadata['version']}")
    if metadata["nodes"] and metadata["nodes"] != cluster.processors:
        raise InputError(f"{what} was made for {metadata['nodes']:,} processors; this machine has {cluster.processors:,}")
    if list(found.shape) != list(metadata["shape"]):
        raise InputError(f"{what} gives {list(found.shape)} here; the policy was trained with {metadata['shape']}")
    if found.name != "rls":  # the others' numbers follow from the settings and the machine
        return found
    scale = np.asarray(metadata["scale"], float)
    if scale.shape != (len(found.scale),) or not np.isfinite(scale).all():
        raise InputError(f"{what} needs {len(found.scale)} finite numbers as scale, not {metadata['scale']!r}")
    return replace(found, scale=tuple(scale.tolist()))

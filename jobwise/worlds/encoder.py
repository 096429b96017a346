"""Encoders, what they share: makers by name, and those that show the tables of a world of rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from inspect import signature
from typing import Any

import numpy as np

from jobwise import extensions
from jobwise.cluster import Cluster
from jobwise.errors import InputError, unknown
from jobwise.sim.state import State

Index = tuple[Any, ...]  # of numbers of one observation, as numpy takes it
Groups = dict[str, list[Index]]  # what numbers of an observation are about: "queue", "running", "time" …, each where they are


def columns(groups: dict[str, list[int]]) -> Groups:
    """The groups of an encoder by columns of its last axis."""
    return {name: [(..., which)] for name, which in groups.items()}


KEPT = {"name": str, "version": int, "slots": int, "settings": dict, "shape": list}  # what a policy file tells of one


def maker_of(name: str, makers: dict[str, Callable], settings: dict) -> Callable:
    """Return the maker of the encoder `name`, of `makers` or of another package. Raises InputError for wrong settings."""
    if name not in makers:
        added = extensions.load("jobwise.encoders", name)
        if added is None:
            raise unknown("encoder", name, [*makers, *extensions.names("jobwise.encoders")])
        return added
    known = {
        k: p.default for k, p in signature(makers[name]).parameters.items() if k not in ("cluster", "jobs", "window", "slots")
    }
    if wrong := sorted(set(settings) - set(known)):
        raise unknown(f"setting of encoder {name}", wrong[0], known)
    for key, value in settings.items():
        kind = list if isinstance(known[key], tuple) else type(known[key])  # a default that may not change stands for a list
        if type(value) is not kind:
            raise InputError(f"encoder {name}: {key} is {value!r}; a {kind.__name__} is expected")
    return makers[name]


@dataclass(frozen=True)
class RowsEncoder:
    """Encoder of the state of a world of rows: `shape` of one observation, float32.

    `kernel` is compiled and fills out[first:last]. `rows`: of time to come that it shows (H). `per_slot`: row i speaks of slot
    i, the last of the void action. `bounds`: of all its numbers. `groups`: see `Groups`.
    """

    name: str
    version: int
    shape: tuple[int, ...]
    rows: int
    kernel: Callable = field(repr=False)
    scale: tuple[float, ...] = ()
    settings: dict = field(default_factory=dict)
    per_slot: bool = False
    bounds: tuple[float, float] = (-1.0, 1.0)
    groups: Groups = field(default_factory=dict)

    @property
    def features(self) -> tuple[str, ...]:
        """No names: its numbers are a picture."""
        return ()


@dataclass(frozen=True)
class TableEncoder(RowsEncoder):
    """Encoder of a state and a world's tables `g`; `kernel(s, g, scale, out, first, last)` fills out[first:last]. It reads
    the known part of the state: jobs, free units, times of restarts. `slots`: places in which the world shows jobs."""

    slots: int = 10
    per_gpu: bool = False  # a row per slot, then one per GPU; a network of pairs takes any number of them
    blind: tuple[int, ...] = ()  # columns that are not shown (ablations)

    def metadata(self) -> dict:
        """Return the metadata that a policy file keeps."""
        return {
            "name": self.name,
            "version": self.version,
            "slots": self.slots,
            "settings": self.settings,
            "shape": list(self.shape),
        }

    def encode(self, s: State, g, out: np.ndarray, first: int = 0, last: int | None = None) -> None:
        """Fill out[first:last] with the observations of simulations."""
        last = len(out) if last is None else last
        self.kernel(s, g, np.array(self.scale or (0.0,)), out, first, last)
        if self.blind:
            out[first:last, ..., self.blind] = 0.0


def hidden(name: str, without: str, groups: dict[str, list[int]]) -> tuple[int, ...]:
    """The columns of the group `without` ("": none). Raises InputError."""
    if without and without not in groups:
        raise unknown(f"input of encoder {name}", without, groups)
    return tuple(groups[without]) if without else ()


def make_table(makers: dict[str, Callable], name: str, cluster: Cluster, slots: int, **settings) -> TableEncoder:
    """Return the encoder `name` of a world's `makers`, for a cluster and `slots` slots. Raises InputError."""
    return maker_of(name, makers, settings)(cluster, slots, **settings)


def load_table(makers: dict[str, Callable], metadata: dict, cluster: Cluster) -> TableEncoder:
    """Return the encoder of a policy file again, for the cluster it now meets. Raises InputError where it cannot be."""
    encoder = make_table(makers, metadata["name"], cluster, metadata["slots"], **metadata["settings"])
    if encoder.version != metadata["version"]:
        raise InputError(f"was trained with version {metadata['version']} of {encoder.name}; this is version {encoder.version}")
    if not (encoder.per_slot or encoder.per_gpu) and list(encoder.shape) != list(metadata["shape"]):
        raise InputError(f"sees {list(metadata['shape'])} numbers; this cluster shows {list(encoder.shape)}")
    return encoder

"""Encoders: from the tables a scheduler may see to the numbers a network sees.

An encoder fills, for every simulation of a batch, `out[e]` with one row of features per job of the window (`per_job`), or
with one matrix for the whole state. It is compiled, and sees the public tables alone. `docs/add-an-encoder.md` shows how
to write one.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from jobwise.cluster import Cluster
from jobwise.encoders import buffer, gpus, perjob, sem
from jobwise.encoders.encoder import Encoder, maker_of
from jobwise.encoders.image import GridEncoder, load_grid
from jobwise.encoders.mars import mars
from jobwise.encoders.tables import TableEncoder
from jobwise.errors import InputError

__all__ = ["Encoder", "load", "make"]
TABLES = gpus.MAKERS | buffer.MAKERS  # of encoders of the worlds of assignments and of buffers


def make(name: str, cluster: Cluster, jobs: np.ndarray | None = None, window: int | None = None, **settings) -> Encoder:
    """The encoder `name` for a machine, scaled to a public job table, e.g. `make("sem", w.cluster, w.jobs, minimum=128)`.

    Raises InputError for an unknown name or settings that make no sense.
    """
    makers = {"rls": perjob.rls, "perjob": perjob.rich, "sem": sem.sem, "dras": sem.dras, "mars": mars}
    made = maker_of(name, makers, settings)
    if window is not None and not 1 <= window <= 100_000:
        raise InputError(f"encoder {name}: a window of {window} jobs; it must be 1 to 100,000")
    return made(cluster, jobs, **({} if window is None else {"window": window}), **settings)


def load(metadata: dict, cluster: Cluster) -> Encoder | GridEncoder:
    """The encoder of a policy file again, for the machine it now meets. Raises InputError where it cannot be."""
    if "units" in metadata:
        return load_grid(metadata, cluster)
    if metadata.get("name") in TABLES:
        return _load_table(metadata, cluster)
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
    if found.name not in ("rls", "mars"):  # the others' numbers follow from the settings and the machine
        return found
    scale = np.asarray(metadata["scale"], float)
    if scale.shape != (len(found.scale),) or not np.isfinite(scale).all():
        raise InputError(f"{what} needs {len(found.scale)} finite numbers as scale, not {metadata['scale']!r}")
    return replace(found, scale=tuple(scale.tolist()))


def make_table(name: str, cluster: Cluster, slots: int, **settings) -> TableEncoder:
    """The encoder `name` of a world of assignments or buffers, for a cluster and so many slots. Raises InputError."""
    return maker_of(name, TABLES, settings)(cluster, slots, **settings)


def _load_table(metadata: dict, cluster: Cluster) -> TableEncoder:
    found = make_table(metadata["name"], cluster, metadata["slots"], **metadata["settings"])
    if found.version != metadata["version"]:
        raise InputError(f"was trained with version {metadata['version']} of {found.name}; this is version {found.version}")
    if not found.per_slot and list(found.shape) != list(metadata["shape"]):
        raise InputError(f"sees {list(metadata['shape'])} numbers; this cluster shows {list(found.shape)}")
    return found

"""The encoders of windows by name, and those of policy files. `docs/add-an-encoder.md` shows how to write one.

An encoder fills, for every simulation of a batch, `out[e]` with one row of features per job of the window (`per_job`), or
with one matrix for the whole state. It is compiled, and sees the public tables alone.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from jobwise.cluster import Cluster
from jobwise.errors import InputError
from jobwise.worlds.encoder import maker_of
from jobwise.worlds.window import perjob, sem
from jobwise.worlds.window.encoder import Encoder
from jobwise.worlds.window.mars import mars

SEVERAL = ("sem", "mars")  # those that see all resources of a machine of several
MAKERS = {"rls": perjob.rls, "perjob": perjob.rich, "priced": perjob.priced, "sem": sem.sem, "dras": sem.dras, "mars": mars}


def make(name: str, cluster: Cluster, jobs: np.ndarray | None = None, window: int | None = None, **settings) -> Encoder:
    """The encoder `name` for a machine, scaled to a public job table, e.g. `make("sem", w.cluster, w.jobs, minimum=128)`.

    Raises InputError for an unknown name or settings that make no sense.
    """
    made = maker_of(name, MAKERS, settings)
    if window is not None and not 1 <= window <= 100_000:
        raise InputError(f"encoder {name}: a window of {window} jobs; it must be 1 to 100,000")
    if not cluster.is_pool and name not in SEVERAL:
        raise InputError(
            f"encoder {name} sees one resource; this machine has {len(cluster.resources)}: {' and '.join(SEVERAL)} see them"
        )
    return made(cluster, jobs, **({} if window is None else {"window": window}), **settings)


def load(metadata: dict, cluster: Cluster) -> Encoder:
    """The encoder of a policy file again, for the machine it now meets. Raises InputError where it cannot be."""
    try:
        if (nodes := metadata["nodes"]) and nodes != cluster.processors:
            here = f"this machine has {cluster.processors:,}"
            raise InputError(f"encoder {metadata['name']} was made for {nodes:,} processors; {here}")
        encoder = make(metadata["name"], cluster, None, metadata["window"], **metadata["settings"])
    except (TypeError, AttributeError, OverflowError, ValueError) as error:
        raise (
            error if isinstance(error, InputError) else InputError(f"encoder settings {metadata['settings']!r}: {error}")
        ) from None
    what = f"encoder {encoder.name}"
    if encoder.version != metadata["version"]:
        raise InputError(f"{what} is version {encoder.version} here; the policy was trained with version {metadata['version']}")
    if list(encoder.shape) != list(metadata["shape"]):
        raise InputError(f"{what} gives {list(encoder.shape)} here; the policy was trained with {metadata['shape']}")
    if encoder.name not in ("rls", "mars", "priced"):  # the others' numbers follow from the settings and the machine
        return encoder
    scale = np.asarray(metadata["scale"], float)
    if scale.shape != (len(encoder.scale),) or not np.isfinite(scale).all():
        raise InputError(f"{what} needs {len(encoder.scale)} finite numbers as scale, not {metadata['scale']!r}")
    return replace(encoder, scale=tuple(scale.tolist()))

"""A workload from whatever names one on the command line."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from jobwise.cluster import pool
from jobwise.errors import InputError, unknown
from jobwise.workload import Workload
from jobwise.workloads import catalogue, sacct, swf


def open_log(source: str, procs: int | None = None, progress: Callable[[int, int], None] | None = None) -> Workload:
    """Read a log: an SWF or sacct file (by content; .gz and .xz too), `-`, or a name of the catalogue (`sdsc-sp2`).

    `procs` overrides the size of the machine. Raises InputError.
    """

    if source != "-" and not Path(source).exists() and "/" not in source and "." not in source:
        if source not in catalogue.LOGS:
            raise unknown("file or log", source, catalogue.LOGS)
        source = str(catalogue.fetch(source, progress))
    text = swf.read_text(source)
    if sacct.is_sacct(text):
        return sacct.from_text(text, source, procs)
    sacct.nearly(text, source)
    head = text[:4096].split("\n", 1)[0]
    if "num_gpus" in head or "num_gpu," in head:
        raise InputError(f"{source}: a table of GPU jobs; `jobwise train cush {source}` and `jobwise evaluate` take it")
    if text[:1] in ("{", "["):
        raise InputError(f"{source}: is no job log; Standard Workload Format or the output of sacct is expected")
    w = swf.from_text(text, source)
    if procs is None:
        return w
    largest = int(w.jobs["request"][:, 0].max())
    if procs < largest:
        raise InputError(f"{source}: a machine of {procs} processors cannot run its largest job ({largest})")
    notes = {k: v for k, v in w.notes.items() if not k.startswith("processors guessed")}
    return replace(w, cluster=pool(procs), notes=notes)

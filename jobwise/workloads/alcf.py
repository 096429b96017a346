"""ALCF's yearly job tables (DIM_JOB_COMPOSITE, reports.alcf.anl.gov/data): Theta, Mira and others; a row a job, in whole nodes.

A job counts as submitted when it became eligible: its start less its eligible wait, where the table tells it. Priorities of the
time are not in the table; queues are (`jobs["queue"]`, names in `Workload.names`).
"""

from __future__ import annotations

import io
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from jobwise.cluster import pool
from jobwise.errors import InputError, plain, shown
from jobwise.workload import Workload, workload

NODES = {"mira": 49_152, "theta": 4_392, "cetus": 4_096, "vesta": 2_048, "polaris": 560, "cooley": 126}  # of its machines
NEEDED = ("QUEUED_TIMESTAMP", "START_TIMESTAMP", "WALLTIME_SECONDS", "RUNTIME_SECONDS", "NODES_REQUESTED")
WHO = {"user": "USERNAME_GENID", "group": "PROJECT_NAME_GENID", "queue": "QUEUE_NAME"}
READING = ("Units are nodes; a job is submitted when it becomes eligible, where the table tells it.",)


def is_alcf(head: str) -> bool:
    """Is this the first line of such a table?"""
    names = {x.strip().strip('"').upper() for x in head.split(",")}
    return {"QUEUED_TIMESTAMP", "NODES_REQUESTED"} <= names or {"COBALT_JOBID", "START_TIMESTAMP"} <= names


def from_text(text: str, source: str, procs: int | None = None) -> Workload:
    """Read the jobs of a table, on `procs` nodes (by default those of its machine). Raises InputError."""
    column, line, count = _columns(text, source)
    queued, start = (_times(column[n], n, line, source) for n in ("QUEUED_TIMESTAMP", "START_TIMESTAMP"))
    limit, run, nodes = (_numbers(column[n], n, line, source) for n in NEEDED[2:])
    submit = queued
    if "ELIGIBLE_WAIT_SECONDS" in column:
        texts = column["ELIGIBLE_WAIT_SECONDS"]
        waited = _numbers(pc.if_else(pc.equal(texts, ""), "-1", texts), "ELIGIBLE_WAIT_SECONDS", line, source)
        submit = np.where(waited >= 0, start - waited, queued)
    real = (nodes >= 1) & (run >= 0)
    keep = np.flatnonzero(real)
    keep = keep[np.argsort(submit[keep], kind="stable")]
    if not len(keep):
        raise InputError(f"{source}: no job has nodes and a run time")
    most = int(nodes[keep].max())
    if procs and procs < most:
        raise InputError(f"{source}: a machine of {procs} nodes cannot run its largest job ({most})")
    coded = {key: _identifiers(column[title], keep) for key, title in WHO.items() if title in column}
    submit, nodes, limit = submit[keep], nodes[keep].astype(np.int64), np.maximum(limit[keep], 1.0)
    machine, ids = pool(procs or max(_machine(column), most)), {key: x for key, (x, _) in coded.items()}
    w = workload(submit, nodes, run[keep], limit, cluster=machine, name=_name(source), **ids)
    dropped = {"did not start": count - len(line), "of no nodes, or no time": int((~real).sum())}
    w.dropped.update({k: n for k, n in dropped.items() if n})
    w.columns["wait"] = np.maximum(start[keep] - submit, 0.0)
    return replace(w, origin=float(submit[0]), names={key: x for key, (_, x) in coded.items()}, reading=READING)


def _columns(text: str, source: str) -> tuple[dict[str, pa.Array], np.ndarray, int]:
    """(the columns of the jobs that have started, the row of each, how many rows there are). Raises InputError."""
    head = [x.strip().strip('"') for x in text.split("\n", 1)[0].rstrip("\r").split(",")]
    try:
        options = csv.ConvertOptions(column_types=dict.fromkeys(head, pa.string()))
        rows = csv.read_csv(io.BytesIO(text.encode()), convert_options=options)
    except pa.ArrowInvalid as error:
        raise InputError(f"{source}: is no whole table: {plain(str(error).splitlines()[0])[:160]}") from None
    rows = rows.rename_columns([x.strip().upper() for x in rows.column_names])
    if lost := [x for x in NEEDED if x not in rows.column_names]:
        raise InputError(f"{source}:1: there is no column {lost[0]}; it has {shown(rows.column_names)}")
    column = {n: pc.utf8_trim_whitespace(rows[n].combine_chunks()) for n in rows.column_names}
    began = np.array(pc.not_equal(column["START_TIMESTAMP"], ""), bool)
    if not began.any():
        raise InputError(f"{source}: no job has started")
    return {n: x.filter(pa.array(began)) for n, x in column.items()}, np.flatnonzero(began), len(began)


def _name(source: str) -> str:
    return source.rsplit("/", 1)[-1].removesuffix(".gz").removesuffix(".xz").removesuffix(".csv")


def _machine(column: dict[str, pa.Array]) -> int:
    """The nodes of the machine that the table is about; 0 where it is not known."""
    of = pc.unique(column["MACHINE_NAME"]).to_pylist() if "MACHINE_NAME" in column else []
    return max((NODES.get(str(x).lower(), 0) for x in of), default=0)


def _times(texts: pa.Array, name: str, line: np.ndarray, source: str) -> np.ndarray:
    """[J] s since 1970 of "2019-01-31 23:59:59" (UTC), fractions cut off. Raises InputError naming the line."""
    cut = pc.utf8_slice_codeunits(texts, 0, 19)
    try:
        return np.array(cut.to_pylist(), "datetime64[s]").astype(np.int64).astype(float)
    except ValueError:
        return np.array([_time(x, name, int(line[i]) + 2, source) for i, x in enumerate(cut.to_pylist())])


def _time(text: str, name: str, line: int, source: str) -> float:
    try:
        return float(np.datetime64(text, "s").astype(np.int64))
    except ValueError:
        raise InputError(
            f"{source}:{line}: {name} is {plain(text)!r}; a time such as 2019-01-31 23:59:59 is expected"
        ) from None


def _numbers(texts: pa.Array, name: str, line: np.ndarray, source: str) -> np.ndarray:
    """[J] numbers. Raises InputError naming the line."""
    try:
        return np.array(pc.cast(texts, pa.float64()))
    except pa.ArrowInvalid:
        for i, x in enumerate(texts.to_pylist()):
            try:
                float(x)
            except ValueError:
                raise InputError(f"{source}:{line[i] + 2}: {name} is {plain(x)!r}; a number is expected") from None
        raise


def _identifiers(texts: pa.Array, keep: np.ndarray) -> tuple[np.ndarray, dict[int, str]]:
    """([J] numbers of different texts in order of appearance, what they stand for)."""
    coded = pc.dictionary_encode(texts.take(pa.array(keep)))
    return np.array(coded.indices, np.int64), dict(enumerate(coded.dictionary.to_pylist()))

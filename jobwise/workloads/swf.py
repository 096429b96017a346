"""Standard Workload Format 2.2: reader and writer. Source: Parallel Workloads Archive, format definition."""

from __future__ import annotations

import gzip
import lzma
import math
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from jobwise.cluster import Cluster, pool
from jobwise.errors import InputError
from jobwise.jobs import blank_jobs, truth_dtype
from jobwise.workload import Workload
from jobwise.workloads.opened import read_text
from jobwise.workloads.swf_lines import COLUMNS, SwfLines

NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|[+-]?(nan|inf)", re.I)
DESCRIPTOR = re.compile(r":(\d+)x\d+$")  # nodes x cores of each
_IDENTIFIERS = ("user", "group", "app", "queue", "partition")
READING = (
    "Processors = requested if > 0, else allocated; walltime = requested time if > 0, else run time.",
    "Partitions, memory, node boundaries, dependencies and reservations are not replayed.",
)


def read_swf(path: str | Path, *, procs: str = "requested", status: set[int] | None = None) -> Workload:
    """Read a log in Standard Workload Format.

    Rows without a run time or a size, and those larger than the machine, are left out and counted in `Workload.dropped`. All 18
    columns of the other rows are in `Workload.columns`, header lines in `Workload.header`.

    Parameters
    ----------
    path : str or Path
        The file, plain, .gz or .xz; ``-`` for standard input.
    procs : {"requested", "larger"}
        A job's size: field 8 where it is more than 0, else field 5; or the larger of both, as RLScheduler has it.
    status : set of int, optional
        Keep only jobs with these completion codes (field 11).

    Returns
    -------
    Workload

    Raises
    ------
    InputError
        The file cannot be read; the message begins with ``file:line``.
    """
    return from_text(read_text(path), str(path), procs=procs, status=status)


def from_text(text: str, where: str, *, procs: str = "requested", status: set[int] | None = None, fields: str = "") -> Workload:
    """Read a log as `read_swf` does, from text; `where` is the name used in messages, `fields` as of `from_blocks`."""
    return from_blocks(iter([text.encode()]), where, procs=procs, status=status, fields=fields)


def from_blocks(
    blocks: Iterator[bytes], where: str, *, procs: str = "requested", status: set[int] | None = None, fields: str = ""
) -> Workload:
    """Read a log as `read_swf` does, from blocks of whole lines. `fields`: names of the columns behind the 18, by commas or
    spaces, or of all columns; by default those of the header's line "Fields", else field19, field20, …"""
    if procs not in ("requested", "larger"):
        raise InputError(f"procs is {procs!r}; it must be 'requested' or 'larger'")
    lines = SwfLines(where)
    for block in blocks:
        lines.add(block)
    table = lines.table()
    names = _names_behind(fields or directive(lines.header, "Fields") or "", lines.width)
    more = {name: lines.column(i) for i, name in enumerate(names)}
    nodes = _described(table, more)
    numbers = [k for k, v in more.items() if v.dtype.kind == "f"]
    table = np.column_stack([table, *(more[k] for k in numbers), np.arange(len(table))]) if more else table
    kept = (*numbers, "row") if more else ()
    w = from_table(table, lines.header, name=_name(where), where=where, procs=procs, status=status, more=kept)
    if more:
        rows = w.columns.pop("row").astype(int)
        w.columns.update({k: v[rows] for k, v in more.items() if k not in numbers})
    w.notes.update(nodes)
    w.dropped.update(lines.unread())
    return w


def _name(path: str | Path) -> str:
    return re.sub(r"(\.swf)?(\.gz|\.xz)?$", "", Path(path).name) if str(path) != "-" else "stdin"


def is_like(head: str) -> bool:
    """Return whether a text looks like SWF: it begins with a line of the header, or with a line of numbers; or it is empty."""
    line = next((x.strip() for x in head.splitlines() if x.strip()), ";")
    data = next((x.split() for x in head.splitlines() if x.strip() and x.lstrip()[0] != ";"), [])
    return line[0] == ";" or (len(data) >= 5 and all(NUMBER.fullmatch(x) for x in data[:5]))


def _names_behind(text: str, width: int) -> list[str]:
    """The names of the columns behind the 18."""
    names, count = [x for x in re.split(r"[,\s]+", text) if x], width - len(COLUMNS)
    names = names[len(COLUMNS) :] if len(names) > count else names
    own = [f"field{i}" for i in range(len(COLUMNS) + 1 + len(names), width + 1)]
    return [f"{x}_" if x in COLUMNS else x for x in (*names, *own)][:count]


def _described(table: np.ndarray, more: dict[str, np.ndarray]) -> dict[str, int]:
    """Set sizes of jobs to the nodes that a column of descriptors names (frontier:excl:2500x112), where one does; a note."""
    for name, texts in more.items():
        if texts.dtype.kind == "f":
            continue
        kinds, which = np.unique(texts, return_inverse=True)
        match = [DESCRIPTOR.search(str(x)) for x in kinds]
        nodes = np.array([float(x[1]) if x else -1.0 for x in match])[which]
        if (nodes > 0).mean() > 0.9:
            for key in ("allocated", "requested"):
                i = COLUMNS.index(key)
                table[:, i] = np.where(nodes > 0, nodes, table[:, i])
            return {f"have the nodes of their descriptor ({name}), not fields 5 and 8, as their size": int((nodes > 0).sum())}
    return {}


def directive(header: list[str] | tuple[str, ...], key: str) -> str | None:
    """The value of a header directive (`; MaxProcs: 128`), None without."""
    for line in header:
        line_of_key = re.match(rf"\s*;+\s*{key}\s*:\s*(.*)", line, re.IGNORECASE)
        if line_of_key:
            return line_of_key[1].strip()
    return None


def _count(header: list[str], key: str) -> int:
    digits = re.match(r"-?(?:\d{1,3}(?:,\d{3})+|\d{1,18})(?![\d,])", directive(header, key) or "")
    return int(digits[0].replace(",", "")) if digits else -1


def _machine(header: list[str], largest: int) -> int:
    """Size of the machine: MaxProcs, else MaxNodes, else the largest job. Where MaxNodes stands alone and a job is larger,
    sizes are not nodes: it is the least multiple of MaxNodes that holds the largest job."""
    procs, nodes = _count(header, "MaxProcs"), _count(header, "MaxNodes")
    if procs > 0 or nodes <= 0:
        return procs if procs > 0 else largest
    return nodes * -(-largest // nodes) if largest > nodes else nodes


def from_table(
    table: np.ndarray,
    header: list[str],
    *,
    name: str,
    where: str,
    cluster: Cluster | None = None,
    procs: str = "requested",
    status: set[int] | None = None,
    more: tuple[str, ...] = (),
    unit: str = "processors",
) -> Workload:
    """A workload from the 18 columns of SWF, and others that have the names `more`; the rules of the reader apply. `unit`: what
    sizes count."""
    col = dict(zip((*COLUMNS, *more), table.T, strict=True))
    size = np.where(col["requested"] > 0, col["requested"], col["allocated"])
    if procs == "larger":
        size = np.maximum(col["requested"], col["allocated"])
    largest = math.ceil(size[size < MOST_UNITS].max(initial=0))
    named = max(_count(header, "MaxProcs"), 0) or (_count(header, "MaxNodes") if _count(header, "MaxNodes") >= largest else 0)
    guessed = cluster is None and named <= 0
    if cluster is None:
        machine = _machine(header, largest)
        if machine < 1:
            raise InputError(f"{where}: no job has a size, and the header names no MaxProcs; the machine is unknown")
        if machine >= 2**31:
            raise InputError(f"{where}: a machine of {machine} processors is beyond what can be simulated (2^31)")
        cluster = pool(machine)
    parts, joined = _parts(col)
    keep, dropped = _kept(col, size, cluster, parts, status, unit)
    if not keep.any():
        raise InputError(f"{where}: none of {len(table)} rows is a job that ran ({_reasons(dropped)})")
    unsorted = int((np.diff(col["submit"][keep]) < 0).sum())
    rows = np.flatnonzero(keep)
    rows = rows[np.argsort(col["submit"][rows], kind="stable")]
    jobs, truth = blank_jobs(len(rows), cluster.capacity.shape[1]), np.zeros(len(rows), truth_dtype)
    first = float(col["submit"][rows[0]])
    jobs["submit"] = col["submit"][rows] - first
    jobs["request"][:, 0] = np.ceil(size[rows])
    jobs["walltime"] = np.where(col["walltime"][rows] > 0, col["walltime"][rows], col["run"][rows])
    truth["runtime"], truth["kind"] = col["run"][rows], -1
    for key in _IDENTIFIERS:
        jobs[key] = np.clip(col[key][rows], -1, 2**31 - 1)
    jobs["memory"] = np.where(col["requested_memory"][rows] > 0, col["requested_memory"][rows], -1)
    notes = {"out of submit order in the file (they are sorted)": unsorted} if unsorted else {}
    if joined:
        notes["put together from their parts (status 2 to 4)"] = joined
    if missing := int((col["walltime"][rows] <= 0).sum()):
        notes["without a requested time (their run time stands in)"] = missing
    if guessed:
        notes[f"processors guessed from the largest job, {cluster.processors:,} (--procs sets them)"] = 1
    start = directive(header, "UnixStartTime")
    origin = float(start) if start and re.fullmatch(r"\d+(\.\d+)?", start) else math.nan
    absolute = first > 5e8  # some logs hold Unix times: their first job is the start of the trace
    return Workload(
        jobs,
        truth,
        cluster,
        name=name,
        header=tuple(header),
        columns={key: x[rows] for key, x in col.items()},
        dropped=dropped,
        notes=notes,
        reading=READING,
        origin=first if absolute else origin + first,
        offset=0.0 if absolute else first,
    )


def _kept(
    col: dict[str, np.ndarray], size: np.ndarray, cluster: Cluster, parts: np.ndarray, status: set[int] | None, unit: str
) -> tuple[np.ndarray, dict[str, int]]:
    """(rows that are jobs which ran [N], how many others there are by the first reason that holds)."""
    keep, dropped = np.ones(len(size), bool), dict[str, int]()
    latest = float(np.median(col["submit"])) + CENTURY
    for reason, bad in (
        ("parts of a job that is there whole (status 2 to 4)", parts),
        ("negative submit time", col["submit"] < 0),
        ("a hundred years after the others", col["submit"] > latest),
        (f"{MOST_UNITS:,} {unit} and more, beyond what can be simulated", size >= MOST_UNITS),
        ("run time <= 0", col["run"] <= 0),
        (f"no {unit}", size <= 0),
        ("larger than the machine", size > cluster.processors),
        ("status filtered", ~np.isin(col["status"], list(status)) if status is not None else ~keep),
    ):
        bad = bad & keep
        if bad.any():
            dropped[reason] = int(bad.sum())
        keep &= ~bad
    return keep, dropped


CENTURY, MOST_UNITS = 3.2e9, 2**31  # s; of a machine
PARTS = (2, 3, 4)  # status of a part of a job that was interrupted: another follows, the last, the last of one that failed


def _parts(col: dict[str, np.ndarray]) -> tuple[np.ndarray, int]:
    """(rows that are parts of a job that another row has [N], jobs that no row has whole): such a job is its first part, which
    runs for as long as all of them."""
    part = np.isin(col["status"], PARTS)
    if not part.any():
        return part, 0
    part &= col["job"] >= 0
    lone = np.flatnonzero(part & ~np.isin(col["job"], col["job"][~part]))
    _, first, of = np.unique(col["job"][lone], return_index=True, return_inverse=True)
    col["run"], col["status"] = col["run"].copy(), col["status"].copy()
    last = lone[len(lone) - 1 - np.unique(col["job"][lone][::-1], return_index=True)[1]]
    col["run"][lone[first]] = np.bincount(of, np.maximum(col["run"][lone], 0.0))
    col["status"][lone[first]] = np.where(col["status"][last] == PARTS[-1], 0, 1)
    part[lone[first]] = False
    return part, len(first)


def _reasons(dropped: dict[str, int]) -> str:
    return ", ".join(f"{n} {reason}" for reason, n in dropped.items())


def swf_table(w: Workload) -> np.ndarray:
    """The workload as the 18 columns of SWF [J, 18]: what its source had, with what jobwise knows written over it."""
    table = np.full((len(w), 18), -1.0)
    for i, key in enumerate(COLUMNS):
        if key in w.columns:
            table[:, i] = w.columns[key]
    source = "submit" in w.columns
    put = dict(zip(COLUMNS, range(18), strict=True))
    if not source:
        table[:, put["job"]] = np.arange(1, len(w) + 1)
        table[:, put["status"]] = 1
        for key in _IDENTIFIERS:
            table[:, put[key]] = w.jobs[key]
        table[:, put["allocated"]] = table[:, put["requested"]] = w.jobs["request"][:, 0]
        table[:, put["walltime"]] = w.jobs["walltime"]
    table[:, put["submit"]] = w.jobs["submit"] + (w.columns["submit"][0] - w.jobs["submit"][0] if source else 0)
    table[:, put["run"]] = w.truth["runtime"]
    return table


def _number(x: float) -> str:
    return str(int(x)) if x == int(x) else repr(float(x))


def swf_text(w: Workload, extended: bool = False) -> str:
    """The workload as SWF text: its header lines (made up where it had none), then one line a job. `extended`: further columns
    of its source stand behind the 18, named by the line "Fields" of the header."""
    header = list(w.header)
    if not header:
        header = ["; Version: 2.2", f"; Computer: {w.name}", f"; MaxJobs: {len(w)}", f"; MaxRecords: {len(w)}"]
        header += [f"; MaxProcs: {w.cluster.processors}", f"; MaxNodes: {len(w.cluster.capacity)}"]
        if not math.isnan(w.origin):
            header.append(f"; UnixStartTime: {int(w.origin)}")
    if _machine(header, w.cluster.processors) != w.cluster.processors:  # the log's own size was overridden
        header = [line for line in header if directive([line], "MaxProcs") is None]
        header.append(f"; MaxProcs: {w.cluster.processors}")
    table = swf_table(w)
    whole = (table == np.floor(table)).all(axis=0)
    columns = [c.astype(np.int64).astype(str) if w_ else [_number(x) for x in c] for c, w_ in zip(table.T, whole, strict=True)]
    more = [k for k in w.columns if k not in COLUMNS] if extended else []
    if more:
        header = [x for x in header if directive([x], "Fields") is None]
        header.append(f"; Fields: {' '.join(more)}")
        columns += [_behind(w.columns[k]) for k in more]
    return "\n".join([*header, *map(" ".join, zip(*columns, strict=True))]) + "\n"


def _behind(values: np.ndarray) -> list[str]:
    """A column behind the 18: numbers (-1: not said), or words without spaces."""
    if values.dtype.kind in "fiu":
        return [_number(x) for x in np.nan_to_num(values.astype(float), nan=-1.0).tolist()]
    return [re.sub(r"\s+", "_", str(x)) or "-1" for x in values.tolist()]


def write_swf(w: Workload, path: str | Path, extended: bool = False) -> None:
    """Write a workload in Standard Workload Format, whole or not at all.

    Parameters
    ----------
    w : Workload
        The jobs; sizes are units of the first resource.
    path : str or Path
        The file, compressed where its name ends in .gz or .xz; ``-`` for standard output.
    extended : bool
        Write further columns of its source behind the 18, as `from_blocks` reads them.

    Raises
    ------
    InputError
        The file cannot be written.
    """
    from jobwise.files import write_whole

    data = swf_text(w, extended).encode()
    if str(path).endswith(".gz"):
        data = gzip.compress(data, 6, mtime=0)
    elif str(path).endswith(".xz"):
        data = lzma.compress(data)
    write_whole(path, data)

"""Job logs as Parquet tables: a row a job in order of submit, read and written in parts of any size.

Columns: submit, runtime, processors, and any of OPTIONAL. The size of the machine, the name and the calendar stand in the
file's metadata.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from jobwise.cluster import pool
from jobwise.errors import InputError, in_a_line
from jobwise.files import whole
from jobwise.workload import Workload, workload

ROWS = 1 << 20  # rows of a row group, in files that jobwise writes
BUFFER = 1 << 20  # bytes of a column that are read at once: without it all row groups stay in memory
NEEDED = {"submit": "f8", "runtime": "f8", "processors": "i8"}
IDENTIFIERS = {"user": "i4", "group": "i4", "app": "i4", "queue": "i4", "partition": "i4", "memory": "f4"}
OPTIONAL = {"walltime": "f8", "job": "i8", "fails": "i1", "wait": "f8"} | IDENTIFIERS
ABOUT = b"jobwise"  # key of the metadata


class ParquetLog:
    """A log in Parquet. `name`, `processors` of its machine, `origin` and `offset` as of a Workload; `len` rows. Raises
    InputError for a file that is no such log."""

    def __init__(self, source: str | Path, procs: int | None = None):
        self.source, self._file = str(source), _opened(source)
        fields = {f.name: f.type for f in self._file.schema_arrow}
        if missing := [k for k in NEEDED if k not in fields]:
            raise InputError(f"{source}: has no column {missing[0]}; columns of a log: {', '.join(NEEDED | OPTIONAL)}")
        for name in [k for k in NEEDED | OPTIONAL if k in fields]:
            if not (pa.types.is_integer(fields[name]) or pa.types.is_floating(fields[name])):
                raise InputError(f"{source}: column {name} is {fields[name]}; numbers are expected")
        about = self._about()
        self.names = [k for k in NEEDED | OPTIONAL if k in fields]
        self.name, self.origin = str(about.get("name", Path(source).stem)), float(about.get("origin", np.nan))
        self.offset, said = float(about.get("offset", 0.0)), about.get("processors")
        if procs is None and not (isinstance(said, int) and said > 0):
            raise InputError(f"{source}: does not say how large the machine is; say it by --procs")
        self.processors = int(procs or said or 0)

    def __len__(self) -> int:
        return self._file.metadata.num_rows

    def _about(self) -> dict:
        try:
            about = json.loads((self._file.schema_arrow.metadata or {}).get(ABOUT, b"{}"))
        except ValueError:
            about = None
        if not isinstance(about, dict):
            raise InputError(f"{self.source}: its metadata of jobwise are damaged; write the log again")
        return about

    def parts(self, rows: int) -> Iterator[dict[str, np.ndarray]]:
        """Yield the checked columns, `rows` rows at a time (the last part may be shorter). Raises InputError with the row."""
        kept: list[dict[str, np.ndarray]] = []
        count = 0
        for part in self._batches(rows):  # they end where row groups end
            kept.append(part)
            count += len(part["submit"])
            if count >= rows:
                joined = {k: np.concatenate([p[k] for p in kept]) for k in part} if len(kept) > 1 else part
                yield {k: v[:rows] for k, v in joined.items()}
                kept, count = ([{k: v[rows:] for k, v in joined.items()}], count - rows) if count > rows else ([], 0)
        if count:
            yield {k: np.concatenate([p[k] for p in kept]) for k in kept[0]}

    def _batches(self, rows: int) -> Iterator[dict[str, np.ndarray]]:
        first, last = 0, 0.0
        try:
            for batch in _opened(self.source).iter_batches(rows, columns=self.names):  # each walk has a file of its own
                if not len(batch):
                    continue
                part = {k: _numbers(self.source, k, batch.column(k), first) for k in self.names}
                part.setdefault("walltime", part["runtime"])
                self._check(part, first, last)
                yield part
                first, last = first + len(batch), float(part["submit"][-1])
        except (pa.ArrowException, OSError) as error:
            raise InputError(f"{self.source}: cannot be read behind row {first:,}: {in_a_line(error, 120)}") from None

    def _check(self, part: dict[str, np.ndarray], first: int, last: float) -> None:
        for name in ("submit", "runtime", "walltime"):
            self._refuse(part[name], ~(np.isfinite(part[name]) & (part[name] >= 0)), first, name, "a finite number >= 0")
        n = part["processors"]
        self._refuse(n, (n < 1) | (n > self.processors), first, "processors", f"1 to {self.processors:,} is expected")
        before = np.append(last, part["submit"][:-1])
        self._refuse(part["submit"], part["submit"] < before, first, "submit", "rows are expected in order of submit")

    def _refuse(self, values: np.ndarray, wrong: np.ndarray, first: int, name: str, text: str) -> None:
        if wrong.any():
            row = int(np.flatnonzero(wrong)[0])
            raise InputError(f"{self.source}: row {first + row:,}: {name} is {values[row]:g}; {text}")


def _opened(source: str | Path) -> pq.ParquetFile:
    try:
        return pq.ParquetFile(source, buffer_size=BUFFER)
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{source}: is no whole Parquet file: {in_a_line(error, 120)}") from None


def _numbers(source: str, name: str, column: Any, first: int) -> np.ndarray:
    """A column as numpy has it. Raises InputError where values are missing, or do not fit."""
    if column.null_count:
        row = first + int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0])
        raise InputError(f"{source}: row {row:,} has no {name}")
    kind = (NEEDED | OPTIONAL)[name]
    try:
        return column.cast(pa.from_numpy_dtype(kind)).to_numpy()
    except pa.ArrowException as error:
        raise InputError(f"{source}: column {name}: {in_a_line(error, 120)}") from None


def read(source: str, procs: int | None = None) -> Workload:
    """Return the whole log. Raises InputError."""
    table = ParquetLog(source, procs)
    parts = list(table.parts(ROWS))
    if not parts:
        raise InputError(f"{source}: holds no job")
    whole = {k: np.concatenate([p[k] for p in parts]) for k in parts[0]}
    own = {k: whole[k] for k in IDENTIFIERS if k in whole}
    machine = pool(table.processors)
    w = workload(
        whole["submit"], whole["processors"], whole["runtime"], whole["walltime"], cluster=machine, name=table.name, **own
    )
    w.truth["fails"] = whole.get("fails", 0)
    more = {"job": whole["job"].astype(float)} if "job" in whole else {}
    more |= {"wait": whole["wait"]} if "wait" in whole else {}
    return replace(w, origin=table.origin + w.offset, offset=table.offset + w.offset, columns=more)


def columns(w: Workload, first: int = 0) -> dict[str, np.ndarray]:
    """Return the columns of a log on a pool; `first`: how many jobs stand before it. Raises InputError for other logs."""
    if not w.cluster.is_pool or w.jobs["request"].shape[1] > 1 or len(w.edges):
        raise InputError(f"{w.name}: a Parquet log has jobs of a pool of processors that wait for no others")
    out = {"submit": w.jobs["submit"], "runtime": w.truth["runtime"], "processors": w.jobs["request"][:, 0]}
    out |= {"walltime": w.jobs["walltime"], "job": w.columns.get("job", np.arange(first + 1, first + len(w) + 1)).astype("i8")}
    out |= {"fails": w.truth["fails"]} | {k: w.jobs[k] for k in IDENTIFIERS}
    return out | ({"wait": w.columns["wait"].astype("f8")} if "wait" in w.columns else {})


def write(path: str, parts: Iterable[dict[str, np.ndarray]], about: dict) -> None:
    """Write columns, part after part (each but the last of ROWS rows); `about`: name, processors, origin, offset."""
    with whole(path) as temporary:
        writer = None
        for part in parts:
            table = pa.table(part)
            if writer is None:
                kept = {k: v for k, v in about.items() if v == v}  # NaN is not JSON's
                schema = table.schema.with_metadata({ABOUT: json.dumps(kept).encode()})
                writer = pq.ParquetWriter(temporary, schema)
            writer.write_table(table.cast(schema), row_group_size=ROWS)
        if writer is not None:
            writer.close()


def write_log(w: Workload, path: str) -> None:
    """Write a log. Raises InputError for one that is not of a pool."""
    about = {"name": w.name, "processors": w.cluster.processors, "origin": w.origin, "offset": w.offset}
    every = columns(w)
    write(path, ({k: v[a : a + ROWS] for k, v in every.items()} for a in range(0, len(w), ROWS)), about)

"""A record as files for other tools: CSV, Parquet, SWF, and the jobs.csv of evalys (Batsim's format)."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from jobwise import metrics
from jobwise.compiled import allocating
from jobwise.errors import InputError
from jobwise.files import whole, write_whole
from jobwise.jobs import STATUS_NAMES
from jobwise.record import Record
from jobwise.workloads.swf import COLUMNS, swf_text

ROWS = 1 << 17  # jobs of a row group of Parquet
IDENTIFIERS = ("user", "group", "app", "queue", "partition", "restarts")


def columns(r: Record) -> dict[str, np.ndarray]:
    """The schedule by column, one value a job: times in s from the first submit."""
    return numbers(r) | {"status": np.array(STATUS_NAMES)[r.jobs["status"]]}


def numbers(r: Record) -> dict[str, np.ndarray]:
    """The columns of the schedule but for the status."""
    out = {"job": r.workload.columns["job"].astype(np.int64) if "job" in r.workload.columns else np.arange(1, len(r.jobs) + 1)}
    for key in ("submit", "start", "end", "walltime"):
        out[key] = r.jobs[key]
    out["runtime"] = r.runtime
    for i, name in enumerate(r.cluster.resources):
        out[name] = r.jobs["request"][:, i]
    for key in IDENTIFIERS:
        out[key] = r.jobs[key]
    out["wait"] = metrics.for_all(r, metrics.wait(r))
    out["bounded_slowdown"] = metrics.for_all(r, metrics.bounded_slowdown(r))
    return out


def _text(table: dict[str, np.ndarray]) -> str:
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(table)
    writer.writerows(zip(*(c.tolist() for c in table.values()), strict=True))
    return file.getvalue()


def _csv(r: Record, path: str) -> None:
    write_whole(path, _text(columns(r)))


def _swf(r: Record, path: str) -> None:
    """The log with the simulated waits in field 3, and what ran in fields 4 and 5."""
    from dataclasses import replace

    from jobwise.workloads.swf import swf_table

    w = r.workload
    table = dict(zip(COLUMNS, swf_table(w).T, strict=True))
    table["wait"], table["run"] = (metrics.for_all(r, x) for x in (metrics.wait(r), metrics.run(r)))
    table["allocated"] = r.jobs["request"][:, 0].astype(float)
    note = f"; Note: waits simulated by jobwise, policy {r.policy}"
    write_whole(path, swf_text(replace(w, columns=table, header=(*w.header, note))))


class Pen:
    """A schedule in Parquet, written record after record: each but the last of ROWS jobs."""

    def __init__(self, path: str | Path):
        self._path = path
        self._file: Any = None

    @classmethod
    @contextmanager
    def to(cls, path: str | Path) -> Iterator[Pen]:
        """Yield a pen; the file takes its name as it is whole. Raises InputError."""
        with whole(path) as temporary:
            pen = cls(temporary)
            try:
                yield pen
            finally:
                if pen._file is not None:
                    pen._file.close()

    def write(self, r: Record) -> None:
        """Write the jobs of a record behind those before."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        status = pa.array(STATUS_NAMES).take(pa.array(r.jobs["status"]))
        table = pa.table(numbers(r) | {"status": status})
        if self._file is None:
            few = [*r.cluster.resources, *IDENTIFIERS, "status"]  # columns of few values
            self._file = pq.ParquetWriter(self._path, table.schema, use_dictionary=few)
        self._file.write_table(table, row_group_size=ROWS)


def _parquet(r: Record, path: str) -> None:
    with Pen.to(path) as pen:
        pen.write(r)


def batsim_metrics(r: Record) -> dict[str, float]:
    """Return the metrics of a schedule by the names of Batsim's schedule.json: times in s; makespan from the first submit."""
    s, done = metrics.summary(r), r.jobs["status"] == STATUS_NAMES.index("done")
    wait, turnaround, slow = metrics.wait(r), metrics.turnaround(r), metrics.slowdown(r)
    span, processors = metrics.makespan(r), r.cluster.processors
    out: dict[str, float] = {
        "nb_computing_machines": processors,
        "nb_jobs": len(r.jobs),
        "nb_jobs_finished": int(metrics.ran(r).sum()),
    }
    out |= {"nb_jobs_success": int(done.sum()), "nb_jobs_killed": int(metrics.ran(r).sum() - done.sum())}
    out |= {"nb_jobs_rejected": len(r.jobs) - int(metrics.ran(r).sum()), "success_rate": float(done.mean())}
    means = {"waiting_time": wait, "turnaround_time": turnaround, "slowdown": slow}
    out |= {f"mean_{k}": float(x.mean()) for k, x in means.items()} | {f"max_{k}": float(x.max()) for k, x in means.items()}
    used = s["processor_hours"] * 3600.0
    return out | {"makespan": span, "time_computing": used, "time_idle": processors * span - used}


def _batsim(r: Record, path: str) -> None:
    write_whole(path, json.dumps(batsim_metrics(r), indent=1) + "\n")


_WRITERS: dict[str, Callable[[Record, str], None]] = {".csv": _csv, ".swf": _swf, ".parquet": _parquet, ".json": _batsim}


def writer(path: str) -> Callable[[Record, str], None]:
    """Return the writer of a file of this name. Raises InputError for an unknown ending."""
    ending = Path(path).suffix
    if ending not in _WRITERS:
        raise InputError(f"{path}: cannot write {ending or 'a file without an ending'}; known: {', '.join(_WRITERS)}")
    return _WRITERS[ending]


def write(r: Record, path: str) -> None:
    """Write the schedule in the format its ending names: .csv, .parquet, .swf; .json: Batsim's metrics of it."""
    writer(path)(r, path)


def write_evalys(r: Record, path: str) -> None:
    """Write the jobs.csv of evalys; processors are numbered lowest first where the simulation did not place."""
    table = columns(r)
    k = metrics.ran(r)
    if r.cluster.topology:
        raise InputError("evalys shows jobs that hold what they ask for, from start to end; on GPU racks they do not")
    owner = assign_processors(r)
    run = metrics.for_all(r, metrics.run(r))
    ids = [_ranges(owner[a:b]) for a, b in zip(begins(r)[:-1], begins(r)[1:], strict=True)]
    out = {
        "job_id": table["job"][k],
        "workload_name": np.full(int(k.sum()), r.workload.name),
        "profile": table["app"][k],
        "submission_time": table["submit"][k],
        "requested_number_of_resources": r.jobs["request"][k, 0],
        "requested_time": table["walltime"][k],
        "success": (r.jobs["status"][k] == STATUS_NAMES.index("done")).astype(int),
        "final_state": np.where(
            r.jobs["status"][k] == STATUS_NAMES.index("done"), "COMPLETED_SUCCESSFULLY", "COMPLETED_FAILED"
        ),
        "starting_time": table["start"][k],
        "execution_time": run[k],
        "finish_time": table["end"][k],
        "waiting_time": table["wait"][k],
        "turnaround_time": table["wait"][k] + run[k],
        "stretch": (table["wait"][k] + run[k]) / np.maximum(run[k], 1e-9),
        "allocated_resources": np.array(ids, dtype=object)[k],
    }
    write_whole(path, _text(out))


def begins(r: Record) -> np.ndarray:
    """Where each job's processors begin in `assign_processors` [J + 1]."""
    return np.concatenate([[0], np.cumsum(np.where(metrics.ran(r), r.jobs["request"][:, 0], 0))])


def _ranges(ids: np.ndarray) -> str:
    """Sorted numbers as evalys writes them: "0-3 7 9-10"."""
    if not len(ids):
        return ""
    cut = np.flatnonzero(np.diff(ids) > 1) + 1
    return " ".join(f"{p[0]}-{p[-1]}" if len(p) > 1 else str(p[0]) for p in np.split(ids, cut))


def assign_processors(r: Record) -> np.ndarray:
    """Processor numbers for all jobs, one after the other (see `begins`): each takes the lowest free at its start."""
    k = np.flatnonzero(metrics.ran(r))
    bounds = begins(r)
    out = np.empty(int(bounds[-1]), np.int64)
    when = np.concatenate([r.jobs["end"][k], r.jobs["start"][k]])
    kind = np.concatenate([np.zeros(len(k), np.int8), np.ones(len(k), np.int8)])
    order = np.lexsort((kind, when))
    _assign(order, len(k), bounds[k], r.jobs["request"][k, 0], np.zeros(r.cluster.processors, np.bool_), out)
    return out


@allocating
def _assign(order, count, first, size, busy, out):
    low = 0  # no processor below is free
    for o in order:
        i = o % count
        if o < count:
            for x in range(first[i], first[i] + size[i]):
                busy[out[x]] = False
                low = min(low, out[x])
            continue
        at = low
        for x in range(first[i], first[i] + size[i]):
            while busy[at] and at < len(busy) - 1:
                at += 1
            busy[at] = True
            out[x] = at
        low = at

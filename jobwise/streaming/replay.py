"""A log in Parquet replayed part after part: memory holds the jobs that wait or run, and the part that comes next.

    parts of the log ─► moving table ─► starts and ends, by row, in a spool on disk
    parts of the log ─► with their starts and ends ─► metrics, rows of the schedule      (as soon as all of a part have ended)

The two lines run side by side, in threads. The schedule is that of `simulate` in memory, to the byte.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from jobwise.cluster import pool
from jobwise.errors import InputError
from jobwise.jobs import DONE, FAILED, blank_jobs, truth_dtype
from jobwise.policies.names import resolve
from jobwise.record import Record
from jobwise.report import export
from jobwise.sim.pool.moving import Moving
from jobwise.streaming.totals import Totals
from jobwise.workload import supposed
from jobwise.workloads.parquet import IDENTIFIERS, ParquetLog

AT_ONCE = 1 << 17  # jobs of a part
Columns = dict[str, np.ndarray]


class Streamed(NamedTuple):
    """The result of a replay: `summary` as `Record.summary`; `most`: jobs in the moving table at once."""

    policy: str
    summary: dict[str, float]
    most: int


class Spool:
    """Starts and ends by row of the log, in a file without a name."""

    def __init__(self, folder: Path | None):
        self._file = tempfile.TemporaryFile(prefix=".jobwise-", dir=folder)  # noqa: SIM115 (`close` ends it)

    def write(self, rows: np.ndarray, times: np.ndarray) -> None:
        """Keep times [K, 2] of these rows [K], which ascend."""
        cuts = np.flatnonzero(np.diff(rows) != 1) + 1
        for at, own in zip(rows[np.append(0, cuts)] if len(rows) else (), np.split(times, cuts), strict=False):
            os.pwrite(self._file.fileno(), own.tobytes(), int(at) * 16)

    def read(self, first: int, count: int) -> np.ndarray:
        """Return the times [count, 2] of rows from `first` on."""
        return np.frombuffer(os.pread(self._file.fileno(), count * 16, first * 16)).reshape(count, 2)

    def close(self) -> None:
        """Give the room on the disk back."""
        self._file.close()


class _Log:
    """The jobs of a table, its first `count`, as a simulation has them: the first submit is at 0."""

    def __init__(self, table: ParquetLog, count: int, kill: bool):
        self.table, self.count, self.kill, self.machine = table, count, kill, pool(table.processors)
        self.first = float(next(self._parts(1))["submit"][0])

    def _parts(self, rows: int) -> Iterator[Columns]:
        left = self.count
        for part in self.table.parts(rows):
            yield {k: v[:left] for k, v in part.items()}
            left -= len(part["submit"])
            if left <= 0:
                return

    def tables(self, rows: int) -> Iterator[tuple[np.ndarray, np.ndarray, Columns]]:
        """Yield (jobs [K], truth [K], columns) of `rows` rows at a time."""
        for part in self._parts(rows):
            jobs, truth = blank_jobs(len(part["submit"])), np.zeros(len(part["submit"]), truth_dtype)
            jobs["submit"], jobs["walltime"] = part["submit"] - self.first, part["walltime"]
            jobs["request"][:, 0] = part["processors"]
            for key in IDENTIFIERS.keys() & part.keys():
                jobs[key] = part[key]
            truth["runtime"], truth["kind"], truth["fails"] = part["runtime"], -1, part.get("fails", 0)
            if self.kill:
                truth["runtime"] = np.minimum(part["runtime"], np.maximum(part["walltime"], 1))
            yield jobs, truth, part


class _Written:
    """The second line: the schedule, part after part of `export.ROWS` jobs, as all of a part have ended."""

    def __init__(self, log: _Log, spool: Spool, pen: export.Pen | None, policy: str):
        self.totals, self._log, self._spool, self._pen, self._policy = Totals(), log, spool, pen, policy
        self._parts, self._at, self._asked = log.tables(export.ROWS), 0, 0

    def _next(self) -> None:
        jobs, truth, part = next(self._parts)
        times = self._spool.read(self._at, len(jobs))
        jobs["start"], jobs["end"] = times.T
        jobs["ran"], jobs["status"] = jobs["end"] - jobs["start"], np.where(truth["fails"], FAILED, DONE)
        numbers = part.get("job", np.arange(self._at + 1, self._at + len(jobs) + 1))
        w = supposed(jobs, truth["runtime"], self._log.machine, columns={"job": numbers}, name=self._log.table.name)
        record = Record(jobs, truth["runtime"], self._log.machine, self._policy, w)
        self.totals.add(record)
        if self._pen is not None:
            self._pen.write(record)
        self._at += len(jobs)

    def upto(self, row: int, threads: ThreadPoolExecutor) -> list[Future]:
        """Let a thread write the parts all of whose jobs are before `row`, which ended."""
        whole_parts = self._log.count if row == self._log.count else row // export.ROWS * export.ROWS
        due = range(self._asked, whole_parts, export.ROWS)
        self._asked = max(self._asked, whole_parts)
        return [threads.submit(self._next) for _ in due]


def simulate(
    table: ParquetLog,
    policy: Any = "fcfs+easy",
    out: str | Path | None = None,
    *,
    jobs: int | None = None,
    kill_at_walltime: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Streamed:
    """Replay a log (its first `jobs`) under a policy that streams, and write its schedule as Parquet to `out`. The disk needs
    16 bytes a job beside it. Raises InputError where the policy does not stream, or the log is wrong."""
    chosen: Any = resolve(policy)
    chosen.check_stream()
    count = min(len(table), jobs or len(table))
    if not count:
        raise InputError(f"{table.source}: holds no job")
    log = _Log(table, count, kill_at_walltime)
    moving, most = Moving(log.machine, table.offset + log.first), 0
    with ExitStack() as stack:
        spool = Spool(Path(out).parent if out else None)
        stack.callback(spool.close)
        pen = stack.enter_context(export.Pen.to(out)) if out else None
        written = _Written(log, spool, pen, chosen.name)
        threads = stack.enter_context(ThreadPoolExecutor(1))
        stack.callback(threads.shutdown, cancel_futures=True)
        asked: list[Future] = []
        for part, after in pairwise(chain(log.tables(AT_ONCE), [None])):
            assert part is not None
            moving.add(part[0], part[1])
            most = max(most, len(moving.rows))
            moving.run(chosen.stream(moving.state), np.inf if after is None else np.nextafter(after[0]["submit"][0], -np.inf))
            spool.write(*moving.take())
            upto = int(moving.rows[0]) if len(moving.rows) else moving.known
            asked += written.upto(upto, threads)
            while asked and asked[0].done():
                asked.pop(0).result()
            if progress:
                progress(moving.known - len(moving.rows), count)
        for future in asked:
            future.result()
        return Streamed(chosen.name, written.totals.summary(moving.area, table.processors), most)

"""Schedulers of other simulators: a program reads a log, and writes when each job starts. What it writes is checked."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import tempfile
import tomllib
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from jobwise.errors import InputError, in_a_line, plain
from jobwise.record import Record
from jobwise.workload import Workload
from jobwise.workloads.later import scheduled
from jobwise.workloads.swf import write_swf

LIMIT_S, MOST_S = 1800.0, 1e6  # of a program, on one log; what may be asked for
KEYS = {"command", "source", "limit_s"}
WORDS = ("{log}", "{processors}", "{out}")


@dataclass(frozen=True)
class Outside:
    """A program that schedules a log by itself.

    `command`: its words; {log}, {processors} and {out} in them stand for the log (SWF), the size of the machine, and the file
    that it writes: a line of job and start (s on the log's clock) for each job. `source`: where it comes from.
    """

    name: str
    command: tuple[str, ...]
    source: str = ""
    limit_s: float = LIMIT_S

    @cached_property
    def key(self) -> str:
        """What is judged: another command, or other files of it, are another scheduler."""
        return " ".join([*self.command, sums([Path(x) for x in self.command])])

    def record(self, w: Workload) -> Record:
        """Let it schedule the jobs of a log, which lies in a folder of its own. Raises InputError where it fails, or no machine
        could do what it writes."""
        with tempfile.TemporaryDirectory(prefix="jobwise-") as name:
            log, out = Path(name) / "log.swf", Path(name) / "starts"
            write_swf(replace(w, columns={}, header=()), log)
            values = dict(zip(WORDS, (str(log), str(w.cluster.processors), str(out)), strict=True))
            self._run([values.get(x, x) for x in self.command])
            if not out.is_file():
                raise InputError(f"{self.name}: it wrote no schedule")
            return scheduled(w, starts(out.read_text(errors="replace"), len(w)), self.name)

    def flattered(self, w: Workload) -> str:
        """Return nothing: what a program has learnt from is not known."""
        return ""

    def _run(self, command: list[str]) -> None:
        """Run the program. Raises InputError where it fails."""
        piped: Any = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        try:
            job = subprocess.Popen(command, text=True, errors="replace", start_new_session=True, **piped)
        except (OSError, ValueError) as error:
            raise InputError(f"{self.name}: {command[0]}: {getattr(error, 'strerror', None) or error}") from None
        try:
            said, _ = job.communicate(timeout=self.limit_s)
        except subprocess.TimeoutExpired:
            raise InputError(f"{self.name}: took longer than {self.limit_s:,.0f} s") from None
        finally:  # whatever it began
            with suppress(ProcessLookupError):
                os.killpg(job.pid, signal.SIGKILL)
            job.wait()
        if job.returncode:
            lines = said.strip().splitlines()
            raise InputError(f"{self.name}: {plain(lines[-1])[:200] if lines else f'exit code {job.returncode}'}")


def sums(paths: Iterable[Path]) -> str:
    """Return a sum of files, of the Python files beside those that are Python, and of those in folders: what a program may be
    made of."""
    paths = [*paths]
    every = {p.resolve() for p in paths if p.is_file()}
    every |= {q.resolve() for p in paths if p.is_dir() for q in p.rglob("*.py")}
    every |= {q.resolve() for p in every if p.suffix == ".py" for q in p.parent.glob("*.py")}
    whole = hashlib.sha256()
    for p in sorted(every):
        whole.update(hashlib.sha256(p.read_bytes()).digest())
    return whole.hexdigest()[:16]


def starts(text: str, count: int) -> np.ndarray:
    """Return the starts [J] of lines "job start"; NaN: none. Other lines are skipped."""
    start = np.full(count, np.nan)
    for line in text.splitlines():
        job, _, when = line.replace(",", " ").strip().partition(" ")
        if len(job) < 12 and job.isascii() and job.isdecimal() and 1 <= int(job) <= count:
            try:
                start[int(job) - 1] = float(when)
            except ValueError:
                continue
    return start


def read_outside(path: str) -> list[Outside]:
    """Read the programs of a TOML file, a table each: command, source, limit_s. Raises InputError."""
    try:
        tables = tomllib.loads(Path(path).read_text())
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: {in_a_line(error)}") from None
    if not tables:
        raise InputError(f"{path}: names no program; a table is expected, such as [mine] with a command")
    return [_program(name, table, Path(path)) for name, table in tables.items()]


def _program(name: str, table: Any, path: Path) -> Outside:
    where = f"{path}: [{name[:40]}]"
    if not isinstance(table, Mapping) or set(table) - KEYS:
        raise InputError(f"{where}: a table of {', '.join(sorted(KEYS))} is expected")
    command, limit = table.get("command"), table.get("limit_s", LIMIT_S)
    if not isinstance(command, list) or not command or not all(isinstance(x, str) for x in command):
        raise InputError(f"{where}: command is a list of words")
    if missing := [x for x in ("{log}", "{out}") if x not in command]:
        raise InputError(f"{where}: {' and '.join(missing)} is not among the words of its command")
    if not isinstance(limit, int | float) or isinstance(limit, bool) or not 0 < limit <= MOST_S:
        raise InputError(f"{where}: limit_s is a number of seconds, up to {MOST_S:,.0f}")
    beside = path.resolve().parent  # files of the command lie beside this one
    words = [str(beside / x) if x.startswith("./") or (x.endswith(".py") and (beside / x).is_file()) else x for x in command]
    return Outside(" ".join(plain(name).split())[:60], tuple(words), str(table.get("source", "")), float(limit))

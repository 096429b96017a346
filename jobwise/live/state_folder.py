"""The state folder of a cluster that is steered, and how everything is given back."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from jobwise.errors import InputError
from jobwise.files import lock, write_whole, writing
from jobwise.slurm.client import Slurm

AUDIT = "audit.jsonl"


def append(folder: Path, kind: str, *lines: dict[str, Any], **more: Any) -> bool:
    """Add a line to the audit log of a state folder, or several of one kind; False, and none is added, where it cannot be
    written."""
    head = {"time": round(time.time(), 3), "what": kind}
    text = "".join(json.dumps(head | x | more) + "\n" for x in lines or ({},)).encode()
    try:
        with open(folder / AUDIT, "ab", buffering=0) as log:
            size = log.tell()
            try:
                whole = log.write(text) == len(text)
                os.fsync(log.fileno())
            except OSError:
                whole = False
            if not whole:  # the disk is full: no half lines
                log.truncate(size)
    except OSError:
        return False
    return whole


def read_limits(folder: Path) -> dict[int, int]:
    """The own time limits (min) of the jobs that are tried, of a state folder. Raises InputError where they are damaged."""
    return _by_job(folder / "tried.json", int, "the own time limits of jobs that are tried")


def _by_job(file: Path, kind: Callable[[Any], Any], holds: str) -> dict[int, Any]:
    if not file.is_file():
        return {}
    try:
        return {int(k): kind(v) for k, v in json.loads(file.read_text()).items()}
    except (ValueError, AttributeError, TypeError):
        raise InputError(f"{file}: is damaged; it should hold {holds}") from None


class StateFolder:
    """The state folder of one cluster: what there was before the first write, and the audit log; one process at a time. Raises
    InputError where another is at work."""

    def __init__(self, folder: Path):
        self.folder, self._asked = folder, False
        with writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
        self._lock = lock(folder / "lock", f"{folder}: another process steers this cluster")
        try:
            self.before: dict[int, int] = self._read("before", int, "the site factor that each job had before")
            self.placed: dict[int, str] = self._read("placed", str, "the nodes that jobs were given")
            self.tried: dict[int, int] = read_limits(folder)
        except InputError:
            self._lock.close()
            raise

    def _read(self, name: str, kind: Callable[[Any], Any], holds: str) -> dict[int, Any]:
        return _by_job(self.folder / f"{name}.json", kind, holds)

    def keep(self, factors: dict[int, int]) -> None:
        """Remember the factors of jobs before their first change: they are on disk before Slurm is changed."""
        new = {id: x for id, x in factors.items() if id not in self.before}
        if new:
            self.before |= new
            self._save("before", self.before)

    def forget(self, gone: set[int]) -> None:
        """These jobs are as they were, or there no more."""
        if gone & set(self.before):
            self.before = {id: x for id, x in self.before.items() if id not in gone}
            self._save("before", self.before)

    def keep_placed(self, placed: dict[int, str]) -> None:
        """Remember which jobs have been given which nodes."""
        if placed != self.placed:
            self.placed = placed
            self._save("placed", placed)

    def keep_tried(self, own: dict[int, int]) -> None:
        """Remember the own limits (min) of jobs that are tried: they are on disk before Slurm is changed."""
        if own != self.tried:
            self.tried = own
            self._save("tried", own)

    def _save(self, name: str, known: dict[int, Any]) -> None:
        file = self.folder / f"{name}.json"
        try:
            write_whole(file, json.dumps({str(k): v for k, v in known.items()}) + "\n")
        except OSError as error:
            raise InputError(f"{file}: cannot be written: {error.strerror}") from None

    def note(self, kind: str, *lines: dict[str, Any], **more: Any) -> bool:
        """Add a line to the audit log, or several of one kind; False, and none is added, where it cannot be written."""
        return append(self.folder, kind, *lines, **more)

    @property
    def audit(self) -> Path:
        """The file of the audit log."""
        return self.folder / AUDIT

    def stop(self) -> None:
        """Ask the steering process to restore all factors and end, by the file `stop`."""
        self._asked = True
        self.note("stop", why="asked for on the page")
        with suppress(OSError):  # the disk is full
            (self.folder / "stop").touch()

    @property
    def stopped(self) -> bool:
        """Return whether the folder holds the file `stop`."""
        return self._asked or (self.folder / "stop").exists()

    def close(self) -> None:
        """Let others steer the cluster."""
        self._lock.close()


def undo(slurm: Slurm, state: StateFolder, reason: str) -> int:
    """Restore the earlier site factor of every changed job. Return their number. Jobs that sprio does not list (held, or put
    back into the queue later) are restored, too; Slurm refuses ended jobs. Raises SlurmError where Slurm does not answer."""
    if not state.before:
        return 0
    present = slurm.priorities()
    change = {id: x for id, x in state.before.items() if id not in present or present[id][1] != x}
    lines = [{"job": id, "old": present.get(id, (0, None))[1], "new": x, "why": f"undo: {reason}"} for id, x in change.items()]
    if lines:
        state.note("write", *lines)
    if change and (complaint := slurm.set_site_factors(change)):
        state.note("refused", complaint=complaint)
    left = {id for id, x in slurm.priorities().items() if id in state.before and x[1] != state.before[id]}
    state.forget(set(state.before) - left)
    return len(change)

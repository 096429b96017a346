"""Learning on beside a cluster: a round of `live/retrain.py` in a process of its own, every so long; who ranks then."""

from __future__ import annotations

import multiprocessing
import os
import time
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from jobwise.errors import InputError, plain
from jobwise.files import write_whole
from jobwise.live.cycle import Sink, Turn
from jobwise.live.retrain import Learnt, retrain, serving
from jobwise.live.sources import Now
from jobwise.live.view import ended_on_pool
from jobwise.workload import Workload

LOWEST = 19  # priority of a process
NEVER = float("inf")
FAILED = "failed.txt"  # in the folder: why a round failed


@dataclass
class Learning(Sink):
    """The policy that ranks the queue: a generation in the folder `learnt` of a state folder, or `base` (`name`: as it was
    asked for). `every` s a round begins; NEVER: `base` always ranks, and generations are ignored."""

    state: Path
    base: Any
    name: str
    every: float
    policy: Any = None
    _process: BaseProcess | None = None
    _begun: float = field(default_factory=time.time)  # no round begins at once where there was none: there is work to do first
    _tried: float = 0.0  # when the last round began
    _known: float = -1.0
    title = "learning"

    def __post_init__(self):
        self.folder = Path(self.state) / "learnt"
        self.policy = self.base
        self.look()  # what was learnt before

    def take(self, turn: Turn) -> None:
        """Say who ranks from the next look on, where that has changed."""
        if news := self.look(turn.now):
            turn.follows, turn.news = self.policy, news

    def look(self, c: Now | None = None) -> str:
        """Use what a round has brought; begin one on the jobs of a cluster that have ended, where one is due. Returns what
        happened, in words, "" where nothing did. A round that fails changes nothing."""
        if self.every == NEVER:
            return ""
        happened = self._ended() if self._process else ""
        try:
            file = self.folder / "model.json"
            changed = file.stat().st_mtime if file.is_file() else 0.0
            if changed != self._known:
                self._known, before = changed, self.policy.name
                self.policy = serving(self.folder, self.name) or self.base
                if self.policy.name != before:
                    happened = f"{self.policy.name} ranks from now on"
        except (InputError, OSError) as error:
            happened = f"{self.policy.name} goes on: {error}"
        due = time.time() - (max(self._last(), self._tried) or self._begun) >= self.every
        if c is not None and self._process is None and due:
            self._tried = time.time()
            try:
                self._begin(ended_on_pool(c))
            except (InputError, OSError) as error:
                happened = f"{self.policy.name} goes on, nothing is learnt: {error}"
        return happened

    def _last(self) -> float:
        """Return the end of the last round, s since 1970."""
        with suppress(InputError):
            if rounds := Learnt.of(self.folder).rounds:
                return rounds[-1].time
        return 0.0

    def _begin(self, w: Workload) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / FAILED).unlink(missing_ok=True)
        process = multiprocessing.get_context("spawn").Process(target=_round, args=(self.folder, w, self.name), daemon=True)
        process.start()
        self._process = process

    def _ended(self) -> str:
        """Has the round ended? "" where it went well, or goes on."""
        process = self._process
        if process is None or process.is_alive():
            return ""
        self._process, file = None, self.folder / FAILED
        if process.exitcode == 0:
            return ""
        why = plain(file.read_text())[:200] if file.is_file() else f"exit code {process.exitcode}"
        return f"{self.policy.name} goes on, nothing is learnt: {why}"

    def close(self) -> None:
        """End a round that has not ended; it changes nothing then."""
        if self._process and self._process.is_alive():
            self._process.terminate()
            self._process.join(30)
            if self._process.is_alive():
                self._process.kill()
                self._process.join()


def _round(folder: Path, w: Workload, policy: str) -> None:
    """Do a round, at the lowest priority; why it failed is in the file FAILED."""
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, LOWEST)
    try:
        retrain(folder, w, policy)
    except Exception as error:  # whatever a training raises
        write_whole(folder / FAILED, f"{error}" if isinstance(error, InputError) else f"{type(error).__name__}: {error}")
        raise SystemExit(1) from None

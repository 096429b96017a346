"""Learning on beside a cluster: `jobwise slurm retrain` in a process of its own, every so long; who ranks then."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from jobwise.errors import InputError, plain
from jobwise.slurm.retrain import Learnt, serving

LOWEST = 19  # priority of a process
NEVER = float("inf")


@dataclass
class Learning:
    """The policy that ranks the queue: a generation in the folder `learnt` of a state folder, or `rule` (`name`: as it was
    asked for). `every` s a round begins; NEVER: the rule ranks, whatever is there."""

    state: Path
    rule: Any
    name: str
    every: float
    policy: Any = None
    _process: subprocess.Popen | None = None
    _said: IO[str] | None = None
    _begun: float = field(default_factory=time.time)  # no round begins at once where there was none: there is work to do first
    _tried: float = 0.0  # when the last round began
    _known: float = -1.0

    def __post_init__(self):
        self.folder = Path(self.state) / "learnt"
        self.policy = self.rule
        self.look()  # what was learnt before

    def look(self) -> str:
        """Begin a round where one is due, use what one has brought; what happened, in words, "" where nothing did. A round that
        fails changes nothing."""
        if self.every == NEVER:
            return ""
        happened = self._ended() if self._process else ""
        try:
            file = self.folder / "model.json"
            changed = file.stat().st_mtime if file.is_file() else 0.0
            if changed != self._known:
                self._known, before = changed, self.policy.name
                self.policy = serving(self.folder) or self.rule
                if self.policy.name != before:
                    happened = f"{self.policy.name} ranks from now on"
        except (InputError, OSError) as error:
            happened = f"{self.policy.name} goes on: {error}"
        if self._process is None and time.time() - (max(self._last(), self._tried) or self._begun) >= self.every:
            try:
                self._begin()
            except OSError as error:
                happened = f"{self.policy.name} goes on, no new trees: {error.strerror}"
        return happened

    def _last(self) -> float:
        """When the last round ended, s since 1970."""
        with suppress(InputError):
            if rounds := Learnt.of(self.folder).rounds:
                return rounds[-1].time
        return 0.0

    def _begin(self) -> None:
        words = [sys.executable, "-m", "jobwise.cli", "slurm", "retrain", "--state", str(self.state), "-p", self.name]
        self._tried, self._said = time.time(), tempfile.TemporaryFile("w+")  # noqa: SIM115
        self._process = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=self._said, start_new_session=True
        )
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, self._process.pid, LOWEST)

    def _ended(self) -> str:
        """Has the round ended? "" where it went well, or goes on."""
        if self._process is None or self._said is None or self._process.poll() is None:
            return ""
        code, self._process = self._process.returncode, None
        self._said.seek(0)
        lines = self._said.read().strip().splitlines() or [f"exit code {code}"]
        self._said.close()
        return "" if code == 0 else f"{self.policy.name} goes on, no new trees: {plain(lines[-1])[:200]}"

    def close(self) -> None:
        """End a round that has not ended; it changes nothing then."""
        if self._process and self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(30)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        if self._said:
            self._said.close()

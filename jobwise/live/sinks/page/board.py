"""The present content of the page: filled by the cycles of one thread, read by the server in another."""

from __future__ import annotations

import asyncio
import json
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jobwise.live.cycle import Sink, Turn
from jobwise.live.shadow import Shadow
from jobwise.live.sinks.page.state import State, Steering, state_of
from jobwise.live.sinks.page.veil import Veil
from jobwise.live.starts import Predicted
from jobwise.live.steer import SteerSettings

PATIENCE_S = 5.0  # that a question about one job waits for another to be answered
READ_BYTES = 1 << 20  # of the end of the audit log


class Busy(Exception):
    """Another question is being answered."""


@dataclass
class Board:
    """The last state. `stop` ends the steering (None: nothing is steered); `audit`: its log."""

    stop: Callable[[], None] | None = None
    audit: Path | None = None
    state: State | None = None
    veiled: State | None = None  # as a private page shows it
    problem: str = ""  # why there is no state yet
    over: bool = False
    _asking: tuple[Predicted | None, dict[int, list[dict]]] = (None, {})  # the last predictions, and answers out of them
    _veil: Veil = field(default_factory=Veil)
    _version: int = 0
    _loop: asyncio.AbstractEventLoop | None = None
    _news: asyncio.Event = field(default_factory=asyncio.Event)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def publish(self, state: State, predicted: Predicted) -> None:
        """Show a state, and answer questions about its jobs out of these predictions."""
        self._asking, self.state, self.problem = (predicted, {}), state, ""
        self.veiled = self._veil(state)
        self._tell()

    def failed(self, problem: str, answers: bool = False) -> None:
        """Show that a cycle failed; all else stays. `answers`: it was not Slurm that failed."""
        self.problem = problem
        if self.state and self.veiled:
            now = {"answers": answers, "problem": problem}
            self.state, self.veiled = self.state.model_copy(update=now), self.veiled.model_copy(update=now)
            self._tell()

    def close(self) -> None:
        """Release all threads that wait for news; no more news comes."""
        self.over = True
        self._tell()

    def _tell(self) -> None:
        self._version += 1
        if self._loop and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        news, self._news = self._news, asyncio.Event()
        news.set()

    async def news(self, after: int, timeout: float) -> int:
        """Return the version of the state as soon as it is not `after`, at the latest after `timeout` s."""
        self._loop = asyncio.get_running_loop()
        news = self._news
        if self._version == after and not self.over:
            with suppress(TimeoutError):
                await asyncio.wait_for(news.wait(), timeout)
        return self._version

    def sooner(self, job: int) -> list[dict]:
        """Find what would start a waiting job sooner (`Offer.to_dict`), once a cycle. Raises Busy where others ask, too, and
        KeyError where the job does not wait."""
        p, answers = self._asking
        if p is None or job not in p.cluster.waiting:
            raise KeyError(job)
        if not self._lock.acquire(timeout=PATIENCE_S):
            raise Busy
        try:
            if job not in answers:
                answers[job] = [o.to_dict() for o in p.sooner(job) if o.worth_telling]
            return answers[job]
        finally:
            self._lock.release()

    def audited(self, count: int) -> list[dict[str, Any]]:
        """Return the last lines of the audit log, the last first."""
        if self.audit is None or not self.audit.is_file():
            return []
        with open(self.audit, "rb") as file:
            file.seek(0, 2)
            file.seek(max(file.tell() - READ_BYTES, 0))
            lines = deque(file.read().decode(errors="replace").splitlines(), count)
        out = []
        for line in reversed(lines):
            try:
                out.append(json.loads(line))
            except ValueError:  # it is being written, or cut at the front
                continue
        return out


@dataclass
class Shown(Sink):
    """Show each look on a board, with the predictions of an earlier shadow; `settings` of steering, where it is on."""

    board: Board
    shadow: Shadow
    settings: SteerSettings | None = None
    title = "the page"

    def take(self, turn: Turn) -> None:
        """Show the look on the board."""
        if p := turn.predicted:
            own = self.settings
            steering = Steering(span=own.span, dry=own.dry, changed=turn.changed) if own else None
            self.board.publish(state_of(turn, p, self.shadow, steering), p)

    def failed(self, problem: str, looked: bool) -> None:
        """Show that it failed; all else stays."""
        self.board.failed(f"the page could not be filled: {problem}" if looked else problem, looked)

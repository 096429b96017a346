"""Notices: a message to those who asked for it, when a job is about to start, or the queue has become long.

A file says who is sent what, for addresses hold passwords. Messages go by apprise (mail, chats, web hooks). A job is announced
once, a long queue once until it is short again, and nobody is sent more than MOST messages of one look.
"""

from __future__ import annotations

import stat
import tomllib
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from jobwise.errors import InputError, in_a_line, library, shown
from jobwise.live.cycle import Sink, Turn
from jobwise.workloads.durations import seconds_of

MOST = 20  # messages of one look to one address
KEYS = ("to", "user", "starts_within", "median_wait")
Send = Callable[[str, str, str], None]  # (address, title, text)


@dataclass(frozen=True)
class Notice:
    """A wish: a message `to` an address, of the jobs of `user` that start within `within` s, or of a queue whose jobs have
    waited for more than `median` s in the median; 0: not that."""

    to: str
    user: str
    within: float
    median: float


def read_notices(path: str) -> list[Notice]:
    """Read the wishes of a file (TOML). Raises InputError: file, what, and what would be right; also where others may read
    it."""
    file = Path(path)
    try:
        if file.stat().st_mode & (stat.S_IRGRP | stat.S_IROTH):
            raise InputError(f"{path}: others may read it, and addresses hold passwords: chmod 600 {path}")
        tables = tomllib.loads(file.read_text()).get("notice", [])
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: {in_a_line(error)}") from None
    if not isinstance(tables, list) or not tables:
        raise InputError(f"{path}: a table [[notice]] for each wish is expected")
    return [_notice(x, f"{path}: notice {k}") for k, x in enumerate(tables, 1)]


def _notice(x: Any, where: str) -> Notice:
    if not isinstance(x, dict) or (wrong := [k for k in x if k not in KEYS]):
        raise InputError(f"{where}: {shown(wrong) if isinstance(x, dict) else 'no table'}: {', '.join(KEYS)} are known")
    texts = {k: x.get(k, "") for k in KEYS}
    if not all(isinstance(v, str) for v in texts.values()) or not texts["to"]:
        raise InputError(f'{where}: texts are expected, and an address: to = "json://localhost:8080"')
    within, median = (_time(texts[k], f"{where}: {k}") for k in ("starts_within", "median_wait"))
    if bool(within) == bool(median):
        raise InputError(f"{where}: starts_within of a user's jobs, or median_wait of the queue: one of them")
    if within and not texts["user"]:
        raise InputError(f"{where}: starts_within is of the jobs of a user: name the user")
    return Notice(texts["to"], texts["user"], within, median)


def _time(text: str, where: str) -> float:
    """s of "10m", "6h"; 0 for nothing."""
    if not text:
        return 0.0
    try:
        value = seconds_of(text)
    except ValueError:
        value = 0.0
    if value <= 0:
        raise InputError(f"{where} is {text[:20]!r}; a time such as 10m or 6h is expected")
    return value


def by_apprise(address: str, title: str, text: str) -> None:
    """Send a message. Raises InputError where the address is none, or nobody takes it; the address is not repeated: it may
    hold a password."""
    apprise = library("apprise", "notify")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of modules that its services import
        messenger = apprise.Apprise()
        if not messenger.add(address):
            raise InputError(f"a notice: {address.partition(':')[0]}: no address that apprise knows")
        if not messenger.notify(title=title, body=text):
            raise InputError(f"a notice: {address.partition(':')[0]}: the message was not taken")


class Notices(Sink):
    """Sends what was wished for."""

    title = "notices"

    def __init__(self, notices: Sequence[Notice], send: Send = by_apprise):
        self.notices, self._send = list(notices), send
        self._sent: set[tuple[int, int]] = set()  # (wish, job)
        self._long: set[int] = set()  # wishes whose queue is long

    def take(self, turn: Turn) -> None:
        """Send the messages of a look. Raises InputError where one was not taken."""
        rows = turn.predicted.rows() if turn.predicted else []
        waited = [x["waited"] for x in rows]
        problems: list[str] = []
        for k, wish in enumerate(self.notices):
            texts = self._starts(k, wish, rows) if wish.within else self._queue(k, wish, waited)
            if len(texts) > MOST:
                texts = [*texts[: MOST - 1], f"and {len(texts) - MOST + 1:,} more jobs"]
            for text in texts:
                try:
                    self._send(wish.to, "jobwise", text)
                except InputError as error:
                    problems.append(str(error))
        if problems:
            raise InputError(problems[0])

    def _starts(self, k: int, wish: Notice, rows: list[dict]) -> list[str]:
        texts = []
        for x in rows:
            if x["user"] == wish.user and x["start"] <= wish.within and (k, x["job"]) not in self._sent:
                self._sent.add((k, x["job"]))
                low, high = (f"{s / 60:.0f}" for s in x["start_80"])
                texts.append(f"job {x['job']} starts within {wish.within / 60:.0f} minutes (80 %: in {low} to {high} minutes)")
        return texts

    def _queue(self, k: int, wish: Notice, waited: list[float]) -> list[str]:
        median = float(np.median(waited)) if waited else 0.0
        if median <= wish.median:
            self._long.discard(k)
            return []
        if k in self._long:
            return []
        self._long.add(k)
        return [
            f"the queue's median wait passed {wish.median / 3600:.3g} h: {len(waited):,} jobs wait, "
            f"{median / 3600:.1f} h in the median"
        ]

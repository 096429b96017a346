"""How far the work of a command is: on a terminal a line that counts, elsewhere a line every few seconds."""

from __future__ import annotations

import os
import sys
import time
from contextlib import contextmanager
from threading import Event, Thread, Timer

from jobwise.listeners import LISTENERS


class Rest:
    """How long the rest of some work takes, if it goes on as it did since it began; a count that falls, or another total, is
    other work."""

    LEAST_S = 4.0  # work is watched for so long before anything is said
    LAST_S = 2.0  # what is left at the end is not what was measured: closing files, the slowest worker

    def __init__(self, now: float):
        self.begun, self.done, self.total, self.first = now, 0, 0, 0

    def __call__(self, now: float, done: int, total: int) -> str:
        """Return the time that is left in words; "" where it is not known."""
        if done < self.done or total != self.total:
            self.begun, self.first = now, done
        self.done, self.total = done, total
        took, new = now - self.begun, done - self.first
        if not total or new <= 0 or took < self.LEAST_S:
            return ""
        left = (total - done) * took / new
        return _time(left) if left >= self.LAST_S else ""


def _time(seconds: float) -> str:
    """A time in words: seconds, minutes, hours."""
    return f"{seconds / 3600:.1f} h" if seconds >= 7200 else f"{seconds / 60:.0f} min" if seconds >= 90 else f"{seconds:.0f} s"


def _count(done: int, total: int, share: bool) -> str:
    """How far work is, in words: a share, a count, or where no total is known the number alone."""
    if not total:
        return f"{done:,} done" if done else ""
    return f"{done / total:.1%}" if share else f"{done:,} of {total:,}"


class Lines:
    """Progress where standard error is no terminal: a line every EVERY_S seconds."""

    EVERY_S = 4.0
    last = -EVERY_S  # when the last line of any work was printed: work that follows at once is not silent for longer

    def __init__(self, what: str, share: bool = False):
        now = time.monotonic()
        self.what, self.share, self.text, self._rest, self._over = what, share, "", Rest(now), Event()
        self._said = Lines.last if now - Lines.last < self.EVERY_S else now
        self._thread = Thread(target=self._run, args=(now,), daemon=True)
        self._thread.start()

    def __call__(self, done: int, total: int, text: str = "") -> None:
        """Tell how far the work is."""
        left = self._rest(time.monotonic(), done, total)
        how_far = f"{text} {_count(done, total, self.share)}" + f", about {left} left" * bool(left)
        self.text = how_far + "," * bool(total)

    def compiling(self, text: str) -> None:
        """Show that functions are being compiled, and how many were."""
        self.text = f"{text};"

    def said(self) -> None:
        """Something else has been printed: the next line can wait."""
        self._said = Lines.last = time.monotonic()

    def stop(self) -> None:
        """Stop printing lines of progress."""
        self._over.set()
        self._thread.join()

    def _run(self, begun: float) -> None:
        while not self._over.wait(0.5):
            if time.monotonic() - self._said >= self.EVERY_S:
                self.said()
                text = " ".join(f"jobwise: {self.what}: {self.text} {self._said - begun:.0f} s".split())
                print(text, file=sys.stderr, flush=True)


class Bar:
    """Progress on a terminal: one line, shown once the work has taken a second, that goes on counting seconds."""

    def __init__(self, bar, what: str, share: bool = False):
        self._bar, self._what, self._task, self._share = bar, what, bar.add_task(what, total=None, visible=False), share
        self._timer = Timer(1.0, lambda: bar.update(self._task, visible=True))
        self._timer.daemon = True
        self._timer.start()

    def __call__(self, done: int, total: int, text: str = "") -> None:
        """Show how far the work is."""
        description = " ".join(f"{self._what} {_count(done, total, self._share)} {text}".split())
        self._bar.update(self._task, completed=done, total=total or None, description=description)

    def compiling(self, text: str) -> None:
        """Show that functions are being compiled, and how many were."""
        self._bar.update(self._task, description=f"{self._what}: {text}", visible=True)

    def said(self) -> None:
        """Do nothing: rich prints other output above the line of progress."""

    def stop(self) -> None:
        """Stop the timer that shows the line of progress late."""
        self._timer.cancel()


@contextmanager
def progress(what: str, share: bool = False):
    """Yield a function (done, total, text) that shows how far the work is: on a terminal in one line that counts, elsewhere in
    a line every few seconds; `share`: in per cent, not as a count. It also says what is compiled on the way. None is yielded
    where JOBWISE_ANNOUNCE is 0."""
    if os.environ.get("JOBWISE_ANNOUNCE", "1") in ("", "0"):
        yield None
        return
    if not sys.stderr.isatty():
        lines = Lines(what, share)
        with _telling(lines, LISTENERS):
            yield lines
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.table import Column
    from rich.text import Text

    class Left(TimeRemainingColumn):
        """The time that is left, shown once it can be estimated."""

        def render(self, task):
            return Text("") if task.total is None or task.time_remaining is None else super().render(task) + Text(" left")

    console = Console(stderr=True)
    narrow = console.width < 110
    column = Column(no_wrap=True, overflow="ellipsis", max_width=console.width - 24 if narrow else 76)
    columns: list[ProgressColumn] = [TextColumn("{task.description}", markup=False, table_column=column)] + [BarColumn(20)] * (
        not narrow
    )
    columns += [TimeElapsedColumn(), Left()]
    with Progress(*columns, console=console, transient=True, disable=False) as bar:
        shown = Bar(bar, what, share)
        with _telling(shown, LISTENERS):
            yield shown


@contextmanager
def _telling(shown: Lines | Bar, listeners: list):
    """Tell it what is compiled, and stop it at the end."""
    listeners.append(shown.compiling)
    try:
        yield
    finally:
        listeners.remove(shown.compiling)
        shown.stop()

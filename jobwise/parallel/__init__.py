"""Workers for many tasks: local threads or processes, Ray, or any `concurrent.futures.Executor`.

    with jobwise.workers("processes", 8):
        jobwise.compare(log, ["sjf+easy", "jobwise"])

Functions with many tasks give them to the `current` workers; each task has a seed of its own, so that results do not depend on
the places or the order of tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager

from jobwise.errors import InputError
from jobwise.parallel.local import Processes, Threads
from jobwise.parallel.on_ray import Ray
from jobwise.parallel.tasks import Shared, Workers

__all__ = ["Shared", "Workers", "current", "threads", "workers"]
ENGINES: dict[str, Callable[[str, int], Workers]] = {"threads": Threads, "processes": Processes, "ray": Ray}
ADDRESSED = ("ray",)  # an address may stand behind the name
_asked: list[tuple[int, Workers | None]] = []  # innermost last: how many at once, and which (None: what suits the tasks)


@contextmanager
def workers(on: str | Executor | None = None, count: int = 2) -> Iterator[Workers | None]:
    """Give the tasks of all functions within to workers.

    Parameters
    ----------
    on : str or Executor, optional
        ``threads``, ``processes``, ``ray``, ``ray://HOST:PORT``, or an executor of another library; by default what suits the
        tasks.
    count : int
        How many workers.

    Yields
    ------
    Workers or None

    Raises
    ------
    InputError
        There are no such workers here.

    Examples
    --------
    >>> import jobwise as jw
    >>> with jw.workers("threads", 2):
    ...     c = jw.compare(jw.lublin(jobs=400, procs=64, load=0.9, seed=1), ["fcfs+easy", "sjf+easy"])
    >>> c.policies
    ['fcfs+easy', 'sjf+easy']
    """
    if count < 1:
        raise InputError(f"{count} workers: one at least")
    mine = None if on is None else Workers(on, count) if isinstance(on, Executor) else _begun(on, count)
    _asked.append((count, mine))
    try:
        yield mine
    finally:
        _asked.pop()
        if mine is not None:
            mine.close()


@contextmanager
def current(count: int = 2, suited: str = "threads") -> Iterator[Workers]:
    """Yield the workers of the innermost `workers`; without one, `count` workers of the engine `suited` to the tasks."""
    asked, mine = _asked[-1] if _asked else (count, None)
    if mine is not None:
        yield mine
        return
    own = _begun(suited, asked)
    try:
        yield own
    finally:
        own.close()


@contextmanager
def threads(count: int) -> Iterator[Workers]:
    """Yield `count` threads of this process in place of the current workers: for tasks that change its memory."""
    own = Threads("threads", count)
    try:
        yield own
    finally:
        own.close()


def _begun(on: str, count: int) -> Workers:
    """New workers of an engine. Raises InputError for a name that none has."""
    name, _, address = on.partition(":")
    if name not in ENGINES or (address and name not in ADDRESSED):
        raise InputError(f"--executor {on}: known are {', '.join(ENGINES)} and ray://HOST:PORT")
    return ENGINES[name](on, count)

"""Where many tasks run: local threads or processes, Ray, or any `concurrent.futures.Executor`. No other file knows Ray.

    with jobwise.workers("processes", 8):
        jobwise.compare(log, ["sjf+easy", "jobwise"])

Every function with many tasks asks for the workers `at_hand`, and gives each task its number's own seed: results do not depend
on where, or in which order, tasks run. A task runs again where its worker is lost.
"""

from __future__ import annotations

import os
import pickle
import sys
import tempfile
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import BrokenExecutor, Executor, Future, ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

from jobwise.errors import InputError, in_a_line, library

LOST = 3  # times in a row that workers may be lost before one task is done
RECENT = 32  # values that stay stored when no task holds them
RETRIES = 20  # of a task whose worker is lost
ANSWER_S = 10  # s in which a Ray cluster must answer
BEGIN_S = 120  # s in which one of its workers must have begun
_busy = threading.local()  # .task: this thread runs a task
_hired: list[Workers] = []


class Held:
    """A value that tasks share: put once, read by `get` where a task runs."""

    def __init__(self, value: Any):
        self._value = value

    def get(self) -> Any:
        """Return the value, read where a task runs."""
        return self._value


class Workers:
    """Workers of some kind: `map` gives them tasks. `count`: how many there are."""

    here = False  # they are threads of this process

    def __init__(self, executor: Executor, count: int):
        self.executor, self.count = executor, count
        self._stopped = False

    def map(self, work: Callable, items: Iterable, done: Callable[[int], None] | None = None, compiled: bool = True) -> list:
        """[work(item) of every item], in order; `done(1)` is called as each is done. The first error, and Ctrl-C, stop the
        rest. `compiled`: False where tasks are Python, which threads would only do by turns."""
        return list(self.each(work, items, done, compiled))

    def each(
        self, work: Callable, items: Iterable, done: Callable[[int], None] | None = None, compiled: bool = True
    ) -> Iterator[Any]:
        """The results of `map`, in order, as soon as they are there."""
        todo, results, following, lost = dict(enumerate(items)), dict[int, Any](), 0, 0
        count = done or (lambda count: None)
        if getattr(_busy, "task", False) or (self.here and (self.count == 1 or not compiled)):
            for x in todo.values():  # a task within a task would wait for a worker for ever
                result = work(x)
                count(1)
                yield result
            return
        while todo:
            before = len(todo)
            try:
                for i, result in self._round(work, todo):
                    results[i] = result
                    count(1)
                    while following in results:
                        yield results.pop(following)
                        following += 1
            except BrokenExecutor:
                lost = lost + 1 if len(todo) == before else 1
                if lost >= LOST:
                    text = f"{LOST} times workers were killed before a task was done: is there memory for so many?"
                    raise InputError(text) from None

    def _round(self, work: Callable, todo: dict[int, Any]) -> Iterator[tuple[int, Any]]:
        """(number, result) of tasks as they end, which leave `todo`."""
        futures: dict[Future, int] = {}
        if self._stopped:
            self.renew()
            self._stopped = False
        try:
            for i, x in todo.items():
                futures[self.executor.submit(_task, work, x)] = i
            for future in as_completed(futures):
                result = self.result(future)
                del todo[futures[future]]
                yield futures[future], result
        except BaseException:
            self._stopped = True
            self.stop(futures)
            raise

    def result(self, future: Future) -> Any:
        """Return the result of a task that has ended, or raise its error."""
        return future.result()

    def put(self, value: Any) -> Held:
        """Return the value as tasks may hold it: here every task carries it along."""
        return Held(value)

    def renew(self) -> None:
        """Have workers again after `stop`: here another program looks after them."""

    def stop(self, futures: Iterable[Future]) -> None:
        """Let these tasks not begin, and stop those that run, where that can be done."""
        for future in futures:
            future.cancel()

    def close(self) -> None:
        """Send the workers away, for good."""


class _Storing(Workers):
    """Workers elsewhere: a value that tasks share is stored once, as long as a task holds it, and a while longer."""

    def __init__(self, executor: Executor, count: int):
        super().__init__(executor, count)
        self._held = weakref.WeakValueDictionary[int, Held]()
        self._recent: deque[Held] = deque(maxlen=RECENT)

    def put(self, value: Any) -> Held:
        held = self._held.get(id(value))
        if held is None:
            held = self._held[id(value)] = self.hold(value)
            self._recent.append(held)
        return held

    def hold(self, value: Any) -> Held:
        """Store a value for all workers."""
        raise NotImplementedError


class _Threads(Workers):
    """Threads of this process: kernels run side by side, for they let go of the interpreter."""

    here = True

    def __init__(self, on: str, count: int):
        super().__init__(ThreadPoolExecutor(count), count)

    def close(self) -> None:
        self.executor.shutdown(cancel_futures=True)


def _watch(line: Any) -> None:
    """Let this process end when the other end of the line is closed, by `stop` or by the death of the driver."""
    import signal
    from multiprocessing.connection import wait

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the driver hears Ctrl-C

    def watching() -> None:
        wait([line])
        os._exit(1)

    threading.Thread(target=watching, daemon=True).start()


@contextmanager
def _environment(**changes: str) -> Iterator[None]:
    """Processes that begin within have these variables."""
    before = {name: os.environ.get(name) for name in changes}
    os.environ.update(changes)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


class _Mapped(Held):
    """A value in a file, whose arrays all processes of a machine read from the same memory; what one writes is its own."""

    def __init__(self, value: Any, file: Path):
        super().__init__(value)
        self._file = str(file)
        weakref.finalize(self, file.unlink, missing_ok=True)

    def __reduce__(self) -> tuple:
        return _There, (_mapped, self._file)


class _There(Held):
    """A value of another process, where a task reads it."""

    def __init__(self, read: Callable, where: Any):
        self._read, self._where = read, where

    def get(self) -> Any:
        return self._read(self._where)


@lru_cache(64)
def _mapped(file: str) -> Any:
    import mmap

    with open(file, "rb") as f:
        memory = memoryview(mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_COPY))
    count = int.from_bytes(memory[:8], "little")
    sizes = [int.from_bytes(memory[8 * k : 8 * k + 8], "little") for k in range(1, count + 1)]
    at, parts = 8 * (count + 1), []
    for size in sizes:
        parts.append(memory[at : at + size])
        at += -(-size // 64) * 64
    return pickle.loads(parts[0], buffers=parts[1:])


class _Processes(_Storing):
    """Processes of this machine, of one thread each."""

    def __init__(self, on: str, count: int):
        self._folder = tempfile.TemporaryDirectory(prefix="jobwise-")
        self._files = 0
        super().__init__(self._begin(count), count)

    def _begin(self, count: int) -> Executor:
        from concurrent.futures import ProcessPoolExecutor
        from multiprocessing import get_context

        context = get_context("forkserver" if sys.platform != "win32" else "spawn")
        if sys.platform != "win32":
            from multiprocessing.forkserver import ensure_running

            context.set_forkserver_preload(["jobwise.simulate", "jobwise.policies.names"])
            with _environment(OMP_NUM_THREADS="1"):  # there are as many of them as shall work at once
                ensure_running()
        line, self._line = context.Pipe(duplex=False)
        return ProcessPoolExecutor(count, context, initializer=_watch, initargs=(line,))

    def hold(self, value: Any) -> Held:
        parts: list[Any] = []
        try:
            head = pickle.dumps(value, 5, buffer_callback=lambda x: parts.append(x.raw()))
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise InputError(f"processes cannot be sent this: {in_a_line(error)}; threads can (--on threads)") from None
        parts.insert(0, head)
        self._files += 1
        file = Path(self._folder.name) / str(self._files)
        with file.open("wb") as out:
            sizes = [memoryview(x).nbytes for x in parts]
            for number in (len(parts), *sizes):
                out.write(number.to_bytes(8, "little"))
            for part, size in zip(parts, sizes, strict=True):
                out.write(part)
                out.write(bytes(-size % 64))
        return _Mapped(value, file)

    def renew(self) -> None:
        self.executor = self._begin(self.count)

    def stop(self, futures: Iterable[Future]) -> None:
        self._line.close()  # the executor sees that its processes are gone, and gives its tasks up
        self.executor.shutdown()

    def close(self) -> None:
        self.executor.shutdown(cancel_futures=True)
        self._line.close()
        self._folder.cleanup()


class _InStore(Held):
    """A value in the object store of Ray."""

    def __init__(self, value: Any, ref: Any):
        super().__init__(value)
        self._ref = ref

    def __reduce__(self) -> tuple:
        return _There, (_stored, self._ref)


def _stored(ref: Any) -> Any:
    import ray

    return ray.get(ref)


class _RayExecutor(Executor):
    """Tasks of Ray as futures of `concurrent.futures`."""

    def __init__(self, remote: Any):
        self._remote, self.running = remote, weakref.WeakKeyDictionary[Future, Any]()

    def submit(self, fn, /, *args, **kwargs):
        """Hand a task to the cluster."""
        ref = self._remote.remote(fn, *args, **kwargs)
        future = ref.future()
        self.running[future] = ref
        return future


class _Ray(_Storing):
    """Ray: a cluster of its own (`ray`), or one that runs (`ray://HOST:PORT` by its client server, `ray:HOST:PORT` joined)."""

    def __init__(self, on: str, count: int):
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        ray = library("ray", "ray")
        self._mine, self._ray = not ray.is_initialized(), ray
        if self._mine:
            self._join(on, count)
        remote = ray.remote(num_cpus=1, max_retries=RETRIES)(_call)
        try:
            there, here = ray.get(remote.remote(_versions), timeout=BEGIN_S), _versions()
        except ray.exceptions.RayError as error:
            self.close()
            raise InputError(f"--on {on}: no worker begins there: {in_a_line(error)}") from None
        if different := [f"{k} {there[k]} there, {here[k]} here" for k in here if there[k] != here[k]]:
            self.close()
            raise InputError(f"--on {on}: other versions: {'; '.join(different)}")
        super().__init__(_RayExecutor(remote), count if on == "ray" else max(int(ray.cluster_resources().get("CPU", 1)), 1))

    def _join(self, on: str, count: int) -> None:
        import logging

        address = {"num_cpus": count, "include_dashboard": False} if on == "ray" else {"address": _address(on)}
        quiet = {"log_to_driver": False, "logging_level": logging.ERROR, "configure_logging": True}
        if on.startswith("ray://"):
            quiet = {}
        try:
            with _environment(PYTHONPATH=os.pathsep.join(filter(None, sys.path))):  # of its own: what is found here is there
                self._ray.init(**address, **quiet)
        except Exception as error:
            raise InputError(f"--on {on}: no Ray cluster answers: {in_a_line(error)}") from None

    def hold(self, value: Any) -> Held:
        return _InStore(value, self._ray.put(value))

    def result(self, future: Future) -> Any:
        try:
            return future.result()
        except self._ray.exceptions.RayTaskError as error:
            raise error.cause or error from None

    def stop(self, futures: Iterable[Future]) -> None:
        for future in futures:
            if not future.done():
                self._ray.cancel(self.executor.running[future], force=True)  # type: ignore[attr-defined]

    def close(self) -> None:
        if self._mine:
            self._ray.shutdown()


def _address(on: str) -> str:
    """The address of a Ray cluster. Raises InputError where nothing listens there."""
    import socket

    host, _, port = on.removeprefix("ray://").removeprefix("ray:").rpartition(":")
    if not host or not port.isdigit():
        raise InputError(f"--on {on}: an address is expected, as in ray://head:10001")
    try:
        socket.create_connection((host, int(port)), ANSWER_S).close()
    except OSError as error:
        raise InputError(f"--on {on}: nothing answers there: {error.strerror or error}") from None
    return on if on.startswith("ray://") else f"{host}:{port}"


ENGINES: dict[str, Callable[[str, int], Workers]] = {"threads": _Threads, "processes": _Processes, "ray": _Ray}


def _task(work: Callable, item: Any) -> Any:
    """Do a task; one that it asks for itself is done at once, here."""
    _busy.task = True
    try:
        return work(item)
    finally:
        _busy.task = False


def _call(fn: Callable, *args: Any) -> Any:
    return fn(*args)


def _versions() -> dict[str, str]:
    """What must be the same everywhere."""
    import platform

    import numba
    import numpy

    from jobwise import __version__

    python = ".".join(platform.python_version_tuple()[:2])
    return {"jobwise": __version__, "Python": python, "numba": numba.__version__, "numpy": numpy.__version__}


@contextmanager
def workers(on: str | Executor = "threads", count: int = 2) -> Iterator[Workers]:
    """Within, every function of this package with many tasks gives them to `count` workers `on` "threads", "processes", "ray",
    "ray://HOST:PORT", or an executor of another library. Raises InputError."""
    if isinstance(on, Executor):
        mine = Workers(on, count)
    else:
        name = on.split(":")[0]
        if name not in ENGINES or (name != "ray" and name != on):
            raise InputError(f"--on {on}: known are {', '.join(ENGINES)} and ray://HOST:PORT")
        if count < 1:
            raise InputError(f"{count} workers: one at least")
        mine = ENGINES[name](on, count)
    _hired.append(mine)
    try:
        yield mine
    finally:
        _hired.remove(mine)
        mine.close()


@contextmanager
def at_hand(threads: int = 2) -> Iterator[Workers]:
    """The workers of the innermost `workers`, else so many threads."""
    if _hired:
        yield _hired[-1]
        return
    with here(threads) as mine:
        yield mine


@contextmanager
def here(threads: int) -> Iterator[Workers]:
    """So many threads of this process, whatever workers are at hand: for tasks that change what is in its memory."""
    mine = _Threads("threads", threads)
    try:
        yield mine
    finally:
        mine.close()

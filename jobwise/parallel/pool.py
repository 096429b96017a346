"""A pool of processes that breaks at once when one of its processes is gone, in any state of its work."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.connection import wait
from typing import Any


class Pool(ProcessPoolExecutor):
    """`ProcessPoolExecutor`, without its waiting for ever.

    A process that is killed while it sends a result leaves half a message. The executor reads on for the other half: its pipe
    does not end while this process and the other workers hold the writing end. Here a thread for each worker waits for its end.
    When a worker has not ended by itself, the thread kills the others and closes this process's end; the executor reads an end
    of file, and its tasks raise BrokenProcessPool. Workers end with the process that began them, too. They leave Ctrl-C to it.
    """

    def __init__(self, count: int, context: Any, initializer: Callable | None = None, initargs: tuple = ()):
        ours, self._line = context.Pipe(duplex=False)
        super().__init__(count, context, initializer=_begin, initargs=(ours, initializer, initargs))
        self._door = threading.Lock()  # nobody submits, which may begin a worker, while the pipe is being closed
        self._workers: list[Any] = []
        results: Any = self._result_queue  # `shutdown` forgets it
        results.close, self._results = self._close, results
        self._is_broken = False

    def submit(self, fn: Callable, /, *arguments: Any, **more: Any) -> Future:
        """Hand a task to the workers. Raises BrokenProcessPool when one of them is gone."""
        with self._door:
            if self._is_broken:
                raise BrokenProcessPool("a worker of this pool was killed")
            future = super().submit(fn, *arguments, **more)
            for worker in [w for w in list(self._processes.values()) if w not in self._workers]:
                self._workers.append(worker)
                threading.Thread(target=self._guard, args=(worker,), daemon=True).start()
        return future

    def _guard(self, worker: Any) -> None:
        wait([worker.sentinel])
        worker.join()
        with self._door:
            if worker.exitcode != 0 and not self._is_broken:
                self._is_broken = True
                for other in self._workers:
                    other.kill()
                self._results._writer.close()

    def _close(self) -> None:
        with self._door:  # two threads that close one descriptor could close another's
            self._results._reader.close()
            self._results._writer.close()

    def end(self) -> None:
        """End all workers at once, also busy ones; their tasks raise BrokenProcessPool."""
        self._line.close()

    def __exit__(self, kind: Any, error: Any, trace: Any):
        if kind is not None:
            self.end()
        return super().__exit__(kind, error, trace)


def _begin(line: Any, initializer: Callable | None, initargs: tuple) -> None:
    """Let this process end when the other end of the line is closed, by `end` or by the death of the driver."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the driver hears Ctrl-C

    def watching() -> None:
        wait([line])
        os._exit(1)

    threading.Thread(target=watching, daemon=True).start()
    if initializer is not None:
        initializer(*initargs)

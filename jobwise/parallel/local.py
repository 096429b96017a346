"""Tasks on this machine: in threads of this process, and in processes."""

from __future__ import annotations

import pickle
import sys
import tempfile
import weakref
from collections.abc import Iterable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from jobwise.errors import InputError, in_a_line
from jobwise.parallel.tasks import Elsewhere, Shared, Storing, Workers, environment

if TYPE_CHECKING:
    from jobwise.parallel.pool import Pool

ALIGNED = 64  # bytes: arrays in a file begin at multiples
_read: dict[str, Any] = {}  # file -> the value that this process has read from it


class Threads(Workers):
    """Threads of this process: kernels run side by side, for they let go of the interpreter."""

    in_process = True
    homes = True  # all have the same memory

    def __init__(self, on: str, count: int):
        super().__init__(ThreadPoolExecutor(count), count)

    def close(self) -> None:
        """End the threads once their tasks have ended."""
        self.executor.shutdown(cancel_futures=True)


class Processes(Storing):
    """Processes of this machine, of one thread each, from a server that has loaded jobwise."""

    homes = True
    hint = f"{Storing.hint} A script must begin them below if __name__ == '__main__'"

    def __init__(self, on: str, count: int):
        self._folder, self._files = tempfile.TemporaryDirectory(prefix="jobwise-"), 0
        self._homes: dict[int, Pool] = {}
        super().__init__(self._begin(count), count)

    def _begin(self, count: int) -> Pool:
        from multiprocessing import get_context

        from jobwise.parallel.pool import Pool

        context = get_context("forkserver" if sys.platform != "win32" else "spawn")
        if sys.platform != "win32":
            from multiprocessing.forkserver import ensure_running

            context.set_forkserver_preload(["jobwise.simulate", "jobwise.policies.names"])
            with environment(OMP_NUM_THREADS="1"):  # there are as many of them as shall work at once
                ensure_running()
        return Pool(count, context)

    def store(self, value: Any) -> Shared:
        """Write a value into a file. Raises InputError for one that no process can be sent."""
        arrays: list[Any] = []
        try:
            head = pickle.dumps(value, 5, buffer_callback=lambda x: arrays.append(x.raw()))
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise InputError(f"processes cannot be sent this: {in_a_line(error)}; threads can (--executor threads)") from None
        self._files += 1
        file = Path(self._folder.name) / str(self._files)
        _write(file, [memoryview(head), *arrays])
        return _InFile(file)

    def home(self, item: int) -> Executor:
        """Return the one process of an item."""
        k = item % self.count
        if k not in self._homes:
            self._homes[k] = self._begin(1)
        return self._homes[k]

    def renew(self) -> None:
        """Begin new processes in place of the old."""
        self.executor = self._begin(self.count)

    def stop(self, futures: Iterable[Future]) -> None:
        """End all processes at once, also busy ones."""
        for pool in self._pools():
            pool.end()
        for pool in self._pools():
            pool.shutdown()
        self._homes.clear()

    def close(self) -> None:
        """End the processes, and delete what is stored."""
        for pool in self._pools():
            pool.shutdown(cancel_futures=True)
            pool.end()
        self._folder.cleanup()

    def _pools(self) -> list[Pool]:
        return [cast("Pool", self.executor), *self._homes.values()]


class _InFile(Shared):
    """A value in a file, whose arrays all processes read from the same memory; what one writes is its own. The file goes with
    the last task that holds it."""

    def __init__(self, file: Path):
        self._file = str(file)
        weakref.finalize(self, file.unlink, missing_ok=True)

    def get(self) -> Any:
        return _loaded(self._file)

    def __reduce__(self) -> tuple:
        return Elsewhere, (_loaded, self._file)


def _write(file: Path, parts: list[memoryview]) -> None:
    """Write how many parts there are, their sizes in bytes, and the parts."""
    with file.open("wb") as out:
        for number in (len(parts), *(x.nbytes for x in parts)):
            out.write(number.to_bytes(8, "little"))
        for x in parts:
            out.write(bytes(-out.tell() % ALIGNED))
            out.write(x)


def _loaded(file: str) -> Any:
    """The value of a file, read once; values whose files are gone are forgotten."""
    import mmap

    if file not in _read:
        for old in [x for x in _read if not Path(x).exists()]:
            del _read[old]
        with open(file, "rb") as f:
            memory = memoryview(mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_COPY))
        count = int.from_bytes(memory[:8], "little")
        at, parts = 8 * (count + 1), []
        for k in range(1, count + 1):
            size = int.from_bytes(memory[8 * k : 8 * k + 8], "little")
            at += -at % ALIGNED
            parts.append(memory[at : at + size])
            at += size
        _read[file] = pickle.loads(parts[0], buffers=parts[1:])
    return _read[file]

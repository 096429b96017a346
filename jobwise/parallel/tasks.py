"""Workers of any kind: tasks in order, errors, lost workers, and values that tasks share."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import BrokenExecutor, Executor, Future, as_completed
from contextlib import contextmanager
from typing import Any

from jobwise.errors import InputError

LOST = 3  # times in a row that workers may be lost before one task is done
_within = threading.local()  # .task: this thread runs a task


class Shared:
    """A value that tasks share: `get` reads it where a task runs."""

    def get(self) -> Any:
        """Return the value, read where a task runs."""
        raise NotImplementedError


class _Carried(Shared):
    """A value that every task carries along."""

    def __init__(self, value: Any):
        self._value = value

    def get(self) -> Any:
        return self._value


class Elsewhere(Shared):
    """A stored value as a task has it: read(where)."""

    def __init__(self, read: Callable, where: Any):
        self._read, self._where = read, where

    def get(self) -> Any:
        """Read the value where it is stored."""
        return self._read(self._where)


class Workers:
    """Workers by an executor: `map` gives them tasks. `count`: how many there are."""

    in_process = False  # they are threads of this process
    homes = False  # a worker has the same items again and again, where that is asked for: it may remember what it did with them
    hint = "is there memory for so many?"  # where workers die again and again

    def __init__(self, executor: Executor, count: int):
        self.executor, self.count = executor, count
        self._stopped = False

    def map(self, work: Callable, items: Iterable, *more: Any, **options: Any) -> list:
        """[work(item) of every item], in order; options as `each`."""
        return list(self.each(work, items, *more, **options))

    def each(
        self,
        work: Callable,
        items: Iterable,
        done: Callable[[int], None] | None = None,
        compiled: bool = True,
        home: bool = False,
    ) -> Iterator[Any]:
        """The results of work(item) of every item, in order, as soon as they are there; `done(1)` is called as each is done.
        The first error, and Ctrl-C, stop the rest. `compiled`: False where tasks are Python, which threads would only do by
        turns. `home`: item i goes to the worker that had item i before, where workers have homes and it lives."""
        todo, results, following, lost = dict(enumerate(items)), dict[int, Any](), 0, 0
        count = done or (lambda count: None)
        if getattr(_within, "task", False) or (self.in_process and (self.count == 1 or not compiled)):
            for x in todo.values():  # a task within a task would wait for a worker for ever
                result = work(x)
                count(1)
                yield result
            return
        while todo:
            before = len(todo)
            try:
                for i, result in self._round(work, todo, home):
                    results[i] = result
                    count(1)
                    while following in results:
                        yield results.pop(following)
                        following += 1
            except BrokenExecutor:
                lost = lost + 1 if len(todo) == before else 1
                if lost >= LOST:
                    raise InputError(f"{LOST} times workers were killed before a task was done: {self.hint}") from None

    def _round(self, work: Callable, todo: dict[int, Any], home: bool) -> Iterator[tuple[int, Any]]:
        """(number, result) of tasks as they end, which leave `todo`."""
        futures: dict[Future, int] = {}
        if self._stopped:
            self.renew()
            self._stopped = False
        try:
            for i, x in todo.items():
                futures[(self.home(i) if home else self.executor).submit(_task, work, x)] = i
            for future in self.ended(futures):
                result = self.result(future)
                del todo[futures[future]]
                yield futures[future], result
        except BaseException:
            self._stopped = True
            self.stop(futures)
            raise

    def home(self, item: int) -> Executor:
        """Return the executor that always takes an item: here any free worker."""
        return self.executor

    def ended(self, futures: Iterable[Future]) -> Iterator[Future]:
        """The tasks, as they end."""
        return as_completed(futures)

    def result(self, future: Future) -> Any:
        """Return the result of a task that has ended, or raise its error."""
        return future.result()

    def put(self, value: Any) -> Shared:
        """Return the value as tasks may share it: here every task carries it along."""
        return _Carried(value)

    def renew(self) -> None:
        """Have workers again after `stop`: here another program looks after them."""

    def stop(self, futures: Iterable[Future]) -> None:
        """Let these tasks not begin, and stop those that run, where that can be done."""
        for future in futures:
            future.cancel()

    def close(self) -> None:
        """Send the workers away, for good."""


class Storing(Workers):
    """Workers elsewhere: a value is stored once, as long as it lives here or a task holds it."""

    def __init__(self, executor: Executor, count: int):
        super().__init__(executor, count)
        self._known: dict[int, Shared] = {}

    def put(self, value: Any) -> Shared:
        """Return the value as tasks may share it, stored now or before."""
        shared = self._known.get(id(value))
        if shared is None:
            shared = self.store(value)
            try:
                weakref.finalize(value, self._known.pop, id(value), None)
                self._known[id(value)] = shared
            except TypeError:  # lists and the like: nobody hears when they are gone
                pass
        return shared

    def store(self, value: Any) -> Shared:
        """Store a value for all workers."""
        raise NotImplementedError


def _task(work: Callable, item: Any) -> Any:
    """Do a task; tasks that it has itself are done at once, here."""
    _within.task = True
    try:
        return work(item)
    finally:
        _within.task = False


@contextmanager
def environment(**changes: str) -> Iterator[None]:
    """Processes that begin within have these variables."""
    before = {name: os.environ.get(name) for name in changes}
    os.environ.update(changes)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})

"""Tasks on Ray. No other file knows Ray."""

from __future__ import annotations

import logging
import os
import sys
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any

from jobwise.errors import InputError, in_a_line, library, plain
from jobwise.parallel.tasks import Elsewhere, Shared, Storing, environment

USUAL = {  # variables of Ray that the user has not set; its client tries three times
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_CLIENT_INITIAL_CONNECTION_TIMEOUT_S": "3",
    "RAY_CLIENT_MAX_CONNECTION_TIMEOUT_S": "4",
}
TOKEN = Path.home() / ".ray" / "auth_token"  # where Ray keeps it
RETRIES = 20  # of a task whose worker is lost
ANSWER_S = 10  # s in which a cluster must answer
LOOK_S = 10  # s without a result after which the cluster is looked at
BEGIN_S = 120  # s in which one of its workers must have begun


class _InStore(Shared):
    """A value in Ray's object store, from which all tasks of a machine read it."""

    def __init__(self, ref: Any):
        self._ref = ref

    def get(self) -> Any:
        return _stored(self._ref)

    def __reduce__(self) -> tuple:
        return Elsewhere, (_stored, self._ref)


def _stored(ref: Any) -> Any:
    import ray

    return ray.get(ref)


class _Futures(Executor):
    """Tasks of Ray as futures of `concurrent.futures`."""

    def __init__(self, call: Callable, running: weakref.WeakKeyDictionary[Future, Any]):
        self._call, self._running = call, running

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Hand a task to the cluster."""
        ref = self._call(fn, *args, **kwargs)
        future = ref.future()
        self._running[future] = ref
        return future


class _Home:
    """An actor: a worker that has the same items again and again."""

    def call(self, fn: Callable, *args: Any) -> Any:
        return fn(*args)


class Ray(Storing):
    """Workers of a cluster of its own (`ray`), or of one that runs: `ray://HOST:PORT` by its client server, `ray:HOST:PORT`
    joined. Raises InputError."""

    homes = True
    again = "the same command may be begun again (train with --resume)"

    def __init__(self, on: str, count: int):
        for name, value in USUAL.items():
            os.environ.setdefault(name, value)
        ray = library("ray", "ray")
        _on_standard_error(ray)
        for name in ("ray.client_builder", "ray._private.authentication"):
            logging.getLogger(name).setLevel(logging.ERROR)
        self._mine, self._ray, self._on = not ray.is_initialized(), ray, on
        self._running = weakref.WeakKeyDictionary[Future, Any]()
        self._actors: dict[int, Any] = {}
        if self._mine:
            self._join(on, count)
        remote = ray.remote(num_cpus=1, max_retries=RETRIES)(_call)
        try:
            there, here = ray.get(remote.remote(versions), timeout=BEGIN_S), versions()
        except ray.exceptions.RayError as error:
            self.close()
            raise InputError(f"--executor {on}: no worker begins there: {in_a_line(error)}") from None
        if different := [f"{k} {there[k]} there, {here[k]} here" for k in here if there[k] != here[k]]:
            self.close()
            raise InputError(f"--executor {on}: other versions: {'; '.join(different)}")
        there_are = count if on == "ray" else max(int(ray.cluster_resources().get("CPU", 1)), 1)
        super().__init__(_Futures(remote.remote, self._running), there_are)

    def _join(self, on: str, count: int) -> None:
        settings: dict[str, Any] = {"log_to_driver": False}
        if on == "ray":
            settings |= {"logging_level": logging.ERROR, "num_cpus": count, "include_dashboard": False}
            settings |= {"address": "local"}  # whatever else runs here, or RAY_ADDRESS says
        else:
            _take_token()
            address = _listening(on, on.removeprefix("ray://").removeprefix("ray:"))
            settings |= {"address": address}
            if not address.startswith("ray://"):
                settings |= {"logging_level": logging.ERROR, "address": _healthy(on, address)}
        try:
            path = os.pathsep.join(filter(None, sys.path))  # what is found here is found by workers
            with environment(PYTHONPATH=path), warnings.catch_warnings(action="ignore"):
                self._ray.init(**settings)
        except Exception as error:
            raise _refused(on, error) from None

    def store(self, value: Any) -> Shared:
        """Put a value into the object store."""
        return _InStore(self._ray.put(value))

    def ended(self, futures: Iterable[Future]) -> Iterator[Future]:
        """The tasks, as they end. Raises InputError where this machine's node has died: Ray would wait for ever."""
        left = set(futures)
        while left:
            done, left = wait(left, timeout=LOOK_S, return_when=FIRST_COMPLETED)
            yield from done
            if not done and not self._lives():
                raise InputError(f"--executor {self._on}: the Ray node that this command joined has died; {self.again}")

    def _lives(self) -> bool:
        """Does the cluster say in time that this machine's node lives? Asked in a thread: without a head Ray waits for it."""
        answers = SimpleQueue[bool]()

        def ask() -> None:
            try:
                mine = self._ray.get_runtime_context().get_node_id()
                answers.put(any(node["NodeID"] == mine and node["Alive"] for node in self._ray.nodes()))
            except Exception:  # whatever Ray raises: it has no answer
                answers.put(False)

        Thread(target=ask, daemon=True).start()
        try:
            return answers.get(timeout=ANSWER_S)
        except Empty:
            return False

    def result(self, future: Future) -> Any:
        """Return the result of a task, or raise its own error, not Ray's. Raises InputError where the cluster fails."""
        try:
            return future.result()
        except self._ray.exceptions.RayTaskError as error:
            raise error.cause or error from None
        except self._ray.exceptions.TaskCancelledError:
            raise
        except self._ray.exceptions.RayError as error:
            raise InputError(f"--executor {self._on}: {in_a_line(error, 120)}; {self.again}") from None

    def home(self, item: int) -> Executor:
        """Return the one actor of an item; Ray begins it anew where it is lost."""
        k = item % self.count
        if k not in self._actors:
            begins = self._ray.remote(max_restarts=-1, max_task_retries=RETRIES)(_Home)
            self._actors[k] = begins.remote()
        return _Futures(self._actors[k].call.remote, self._running)

    def stop(self, futures: Iterable[Future]) -> None:
        """Cancel tasks, those that run too."""
        homes, self._actors = self._actors, {}
        for actor in homes.values():
            self._ray.kill(actor)
        for future in futures:
            if not future.done() and not homes:
                self._ray.cancel(self._running[future], force=True)

    def close(self) -> None:
        """Leave the cluster; one of its own ends."""
        self._actors.clear()  # those that nobody holds end
        if self._mine:
            self._ray.shutdown()


def _on_standard_error(ray: Any) -> None:
    """Let Ray say on standard error that workers and nodes were lost: it prints that among the results, and has no setting."""

    def said(data: dict, ignore_prefix: bool = False) -> None:
        print(*(f"ray: {plain(line)}" for line in data["lines"]), sep="\n", file=sys.stderr, flush=True)

    if hasattr(ray._private.worker, "print_to_stdstream"):
        ray._private.worker.print_to_stdstream = said


def _take_token() -> None:
    """Use the user's token with a cluster that runs, where there is one, as `ray start` does (`ray.init` does so for clusters
    of its own alone). Releases of Ray without tokens by default have nothing to take."""
    try:
        from ray._private.authentication import authentication_token_setup as setup

        setup.maybe_enable_token_auth_if_token_available(warn_if_disabled=False)
    except (ImportError, AttributeError, TypeError):
        pass


def _listening(on: str, address: str) -> str:
    """The address as Ray takes it: `on` for its client, HOST:PORT to join. Raises InputError where nothing listens there."""
    import socket

    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        raise InputError(f"--executor {on}: an address is expected, as in ray://head:10001")
    try:
        socket.create_connection((host, int(port)), ANSWER_S).close()
    except OSError as error:
        raise InputError(f"--executor {on}: nothing answers there: {error.strerror or error}") from None
    return on if on.startswith("ray://") else address


def _healthy(on: str, address: str) -> str:
    """The address of a head that lets jobwise in, asked by Ray's own check: its client in this process would write a line a
    second. Raises InputError."""
    import subprocess

    check = [sys.executable, "-m", "ray.scripts.scripts", "health-check", "--address", address]
    try:
        done = subprocess.run(check, capture_output=True, text=True, timeout=2 * ANSWER_S, check=False)
    except subprocess.TimeoutExpired as error:
        raise _refused(on, error) from None
    if done.returncode:
        raise _refused(on, (done.stderr.strip() or done.stdout.strip() or "its health check fails").splitlines()[-1])
    return address


def _refused(on: str, why: Any) -> InputError:
    """The error of a cluster that does not let jobwise in."""
    hint = f"a token is taken from RAY_AUTH_TOKEN, or {TOKEN}"
    return InputError(f"--executor {on}: no Ray cluster lets jobwise in: {in_a_line(why, 160)} ({hint})")


def _call(fn: Callable, *args: Any) -> Any:
    return fn(*args)


def versions() -> dict[str, str]:
    """Return the versions that must be the same everywhere."""
    import numba
    import numpy

    from jobwise import __version__

    python = ".".join(map(str, sys.version_info[:2]))
    return {"jobwise": __version__, "Python": python, "numba": numba.__version__, "numpy": numpy.__version__}

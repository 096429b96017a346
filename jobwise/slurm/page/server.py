"""Serves a page beside the cycles, in a thread of its own."""

from __future__ import annotations

import asyncio
import ipaddress
import re
import resource
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from jobwise.errors import InputError
from jobwise.slurm.page.app import app_of
from jobwise.slurm.page.board import Board
from jobwise.slurm.page.guards import Guards

LOOPBACK = ["localhost", "127.0.0.1", "[::1]"]
CLOSING_S, STARTING_S = 2, 10.0
MOST, FILES, SILENT_S = 1000, 4096, 10.0  # connections at once, open files of the process; s until a connection has to ask
UNIX = "unix:"


class _Limited(H11Protocol):
    """A connection: closed at once where there are MOST, and later where nothing was asked within SILENT_S."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take the connection, or close it."""
        super().connection_made(transport)
        if len(self.connections) > MOST:
            transport.abort()
        else:
            self.loop.call_later(SILENT_S, self._asked)

    def _asked(self) -> None:
        if self.cycle is None:
            self.transport.close()


def address(text: str) -> tuple[str, int]:
    """The host and the port that "HOST:PORT" names. Raises InputError."""
    host, _, port = text.rpartition(":")
    if not host or not re.fullmatch(r"[0-9]{1,5}", port) or int(port) > 65_535:
        raise InputError(f"--web {text!r}: HOST:PORT was expected, such as 127.0.0.1:8088, or unix:FILE")
    return host.strip("[]"), int(port)


def open_to_others(web: str) -> bool:
    """Can it be reached from other machines?"""
    if web.startswith(UNIX):
        return False
    host = address(web)[0]
    try:
        return not ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host != "localhost"


def _listening(web: str) -> tuple[socket.socket, str, list[str]]:
    """(the socket, its address in words, hosts that it is asked for by). A socket in the file system is for its owner and
    group. Raises InputError."""
    try:
        if web.startswith(UNIX):
            file = Path(web.removeprefix(UNIX))
            if file.is_socket():  # of a process that was killed
                file.unlink()
            s = socket.socket(socket.AF_UNIX)
            try:
                s.bind(str(file))
                file.chmod(0o660)
                s.listen(100)
            except OSError:
                s.close()
                raise
            return s, web, LOOPBACK
        host, port = address(web)
        s = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
        own = f"[{host}]" if ":" in host else host
        return s, f"http://{own}:{s.getsockname()[1]}", [*LOOPBACK, own]
    except OSError as error:
        raise InputError(f"--web {web}: {error.strerror}") from None


@contextmanager
def serving(board: Board, guards: Guards, web: str, names: Sequence[str] = ()) -> Iterator[str]:
    """Serve a board at "HOST:PORT" (port 0: any) or "unix:FILE" while within; yields its address. `names`: hosts that it is
    asked for by, beside its own. Raises InputError where it cannot be served there."""
    if odd := [x for x in names if not re.fullmatch(r"[A-Za-z0-9.-]+", x)]:
        raise InputError(f"--web-host {odd[0]!r}: the name of a host was expected, such as jobs.example.org")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(FILES, hard if hard >= 0 else FILES)), hard))
    listening, where, own = _listening(web)
    app = app_of(board, guards, [*own, *(x.lower() for x in names)])
    config = uvicorn.Config(
        app, http=_Limited, log_config=None, access_log=False, lifespan="off", server_header=False,
        timeout_graceful_shutdown=CLOSING_S, limit_concurrency=MOST,
    )  # fmt: skip
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True, name="page")
    thread.start()
    end = time.monotonic() + STARTING_S
    while not server.started and thread.is_alive() and time.monotonic() < end:
        time.sleep(0.01)
    try:
        if not server.started:
            raise InputError(f"--web {web}: the server did not come up")
        yield where
    finally:
        board.close()
        server.should_exit = True
        thread.join(CLOSING_S + 5)
        listening.close()
        if web.startswith(UNIX):
            Path(web.removeprefix(UNIX)).unlink(missing_ok=True)

"""Serves a page beside the cycles, in a thread of its own."""

from __future__ import annotations

import ipaddress
import logging
import re
import resource
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import uvicorn

from jobwise.errors import InputError
from jobwise.live.sinks.page import connections
from jobwise.live.sinks.page.app import app_of
from jobwise.live.sinks.page.board import Board
from jobwise.live.sinks.page.guards import Guards

LOOPBACK = ["localhost", "127.0.0.1", "[::1]"]
CLOSING_S, STARTING_S = 2, 10.0
FILES = 4096  # open files of the process
UNIX = "unix:"


def address(text: str) -> tuple[str, int]:
    """The host and the port that "HOST:PORT" names. Raises InputError."""
    host, _, port = text.rpartition(":")
    if not host or not re.fullmatch(r"[0-9]{1,5}", port) or int(port) > 65_535:
        raise InputError(f"{text!r}: HOST:PORT was expected, such as 127.0.0.1:8088, or unix:FILE")
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
            if file.is_socket():
                _check_left(file)
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
        raise InputError(f"nothing can be served at {web}: {error.strerror}") from None


def _check_left(file: Path) -> None:
    """Raises InputError where another server listens at a socket: a killed process's socket answers no request."""
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(1.0)
        try:
            s.connect(str(file))
        except ConnectionRefusedError:
            return
        except OSError:  # it does not answer, but somebody has it, or it is not ours
            pass
    raise InputError(f"{UNIX}{file}: another process serves there")


@contextmanager
def serving(board: Board, guards: Guards, web: str, names: Sequence[str] = (), metrics_alone: bool = False) -> Iterator[str]:
    """Serve a board, or its `metrics_alone`, at "HOST:PORT" (port 0: any) or "unix:FILE" while within; yields its address.
    `names`: hosts that it is asked for by, beside its own. Raises InputError where it cannot be served there."""
    if odd := [x for x in names if not re.fullmatch(r"[A-Za-z0-9.-]+", x)]:
        raise InputError(f"--web-host {odd[0]!r}: the name of a host was expected, such as jobs.example.org")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(FILES, hard if hard >= 0 else FILES)), hard))
    listening, where, own = _listening(web)
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)  # whoever asks nonsense writes no lines on this terminal
    app = app_of(board, guards, [*own, *(x.lower() for x in names)], metrics_alone)
    limited: Any = partial(connections.Limited, shares=connections.Shares())
    config = uvicorn.Config(
        app, http=limited, log_config=None, access_log=False, lifespan="off", server_header=False,
        timeout_graceful_shutdown=CLOSING_S, limit_concurrency=connections.MOST,
    )  # fmt: skip
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True, name="page")
    thread.start()
    end = time.monotonic() + STARTING_S
    while not server.started and thread.is_alive() and time.monotonic() < end:
        time.sleep(0.01)
    try:
        if not server.started:
            raise InputError(f"{web}: the server did not come up")
        yield where
    finally:
        board.close()
        server.should_exit = True
        thread.join(CLOSING_S + 5)
        listening.close()
        if web.startswith(UNIX):
            Path(web.removeprefix(UNIX)).unlink(missing_ok=True)

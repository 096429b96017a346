"""Serves a page beside the cycles, in a thread of its own."""

from __future__ import annotations

import ipaddress
import re
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import uvicorn

from jobwise.errors import InputError
from jobwise.slurm.page.app import app_of
from jobwise.slurm.page.board import Board
from jobwise.slurm.page.guards import Guards

LOOPBACK = ["localhost", "127.0.0.1", "[::1]"]
CLOSING_S, STARTING_S = 2, 10.0
MOST = 1000  # connections and requests at once


def address(text: str) -> tuple[str, int]:
    """The host and the port that "HOST:PORT" names. Raises InputError."""
    host, _, port = text.rpartition(":")
    if not host or not (port.isascii() and port.isdigit()) or int(port[:6]) > 65_535:
        raise InputError(f"--web {text!r}: HOST:PORT was expected, such as 127.0.0.1:8088")
    return host.strip("[]"), int(port)


def loopback(host: str) -> bool:
    """Can nobody reach it from another machine?"""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


@contextmanager
def serving(board: Board, guards: Guards, host: str, port: int, names: Sequence[str] = ()) -> Iterator[int]:
    """Serve a board on a host and a port (0: any) while within; yields the port. `names`: hosts that it is asked for by, beside
    its own. Raises InputError where the port cannot be had."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listening = socket.create_server((host, port), family=family)
    except OSError as error:
        raise InputError(f"--web {host}:{port}: {error.strerror}") from None
    if odd := [x for x in names if not re.fullmatch(r"[A-Za-z0-9.-]+", x)]:
        listening.close()
        raise InputError(f"--web-host {odd[0]!r}: the name of a host was expected, such as jobs.example.org")
    own = f"[{host}]" if ":" in host else host
    app = app_of(board, guards, [*LOOPBACK, own, *names])
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        lifespan="off",
        server_header=False,
        timeout_graceful_shutdown=CLOSING_S,
        limit_concurrency=MOST,
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True, name="page")
    thread.start()
    end = time.monotonic() + STARTING_S
    while not server.started and thread.is_alive() and time.monotonic() < end:
        time.sleep(0.01)
    try:
        yield listening.getsockname()[1]
    finally:
        board.close()
        server.should_exit = True
        thread.join(CLOSING_S + 5)
        listening.close()

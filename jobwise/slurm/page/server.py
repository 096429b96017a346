"""Serves a page beside the cycles, in a thread of its own."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import re
import resource
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import cast

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from jobwise.errors import InputError
from jobwise.slurm.page.app import app_of
from jobwise.slurm.page.board import Board
from jobwise.slurm.page.guards import Guards

LOOPBACK = ["localhost", "127.0.0.1", "[::1]"]
CLOSING_S, STARTING_S = 2, 10.0
MOST, FILES, SILENT_S = 1000, 4096, 10.0  # connections at once, open files of the process; s that a request may take to come
MOST_OF_ONE = 400  # connections at once of one peer: fewer than MOST, and than the streams of events
LOOK_S, ESTABLISHED = 0.1, "01"  # between two readings of the kernel's tables of sockets; how they write an open one
UNIX = "unix:"


class _Limited(H11Protocol):
    """A connection: closed at once where there are MOST, soon where one peer has more than MOST_OF_ONE, and later where a
    request is not whole SILENT_S after it began; the first one begins with the connection."""

    _timer: asyncio.TimerHandle | None = None
    _peer: tuple = ()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take the connection, or close it."""
        super().connection_made(transport)
        self._number = next(_numbers)
        if len(self.connections) > MOST:
            transport.abort()
            return
        if len(self.connections) > MOST_OF_ONE and not getattr(self.server_state, "trims", False):
            self.server_state.trims = True  # type: ignore[attr-defined]
            self.loop.call_later(LOOK_S, self._trim)
        self._watch()

    def _trim(self) -> None:
        """Close what a peer has beyond its share, the newest connections; at most every LOOK_S."""
        self.server_state.trims = False  # type: ignore[attr-defined]
        users, held = _users(), Counter[tuple]()
        for c in sorted(cast("set[_Limited]", self.connections), key=lambda c: c._number):
            c._peer = c._peer or _peer(c.transport, users)
            held[c._peer] += 1
            if held[c._peer] > MOST_OF_ONE:
                c.transport.abort()

    def data_received(self, data: bytes) -> None:
        """Take what is asked, or a part of it."""
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        """Go on with what has been asked meanwhile."""
        super().on_response_complete()
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """End its timer, with the connection."""
        super().connection_lost(exc)
        self._set(None)

    def _watch(self) -> None:
        """Begin to count the time of a request that has begun, or end it where none is open."""
        reads = self.conn.their_state
        is_open = self.cycle is None or reads is h11.SEND_BODY or (reads is h11.IDLE and bool(self.conn.trailing_data[0]))
        if is_open != (self._timer is not None):
            self._set(self.loop.call_later(SILENT_S, self.transport.abort) if is_open else None)

    def _set(self, timer: asyncio.TimerHandle | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = timer


_numbers = count()  # of connections, in the order in which they came


def _peer(transport: asyncio.Transport, users: dict[tuple[str, int], int]) -> tuple:
    """Whose connection it is: an account of this machine, or another machine."""
    own = transport.get_extra_info("socket")
    if own is not None and own.family == socket.AF_UNIX and hasattr(socket, "SO_PEERCRED"):
        return "user", struct.unpack("3i", own.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")))[1]
    host, port, *_ = transport.get_extra_info("peername") or ("", 0)
    try:
        is_here = ipaddress.ip_address(host).is_loopback
    except ValueError:
        is_here = False
    return ("user", users.get((host, port), -1)) if is_here else ("host", host)


def _users() -> dict[tuple[str, int], int]:
    """The accounts of the open TCP sockets of this machine, by address and port; none where the kernel does not tell."""
    out: dict[tuple[str, int], int] = {}
    for name in ("tcp", "tcp6"):
        with suppress(OSError, ValueError, IndexError):
            for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]:
                cells = line.split()
                host, _, port = cells[1].partition(":")
                if cells[3] == ESTABLISHED:
                    raw = b"".join(bytes.fromhex(host[k : k + 8])[::-1] for k in range(0, len(host), 8))
                    out[str(ipaddress.ip_address(raw)), int(port, 16)] = int(cells[7])
    return out


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
        raise InputError(f"--web {web}: {error.strerror}") from None


def _check_left(file: Path) -> None:
    """Raises InputError where somebody serves at a socket: one of a process that was killed answers nobody."""
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(1.0)
        try:
            s.connect(str(file))
        except ConnectionRefusedError:
            return
        except OSError:  # it does not answer, but somebody has it, or it is not ours
            pass
    raise InputError(f"--web {UNIX}{file}: another process serves there")


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
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)  # whoever asks nonsense writes no lines on this terminal
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

"""Connections of the page: limits on their number, in all and per peer, and on the time that a request may take to come."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import struct
from collections import Counter
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any, cast

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

MOST, SILENT_S = 1000, 10.0  # connections at once; s that a request may take to come
MOST_OF_ONE = 400  # connections at once of one peer: fewer than MOST, and than the streams of events
LOOK_S, ESTABLISHED = 0.1, "01"  # between two readings of the kernel's tables of sockets; how they write an open one


class Shares:
    """Of the connections of one server: `is_due`, they will be looked through in a moment."""

    is_due = False


class Limited(H11Protocol):
    """A connection of a server with these `shares`. It is closed at once where there are MOST, soon where one peer has more
    than MOST_OF_ONE, and later where a request is not whole SILENT_S after it began; the first begins with the connection."""

    def __init__(self, *arguments: Any, shares: Shares, **more: Any):
        super().__init__(*arguments, **more)
        self._shares, self._number, self._peer = shares, next(_numbers), ()
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take the connection, or close it."""
        super().connection_made(transport)
        if len(self.connections) > MOST:
            transport.abort()
            return
        if len(self.connections) > MOST_OF_ONE and not self._shares.is_due:
            self._shares.is_due = True
            self.loop.call_later(LOOK_S, self._trim)
        self._watch()

    def _trim(self) -> None:
        """Close what a peer has beyond its share, the newest connections; at most every LOOK_S."""
        self._shares.is_due = False
        users, held = _users(), Counter[tuple]()
        for c in sorted(cast("set[Limited]", self.connections), key=lambda c: c._number):
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

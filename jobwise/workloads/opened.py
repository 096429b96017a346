"""Files of logs as they are read: from the disk or standard input, decompressed."""

from __future__ import annotations

import codecs
import gzip
import io
import lzma
import os
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, cast

from jobwise.errors import InputError

MOST_BYTES = 2 << 30  # of a decompressed file that is read as a whole
MOST_STREAMED = 64 << 30  # of one that is read in blocks
MOST_LINE = 64 << 20
BLOCK = 16 << 20
STEP = 8 << 20  # bytes between two reports


def read_bytes(path: str | Path, most: int | None = None) -> bytes:
    """The content of a file, `-` for standard input, decompressed (.gz, .xz by content). Raises InputError, also where it
    would hold more than `most` bytes (default: MOST_BYTES)."""
    name = str(path)
    with _named(name):
        data = sys.stdin.buffer.read() if name == "-" else Path(path).read_bytes()
    try:
        if data[:2] == b"\x1f\x8b":
            data = _unpacked(gzip.open, data, name, most or MOST_BYTES)
        elif data[:6] == b"\xfd7zXZ\x00":
            data = _unpacked(lzma.open, data, name, most or MOST_BYTES)
    except InputError:
        raise
    except (OSError, EOFError, lzma.LZMAError, ValueError) as error:
        raise InputError(f"{name}: damaged compressed file ({error}); unpack it by hand or fetch it again") from None
    except Exception as error:  # zlib.error is not an OSError
        raise InputError(f"{name}: damaged compressed file ({error}); unpack it by hand or fetch it again") from None
    return data


def _unpacked(opened: Any, data: bytes, name: str, most: int) -> bytes:
    """All of a compressed file, at most `most` bytes of it. Raises InputError for more: it may be a bomb."""
    with opened(io.BytesIO(data)) as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise InputError(f"{name}: holds more than {most >> 20:,} MiB; if you trust it, unpack it by hand")
    return data


def read_text(path: str | Path) -> str:
    """Return what `read_bytes` reads as text: UTF-8 or Latin-1; binary content is refused."""
    data = read_bytes(path)
    if b"\x00" in data[:65536]:
        raise InputError(f"{path}: looks like a binary file; a text file is expected")
    return decoded(data)


class Counted(io.FileIO):
    """A file that says how much of it has been read: `report(bytes, of bytes)`."""

    def __init__(self, source: str, report: Callable[[int, int], None] | None):
        super().__init__(source)
        self._report, self._size, self._next = report, max(os.fstat(self.fileno()).st_size, 1), STEP

    def readinto(self, buffer: Any, /) -> int:
        """Read into a buffer; the number of bytes."""
        count = super().readinto(buffer) or 0
        if self._report and (at := self.tell()) >= self._next:
            self._next = at + STEP
            self._report(at, self._size)
        return count


@contextmanager
def _named(source: str) -> Iterator[None]:
    """Raises InputError, with the name of the file, where it cannot be opened."""
    try:
        yield
    except FileNotFoundError:
        raise InputError(f"{source}: there is no such file") from None
    except IsADirectoryError:
        raise InputError(f"{source}: is a folder; a file is expected") from None
    except OSError as error:
        raise InputError(f"{source}: cannot be read: {error.strerror or error}") from None


@contextmanager
def _undamaged(source: str) -> Iterator[None]:
    """Raises InputError where a compressed file is found to be damaged within."""
    try:
        yield
    except (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile) as error:
        raise InputError(f"{source}: damaged compressed file ({error}); unpack it by hand or fetch it again") from None


@contextmanager
def stream(source: str, report: Callable[[int, int], None] | None = None) -> Iterator[BinaryIO]:
    """Yield an open file, decompressed (.gz, .xz by content), to be read part by part; `report`: called with (bytes, of bytes)
    as it is. Raises InputError."""
    with _named(source):
        raw = io.BufferedReader(Counted(source, report), 1 << 20)
    with raw, _undamaged(source):
        start = raw.peek(6)
        if start[:2] == b"\x1f\x8b":
            with gzip.open(raw) as file:
                yield cast(BinaryIO, file)
        elif start[:6] == b"\xfd7zXZ\x00":
            with lzma.open(raw) as file:
                yield cast(BinaryIO, file)
        else:
            yield cast(BinaryIO, raw)


def blocks(file: BinaryIO, source: str, size: int = BLOCK) -> Iterator[bytes]:
    """Yield an open file in blocks of whole lines, about `size` bytes each. Raises InputError for a damaged one, for one that
    holds more than MOST_STREAMED bytes, and for a line without end: it may be a bomb."""
    rest, total = b"", 0
    while True:
        try:
            data = file.read(size)
        except Exception as error:  # zlib.error is not an OSError
            raise InputError(f"{source}: damaged compressed file ({error}); unpack it by hand or fetch it again") from None
        total += len(data)
        if total > MOST_STREAMED:
            raise InputError(f"{source}: holds more than {MOST_STREAMED >> 20:,} MiB; if you trust it, read it in parts")
        if not data:
            break
        cut = data.rfind(b"\n") + 1
        if not cut:
            rest += data
            if len(rest) > MOST_LINE:
                raise InputError(f"{source}: holds a line of more than {MOST_LINE >> 20:,} MiB; a log of jobs is expected")
            continue
        yield rest + data[:cut]
        rest = data[cut:]
    if rest:
        yield rest


def decoded(data: bytes) -> str:
    """Return the text of a block: UTF-8, a line that is not in Latin-1."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        lines = data.removeprefix(codecs.BOM_UTF8).split(b"\n")
    return "\n".join(x.decode() if _is_utf8(x) else x.decode("latin-1") for x in lines)


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True

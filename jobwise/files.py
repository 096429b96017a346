"""Files are written whole or not at all."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from jobwise.errors import InputError

# What a disk says of a file that is open, without its name.
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG, errno.EIO)


def check_writable(path: str | Path) -> None:
    """Raises InputError now rather than after an hour of work: can `path` be written?"""
    if str(path) == "-":
        return
    if not str(path):
        raise InputError("the name of an output file is empty")
    path = Path(path)
    if path.is_dir():
        raise InputError(f"{path}: is a folder; name a file to write")
    folder = path.parent
    if not folder.is_dir():
        raise InputError(f"{path}: there is no folder {folder}")
    if not os.access(folder, os.W_OK):
        raise InputError(f"{path}: folder {folder} is not writable")


@contextmanager
def whole(path: str | Path) -> Iterator[Path]:
    """Yield the name of a temporary neighbour to write, which takes the name `path` at the end; on an error it is deleted."""
    check_writable(path)
    path = Path(path)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        with open(temporary, "rb") as file:
            os.fsync(file.fileno())
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(temporary, 0o666 & ~mask)
        os.replace(temporary, path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise InputError(f"{path}: cannot be written: {error.strerror or error}") from None
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def own_folder(path: str | Path) -> Path:
    """Return a folder whose content is run: made for its owner alone where it is missing. Raises InputError where it is a link,
    or where other users may write to it."""
    path = Path(path)
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        about = path.lstat()
    except OSError as error:
        raise InputError(f"{path}: is no folder that can be used: {error.strerror}") from None
    if stat.S_ISLNK(about.st_mode):
        raise InputError(f"{path}: is a link; what it leads to is left alone: name another folder")
    if about.st_uid != os.getuid():
        raise InputError(f"{path}: is of another account, and what is in it is run: name another folder")
    if about.st_mode & 0o022:
        raise InputError(f"{path}: others may write to it, and what is in it is run: chmod go-w, or name another folder")
    return path


def own_file(path: Path) -> None:
    """Raises InputError where a file that names what is run is a link, or of another account, or all may write to it: as
    after a time in which its folder was open."""
    about = path.lstat()
    if not stat.S_ISREG(about.st_mode) or about.st_uid != os.getuid() or about.st_mode & 0o002:
        raise InputError(f"{path}: is a link, or others have written it or may, and what is in it is run: name another folder")


def lock(file: Path, taken: str) -> IO[str]:
    """Return an open file that no other process may lock until it is closed, by `close` or by the end of this process. Raises
    InputError(`taken`) where another has it. Where the file system has no locks that is said, and the work goes on."""
    with writing(file):
        held = os.fdopen(os.open(file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666), "r+")
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        held.close()
        raise InputError(taken) from None
    except OSError as error:
        print(f"jobwise: {file}: cannot be locked ({error.strerror}): see that no other process works there", file=sys.stderr)
    return held


@contextmanager
def writing(path: str | Path) -> Iterator[None]:
    """Name what cannot be written: a full disk says no name. Raises InputError; other faults pass, as of a device or a file
    that is only read."""
    try:
        yield
    except OSError as error:
        at = None if error.filename is None else Path(str(error.filename))
        is_ours = error.errno in FULL if at is None else at.is_relative_to(path) or Path(path).is_relative_to(at)
        if not is_ours:
            raise
        raise InputError(f"{at or path}: cannot be written: {error.strerror or error}") from None


def write_whole(path: str | Path, data: bytes | str) -> None:
    """Write a file through a temporary neighbour that takes its name at the end; `-` is standard output."""
    data = data.encode() if isinstance(data, str) else data
    if str(path) == "-":
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
        return
    with whole(path) as temporary:
        temporary.write_bytes(data)

"""Store of compiled kernels: a folder per version of their sources, a file per function and signature.

Numba's own cache sees an edit in a kernel's own file, not in the file of a kernel it calls or of a constant it uses; and two
processes that compile at once can enter the same file under two signatures. Here the folder's name is a hash of all
sources that kernels of this package are made of, a file's name a hash of all that its content depends on, and a file
comes whole or not at all.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import platform
import shutil
import sys
from functools import cache
from pathlib import Path

import llvmlite
import numba
from numba import config
from numba.core.caching import FunctionCache, IndexDataCacheFile

from jobwise.compiled import shipped
from jobwise.compiled.shipped import PACKAGE

HASH = 32  # bytes of a hash
KEPT = 4  # folders of other versions that stay


def _folder() -> str:
    """The folder of this version of the sources, made where it is missing; "" where none can be written, or where
    others may write to it."""
    if chosen := os.environ.get("NUMBA_CACHE_DIR"):
        return chosen if not Path(chosen).exists() or _ours(Path(chosen)) else ""
    home = Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")) / "jobwise"
    folder = home / f"kernels-{shipped.DIGEST}"
    try:
        if not folder.exists():
            home.mkdir(mode=0o700, parents=True, exist_ok=True)
            folder.mkdir(mode=0o700, exist_ok=True)
            others = sorted(home.glob("kernels-*"), key=lambda f: f.stat().st_mtime)
            for old in others[: -KEPT - 1]:
                shutil.rmtree(old, ignore_errors=True)
    except OSError:
        return ""
    return str(folder) if os.access(folder, os.W_OK) and _ours(folder) else ""


def _ours(folder: Path) -> bool:
    """Return whether the folder's owner alone may write to it: compiled code is read from it, and run."""
    about = folder.stat()
    if about.st_uid == os.getuid() and not about.st_mode & 0o022:
        return True
    danger = (
        "others may write to it, and compiled code that is read from there is run: kernels are compiled anew in each process"
    )
    print(f"jobwise: {folder}: {danger} (chmod go-w)", file=sys.stderr)
    return False


FOLDER = _folder()
_outside: set[str] = set()  # files with kernels outside the package: a user's


class _Files(IndexDataCacheFile):
    """A file per entry, named by a hash of its key: the entry's own hash, and the entry. `load` and `save` are all that numba
    calls."""

    def _path(self, key) -> str:
        mark = (numba.__version__, llvmlite.__version__, sys.version_info, platform.machine(), self._source_stamp, key)
        digest = hashlib.sha1(repr(mark).encode()).hexdigest()[:16]
        return os.path.join(self._cache_path, f"{self._index_name[:-4]}.{digest}.nbc")

    def load(self, key):
        """Return the entry of a key, or None: compiled here, or shipped with the package."""
        try:
            data = Path(self._path(key)).read_bytes()
            if _hash(data[HASH:]) == data[:HASH]:  # else it is damaged, and what is unpickled is run
                return pickle.loads(data[HASH:])
        except Exception:  # never written, or of another numba: it is compiled again
            pass
        return None if (code := shipped.load(*self._anywhere(key))) is None else pickle.loads(code)

    def save(self, key, data) -> None:
        """Write an entry: whole or not at all. Where that cannot be done, the disk may be full, it is said once."""
        code = self._dump(data)
        try:
            Path(self._cache_path).mkdir(mode=0o700, parents=True, exist_ok=True)
            with self._open_for_write(self._path(key)) as file:
                file.write(_hash(code) + code)
        except OSError as error:
            why = f"{error.strerror}; each process compiles anew"
            _say_once(f"{FOLDER or self._cache_path}: compiled kernels cannot be kept there: {why}")
        shipped.save(code, *self._anywhere(key))

    def _anywhere(self, key) -> tuple:
        """The name of an entry and its key without the processor that it was compiled on."""
        signature, _, own = key
        return self._index_name, self._source_stamp, signature, own


def _hash(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


@cache
def _say_once(text: str) -> None:
    print(f"jobwise: {text}", file=sys.stderr)


class _Cache(FunctionCache):
    """The entries of a kernel. Those of this package lie where any copy of the same sources finds them: numba's own folder is
    named after the path of the file, and two checkouts of one commit would compile everything twice."""

    def __init__(self, dispatcher):
        super().__init__(dispatcher.py_func)
        how, place = [repr(dispatcher._compiler.pipeline_class), sorted(dispatcher.targetoptions)], self._cache_path
        file = Path(self._py_func.__code__.co_filename)
        if file.is_relative_to(PACKAGE):
            place = str(Path(FOLDER, *file.relative_to(PACKAGE).with_suffix("").parts))
            how.append(shipped.DIGEST)
        self._cache_file = _Files(place, self._impl.filename_base, [tuple(how)])

    def load_overload(self, sig, target_context):
        """Load compiled code as numba does, under the sources as they are now."""
        if self._py_func.__code__.co_filename in _outside:
            stamps = [hashlib.sha1(Path(f).read_bytes()).hexdigest() for f in sorted(_outside)]
            self._cache_file._source_stamp[1:] = stamps
        return super().load_overload(sig, target_context)


def note(function) -> None:
    """Take note of a kernel's file. Those outside the package count for every kernel outside: it may call the others."""
    file = Path(function.__code__.co_filename)
    if file.exists() and not file.is_relative_to(PACKAGE):
        _outside.add(str(file))


def kept(dispatcher):
    """The dispatcher, with its compiled code kept on disk; a function that stands in no file is compiled in each process."""
    if not FOLDER:
        return dispatcher
    saved, config.CACHE_DIR = config.CACHE_DIR, FOLDER
    try:
        dispatcher._cache = _Cache(dispatcher)
    except RuntimeError:
        pass
    finally:
        config.CACHE_DIR = saved
    return dispatcher

"""`kernel` and `allocating`: numba's njit with a cache that no edit can make stale.

Numba notices an edit in a kernel's own file but not in the file of a kernel it calls. So the cache folder carries a
hash of all sources of kernels; a change anywhere in `sim/`, `worlds/` or `encoders/` starts a fresh one.
"""

from __future__ import annotations

import hashlib
import os
import sys
import time
from pathlib import Path

from numba import config, njit
from numba.core import event


def _folder() -> str:
    if os.environ.get("NUMBA_CACHE_DIR"):
        return os.environ["NUMBA_CACHE_DIR"]
    package = Path(__file__).parent.parent
    sources = [
        *sorted(package.glob("sim/*.py")),
        *sorted(package.glob("worlds/*.py")),
        *sorted(package.glob("encoders/*.py")),
        package / "jobs.py",
        package / "cluster.py",
    ]
    digest = hashlib.sha1(b"".join(p.read_bytes() for p in sources)).hexdigest()[:12]
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    folder = os.path.join(home, "jobwise", f"kernels-{digest}")
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError:
        return ""  # numba then uses its own default
    return folder if os.access(folder, os.W_OK) else ""


_FOLDER = _folder()


def _compile(function, **options):
    saved, config.CACHE_DIR = config.CACHE_DIR, _FOLDER or config.CACHE_DIR
    try:
        return njit(cache=True, nogil=True, error_model="numpy", **options)(function)
    except RuntimeError:  # a user's kernel that stands in no file cannot be kept
        return njit(nogil=True, error_model="numpy", **options)(function)
    finally:
        config.CACHE_DIR = saved


def kernel(function):
    """Compile a function that makes no arrays: cached on disk, without the GIL, without counting references.

    Counting costs two atomic additions per array and call. A state is a dozen arrays and an event some twenty calls:
    without it a replay takes half the time.
    """
    return _compile(function, _nrt=False)


def inlined(function):
    """As `kernel`, its code put into every caller: for the short functions of the hot path."""
    return _compile(function, _nrt=False, forceinline=True)


def allocating(function):
    """Compile a function that makes arrays (or calls one that does)."""
    return _compile(function)


class _Announcer(event.Listener):
    """Says on standard error that kernels are being compiled: at once, then every EVERY_S seconds."""

    EVERY_S = 5.0

    def __init__(self):
        self.begun, self.said, self.count = 0.0, 0.0, 0

    def on_start(self, happened) -> None:
        """A function that no cache holds is about to be compiled."""
        now = time.monotonic()
        self.begun, self.count = self.begun or now, self.count + 1
        if not self.said:
            self._say("preparing compiled code, once after an installation or an update: up to a minute")
        elif now - self.said >= self.EVERY_S:
            self._say(f"preparing compiled code: {self.count} functions, {now - self.begun:.0f} s")

    def on_end(self, happened) -> None:
        """Nothing to say."""

    def _say(self, text: str) -> None:
        self.said = time.monotonic()
        print(f"jobwise: {text}", file=sys.stderr, flush=True)


if os.environ.get("JOBWISE_ANNOUNCE"):  # the command line sets it, and loads none of this before it has to
    event.register("numba:compile", _Announcer())

"""`kernel`, `inlined` and `allocating`: how this package compiles its functions, with numba.

They stand in for `numba.njit`: compiled on the first call, without the GIL, kept on disk (`kernel_cache.py`), compiled fast
(`parts.py`), announced on standard error where it takes time. JOBWISE_COMPILER=plain takes plain `njit` instead, as a numba
version does that `parts.py` does not know; JOBWISE_ANNOUNCE=0 keeps quiet. With NUMBA_DISABLE_JIT=1 kernels are Python.
"""

from __future__ import annotations

import os
import sys
import time

import numba
from numba import config, njit
from numba.core import event

from jobwise.sim.kernel_cache import kept, note

PLAIN = os.environ.get("JOBWISE_COMPILER") == "plain"
if not PLAIN:
    from jobwise.sim.parts import TESTED, Kernel

    PLAIN = ".".join(numba.__version__.split(".")[:2]) not in TESTED


def _compile(function, **options):
    if config.DISABLE_JIT:
        return function
    note(function)
    if PLAIN:
        return kept(njit(nogil=True, error_model="numpy", **options)(function))
    return Kernel(function, kept, **options)


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
        function = happened.data["dispatcher"].py_func
        if not self.said:
            name = f"{function.__module__}.{function.__qualname__}"
            self._say(f"compiling {name} and what it calls, once after an installation or an update: about 10 s")
        elif now - self.said >= self.EVERY_S:
            self._say(f"compiling: {self.count} functions, {now - self.begun:.0f} s")

    def on_end(self, happened) -> None:
        """Nothing to say."""

    def _say(self, text: str) -> None:
        self.said = time.monotonic()
        print(f"jobwise: {text}", file=sys.stderr, flush=True)


if os.environ.get("JOBWISE_ANNOUNCE", "1") not in ("", "0"):
    event.register("numba:compile", _Announcer())

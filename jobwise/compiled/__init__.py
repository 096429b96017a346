"""`kernel`, `inlined` and `allocating`: how this package compiles its functions, with numba.

They stand in for `numba.njit`: compiled on the first call, without the GIL, kept on disk (`cache.py`), compiled fast
(`linking.py`), announced on standard error where it takes time. JOBWISE_COMPILER=plain takes plain `njit` instead, as a numba
version does that `linking.py` does not know; JOBWISE_ANNOUNCE=0 keeps quiet. With NUMBA_DISABLE_JIT=1 kernels are Python.
"""

from __future__ import annotations

import gc
import os
import sys
import time
from math import inf

import numba
from numba import config, njit
from numba.core import event

from jobwise.compiled.cache import kept, note
from jobwise.listeners import LISTENERS

NJIT = os.environ.get("JOBWISE_COMPILER") == "plain"
if not NJIT:
    from jobwise.compiled.linking import TESTED, Kernel

    NJIT = ".".join(numba.__version__.split(".")[:2]) not in TESTED


def _compile(function, **options):
    if config.DISABLE_JIT:
        return function
    note(function)
    if NJIT:
        return kept(njit(nogil=True, error_model="numpy", **options)(function))
    return Kernel(function, kept, **options)


def kernel(function):
    """Compile a function that makes no arrays: cached on disk, without the GIL, without counting references.

    Counting costs two atomic additions per array and call. A state is a dozen arrays and an event some twenty calls:
    without it a replay takes half the time.
    """
    return _compile(function, _nrt=False)


def inlined(function):
    """Compile like `kernel`, with the code put into every caller: for the short functions of the hot path."""
    return _compile(function, _nrt=False, forceinline=True)


def allocating(function):
    """Compile a function that makes arrays (or calls one that does)."""
    return _compile(function)


class _Announcer(event.Listener):
    """Says that kernels are being compiled: at once, then at most every EVERY_S seconds, to the last of `sim.LISTENERS`, or on
    standard error."""

    EVERY_S = 4.0

    def __init__(self):
        self.said, self.count, self.spent, self.open = -inf, 0, 0.0, []

    def on_start(self, happened) -> None:
        """A function that no cache holds is about to be compiled."""
        now = time.monotonic()
        self.open.append(now)
        self.count += 1
        if self.count == 1:
            self._say("compiling what this needs, once (`jobwise warm-up` does it ahead)")
        elif LISTENERS or now - self.said >= self.EVERY_S:
            self._say(f"compiling, once: {self.count} functions, {self.spent + now - self.open[0]:.0f} s")

    def on_end(self, happened) -> None:
        """Compiled; one function may be compiled within another."""
        begun = self.open.pop()
        if not self.open:
            self.spent += time.monotonic() - begun

    def _say(self, text: str) -> None:
        self.said = time.monotonic()
        if LISTENERS:
            LISTENERS[-1](text)
        else:
            print(f"jobwise: {text}", file=sys.stderr, flush=True)


class _Paused(event.Listener):
    """Pauses the collector of garbage while functions are compiled: numba makes millions of objects, and few are garbage (a
    tenth of the time)."""

    def __init__(self):
        self.open, self.was = 0, False

    def on_start(self, happened) -> None:
        """The first of several functions, one within another, pauses it."""
        if self.open == 0:
            self.was = gc.isenabled()
            gc.disable()
        self.open += 1

    def on_end(self, happened) -> None:
        """The last one lets it go on."""
        self.open -= 1
        if self.open == 0 and self.was:
            gc.enable()


event.register("numba:compile", _Paused())
if os.environ.get("JOBWISE_ANNOUNCE", "1") not in ("", "0"):
    event.register("numba:compile", _Announcer())

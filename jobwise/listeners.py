"""Listeners to compilation: the progress line of a command, while it shows one. (Light: this module imports no numba.)"""

from collections.abc import Callable

LISTENERS: list[Callable[[str], None]] = []  # the last one is called

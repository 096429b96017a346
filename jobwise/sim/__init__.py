"""The simulator: state, kernel, placement, backfilling, and the compiled list-scheduling loops."""

from collections.abc import Callable

LISTENERS: list[Callable[[str], None]] = []  # the last one is called with what is being compiled

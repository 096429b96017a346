"""The simulator: state, kernel, placement, backfilling, and the compiled list-scheduling loops."""

from collections.abc import Callable

TOLD: list[Callable[[str], None]] = []  # the last one is told what is being compiled; where there is none, standard error

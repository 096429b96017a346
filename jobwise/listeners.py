"""Who is told what is being compiled: the line of progress of a command, while there is one. (Light: it imports no numba.)"""

from collections.abc import Callable

LISTENERS: list[Callable[[str], None]] = []  # the last one is called

"""Programs that know a workflow language and run its workflows: they decide which command is next, a desk has it run.

A new engine is a file with a function `prepared(path, inputs, folder, bare)`, and a row here.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jobwise.errors import InputError
from jobwise.extensions import imported
from jobwise.workloads.cwl import apart

ENGINES = {
    ".cwl": "jobwise.workflows.engines.cwl",
    ".wdl": "jobwise.workflows.engines.wdl",
    ".commands": "jobwise.workflows.engines.lines",
}
MOST_STAMPED = 10_000  # files of a folder
BARE = "none of {} is installed here, --bare runs its command on the nodes as they are"


@dataclass(frozen=True)
class Outcome:
    """The outcome of a workflow: its outputs by name, and its error ("": none)."""

    outputs: dict[str, Any]
    problem: str = ""
    notes: tuple[str, ...] = ()


def stamp(file: Path) -> list:
    """The sizes and times of a file, or of all that is in a folder: something else where it has changed."""
    if not file.is_dir():
        return [_stat(file)]
    return [[str(p.relative_to(file)), _stat(p)] for p in sorted(file.rglob("*"))[:MOST_STAMPED]]


def _stat(file: Path) -> list[int]:
    try:
        x = file.stat()
    except OSError:
        return []
    return [x.st_size, x.st_mtime_ns]


def log_to(file: Path, *names: str) -> logging.Logger:
    """Let these loggers of an engine write into a file, and nowhere else; the first of them."""
    handler = logging.FileHandler(file)
    for logger in map(logging.getLogger, names):
        for old in list(logger.handlers):
            logger.removeHandler(old)
            old.close()
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
        logger.propagate = False
    return logging.getLogger(names[0])


def engine(path: Path) -> Callable[..., Callable[..., Outcome]] | None:
    """The function `prepared(path, inputs, folder, bare)` of the engine for a file, by its suffix; None: none knows its
    language. It reads and checks the workflow, and returns the function that runs it on a desk. `bare`: tasks that ask for a
    container run without one; else such a workflow is refused. Raises InputError where the engine is
    not installed."""
    where = ENGINES.get(apart(path)[0].suffix)
    try:
        return imported(f"{where}:prepared") if where else None
    except ImportError as error:
        raise InputError(f"{path}: running it needs {error.name}: pip install 'jobwise[workflows]'") from None


def watched(paths: list[Path]) -> AbstractContextManager[Callable[[], bool]]:
    """A context of the main thread in which engines run; what it yields says whether one of them has caught Ctrl-C."""
    if any(p.suffix == ".wdl" for p in paths):
        return imported("jobwise.workflows.engines.wdl:watched")()
    return nullcontext(lambda: False)

"""Lists of commands: all are asked for at once."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

from jobwise.errors import InputError
from jobwise.workflows.engines import Outcome
from jobwise.workflows.engines.desk import Asked, Desk, digest
from jobwise.workloads.lines import Line, lines

WAIT_S = 0.2


def prepared(path: Path, inputs: Path | None, folder: Path, bare: bool = False) -> Callable[[Desk], Outcome]:
    """Read a list of commands, which names no containers; the function that runs it, each command where the list is. Raises
    InputError."""
    if inputs is not None:
        raise InputError(f"{inputs}: a list of commands ({path}) has no inputs")
    return partial(_run, lines(path), str(path.resolve().parent))


def _run(tasks: list[Line], folder: str, desk: Desk) -> Outcome:
    """Have all commands run; their exit codes by line. Raises Stopped."""
    codes: dict[str, int] = {}
    change = threading.Condition()

    def ended(name: str, code: int) -> None:
        with change:
            codes[name] = code
            change.notify_all()

    for x in tasks:
        step = f"line{x.number}"
        task = Asked(
            key=desk.key(f"{step}-{digest(chr(0).join(x.words))}"), step=step, command=x.words, folder=folder,
            cores=max(math.ceil(x.asks.get("cores", 1)), 1), memory=x.asks.get("memory", 0.0),
            gpus=math.ceil(x.asks.get("gpus", 0)), seconds=60.0 * x.asks.get("minutes", 0.0),
        )  # fmt: skip
        desk.ask(task, partial(ended, step))
    with change:
        while len(codes) < len(tasks):
            change.wait(WAIT_S)
            desk.check()
    failed = [step for step in (f"line{x.number}" for x in tasks) if codes[step]]
    return Outcome({"codes": codes}, f"{len(failed)} of {len(tasks)} failed, first {failed[0]}" if failed else "")

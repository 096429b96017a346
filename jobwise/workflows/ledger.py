"""The ledger of `jobwise mars run`, read back: what it says goes into batch scripts, so every line is checked."""

from __future__ import annotations

import json
import re
from math import isfinite
from pathlib import Path

from jobwise.errors import InputError
from jobwise.workflows.engines.desk import KEY

RUN = re.compile(r"jw[0-9a-f]{8}")  # what a run is called; names of jobs and of files are made of it
STATES = ("done", "failed", "lost")


def read(file: Path, tasks: int) -> list[dict]:
    """Return the lines of a ledger of `tasks` tasks; half a line that a kill has left at the end does not count. Raises
    InputError, naming the line, where one is not as `jobwise mars run` writes it."""
    if not file.exists():
        return []
    text = file.read_bytes().decode("utf-8", "replace").split("\n")
    events: list[dict] = []
    for n, line in enumerate(text, 1):
        try:
            x = json.loads(line)
        except (ValueError, RecursionError):
            if n == len(text):  # without its newline: it was being written
                continue
            raise _wrong(file, n, "is no JSON") from None
        if why := _fault(x, tasks if events else None):
            raise _wrong(file, n, why)
        events.append(x)
        tasks += x.get("event") == "asked" and x["task"] == tasks
    return events


def _wrong(file: Path, line: int, why: str) -> InputError:
    return InputError(f"{file}:{line}: {why}; `jobwise mars run` did not write this line: name another --state folder")


def _fault(x: object, tasks: int | None) -> str:
    """Return the fault of a line ("": none); `tasks` None: it is the first one."""
    if not isinstance(x, dict):
        return "is no record"
    if tasks is None:
        return "" if RUN.fullmatch(str(x.get("run"))) and _number(x.get("time")) else "has no run jw…, or no time"
    if x.get("event") not in ("submit", "id", "end", "asked"):
        return f"its event is {str(x.get('event'))[:20]!r}"
    if not (_whole(x.get("task")) and 0 <= x["task"] < tasks + (x["event"] == "asked")):
        return f"there is no task {str(x.get('task'))[:20]!r}"
    if x["event"] == "asked":
        numbers = all(_whole(x.get(k)) and 0 <= x[k] < 1 << 40 for k in ("flow", "cores", "retries")) and _number(
            x.get("seconds")
        )
        return "" if numbers and KEY.fullmatch(str(x.get("key"))) and isinstance(x.get("step"), str) else "it asks for no task"
    if x["event"] == "end":
        right = x.get("state") in STATES and _number(x.get("start")) and _number(x.get("end"))
        return "" if right else "its state or times are none"
    key = "try" if x["event"] == "submit" else "id"
    return "" if _whole(x.get(key)) and 0 < x[key] < 1 << 40 else f"its {key} is no whole number"


def _whole(x: object) -> bool:
    return isinstance(x, int) and not isinstance(x, bool)


def _number(x: object) -> bool:
    return isinstance(x, (int, float)) and not isinstance(x, bool) and isfinite(x)

"""A task of a workflow on a resource manager: how far it has got, and its batch script."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


def script(folder: Path, name: str, command: Sequence[str], redirections: str = "") -> str:
    """The batch script of a task: it claims its name, runs the command (which has no shell either), and leaves a stamp."""
    claim, stamp, new = (shlex.quote(str(folder / x)) for x in (f"claims/{name}", f"stamps/{name}", f"stamps/{name}.new"))
    return (
        f"#!/bin/sh\nmkdir {claim} || exit 0\n"
        f"begin=$(date +%s.%N)\n{shlex.join(command)}{redirections}\ncode=$?\n"
        f'echo "$begin $(date +%s.%N) $code" > {new} && mv {new} {stamp}\n'
        "exit $code\n"
    )


@dataclass
class Task:
    """The present progress of a task."""

    tries: int = 0  # submitted so often
    failures: int = 0
    id: int = 0  # of its job; 0: not submitted, or not known
    seen: float = 0.0  # when its job was seen last, s
    state: str = ""  # "" waits, "submitted", "done", "failed"
    start: float = 0.0
    end: float = 0.0
    node: int = -1  # that it was submitted for; -1: any
    since: float = 0.0  # when it was submitted, s
    moved: bool = False  # that node was not to be had
    code: int = 0  # the exit code of its last try
    retries: int = 0  # that its engine asks for

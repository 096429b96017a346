"""What was tried, did not help, and left: a row each, with what to use instead. What was measured: docs/tried.md."""

from __future__ import annotations

import re
from typing import NamedTuple

from jobwise.errors import InputError


class Left(NamedTuple):
    """A feature that left. Patterns of what named it, "" where nothing did: `files`: kinds of policy files; `options`: words
    behind an order; `policies`: whole names; `systems`: of `jobwise train`."""

    what: str
    instead: str
    files: str = ""
    options: str = ""
    policies: str = ""
    systems: str = ""


LEFT = (
    Left(
        "the graph network for workflows left jobwise",
        "use the rule that it began as, such as flow-work+reserve0.1x60s",
        files="flow-net",
        systems="flow-net",
    ),
)


def check(named: str, word: str, where: str = "") -> None:
    """Raises InputError where something that left goes by `word`. `named`: the field of `Left` whose patterns say so."""
    for row in LEFT:
        if re.fullmatch(getattr(row, named), word) and word:
            raise InputError(f"{where}{row.what}: {row.instead} (docs/tried.md)")

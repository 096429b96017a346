"""Removed policies that did not help: a row each, with a replacement. The measurements are in docs/tried.md."""

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
        "forecasts by trees left jobwise",
        "history brings what they brought: use smith, smith-aged or jobwise",
        files="forest",
        options=r"refit\d*",
        policies=r"smith-forecast.*|jobwise:.*|jobwise\+refit",
        systems="smith-forecast",
    ),
    Left(
        "+by-history left jobwise",
        "promises and lanes always go by what such jobs ran before; leave the word out",
        options="by-history",
    ),
    Left("gates left jobwise", "use one rule, or jobwise", policies="gated:.*|jobwise-unbounded.*"),
    Left(
        "guards relative to the longest wait under fcfs+easy left jobwise",
        "use +promise1.2x, which aims at such a bound, or a fixed guard, +guard24h",
        files="guarded",
        options=r"guard[\d.]+x",
    ),
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
        if word and re.fullmatch(getattr(row, named), word, re.IGNORECASE):
            raise InputError(f"{where}{row.what}: {row.instead} (docs/tried.md)")

"""Policies that come trained, each with a card: what it learnt from, what it did on jobs that it had not seen, what it is not
for. `zoo:NAME` is one of them, wherever a scheduler is named. `python -m benchmarks.zoo` makes them."""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path
from typing import NamedTuple

from jobwise.errors import InputError, unknown

PRETRAINED = Path(__file__).parent.parent / "pretrained"
FOLDER = PRETRAINED / "zoo"
PREFIX = "zoo:"


class Card(NamedTuple):
    """The card of a policy. `world`: where it decides; `log`: what it was trained on, and `jobs`; `result`: on unseen jobs;
    `state_use`: whether it uses the state that it is shown; `limits`: what it was not trained for; `licence`: of the log."""

    world: str
    system: str
    log: str
    jobs: str
    training: str
    result: str
    state_use: str
    limits: str
    licence: str


@cache
def cards() -> dict[str, Card]:
    """Return the cards by name."""
    file = FOLDER / "cards.toml"
    return {name: Card(**x) for name, x in tomllib.loads(file.read_text()).items()} if file.exists() else {}


def file_of(name: str) -> Path:
    """Return the file of a policy of the zoo. Raises InputError for an unknown name, with the nearest one."""
    if name not in cards():
        raise unknown("policy of the zoo", name, cards())
    file = FOLDER / f"{name}.safetensors"
    if not file.is_file():
        raise InputError(f"{file}: the file of {PREFIX}{name} is missing; install jobwise anew")
    return file

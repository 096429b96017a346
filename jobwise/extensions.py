"""Extensions: packages outside jobwise add to its tables by entry points, read once a table does not know a name.

    [project.entry-points."jobwise.orders"]
    short-and-old = "mine.orders:short_and_old"

A group for each table, see docs/extending.md. A name of jobwise's own always wins.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from jobwise.errors import InputError

GROUPS = {  # what an entry point of the group names
    "jobwise.orders": "a function (jobs [Q], now s) -> scores [Q], the smaller first",
    "jobwise.policies": "a function (name) -> Policy, for names that begin with NAME:",
    "jobwise.readers": "a Reader: which files it knows, and how it reads them",
    "jobwise.worlds": "a WorldSpec",
    "jobwise.systems": "a function (log, preset) -> configuration",
    "jobwise.commands": "a function with typer's options: a command of `jobwise`",
    "jobwise.encoders": "a function (cluster, window, **settings) -> Encoder",
}


@cache
def _points(group: str) -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=group)}


def names(group: str) -> list[str]:
    """Return the names that other packages add to a group, sorted."""
    return sorted(_points(group))


def load(group: str, name: str) -> Any:
    """Return the object that another package names in a group, None where there is none. Raises InputError if it fails."""
    point = _points(group).get(name)
    if point is None:
        return None
    try:
        thing = point.load()
    except Exception as error:  # code of others may raise anything
        package = point.dist.name if point.dist else point.value
        why = (str(error).splitlines() or [""])[0]
        raise InputError(f"{name!r} of the package {package} does not load: {type(error).__name__}: {why}") from error
    return thing


def added(group: str) -> dict[str, Callable[[], Any]]:
    """Return {name: loads it} of all that other packages add to a group."""
    return {name: partial(load, group, name) for name in names(group)}

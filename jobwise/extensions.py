"""Extensions: packages outside jobwise add to its tables by entry points, read once a table does not know a name.

    [project.entry-points."jobwise.orders"]
    short-and-old = "mine.orders:short_and_old"

A group for each table, see docs/extending.md. A name of jobwise's own always wins.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from jobwise.errors import InputError

GROUPS = {  # what an entry point of the group names
    "jobwise.orders": "a function (jobs [Q], now s) -> scores [Q], the smaller first",
    "jobwise.policies": "a function (name) -> Policy, for names that begin with NAME:",
    "jobwise.readers": "a SourceSpec, or a Reader: which files it knows, and how it reads them",
    "jobwise.worlds": "a WorldSpec",
    "jobwise.systems": "a SystemSpec, or a function (log, preset) -> configuration",
    "jobwise.commands": "a function with typer's options: a command of `jobwise`",
    "jobwise.encoders": "a function (cluster, jobs, window=…, **settings) -> Encoder",
}


def imported(where: str) -> Any:
    """Return the object that "module:name" names."""
    module, _, name = where.partition(":")
    return getattr(import_module(module), name)


@cache
def _points(group: str) -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=group)}


def names(group: str) -> list[str]:
    """Return the names that other packages add to a group, sorted."""
    return sorted(_points(group))


def where(group: str, name: str) -> str:
    """Return where the object is that another package names in a group, "module:name"."""
    return _points(group)[name].value


def load(group: str, name: str) -> Any:
    """Return the object that another package names in a group, None where there is none. Raises InputError if it fails."""
    point = _points(group).get(name)
    if point is None:
        return None
    with of_package(group, name, "does not load"):
        return point.load()


@contextmanager
def of_package(group: str, name: str, what: str) -> Iterator[None]:
    """Turn what the code of another package raises into an InputError that names the package."""
    point = _points(group)[name]
    try:
        yield
    except (Exception, SystemExit) as error:  # code of others may raise anything
        package, why = point.dist.name if point.dist else point.value, (str(error).splitlines() or [""])[0]
        why = why if isinstance(error, InputError) else f"{type(error).__name__}: {why}"
        raise InputError(f"{name!r} of the package {package} {what}: {why}") from error


def loaded(group: str) -> tuple[dict[str, Any], dict[str, str]]:
    """Return ({name: object}, {name: why it does not load}) of all that other packages add to a group."""
    things, broken = {}, {}
    for name in names(group):
        try:
            things[name] = load(group, name)
        except InputError as error:
            broken[name] = str(error)
    return things, broken

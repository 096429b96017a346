"""The one exception that means "the input is wrong": its text is the line a user sees."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

_HIDDEN = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2060-\u206f\ud800-\udfff\ufeff]")


def plain(text: object) -> str:
    """Text that a terminal can be handed: control and formatting characters, which could be escape sequences, are spelt out."""
    return _HIDDEN.sub(lambda match: f"\\x{ord(match[0]):02x}", str(text))


def shown(names: Iterable[str], most: int = 12) -> str:
    """Some names of a file, for a message: printable, and not too many."""
    names = [plain(str(n)[:40]).replace("\n", " ") for n in names]
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def in_a_line(error: BaseException, most: int = 300) -> str:
    """Return the message of another library's error, in one printable line; its name where the message is empty."""
    return plain(" ".join(str(error).split())[:most]) or type(error).__name__


class InputError(ValueError):
    """Wrong input by the user: says what is wrong, where, and what would be right. The command line exits 2."""


@contextmanager
def naming(where: str) -> Iterator[None]:
    """Put `where: ` before the text of an InputError that leaves the block."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{where}: {error}") from None


def failed(error: BaseException, fields: Iterable[str], of: str = "jobs") -> str:
    """Return the error of a user's own function in words; with all fields `of` what it has where it asked for another."""
    known = f"; fields of {of}: {', '.join(fields)}" if "no field of name" in str(error) else ""
    return f"{type(error).__name__}: {error}{known}"


def raised_in(error: BaseException, function: Any = None) -> str:
    """Return "FILE:LINE: " of the user's file in which an error was raised, or else of the user's function that was called; ""
    where no such file is known."""
    import sysconfig
    import traceback

    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}: "
    others = [Path(__file__).parent, *(Path(sysconfig.get_paths()[x]) for x in ("stdlib", "purelib", "platlib"))]
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        file = Path(frame.filename)
        if file.is_file() and not any(file.absolute().is_relative_to(x) for x in others):
            return f"{frame.filename}:{frame.lineno}: "
    code = getattr(function, "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}: " if code and Path(code.co_filename).is_file() else ""


def library(name: str, extra: str) -> Any:
    """Return a module of an extra. Raises InputError where it is not installed."""
    try:
        return import_module(name)
    except ImportError:
        package = {"sklearn": "scikit-learn", "prometheus_client": "prometheus-client"}.get(
            name.partition(".")[0], name.partition(".")[0]
        )
        raise InputError(f"this needs {package}: pip install 'jobwise[{extra}]'") from None


class Interrupted(Exception):
    """The user stopped the work; the text says what is kept, and how it goes on. (A KeyboardInterrupt with a text would lose it
    on its way through the command line's parser.)"""


class Unfinished(InputError):
    """A simulation whose policy left jobs waiting for ever."""


def unknown(kind: str, name: str, known: Iterable[str], where: str = "") -> InputError:
    """The error for an unknown `name` of a `kind` ("order", "metric" …), with the nearest known ones."""
    known = sorted(known)
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(near)}?" if near else f"known: {', '.join(known)}"
    return InputError(f"{where}unknown {kind} {name!r}; {hint}")

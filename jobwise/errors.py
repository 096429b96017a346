"""The one exception that means "the input is wrong": its text is the line a user sees."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class InputError(ValueError):
    """Wrong input by the user: says what is wrong, where, and what would be right. The command line exits 2."""


def unknown(kind: str, name: str, known: Iterable[str], where: str = "") -> InputError:
    """The error for an unknown `name` of a `kind` ("order", "metric" …), with the nearest known ones."""
    known = sorted(known)
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(near)}?" if near else f"known: {', '.join(known)}"
    return InputError(f"{where}unknown {kind} {name!r}; {hint}")

"""Times as people write them in options and files: 90m, 12h, 30d."""

from __future__ import annotations

SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}  # of a unit


def seconds_of(text: str) -> float:
    """Return the s of "90m", "12h", "30d" or "3600", from 0 to 1e12. Raises ValueError."""
    number, unit = (text[:-1], text[-1]) if text[-1:] in SECONDS else (text, "s")
    value = float(number) * SECONDS[unit]
    if not 0 <= value < 1e12:
        raise ValueError(f"{text[:20]!r} is no time such as 90m, 12h or 30d")
    return value

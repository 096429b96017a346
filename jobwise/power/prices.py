"""Prices, intensities and caps over time, from CSV files: a row holds from its time to that of the next.

Times are UTC, or say their zone. A price and an intensity are those of a kWh. Nothing is fetched.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import numpy as np

from jobwise.errors import InputError, plain
from jobwise.workloads.opened import read_text

TIME = re.compile(r"(time|utc|begin|start|date)", re.I)
MEANS = {
    "price": re.compile(r"(price|cost|eur|usd)", re.I),
    "carbon": re.compile(r"(carbon|intensity|co2|gco2)", re.I),
    "cap": re.compile(r"(cap|limit|power|mw|kw)\b|^cap", re.I),
}
UNITS = {"w": 1.0, "kw": 1e3, "mw": 1e6, "gw": 1e9}
POWER = re.compile(r"(\d+(?:\.\d+)?)\s*([kmg]?w)", re.I)


class Stepwise(NamedTuple):
    """A value that changes: value[k] holds from time[k] (s since 1970) to time[k + 1]. `notes`: what the file left open."""

    time: np.ndarray  # [K]
    value: np.ndarray  # [K]
    notes: tuple[str, ...] = ()

    def at(self, when: np.ndarray) -> np.ndarray:
        """Return the values at times [N], s since 1970; before the first row the first one."""
        return self.value[np.maximum(np.searchsorted(self.time, when, side="right") - 1, 0)]

    def ends_of(self, begin: float, end: float, what: str) -> tuple[str, ...]:
        """Say in a line which part of a time, s since 1970, the rows do not cover; a value that never changes covers all."""
        if len(self.time) < 2:
            return ()
        row = float(np.median(np.diff(self.time)))
        before, behind = self.time[0] - begin, end - (self.time[-1] + row)
        missing = [
            f"the {word} {min(s, end - begin) / 3600:,.1f} h" for word, s in (("first", before), ("last", behind)) if s > 0
        ]
        text = f"{what} do not cover {' and '.join(missing)} of the jobs' time: the nearest value holds there"
        return (text,) if missing else ()

    def until(self, when: np.ndarray) -> np.ndarray:
        """Return the integral from the first row's time to times [N], value times s."""
        sums = np.append(0.0, np.cumsum(np.diff(self.time) * self.value[:-1]))
        at = np.maximum(np.searchsorted(self.time, when, side="right") - 1, 0)
        return sums[at] + (when - self.time[at]) * self.value[at]


@dataclass(frozen=True, eq=False)
class Prices:
    """The price (a kWh) and the carbon intensity (g a kWh) over time; None where the file says nothing of it."""

    price: Stepwise | None
    carbon: Stepwise | None
    unit: str = ""  # of the price, as its column has it: EUR

    @property
    def costs(self) -> dict[str, Stepwise]:
        """What a schedule costs by it, as summaries name that: `energy_cost`, `co2` (g)."""
        return {name: x for name, x in (("energy_cost", self.price), ("co2", self.carbon)) if x is not None}

    @property
    def first(self) -> Stepwise:
        """What jobs are held for: the price, or, where none is known, the carbon intensity."""
        return next(iter(self.costs.values()))


def read_prices(path: str) -> Prices:
    """Read a CSV with a column of times and one of prices, of intensities, or both. Raises InputError: file:line, and why."""
    names, rows = _rows(path)
    columns = {key: _column(names, MEANS[key], path) for key in ("price", "carbon")}
    if not any(columns.values()):
        raise InputError(f"{path}:1: no column of prices or intensities among {', '.join(names)}; name one price, or carbon")
    steps = {key: _steps(path, names, rows, column, least=None if key == "price" else 0.0) for key, column in columns.items()}
    unit = re.search(r"(eur|usd|gbp|chf|sek|nok|dkk)", columns["price"] or "", re.I)
    return Prices(steps["price"], steps["carbon"], unit[1].upper() if unit else "")


def read_cap(text: str) -> Stepwise:
    """Read a cap in W: "2.4MW", or a CSV of times and caps whose column's name ends in its unit (cap_mw) or whose values have
    one. Raises InputError."""
    if parsed := POWER.fullmatch(text.strip()):
        value = float(parsed[1]) * UNITS[parsed[2].lower()]
        if value <= 0:
            raise InputError(f"--cap {text!r}: more than 0 W is expected")
        return Stepwise(np.array([-np.inf]), np.array([value]))
    if not text.lower().endswith((".csv", ".csv.gz", ".txt")):
        raise InputError(f"--cap {text!r}: a power such as 2.4MW is expected, or a CSV file of times and caps")
    names, rows = _rows(text)
    column = _column(names, MEANS["cap"], text)
    if not column:
        raise InputError(f"{text}:1: no column of caps among {', '.join(names)}; name it cap_mw, cap_kw or cap_w")
    unit = re.search(r"[_ (\[]([kmg]?w)\b", column.lower())
    steps = _steps(text, names, rows, column, least=0.0, unit=UNITS[unit[1]] if unit else None)
    assert steps is not None
    return steps


def _rows(path: str) -> tuple[list[str], list[tuple[int, list[str]]]]:
    """(names, (line, cells) of each row that is not empty)."""
    lines = list(csv.reader(io.StringIO(read_text(path).lstrip("\ufeff"))))
    rows = [(i, [c.strip() for c in row]) for i, row in enumerate(lines, 1) if any(c.strip() for c in row)]
    rows = [(i, row) for i, row in rows if not row[0].startswith("#")]
    if len(rows) < 2:
        raise InputError(f"{path}: a line of names and a row for each hour are expected, e.g. time,price")
    return rows[0][1], rows[1:]


def _column(names: Sequence[str], means: re.Pattern, path: str) -> str:
    """The name of the column of a meaning; "": there is none. Raises InputError for two."""
    fits = [n for n in names if means.search(n) and not TIME.fullmatch(n)]
    if len(fits) > 1:
        raise InputError(f"{path}:1: {' and '.join(fits)} could both be meant; keep one")
    return fits[0] if fits else ""


def _steps(
    path: str, names: list[str], rows: list, column: str, least: float | None, unit: float | None = 1.0
) -> Stepwise | None:
    """The values of a column over time; None for no column. `unit` None: each value says it."""
    if not column:
        return None
    clock = next((n for n in names if TIME.match(n) and n != column), None)
    if clock is None:
        raise InputError(f"{path}:1: no column of times among {', '.join(names)}; name it time")
    when, what = names.index(clock), names.index(column)
    time, value = np.empty(len(rows)), np.empty(len(rows))
    for k, (line, cells) in enumerate(rows):
        if len(cells) != len(names):
            raise InputError(f"{path}:{line}: {len(cells)} cells; {len(names)} are expected")
        time[k] = moment(cells[when], f"{path}:{line}")
        value[k] = _number(cells[what], f"{path}:{line}: {column}", least, unit)
        if k and time[k] <= time[k - 1]:
            why = "twice" if time[k] == time[k - 1] else f"after {rows[k - 1][1][when]}"
            text = f"{path}:{line}: {cells[when]} comes {why}; rows are in order of time, each with one time"
            raise InputError(f"{text} (a local clock has an hour twice when daylight saving ends: write UTC)")
    return Stepwise(time, value, _gaps(path, time, rows))


def _gaps(path: str, time: np.ndarray, rows: list) -> tuple[str, ...]:
    """Say in one line where rows are missing, by the step that most rows have."""
    step = np.diff(time)
    if len(step) < 3:
        return ()
    usual = float(np.median(step))
    wide = np.flatnonzero(step > 1.5 * usual)
    if not len(wide) or (np.abs(step - usual) < 1.0).mean() < 0.5:
        return ()
    k = int(wide[0])
    text = f"{path}: {len(wide)} gaps, the first of {step[k] / 3600:g} h behind line {rows[k][0]}: the value before it holds on"
    return (f"{text} (a local clock leaves an hour out when daylight saving begins: write UTC)",)


def _number(text: str, where: str, least: float | None, unit: float | None) -> float:
    parsed = POWER.fullmatch(text)
    if unit is None or parsed:
        if not parsed:
            raise InputError(
                f"{where} is {plain(text)[:30]!r}; a power with its unit is expected, e.g. 2.4MW, or a column cap_mw"
            )
        return float(parsed[1]) * UNITS[parsed[2].lower()]
    try:
        value = float(text)
    except ValueError:
        raise InputError(f"{where} is {plain(text)[:30]!r}; a number is expected") from None
    if not np.isfinite(value) or (least is not None and value < least):
        raise InputError(
            f"{where} is {plain(text)[:30]}; a finite number{' of at least 0' if least is not None else ''} is expected"
        )
    return value * unit


def moment(text: str, where: str) -> float:
    """Return a time in s since 1970: ISO 8601, with a zone or in UTC, or s. Raises InputError."""
    try:
        if re.fullmatch(r"\d{9,12}(\.\d+)?", text):
            return float(text)
        stamp = datetime.fromisoformat(text)
        return (stamp if stamp.tzinfo else stamp.replace(tzinfo=UTC)).timestamp()
    except ValueError:
        raise InputError(f"{where}: {plain(text)[:40]!r} is no time; UTC such as 2026-11-29T13:00Z is expected") from None


def write_prices(path: str, begin: float, price: np.ndarray, carbon: np.ndarray) -> None:
    """Write hourly prices and intensities [H] from `begin` (s since 1970) on."""
    first = datetime.fromtimestamp(begin, UTC)
    with open(path, "w", newline="") as file:
        file.write("time,price,carbon\n")
        for k, (p, c) in enumerate(zip(price, carbon, strict=True)):
            file.write(f"{(first + timedelta(hours=k)).strftime('%Y-%m-%dT%H:%MZ')},{p:.5f},{c:.1f}\n")

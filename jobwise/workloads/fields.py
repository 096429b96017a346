"""Texts of a table as numbers: times, durations, amounts, counts, states. What cannot be read is NaN, and marked."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

MISSING = ("", "null", "none", "nan", "n/a", "na", "unknown", "-", "--", "\\n", "undefined", "nat", "-1", "partition_limit")
SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9, "minutes": 60.0, "hours": 3600.0, "days": 86400.0}
MEGABYTES = {"bytes": 1e-6, "kb": 1e-3, "mb": 1.0, "gb": 1e3, "tb": 1e6, "kib": 1.024e-3, "mib": 1.048576, "gib": 1073.741824}
MEMORY = {"": 1.0, "b": 1e-6, "k": 1.024e-3, "m": 1.048576, "g": 1073.741824, "t": 1099511.627776}  # suffixes of schedulers
WORDS = {  # a state by how it begins, in lower case -> the status of SWF; None: it has not ended
    **dict.fromkeys(("complet", "pass", "succe", "terminated", "done", "finished", "cd", "jobend"), 1),
    **dict.fromkeys(("cancel", "kill", "delet", "abort", "stopped", "ca", "revoked", "removed"), 5),
    **dict.fromkeys(("running", "pend", "queued", "wait", "suspend", "idle", "held", "requeue", "requested", "launch"), None),
    **dict.fromkeys(("pd",), None),
}
CODES = {"0": None, "1": None, "2": None, "3": 1, "4": 5, "5": 0, "6": 0, "7": 0, "8": 0, "9": 0, "10": 0, "11": 0}  # Slurm's
USUAL = (
    r"^(?P<day>\d{4}-\d\d-\d\d)(?:[T ](?P<time>\d\d:\d\d(?::\d\d)?))?"
    r"(?P<part>\.\d+)?\s*(?P<zone>Z|UTC|[+-]\d\d(?::?\d\d)?)?$"
)

NEVER = ("", "UNLIMITED", "INFINITE", "NONE", "N/A", "(NULL)", "-1")  # no limit, nothing


class Read(NamedTuple):
    """Numbers [N] of texts (NaN: not said), and which of the texts are none [N]."""

    values: np.ndarray
    bad: np.ndarray


def _plain(texts: pa.Array) -> tuple[pa.Array, np.ndarray]:
    """(the texts without spaces around them, which say nothing [N])."""
    texts = pc.fill_null(pc.utf8_trim_whitespace(texts), "")
    return texts, pc.is_in(pc.utf8_lower(texts), pa.array(MISSING)).to_numpy(zero_copy_only=False)


def _numbers(texts: pa.Array, none: np.ndarray) -> np.ndarray:
    """[N] the texts that are plain numbers; NaN for others."""
    simple = pc.match_substring_regex(texts, r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$").to_numpy(zero_copy_only=False) & ~none
    some = pc.if_else(pa.array(simple), texts, pa.scalar(None, pa.string()))
    values = pc.fill_null(pc.cast(some, pa.float64()), np.nan).to_numpy(zero_copy_only=False).astype(float)
    return np.where(np.isfinite(values), values, np.nan)  # 1e400 is none


def _by_text(texts: pa.Array, values: np.ndarray, none: np.ndarray, read: Callable[[str], float]) -> Read:
    """Fill what is NaN still and not missing by `read` of each different text (ValueError, NaN: it is none)."""
    left = np.flatnonzero(np.isnan(values) & ~none)
    if not len(left):
        return Read(values, np.zeros(len(values), bool))
    coded = pc.dictionary_encode(texts.take(pa.array(left)))
    each = np.full(len(coded.dictionary), np.nan)
    for i, text in enumerate(coded.dictionary.to_pylist()):
        with suppress(ValueError, OverflowError):
            each[i] = read(text)
    values[left] = each[coded.indices.to_numpy()]
    return Read(values, np.isnan(values) & ~none)


def times(texts: pa.Array, unit: str = "s") -> Read:
    """s since 1970 of times: numbers in `unit`, 2026-01-31 23:59:59 with or without fractions and offset, or as `unit`, a
    format of strptime, says."""
    texts, none = _plain(texts)
    if "%" in unit:
        values = np.where(none, np.nan, stamps(texts, unit))
        return Read(values, np.isnan(values) & ~none)
    values = _numbers(texts, none) * SECONDS[unit]
    parts = pc.extract_regex(texts, USUAL)
    day, clock, fraction, zone = (pc.struct_field(parts, k) for k in ("day", "time", "part", "zone"))
    clock = pc.if_else(pc.equal(clock, ""), "00:00", clock)
    clock = pc.if_else(pc.equal(pc.utf8_length(clock), 5), pc.binary_join_element_wise(clock, ":00", ""), clock)
    moments = stamps(pc.binary_join_element_wise(day, clock, "T"), "%Y-%m-%dT%H:%M:%S")
    if (is_moment := ~np.isnan(moments)).any():
        moments += _by_dictionary(fraction, lambda x: float(x) if x else 0.0)
        moments -= _by_dictionary(zone, _offset)
        values = np.where(is_moment, moments, values)
    return Read(values, np.isnan(values) & ~none)


def stamps(texts: pa.Array, form: str) -> np.ndarray:
    """Return [N] s since 1970 of texts in a format of strptime; NaN for others, and for days that are none (31 February)."""
    moments = pc.strptime(texts, format=form, unit="s", error_is_null=True)
    values = (
        pc.fill_null(pc.cast(pc.cast(moments, pa.int64()), pa.float64()), np.nan).to_numpy(zero_copy_only=False).astype(float)
    )
    early = np.flatnonzero(pc.fill_null(pc.less_equal(pc.day(moments), 3), False).to_numpy(zero_copy_only=False))
    if len(early) and "%d" in form:  # such a day is read as one of the first of the next month
        again = pc.strftime(moments.take(pa.array(early)), format=form)
        values[early[~pc.equal(again, texts.take(pa.array(early))).to_numpy(zero_copy_only=False)]] = np.nan
    return values


def _by_dictionary(texts: pa.Array, read: Callable[[str], float]) -> np.ndarray:
    coded = pc.dictionary_encode(pc.fill_null(texts, ""))
    return np.array([read(x) for x in coded.dictionary.to_pylist()], float)[coded.indices.to_numpy()]


def _offset(text: str) -> float:
    """Return the s of an offset such as +08:00."""
    if text in ("", "Z", "UTC"):
        return 0.0
    digits = text[1:].replace(":", "")
    if int(digits[:2]) > 14 or int(digits[2:] or 0) > 59:
        return np.nan
    return (1 if text[0] == "+" else -1) * (int(digits[:2]) * 3600.0 + int(digits[2:] or 0) * 60.0)


def durations(texts: pa.Array, unit: str = "s") -> Read:
    """s of durations: numbers in `unit`, [days-]hours:minutes[:seconds], or "1 days 02:00:00"."""
    texts, none = _plain(texts)
    values = _numbers(texts, none) * SECONDS[unit]
    return _by_text(texts, values, none, duration)


def duration(text: str) -> float:
    """s of [days-]hours:minutes[:seconds], or "1 day, 2:00:00"; inf for no limit. Raises ValueError."""
    if text.lower() in ("unlimited", "infinite", "infinity"):
        return float("inf")
    parsed = re.fullmatch(r"(?:(\d+)(?:-| days?,? ?|:(?=\d+:\d+:\d+$)))?(\d+):(\d+)(?::(\d+(?:\.\d+)?))?", text)
    if not parsed:
        raise ValueError(text)
    days, hours, minutes, seconds = (float(x or 0) for x in parsed.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds


def amounts(texts: pa.Array, unit: str = "mb") -> Read:
    """MB of memory: numbers in `unit`, or with a suffix, as 4000M, 16Gn, 3gb (times 1,024)."""
    texts, none = _plain(texts)
    values = _numbers(texts, none) * MEGABYTES[unit]
    return _by_text(texts, values, none, memory)


def memory(text: str) -> float:
    """MB of 4000M, 16Gn, 3gb, 2Gi. Raises ValueError."""
    parsed = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([bkmgtBKMGT]?)(?:i?[bB]?)[nc]?", text)
    if not parsed:
        raise ValueError(text)
    return float(parsed[1]) * MEMORY[parsed[2].lower()]


def gpus_in(text: str) -> int:
    """Return the number of GPUs in a list of trackable resources: gres/gpu=4, or the sum of its types, gres/gpu:a100=4."""
    parsed = re.findall(r"(?:gres/)?gpu(:[^=:,]+)?[=:](\d+)", text)
    return sum(int(n) for kind, n in parsed if not kind) or sum(int(n) for kind, n in parsed if kind)


def counts(texts: pa.Array, unit: str = "") -> Read:
    """Counts: numbers, times `unit` where it is a number; of `tres:KEY` what stands behind KEY= in a list;
    of `gres` GPUs in a list, as gpu:a100:2."""
    texts, none = _plain(texts)
    if unit == "gres":
        return Read(np.where(none, 0.0, _by_dictionary(texts, gpus_in)), np.zeros(len(texts), bool))
    if unit.startswith("tres:"):
        pattern = rf"(?:^|[,+\s]){re.escape(unit[5:])}[=:](?P<n>\d+(?:\.\d+)?)"
        match = pc.struct_field(pc.extract_regex(texts, pattern), "n")
        values = pc.fill_null(pc.cast(match, pa.float64()), 0.0).to_numpy(zero_copy_only=False).astype(float)
        return Read(np.where(none, np.nan, values), np.zeros(len(values), bool))
    values = _numbers(texts, none) * float(unit or 1.0)
    return Read(values, np.isnan(values) & ~none)


def statuses(texts: pa.Array, unit: str = "") -> tuple[np.ndarray, np.ndarray]:
    """([N] the status of SWF: 1 ended well, 0 failed, 5 cancelled, -1 not said; which have not ended [N]). `unit`: "slurm" for
    Slurm's numbers of states, "swf" for SWF's own."""
    texts, none = _plain(texts)
    if unit == "swf":
        values = _numbers(texts, none)
        return np.where(np.isin(values, (0, 1, 5)), values, -1.0), np.zeros(len(values), bool)
    codes = CODES if unit == "slurm" else {}
    coded = pc.dictionary_encode(pc.utf8_lower(texts))
    words = [codes.get(x, next((v for k, v in WORDS.items() if x.startswith(k)), 0)) for x in coded.dictionary.to_pylist()]
    open_ = np.array([w is None for w in words], bool)
    status = np.array([-1 if w is None else w for w in words], float)
    which = coded.indices.to_numpy()
    return np.where(none, -1.0, status[which]), open_[which] & ~none


def said(text: str) -> str:
    """The text, "" where it says that there is nothing."""
    return "" if text.strip().upper() in NEVER else text.strip()


def seconds(text: str) -> float:
    """[days-]hours:minutes:seconds, or minutes; inf where there is no limit."""
    if not said(text):
        return np.inf
    if not re.fullmatch(r"(\d+-)?\d+(:\d+){0,2}", text.strip()):
        raise ValueError(f"{text[:30]!r} is no time")
    days, _, rest = text.strip().rpartition("-")
    parts = [float(x) for x in rest.split(":")]
    if len(parts) == 1:
        return float(days) * 86_400 + parts[0] * 3600 if days else parts[0] * 60
    if len(parts) == 2:
        parts = [*parts, 0.0] if days else [0.0, *parts]
    return float(days or 0) * 86_400 + parts[0] * 3600 + parts[1] * 60 + parts[2]

"""Slurm accounting: the text of `sacct -P` (fields by name, in any order, extra ones ignored) as a workload."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from jobwise.cluster import pool
from jobwise.errors import InputError
from jobwise.workload import Workload
from jobwise.workloads.swf import COLUMNS, from_table, read_text

FIELDS = "JobIDRaw,JobID,User,Account,Partition,QOS,State,Submit,Eligible,Start,End,ElapsedRaw,TimelimitRaw"
FIELDS += ",NNodes,NCPUS,ReqCPUS,AllocTRES"
_STATUS = {"COMPLETED": 1, "CANCELLED": 5, "FAILED": 0, "TIMEOUT": 0, "NODE_FAIL": 0, "OUT_OF_MEMORY": 0, "PREEMPTED": 0}
NOT_ENDED = {"RUNNING", "PENDING", "SUSPENDED", "REQUEUED", "RESIZING", "COMPLETING", "CONFIGURING"}
UNLIMITED = 365 * 86400.0
READING = (
    "Processors = allocated CPUs, else requested; walltime = time limit (unlimited: 365 days); run time = elapsed, pauses not "
    "counted; a job is submitted when it becomes eligible; times as printed, without time zone.",
    "Partitions, memory, GPUs (but with --racks), node boundaries, QOS, dependencies and reservations are not replayed.",
)


def command(start: str = "2026-01-01", end: str = "now") -> str:
    """The sacct command whose output `read_sacct` wants: all users' jobs, without steps. Raises InputError for days that are
    none."""
    for name, day in (("--start", start), ("--end", end)):
        if day != "now" and np.isnan(_day(day)):
            raise InputError(f"{name} {day!r}: a day of the calendar is expected, e.g. 2026-01-31")
    if "now" not in (start, end) and _day(start) > _day(end):
        raise InputError(f"--start {start} is after --end {end}")
    return f"sacct -a -X -P -S {start} -E {end} -o {FIELDS} > jobs.sacct"


def _day(text: str) -> float:
    """s since 1970 of YYYY-MM-DD[THH:MM:SS]; NaN for a day that is none."""
    try:
        return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() if text[:4].isdigit() else float("nan")
    except ValueError:
        return float("nan")


def is_sacct(text: str) -> bool:
    """Does the text begin like sacct's parsable output?"""
    head = text[:4096].split("\n", 1)[0]
    return "|" in head and "JobID" in head


def nearly(text: str, where: str) -> None:
    """Raises InputError where the text looks like sacct's output, but not in the form that can be read: by commas, by columns,
    or without the line of names."""
    head = text[:4096].split("\n", 1)[0]
    advice = f"write it with {command()!r}"
    if "JobID" in head and "|" not in head:
        raise InputError(
            f"{where}:1: sacct's columns are separated by {'commas' if ',' in head else 'spaces'}; '|' is expected: {advice}"
        )
    if head.count("|") >= 5:
        raise InputError(f"{where}:1: looks like sacct's output without the line of names (option -n); {advice}")


def read_sacct(path: str | Path, procs: int | None = None) -> Workload:
    """Read `sacct -P` output. A job enters the queue when it is *Eligible*; its run time is *Elapsed* (pauses not counted).

    Steps (`12.batch`) and jobs that never started or have not ended are left out and counted. Array tasks are jobs.
    `procs`: size of the machine in CPUs; without it, the most that ever ran at once. Raises InputError with file:line.
    """
    return from_text(read_text(path), str(path), procs)


def from_text(text: str, where: str, procs: int | None = None) -> Workload:
    """As `read_sacct`, from text; `where` is the name used in messages."""
    lines = text.splitlines()
    if not lines or not is_sacct(text):
        raise InputError(f"{where}:1: no sacct header; expected names separated by |, as {command()!r} writes them")
    names = [n.strip() for n in lines[0].rstrip("|").split("|")]
    at = {n: i for i, n in enumerate(names)}
    for need in (
        ("JobIDRaw", "JobID"),
        ("Submit", "Eligible"),
        ("Start",),
        ("End", "ElapsedRaw", "Elapsed"),
        ("NCPUS", "AllocCPUS", "ReqCPUS"),
    ):
        if not any(n in at for n in need):
            raise InputError(f"{where}:1: the header has no column {' or '.join(need)}; run {command()!r}")
    table, reasons, ids = [], {}, {"User": {}, "Account": {}, "Partition": {}, "QOS": {}}

    def drop(reason: str) -> None:
        reasons[reason] = reasons.get(reason, 0) + 1

    def field(row: list[str], *which: str) -> str:
        return next((row[at[n]].strip() for n in which if n in at and row[at[n]].strip()), "")

    for number, line in enumerate(lines[1:], 2):
        if not line.strip():
            continue
        row = line.split("|")
        if len(row) < len(names):
            raise InputError(f"{where}:{number}: {len(row)} fields; the header names {len(names)}")
        name = field(row, "JobIDRaw", "JobID")
        if "." in name or "." in field(row, "JobID"):
            drop("job steps")
            continue
        state = field(row, "State").split(" ")[0].rstrip("+").upper()
        start = stamp(field(row, "Start"), where, number, "Start")
        submit = stamp(field(row, "Submit") or field(row, "Eligible"), where, number, "Submit")
        eligible = stamp(field(row, "Eligible"), where, number, "Eligible")
        if np.isnan(start):
            drop("never started")
            continue
        if state in NOT_ENDED:
            drop("not ended")
            continue
        run = _elapsed(row, field, where, number, start)
        limit = _limit(field, row, where, number, run)
        cpus = _integer(field(row, "NCPUS", "AllocCPUS", "ReqCPUS"), where, number, "NCPUS")
        asked = _integer(field(row, "ReqCPUS", "NCPUS", "AllocCPUS"), where, number, "ReqCPUS")
        queued = submit if np.isnan(eligible) or eligible < submit else eligible
        if np.isnan(queued) or queued > start:
            queued = start
        gpus = gpus_in(field(row, "AllocTRES", "ReqTRES", "AllocGRES", "ReqGRES"))
        digits = re.match(r"\d+", name)
        known = [_number(ids[key], field(row, key, *(["Group"] if key == "Account" else []))) for key in ids]
        size = max(cpus, asked) if cpus <= 0 else cpus
        job = float(digits[0]) if digits else -1
        row = [job, queued, start - queued, run, cpus, -1, -1, size, limit, -1, _STATUS.get(state, 0)]
        table.append([*row, known[0], known[1], -1, known[3], known[2], -1, -1, gpus])
    if not table:
        raise InputError(f"{where}: no job that ran ({', '.join(f'{n} {r}' for r, n in reasons.items()) or 'no rows'})")
    data = np.array(table)
    peak = _peak(data)
    if procs and procs < data[:, COLUMNS.index("allocated")].max():
        largest = int(data[:, COLUMNS.index("allocated")].max())
        raise InputError(f"{where}: a machine of {procs} processors cannot run its largest job ({largest})")
    w = from_table(
        data,
        [f"; Computer: Slurm accounting {Path(where).name}"],
        name=Path(where).stem,
        where=where,
        cluster=pool(procs or peak),
        more=("gpus",),
    )
    w.dropped.update({**reasons, **w.dropped})
    if not procs:
        w.notes[f"processors guessed from the most in use at once, {peak:,} (--procs sets them)"] = 1
    known = {"user": ids["User"], "group": ids["Account"], "queue": ids["QOS"], "partition": ids["Partition"]}
    return replace(w, reading=READING, names={k: {n: name for name, n in v.items()} for k, v in known.items()})


def stamp(text: str, where: str, number: int, name: str) -> float:
    """s since 1970 of a time stamp as sacct prints it (local time, or seconds); NaN for Unknown and None."""
    if text in ("", "Unknown", "None", "N/A"):
        return float("nan")
    if text.isascii() and text.isdigit() and 9 <= len(text) <= 11:
        return float(text)
    try:
        if len(text) < 10 or not text[:4].isdigit():
            raise ValueError(text)
        seconds = _day(text)
        if not 0 <= seconds < 4e9:  # 1970 to 2096
            raise ValueError(text)
        return seconds
    except ValueError:
        raise InputError(f"{where}:{number}: {name} is {text[:30]!r}; expected 2026-01-31T23:59:59 or Unknown") from None


def _integer(text: str, where: str, number: int, name: str) -> int:
    if not re.fullmatch(r"\d{1,9}", text or "0"):
        raise InputError(f"{where}:{number}: {name} is {text[:30]!r}; a whole number is expected")
    return int(text or 0)


def _duration(text: str) -> float | None:
    """s of [days-]hours:minutes:seconds; None where the text is no duration."""
    found = re.fullmatch(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+(?:\.\d+)?)", text)
    if not found:
        return None
    days, hours, minutes, seconds = (float(x or 0) for x in found.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds


def _elapsed(row: list[str], field, where: str, number: int, start: float) -> float:
    text = field(row, "ElapsedRaw")
    if text:
        return float(_integer(text, where, number, "ElapsedRaw"))
    text = field(row, "Elapsed")
    if text:
        seconds = _duration(text)
        if seconds is None:
            raise InputError(f"{where}:{number}: Elapsed is {text[:30]!r}; expected [days-]hours:minutes:seconds")
        return seconds
    return stamp(field(row, "End"), where, number, "End") - start


def _limit(field, row: list[str], where: str, number: int, run: float) -> float:
    text = field(row, "TimelimitRaw", "Timelimit")
    if text.isdigit():
        return float(text) * 60
    if text == "UNLIMITED":
        return max(UNLIMITED, run)
    return _duration(text) or -1.0  # Partition_Limit, INVALID, nothing: unknown


def gpus_in(text: str) -> int:
    """How many GPUs a list of trackable resources has: gres/gpu=4, or the sum of its types, gres/gpu:a100=4."""
    found = re.findall(r"(?:gres/)?gpu(:[^=:,]+)?[=:](\d+)", text)
    return sum(int(n) for kind, n in found if not kind) or sum(int(n) for kind, n in found if kind)


def _number(known: dict[str, int], name: str) -> int:
    """A number for each name, in order of appearance; -1 for none."""
    return known.setdefault(name, len(known) + 1) if name else -1


def _peak(data: np.ndarray) -> int:
    """Most CPUs in use at once, by the recorded starts; at least the largest job."""
    begin = data[:, COLUMNS.index("submit")] + data[:, COLUMNS.index("wait")]
    size = np.maximum(data[:, COLUMNS.index("allocated")], 0)
    when = np.concatenate([begin, begin + data[:, COLUMNS.index("run")]])
    change = np.concatenate([size, -size])
    order = np.lexsort((change, when))
    return max(int(np.cumsum(change[order]).max()), int(size.max()), 1)

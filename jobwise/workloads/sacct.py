"""Slurm accounting: the text of `sacct -P` (fields by name, in any order, extra ones ignored) as a workload."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from jobwise.cluster import pool
from jobwise.errors import InputError
from jobwise.workload import Workload
from jobwise.workloads import opened, slurm_json
from jobwise.workloads.accounting import FREE, Accounting, forgiving, left_out, names_of, read
from jobwise.workloads.fields import gpus_in
from jobwise.workloads.jobtable import sized_for
from jobwise.workloads.logfile import LogFile
from jobwise.workloads.opened import read_text
from jobwise.workloads.swf import COLUMNS, from_table

ENERGY = "ConsumedEnergyRaw"  # J, where the site counts it
FIELDS = "JobIDRaw,JobID,User,Account,Partition,QOS,State,Submit,Eligible,Start,End,ElapsedRaw,TimelimitRaw"
FIELDS += ",NNodes,NCPUS,ReqCPUS,AllocTRES"
USED = {*FIELDS.split(","), "Group", "Elapsed", "Timelimit", "AllocCPUS", "ReqTRES", "AllocGRES", "ReqGRES", "SubmitLine"}
USED |= {ENERGY}
XDMOD = (
    "JobID JobIDRaw Cluster Partition QOS Account Group GID User UID Submit Eligible Start End Elapsed ExitCode State".split()
)
XDMOD += "NNodes NCPUS ReqCPUS ReqMem ReqTRES AllocTRES Timelimit NodeList JobName".split()
ROW = re.compile(rb"\n(?=\d[\d_+.\[\],%-]*\|)")  # where a row begins
NONE = np.zeros((0, len(COLUMNS) + 3))
TAIL = 1 << 20  # bytes at the end of a block in which one is looked for
ONCE = r"\s--no-requeue(\s|$)"  # in the command line of a job that must not be begun again
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
        moment = datetime.fromisoformat(text) if text[:4].isdigit() else None
        return float("nan") if moment is None else (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except ValueError:
        return float("nan")


def is_sacct(text: str) -> bool:
    """Does the text begin like sacct's parsable output?"""
    head = text[:4096].split("\n", 1)[0]
    return "|" in head and "JobID" in head


def knows(f: LogFile) -> bool:
    """Return whether the file begins like sacct's output in any form: also by commas, by columns, without the line of names."""
    return f.line.lstrip()[:1] not in ("{", "[", '"') and ("JobID" in f.line or f.line.count("|") >= 5)


def knows_json(f: LogFile) -> bool:
    """Return whether the file is Slurm's JSON of jobs: of sacct or slurmdb REST, or of squeue, which is refused by its name."""
    return "job_id" in f.keys and bool({"time", "job_state"} & set(f.keys))


def of_file(f: LogFile) -> Workload:
    """Read the jobs of a file, part by part; where it lacks the line of names, by those of `fields`, or as XDMoD keeps them.
    Raises InputError."""
    names = canonical(f.fields)
    if not is_sacct(f.head) and "JobID" not in f.line:
        names = names or xdmod(f.line)
    if not names:
        _checked(f.head, f.source)
    with f.open() as file:
        return _in_parts(opened.blocks(file, f.source), f.source, names, f.procs, f.cluster)


def of_json(f: LogFile) -> Workload:
    """Read the jobs of Slurm's JSON. Raises InputError."""
    if "job_state" in f.keys:
        raise InputError(f"{f.source}: is squeue's JSON, of jobs that wait and run; sacct --json has those that ended")
    rows = [x for x in f.objects if not f.cluster or str(x.get("cluster")) == f.cluster]
    other = {f"of another cluster than {f.cluster}": len(f.objects) - len(rows)} if f.cluster else {}
    if not rows:
        raise InputError(f"{f.source}: no job of cluster {f.cluster!r}")
    part = forgiving(slurm_json.of_jobs(rows, f.source), _part)
    return _log([part, SacctPart(NONE, {}, {k: n for k, n in other.items() if n})], f.source, f.procs)


def canonical(fields: str) -> list[str]:
    """Return the columns that `--fields` names, as sacct spells them. Raises InputError where a job's id is not among them."""
    own = {x.lower(): x for x in {*USED, *FREE, *XDMOD}}
    names = [own.get(x.lower(), x) for x in re.split(r"[|,\s]+", fields) if x]
    if names and not {"JobID", "JobIDRaw"} & set(names):
        raise InputError(f"--fields {fields!r}: names of sacct's columns are expected, JobID among them")
    return names


def xdmod(line: str) -> list[str]:
    """Return the names of the columns that XDMoD has sacct print without names, none for another line: 26, or 25 in old
    ones, which had no QOS."""
    x = line.split("|")
    for names in (XDMOD, [n for n in XDMOD if n != "QOS"]):
        at = names.index("Submit")
        if len(x) >= len(names) and re.match(r"\d{4}-\d\d-\d\dT", x[at]) and x[0][:1].isdigit():
            return names
    return []


def _checked(text: str, where: str) -> None:
    """Raises InputError where the text is not in the form of sacct's output that can be read."""
    head = text[:4096].split("\n", 1)[0]
    advice = f"write it with {command()!r}"
    if "JobID" in head and "|" not in head:
        between = "commas" if "," in head else "spaces"
        raise InputError(f"{where}:1: sacct's columns are separated by {between}; '|' is expected: {advice}")
    if not is_sacct(text) and head.count("|") >= 5:
        raise InputError(f"{where}:1: looks like sacct's output without the line of names (option -n); {advice}")
    if not is_sacct(text):
        raise InputError(f"{where}:1: no sacct header; expected names separated by |, as {command()!r} writes them")


def read_sacct(path: str | Path, procs: int | None = None) -> Workload:
    """Read the output of ``sacct -P``.

    A job enters the queue when it is *Eligible*. Its run time is *Elapsed*: pauses do not count. Array tasks are jobs. Steps
    (``12.batch``), jobs that never started and jobs that have not ended are left out and counted in `Workload.dropped`.

    Parameters
    ----------
    path : str or Path
        The file, plain, .gz or .xz; ``-`` for standard input.
    procs : int, optional
        CPUs of the machine; by default the most that ever ran at once.

    Returns
    -------
    Workload

    Raises
    ------
    InputError
        The file cannot be read; the message begins with ``file:line``.
    """
    return from_text(read_text(path), str(path), procs)


def from_text(text: str, where: str, procs: int | None = None) -> Workload:
    """Read a log as `read_sacct` does, from text; `where` is the name used in messages."""
    _checked(text, where)
    return _in_parts(iter([text.encode()]), where, [], procs)


def _in_parts(blocks: Iterator[bytes], where: str, names: list[str], procs: int | None, cluster: str = "") -> Workload:
    """The workload of blocks of whole lines; `names`: of columns, where the first line has none; `cluster`: of all jobs. Raises
    InputError."""
    parts, skip, header = list[SacctPart](), -1 if names else 0, "|".join(names)
    for block in _rows_of(blocks):
        text = opened.decoded(block)
        if not header:
            header, _, text = text.partition("\n")
            _complete(names_of(header), where)
        a = read(f"{header}\n{text}", where, {*USED, *FREE, "Cluster"}, skip)
        skip += text.count("\n")
        if cluster and not a.has("Cluster"):
            raise InputError(f"{where}: its header has no column Cluster, which --cluster asks for")
        if cluster:
            other = ~a.matches(f"^{re.escape(cluster)}$", "Cluster")
            parts.append(SacctPart(NONE, {}, {f"of another cluster than {cluster}": int(other.sum())} if other.any() else {}))
            a = a.take(~other)
        parts.append(forgiving(a, _part) if len(a) else SacctPart(NONE, {}, left_out(a)))
    return _log(parts, where, procs)


def _rows_of(blocks: Iterator[bytes]) -> Iterator[bytes]:
    """Blocks that end where a row does: a user's text may hold ends of lines."""
    block = next(blocks, b"")
    for following in blocks:
        at = max((x.start() + 1 for x in ROW.finditer(block, max(len(block) - TAIL, 0))), default=len(block))
        yield block[:at]
        block = block[at:] + following
    yield block


def _complete(names: list[str], where: str) -> None:
    """Raises InputError where a column is missing that every log needs."""
    for need in (
        ("JobIDRaw", "JobID"),
        ("Submit", "Eligible"),
        ("Start",),
        ("End", "ElapsedRaw", "Elapsed"),
        ("NCPUS", "AllocCPUS", "ReqCPUS"),
    ):
        if not any(n in names for n in need):
            raise InputError(f"{where}:1: the header has no column {' or '.join(need)}; run {command()!r}")


class SacctPart(NamedTuple):
    """Jobs of a part of a log: columns of SWF, GPUs, --no-requeue and J [N, 21]; names by column [N]; rows left out by
    reason."""

    table: np.ndarray
    who: dict[str, tuple[np.ndarray, list[str]]]
    left: dict[str, int]


def _part(a: Accounting) -> SacctPart:
    """The jobs of a part that ran. Raises Unreadable."""
    unread = left_out(a)
    try:
        a, start, dropped = ran(a)
    except Nothing as error:
        return SacctPart(NONE, {}, error.dropped | unread)
    table, who = _table(a, start)
    return SacctPart(table, who, dropped | unread)


def _log(parts: list[SacctPart], where: str, procs: int | None) -> Workload:
    """The workload of the parts of a table of sacct. Raises InputError."""
    left: dict[str, int] = {}
    for part in parts:
        for reason, n in part.left.items():
            kind = next((k for k in left if k.startswith("that cannot be read") and reason.startswith("that cannot")), reason)
            left[kind] = left.get(kind, 0) + n
    full = [p for p in parts if len(p.table)]
    if not full:
        raise InputError(f"{where}: no job that ran ({', '.join(f'{n} {r}' for r, n in left.items()) or 'no rows'})")
    table = np.concatenate([p.table for p in full]) if len(full) > 1 else full[0].table
    ids: dict[str, list[str]] = {}
    for key in full[0].who:
        number: dict[str, int] = {}
        codes = []
        for which, texts in (p.who[key] for p in full):
            each = [number.setdefault(x, len(number) + 1) if x else -1 for x in texts]
            codes.append(np.array(each, float)[which])
        table[:, COLUMNS.index(key)], ids[key] = np.concatenate(codes), list(number)
    count, guess = sized_for(table, where, procs)
    w = from_table(
        table,
        [f"; Computer: Slurm accounting {Path(where).name}"],
        name=Path(where).stem,
        where=where,
        cluster=pool(count),
        more=("gpus", "once", "energy"),
    )
    if not (w.columns["energy"] > 0).any():
        w.columns.pop("energy")
    once = w.columns.pop("once") > 0
    if once.any():
        w.jobs["restartable"][once] = 0
        w.notes["must not be begun again (--no-requeue)"] = int(once.sum())
    w.dropped.update({**left, **w.dropped})
    w.notes.update(guess)
    return replace(w, reading=READING, names={k: dict(enumerate(v, 1)) for k, v in ids.items()})


class Nothing(InputError):
    """No job that ran: what was left out."""

    def __init__(self, message: str, dropped: dict[str, int]):
        super().__init__(message)
        self.dropped = dropped


def ran(a: Accounting) -> tuple[Accounting, np.ndarray, dict[str, int]]:
    """(rows of jobs that ran and have ended, and of a cluster in use those that wait or run; their starts (s, NaN: not yet);
    what was left out). Raises InputError where there is none."""
    dropped: dict[str, int] = {}

    def without(a: Accounting, bad: np.ndarray, reason: str) -> Accounting:
        if bad.any():
            dropped[reason] = int(bad.sum())
        return a.take(~bad) if bad.any() else a

    steps = a.matches(r"\.", "JobIDRaw", "JobID") | a.matches(r"\.", "JobID")
    a = without(_with_energy_of(a, steps) if steps.any() and a.has(ENERGY) else a, steps, "job steps")
    live = a.matches("^(PENDING|RUNNING)$", "State") & (a.now is not None)
    start = times(a, "Start")
    never = np.isnan(start) & ~live
    a, live, start = without(a, never, "never started"), live[~never], start[~never]
    which, states = a.distinct("State")
    states = [x.split(" ")[0].rstrip("+").upper() for x in states]
    open_ = np.array([x in NOT_ENDED for x in states], bool)[which]
    again = np.array([x == "REQUEUED" for x in states], bool)[which]
    if again.any():  # a run that was put back into the queue has ended, too
        open_ &= ~(again & ~np.isnan(times(a, "End")))
    a, start = without(a, open_ & ~live, "not ended"), start[~(open_ & ~live)]
    if not len(a):
        why = ", ".join(f"{n} {r}" for r, n in dropped.items()) or next(iter(a.unread), "no rows")
        raise Nothing(f"{a.where}: no job that ran ({why})", dropped)
    return a, start, dropped


def times(a: Accounting, *names: str) -> np.ndarray:
    """[J] s since 1970; NaN for none. Raises InputError."""
    return a.seconds(lambda text: _stamp(text, names[0]), *names)


def queued(a: Accounting, start: np.ndarray) -> np.ndarray:
    """[J] when each job could have started first (s since 1970): eligible, at least submitted, at most its start."""
    submit, eligible = times(a, "Submit", "Eligible"), times(a, "Eligible")
    since = np.where(np.isnan(eligible) | (eligible < submit), submit, eligible)
    return np.where(np.isnan(since) | (since > start), start, since)


def _table(a: Accounting, start: np.ndarray) -> tuple[np.ndarray, dict[str, tuple[np.ndarray, list[str]]]]:
    """(rows of COLUMNS, GPUs, --no-requeue and J; users, accounts, QOS and partitions: which of these names each row has)."""
    submit, run = queued(a, start), elapsed(a, start)
    cpus, asked = a.integers("NCPUS", "AllocCPUS", "ReqCPUS"), a.integers("ReqCPUS", "NCPUS", "AllocCPUS")
    table = np.full((len(a), len(COLUMNS) + 3), -1.0)
    put = {name: i for i, name in enumerate(COLUMNS)}
    table[:, put["job"]] = numbers_of(a)
    table[:, put["submit"]], table[:, put["wait"]], table[:, put["run"]] = submit, start - submit, run
    table[:, put["allocated"]] = cpus
    table[:, put["requested"]] = np.where(cpus <= 0, np.maximum(cpus, asked), cpus)
    table[:, put["walltime"]] = limits(a, run)
    table[:, put["status"]] = a.map(lambda x: _STATUS.get(x.split(" ")[0].rstrip("+").upper(), 0), "State")
    ids = {}
    for key, columns in (
        ("user", ("User",)),
        ("group", ("Account", "Group")),
        ("queue", ("QOS",)),
        ("partition", ("Partition",)),
    ):
        ids[key] = a.distinct(*columns)
    table[:, -1] = energy(a)
    table[:, -2] = a.matches(ONCE, "SubmitLine")
    table[:, -3] = a.map(gpus_in, "AllocTRES", "ReqTRES", "AllocGRES", "ReqGRES")
    return table, ids


def energy(a: Accounting) -> np.ndarray:
    """[J] J of jobs, where the site counts them; -1 where it is not known (0, or Slurm's own mark for it)."""
    column = a.text(ENERGY)
    known = pc.match_substring_regex(column, r"^[1-9]\d{0,14}$")
    return pc.cast(pc.if_else(known, column, "-1"), pa.float64()).to_numpy(zero_copy_only=False)


def _with_energy_of(a: Accounting, steps: np.ndarray) -> Accounting:
    """The rows with the J of a job's steps [J] bool where its own row has none: those of `extern`, which lasts as long as the
    job; else the larger one of `batch` and of all others together, for these are at the same time."""
    joules, names = energy(a).copy(), a.text("JobIDRaw", "JobID").to_pylist()
    of: dict[str, dict[str, float]] = {}
    rows = Counter(names[j] for j in np.flatnonzero(~steps).tolist())  # a job that was requeued has several: whose is a step?
    for j in np.flatnonzero(steps & (joules > 0)).tolist():
        job, _, step = names[j].partition(".")
        own = of.setdefault(job, {})
        kind = step if step in ("extern", "batch") else "steps"
        own[kind] = own.get(kind, 0.0) + joules[j]
    for j in np.flatnonzero(~steps & (joules <= 0)).tolist():
        own = of.get(names[j], {}) if rows[names[j]] == 1 else {}
        joules[j] = own.get("extern") or max(own.values(), default=-1.0)
    text = pa.array([f"{x:.0f}" if x > 0 else "" for x in joules.tolist()], pa.string())
    return replace(a, columns={**a.columns, ENERGY: text})


def numbers_of(a: Accounting) -> np.ndarray:
    """[J] the numbers of the jobs; -1 where they have none."""
    text = a.text("JobIDRaw", "JobID")
    digits = pc.struct_field(pc.extract_regex(text, r"^(?P<n>\d{1,15})"), "n")
    return pc.cast(pc.fill_null(digits, "-1"), pa.float64()).to_numpy()


def elapsed(a: Accounting, start: np.ndarray) -> np.ndarray:
    """[J] s that each job ran: ElapsedRaw, else Elapsed, else end - start. Raises InputError."""
    raw = a.has("ElapsedRaw") and ~a.matches("^$", "ElapsedRaw")
    if np.all(raw) and a.has("ElapsedRaw"):
        return a.integers("ElapsedRaw").astype(float)
    seconds = a.map(_elapsed, "Elapsed")
    end = times(a, "End")
    seconds = np.where(np.isnan(seconds), end - start, seconds)
    return np.where(raw, a.integers("ElapsedRaw") if a.has("ElapsedRaw") else 0.0, seconds)


def limits(a: Accounting, run: np.ndarray) -> np.ndarray:
    """[J] s, the time limits; at least the run time where there is none, -1 where it is not known."""
    seconds = a.map(_limit, "TimelimitRaw", "Timelimit")
    return np.where(np.isinf(seconds), np.maximum(UNLIMITED, run), seconds)


def _stamp(text: str, name: str) -> float:
    """s since 1970 of a time stamp as sacct prints it (local time, or seconds); NaN for none. Raises ValueError."""
    if text in ("", "Unknown", "None", "N/A"):
        return float("nan")
    if text.isascii() and text.isdigit() and 9 <= len(text) <= 11:
        return float(text)
    seconds = _day(text) if len(text) >= 10 and text[:4].isdigit() else float("nan")
    if not 0 <= seconds < 4e9:  # 1970 to 2096
        raise ValueError(f"{name} is {text[:30]!r}; expected 2026-01-31T23:59:59 or Unknown")
    return seconds


def _duration(text: str) -> float | None:
    """s of [days-]hours:minutes:seconds; None where the text is no duration."""
    parsed = re.fullmatch(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+(?:\.\d+)?)", text)
    if not parsed:
        return None
    days, hours, minutes, seconds = (float(x or 0) for x in parsed.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds


def _elapsed(text: str) -> float:
    """s of Elapsed; NaN for none. Raises ValueError."""
    if not text:
        return float("nan")
    seconds = _duration(text)
    if seconds is None:
        raise ValueError(f"Elapsed is {text[:30]!r}; expected [days-]hours:minutes:seconds")
    return seconds


def _limit(text: str) -> float:
    """s; inf without limit; -1 for what is not known (Partition_Limit, INVALID, nothing)."""
    if text.isascii() and text.isdigit():
        return float(text) * 60
    return float("inf") if text == "UNLIMITED" else _duration(text) or -1.0

"""Who goes where: jobs moved to another partition or QOS, and nodes kept for maintenance."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np

from jobwise.errors import InputError, unknown
from jobwise.site import closure_dtype
from jobwise.slurm.judge.site_lines import members_of
from jobwise.slurm.read.closures import AHEAD_S
from jobwise.slurm.read.unsimulated import names_in
from jobwise.workload import Workload
from jobwise.workloads.durations import SECONDS
from jobwise.workloads.fields import seconds

Compare = Callable[[np.ndarray, float], np.ndarray]
ORDERS: dict[str, Compare] = {"<=": operator.le, ">=": operator.ge, "!=": operator.ne, "<": operator.lt, ">": operator.gt}
ORDERS |= {"=": operator.eq}
NAMED = {"partition": "partition", "user": "user", "account": "group", "qos": "queue"}
COUNTED: dict[str, Callable[[Workload], np.ndarray]] = {
    "time": lambda w: w.jobs["walltime"],
    "cpus": lambda w: w.jobs["request"][:, 0],
    "gpus": lambda w: w.jobs["request"][:, 2],
    "nodes": lambda w: np.maximum(w.cluster.known_site.asks["nodes"][w.jobs["ask"]], 1),
}
EXAMPLE = "e.g. 'partition=long,time<=2h to debug', 'user=ann to qos=high'"


def moved(w: Workload, text: str, fits: Callable[[Workload], np.ndarray]) -> Workload:
    """The jobs with those that a text names (`partition=long,time<=2h to debug`, `user=ann to qos=high`) in another partition
    or QOS. Those that no node of it can hold (`fits` [J]) stay where they are; the notes count both.

    Raises
    ------
    InputError
        The text is none, or names nobody.
    """
    who, to, where = text.partition(" to ")
    if not to:
        raise InputError(f"--move {text!r}: who moves to where? {EXAMPLE}")
    mine = np.ones(len(w), bool)
    for condition in who.split(","):
        mine &= _meets(w, condition.strip(), text)
    if not mine.any():
        raise InputError(f"--move {text!r}: no job is like that")
    kind, has, name = where.strip().partition("=")
    kind, name = (kind.lower(), name) if has else ("partition", kind)
    if kind == "qos":
        jobs = w.jobs.copy()
        jobs["queue"][mine] = _index(name, w.cluster.known_site.qos_names, "QOS", text)
        return replace(w, jobs=jobs, notes=w.notes | {f"moved to QOS {name}": int(mine.sum())})
    if kind != "partition":
        raise InputError(f"--move {text!r}: jobs move to a partition or to qos=NAME; {EXAMPLE}")
    after = _into(w, mine, _index(name, w.cluster.known_site.partition_names, "partition", text), name)
    lost = mine & ~fits(after)
    notes = w.notes | {f"moved to partition {name}": int((mine & ~lost).sum())}
    if lost.any():
        after.jobs["partition"][lost] = w.jobs["partition"][lost]
        notes[f"stay where they are: no nodes of {name} can hold them"] = int(lost.sum())
    return replace(after, notes=notes)


def _into(w: Workload, mine: np.ndarray, partition: int, name: str) -> Workload:
    """The jobs with those of `mine` [J] in a partition alone."""
    site, jobs = w.cluster.known_site, w.jobs.copy()
    alone = np.full(site.queues.shape[1], -1, site.queues.dtype)
    alone[0] = partition
    same = np.flatnonzero((site.queues == alone).all(axis=1))
    row = int(same[0]) if len(same) else len(site.queues)
    if not len(same):
        site = replace(site, queues=np.concatenate([site.queues, alone[None]]))
    jobs["partition"][mine] = row
    names = w.names | {"partition": w.names.get("partition", {}) | {row: name}}
    return replace(w, jobs=jobs, names=names, cluster=replace(w.cluster, site=site))


def _index(name: str, names: tuple[str, ...], what: str, text: str) -> int:
    if name not in names:
        raise unknown(what, name, list(names), f"--move {text!r}: ")
    return names.index(name)


def _meets(w: Workload, condition: str, text: str) -> np.ndarray:
    """[J] bool: which jobs are as a condition says. Raises InputError."""
    parts = re.fullmatch(r"(\w+)\s*(<=|>=|!=|<|>|=)\s*(\S+)", condition)
    if parts is None or parts[1].lower() not in (*NAMED, *COUNTED):
        raise InputError(f"--move {text!r}: {condition!r} is no condition on {', '.join((*NAMED, *COUNTED))}; {EXAMPLE}")
    key, order, value = parts[1].lower(), ORDERS[parts[2]], parts[3]
    if key in COUNTED:
        return order(COUNTED[key](w), _number(value, key == "time", text))
    if parts[2] not in ("=", "!="):
        raise InputError(f"--move {text!r}: {key} is a name: = or != is expected")
    names = w.names.get(NAMED[key], {})
    ids = [i for i, x in names.items() if value in x.split(",")]
    if not ids:
        raise unknown(key, value, [str(x) for x in names.values()], f"--move {text!r}: ")
    return np.isin(w.jobs[NAMED[key]], ids) == (parts[2] == "=")


def _number(text: str, is_time: bool, where: str) -> float:
    """A number, or a time: 2h, 30m, 1-00:00:00. Raises InputError."""
    try:
        if is_time and text[-1:] in SECONDS:
            return float(text[:-1]) * SECONDS[text[-1]]
        return seconds(text) if is_time else float(text)
    except ValueError:
        raise InputError(f"--move {where!r}: {text!r} is no {'time' if is_time else 'number'}") from None


def reserved(w: Workload, text: str) -> Workload:
    """The jobs on a site some of whose nodes are kept for maintenance: `2026-12-01T08:00 12h all`, `2026-12-01 1d n[1-4]`. The
    scheduler knows of it a week ahead. Raises InputError."""
    words, example = text.split(), "e.g. '2026-12-01T08:00 12h all', '2026-12-01 1d n[1-4]'"
    if len(words) not in (2, 3):
        raise InputError(f"--reserve {text!r}: begin, length and nodes are expected, {example}")
    site = w.cluster.known_site
    try:
        begin = datetime.fromisoformat(words[0])
    except ValueError:
        raise InputError(f"--reserve {text!r}: {words[0]!r} is no day or time, {example}") from None
    length = _number(words[1], True, text)
    if not 0 < length < np.inf:
        raise InputError(f"--reserve {text!r}: {words[1]!r} is no length, {example}")
    since, until = w.offset, w.offset + float((_started(w) + w.ends["runtime"]).max())
    at = (begin if begin.tzinfo else begin.replace(tzinfo=UTC)).timestamp()
    if not since - length < at <= until:
        first, last = (datetime.fromtimestamp(x, UTC).strftime("%Y-%m-%dT%H:%M") for x in (since, until))
        raise InputError(
            f"--reserve {text!r}: the jobs were there from {first} to {last} (UTC); of other times nothing is known"
        )
    members = members_of(site, words[2] if len(words) == 3 else "all", f"--reserve {text}")
    row = np.array([(len(site.sets), at, at + length, 1, at - AHEAD_S, 0)], closure_dtype)
    sets = np.concatenate([site.sets, members[None].astype(site.sets.dtype)])
    site = replace(site, sets=sets, closures=np.concatenate([site.closures, row]))
    notes = w.notes | {f"ran then on the {int(members.sum()):,} nodes that are kept": _there(w, members, at, at + length)}
    return replace(w, cluster=replace(w.cluster, site=site), notes=notes)


def _there(w: Workload, members: np.ndarray, begin: float, end: float) -> int:
    """Return how many jobs ran on some of the nodes [N] between two times, as recorded."""
    start = w.offset + _started(w)
    then = (start < end) & (start + w.ends["runtime"] > begin)
    if "nodes" not in w.columns:
        return int(then.sum())
    own = set(np.asarray(w.cluster.known_site.names)[members])
    on = [i for i, text in w.names.get("nodes", {}).items() if not own.isdisjoint(names_in(text))]
    return int((then & np.isin(w.columns["nodes"], on)).sum())


def _started(w: Workload) -> np.ndarray:
    """[J] s: when the jobs started, as recorded; where that is not known, when they came."""
    return w.jobs["submit"] + np.asarray(w.columns.get("wait", 0.0), float)

"""The jobs of a site's accounting as a workload on its nodes."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from jobwise.cluster import Cluster
from jobwise.errors import InputError
from jobwise.sim.site.node_choice import choice_of
from jobwise.sim.site.node_sets import packed
from jobwise.site import Site
from jobwise.slurm.read.asks import Known, asks, requested
from jobwise.slurm.read.associations import associations
from jobwise.slurm.read.dependencies import arrays, dependencies, index_of, task_of
from jobwise.slurm.read.startable import lifted
from jobwise.workload import Workload, workload
from jobwise.workloads.accounting import Accounting, left_out
from jobwise.workloads.sacct import UNLIMITED, elapsed, energy, numbers_of, queued, ran, times

NEEDED = ("JobIDRaw", "Submit", "Start", "End", "ElapsedRaw", "TimelimitRaw", "NNodes", "NCPUS", "ReqCPUS", "Partition")
NEW = 2_000_000_000  # number of a job that has not been submitted: no limit is lifted for it


def read(a: Accounting, name: str, cluster: Cluster, known: Known, assoc: list[dict]) -> Workload:
    """The jobs of a site's accounting as a workload; of a cluster in use with `start` and `end` (NaN: not yet). Raises
    InputError with file:line."""
    site = cluster.known_site
    if missing := [x for x in NEEDED if not a.has(x)]:
        raise InputError(f"{a.where}:1: the header has no column {missing[0]}; `jobwise slurm site` prints the command")
    unread = left_out(a)
    a, _, left = ran(a)
    left |= unread
    if (never := a.matches("assigned", "NodeList")).any():  # None assigned: cancelled while it waited
        left["never started"] = left.get("never started", 0) + int(never.sum())
        a = a.take(~never)
        if not len(a):
            raise InputError(f"{a.where}: no job that ran ({', '.join(f'{n} {k}' for k, n in left.items())})")
    a = a.take(_turns(a))
    if site.settings["preempt"][0]:
        a, again = _last_runs(a)
        if again:
            text = f"{again:,} runs of jobs that were preempted and requeued: the simulation decides which are stopped"
            site = replace(site, guesses=(*site.guesses, text))
    a = _known_partitions(_named_partitions(_once(a, left), site.partition_names), site.partition_names, left)
    site = _known_qos(a, site)
    table, ask, remarks = asks(a, known, cluster.capacity, site.settings[0]["memory"])
    site = replace(site, guesses=(*site.guesses, *(x.format(f"{n:,}") for x, n in remarks.items())))
    which, lists = a.distinct("Partition")
    fits = _fits(table, lists, which, ask, cluster, known.sets)
    if not fits.all():
        left["that no nodes of their partition can hold"] = int((~fits).sum())
        a, ask = a.take(fits), ask[fits]
        which, lists = a.distinct("Partition")
    if not len(a):
        raise InputError(f"{a.where}: no job fits the nodes of its partition")
    rows = {q: i for i, q in enumerate(site.qos_names)}
    queue = a.map(lambda x: rows.get(x, -1), "QOS", kind=int)
    (user, users), (account, accounts) = a.distinct("User"), a.distinct("Account")
    tree, leaf, pairs = associations(assoc, _numbers(users), _numbers(accounts))
    table, ask = _of_het_jobs(a, *_of_arrays(a, table, ask))
    queues = _lists(lists, site.partition_names, a.where)
    site = replace(site, asks=table, queues=queues, sets=known.sets.table())
    site = replace(site, associations=tree, leaf=leaf, association_names=pairs)
    site = replace(site, licence_asks=np.array(list(known.bundles), float).reshape(len(known.bundles), len(known.licences)))
    (edges, unmet), start = dependencies(a), times(a, "Start")
    site = replace(site, guesses=(*site.guesses, *unmet))
    recorded, run, open_ = queued(a, start), np.maximum(elapsed(a, start), 1.0), np.zeros(len(a), bool)
    if a.now is not None:
        open_ = a.matches("^(PENDING|RUNNING)$", "State")
        run[open_] = np.fmax(a.now - start[open_], 1.0)  # as long as it has run: what it will run for is not known
    eligible = _came(a, recorded, start, edges, np.where(table["at_once"][ask] > 0, table["array"][ask], 0))
    limit = a.map(_limit, "TimelimitRaw")
    if site.settings["preempt"][0]:
        run, site = _whole_runs(a, site, run, limit, a.matches("^PREEMPTED", "State") & ~open_)
    app, works = a.distinct("JobName")
    work = _numbers([_work(x) for x in works])
    w = workload(
        eligible, requested(table, cluster.capacity)[ask], run, limit,
        cluster=replace(cluster, site=site), name=name, edges=edges, ask=ask, partition=which, user=user, group=account,
        queue=queue,
        app=np.array([work[_work(x)] for x in works])[app] if len(works) else app,
    )  # fmt: skip
    numbers = numbers_of(a).astype(np.int64)
    order = np.argsort(eligible, kind="stable")
    where, places = a.distinct("NodeList")
    columns = {
        "wait": (start - eligible)[order],
        "job": numbers[order],
        "array": arrays(a, numbers)[order],
        "nodes": where[order],
        "eligible": (recorded - eligible.min())[order],
    }
    if ((joules := energy(a)) > 0).any():
        columns["energy"] = joules[order]
    names = {"nodes": dict(enumerate(places))} | {
        k: dict(enumerate(v)) for k, v in (("user", users), ("group", accounts), ("partition", lists))
    }
    names |= {"queue": dict(enumerate(site.qos_names)), "app": {i: x for x, i in work.items()}}
    w = replace(w, columns=columns, origin=float(eligible.min()), dropped=left, names=names)
    w = lifted(w, columns["job"] != NEW)
    return w if a.now is None else _so_far(w, open_[order])


def _came(a: Accounting, recorded: np.ndarray, start: np.ndarray, edges: np.ndarray, array: np.ndarray) -> np.ndarray:
    """[J] s, when jobs that were eligible at `recorded` came: one that waited for others when it was submitted, a task of an
    `array` [J] (0: none) that lets few run at once with the first of them."""
    waited, submit = np.isin(np.arange(len(a)), edges[:, 1]), times(a, "Submit")
    eligible = np.where(waited & ~(submit > start), submit, recorded)
    first = np.full(array.max(initial=0) + 1, np.inf)
    np.minimum.at(first, array, eligible)
    return np.where(array > 0, first[array], eligible)


def _so_far(w: Workload, is_open: np.ndarray) -> Workload:
    """The workload with the starts and ends of its jobs, NaN: not yet. `is_open` [J]: it waits or runs."""
    jobs = w.jobs.copy()
    jobs["start"] = jobs["submit"] + w.columns["wait"]
    jobs["end"] = np.where(is_open, np.nan, w.ends["end"])
    return replace(w, jobs=jobs)


def _whole_runs(a: Accounting, site: Site, run: np.ndarray, limit: np.ndarray, cut: np.ndarray) -> tuple[np.ndarray, Site]:
    """(run times [J], the site with a guess): jobs `cut` [J], which were cancelled for others, run for the median share of
    limits of the rest, and at least as long as they did."""
    if not cut.any():
        return run, site
    share = float(np.median((run / np.maximum(limit, 1.0))[~cut])) if not cut.all() else 1.0
    run = np.where(cut & (limit < UNLIMITED), np.maximum(run, share * limit), run)
    text = f"{int(cut.sum()):,} jobs were cancelled for others: unhindered they run for {share:.0%} of their limits"
    return run, replace(site, guesses=(*site.guesses, text))


def _last_runs(a: Accounting) -> tuple[Accounting, int]:
    """(the rows, where a job that was preempted and requeued has one: its last run, submitted as the first; how many runs that
    leaves out)."""
    numbers, stopped = numbers_of(a), a.matches("^PREEMPTED", "State")
    same = np.append(numbers[1:] == numbers[:-1], False)  # of the next row
    gone = stopped & same
    if not gone.any():
        return a, 0
    columns = dict(a.columns)
    for name in ("Submit", "Eligible"):
        texts = a.text(name).to_pylist()
        for i in np.flatnonzero(gone).tolist():
            texts[i + 1] = texts[i]
        columns[name] = pa.array(texts, pa.string())
    return replace(a, columns=columns).take(~gone), int(gone.sum())


def _once(a: Accounting, left: dict[str, int]) -> Accounting:
    """Without rows that are given twice (exports that overlap)."""
    same = np.stack([numbers_of(a), times(a, "Submit"), times(a, "Start")], axis=1)
    twice = np.append(False, (np.diff(same, axis=0) == 0).all(axis=1))
    if twice.any():
        left["given twice"] = int(twice.sum())
    return a.take(~twice) if twice.any() else a


PARTITION = r"\s(?:--partition[=\s]\s*|-p\s*)(?P<p>[\w.,-]+)"


def _named_partitions(a: Accounting, known: tuple[str, ...]) -> Accounting:
    """Jobs that named several partitions with all of them: accounting names the one in which a job started alone."""
    if not a.has("SubmitLine"):
        return a
    lines = pc.struct_field(pc.extract_regex(a.columns["SubmitLine"], PARTITION), "p")
    several = np.asarray(pc.fill_null(pc.match_substring(lines, ","), False))
    if not several.any():
        return a
    own = a.text("Partition").to_pylist()
    for j, line in zip(np.flatnonzero(several).tolist(), lines.filter(pa.array(several)).to_pylist(), strict=True):
        names = line.split(",")
        if own[j] in names and all(x in known for x in names):
            own[j] = line
    return replace(a, columns=a.columns | {"Partition": pa.array(own)})


def _known_partitions(a: Accounting, known: tuple[str, ...], left: dict[str, int]) -> Accounting:
    """The jobs of partitions that the site has; those of partitions that are gone, or have no nodes, are counted in `left`."""
    which, lists = a.distinct("Partition")
    there = [",".join(p for p in x.split(",") if p in known) for x in lists]
    if there == lists and "" not in lists:
        return a
    gone = np.array([not x for x in there], bool)
    if gone[which].any():
        named = ", ".join(x or "none named" for x, y in zip(lists, gone, strict=True) if y)[:60]
        left[f"of partitions that the site does not have ({named})"] = int(gone[which].sum())
    a = replace(a, columns=a.columns | {"Partition": pa.array(there).take(pa.array(which))}).take(~gone[which])
    if not len(a):
        raise InputError(f"{a.where}: jobs of partition {lists[0]!r}, which the site does not have ({', '.join(known)})")
    return a


def _known_qos(a: Accounting, site: Site) -> Site:
    """The site; jobs of a QOS that it does not have are named among its guesses."""
    which, names = a.distinct("QOS")
    lost = np.array([bool(q) and q not in site.qos_names for q in names], bool)
    if not lost[which].any():
        return site
    named = ", ".join(q for q, x in zip(names, lost, strict=True) if x)[:60]
    text = f"{int(lost[which].sum()):,} jobs of QOS {named}, which sacctmgr_qos does not have: no priority, no limits"
    return replace(site, guesses=(*site.guesses, text))


def _turns(a: Accounting) -> np.ndarray:
    """[J] rows in the order of submits: by job id, the tasks of an array by their index, for they get ids as they start."""
    numbers = numbers_of(a).astype(np.int64)
    index = a.map(index_of, "JobID", kind=int) if a.has("JobID") else np.zeros(len(a), np.int64)
    return np.lexsort((numbers, index, arrays(a, numbers)))


MANY = 20  # tasks of an array: of fewer that may all run at once, in one partition, the scheduler takes no note
AT_ONCE = r"\s(?:--array[=\s]\s*|-a\s*)[^\s%]*%(?P<n>\d+)"


def _of_arrays(a: Accounting, table: np.ndarray, ask: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(rows of ask_dtype, which one each job has [J]), where arrays have rows of their own: those that say how many tasks may
    run at once, that name several partitions, or that are large."""
    if not a.has("JobID"):
        return table, ask
    of = a.map(task_of, "JobID", kind=int)
    _, array, count = np.unique(of, return_inverse=True, return_counts=True)
    many, at_once = count[array] > MANY, np.zeros(len(a), np.int64)
    many |= np.asarray(pc.match_substring(a.columns["Partition"], ","))
    if a.has("SubmitLine"):
        text = pc.struct_field(pc.extract_regex(a.columns["SubmitLine"], AT_ONCE), "n")
        at_once = np.asarray(pc.cast(pc.fill_null(text, "0"), pa.int64()))
    mine = (of >= 0) & (many | (at_once > 0))
    if not mine.any():
        return table, ask
    number = np.zeros(len(a), np.int64)
    number[mine] = np.unique(of[mine], return_inverse=True)[1] + 1
    table, ask, first = _apart(table, ask, number)
    table["array"], table["at_once"] = number[first], np.where(mine, at_once, 0)[first]
    return table, ask


def _of_het_jobs(a: Accounting, table: np.ndarray, ask: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(rows of ask_dtype, which one each job has [J]), where the parts of a heterogeneous job have rows of their own."""
    leader = a.map(_het, "JobID", kind=int) if a.has("JobID") else np.full(len(a), -1)
    if not (mine := leader >= 0).any():
        return table, ask
    number = np.zeros(len(a), np.int64)
    number[mine] = np.unique(leader[mine], return_inverse=True)[1] + 1
    table, ask, first = _apart(table, ask, np.where(mine, np.arange(1, len(a) + 1), 0))
    table["het"] = number[first]
    return table, ask


def _het(text: str) -> int:
    """The number of the heterogeneous job that a job is a part of; -1: of none."""
    number, part, _ = text.partition("+")
    return int(number) if part and number.isdigit() else -1


def _apart(table: np.ndarray, ask: np.ndarray, number: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(rows, which one each job has [J], the first job of each row): jobs of other numbers have rows of their own."""
    _, first, which = np.unique(ask * (number.max() + 1) + number, return_index=True, return_inverse=True)
    return table[ask[first]], which, first


def _limit(text: str) -> float:
    return float(text) * 60 if text.isascii() and text.isdigit() else UNLIMITED


def _fits(table: np.ndarray, lists: list[str], which: np.ndarray, ask: np.ndarray, cluster: Cluster, sets: Any) -> np.ndarray:
    """[J] could each job start on the empty nodes of one of its partitions?"""
    site, capacity = cluster.known_site, cluster.capacity
    at, masks = {p: i for i, p in enumerate(site.partition_names)}, packed(sets.table())
    choice = choice_of(capacity, capacity, site)

    def one(p: str, a: int) -> bool:
        own = [
            masks[site.partitions[at[x]]["set"]] & masks[table[a]["set"]] & masks[table[a]["types"]]
            for x in p.split(",")
            if x in at
        ]
        return not own or any(len(choice(table[a], mask)) for mask in own)

    kinds, kind = np.unique(which * len(table) + ask, return_inverse=True)
    return np.array([one(lists[k // len(table)], k % len(table)) for k in kinds.tolist()])[kind]


def _work(name: str) -> str:
    """The name of a job without its numbers: what it does."""
    return re.sub(r"\d+", "#", name)


def _numbers(names: Iterable[str]) -> dict[str, int]:
    return {n: i for i, n in enumerate(dict.fromkeys(names))}


def _lists(queues: list[str], partitions: tuple[str, ...], where: str) -> np.ndarray:
    """[K, W] the partitions of each different list of partitions."""
    at = {p: i for i, p in enumerate(partitions)}
    if wrong := [p for q in queues for p in q.split(",") if p not in at]:
        raise InputError(f"{where}: jobs of partition {wrong[0]!r}, which the site does not have ({', '.join(at)})")
    lists = [[at[p] for p in q.split(",")] for q in queues]
    table = np.full((len(lists), max(map(len, lists))), -1, np.int32)
    for k, x in enumerate(lists):
        table[k, : len(x)] = x
    return table

"""The jobs of a site's accounting as a workload on its nodes."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from jobwise.cluster import Cluster
from jobwise.errors import InputError
from jobwise.sim.site.node_choice import choice_of
from jobwise.sim.site.node_sets import packed
from jobwise.site import Site, ask_dtype
from jobwise.slurm.read.associations import associations
from jobwise.slurm.read.dependencies import arrays, dependencies, index_of, task_of
from jobwise.slurm.read.requests import by_accounting, by_line, options, types_of
from jobwise.slurm.read.startable import lifted
from jobwise.slurm.read.text import amount, features_of, nodes, resources, said
from jobwise.slurm.read.unsimulated import UNSIMULATED
from jobwise.workload import Workload, workload
from jobwise.workloads.accounting import Accounting, left_out
from jobwise.workloads.sacct import UNLIMITED, elapsed, numbers_of, queued, ran, times

NEEDED = ("JobIDRaw", "Submit", "Start", "End", "ElapsedRaw", "TimelimitRaw", "NNodes", "NCPUS", "ReqCPUS", "Partition")


ASKED = ("SubmitLine", "ReqTRES", "AllocTRES", "ReqCPUS", "ReqMem", "Constraints")  # what says what a job asked for
# A line of sbatch as far as its options go: with a value behind =, written together, with a word behind them, flags.
OPTIONS = r"^\S+(?:\s+(?:--[\w-]+=\S*|-[A-Za-z][^\s-]\S*|--?[\w-]+\s+[^-\s]\S*|--?[\w-]+))*"

# Options that say nothing of what a job asks of nodes; without them many lines are the same.
OTHERS = (
    r"\s(?:--(?:output|error|input|job-name|chdir|comment|mail-user|mail-type|export|begin|deadline|time|account|wckey|signal|"
    r"open-mode|dependency|array|partition|qos)[=\s]\s*\S+|-[oeiJDtAbdapq]\s*\S+)"
)


@dataclass
class Known:
    """Data of a site on its nodes and names. `sets`: node sets (`site.Sets`); `features` of each node; `memory`: MiB of a
    CPU, of a node for jobs that ask for none; `reservations`: the number of each closure by its name; `names`: of the
    nodes; `threads` of a core: a job has whole cores; `exclusive`: partitions whose jobs have whole nodes; `partition_qos`:
    the QOS of a partition by its name; `licences`: names; `types`: of each node, how many GPUs of each type."""

    sets: Any
    features: list[set]
    memory: tuple[int, int]
    reservations: dict[str, int] = field(default_factory=dict)
    names: tuple[str, ...] = ()
    threads: int = 1
    exclusive: frozenset[str] = frozenset()
    partition_qos: dict[str, str] = field(default_factory=dict)
    licences: tuple[str, ...] = ()
    types: tuple[dict[str, int], ...] = ()
    bundles: dict[tuple, int] = field(default_factory=dict)  # what jobs ask for of each licence, by its number

    def __post_init__(self):
        self.bundles.setdefault((0.0,) * len(self.licences), 0)

    def bundle(self, text: str) -> int:
        """The number of a request of licences: matlab:2,ansys@server. Raises ValueError."""
        amounts = dict.fromkeys(self.licences, 0.0)
        for word in filter(None, text.split(",")):
            name, _, count = word.partition(":")
            if (name := name.partition("@")[0]) in amounts:
                amounts[name] += amount(count or "1")
        return self.bundles.setdefault(tuple(amounts.values()), len(self.bundles))


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
    a = _known_partitions(_named_partitions(_once(a, left), site.partition_names), site.partition_names, left)
    site = _known_qos(a, site)
    table, ask, remarks = _asks(a, known, cluster.capacity, site.settings[0]["memory"])
    site = replace(site, guesses=(*site.guesses, *(x.format(f"{n:,}") for x, n in remarks.items())))
    which, lists = a.distinct("Partition")
    fits = _fits(table, lists, which, ask, cluster, known.sets)
    if not fits.all():
        left["that no nodes of their partition can hold"] = int((~fits).sum())
        a, ask = a.take(fits), ask[fits]
        which, lists = a.distinct("Partition")
    if not len(a):
        raise InputError(f"{a.where}: no job fits the nodes of its partition")
    site, queue = _of_partitions(a, site, known.partition_qos)
    (user, users), (account, accounts) = a.distinct("User"), a.distinct("Account")
    tree, leaf = associations(assoc, _numbers(users), _numbers(accounts))
    table, ask = _of_het_jobs(a, *_of_arrays(a, table, ask))
    queues = _lists(lists, site.partition_names, a.where)
    site = replace(site, asks=table, queues=queues, sets=known.sets.table(), associations=tree, leaf=leaf)
    site = replace(site, licence_asks=np.array(list(known.bundles), float).reshape(len(known.bundles), len(known.licences)))
    (edges, unmet), start = dependencies(a), times(a, "Start")
    site = replace(site, guesses=(*site.guesses, *unmet))
    eligible, run, open_ = queued(a, start), np.maximum(elapsed(a, start), 1.0), np.zeros(len(a), bool)
    if a.now is not None:
        open_ = a.matches("^(PENDING|RUNNING)$", "State")
        run[open_] = np.fmax(a.now - start[open_], 1.0)  # as long as it has run: what it will run for is not known
    if len(edges):  # a job that waited for others was there when it was submitted
        waited, submit = np.isin(np.arange(len(a)), edges[:, 1]), times(a, "Submit")
        eligible = np.where(waited & ~(submit > start), submit, eligible)
    limited = table["at_once"][ask] > 0
    if limited.any():  # a task that waits for others of its array is there from the begin
        first = np.full(table["array"].max() + 1, np.inf)
        np.minimum.at(first, table["array"][ask], eligible)
        eligible = np.where(limited, first[table["array"][ask]], eligible)
    limit = a.map(_limit, "TimelimitRaw")
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
    }
    names = {"nodes": dict(enumerate(places))} | {
        k: dict(enumerate(v)) for k, v in (("user", users), ("group", accounts), ("partition", lists))
    }
    names |= {"queue": dict(enumerate(site.qos_names)), "app": {i: x for x, i in work.items()}}
    w = lifted(replace(w, columns=columns, origin=float(eligible.min()), dropped=left, names=names))
    return w if a.now is None else _so_far(w, open_[order])


def _so_far(w: Workload, is_open: np.ndarray) -> Workload:
    """The workload with the starts and ends of its jobs, NaN: not yet. `is_open` [J]: it waits or runs."""
    jobs = w.jobs.copy()
    jobs["start"] = jobs["submit"] + w.columns["wait"]
    jobs["end"] = np.where(is_open, np.nan, w.ends["end"])
    return replace(w, jobs=jobs)


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
    if there == lists:
        return a
    gone = np.array([not x for x in there], bool)
    if gone[which].any():
        named = ", ".join(x for x, y in zip(lists, gone, strict=True) if y)[:60]
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


def _of_partitions(a: Accounting, site: Site, of: dict[str, str]) -> tuple[Site, np.ndarray]:
    """(the site, the QOS of each job [J]), where the limits of a partition's own QOS count for its jobs: a QOS of their own
    priority with these limits. Where their own QOS have limits, too, or other priorities, it is named as not simulated."""
    rows = {q: i for i, q in enumerate(site.qos_names)}
    queue, (which, lists) = a.map(lambda x: rows.get(x, -1), "QOS", kind=int), a.distinct("Partition")
    for partition, name in of.items():
        mine = np.isin(which, [k for k, x in enumerate(lists) if x == partition])
        own = np.unique(queue[mine])
        if not len(own) or name not in rows:
            continue
        free = [q < 0 or not _has_limits(site.qos[q]) for q in own]
        if not all(free) or len({float(site.qos[q]["priority"]) if q >= 0 else 0.0 for q in own}) > 1:
            text = f"{UNSIMULATED}QoS={name} of {partition}, for its {int(mine.sum()):,} jobs have limits of their own QOS"
            site = replace(site, guesses=(*site.guesses, text))
            continue
        limits = site.qos[[rows[name]]].copy()
        limits["priority"] = site.qos[own[0]]["priority"] if own[0] >= 0 else 0.0
        queue[mine] = len(site.qos)
        site = replace(site, qos=np.concatenate([site.qos, limits]), qos_names=(*site.qos_names, f"{name} of {partition}"))
    return site, queue


def _has_limits(qos: np.void) -> bool:
    return bool(np.isfinite([float(qos["max_wall"]), *qos["all"], *qos["user"]]).any())


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


UNREAD = "{} jobs whose SubmitLine cannot be read: ReqTRES is taken"
FEW_NAMED = UNSIMULATED + "--nodelist of fewer nodes than asked for, of {} jobs: these take any nodes"
GONE = "{} jobs whose --nodelist names nodes that scontrol_node does not have: these take any nodes"


def _asks(a: Accounting, site: Known, capacity: np.ndarray, memory: bool) -> tuple[np.ndarray, np.ndarray, dict[str, int]]:
    """(rows of ask_dtype, which one each job has [J], what is to be said of how many jobs); each one is read once. Raises
    InputError."""
    if a.has("SubmitLine"):
        line = a.columns["SubmitLine"]
        plain = pc.match_substring_regex(line, r"[\"'\\]")
        cut = pc.struct_field(pc.extract_regex(line, f"(?P<o>{OPTIONS})"), "o")
        cut = pc.replace_substring_regex(pc.fill_null(cut, ""), OTHERS, "")
        own = pc.if_else(plain, line, cut)
        if a.has("JobID"):  # the line of a heterogeneous job begins with the options of its first part
            own = pc.if_else(pc.match_substring_regex(a.columns["JobID"], r"^\d+\+[1-9]"), "", own)
        a = replace(a, columns=a.columns | {"SubmitLine": own})
    which, parts = np.zeros(len(a), np.int64), []
    names = (*ASKED, *(("Partition",) if site.exclusive else ()))
    for name in names:
        code, texts = a.distinct(name)
        parts.append((code, texts))
        which = np.unique(which * (len(texts) + 1) + code, return_inverse=True)[1]
    first = np.unique(which, return_index=True)[1]
    known: dict[tuple, int] = {}
    ask, remark = np.zeros(len(first), np.int64), np.full(len(first), "", object)
    errors: dict[int, str] = {}
    for i in np.argsort(first, kind="stable"):  # in order of appearance
        row = {name: texts[code[first[i]]] for name, (code, texts) in zip(names, parts, strict=True)}
        try:
            asked, remark[i] = _ask(row, site, capacity, memory)
            ask[i] = known.setdefault(asked, len(known))
        except ValueError as error:
            errors[int(i)] = str(error)
    if errors:
        raise a.wrong(np.flatnonzero(np.isin(which, [*errors])), next(iter(errors.values())))
    remarks = {x: int((remark[which] == x).sum()) for x in dict.fromkeys(remark) if x}
    return np.array(list(known), ask_dtype), ask[which], remarks


def _ask(r: dict, site: Known, capacity: np.ndarray, memory: bool) -> tuple[tuple, str]:
    """(a row of ask_dtype: what the line says as far as it goes, for the script may say more, else accounting; what is to be
    said of it). Raises ValueError."""
    o, asked, got = options(r["SubmitLine"]), resources(r["ReqTRES"]), resources(r["AllocTRES"])
    amounts = list(by_accounting(asked, got, int(r["ReqCPUS"] or 0), r["ReqMem"], site.threads))
    asks, remark = None, ""
    try:
        asks = _line(o, site.memory, asked)
    except ValueError:
        if not asked.get("cpu"):
            raise
        remark = UNREAD
    if asks:
        more = amounts
        amounts = list(asks)
        if not {"mem", "mem-per-cpu"} & set(o) and asked.get("mem"):
            amounts[4:6] = more[4:6]
        if not {"gpus", "gres", "gpus-per-node", "gpus-per-task"} & set(o):
            amounts[6:8] = more[6:8]
    if not memory:
        amounts[4] = amounts[5] = 0
    if site.threads > 1 and not amounts[8]:
        amounts[2:4] = _in_cores(amounts[2], amounts[3], int(got.get("cpu", 0)), site.threads)
    amounts[8] = amounts[8] or r.get("Partition", "") in site.exclusive
    usable = (capacity[:, 0] >= amounts[3]) & (capacity[:, 1] >= max(amounts[5], amounts[4] * amounts[3]))
    if text := o.get("constraint", said(r["Constraints"])):
        either = features_of(text)
        usable &= [any(x <= has for x in either) for has in site.features]
    if types := (amounts[6] or amounts[7]) and _types(o, r["ReqTRES"]):
        each = {x: n if amounts[7] else 1 for x, n in types.items()}  # of a node
        usable &= [all(has.get(x, 0) >= n for x, n in each.items()) for has in site.types]
    if "exclude" in o:
        usable &= ~np.isin(site.names, nodes(o["exclude"]))
    if "nodelist" in o:
        named = nodes(o["nodelist"])
        there = np.isin(site.names, named)
        if there.sum() < len(set(named)):
            remark = GONE
        elif max(amounts[0], 1) <= len(named):  # all that are named are of the job
            usable &= there
            amounts[0] = max(amounts[0], min(len(named), int(got.get("node", len(named)))))
        else:
            remark = FEW_NAMED
    if not usable.all():
        amounts[9] = site.sets.add(np.flatnonzero(usable).tolist())
    amounts[14] = site.bundle(o.get("licenses", ""))
    amounts[15] = site.reservations.get(o.get("reservation", ""), 0)
    return tuple(amounts), remark


def _types(o: dict[str, str], asked: str) -> dict[str, int]:
    """The types of GPUs that a job asks for, in its line, else by accounting."""
    line = next((o[k] for k in ("gres", "gpus-per-node", "gpus", "gpus-per-task") if k in o), "")
    tres = ",".join(x for x in asked.split(",") if x.startswith("gres/gpu:"))
    return types_of(line) if line else types_of(tres)


def _in_cores(tasks: int, cpus: int, got: int, threads: int) -> list[int]:
    """[tasks, CPUs of each] in whole cores of `threads` CPUs. A job that got no more CPUs than that rounding gives has them."""
    whole = -(-tasks * cpus // threads) * threads
    if got and got != whole and got % max(tasks, 1) == 0 and got >= tasks * cpus:
        return [tasks, got // max(tasks, 1)]
    return [tasks, whole // tasks] if whole % max(tasks, 1) == 0 else [1, whole]


def _line(o: dict[str, str], default: tuple, asked: dict[str, float]) -> tuple | None:
    """Return the request in the options; None where there are none, or where accounting knows more. Raises ValueError."""
    options = by_line(o, default) if o else None
    if (
        options
        and asked.get("cpu")
        and (options[2] * options[3] != asked["cpu"] or max(options[0], 1) > asked.get("node", 1e9))
    ):
        return None
    return options


def requested(asks: np.ndarray, capacity: np.ndarray) -> np.ndarray:
    """[J, 3] units in all, as far as they do not depend on the nodes; whole nodes count as the mean node."""
    count = np.maximum(asks["nodes"], 1)
    cpus = asks["tasks"] * asks["cpus"]
    memory = np.maximum(asks["memory"] * count, asks["memory_cpu"] * cpus)
    table = np.stack([cpus, memory, np.maximum(asks["gpus"], asks["gpus_node"] * count)], axis=1).astype(np.int64)
    whole = asks["whole"] > 0
    table[whole] = np.maximum(table, (count[:, None] * capacity.mean(axis=0)).astype(np.int64))[whole]
    return table


def _fits(table: np.ndarray, lists: list[str], which: np.ndarray, ask: np.ndarray, cluster: Cluster, sets: Any) -> np.ndarray:
    """[J] could each job start on the empty nodes of one of its partitions?"""
    site, capacity = cluster.known_site, cluster.capacity
    at, masks = {p: i for i, p in enumerate(site.partition_names)}, packed(sets.table())
    choice = choice_of(capacity, capacity, site.weight)

    def one(p: str, a: int) -> bool:
        own = [masks[site.partitions[at[x]]["set"]] & masks[table[a]["set"]] for x in p.split(",") if x in at]
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

"""The jobs of a site's accounting as a workload on its nodes."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import replace
from typing import Any

import numpy as np

from jobwise.cluster import Cluster
from jobwise.errors import InputError
from jobwise.sim.node_choice import choose, rooms
from jobwise.sim.node_sets import packed
from jobwise.site import ask_dtype, association_dtype
from jobwise.slurm.requests import by_accounting, by_line, options
from jobwise.slurm.text import features_of, resources, said
from jobwise.workload import Workload, workload
from jobwise.workloads.sacct import NOT_ENDED, UNLIMITED, stamp

NEEDED = ("JobIDRaw", "Submit", "Start", "End", "ElapsedRaw", "TimelimitRaw", "NNodes", "NCPUS", "ReqCPUS", "Partition")


def read(
    rows: list[dict], where: str, name: str, cluster: Cluster, sets: Any, features: list[set], assoc: list[dict], default: tuple
) -> Workload:
    """The workload; `default`: MiB of a CPU, of a node that asks for none. Raises InputError with file:line."""
    site = cluster.site
    if rows and (missing := [x for x in NEEDED if x not in rows[0]]):
        raise InputError(f"{where}:1: the header has no column {missing[0]}; `jobwise slurm site` prints the command")
    kept, left = ran(rows, where)
    asks, queues, ask = {}, {}, np.zeros(len(kept), int)
    for i, (line, r) in enumerate(kept):
        try:
            ask[i] = asks.setdefault(_ask(r, features, sets, site.settings[0]["memory"], default), len(asks))
        except ValueError as error:
            raise InputError(f"{where}:{line}: {error}") from None
    table = np.array(list(asks), ask_dtype)
    fits = _fits(table, [r["Partition"] for _, r in kept], ask, cluster, sets)
    if not fits.all():
        left["that no nodes of their partition can hold"] = int((~fits).sum())
        kept, ask = [x for x, ok in zip(kept, fits, strict=True) if ok], ask[fits]
    if not kept:
        raise InputError(f"{where}: no job fits the nodes of its partition")
    rows = [r for _, r in kept]
    own = [queues.setdefault(r["Partition"], len(queues)) for r in rows]
    work = _numbers(map(_work, rows))
    users, accounts = _numbers(r.get("User", "") for r in rows), _numbers(r.get("Account", "") for r in rows)
    tree, leaf = _associations(assoc, users, accounts)
    site = replace(
        site, asks=table, queues=_lists(queues, site.partition_names, where), sets=sets.table(), associations=tree, leaf=leaf
    )
    time = {k: np.array([stamp(r.get(k, ""), where, n, k) for n, r in kept]) for k in ("Submit", "Eligible", "Start")}
    eligible = np.where(np.isnan(time["Eligible"]) | (time["Eligible"] < time["Submit"]), time["Submit"], time["Eligible"])
    eligible = np.minimum(eligible, time["Start"])
    limit = [float(r["TimelimitRaw"]) * 60 if r["TimelimitRaw"].isdigit() else UNLIMITED for r in rows]
    qos = {q: i for i, q in enumerate(site.qos_names)}
    w = workload(
        eligible, _request(table[ask], cluster.capacity), np.maximum([float(r["ElapsedRaw"]) for r in rows], 1.0), limit,
        cluster=replace(cluster, site=site), name=name, ask=ask, partition=own,
        user=[users[r.get("User", "")] for r in rows], group=[accounts[r.get("Account", "")] for r in rows],
        queue=[qos.get(r.get("QOS", ""), -1) for r in rows], app=[work[_work(r)] for r in rows],
    )  # fmt: skip
    order = np.argsort(eligible, kind="stable")
    columns = {"wait": (time["Start"] - eligible)[order]}
    columns["job"] = np.array([int(re.match(r"\d+", r["JobIDRaw"])[0]) for r in rows])[order]
    known = {"user": users, "group": accounts, "partition": queues, "queue": qos}
    names = {k: {n: text for text, n in v.items()} for k, v in known.items()}
    return replace(w, columns=columns, origin=float(eligible.min()), dropped=left, names=names)


def ran(rows: list[dict], where: str) -> tuple[list[tuple[int, dict]], dict[str, int]]:
    """(line, row) of the jobs that ran and have ended, by raw id; and what was left out."""
    kept, left = [], defaultdict(int)
    for line, r in enumerate(rows, 2):
        if "." in r.get("JobIDRaw", ""):
            left["job steps"] += 1
        elif not re.match(r"\d+", r.get("JobIDRaw", "")) or not all(x in r for x in NEEDED):
            raise InputError(f"{where}:{line}: no row of sacct; is the file whole?")
        elif not said(r["Start"]) or r["Start"] == "Unknown":
            left["never started"] += 1
        elif r.get("State", "").startswith(tuple(NOT_ENDED)) or r["End"] == "Unknown":
            left["not ended"] += 1
        elif not r["ElapsedRaw"].isdigit():
            raise InputError(f"{where}:{line}: ElapsedRaw is {r['ElapsedRaw'][:30]!r}; whole seconds are expected")
        else:
            kept.append((line, r))
    if not kept:
        raise InputError(f"{where}: no job that ran ({', '.join(f'{n} {k}' for k, n in left.items()) or 'no rows'})")
    return sorted(kept, key=lambda x: int(re.match(r"\d+", x[1]["JobIDRaw"])[0])), dict(left)


def _ask(r: dict, features: list[set], sets: Any, memory: bool, default: tuple) -> tuple:
    """A row of ask_dtype. Raises ValueError."""
    o = options(r.get("SubmitLine", ""))
    asked, got = resources(r.get("ReqTRES", "")), resources(r.get("AllocTRES", ""))
    found = list(by_line(o, default) if o else by_accounting(asked, got, int(r["ReqCPUS"]), r.get("ReqMem", "")))
    if not memory:
        found[4] = found[5] = 0
    if text := o.get("constraint", said(r.get("Constraints", ""))):
        either = features_of(text)
        found[9] = sets.add(i for i, has in enumerate(features) if any(x <= has for x in either))
    return tuple(found)


def _request(asks: np.ndarray, capacity: np.ndarray) -> np.ndarray:
    """[J, 3] units in all, as far as they do not depend on the nodes; whole nodes count as the mean node."""
    count = np.maximum(asks["nodes"], 1)
    cpus = asks["tasks"] * asks["cpus"]
    memory = np.maximum(asks["memory"] * count, asks["memory_cpu"] * cpus)
    found = np.stack([cpus, memory, np.maximum(asks["gpus"], asks["gpus_node"] * count)], axis=1).astype(np.int64)
    whole = asks["whole"] > 0
    found[whole] = np.maximum(found, (count[:, None] * capacity.mean(axis=0)).astype(np.int64))[whole]
    return found


def _fits(table: np.ndarray, partitions: list[str], ask: np.ndarray, cluster: Cluster, sets: Any) -> np.ndarray:
    """[J] could each job start on the empty nodes of one of its partitions?"""
    site, known, capacity = cluster.site, {}, cluster.capacity
    at, masks, w = {p: i for i, p in enumerate(site.partition_names)}, packed(sets.table()), rooms(len(site.weight))
    node = np.zeros(len(site.weight), np.int32)

    def one(p: str, a: int) -> bool:
        own = [masks[site.partitions[at[x]]["set"]] & masks[table[a]["set"]] for x in p.split(",") if x in at]
        return not own or any(choose(table[a], mask, mask, capacity, capacity, site.weight, w, node) > 0 for mask in own)

    for p, a in zip(partitions, ask.tolist(), strict=True):
        if (p, a) not in known:
            known[p, a] = one(p, a)
    return np.array([known[p, a] for p, a in zip(partitions, ask.tolist(), strict=True)])


def _work(r: dict) -> str:
    """The name of a job without its numbers: what it does."""
    return re.sub(r"\d+", "#", r.get("JobName", ""))


def _numbers(names) -> dict[str, int]:
    return {n: i for i, n in enumerate(dict.fromkeys(names))}


def _lists(queues: dict[str, int], partitions: tuple[str, ...], where: str) -> np.ndarray:
    """[K, W] the partitions of each different list of partitions."""
    at = {p: i for i, p in enumerate(partitions)}
    if wrong := [p for q in queues for p in q.split(",") if p not in at]:
        raise InputError(f"{where}: jobs of partition {wrong[0]!r}, which the site does not have ({', '.join(at)})")
    lists = [[at[p] for p in q.split(",")] for q in queues]
    table = np.full((len(lists), max(map(len, lists))), -1, np.int32)
    for k, x in enumerate(lists):
        table[k, : len(x)] = x
    return table


def _associations(rows: list[dict], users: dict[str, int], accounts: dict[str, int]) -> tuple[np.ndarray, np.ndarray]:
    """(the tree, parents before children, and `leaf` [U, A]). Raises InputError."""
    tree, names = [(-1, 1.0, 0)], {"root": 0}
    leaf = np.full((len(users), len(accounts)), -1, np.int32)
    waiting = [r for r in rows if not r["User"] and r["Account"] != "root"]
    parent = {r["Account"]: r.get("ParentName", r.get("Par Name", "")) or "root" for r in waiting}
    while waiting:
        ready = [r for r in waiting if parent[r["Account"]] in names]
        if not ready:
            raise InputError(f"sacctmgr_assoc.txt: account {waiting[0]['Account']}: no parent {parent[waiting[0]['Account']]}")
        for r in ready:
            names[r["Account"]] = len(tree)
            tree.append((names[parent[r["Account"]]], _share(r), 0))
        waiting = [r for r in waiting if r not in ready]
    for r in rows:
        if r["User"]:
            if r["User"] in users and r["Account"] in accounts:
                leaf[users[r["User"]], accounts[r["Account"]]] = len(tree)
            tree.append((names[r["Account"]], _share(r), 1))
    return np.array(tree, association_dtype), leaf


def _share(r: dict) -> float:
    text = r.get("Share", "")
    if not text.isdigit() and text != "parent":
        raise InputError(f"sacctmgr_assoc.txt: {r['User'] or 'account'} {r['Account']} has no share ({text!r})")
    return float(text) if text.isdigit() else 1.0

"""The jobs of a site's accounting as a workload on its nodes."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np

from jobwise.cluster import Cluster
from jobwise.errors import InputError
from jobwise.site import Site, ask_dtype, association_dtype
from jobwise.slurm.requests import asked, options
from jobwise.slurm.site import resources, table
from jobwise.workload import Workload, workload


def read_jobs(folder: Path, cluster: Cluster, site: Site, sets, features: list[set], assoc: list[dict], default: tuple) -> Workload:
    """Raises InputError."""
    file = next((f for f in sorted(folder.glob("sacct.*"))), None)
    if file is None:
        raise InputError(f"{folder}: sacct is missing")
    rows = [r for r in table(file.read_text()) if r["Start"].isdigit() and r["End"].isdigit()]
    users, accounts = _numbers([r["User"] for r in rows]), _numbers([r["Account"] for r in rows])
    asks: dict[tuple, int] = {}
    queues: dict[str, int] = {}
    ask, node_names = np.zeros(len(rows), int), {n: i for i, n in enumerate(site.names)}
    for i, r in enumerate(rows):
        tres, o = resources(r.get("ReqTRES", "")), options(r.get("SubmitLine", ""))
        mem = r.get("ReqMem", "")
        by_node = 0
        what = list(asked(r.get("SubmitLine", ""), tres, int(r["NNodes"]), int(r["ReqCPUS"]), int(r["NCPUS"]), by_node, default))
        if not site.settings["memory"][0]:
            what[4] = what[5] = 0
        what[9] = _node_set(o, r, features, node_names, sets)
        ask[i] = asks.setdefault(tuple(what), len(asks))
    names = {p: i for i, p in enumerate(site.partition_names)}
    queue = np.array([queues.setdefault(r["Partition"], len(queues)) for r in rows])
    lists = [[names[p] for p in q.split(",") if p in names] for q in queues]
    wide = np.full((len(lists), max(map(len, lists))), -1, np.int32)
    for k, x in enumerate(lists):
        wide[k, : len(x)] = x
    a = np.array(list(asks), ask_dtype)
    request = np.zeros((len(rows), 3), np.int64)
    one = a[ask]
    nodes = np.maximum(one["nodes"], 1)
    request[:, 0] = one["tasks"] * one["cpus"]
    request[:, 1] = np.maximum(one["memory"] * nodes, one["memory_cpu"] * request[:, 0])
    request[:, 2] = np.maximum(one["gpus"], one["gpus_node"] * nodes)
    tree, leaf = _associations(assoc, users, accounts)
    site = replace(site, asks=a, queues=wide, sets=sets.table(), associations=tree, leaf=leaf)
    submit, start = (np.array([float(r[k]) for r in rows]) for k in ("Submit", "Start"))
    eligible = np.array([float(r["Eligible"]) if r["Eligible"].isdigit() else s for r, s in zip(rows, submit, strict=True)])
    run = np.array([float(r["ElapsedRaw"]) for r in rows])
    limit = np.array([float(r["TimelimitRaw"]) * 60 for r in rows])
    qos = {q: i for i, q in enumerate(site.qos_names)}
    w = workload(
        eligible, request, np.maximum(run, 1.0), limit, cluster=replace(cluster, site=site), name=folder.name,
        user=np.array([users[r["User"]] for r in rows]), group=np.array([accounts[r["Account"]] for r in rows]),
        queue=np.array([qos.get(r["QOS"], -1) for r in rows]), partition=queue, ask=ask,
    )  # fmt: skip
    order = np.argsort(eligible, kind="stable")
    w.columns["wait"] = (start - eligible)[order]
    w.columns["job"] = np.array([int(re.match(r"\d+", r["JobIDRaw"])[0]) for r in rows])[order]
    w.columns["nodes"] = np.array([r["NodeList"] for r in rows], object)[order]
    return replace(w, origin=float(eligible.min()))


def _numbers(names: list[str]) -> dict[str, int]:
    return {n: i for i, n in enumerate(dict.fromkeys(names))}


def _node_set(o: dict, r: dict, features: list[set], place: dict, sets) -> int:
    """Which nodes suit the constraint."""
    members = set(range(len(features)))
    text = o.get("constraint", r.get("Constraints", "")) or ""
    if text:
        either = [set(x.split("&")) for x in text.split("|")]
        members = {i for i in members if any(x <= features[i] for x in either)}
    return sets.add(members)


def _associations(rows: list[dict], users: dict, accounts: dict):
    """(tree, leaf [U, A]); parents before children, the root first."""
    tree, names = [(-1, 1.0, 0)], {"root": 0}
    leaf = np.full((len(users), len(accounts)), -1, np.int32)
    waiting = [r for r in rows if not r["User"] and r["Account"] != "root"]
    parents = {r["Account"]: r.get("ParentName", r.get("Par Name", "")) or "root" for r in waiting}
    while waiting:
        ready = [r for r in waiting if parents[r["Account"]] in names]
        if not ready:
            raise InputError("sacctmgr_assoc: accounts " + ", ".join(r["Account"] for r in waiting[:3]) + " hang on no root")
        for r in ready:
            names[r["Account"]] = len(tree)
            tree.append((names[parents[r["Account"]]], float(r["Share"]), 0))
        waiting = [r for r in waiting if r not in ready]
    for r in rows:
        if r["User"]:
            if r["User"] in users and r["Account"] in accounts:
                leaf[users[r["User"]], accounts[r["Account"]]] = len(tree)
            tree.append((names[r["Account"]], float(r["Share"]), 1))
    return np.array(tree, association_dtype), leaf

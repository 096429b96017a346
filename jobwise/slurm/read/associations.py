"""The tree of accounts and users: shares, limits and usage of each association."""

from __future__ import annotations

from math import inf

import numpy as np

from jobwise.errors import InputError
from jobwise.site import LIMITS, association, association_dtype
from jobwise.slurm.read.text import amount, limited, said

Pairs = tuple[tuple[str, str], ...]


def associations(rows: list[dict], users: dict[str, int], accounts: dict[str, int]) -> tuple[np.ndarray, np.ndarray, Pairs]:
    """(the tree, parents before children, `leaf` [U, A], (account, user) of each row); `rows`: of sacctmgr. Raises
    InputError."""
    root = next((r for r in rows if not r["User"] and r["Account"] == "root"), {})
    tree, names, pairs = [_row(-1, 1.0, 0, root)], {"root": 0}, [("root", "")]
    leaf = np.full((len(users), len(accounts)), -1, np.int32)
    waiting = [r for r in rows if not r["User"] and r["Account"] != "root"]
    parent = {r["Account"]: r.get("ParentName", r.get("Par Name", "")) or "root" for r in waiting}
    while waiting:
        ready = [r for r in waiting if parent[r["Account"]] in names]
        if not ready:
            raise InputError(f"sacctmgr_assoc.txt: account {waiting[0]['Account']}: no parent {parent[waiting[0]['Account']]}")
        for r in ready:
            names[r["Account"]] = len(tree)
            pairs.append((r["Account"], ""))
            tree.append(_row(names[parent[r["Account"]]], _share(r), 0, r))
        waiting = [r for r in waiting if r not in ready]
    for r in rows:
        if r["User"]:
            if r["User"] in users and r["Account"] in accounts:
                leaf[users[r["User"]], accounts[r["Account"]]] = len(tree)
            pairs.append((r["Account"], r["User"]))
            tree.append(_row(names[r["Account"]], _share(r), 1, r))
    return np.array(tree, association_dtype), leaf, tuple(pairs)


def used(rows: list[dict], usage: list[dict]) -> list[dict]:
    """The rows of sacctmgr with the usage of sshare's, a user's of an account. Raises ValueError, KeyError."""
    known = {(r["Account"].strip(), r["User"].strip()): r["RawUsage"] for r in usage}
    for text in known.values():
        amount(said(text) or "0")
    return [r | {"RawUsage": known.get((r["Account"], r["User"]), "0")} for r in rows]


def unlimited(rows: list[dict]) -> list[dict]:
    """The rows without their limits."""
    return [{k: v for k, v in r.items() if k not in LIMITED} for r in rows]


LIMITED = ("GrpJobs", "GrpTRES", "MaxJobs")


def _row(parent: int, shares: float, leaf: int, r: dict) -> tuple:
    """A row of association_dtype. Raises InputError."""
    try:
        most = limited(said(r.get("GrpTRES", "")))
        values = {name: most[key] for name, key in zip(LIMITS[1:], ("cpu", "mem", "gpu", "node"), strict=True) if key in most}
        jobs, own = (amount(x) if (x := said(r.get(key, ""))) else inf for key in ("GrpJobs", "MaxJobs"))
        usage = amount(said(r.get("RawUsage", "")) or "0")
    except ValueError as error:
        raise InputError(f"sacctmgr_assoc.txt: {r['User'] or 'account'} {r['Account']}: {error}") from None
    return association(parent, shares, leaf, own, usage, jobs=jobs, **values)


def _share(r: dict) -> float:
    text = r.get("Share", "")
    if not text.isdigit() and text != "parent":
        raise InputError(f"sacctmgr_assoc.txt: {r['User'] or 'account'} {r['Account']} has no share ({text!r})")
    return float(text) if text.isdigit() else 1.0

"""Lines that change a site: `PartitionName=…`, `QOS=…`, `Account=…` with keys as slurm.conf and sacctmgr have them.

A key is a row of its table: the function puts its value into the site, whose tables are copies.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from jobwise.errors import InputError, unknown
from jobwise.site import LIMITS, Site
from jobwise.slurm.read import conf
from jobwise.slurm.read.preempting import mode_of, time_of
from jobwise.slurm.read.text import amount, memory, pairs, said
from jobwise.slurm.read.text import nodes as nodes_of
from jobwise.workloads.fields import seconds

Put = Callable[[Site, int, str], None]  # (the site, the row, the value); raises ValueError
TABLES = ("partitions", "qos", "associations", "partition_preempt", "qos_preempt", "preempts")


def apply(site: Site, text: str) -> Site:
    """The site after a line: of a partition, a QOS, an account or a user, else of slurm.conf. Raises InputError."""
    word = text.partition("=")[0].strip().lower()
    if word in ("partitionname", "partition"):
        return _row(_with_nodes(site, text), site.partition_names, text, PARTITION)
    if word in ("qos", "qosname", "name"):
        return _row(site, site.qos_names, text, QOS)
    if word in ("account", "user"):
        return _of_association(site, text)
    if word == "preemptmode":
        return _preempt_mode(site, text)
    return replace(site, settings=conf.change(site.settings, text))


def added(site: Site, text: str) -> Site:
    """The site with a new partition (`PartitionName=debug Nodes=n[1-2] …`) or QOS (`QOS=urgent Priority=100 …`). Raises
    InputError."""
    keys = pairs(text)
    (word, name), *_ = keys.items() or [("", "")]
    if word.lower() in ("partitionname", "partition"):
        if not any(k.lower() == "nodes" for k in keys):
            raise InputError(f"{text!r}: a new partition needs its nodes: Nodes=…")
        new = replace(
            site,
            partitions=np.append(site.partitions, np.array([(0, 1.0, 1, np.inf, np.inf, 1)], site.partitions.dtype)),
            partition_names=_new(name, site.partition_names, text),
            partition_qos=np.append(site.qos_of_partitions, -1),
        )
        if len(site.partition_preempt):
            new = replace(new, partition_preempt=np.append(site.partition_preempt, np.zeros(1, site.partition_preempt.dtype)))
        return apply(new, text)
    if word.lower() in ("qos", "qosname", "name"):
        row = np.zeros(1, site.qos.dtype)
        row["max_wall"], row["all"], row["user"] = np.inf, np.inf, np.inf
        new = replace(site, qos=np.concatenate([site.qos, row]), qos_names=_new(name, site.qos_names, text))
        if len(site.qos_preempt):
            own, count = np.zeros(1, site.qos_preempt.dtype), len(new.qos)
            wide = np.zeros((count, count), np.uint8)
            wide[:-1, :-1] = site.preempts
            new = replace(new, qos_preempt=np.append(site.qos_preempt, own), preempts=wide)
        return apply(new, text) if len(keys) > 1 else new
    raise InputError(f"{text!r}: new are partitions and QOS: 'PartitionName=debug Nodes=n[1-2]', 'QOS=urgent Priority=100'")


def _new(name: str, names: tuple[str, ...], text: str) -> tuple[str, ...]:
    if not name or name in names:
        raise InputError(f"{text!r}: {name!r} is there already; --set changes it" if name else f"{text!r}: no name")
    return (*names, name)


def _with_nodes(site: Site, text: str) -> Site:
    """The site with the nodes that `Nodes=` gives a partition. Raises InputError."""
    keys = pairs(text)
    name, value = next(iter(keys.values()), ""), next((v for k, v in keys.items() if k.lower() == "nodes"), None)
    if value is None or name not in site.partition_names:
        return site
    members = members_of(site, value, text)
    partitions = site.partitions.copy()
    partitions["set"][site.partition_names.index(name)] = len(site.sets)
    return replace(site, sets=np.concatenate([site.sets, members[None].astype(site.sets.dtype)]), partitions=partitions)


def members_of(site: Site, value: str, text: str) -> np.ndarray:
    """[N] bool: the nodes of a list (n[1-4]), of a partition by its name, or all. Raises InputError."""
    if value.upper() == "ALL":
        return np.ones(len(site.names), bool)
    if value in site.partition_names:
        return site.sets[site.partitions["set"][site.partition_names.index(value)]] > 0
    try:
        named = nodes_of(value)
    except ValueError as error:
        raise InputError(f"{text!r}: {error}") from None
    if not named or (lost := sorted(set(named) - set(site.names))):
        raise unknown("node", lost[0] if named else value, list(site.names), f"{text!r}: ")
    return np.isin(site.names, named)


def _of_association(site: Site, text: str) -> Site:
    """`Account=bio Share=20`, `User=ann Account=bio MaxJobs=4`: a user without an account in all of them."""
    keys = {k.lower(): v for k, v in pairs(text).items()}
    account, user = keys.pop("account", ""), keys.pop("user", "")
    names = site.association_names
    rows = [i for i, (a, u) in enumerate(names) if u == user and (a == account or not account)]
    if not rows:
        if account in {a for a, _ in names} and user in {u for _, u in names}:
            others = ", ".join(a for a, u in names if u == user)
            raise InputError(f"{text!r}: user {user} is not in account {account}, but in {others}")
        wrong, what = (user, "user") if user and not any(u == user for _, u in names) else (account, "account")
        raise unknown(what, wrong, sorted({u if what == "user" else a for a, u in names} - {""}), f"{text!r}: ")
    if not keys:
        raise InputError(f"{text!r}: what of it changes? e.g. Share=…")
    site = _copied(site)
    for row in rows:
        _put_all(site, row, keys, ASSOCIATION, text)
    return site


def _preempt_mode(site: Site, text: str) -> Site:
    value = text.partition("=")[2]
    site = _copied(site)
    try:
        mode = mode_of(value)
    except ValueError:
        raise InputError(f"{text!r}: {value!r} is no PreemptMode that is simulated: OFF, CANCEL, REQUEUE") from None
    for table in (site.partition_preempt, site.qos_preempt):
        table["mode"] = mode
    if not len(site.partition_preempt):
        raise InputError(f"{text!r}: this site has no partitions to stop jobs of")
    return site


def _copied(site: Site) -> Site:
    return replace(site, **{k: getattr(site, k).copy() for k in TABLES}, partition_qos=site.qos_of_partitions.copy())


def _row(site: Site, names: Sequence[str], text: str, keys: dict[str, Put | None]) -> Site:
    (_, name), *rest = pairs(text).items() or [("", "")]
    if name not in names:
        raise unknown("name", name, list(names), f"{text!r}: ")
    if not rest:
        raise InputError(f"{text!r}: what of it changes? e.g. {next(iter(keys))}=…")
    site = _copied(site)
    _put_all(site, list(names).index(name), dict(rest), keys, text)
    return site


def _put_all(site: Site, row: int, values: dict[str, str], keys: dict[str, Any], text: str) -> None:
    spelling = {k.lower(): k for k in keys}
    for key, value in values.items():
        if key.lower() not in spelling:
            raise unknown("key", key, list(keys), f"{text!r}: ")
        put = keys[spelling[key.lower()]]
        try:
            if put:
                put(site, row, value)
        except (ValueError, OverflowError):
            raise InputError(f"{text!r}: {value!r} is no value of {key}") from None
        except IndexError:
            raise InputError(f"{text!r}: nothing is known of preemption here; scontrol_config.txt tells it") from None


# ------------------------------------------------------------------ the keys


def _most(text: str) -> float:
    """A limit; none where the text says so, or -1. Raises ValueError."""
    if not text:
        raise ValueError("nothing")
    return amount(text) if said(text) else np.inf


def _time(text: str) -> float:
    if not text:
        raise ValueError("nothing")
    return seconds(text)


def _tier(text: str) -> int:
    if not 0 <= int(text) < 65_534:
        raise ValueError(text)
    return int(text)


def _state(text: str) -> bool:
    if text.upper() not in ("UP", "DOWN", "INACTIVE", "DRAIN"):
        raise ValueError(text)
    return text.upper() == "UP"


def _put(table: str, column: str, read: Callable[[str], float], at: int | None = None) -> Put:
    def put(site: Site, row: int, value: str) -> None:
        own = getattr(site, table)[row : row + 1]
        if not len(own):
            raise IndexError
        if at is None:
            own[column] = read(value)
        else:
            own[column][:, at] = read(value)

    return put


TRES = ("cpu", "mem", "gres/gpu", "node")


def _tres(table: str, column: str) -> Put:
    def put(site: Site, row: int, value: str) -> None:
        for word in value.split(","):
            key, has, text = word.partition("=")
            if not has or key not in TRES:
                raise ValueError(word)
            most = float(memory(text)) if key == "mem" and said(text) else _most(text)
            getattr(site, table)[column][row, 1 + TRES.index(key)] = most

    return put


def _own_qos(site: Site, row: int, value: str) -> None:
    site.partition_qos[row] = site.qos_names.index(value) if said(value) else -1


def _preempts(site: Site, row: int, value: str) -> None:
    if not len(site.preempts):
        raise IndexError
    site.preempts[row] = 0
    for name in filter(None, said(value).split(",")):
        site.preempts[row, site.qos_names.index(name)] = 1


JOBS = LIMITS.index("jobs")
PARTITION: dict[str, Put | None] = {
    "Nodes": None,  # by _with_nodes: of the site, not of the row
    "MaxTime": _put("partitions", "max_time", _time),
    "MaxNodes": _put("partitions", "max_nodes", _most),
    "PriorityJobFactor": _put("partitions", "factor", amount),
    "PriorityTier": _put("partitions", "tier", _tier),
    "State": _put("partitions", "up", _state),
    "QoS": _own_qos,
    "PreemptMode": _put("partition_preempt", "mode", mode_of),
    "GraceTime": _put("partition_preempt", "grace", time_of),
}
QOS: dict[str, Put | None] = {
    "Priority": _put("qos", "priority", amount),
    "MaxWall": _put("qos", "max_wall", _time),
    "MaxJobsPU": _put("qos", "user", _most, JOBS),
    "GrpJobs": _put("qos", "all", _most, JOBS),
    "MaxTRESPU": _tres("qos", "user"),
    "GrpTRES": _tres("qos", "all"),
    "Preempt": _preempts,
    "PreemptMode": _put("qos_preempt", "mode", mode_of),
    "GraceTime": _put("qos_preempt", "grace", time_of),
}
ASSOCIATION: dict[str, Put | None] = {
    "Share": _put("associations", "shares", amount),
    "Fairshare": _put("associations", "shares", amount),
    "MaxJobs": _put("associations", "jobs", _most),
    "GrpJobs": _put("associations", "all", _most, JOBS),
    "GrpTRES": _tres("associations", "all"),
}

"""What jobs of a site ask of its nodes: their lines, their trackable resources, and what they got."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow.compute as pc

from jobwise.site import ask_dtype
from jobwise.slurm.read.hardware import Sets, Sharing
from jobwise.slurm.read.requests import by_accounting, by_line, options, switches_of, types_of
from jobwise.slurm.read.text import amount, features_of, nodes, resources, said
from jobwise.slurm.read.unsimulated import UNSIMULATED
from jobwise.workloads.accounting import Accounting

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
    nodes; `shared`: how jobs share nodes; `licences`: names;
    `preempting`: jobs stop others; `once`: jobs are not requeued."""

    sets: Sets
    features: list[set]
    memory: tuple[int, int]
    reservations: dict[str, int] = field(default_factory=dict)
    names: tuple[str, ...] = ()
    shared: Sharing = Sharing()
    licences: tuple[str, ...] = ()
    preempting: bool = False
    once: bool = False
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


UNREAD = "{} jobs whose SubmitLine cannot be read: ReqTRES is taken"
FEW_NAMED = UNSIMULATED + "--nodelist of fewer nodes than asked for, of {} jobs: these take any nodes"
GONE = "{} jobs whose --nodelist names nodes that scontrol_node does not have: these take any nodes"


def asks(a: Accounting, site: Known, capacity: np.ndarray, memory: bool) -> tuple[np.ndarray, np.ndarray, dict[str, int]]:
    """(rows of ask_dtype, which one each job has [J], remarks, and on how many jobs); each one is read once. Raises
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
    names = (*ASKED, *(("Partition",) if site.shared.whole else ()))
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
    """(a row of ask_dtype: what the line says as far as it goes, for the script may say more, else accounting; a
    remark on it). Raises ValueError."""
    o, asked, got = options(r["SubmitLine"]), resources(r["ReqTRES"]), resources(r["AllocTRES"])
    amounts = list(by_accounting(asked, got, int(r["ReqCPUS"] or 0), r["ReqMem"], site.shared.unit))
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
    if site.shared.unit > 1 and not amounts[8]:
        amounts[2:4] = in_cores(amounts[2], amounts[3], int(got.get("cpu", 0)), site.shared.unit)
    amounts[8] = amounts[8] or r.get("Partition", "") in site.shared.whole
    if max(site.shared.times, default=1) > 1:  # a CPU that counts twice is one for a single job
        amounts[0] = max(amounts[0], int(got.get("node", 1)))
    usable = (capacity[:, 0] >= amounts[3]) & (capacity[:, 1] >= max(amounts[5], amounts[4] * amounts[3]))
    if text := o.get("constraint", said(r["Constraints"])):
        either = features_of(text)
        usable &= [any(x <= has for x in either) for has in site.features]
    if types := (amounts[6] or amounts[7]) and _types(o, r["ReqTRES"]):
        each = {x: n if amounts[7] else 1 for x, n in types.items()}  # of a node
        amounts[16] = site.sets.add(
            np.flatnonzero([all(has.get(x, 0) >= n for x, n in each.items()) for has in site.shared.types]).tolist()
        )
    if "exclude" in o:
        usable &= ~np.isin(site.names, nodes(o["exclude"]))
    if "nodelist" in o:
        named = nodes(o["nodelist"])
        there = np.isin(site.names, named)
        if there.sum() < len(set(named)):
            remark = GONE
        elif max(amounts[0], 1) <= len(named):  # all that are named are of the job
            usable &= there
            amounts[17] = 1
            amounts[0] = max(amounts[0], min(len(named), int(got.get("node", len(named)))))
        else:
            remark = FEW_NAMED
    if not usable.all():
        amounts[9] = site.sets.add(np.flatnonzero(usable).tolist())
    amounts[13] = int(site.preempting and (amounts[13] or site.once))
    amounts[15] = site.bundle(o.get("licenses", ""))
    amounts[19:21] = switches_of(o.get("switches", ""))
    amounts[18] = site.reservations.get(o.get("reservation", ""), 0)
    return tuple(amounts), remark


def _types(o: dict[str, str], asked: str) -> dict[str, int]:
    """The types of GPUs that a job asks for, in its line, else by accounting."""
    line = next((o[k] for k in ("gres", "gpus-per-node", "gpus", "gpus-per-task") if k in o), "")
    tres = ",".join(x for x in asked.split(",") if x.startswith("gres/gpu:"))
    return types_of(line) if line else types_of(tres)


def in_cores(tasks: int, cpus: int, got: int, threads: int) -> list[int]:
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

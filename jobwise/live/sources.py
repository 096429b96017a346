"""A running cluster, read: Slurm's own commands, one call each, as a workload of what ended, runs and waits now.

`squeue --json` says what waits and runs, `sprio` with which priority; `sacct` what ended, and with which line jobs were
submitted; the rest is what `jobwise slurm site` reads. A folder with the same outputs stands for a cluster that is not here.
"""

from __future__ import annotations

import getpass
import json
import os
import re
import shlex
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from jobwise.errors import InputError
from jobwise.files import writing
from jobwise.slurm.client import ENDED, SPRIO, Slurm, SlurmError, complaint, listed, number, priorities_of, state
from jobwise.slurm.read import documents
from jobwise.slurm.read.jobs import NEW
from jobwise.slurm.read.site import COMMANDS, out_of_service, read
from jobwise.slurm.read.text import config, diagnosis, records, table
from jobwise.workload import Workload
from jobwise.workloads.accounting import Accounting, joined, of_rows
from jobwise.workloads.accounting import read as accounts
from jobwise.workloads.sacct import is_sacct

HERE = "this cluster"  # a folder of this name is filled, read and deleted
REFRESH_S, REMEMBERED = 600.0, 20_000  # between two readings of all but the queue; rows of sacct that a reader keeps
DAYS = 40  # of accounting: what futures copy arrivals from
SHARES = "SLURM_TIME_FORMAT=%s sshare -a -P -o Account,User,RawUsage"
OPTIONAL = (
    "sacct", "sacctmgr_qos", "sacctmgr_assoc", "sacctmgr_event", "sacctmgr_reservation", "scontrol_topology", "sshare_start",
    "sdiag", "sacctmgr_user",
)  # fmt: skip
MOST_TASKS = 1000  # of an array that waits: so many are looked at
CLOCK_S = 1.0  # times are whole seconds: a job that is eligible so much later is eligible now
OUT = (  # reasons: it cannot start yet
    *("Dependency", "DependencyNeverSatisfied", "JobHeldUser", "JobHeldAdmin", "BeginTime"),
    *("PartitionTimeLimit", "PartitionNodeLimit"),
)


@dataclass(frozen=True)
class Waiting:
    """A job that waits, as squeue has it. `id`: the job's number; `partition`: or several, "a,b"; `tasks`: of an array, else 1;
    `nodes`: it may run on these alone, as Slurm writes them; "" any. `plain`: neither an array nor a part of a heterogeneous
    job, in one partition, without a reservation or nodes that it does not want."""

    id: int
    name: str
    user: str
    reason: str
    planned: float  # s since 1970, the start that Slurm plans; 0: none
    partition: str = ""
    qos: str = ""
    tasks: int = 1
    nodes: str = ""
    plain: bool = False


@dataclass(frozen=True, eq=False)
class Now:
    """The state of a cluster. `workload`: ended, running and waiting jobs on its site, in order of submit, with `start` and
    `end` (NaN: not yet) in s from `origin`; `now` likewise. `waiting`: jobs that may start, by number; `out`: that may not.
    `name`: that of the cluster. `factors`: (priority, site factor) of jobs that may start, by number. `down`: nodes that were
    out of service when nodes were read last; `diagnosis`: what sdiag said then (`text.diagnosis`).
    `qos`: the names of the QOS that each (user, account) may ask for."""

    workload: Workload
    now: float
    waiting: dict[int, Waiting]
    out: dict[int, Waiting]
    name: str
    factors: dict[int, tuple[int, int]] = field(default_factory=dict)
    down: frozenset[str] = frozenset()
    diagnosis: dict[str, float] = field(default_factory=dict)
    qos: dict[tuple[str, str], tuple[str, ...]] = field(default_factory=dict)

    @property
    def live(self) -> np.ndarray:
        """Rows of the jobs that wait or run, ascending."""
        return np.flatnonzero(np.isnan(self.workload.jobs["end"]))

    @cached_property
    def steered(self) -> Workload:
        """The workload with the site factors that its jobs have now: as Slurm does, each adds to its job's priority."""
        w = self.workload
        factor = np.array([self.factors.get(id, (0, 0))[1] for id in w.columns["job"].tolist()], np.int64)
        rows = np.flatnonzero((factor != 0) & np.isnan(w.jobs["start"]))
        if not len(rows):
            return w
        jobs, site = w.jobs.copy(), w.cluster.known_site
        pairs, own = np.unique(np.stack([jobs["ask"][rows], factor[rows]]), axis=1, return_inverse=True)
        asks = site.asks[pairs[0]]
        asks["nice"] -= pairs[1].astype(np.int32)
        jobs["ask"][rows] = len(site.asks) + own.ravel()
        return replace(w, jobs=jobs, cluster=replace(w.cluster, site=replace(site, asks=np.concatenate([site.asks, asks]))))

    def row(self, id: int) -> int:
        """The row of a job; -1: it is not there."""
        at = np.flatnonzero(self.workload.columns["job"] == id)
        return int(at[0]) if len(at) else -1


class ClusterReader:
    """Reads a cluster again and again: the queue at each look, all else every `refresh` s. `kept`: a folder for what Slurm's
    commands print, which stays."""

    def __init__(self, slurm: Slurm, refresh: float = REFRESH_S, kept: Path | None = None):
        self.slurm, self.refresh, self._at, self._kept = slurm, refresh, -np.inf, kept
        self._folder = tempfile.TemporaryDirectory(prefix="jobwise-")

    def look(self) -> Now:
        """Read the cluster as it is now. Raises InputError."""
        folder, now = self._kept or Path(self._folder.name) / HERE, time.monotonic()
        whole = now - self._at >= self.refresh
        with writing(folder):
            fetch(self.slurm, folder, whole)
            if whole:
                self._at = now
                _shorten(folder / "sacct.txt")
        if why := hidden(folder):
            raise InputError(why)
        return look(folder)

    def close(self) -> None:
        """Delete what it has on disk for itself."""
        self._folder.cleanup()


def _shorten(file: Path) -> None:
    """Keep the head and the last REMEMBERED rows of sacct's output: a reader parses them at every look."""
    lines = file.read_text().splitlines(keepends=True) if file.is_file() else []
    if len(lines) > REMEMBERED + 1:
        file.write_text("".join([lines[0], *lines[-REMEMBERED:]]))


def fetch(slurm: Slurm, folder: Path, whole: bool = True) -> None:
    """Fill a folder with what the commands of Slurm print; not `whole`: the queue alone. Raises SlurmError where squeue or
    scontrol do not answer."""
    folder.mkdir(parents=True, exist_ok=True)
    level = f"sacctmgr -nP show user name={getpass.getuser()} format=AdminLevel"
    commands = COMMANDS | {"sshare_start": SHARES, "sdiag": "sdiag", "sacctmgr_user": level}
    for name, command in commands.items() if whole else ():
        words = shlex.split(command.replace("now-180days", f"now-{DAYS}days"))
        env = dict(w.split("=", 1) for w in words if "=" in w and w.split("=")[0].isupper())
        try:
            text = slurm.run(*(w for w in words if w.split("=")[0] not in env), env=env)
        except SlurmError:
            if name not in OPTIONAL:
                raise
            continue
        (folder / f"{name}.txt").write_text(text)
    (folder / "sprio.txt").unlink(missing_ok=True)
    with suppress(SlurmError):  # its priorities may be by order of arrival
        (folder / "sprio.txt").write_text(slurm.run(*SPRIO))
    (folder / "squeue.json").write_text(slurm.run("squeue", "--json"))
    (folder / "now.txt").write_text(f"{time.time():.3f}\n")


def hidden(folder: Path) -> str:
    """Return why the folder that this account has filled lacks jobs of others; "" where it has them. PrivateData keeps them
    from all but root, Slurm's own user, and operators."""
    about, user = config(output(folder, "scontrol_config")), getpass.getuser()
    sees = os.geteuid() == 0 or about.get("slurmuser", "").startswith(f"{user}(")
    level = output(folder, "sacctmgr_user").strip()
    if "jobs" not in about.get("privatedata", "").split(",") or sees or level not in ("", "None"):
        return ""
    return f"PrivateData hides the jobs of others from {user}: adminlevel=Operator shows them"


def look(folder: Path, more: dict[str, str] | None = None) -> Now:
    """Read the cluster of a folder that `fetch` has filled. `more`: columns of sacct of one more job that waits (`new_job`).
    Raises InputError; its text names no path for a temporary folder (HERE), which the user has not seen."""
    try:
        return _look(folder, more)
    except InputError as error:
        if folder.name != HERE:
            raise
        raise InputError(str(error).replace(f"{folder}/", "").replace(str(folder), HERE)) from None


def _look(folder: Path, more: dict[str, str] | None) -> Now:
    """Read the folder, with its own path in what is raised."""
    file = folder / "squeue.json"
    if not file.is_file():
        raise InputError(f"{folder}: squeue.json is missing; `squeue --json` writes it")
    if why := complaint(text := output(folder, "squeue", "json")):
        raise InputError(f"{file}: is no queue; squeue failed: {why}")
    try:
        jobs = [x for x in json.loads(text)["jobs"] if isinstance(x, dict)]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise InputError(f"{file}: is no whole output of `squeue --json`") from None
    now = _now(folder, jobs)
    waits, out, rows, factors = {}, {}, [], _priorities(folder)
    live = {str(int(number(x.get("job_id")))) for x in jobs if state(x.get("job_state")) not in ENDED}
    over, lines = _accounted(folder, live)
    accounted, task_numbers = set(over.text("JobIDRaw").to_pylist()), set[int]()
    latest = max([now, *(number(x.get("submit_time")) for x in jobs)])  # the clock of this machine may be behind Slurm's
    for x in jobs:
        begun = number(x.get("start_time"))
        own = documents.of_queue(x, *lines.get(str(int(number(x.get("job_id")))), ()))
        if own["State"] in ENDED:  # accounting lags behind; a job that was cancelled while it waited never ran
            if 0 < begun < number(x.get("end_time")) and own["JobIDRaw"] not in accounted:
                rows.append(own)
                accounted.add(own["JobIDRaw"])
            continue
        if own["State"] != "PENDING":
            rows.append(own)
            continue
        tasks = _tasks(str(x.get("array_task_string") or ""))
        job = _waiting(x, own, begun, tasks)
        eligible = float(own["Eligible"] or "inf")  # what Slurm gives as a reason may be an old one
        if job.reason in OUT or eligible > latest + CLOCK_S:
            out[job.id] = job
            continue
        waits[job.id] = job
        rows.append(own)
        for k in range(1, min(tasks, MOST_TASKS)):
            task = _number(job.id, k, task_numbers)
            rows.append(own | {"JobIDRaw": str(task)})
            if job.id in factors:
                factors[task] = factors[job.id]
    if more:
        rows.append(dict.fromkeys(documents.of_queue({}), "") | more)
        waits[NEW] = Waiting(NEW, more["JobName"], more["User"], "", 0.0, more["Partition"], more.get("QOS", ""))
    if not rows and not len(over):
        raise InputError(f"{folder}: no job waits, runs, or has ended")
    own_rows = of_rows(rows, str(folder), [-int(r["JobIDRaw"]) for r in rows])
    w = replace(read(folder, joined(over, own_rows, str(folder), now)), name=folder.name)
    said = diagnosis(output(folder, "sdiag"))
    return Now(w, now - w.origin, waits, out, _name(folder), factors, _down(folder), said, _qos(folder))


def _number(array: int, k: int, taken: set[int]) -> int:
    """Return a number for task k of those of an array that wait, behind NEW, the same at every look, and add it to those
    `taken`."""
    free = 2**31 - 2 - NEW
    at = (array * MOST_TASKS + k) % free
    while at in taken:
        at = (at + 1) % free
    taken.add(at)
    return NEW + 1 + at


def _waiting(x: dict, own: dict[str, str], begun: float, tasks: int) -> Waiting:
    """A job of squeue that waits; `own`: its row."""
    special = any(number(x.get(k)) for k in ("array_job_id", "het_job_id"))
    special |= any(listed(x.get(k)) for k in ("excluded_nodes", "resv_name")) or "," in own["Partition"]
    reason, where = str(x.get("state_reason") or ""), listed(x.get("required_nodes"))
    queue = own["Partition"], own["QOS"]
    return Waiting(int(own["JobIDRaw"]), own["JobName"], own["User"], reason, begun, *queue, tasks, where, not special)


def _name(folder: Path) -> str:
    """Return the cluster's own name; the folder's name where it is unknown."""
    file = folder / "scontrol_config.txt"
    named = re.search(r"^ClusterName\s*=\s*(\S+)", file.read_text(errors="replace"), re.M) if file.is_file() else None
    return named[1] if named else folder.name


def _now(folder: Path, jobs: list[dict]) -> float:
    """s since 1970 when squeue was asked: as `fetch` wrote, else when its scheduler looked last."""
    try:
        return float((folder / "now.txt").read_text())
    except (OSError, ValueError):
        return max((number(x.get(k)) for x in jobs for k in ("last_sched_evaluation", "submit_time")), default=time.time())


def _down(folder: Path) -> frozenset[str]:
    """The nodes of scontrol_node.txt that take no jobs."""
    every = records(output(folder, "scontrol_node"), "NodeName")
    return frozenset(r["NodeName"] for r in every if out_of_service(r.get("State", "")))


def _qos(folder: Path) -> dict[tuple[str, str], tuple[str, ...]]:
    """The QOS that users of accounts may ask for, by sacctmgr_assoc.txt."""
    rows = (r for r in table(output(folder, "sacctmgr_assoc")) if r.get("User"))
    return {(r["User"], r.get("Account", "")): tuple(filter(None, r.get("QOS", "").split(","))) for r in rows}


def _priorities(folder: Path) -> dict[int, tuple[int, int]]:
    """(priority, site factor) of the jobs of sprio.txt, if there is one."""
    return priorities_of(output(folder, "sprio"))


def output(folder: Path, name: str, kind: str = "txt") -> str:
    """Return the output of a command; "" where it is unknown."""
    try:
        return (folder / f"{name}.{kind}").read_text(errors="replace")
    except OSError:
        return ""


def _accounted(folder: Path, live: set[str]) -> tuple[Accounting, dict[str, tuple[str, str]]]:
    """(the jobs that have ended by sacct.txt, each once; SubmitLine and ReqMem of the `live` ones, which squeue has)."""
    text = output(folder, "sacct")
    a = accounts(text, f"{folder}/sacct.txt") if is_sacct(text) else of_rows([], str(folder), [])
    ids, states = (a.text(name).to_pylist() for name in ("JobIDRaw", "State"))
    last = {id: k for k, id in enumerate(ids) if id and states[k]}
    lines = {}
    for id in live & set(last):
        row = a.take(np.array([last[id]]))
        lines[id] = row.text("SubmitLine")[0].as_py(), row.text("ReqMem")[0].as_py()
    over = [k for id, k in last.items() if id not in live and states[k].split(" ")[0] not in ("PENDING", "RUNNING")]
    return a.take(np.array(over, np.int64)), lines


def _tasks(text: str) -> int:
    """Return the number of tasks in a list such as "0-3,7"; 1 for none."""
    count = 0
    for part in filter(None, text.split("%")[0].split(",")):
        first, _, last = part.split(":")[0].partition("-")
        if first.isdigit() and (not last or last.isdigit()):
            count += int(last or first) - int(first) + 1
    return max(count, 1)

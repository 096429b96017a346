"""The one module that talks to Slurm. Its commands are run with lists of arguments and a time limit, never through a shell.

Reads `squeue --json` and `sinfo --json` of 22.05 (flat numbers, states as text) and of 24.11 (numbers as {"set", "infinite",
"number"}, states as lists).
"""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from jobwise.errors import InputError, plain
from jobwise.slurm.read.text import gpus as gpus_in

TIMEOUT_S = 60.0
MOST = 1e15  # of a number that Slurm may mean
LOST_S = 30.0  # after an answer of the controller a job may be missing from its lists for so long
ENDED = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED", "BOOT_FAIL", "DEADLINE")


class SlurmError(InputError):
    """Slurm refused, or did not answer: what it said."""


class Refused(SlurmError):
    """A job that can never be submitted as it is: asking again does not help."""


FOR_NOW = re.compile("timed out|unable to contact|temporar|zero bytes|try again|connect|not responding|too many", re.I)
FOR_GOOD = re.compile("submission failed|unrecognized option|invalid", re.I)


@dataclass(frozen=True)
class SlurmJob:
    """A job as `squeue` has it. Times in s since 1970, 0 where there is none yet."""

    id: int
    name: str
    state: str  # PENDING, RUNNING, or one of ENDED
    reason: str
    submit: float
    start: float
    end: float
    cores: int
    code: int  # exit code
    node: str = ""  # those it runs on, as Slurm writes them


@dataclass(frozen=True)
class LimitedJob:
    """A job that waits or runs, with its time limits in minutes. `start`: its start, or its planned start (0: none), and
    `end`, when its limit is over, s since 1970; `least`: to which
    Slurm may shorten its limit (TimeMin), 0 none; `restarts`: how often it was put back; `requeue`: it may be put back;
    `plain`: a batch job that is neither of an array nor a part of a heterogeneous one."""

    id: int
    state: str
    reason: str
    limit: int
    least: int
    start: float
    end: float
    restarts: int
    requeue: bool
    plain: bool
    comment: str
    qos: str
    account: str


@dataclass(frozen=True)
class Node:
    """A node as `sinfo` has it. `kind`: its features, by which nodes are alike or not; "" where it has none."""

    name: str
    cores: int
    free: int  # of its cores; 0 where it is down or drained
    kind: str


def number(value: Any, default: float = 0.0) -> float:
    """A number of either dialect; `default` for null, unset and infinite ones."""
    if isinstance(value, dict):
        if value.get("infinite") or value.get("set") is False:
            return default
        value = value.get("number")
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return float(value) if is_number and abs(value) <= MOST else default  # JSON's readers take NaN and Infinity, too


def listed(value: Any) -> str:
    """The names of nodes of either dialect, as Slurm writes them: a text, or a list of texts."""
    return ",".join(map(str, value)) if isinstance(value, list) else str(value or "")


def state(value: Any) -> str:
    """A job's state of either dialect, in capitals; of several flags the first."""
    value = value[0] if isinstance(value, list) and value else value
    return str(value or "").upper()


def jobs_of(text: str) -> list[SlurmJob]:
    """The jobs of what `squeue --json` printed. Raises SlurmError."""
    jobs = []
    for x in _document(text, "jobs"):
        code = x.get("exit_code")
        if isinstance(code, dict):
            code = code.get("return_code")
        status = int(number(code))
        name, why, node = (str(x.get(k) or "") for k in ("name", "state_reason", "nodes"))
        job = SlurmJob(
            id=int(number(x.get("job_id"))),
            name=name,
            state=state(x.get("job_state")),
            reason=why,
            submit=number(x.get("submit_time")),
            start=number(x.get("start_time")),
            end=number(x.get("end_time")),
            cores=int(number(x.get("cpus"), 1)),
            code=status >> 8 or status,
            node=node,
        )
        jobs.append(job)
    return jobs


def limited_of(x: dict) -> LimitedJob:
    """A job of `squeue --json`, with its limits; a limit of 0: it has none, or none that can be read."""
    array, part = number(x.get("array_job_id")), number(x.get("het_job_id"))
    return LimitedJob(
        id=int(number(x.get("job_id"))),
        state=state(x.get("job_state")),
        reason=str(x.get("state_reason") or ""),
        limit=int(number(x.get("time_limit"))),
        least=int(number(x.get("time_minimum"))),
        start=number(x.get("start_time")),
        end=number(x.get("end_time")),
        restarts=max(int(number(x.get("restart_cnt"))), 0),
        requeue=x.get("requeue") is True or x.get("requeue") == 1,
        plain=not array and not part and bool(x.get("batch_flag", True)),
        comment=str(x.get("comment") or ""),
        qos=str(x.get("qos") or ""),
        account=str(x.get("account") or ""),
    )


def over_time(text: str) -> float:
    """OverTimeLimit of `scontrol show config`, in minutes; endless where it is UNLIMITED."""
    value = next(iter(re.findall(r"^OverTimeLimit\s*=\s*(\S+)", text, re.MULTILINE)), "0")
    return math.inf if value.upper().startswith("UNLIM") else float(re.sub(r"\D", "", value) or 0)


def complaint(text: str) -> str:
    """What an answer in JSON says went wrong; "" nothing. Without its controller the squeue of 22.05 exits with 0: no jobs, and
    why."""
    if not re.search(r'"errors"\s*:\s*[\[{]\s*[^\]}\s]', text):  # a queue may be long: it is parsed where it is read
        return ""
    try:
        errors = json.loads(text)["errors"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return ""  # whoever reads it says that it is no JSON
    first = errors[0] if isinstance(errors, list) and isinstance(errors[0], dict) else {"error": errors}
    return plain(": ".join(str(first[k]) for k in ("source", "description", "error") if first.get(k))[:400])


def _document(text: str, key: str) -> list[dict]:
    try:
        entries = [*json.loads(text)[key]]
    except (ValueError, KeyError, TypeError, RecursionError):  # the last of a million brackets
        raise SlurmError(f"Slurm printed no JSON with {key!r}: {plain(text[:80])!r}") from None
    return [x for x in entries if isinstance(x, dict)]


UP = ("idle", "mixed", "allocated", "completing")


def nodes_of(text: str) -> list[Node]:
    """The nodes of the default partition (of all, where none is) in what `sinfo -N -h -o "%N|%C|%T|%f|%P"` printed. Raises
    SlurmError."""
    nodes, default = {}, {}
    for line in text.splitlines():
        try:
            name, counts, state, kind, partition = (x.strip() for x in line.split("|"))
            _, idle, _, cores = map(int, counts.split("/"))
        except ValueError:
            expected = "name|used/idle/other/all cores|state|features|partition was expected"
            raise SlurmError(f"sinfo printed {plain(line[:80])!r}; {expected}") from None
        node = Node(name, cores, idle if state in UP else 0, "" if kind == "(null)" else kind)
        nodes[name] = node
        if partition.endswith("*"):
            default[name] = node
    return sorted((default or nodes).values(), key=lambda n: n.name)


SPRIO = ("sprio", "-h", "-o", "%i|%Y|%S")  # (priority, site factor) of jobs that wait and may start


def priorities_of(text: str) -> dict[int, tuple[int, int]]:
    """(priority, site factor) by job, of what SPRIO printed; other lines are messages."""
    out = {}
    for line in text.splitlines():
        cells = [x.strip() for x in line.split("|")]
        if len(cells) == 3 and cells[0].split("_")[0].isdigit() and all(re.fullmatch(r"-?\d+", x) for x in cells[1:]):
            out[int(cells[0].split("_")[0])] = int(cells[1]), int(cells[2])
    return out


class Slurm:
    """The Slurm of this machine (of SLURM_CONF). Raises SlurmError where there is none."""

    stamps = True  # its jobs run their scripts
    lost_s = LOST_S
    now = staticmethod(time.time)
    wait = staticmethod(time.sleep)

    def __init__(self, timeout_s: float = TIMEOUT_S):
        self.timeout_s = timeout_s
        if missing := [c for c in ("squeue", "scontrol", "sinfo", "sbatch", "scancel") if shutil.which(c) is None]:
            raise SlurmError(f"there is no Slurm here: the command {missing[0]!r} is not found")

    def run(self, *arguments: str, text: str | None = None, env: dict[str, str] | None = None) -> str:
        """Return what a command of Slurm prints; `env`: further variables. Raises SlurmError with what it complained of."""
        try:
            done = subprocess.run(
                arguments, input=text, capture_output=True, text=True, timeout=self.timeout_s, check=False,
                encoding="utf-8", errors="replace",  # names of jobs may be any bytes
                env=os.environ | {"SLURM_TIME_FORMAT": "standard", "TZ": "UTC", "LC_ALL": "C"} | (env or {}),
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise SlurmError(f"{arguments[0]} does not answer within {self.timeout_s:g} s") from None
        except OSError as error:
            raise SlurmError(f"{arguments[0]} cannot be run: {error.strerror}") from None
        if done.returncode:
            said = " ".join((done.stderr or done.stdout).split()) or f"exit code {done.returncode}"
            raise SlurmError(f"{arguments[0]}: {plain(said[:400])}")
        if "--json" in arguments and (said := complaint(done.stdout)):
            raise SlurmError(f"{arguments[0]}: {said}")
        return done.stdout

    def jobs(self) -> list[SlurmJob]:
        """Jobs that wait, run, or ended a short while ago (Slurm's MinJobAge)."""
        return jobs_of(self.run("squeue", "--json"))

    def cores(self) -> tuple[int, int]:
        """(cores of nodes that are up, cores of the largest)."""
        lines = {tuple(line.split("|")) for line in self.run("sinfo", "-N", "-h", "-o", "%N|%c|%T").split()}
        every = [int(c) for _, c, state in lines if not re.match("down|drain", state)]
        return sum(every), max(every, default=0)

    def pools(self) -> dict[str, int]:
        """Return the memory (MB; where Slurm counts it) and the GPUs of the nodes that are up. Raises SlurmError."""
        lines = {tuple(line.split("|", 3)) for line in self.run("sinfo", "-N", "-h", "-o", "%N|%T|%m|%G").splitlines()}
        up = [(memory, gres) for _, state, memory, gres in lines if not re.match("down|drain", state)]
        counted = re.search(r"^SelectTypeParameters\s*=.*MEMORY", self.run("scontrol", "show", "config"), re.MULTILINE)
        memory = sum(int(m) for m, _ in up if m.isdigit()) if counted else 0
        return {k: v for k, v in {"memory": memory, "gpus": sum(gpus_in(g) for _, g in up)}.items() if v}

    def nodes(self) -> list[Node]:
        """The nodes there are, by name. Raises SlurmError."""
        return nodes_of(self.run("sinfo", "-N", "-h", "-o", "%N|%C|%T|%f|%P"))

    def ranks(self, count: int) -> list[str]:
        """Return the words before a command that start it as `count` MPI ranks, on all nodes of its job."""
        return ["srun", f"--ntasks={count}"]

    def anywhere(self, id: int) -> None:
        """A job that waits for a node may run on any."""
        self.run("scontrol", "update", f"JobId={id}", "ReqNodeList=")

    def required(self) -> dict[int, tuple[str, str]]:
        """(state, the nodes that it may run on alone or "") of each job that has not ended, by number."""
        every = ((x, state(x.get("job_state"))) for x in _document(self.run("squeue", "--json"), "jobs"))
        return {int(number(x.get("job_id"))): (s, listed(x.get("required_nodes"))) for x, s in every if s not in ENDED}

    def limited(self) -> list[LimitedJob]:
        """Return the jobs that wait or run and have a time limit. Raises SlurmError."""
        every = (limited_of(x) for x in _document(self.run("squeue", "--json"), "jobs"))
        return [j for j in every if j.id > 0 and j.limit > 0 and j.state in ("PENDING", "RUNNING")]

    def slack(self) -> float:
        """Return the minutes that Slurm lets jobs run beyond their limits (OverTimeLimit). Raises SlurmError."""
        return over_time(self.run("scontrol", "show", "config"))

    def change(self, jobs: dict[int, str]) -> str:
        """Update jobs with these words of scontrol, by one scontrol; what it complained of."""
        return self._update(jobs) if jobs else ""

    def requeue(self, jobs: Sequence[int]) -> str:
        """Put running jobs back into the queue; what scontrol complained of."""
        try:
            if jobs:
                self.run("scontrol", "requeue", ",".join(map(str, jobs)))
        except SlurmError as error:
            return str(error)
        return ""

    def place(self, jobs: dict[int, list[str]]) -> str:
        """Let waiting jobs run on these nodes alone, with none named on any, by one scontrol; what it complained of (jobs that
        have started meanwhile)."""
        return self._update({id: f"ReqNodeList={','.join(nodes)}" for id, nodes in jobs.items()})

    def submit(
        self,
        script: str,
        *,
        name: str,
        cores: int = 1,
        ranks: int = 0,
        minutes: float | None = None,
        memory_mb: float = 0.0,
        gpus: int = 0,
        after: Sequence[int] = (),
        nice: int = 0,
        node: str = "",
        output: str = "/dev/null",
        folder: str | None = None,
        more: Sequence[str] = (),
    ) -> int:
        """Submit a batch script, to start after the jobs `after` have ended well; its job id. `node`: it runs there.
        `ranks`: of MPI, on as many nodes as Slurm gives them; 0: a command on one node. `more`: further options of `sbatch`.
        Raises SlurmError."""
        each = math.ceil(cores / max(ranks, 1))
        command = ["sbatch", "--parsable", f"--job-name={name}", *([] if ranks else ["--nodes=1"])]
        command += [f"--ntasks={max(ranks, 1)}", f"--cpus-per-task={each}", f"--output={output}"]
        command += [f"--time={math.ceil(minutes)}"] if minutes else []
        mib, least = memory_mb / 1.048576, max(ranks, 1) * each
        per_core = f"--mem-per-cpu={max(math.ceil(mib / least), 1)}M"  # --mem is of each node
        command += [per_core if ranks else f"--mem={max(int(mib), 1)}M"] if memory_mb > 0 else []
        command += [f"--gpus={gpus}" if ranks else f"--gres=gpu:{gpus}"] if gpus else []
        command += [f"--dependency=afterok:{':'.join(map(str, after))}", "--kill-on-invalid-dep=yes"] if after else []
        command += [f"--nice={nice}"] if nice else []
        command += [f"--chdir={folder}"] if folder else []
        command += [f"--nodelist={node}"] if node else []
        try:
            said = self.run(*command, *more, text=script).strip().split(";")[0]
        except SlurmError as error:
            if FOR_GOOD.search(str(error)) and not FOR_NOW.search(str(error)):
                raise Refused(str(error)) from None
            raise
        if not said.isdigit():
            raise SlurmError(f"sbatch printed {plain(said[:80])!r}; a job id was expected")
        return int(said)

    def priorities(self) -> dict[int, tuple[int, int]]:
        """(priority, site factor) of each job that waits and may start, by its number; of an array once."""
        return priorities_of(self.run(*SPRIO))

    def set_site_factors(self, factors: dict[int, int]) -> str:
        """Set the site factors of waiting jobs, by one scontrol; what it complained of (jobs that have started meanwhile), ""
        where all were set."""
        return self._update({id: f"SiteFactor={x}" for id, x in factors.items()})

    def _update(self, changes: dict[int, str]) -> str:
        """Update jobs; what scontrol complained of."""
        try:
            self.run("scontrol", text="".join(f"update JobId={id} {x}\n" for id, x in changes.items()))
        except SlurmError as error:
            return str(error)
        return ""

    def cancel(self, ids: Sequence[int]) -> None:
        """Cancel jobs, those that have ended too."""
        for at in range(0, len(ids), 500):
            self.run("scancel", *map(str, ids[at : at + 500]))

"""Workflows on a resource manager: who submits which task when, follows it, and submits it again where it failed.

Commands stand in a template, or an engine that knows the workflow's language asks for one task after another (`desk.py`).
Either a policy of ours decides (`policy`), on a view of the tasks whose parents have ended, and what it starts is submitted;
or all tasks are submitted at once with their dependencies, and the resource manager decides (None).

A ledger in a folder says what was done: a line before a task is submitted, one with the job's id, one with its end. After
kill -9 another run in the folder goes on: jobs whose ids were not written down are found by their names, tasks that ended
meanwhile by the stamps that they leave. A job claims its name (task and try) before it does anything. Before a task whose job
is not to be seen is submitted again, we claim that name, so that the job, should it ever begin, does nothing.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from jobwise.decision import Start, View
from jobwise.errors import InputError
from jobwise.files import lock, write_whole, writing
from jobwise.jobs import DONE, FAILED, FUTURE, QUEUED, RUNNING, WAITING
from jobwise.live.view import view
from jobwise.policies import scheduler
from jobwise.slurm.client import ENDED, Refused, SlurmError, SlurmJob
from jobwise.workflows import ledger
from jobwise.workflows.engines.desk import Asks, Desk, Unprepared
from jobwise.workflows.machine import Machine
from jobwise.workflows.simulated import ResourceManager
from jobwise.workflows.task import Task, script
from jobwise.workload import Workload

POLL_S = 1.0
PATIENCE = 10


@dataclass
class Following:
    """A workload of workflows on a resource manager. `command(row)`: what a task runs. `ask(row)`: what else it asks for,
    arguments of `client.Slurm.submit`; its output and errors are kept in outputs/. `retries` of a task that fails. `ahead`:
    jobs may be submitted for `ahead` more cores than there are, so that the manager has some at hand. `desks`: by the number of
    a workflow, where its engine asks for tasks; `names` of the tasks, by which these have rows; `options` of sbatch for them.
    Raises InputError."""

    workload: Workload
    manager: ResourceManager
    folder: Path
    command: Callable[[int], list[str]]
    policy: Any = None
    ask: Callable[[int], dict[str, Any]] = lambda row: {}
    retries: int = 1
    ahead: float = 0.25
    poll_s: float = POLL_S
    desks: dict[int, Desk] = field(default_factory=dict)
    options: Sequence[str] = ()
    names: Sequence[str] = ()
    tasks: list[Task] = field(default_factory=list)

    def __post_init__(self):
        w, size = self.workload, self.manager.cores()[1]
        if (large := np.flatnonzero(w.jobs["request"][:, 0] > size)).size:
            raise InputError(
                f"{w.name}: task {large[0]} needs {w.jobs['request'][large[0], 0]} cores; a node has at most {size}"
            )
        self.folder = Path(self.folder).resolve()
        with writing(self.folder):
            for name in ("claims", "stamps", "outputs"):
                (self.folder / name).mkdir(parents=True, exist_ok=True)
        self._lock = lock(self.folder / "lock", f"{self.folder}: another run is at work in this folder")
        self.tasks = [Task() for _ in range(len(w))]
        self._parents: list[list[int]] = [[] for _ in self.tasks]
        self.asks = Asks(self.desks, self.names, w.jobs["flow"].tolist())
        for a, b in w.edges.tolist():
            self._parents[b].append(a)
        try:
            self._machine = Machine(self.manager, self.policy, self.ahead, w.cluster)
            self._jobs, self._run, self._untold = self._machine.seen(w.jobs), None, []
            self._status = self._shown = np.full(len(w), FUTURE, np.int8)  # as of the last view that the policy has seen
            if self._machine.names:
                self._jobs["chunks"] = 1  # a task runs on one node
            self._open()
        except BaseException:
            self._lock.close()
            raise

    # ------------------------------------------------------------ the ledger

    def _open(self) -> None:
        """Begin a ledger, or continue an existing ledger. Raises InputError where it belongs to other workflows."""
        w, file = self.workload, self.folder / "ledger.jsonl"
        known = {"tasks": len(w), "edges": len(w.edges), "name": w.name}
        lines = ledger.read(file, len(w))
        if lines and {k: lines[0].get(k) for k in known} != known:
            raise InputError(f"{self.folder}: holds the run of other workflows ({lines[0].get('name')}); name another folder")
        self.begun = lines[0]["time"] if lines else self.manager.now()
        self.run = lines[0]["run"] if lines else f"jw{secrets.token_hex(4)}"
        asked = [x for x in lines[1:] if x["event"] == "asked"]
        self._add([(x["flow"], x.get("request", [x["cores"]]), x["seconds"]) for x in asked if x["task"] >= len(w)])
        for x in lines[1:]:
            t = self.tasks[x["task"]]
            if x["event"] == "asked":
                self.asks.put(x["flow"], x["key"], x["step"], x["task"])
                t.retries = x["retries"]
            elif x["event"] == "submit":
                t.tries, t.state, t.id, t.seen = x["try"], "submitted", 0, self.manager.now()
                t.node, t.since, t.moved = self._machine.row(x.get("node", "")), t.seen, False
            elif x["event"] == "id":
                t.id = x["id"]
            else:
                self._ended(x["task"], x["state"], x["start"], x["end"], x.get("code", 0))
                t.node = self._machine.row(x.get("node", ""))
        if lines:  # half a line of a run that was killed is cut off
            write_whole(file, "".join(json.dumps(x) + "\n" for x in lines))
        self._ledger = open(file, "a")  # noqa: SIM115
        if not lines:
            self._write({"event": "begin", "run": self.run, "time": self.begun} | known)

    def _write(self, line: dict) -> None:
        with writing(self._ledger.name):
            self._ledger.write(json.dumps(line) + "\n")
            self._ledger.flush()
            os.fsync(self._ledger.fileno())

    def _name(self, i: int) -> str:
        return f"{self.run}.{i}.{self.tasks[i].tries}"

    def _find(self, jobs: list[SlurmJob]) -> None:
        """Ids of jobs that were submitted and not written down, by their names."""
        if any(t.state == "submitted" and not t.id for t in self.tasks):
            known = {j.name: j.id for j in jobs}
            for i, t in enumerate(self.tasks):
                if t.state == "submitted" and not t.id and self._name(i) in known:
                    t.id = known[self._name(i)]
                    self._write({"event": "id", "task": i, "try": t.tries, "id": t.id})

    # ------------------------------------------------------------ what engines ask for

    def _add(self, rows: list[tuple[int, Sequence[int], float]]) -> None:
        """Add tasks that no workflow file lists, (workflow, request, time limit in s or 0) each; the policy begins anew with
        the larger table."""
        if not rows:
            return
        new = np.repeat(self._jobs[-1:], len(rows))
        for x, (flow, request, limit) in zip(new, rows, strict=True):
            x["flow"], x["request"], x["walltime"] = flow, self._units(request), max(limit, 1.0)
        new["status"] = FUTURE
        new["unmet"], new["held"], new["app"], new["restarts"], new["ran"] = 0, -1, -1, 0, 0.0
        for name in ("start", "end", "queued", "due"):
            new[name] = np.nan
        self._jobs = np.concatenate([self._jobs, new])
        self.tasks += [Task() for _ in rows]
        self._parents += [[] for _ in rows]
        self._status = self._shown = np.concatenate([self._status, np.full(len(rows), FUTURE, np.int8)])
        self._run = None

    def _units(self, request: Sequence[int]) -> list[int]:
        """A request of the resources that the policy sees; 0 of those that it does not name."""
        R = len(self._machine.cluster.resources)
        return [*request, *[0] * R][:R]

    def _take(self) -> None:
        """Take what engines have asked for since the last look. Raises InputError for a task that no node can hold."""
        new = list(self.asks.new())
        largest = self.manager.cores()[1] if new else 0
        names = self._machine.cluster.resources
        self._add([(flow, x.units(names), x.seconds) for row, flow, x, _ in new if row >= len(self.tasks)])
        for row, flow, x, is_first in new:
            widest = x.cores if self._machine.names else x.widest()
            if widest > largest:
                raise InputError(f"task {x.key} needs {widest} cores of one node; a node has at most {largest}")
            if any(n > most for n, most in zip(x.units(names), self._machine.cluster.total.tolist(), strict=True)):
                raise InputError(f"task {x.key} needs more than there is: {x.memory:,.0f} MB of memory, {x.gpus} GPUs")
            if is_first:
                about = {"key": x.key, "step": x.step, "cores": x.cores, "retries": x.retries, "seconds": x.seconds}
                self._write({"event": "asked", "task": row, "flow": flow, "request": x.units(names)} | about)
            t = self.tasks[row]
            t.retries, self._jobs[row]["request"] = x.retries, x.units(names)
            if t.state == "failed":  # in an earlier run: what it lacked may be there now
                t.state, t.failures = "", 0
            elif t.state == "done":
                self.asks.answer(row, t.code)

    def _open_parents(self, i: int) -> int:
        """Return the number of tasks that have to end before task i may start."""
        if self.asks.is_engines(i):
            return int(self.asks.is_silent(i))
        return sum(self.tasks[p].state != "done" for p in self._parents[i])

    # ------------------------------------------------------------ what happens

    def _submit(self, i: int, after: list[int], node: int = -1) -> None:
        t, job, names = self.tasks[i], self._jobs[i], self._machine.names
        asked = self.asks.task.get(i)
        try:
            if asked:
                asked.prepare()
        except Unprepared as error:
            t.state, t.code = "failed", 1
            self.asks.answer(i, 1, str(error))
            return
        t.tries, t.state, t.id, t.seen = t.tries + 1, "submitted", 0, self.manager.now()
        t.node, t.since, t.moved, t.start = node if names else -1, t.seen, False, 0.0
        there = {"node": names[node]} if t.node >= 0 else {}
        self._write({"event": "submit", "task": i, "try": t.tries} | there)
        name = self._name(i)
        how: dict[str, Any] = {"cores": int(job["request"][0]), "after": after, "folder": str(self.folder)}
        how["output"] = str(self.folder / "outputs" / f"{name}.txt")
        if asked:
            how |= asked.requests() | {"folder": asked.folder, "more": [*asked.options, *self.options]}
        else:
            how |= self.ask(i)
        words, files = (asked.words(), asked.redirections()) if asked else (self.command(i), "")
        words = [*self.manager.ranks(asked.ranks), *words] if asked and asked.ranks else words
        text = script(self.folder, name, words, files)
        try:
            t.id = self.manager.submit(text, name=name, **how, **there)
        except SlurmError:
            if not there:
                raise
            t.node, t.moved = -1, True  # not there, then
            t.id = self.manager.submit(text, name=name, **how)
        self._write({"event": "id", "task": i, "try": t.tries, "id": t.id})

    def _ended(self, i: int, state: str, start: float, end: float, code: int = 0) -> None:
        """Take note: "done", "failed" (it failed, or was cancelled), "lost" (it never ran: it is submitted again)."""
        t = self.tasks[i]
        t.start, t.end, t.id, t.code = start, end, 0, code
        t.failures += state == "failed"
        last = t.failures > max(self.retries, t.retries)
        t.state = "done" if state == "done" else "failed" if state == "failed" and last else ""

    def _claim(self, i: int) -> bool:
        """Claim the name of a job that is not to be seen. False: it has begun."""
        try:
            (self.folder / "claims" / self._name(i)).mkdir()
            return True
        except FileExistsError:
            return False

    def _stamp(self, i: int) -> tuple[float, float, int] | None:
        try:
            begin, end, code = (self.folder / "stamps" / self._name(i)).read_text().split()
            return float(begin), float(end), int(code)
        except (OSError, ValueError):
            return None

    def look(self) -> list[int]:
        """Look at what has become of submitted tasks; the rows that ended."""
        every = self.manager.jobs()
        self._find(every)
        jobs = {j.id: j for j in every}
        now, ended = self.manager.now(), []
        for i, t in enumerate(self.tasks):
            if t.state != "submitted":
                continue
            job, stamp = jobs.get(t.id), self._stamp(i)
            if job and job.name != self._name(i):  # the manager counts anew: another job has its number now
                job, t.id = None, 0
            if job and job.state not in ENDED and not stamp:
                t.seen, t.start = now, job.start if job.state == "RUNNING" else 0.0
                if (
                    t.node >= 0 and job.state == "PENDING" and now - t.since > self.manager.lost_s
                ):  # others are there, or it is down
                    self._give_up(t)
                elif job.state == "RUNNING" and self._machine.names:
                    at = self._machine.row(job.node)
                    t.node, t.moved = at, t.moved or at != t.node
                continue
            if self.asks.is_silent(i):  # the engine comes to it again first
                continue
            ran = (job.start, job.end) if job and job.start > 0 else (0.0, 0.0)
            code = stamp[2] if stamp else job.code or 1 if job else 1
            if stamp:
                state, ran = "done" if self.asks.is_success(i, code) else "failed", stamp[:2]
            elif job and job.state == "COMPLETED" and not self.manager.stamps:
                state, code = "done", 0
            elif job and job.state in ENDED and job.state != "COMPLETED":
                state = "lost" if job.start <= 0 and "Dependency" in job.reason else "failed"
            elif now - t.seen >= self.manager.lost_s:  # forgotten by the manager, or its stamp is not to be seen
                state = "lost" if self._claim(i) else "failed"
            else:
                continue
            start, end = ran
            extra = {"node": self._machine.names[t.node]} if t.node >= 0 else {}
            line = {"event": "end", "task": i, "try": t.tries, "state": state, "start": start, "end": end, "code": code}
            self._write(line | extra)
            self._ended(i, state, start, end, code)
            if self.tasks[i].state in ("done", "failed"):
                self.asks.answer(i, code)
            ended.append(i)
        return ended

    def _give_up(self, t: Task) -> None:
        """A task may run on any node: the one it was submitted for is not to be had."""
        t.since = self.manager.now()
        try:
            self.manager.anywhere(t.id)
        except SlurmError:  # it may just have started
            return
        t.node, t.moved = -1, True

    def _view(self, ended: list[int]) -> View:
        """Return the view of a policy: the tasks; tasks that wait for the manager count as running."""
        now, jobs, machine = self.manager.now() - self.begun, self._jobs, self._machine
        for i, t in enumerate(self.tasks):
            open_parents = self._open_parents(i)
            jobs[i]["unmet"] = open_parents
            if t.state == "submitted" and jobs[i]["status"] != RUNNING:
                jobs[i]["status"], jobs[i]["start"] = RUNNING, now
                jobs[i]["due"] = now + max(jobs[i]["walltime"], 1.0)
            elif t.state == "":
                jobs[i]["status"] = WAITING if open_parents else QUEUED
                jobs[i]["queued"] = now if not open_parents and np.isnan(jobs[i]["queued"]) else jobs[i]["queued"]
            elif t.state in ("done", "failed"):
                jobs[i]["status"] = DONE if t.state == "done" else FAILED
                jobs[i]["start"] = max(t.start - self.begun, 0.0)
                jobs[i]["end"], jobs[i]["ran"] = max(t.end - self.begun, 0.0), max(t.end - t.start, 0.0)
                jobs[i]["restarts"] = t.tries - 1 + t.moved
        status, request = jobs["status"], jobs["request"]
        node, begun = np.array([t.node for t in self.tasks]), np.array([t.start for t in self.tasks])
        jobs["held"] = np.where(node >= 0, np.arange(len(jobs)), -1)
        ours = (status == RUNNING) & ((node >= 0) | (not machine.names))  # the others' cores are not free anyhow
        held, run = (machine.held(node, request, some) for some in (ours, ours & (begun > 0)))
        free = machine.free(held, run)  # the manager may fail: nothing has been told then
        self._shown, slices = status.copy(), machine.slices(node, request)
        more = {"ended": np.array(ended, np.int32), "edges": self.workload.edges}
        return view(jobs, now, machine.cluster, free, slices, self._status, **more)

    def _begin(self, view: View) -> np.ndarray:
        """Begin the run of the policy, which may be in the middle; the rows [K] that have ended, in order of end."""
        done = np.flatnonzero(np.isin(view.jobs["status"], (DONE, FAILED)))
        self._run = scheduler.begin(self.policy, view)
        return done[np.argsort(view.jobs["end"][done], kind="stable")]

    def step(self) -> bool:
        """Look, and submit what may be submitted now. False where nothing is left to do."""
        self._take()
        self._untold += self.look()
        ended = self._untold
        if self.policy is None:
            self._all()
        else:
            now = self._view(ended)
            if self._run is None:
                ended = self._begin(now)
            if len(ended):
                self._run.ended(now, np.array(ended, np.int32))
            self._untold, self._status = [], self._shown
            for d in list(self._run.decide(now)):
                if isinstance(d, Start):
                    self._submit(int(d.job), [], d.placement[0][0] if d.placement else -1)
        return any(t.state == "submitted" and not self.asks.is_silent(i) for i, t in enumerate(self.tasks))

    def _all(self) -> None:
        """Submit every task whose parents are submitted or done, the longest way first."""
        ready = [i for i in np.lexsort((-self._jobs["rank"], self._jobs["level"])) if not self.tasks[i].state]
        for i in map(int, ready):
            if self.asks.is_engines(i):
                if not self.asks.is_silent(i):
                    self._submit(i, [])
                continue
            parents = [self.tasks[p] for p in self._parents[i]]
            if all(p.state == "done" or p.id for p in parents):
                self._submit(i, [p.id for p in parents if p.state == "submitted"])

    def follow(self, report: Callable[[int, int], None] | None = None, is_going_on: Callable[[], bool] = lambda: False) -> None:
        """To the end of every task that can be done, and for as long as `is_going_on`: engines may ask for more. Raises
        SlurmError where the manager has not answered PATIENCE times in a row, Refused where it will never take a task."""
        silent, more = 0, True
        while more:
            try:
                going_on = is_going_on()  # before the step: an engine that has ended then asks for nothing after it
                more, silent = self.step() or going_on, 0
            except Refused:
                raise
            except SlurmError:
                if (silent := silent + 1) >= PATIENCE:
                    raise
            if report:
                report(sum(t.state == "done" for t in self.tasks), len(self.tasks))
            if more:
                self.manager.wait(self.poll_s)

    def summary(self) -> dict:
        """Return the outcome: tasks done and failed, makespan (s), the longest way and all work (s), edges not kept. Tasks that
        an engine has not asked for (conditions, documents that were changed) do not count."""
        wanted = [t for i, t in enumerate(self.tasks) if not self.asks.is_silent(i)]
        start, end = np.array([t.start for t in self.tasks]), np.array([t.end for t in self.tasks])
        done = np.array([t.state == "done" and not self.asks.is_silent(i) for i, t in enumerate(self.tasks)])
        both = [(a, b) for a, b in self.workload.edges.tolist() if done[a] and done[b]]
        first, last = (float(start[done].min()), float(end[done].max())) if done.any() else (0.0, 0.0)
        return {
            "workflow": self.workload.name,
            "tasks": len(wanted),
            "done": int(done.sum()),
            "failed": sum(t.state == "failed" for t in wanted),
            "never_run": sum(t.state == "" for t in wanted),
            "submitted": sum(t.tries for t in wanted),
            "makespan": last - first,
            "since_begin": max(last - self.begun, 0.0),
            "work": float((end - start)[done] @ self._jobs["request"][done, 0]),
            "edges": len(self.workload.edges),
            "edges_not_kept": int(sum(start[b] < end[a] for a, b in both)),
        }

    def __enter__(self) -> Following:
        return self

    def __exit__(self, *why: object) -> None:
        """Let others use the folder."""
        self._ledger.close()
        self._lock.close()

"""The commands of CWL: cwltool builds jobs, a desk has them run, cwltool collects their outputs.

Every task has a folder whose name is made of its step, its tool and its inputs, so that after a restart cwltool asks for the
same task, and the desk answers from its ledger; a tool that was changed meanwhile runs anew.
"""

from __future__ import annotations

import copy
import json
import logging
import math
import re
import shutil
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from cwltool.command_line_tool import CommandLineTool
from cwltool.context import RuntimeContext
from cwltool.errors import WorkflowException
from cwltool.executors import JobExecutor
from cwltool.job import CommandLineJob, relink_initialworkdir
from cwltool.process import Process, shortname, stage_files
from cwltool.utils import visit_class
from schema_salad.exceptions import SchemaSaladException

from jobwise.errors import in_a_line, plain
from jobwise.files import write_whole
from jobwise.workflows.engines import Outcome, stamp
from jobwise.workflows.engines.containers import inside
from jobwise.workflows.engines.desk import Asked, Desk, Unprepared, digest

MIB = 1.048576  # MB
RANDOM = re.compile(r"_:[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")  # cwltool's name for what has none: another in each run


class Context(RuntimeContext):
    """Settings of a run of cwltool, with its desk; `bare`: it runs without containers; `program`: what runs them ("": nothing
    does); `problems`: reasons of failed tasks; `flying`: the jobs that were asked for and have not ended."""

    def __init__(self, desk: Desk, bare: bool, program: str, **settings: Any):
        super().__init__(settings)
        self.desk, self.bare, self.program, self.problems, self.flying = desk, bare, program, list[str](), set[CwlJob]()


def _stamp(value: Any) -> list:
    """The sizes and times of a file or folder of CWL that is on this machine."""
    location = str(value.get("location", ""))
    return stamp(Path(unquote(location[7:]))) if location.startswith("file://") else []


def image_of(requirement: Any) -> str:
    """The image that a DockerRequirement names; "" where it is to be built or loaded."""
    is_made = any(requirement.get(key) for key in ("dockerFile", "dockerLoad", "dockerImport"))
    return str(requirement.get("dockerPull") or ("" if is_made else requirement.get("dockerImageId")) or "")


def least(request: dict[str, Any], context: RuntimeContext) -> dict[str, int | float]:
    """The resources of a tool: the least that it asks for."""
    names = {"cores": "cores", "ram": "ram", "tmpdir": "tmpdirSize", "outdir": "outdirSize"}
    out = {name: math.ceil(request[f"{key}Min"]) for key, name in names.items()}
    gpus = request.get("cudaDeviceCountMin", 0)
    return out | ({"cudaDeviceCount": math.ceil(gpus)} if gpus else {})


class Tool(CommandLineTool):
    """A command-line tool whose jobs are asked of the desk of its runtime context."""

    def _init_job(self, joborder: Any, runtime_context: Any) -> Any:
        """Begin a job in a folder that is named after its step and inputs."""
        step = runtime_context.name or shortname(self.tool.get("id", "tool"))
        about = [joborder, {k: v for k, v in self.tool.items() if k != "id"}]
        stamps: list = []
        visit_class(about, ("File", "Directory"), lambda x: stamps.append(_stamp(x)))
        text = RANDOM.sub("_:", json.dumps([*about, stamps], sort_keys=True, default=str))
        key = runtime_context.desk.key(f"{step}-{digest(text)}")
        own = runtime_context.copy()
        base = Path(runtime_context.basedir) / "tasks" / key
        own.outdir, own.tmpdir, own.stagedir = (str(base / name) for name in ("out", "tmp", "inputs"))
        return super()._init_job(joborder, own)

    def make_job_runner(self, runtimeContext: RuntimeContext) -> type[CommandLineJob]:
        """The class of its jobs. Raises UnsupportedRequirement where it needs a container."""
        if not (getattr(runtimeContext, "bare", False) or getattr(runtimeContext, "program", "")):
            super().make_job_runner(runtimeContext)
        return CwlJob


class CwlJob(CommandLineJob):
    """A command that a desk has run. `run` returns at once; outputs are collected when the desk gives the exit code."""

    context: Context

    def run(self, runtimeContext: Any, tmpdir_lock: Any = None) -> None:
        """Ask the desk for it."""
        self.context, self.base_path_logs = runtimeContext, self.outdir
        if "listing" in self.generatefiles:
            self.generatemapper = self._listing()
        named = self.builder.get_requirement("ResourceRequirement")[0] or {}
        resources = self.builder.resources
        folder = Path(self.outdir).parent
        gpus = int(resources.get("cudaDeviceCount", 0))
        command, environment = self._contained([str(x) for x in self.command_line], dict(self.environment), gpus)
        task = Asked(
            key=folder.name,
            step=folder.name.rsplit("-", 1)[0],
            command=command,
            folder=self.outdir,
            input=self._staged(self.stdin) if self.stdin else "",
            output=str(Path(self.outdir) / self.stdout) if self.stdout else "",
            errors=str(Path(self.outdir) / self.stderr) if self.stderr else "",
            environment=environment,
            cores=max(math.ceil(resources["cores"]), self.mpi_procs or 1),
            memory=math.ceil(resources["ram"]) * MIB if {"ramMin", "ramMax"} & set(named) else 0.0,
            gpus=gpus,
            ranks=self.mpi_procs or 0,
            seconds=float(self.timelimit or 0),
            prepare=self._prepare,
            is_success=lambda code: self._status(code) == "success",
        )
        self.context.desk.ask(task, self._ended)
        self.context.flying.add(self)

    def _contained(self, command: list[str], environment: dict[str, str], gpus: int) -> tuple[list[str], dict[str, str]]:
        """The command and its environment; in the container that its tool asks for, where something runs containers."""
        image = image_of(self.builder.get_requirement("DockerRequirement")[0] or {})
        if not (image and self.context.program):
            return command, environment
        mappers = [m for m in (self.pathmapper, self.generatemapper) if m is not None]
        staged = [str(x.resolved) for m in mappers for _, x in m.items() if str(x.resolved).startswith("/")]
        return inside(self.context.program, image, command, self.outdir, staged, environment, gpus), {}

    def _listing(self) -> Any:
        """Return the path mapper of the files of its initial working directory."""
        own = self.context.copy()
        own.outdir = self.outdir
        return self.make_path_mapper(self.generatefiles["listing"], self.builder.outdir, own, False)

    def _staged(self, path: str) -> str:
        file = self.pathmapper.reversemap(path)
        if file is None:
            raise WorkflowException(f"{path} is no input of {self.name}")
        return str(file[1])

    def _prepare(self) -> None:
        """Make its folders anew, with its inputs. Raises Unprepared."""
        try:
            self._stage()
        except (OSError, WorkflowException) as error:
            raise Unprepared(in_a_line(error)) from None

    def _stage(self) -> None:
        shutil.rmtree(Path(self.outdir).parent, ignore_errors=True)
        for name in (self.outdir, self.tmpdir, *(str(Path(x).parent) for x in (self.stdout, self.stderr) if x)):
            (Path(self.outdir) / name).mkdir(parents=True, exist_ok=True)
        stage_files(copy.deepcopy(self.pathmapper), ignore_writable=True, symlink=True)  # what is staged changes its mapper
        if self.generatemapper is not None:
            self.generatemapper = self._listing()
            stage_files(self.generatemapper, ignore_writable=self.inplace_update, symlink=True)
            self._relink()

    def _relink(self) -> None:
        if self.generatemapper is not None:
            relink_initialworkdir(self.generatemapper, self.outdir, self.builder.outdir, inplace_update=self.inplace_update)

    def _status(self, code: int) -> str:
        """CWL's word for an exit code."""
        lists = {"success": self.successCodes, "temporaryFail": self.temporaryFailCodes}
        return next((k for k, codes in lists.items() if code in codes), "permanentFail" if code else "success")

    def _ended(self, code: int) -> None:
        """Collect its outputs and hand them to cwltool."""
        lock = self.context.workflow_eval_lock
        assert lock is not None and self.output_callback is not None
        with lock:
            status, outputs = self._status(code), dict[str, Any]()
            try:
                self._relink()
                outputs = dict(self.collect_outputs(self.outdir, code))
            except Exception as error:  # of the user's tool: an output is not there, an expression fails
                logging.getLogger("cwltool").error("[%s] %s", self.name, error)
                if status == "success":
                    status = "permanentFail"
                    self.context.problems.append(f"{self.name}: {in_a_line(error)}")
            if status != "success":
                self.context.problems.append(f"{self.name}: {status}, exit code {code}")
            self.output_callback(outputs, status)
            self.context.flying.discard(self)
            lock.notify_all()


class Executor(JobExecutor):
    """Asks a desk for the jobs of a process, as many at a time as are ready."""

    def run_jobs(self, process: Process, job_order_object: Any, logger: Any, runtime_context: Any) -> None:
        """Ask for every job; wait where none is ready."""
        lock, desk = runtime_context.workflow_eval_lock, runtime_context.desk
        with lock:
            for job in process.job(job_order_object, self.output_callback, runtime_context):
                if job is not None:
                    self.output_dirs |= {str(job.outdir)} if getattr(job, "outdir", None) else set()
                    job.run(runtime_context)
                elif runtime_context.flying:
                    lock.wait(0.5)
                    desk.check()
                else:
                    break
            while runtime_context.flying:
                lock.wait(0.5)
                desk.check()


def run(
    tool: Process, order: dict[str, Any], folder: Path, notes: tuple[str, ...], bare: bool, program: str, desk: Desk
) -> Outcome:
    """Run a process to its end; its outputs are copied into folder/outputs. `bare`, `program`: see `Context`. Raises
    Stopped."""
    final, temporary = folder / "outputs", folder / "temporary"
    (folder / "outputs.json").unlink(missing_ok=True)
    for place in (final, temporary):
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
    context = Context(
        desk, bare, program, basedir=str(folder), outdir=str(final), use_container=False, rm_tmpdir=False, move_outputs="copy",
        tmpdir_prefix=f"{temporary}/", tmp_outdir_prefix=f"{temporary}/", select_resources=least, compute_checksum=False,
        on_error="continue", workflow_job_step_name_callback=lambda step, order: shortname(step.id),
    )  # fmt: skip
    try:
        outputs, status = Executor()(tool, order, context)
    except (WorkflowException, SchemaSaladException) as error:
        return Outcome({}, in_a_line(error), notes)
    write_whole(folder / "outputs.json", json.dumps(outputs, indent=2, default=str) + "\n")
    return Outcome(
        dict(outputs or {}), "" if status == "success" else "; ".join(context.problems) or _last(folder) or status, notes
    )


def _last(folder: Path) -> str:
    """The last complaint of cwltool's own log."""
    lines = [x for x in (folder / "engine.log").read_text(errors="replace").splitlines() if "rror" in x or "xception" in x]
    return plain(lines[-1][:300]) if lines else ""

"""CWL by cwltool's own job building: real command lines, staged files, expressions, scatter, conditionals. A desk runs them.

Every task has a folder whose name is made of its step, its tool and its inputs, so that after a restart cwltool asks for the
same task, and the desk answers from its ledger; a tool that was changed meanwhile runs anew. Containers are not used: tools
that require one are refused, tools that only hint at one run on the nodes as they are.
"""

from __future__ import annotations

import copy
import hashlib
import json
import logging
import math
import re
import shutil
from collections.abc import Callable
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from cwltool import CWL_CONTENT_TYPES
from cwltool.command_line_tool import CommandLineTool
from cwltool.context import LoadingContext, RuntimeContext
from cwltool.errors import UnsupportedRequirement, WorkflowException
from cwltool.executors import JobExecutor
from cwltool.job import CommandLineJob, relink_initialworkdir
from cwltool.load_tool import load_tool
from cwltool.process import Process, shortname, stage_files, use_custom_schema
from cwltool.utils import normalizeFilesDirs, visit_class
from cwltool.workflow import default_make_tool
from schema_salad.exceptions import SchemaSaladException
from schema_salad.fetcher import DefaultFetcher
from schema_salad.ref_resolver import Loader

from jobwise.engines import Outcome, stamp
from jobwise.engines.desk import Asked, Desk, Unprepared
from jobwise.errors import InputError, plain, unknown
from jobwise.files import write_whole

MIB = 1.048576  # MB
EXTENSIONS = {"v1.0": "extensions.yml", "v1.1": "extensions-v1.1.yml", "v1.2": "extensions-v1.2.yml"}  # of cwltool: GPUs, MPI
RANDOM = re.compile(r"_:[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")  # cwltool's name for what has none: another in each run
CONTAINER = "needs a container (DockerRequirement); tasks run on the nodes as they are: as a hint it would be passed over"


class Files(DefaultFetcher):
    """A fetcher of files of this machine."""

    def fetch_text(self, url: str, content_types: list[str] | None = None) -> str:
        """The text of a file. Raises SchemaSaladException for what is elsewhere."""
        if not url.startswith("file:"):
            raise SchemaSaladException(f"{url} is no file of this machine; nothing is fetched")
        return super().fetch_text(url, content_types)


def _stamp(value: Any) -> list:
    """The sizes and times of a file or folder of CWL that is on this machine."""
    location = str(value.get("location", ""))
    return stamp(Path(unquote(location[7:]))) if location.startswith("file://") else []


def least(request: dict[str, Any], context: RuntimeContext) -> dict[str, int | float]:
    """The resources of a tool: the least that it asks for."""
    names = {"cores": "cores", "ram": "ram", "tmpdir": "tmpdirSize", "outdir": "outdirSize"}
    out = {name: math.ceil(request[f"{key}Min"]) for key, name in names.items()}
    gpus = request.get("cudaDeviceCountMin", 0)
    return out | ({"cudaDeviceCount": math.ceil(gpus)} if gpus else {})


class Tool(CommandLineTool):
    """A command-line tool whose jobs are asked of the desk of its runtime context."""

    def _init_job(self, joborder: Any, runtime_context: RuntimeContext) -> Any:
        """Begin a job in a folder that is named after its step and inputs."""
        step = runtime_context.name or shortname(self.tool.get("id", "tool"))
        about = [joborder, {k: v for k, v in self.tool.items() if k != "id"}]
        stamps: list = []
        visit_class(about, ("File", "Directory"), lambda x: stamps.append(_stamp(x)))
        text = json.dumps([*about, stamps], sort_keys=True, default=str)
        text = RANDOM.sub("_:", text)
        desk: Desk = runtime_context.desk  # type: ignore[attr-defined]
        key = desk.key(f"{step}-{hashlib.sha256(text.encode()).hexdigest()[:12]}")
        own = runtime_context.copy()
        base = Path(runtime_context.basedir) / "tasks" / key
        own.outdir, own.tmpdir, own.stagedir = (str(base / name) for name in ("out", "tmp", "inputs"))
        return super()._init_job(joborder, own)

    def make_job_runner(self, runtimeContext: RuntimeContext) -> type[CommandLineJob]:
        """The class of its jobs. Raises UnsupportedRequirement where it needs a container."""
        super().make_job_runner(runtimeContext)
        return Job


class Job(CommandLineJob):
    """A command that a desk has run. `run` returns at once; outputs are collected when the desk gives the exit code."""

    def run(self, runtimeContext: RuntimeContext, tmpdir_lock: Any = None) -> None:
        """Ask the desk for it."""
        self.context, self.base_path_logs = runtimeContext, self.outdir
        if "listing" in self.generatefiles:
            self.generatemapper = self._listing()
        named = self.builder.get_requirement("ResourceRequirement")[0] or {}
        resources = self.builder.resources
        folder = Path(self.outdir).parent
        task = Asked(
            key=folder.name,
            step=folder.name.rsplit("-", 1)[0],
            command=[str(x) for x in self._mpi() + self.command_line],
            folder=self.outdir,
            input=self._staged(self.stdin) if self.stdin else "",
            output=str(Path(self.outdir) / self.stdout) if self.stdout else "",
            errors=str(Path(self.outdir) / self.stderr) if self.stderr else "",
            environment=dict(self.environment),
            cores=max(math.ceil(resources["cores"]), self.mpi_procs or 1),
            memory=math.ceil(resources["ram"]) * MIB if {"ramMin", "ramMax"} & set(named) else 0.0,
            gpus=int(resources.get("cudaDeviceCount", 0)),
            seconds=float(self.timelimit or 0),
            prepare=self._prepare,
            is_success=lambda code: self._status(code) == "success",
        )
        desk: Desk = runtimeContext.desk  # type: ignore[attr-defined]
        desk.ask(task, self._ended)
        self.context.flying.add(self)  # type: ignore[attr-defined]

    def _listing(self) -> Any:
        """Where the files of its initial working directory go."""
        own = self.context.copy()
        own.outdir = self.outdir
        return self.make_path_mapper(self.generatefiles["listing"], self.builder.outdir, own, False)

    def _mpi(self) -> list[str]:
        """The words before the command of an MPI program."""
        if not self.mpi_procs:
            return []
        launcher = self.context.mpi_config
        return [launcher.runner, launcher.nproc_flag, str(self.mpi_procs), *launcher.extra_flags]

    def _staged(self, path: str) -> str:
        known = self.pathmapper.reversemap(path)
        if known is None:
            raise WorkflowException(f"{path} is no input of {self.name}")
        return str(known[1])

    def _prepare(self) -> None:
        """Make its folders anew, with its inputs. Raises Unprepared."""
        try:
            self._stage()
        except (OSError, WorkflowException) as error:
            raise Unprepared(_line(error)) from None

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
                    self.context.problems.append(f"{self.name}: {_line(error)}")  # type: ignore[attr-defined]
            if status != "success":
                self.context.problems.append(f"{self.name}: {status}, exit code {code}")  # type: ignore[attr-defined]
            self.output_callback(outputs, status)
            self.context.flying.discard(self)  # type: ignore[attr-defined]
            lock.notify_all()


class Executor(JobExecutor):
    """Asks a desk for the jobs of a process, as many at a time as are ready."""

    def run_jobs(self, process: Process, job_order_object: Any, logger: Any, runtime_context: RuntimeContext) -> None:
        """Ask for every job; wait where none is ready."""
        lock, desk = runtime_context.workflow_eval_lock, runtime_context.desk  # type: ignore[attr-defined]
        assert lock is not None
        with lock:
            for job in process.job(job_order_object, self.output_callback, runtime_context):
                if job is not None:
                    self.output_dirs |= {str(job.outdir)} if getattr(job, "outdir", None) else set()
                    job.run(runtime_context)
                elif runtime_context.flying:  # type: ignore[attr-defined]
                    lock.wait(0.5)
                    desk.check()
                else:
                    break
            while runtime_context.flying:  # type: ignore[attr-defined]
                lock.wait(0.5)
                desk.check()


def prepared(path: Path, inputs: Path | None, folder: Path) -> Callable[[Desk], Outcome]:
    """Read a CWL file and the values of its inputs (YAML or JSON); the function that runs it. Raises InputError."""
    _log_to(folder / "engine.log")
    for version, file in EXTENSIONS.items():
        use_custom_schema(version, "http://commonwl.org/cwltool", files("cwltool").joinpath(file).read_text())
    try:
        loading = LoadingContext(
            {"construct_tool_object": _make, "fetcher_constructor": Files, "relax_path_checks": True}  # names are quoted
        )
        tool = load_tool(path.resolve().as_uri(), loading)
        notes: list[str] = []
        tool.visit(partial(_check, str(path), notes))
        order = _order(inputs, loading)
    except (SchemaSaladException, WorkflowException) as error:
        raise InputError(f"{path}: {_line(error)}") from None
    for name in (shortname(x["id"]) for x in tool.tool["inputs"] if "default" not in x and not _is_optional(x["type"])):
        if name not in order:
            wanted = f"--inputs FILE with {name!r} is expected" if inputs is None else f"{inputs} does not say {name!r}"
            raise InputError(f"{path}: input {name!r} has no value: {wanted}")
    _fitting(tool, order, path if inputs is None else inputs, folder)
    return partial(_run, tool, order, folder, tuple(dict.fromkeys(notes)))


def _fitting(tool: Process, order: dict[str, Any], where: Path, folder: Path) -> None:
    """Raises InputError for values that are not of their inputs' types, and for names that no input has."""
    names = [shortname(x["id"]) for x in tool.tool["inputs"]]
    for name in order:
        if name not in names and ":" not in name:
            raise unknown("input", name, names, f"{where}: ")
    places = dict.fromkeys(("outdir", "tmpdir", "stagedir"), str(folder))
    try:
        Process._init_job(tool, copy.deepcopy(order), RuntimeContext({"basedir": str(folder), "use_container": False} | places))
    except WorkflowException as error:
        raise InputError(f"{where}: {_line(error)}") from None


def _make(toolpath_object: Any, loadingContext: LoadingContext) -> Process:
    """Make a process of a CWL document: tools are our own class."""
    if toolpath_object.get("class") == "CommandLineTool":
        return Tool(toolpath_object, loadingContext)
    return default_make_tool(toolpath_object, loadingContext)


def _check(path: str, notes: list[str], tool: Any) -> None:
    """Raises InputError for a process that cannot be run here."""
    name = shortname(tool.get("id", "")) or Path(path).name
    if tool.get("class") == "Operation":
        raise InputError(f"{path}: {name} is an abstract Operation, which says no command")
    steps = [x for x in tool.get("steps") or [] if isinstance(x, dict)]
    for one in [r for x in (tool, *steps) for r in x.get("requirements") or []]:
        if one["class"] == "DockerRequirement":
            raise InputError(f"{path}: {name} {CONTAINER}")
    if any(one["class"] == "DockerRequirement" for one in tool.get("hints") or []):
        notes.append("hints at containers are not followed: tools run on the nodes as they are")


def _is_optional(kind: Any) -> bool:
    return kind == "null" or (isinstance(kind, list) and "null" in kind)


def _order(inputs: Path | None, loading: LoadingContext) -> dict[str, Any]:
    """The values of inputs, their paths beside their file. Raises InputError."""
    if inputs is None:
        return {}
    if not inputs.is_file():
        raise InputError(f"{inputs}: no such file of inputs")
    context: Any = {k: {"@type": "@id"} for k in ("path", "location")}
    order: Any
    try:
        order, _ = Loader(context, fetcher_constructor=Files).resolve_ref(
            inputs.resolve().as_uri(), checklinks=False, content_types=CWL_CONTENT_TYPES
        )
    except Exception as error:  # of a parser, on whatever is in the file
        raise InputError(f"{inputs}: cannot be read as YAML or JSON: {_line(error)}") from None
    if not isinstance(order, dict):
        raise InputError(f"{inputs}: the values of inputs by name are expected (YAML or JSON)")
    order = {k: v for k, v in order.items() if k not in ("id", "cwl:tool")}

    def located(value: Any) -> None:
        if "path" in value:
            value["location"] = value.pop("path")
        location = str(value.get("location", ""))
        if not location.startswith("file://"):
            if location and "contents" not in value and not location.startswith("_:"):
                raise InputError(f"{inputs}: {plain(location)} is no file of this machine; nothing is fetched")
            return
        file = Path(unquote(location[7:]))
        if not file.exists() or file.is_dir() != (value["class"] == "Directory"):
            raise InputError(f"{inputs}: there is no {plain(file)}, as a {value['class'].lower()}")

    visit_class(order, ("File", "Directory"), located)
    normalizeFilesDirs(order)
    return order


def _run(tool: Process, order: dict[str, Any], folder: Path, notes: tuple[str, ...], desk: Desk) -> Outcome:
    """Run a process to its end; its outputs are copied into folder/outputs. Raises Stopped."""
    final, temporary = folder / "outputs", folder / "temporary"
    (folder / "outputs.json").unlink(missing_ok=True)
    for place in (final, temporary):
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
    context = RuntimeContext(
        {
            "basedir": str(folder), "outdir": str(final), "use_container": False, "rm_tmpdir": False, "move_outputs": "copy",
            "tmpdir_prefix": f"{temporary}/", "tmp_outdir_prefix": f"{temporary}/", "select_resources": least,
            "compute_checksum": False, "on_error": "continue",
            "workflow_job_step_name_callback": lambda step, order: shortname(step.id),
        }
    )  # fmt: skip
    context.desk, context.problems, context.flying = desk, [], set()  # type: ignore[attr-defined]
    try:
        outputs, status = Executor()(tool, order, context)
    except (WorkflowException, SchemaSaladException, UnsupportedRequirement) as error:
        return Outcome({}, _line(error), notes)
    problems: list[str] = context.problems  # type: ignore[attr-defined]
    write_whole(folder / "outputs.json", json.dumps(outputs, indent=2, default=str) + "\n")
    return Outcome(dict(outputs or {}), "" if status == "success" else "; ".join(problems) or _last(folder) or status, notes)


def _last(folder: Path) -> str:
    """The last complaint of cwltool's own log."""
    lines = [x for x in (folder / "engine.log").read_text(errors="replace").splitlines() if "rror" in x or "xception" in x]
    return plain(lines[-1][:300]) if lines else ""


def _line(error: BaseException) -> str:
    return plain(" ".join(str(error).split())[:400]) or type(error).__name__


def _log_to(file: Path) -> None:
    """Let cwltool write its messages into a file, and nowhere else."""
    file.parent.mkdir(parents=True, exist_ok=True)
    handler = logging.FileHandler(file)
    for name in ("cwltool", "salad", "rdflib", "cwltool.validation_warnings"):
        logger = logging.getLogger(name)
        for old in list(logger.handlers):
            logger.removeHandler(old)
            old.close()
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
        logger.propagate = False

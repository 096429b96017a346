"""WDL by miniwdl's own task runtime: real commands, expressions, scatter, conditionals, outputs. A desk runs its tasks.

miniwdl takes the class below as one more container backend: commands run on the nodes as they are, or in the container that
their task names (`containers.py`), with the same paths; inputs are links in the task's folder. After a restart miniwdl begins
anew in a folder of its own, asks for the same tasks, and the desk answers from its ledger, unless the document or the inputs
have changed. Of `runtime` it reads cpu, memory, gpuCount, time_minutes, maxRetries, returnCodes, docker or container, and the
names of miniwdl-slurm: slurm_partition, slurm_account, slurm_qos, slurm_constraint.
"""

from __future__ import annotations

import json
import logging
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import WDL
from WDL import Env, Value
from WDL._util import TerminationSignalFlag
from WDL.runtime import config, run
from WDL.runtime.error import RunFailed, Terminated
from WDL.runtime.task_container import TaskContainer

from jobwise.errors import InputError, in_a_line, plain, shown
from jobwise.files import write_whole
from jobwise.workflows.engines import BARE, Outcome, log_to, stamp
from jobwise.workflows.engines.containers import RUNTIMES, inside, runtime
from jobwise.workflows.engines.desk import Asked, Desk, Stopped, Unprepared, digest, is_zero, short
from jobwise.workloads.wdl import document

MOST = 200  # tasks that miniwdl waits for at a time (its guideline)
CONTAINERS = {"docker", "container"}  # keys of `runtime`
OPTIONS = {f"slurm_{name}": f"--{name}" for name in ("partition", "account", "qos", "constraint")}
_runs: dict[str, tuple[Desk, Path, str]] = {}  # by the name in its configuration: desk, folder, what runs containers


def _first(value: Value.Base) -> str:
    """The image of a `runtime`, or the first of several."""
    chosen = value.value[0] if isinstance(value, Value.Array) and value.value else value
    return str(chosen.value)


class OnDesk(TaskContainer):
    """A task of miniwdl that a desk has run, in a folder that is the same after a restart."""

    @classmethod
    def global_init(cls, cfg: config.Loader, logger: logging.Logger) -> None:
        """Do nothing: there is no container."""

    @classmethod
    def detect_resource_limits(cls, cfg: config.Loader, logger: logging.Logger) -> dict[str, int]:
        """No limits: those of the nodes are the cluster's to know."""
        return {"cpu": 1 << 30, "mem_bytes": 1 << 60}

    def __init__(self, cfg: config.Loader, run_id: str, host_dir: str):
        super().__init__(cfg, run_id, host_dir)
        self.desk, folder, self.program = _runs[cfg["jobwise"]["run"]]
        path = Path(host_dir).relative_to(folder).parts[1:]  # the first part is the attempt
        name = short(".".join(x.removeprefix("call-") for x in path) or run_id)
        self.key = f"{name}-{cfg['jobwise']['digest']}"
        self.step = re.sub(r"(-\d+)+$", "", run_id.removeprefix("call-"))
        self.more: dict[str, Any] = {}
        self.image = ""
        self.host_dir = self.container_dir = str(folder / "tasks" / self.key)
        Path(self.host_work_dir()).mkdir(parents=True, exist_ok=True)

    def process_runtime(self, logger: logging.Logger, runtime_eval: dict[str, Value.Base]) -> None:
        """Read what a task's `runtime` says, and leave repeating it to the desk."""
        super().process_runtime(logger, runtime_eval)
        images = [_first(runtime_eval[k]) for k in ("container", "docker") if k in runtime_eval]
        self.image = images[0] if images else ""
        tries = [self.runtime_values.pop(k, 0) for k in ("maxRetries", "preemptible")]
        number = {k: runtime_eval[k].value for k in ("gpuCount", "time_minutes") if k in runtime_eval}
        options = [f"{o}={runtime_eval[k].value}" for k, o in OPTIONS.items() if k in runtime_eval]
        self.more = {
            "retries": max(tries),
            "gpus": int(number.get("gpuCount", self.runtime_values.get("gpu", False))),
            "seconds": 60.0 * float(number.get("time_minutes", 0)),
            "options": tuple(options),
        }

    def _run(self, logger: logging.Logger, terminating: Callable[[], bool], command: str) -> int:
        """Have the command run, and wait for its end."""
        work = Path(self.host_work_dir())

        def prepare() -> None:
            try:
                shutil.rmtree(work, ignore_errors=True)
                work.mkdir(parents=True)
                for host, inside in self.input_path_map.items():
                    link = Path(self.host_work_path(inside.rstrip("/")))
                    link.parent.mkdir(parents=True, exist_ok=True)
                    link.symlink_to(Path(host.rstrip("/")).resolve())
                Path(self.host_dir, "command").write_text(command)
            except OSError as error:
                raise Unprepared(f"{error.strerror}: {error.filename}") from None

        values = self.runtime_values
        lines, environment = ["bash", str(Path(self.host_dir) / "command")], dict(values.get("env", {}))
        if self.image and self.program:
            gpus = self.more.get("gpus", 0)
            lines = inside(self.program, self.image, lines, str(work), self.input_path_map, environment, gpus)
            environment = {}
        task = Asked(
            key=self.key, step=self.step, command=lines, folder=str(work),
            output=self.host_stdout_txt(), errors=self.host_stderr_txt(), environment=environment,
            cores=int(values.get("cpu", 1)), memory=values.get("memory_reservation", 0) / 1e6, prepare=prepare,
            is_success=self.success_exit_code if "returnCodes" in values else is_zero, **self.more,
        )  # fmt: skip
        try:
            return self.desk.run(task)
        except Stopped:
            raise Terminated(quiet=True) from None


@contextmanager
def watched() -> Iterator[Callable[[], bool]]:
    """Let miniwdl catch signals in the main thread; yields whether it has caught one that ends the run."""
    quiet = logging.getLogger("wdl.signals")  # Ctrl-C is said by who follows
    quiet.addHandler(logging.NullHandler())
    quiet.propagate = False
    with TerminationSignalFlag(quiet) as terminating:
        yield terminating


def prepared(path: Path, inputs: Path | None, folder: Path, bare: bool = False) -> Callable[[Desk], Outcome]:
    """Read a WDL file and the values of its inputs (JSON); the function that runs it. `bare`: tasks whose `runtime` names a
    container run without. Raises InputError."""
    workflow = document(path).workflow
    if workflow is None:
        raise InputError(f"{path}: has no workflow; only tasks")
    contained = sorted({task.name for task in _tasks(workflow) if CONTAINERS & set(task.runtime)})
    program = "" if bare else runtime()
    if contained and not bare and not program:
        what = f"task {shown(contained)} asks for a container (runtime: docker or container)"
        raise InputError(f"{path}: {what}: {BARE.format(', '.join(RUNTIMES))}")
    notes = tuple(f"task {name} asks for a container, and ran without one (--bare)" for name in contained if bare)
    values = _values(inputs)
    try:
        bound = WDL.values_from_json(values, workflow.available_inputs, workflow.required_inputs, workflow.name)
    except (WDL.Error.InputError, WDL.Error.EvalError, ValueError) as error:
        raise InputError(
            f"{inputs or path}: {in_a_line(error)}" + ("; --inputs FILE is expected" if inputs is None else "")
        ) from None

    def placed(value: Value.File | Value.Directory) -> str:
        file = value.value if "://" in value.value else str((inputs or path).resolve().parent / value.value)
        kind = type(value).__name__.lower()
        if "://" in file or not Path(file).exists() or Path(file).is_dir() != (kind == "directory"):
            raise InputError(f"{inputs}: there is no {plain(file)}, as a {kind}")
        return file

    return partial(_run, workflow, Value.rewrite_env_paths(bound, placed), folder, notes, program)


def _tasks(workflow: Any) -> Iterator[Any]:
    """The tasks that a workflow calls, those of its sub-workflows among them."""
    sections = [*workflow.body]
    while sections:
        node = sections.pop()
        if isinstance(node, WDL.Call):
            if isinstance(node.callee, WDL.Task):
                yield node.callee
            else:
                yield from _tasks(node.callee)
        else:
            sections += getattr(node, "body", ())


def _values(inputs: Path | None) -> dict[str, Any]:
    """The values of inputs by name. Raises InputError."""
    if inputs is None:
        return {}
    try:
        values = json.loads(inputs.read_text())
    except OSError as error:
        raise InputError(f"{inputs}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{inputs}: is no JSON: {error}") from None
    if not isinstance(values, dict):
        raise InputError(f"{inputs}: the values of inputs by name are expected (JSON)")
    return values


def _run(workflow: Any, inputs: Env.Bindings, folder: Path, notes: tuple[str, ...], program: str, desk: Desk) -> Outcome:
    """Run a workflow to its end; its outputs stand in outputs.json, with the paths of files. Raises Stopped."""
    name = str(folder)
    _runs[name] = desk, folder, program
    logger = log_to(folder / "engine.log", "wdl")
    stamps: list = []

    def stamped(value: Value.File | Value.Directory) -> str:
        stamps.append(stamp(Path(value.value)))
        return value.value

    Value.rewrite_env_paths(inputs, stamped)
    text = json.dumps([workflow.digest, WDL.values_to_json(inputs, workflow.name), stamps], sort_keys=True)
    (folder / "outputs.json").unlink(missing_ok=True)
    overrides: dict[str, dict[str, Any]] = {
        "scheduler": {
            "container_backend": "jobwise",
            "task_concurrency": MOST,
            "subworkflow_concurrency": MOST,
            "fail_fast": False,
            "scatter_tag_max": 0,
        },
        "jobwise": {"run": name, "digest": digest(text)},
    }
    settings = config.Loader(logger, [])
    settings.override(overrides)
    attempt = next(k for k in count(1) if not (folder / f"attempt{k}").exists())
    place = folder / f"attempt{attempt}"
    place.mkdir(parents=True)
    try:
        _, outputs = run(settings, workflow, inputs, run_dir=f"{place}/.")  # type: ignore[arg-type]
    except (RunFailed, WDL.Error.RuntimeError, Terminated) as error:
        desk.check()
        return Outcome({}, _reason(error), notes)
    finally:
        del _runs[name]
    values = WDL.values_to_json(outputs, workflow.name)
    write_whole(folder / "outputs.json", json.dumps(values, indent=2) + "\n")
    return Outcome(values, notes=notes)


def _reason(error: BaseException) -> str:
    """The innermost cause of a failure, in a line."""
    step = ""
    while isinstance(error.__cause__, Exception):
        step = getattr(getattr(error, "exe", None), "name", step)
        error = error.__cause__
    return plain(" ".join(f"{step}: {error}".split())[:400])

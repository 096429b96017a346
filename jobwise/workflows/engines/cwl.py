"""CWL by cwltool's own job building: real command lines, staged files, expressions, scatter, conditionals. A desk runs them.

Documents and the values of inputs are read and checked here; their tasks are in `cwl_jobs.py`. Tools that require a container
or hint at one run in it where there is a program for that (`containers.py`); else those that require one are refused.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from difflib import get_close_matches
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from cwltool import CWL_CONTENT_TYPES
from cwltool.context import LoadingContext, RuntimeContext
from cwltool.errors import WorkflowException
from cwltool.load_tool import load_tool
from cwltool.process import Process, shortname, use_custom_schema
from cwltool.utils import normalizeFilesDirs, visit_class
from cwltool.workflow import default_make_tool
from schema_salad.exceptions import SchemaSaladException
from schema_salad.fetcher import DefaultFetcher
from schema_salad.ref_resolver import Loader

from jobwise.errors import InputError, in_a_line, plain
from jobwise.workflows.engines import BARE, Outcome, log_to
from jobwise.workflows.engines.containers import RUNTIMES, runtime
from jobwise.workflows.engines.cwl_jobs import Tool, image_of, run
from jobwise.workflows.engines.desk import Desk
from jobwise.workloads.cwl import apart, bounded

EXTENSIONS = {"v1.0": "extensions.yml", "v1.1": "extensions-v1.1.yml", "v1.2": "extensions-v1.2.yml"}  # of cwltool: GPUs, MPI
LOGGERS = ("cwltool", "salad", "rdflib", "cwltool.validation_warnings", "cwl_utils", "cwl-utils")


class Files(DefaultFetcher):
    """A fetcher of files of this machine."""

    def fetch_text(self, url: str, content_types: list[str] | None = None) -> str:
        """The text of a file. Raises SchemaSaladException for what is elsewhere."""
        if not url.startswith("file:"):
            raise SchemaSaladException(f"{url} is no file of this machine; nothing is fetched")
        return super().fetch_text(url, content_types)


def prepared(path: Path, inputs: Path | None, folder: Path, bare: bool = False) -> Callable[[Desk], Outcome]:
    """Read a CWL file and the values of its inputs (YAML or JSON); the function that runs it. `bare`: tools that require a
    container run without. Raises InputError."""
    log_to(folder / "engine.log", *LOGGERS)
    for version, file in EXTENSIONS.items():
        use_custom_schema(version, "http://commonwl.org/cwltool", files("cwltool").joinpath(file).read_text())
    try:
        loading = LoadingContext(
            {"construct_tool_object": _make, "fetcher_constructor": Files, "relax_path_checks": True}  # names are quoted
        )
        document, part = apart(path)
        tool = load_tool(document.resolve().as_uri() + (f"#{part}" if part else ""), loading)
        notes: list[str] = []
        program = "" if bare else runtime()
        tool.visit(partial(_check, str(path), notes, bare, program))
        order = _order(inputs)
    except (SchemaSaladException, WorkflowException) as error:
        raise InputError(f"{path}: {in_a_line(error)}") from None
    for name in (shortname(x["id"]) for x in tool.tool["inputs"] if "default" not in x and not _is_optional(x["type"])):
        if name not in order:
            wanted = f"--inputs FILE with {name!r} is expected" if inputs is None else f"{inputs} does not say {name!r}"
            raise InputError(f"{path}: input {name!r} has no value: {wanted}")
    order = _fitting(tool, order, path if inputs is None else inputs, folder, notes)
    return partial(run, tool, order, folder, tuple(dict.fromkeys(notes)), bare, program)


def _fitting(tool: Process, order: dict[str, Any], where: Path, folder: Path, notes: list[str]) -> dict[str, Any]:
    """The values that inputs take; the others are named in the notes. Raises InputError for values that are not of their
    inputs' types."""
    names = [shortname(x["id"]) for x in tool.tool["inputs"]]
    others = [x for x in order if x not in names and ":" not in x]
    close = [f"{x!r} (did you mean {near[0]}?)" if (near := get_close_matches(x, names)) else f"{x!r}" for x in others]
    if close:
        notes.append(f"{where} has values that no input takes: {', '.join(close)}")
    order = {k: v for k, v in order.items() if k not in others}
    places = dict.fromkeys(("outdir", "tmpdir", "stagedir"), str(folder))
    try:
        Process._init_job(
            tool,
            copy.deepcopy(order),
            RuntimeContext({"basedir": str(folder), "use_container": False, "toplevel": True} | places),
        )
    except WorkflowException as error:
        raise InputError(f"{where}: {in_a_line(error)}") from None
    return order


def _make(toolpath_object: Any, loadingContext: LoadingContext) -> Process:
    """Make a process of a CWL document: tools are our own class."""
    if toolpath_object.get("class") == "CommandLineTool":
        return Tool(toolpath_object, loadingContext)
    return default_make_tool(toolpath_object, loadingContext)


def _check(path: str, notes: list[str], bare: bool, program: str, tool: Any) -> None:
    """Raises InputError for a process that cannot be run here. `program`: what runs containers, "" for nothing."""
    name = shortname(tool.get("id", "")) or Path(path).name
    if name.startswith("_:"):  # it stands within a step, without a name
        command = tool.get("baseCommand") or ""
        name = f"the tool {command if isinstance(command, str) else ' '.join(map(str, command))}".strip()
    if tool.get("class") == "Operation":
        raise InputError(f"{path}: {name} is an abstract Operation, which says no command")
    steps = [x for x in tool.get("steps") or [] if isinstance(x, dict)]
    for one in [r for x in (tool, *steps) for r in x.get("requirements") or []]:
        if one["class"] == "SoftwareRequirement":
            notes.append(f"{name} names the software that it needs (SoftwareRequirement): it must be on the nodes")
        if one["class"] != "DockerRequirement":
            continue
        if bare:
            notes.append(f"{name} asks for a container, and ran without one (--bare)")
        elif not program:
            raise InputError(f"{path}: {name} needs a container (DockerRequirement): {BARE.format(', '.join(RUNTIMES))}")
        elif not image_of(one):
            raise InputError(
                f"{path}: {name} needs a container that is built or loaded; dockerPull or dockerImageId is run here"
            )
    hinted = [one for one in tool.get("hints") or [] if one["class"] == "DockerRequirement"]
    if hinted and not program:
        notes.append("hints at containers are not followed: tools run on the nodes as they are")
    elif any(not image_of(one) for one in hinted):
        notes.append(f"{name} hints at a container that is built or loaded, and runs on the nodes as they are")


def _is_optional(kind: Any) -> bool:
    return kind == "null" or (isinstance(kind, list) and "null" in kind)


def _order(inputs: Path | None) -> dict[str, Any]:
    """The values of inputs, their paths beside their file. Raises InputError."""
    if inputs is None:
        return {}
    if not inputs.is_file():
        raise InputError(f"{inputs}: no such file of inputs")
    context: Any = {k: {"@type": "@id"} for k in ("path", "location")}
    order: Any
    try:
        bounded(inputs)
        order, _ = Loader(context, fetcher_constructor=Files).resolve_ref(
            inputs.resolve().as_uri(), checklinks=False, content_types=CWL_CONTENT_TYPES
        )
    except InputError:
        raise
    except Exception as error:  # of a parser, on whatever is in the file
        raise InputError(f"{inputs}: cannot be read as YAML or JSON: {in_a_line(error)}") from None
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

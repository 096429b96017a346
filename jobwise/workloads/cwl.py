"""Common Workflow Language v1.0 to v1.2 (cwl-utils): steps, scatter, sub-workflows, what they need and how long they may take.

A step is a task. Cores, memory and time limits come from `ResourceRequirement` (coresMin, ramMin) and `ToolTimeLimit` of the
step or its tool; run times, and how often a scattered step runs, from the hint `{"class": "jobwise:Estimate", "seconds": 30,
"count": 5}`. Scattered over what a scattered step made, a step runs as often; like every step it waits for the whole array. A
sub-workflow begins when all that it asks for is there, and is done when all of it is. Nothing is executed, and nothing read but
files below the folder of the workflow; tools elsewhere count as tasks of one core.
"""

from __future__ import annotations

import re
from math import prod
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urljoin, urlsplit

import numpy as np

from jobwise.errors import InputError, in_a_line, shown, unknown
from jobwise.sim.dag import graph
from jobwise.workloads.opened import read_text
from jobwise.workloads.workflows import MOST_EDGES, MOST_TASKS, Workflow, workflow

MOST_IMPORTS = 100  # of one document, those of what it imports among them
DEEPEST = 40  # levels of nesting of a document, and of workflows in workflows
REQUIREMENTS = frozenset(  # of CWL v1.0 to v1.2, and of cwltool, by their last names
    "DockerRequirement EnvVarRequirement InitialWorkDirRequirement InlineJavascriptRequirement InplaceUpdateRequirement "
    "LoadListingRequirement MultipleInputFeatureRequirement NetworkAccess ResourceRequirement ScatterFeatureRequirement "
    "SchemaDefRequirement ShellCommandRequirement SoftwareRequirement StepInputExpressionRequirement "
    "SubworkflowFeatureRequirement TimeLimit ToolTimeLimit WorkReuse CUDARequirement MPIRequirement Secrets".split()
)
READING = ("Tasks without a hint take 1 s; scattered steps without a count run once.",)


def read(path: str | Path, counts: dict[str, int] | None = None) -> Workflow:
    """The workflow of a CWL file, or of its part FILE#PART; `counts`: how often scattered steps run, by name. Raises
    InputError."""
    path, part = apart(Path(path))
    flow = _Flow(path.resolve(), counts or {})
    document = flow.part(path.resolve(), part)
    rows, parents = flow.rows, flow.parents
    flow.expand(document, "", set(), 0)
    if wrong := sorted(set(counts or {}) - flow.scattered):
        raise InputError(f"{path}: {wrong[0]!r} is no scattered step; those are {shown(sorted(flow.scattered)) or 'none'}")
    version = _said(document, "cwlVersion") or "CWL"
    more = {"source": f"CWL {version}", "reading": READING, "notes": flow.notes}
    return workflow(path.name.split(".")[0], rows, [sorted(p) for p in parents], **more)


def apart(path: Path) -> tuple[Path, str]:
    """(file, part) of FILE#PART, where there is no file of that name; the part is "" where none is named."""
    name, _, part = path.name.partition("#")
    return (path.with_name(name), part) if part and not path.exists() else (path, "")


def _load(path: Path, root: Path) -> list[Any]:
    """The parsed processes of a document: one, or those of its $graph. Files below `root` that it imports are read with it.
    Raises InputError."""
    try:
        from cwl_utils.parser import load_document_by_yaml
        from ruamel.yaml import YAML
        from ruamel.yaml.error import YAMLError
        from schema_salad.exceptions import SchemaSaladException
        from schema_salad.fetcher import Fetcher
        from schema_salad.runtime import LoadingOptions
    except ImportError as error:
        raise InputError(f"CWL needs {error.name}: pip install 'jobwise[workflows]'") from None

    class Nowhere(Fetcher):
        """A fetcher that fetches nothing, anywhere."""

        def fetch_text(self, url: Any, content_types: Any = None) -> str:
            raise SchemaSaladException(f"{url} is not below the folder of the document: nothing else is read")

        def check_exists(self, url: Any) -> bool:
            return False

        def urljoin(self, base_url: Any, url: Any) -> str:
            return urljoin(base_url, url)

    text = read_text(path)
    try:
        bounded(path, text)
        document = YAML(typ="safe", pure=True).load(text)
        if not isinstance(document, dict) or not ("cwlVersion" in document or "class" in document):
            raise InputError(f"{path}: is no CWL document: the keys cwlVersion and class are expected")
        document = _imported(document, path, root, [])
        _supported(document, path)
        uri = path.resolve().as_uri()
        options = LoadingOptions(fetcher=Nowhere(), no_link_check=True, fileuri=uri)
        loaded = load_document_by_yaml(document, uri, options, load_all=True)
        return list(loaded) if isinstance(loaded, list) else [loaded]
    except (
        YAMLError,
        SchemaSaladException,
        RecursionError,
        ValueError,
        TypeError,
        KeyError,
        AttributeError,
        IndexError,
    ) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path}: is no CWL document that can be read: {in_a_line(error)}") from None


def _imported(node: Any, path: Path, root: Path, read: list[Path]) -> Any:
    """A part of a document with what it imports and includes in its place; a list in a list is a part of it. `read`: the files
    so far. Raises InputError."""
    if isinstance(node, list):
        several = [(x, _imported(x, path, root, read)) for x in node]
        return [y for x, new in several for y in (new if isinstance(new, list) and not isinstance(x, list) else [new])]
    if not isinstance(node, dict):
        return node
    for key in ("$import", "$include"):
        if set(node) == {key} and isinstance(node[key], str):
            file = (path.parent / unquote(node[key])).resolve()
            if root not in file.parents or not file.is_file():
                raise InputError(f"{path}: {key} of {node[key]}: only files below the folder of a document are read with it")
            read.append(file)
            if len(read) > MOST_IMPORTS:
                raise InputError(f"{path}: imports more than {MOST_IMPORTS:,} files, or itself")
            return read_text(file) if key == "$include" else _imported(_yaml(file), file, root, read)
    return {k: _imported(x, path, root, read) for k, x in node.items()}


def _yaml(file: Path) -> Any:
    """What a file of YAML says. Raises InputError."""
    from ruamel.yaml import YAML

    text = read_text(file)
    bounded(file, text)
    return YAML(typ="safe", pure=True).load(text)


def bounded(path: Path, text: str | None = None) -> None:
    """Look through the YAML of a file before it is loaded. Raises InputError for documents that are nested very deep, or whose
    aliases could make them very large."""
    from ruamel.yaml import YAML

    depth = 0
    for event in YAML(typ="safe", pure=True).parse(read_text(path) if text is None else text):
        kind = type(event).__name__
        depth += kind in ("MappingStartEvent", "SequenceStartEvent")
        depth -= kind in ("MappingEndEvent", "SequenceEndEvent")
        if kind == "AliasEvent" or depth > DEEPEST:
            what = "YAML aliases are not read" if kind == "AliasEvent" else f"is nested deeper than {DEEPEST}"
            raise InputError(f"{path}:{event.start_mark.line + 1}: {what}")


def _supported(node: Any, path: Path) -> None:
    """Raises InputError for a requirement that CWL does not have."""
    if isinstance(node, list):
        for x in node:
            _supported(x, path)
    if not isinstance(node, dict):
        return
    wanted = node.get("requirements") or []
    names = list(wanted) if isinstance(wanted, dict) else [x.get("class") for x in wanted if isinstance(x, dict)]
    for name in names:
        if re.split("[:#/]", str(name))[-1] not in REQUIREMENTS:
            raise InputError(f"{path}: {node.get('id', node.get('class', 'a step'))} requires {name}, which is not supported")
    for x in node.values():
        _supported(x, path)


class _Flow:
    """Tasks and their parents as they are found."""

    def __init__(self, file: Path, counts: dict[str, int]):
        self.file, self.root, self.counts = file, file.parent, counts
        self.rows: list[dict] = []
        self.parents: list[set[str]] = []
        self.notes: dict[str, int] = {}
        self.scattered: set[str] = set()
        self.edges = 0
        self.open: list[str] = []  # the workflows that are being read
        self.files: dict[Path, list[Any]] = {}  # the processes of files that were read

    def part(self, file: Path, name: str) -> Any:
        """Return a process of a file: the part of this name, else `main`, or the only one. Raises InputError."""
        if file not in self.files:
            self.files[file] = _load(file, self.root)
        processes = self.files[file]
        if not name and len(processes) == 1:
            return processes[0]
        for x in processes:
            if _within(x.id) == (name or "main"):
                return x
        raise unknown("part", name or "main", [_within(x.id) for x in processes], f"{file}: ")

    def expand(self, flow: Any, prefix: str, above: set[str], depth: int) -> set[str]:
        """Add the tasks of a workflow that begins after the tasks `above`; what its outputs wait for. Raises InputError."""
        if depth > DEEPEST:
            raise InputError(f"{self.file}: workflows within workflows are nested deeper than {DEEPEST}")
        if type(flow).__name__ != "Workflow":
            raise InputError(f"{self.file}: is a {type(flow).__name__}; a Workflow is expected")
        if not prefix:
            self.open.append(str(flow.id))
        steps = {str(s.id): s for s in flow.steps or []}
        makes = {str(_said(o, "id") or o): i for i, s in steps.items() for o in s.out or []}
        made: dict[str, tuple[set[str], int]] = {}  # of each step that was added: what it ends with, and how often it runs
        ids, place = list(steps), {i: k for k, i in enumerate(steps)}
        inputs = {str(i.id) for i in flow.inputs or []}
        for i, s in steps.items():
            if lost := [x for x in _sources(s) if x not in makes and x not in inputs]:
                known = [_within(x) for x in (*makes, *inputs)]
                raise unknown("source", _within(lost[0]), known, f"{self.file}: step {_name(i)}: ")
        sources = {i: [x for x in _sources(s) if x in makes] for i, s in steps.items()}
        edges = np.array([(place[makes[x]], place[i]) for i in ids for x in sources[i]], np.int64)
        try:
            order = graph(len(ids), edges, [_name(i) for i in ids]).order
        except InputError as error:
            raise InputError(f"{self.file}: {error}") from None
        for i in (ids[k] for k in order):
            made[i] = self._step(steps[i], prefix, above, {x: made[makes[x]] for x in sources[i]}, depth)
        waited = {makes[x] for names in sources.values() for x in names}
        return set().union(*(done for i, (done, _) in made.items() if i not in waited)) or above

    def _step(self, step: Any, prefix: str, above: set[str], made: dict[str, tuple], depth: int) -> tuple[set[str], int]:
        """Add the tasks of one step; what it ends with, and how often it runs."""
        name, scattered = prefix + _name(step.id), step.scatter
        over, hint, count = {str(i) for i in _list(scattered)}, _hint(step), 1
        if over:
            self.scattered.add(_name(step.id))
            along = [made[str(x)][1] for i in step.in_ or [] if str(i.id) in over for x in _list(i.source) if str(x) in made]
            every = prod(along) if "crossproduct" in str(_said(step, "scatterMethod")) else max(along, default=1)
            known = self.counts.get(_name(step.id), hint.get("count")) or every
            count = int(known) if isinstance(known, (int, float)) and 1 <= known <= MOST_TASKS else 0
            if count < 1:
                raise InputError(f"{self.file}: step {name} is scattered {known!r} times; 1 to {MOST_TASKS:,} are expected")
        tool, done = self._tool(step.run), set()
        parents = set().union(*(ends for ends, _ in made.values())) or above
        for k in range(count):
            own = f"{name}[{k}]" if over and count > 1 else name
            if type(tool).__name__ == "Workflow":
                self.open.append(str(tool.id))
                done |= self.expand(tool, f"{own}/", parents, depth + 1)
                self.open.pop()
            else:
                done.add(own)
                self._task(own, step, tool, hint, parents)
        return done, count

    def _task(self, own: str, step: Any, tool: Any, hint: dict, parents: set[str]) -> None:
        needs: dict[str, Any] = {}
        each = [(holder, kind) for kind in ("hints", "requirements") for holder in (step, tool)]  # the last one counts
        for holder, kind in each:
            for one in _said(holder, kind) or []:
                for key in ("coresMin", "ramMin", "timelimit"):
                    value = _said(one, key)
                    if isinstance(value, (int, float)) and not isinstance(value, bool):
                        needs[key] = value
        seconds = hint.get("seconds", needs.get("timelimit") or 1.0)
        run = step.run if isinstance(step.run, str) else step.id
        row = {"name": own, "program": _name(run), "runtime": seconds, "estimate": needs.get("timelimit") or seconds}
        row["limit"] = needs.get("timelimit") or 0.0
        row |= {"cores": needs.get("coresMin", 1), "memory": needs.get("ramMin", 0) * 1.048576}
        self.edges += len(parents)
        if len(self.rows) >= MOST_TASKS or self.edges > MOST_EDGES:
            raise InputError(f"{self.file}: more than {MOST_TASKS:,} tasks or {MOST_EDGES:,} edges")
        self.rows.append(row)
        self.parents.append(parents)

    def _tool(self, run: Any) -> Any:
        """Return the tool of a step: embedded, or in a file below the folder of the workflow; else None."""
        if not isinstance(run, str):
            return run
        parts = urlsplit(run)
        file = Path(unquote(parts.path)) if parts.scheme == "file" else None
        if file is None or not file.is_file() or self.root not in file.resolve().parents:
            lost = f"tool {_name(parts.path)} not found"
            self.notes[lost] = self.notes.get(lost, 0) + 1
            return None
        tool = self.part(file.resolve(), parts.fragment)
        if str(tool.id) in self.open:
            raise InputError(f"{self.file}: {parts.fragment or file.name} is a part of itself")
        return tool


def _sources(step: Any) -> list[str]:
    return [str(x) for i in step.in_ or [] for x in _list(i.source)]


def _list(value: Any) -> list:
    return [] if value is None else list(value) if isinstance(value, (list, tuple)) else [value]


def _said(part: Any, key: str) -> Any:
    """Return the value of `key` in a part of a document; None where it has none, or where its class has no such key."""
    return getattr(part, key, None)


def _within(identifier: str) -> str:
    """The part of an identifier behind its document: step/output, or input."""
    return identifier.rsplit("#", 1)[-1]


def _name(identifier: Any) -> str:
    return str(identifier).rsplit("#", 1)[-1].rsplit("/", 1)[-1]


def _hint(step: Any) -> dict:
    """The hint Estimate of a step or of its embedded tool."""
    for holder in (step, step.run):
        for one in _said(holder, "hints") or []:
            if isinstance(one, dict) and str(one.get("class", "")).rsplit("#", 1)[-1].rsplit(":", 1)[-1] == "Estimate":
                return {k: v for k, v in one.items() if isinstance(v, (int, float)) and not isinstance(v, bool)}
    return {}

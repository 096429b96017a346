"""Workflow Description Language 1.0 and 1.1 (miniwdl): calls, scatters, conditionals, sub-workflows, runtime sections.

A call is a task. Cores, GPUs and memory come from `runtime` (cpu, gpuCount, memory) where they are constants or their task's
defaults; run times from the task's `meta { jobwise_seconds: 30 }`. A scatter has a copy for each item of `range(4)`, a literal
array or another scatter's result; else `counts` gives the number, by the scatter's variable. A scatter waits for
its whole array; conditionals are taken to happen; a sub-workflow begins when all that it asks for is there, and is done when
all of it is. Nothing is executed, and nothing read but files below the folder of the workflow.
"""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import numpy as np

from jobwise.errors import InputError, in_a_line, shown
from jobwise.sim.dag import graph
from jobwise.workloads.opened import read_text
from jobwise.workloads.workflows import MOST_EDGES, MOST_TASKS, Workflow, workflow

READING = ("Tasks that do not say how long they take take 1 s; scatters without a count run once.",)
UNIT = {
    "": 1e-6,
    "k": 1e-3,
    "m": 1.0,
    "g": 1e3,
    "t": 1e6,
    "ki": 1.024e-3,
    "mi": 1.048576,
    "gi": 1073.741824,
    "ti": 1099511.627776,
}


def read(path: str | Path, counts: dict[str, int] | None = None) -> Workflow:
    """The workflow of a WDL file; `counts`: how often scatters run, by their variables. Raises InputError."""
    path = Path(path)
    checked = document(path)
    if checked.workflow is None:
        raise InputError(f"{path}: has no workflow; only tasks")
    flow = _Flow(path, counts or {})
    flow.expand(checked.workflow, "", set())
    if wrong := sorted(set(counts or {}) - flow.variables):
        raise InputError(
            f"{path}: {wrong[0]!r} is no variable of a scatter; those are {shown(sorted(flow.variables)) or 'none'}"
        )
    more = {"source": f"WDL {checked.wdl_version}", "reading": READING}
    return workflow(path.name.split(".")[0], flow.rows, [sorted(p) for p in flow.parents], **more)


def document(path: Path) -> Any:
    """The parsed and checked document. Raises InputError."""
    try:
        import WDL
    except ImportError:
        raise InputError("WDL needs miniwdl: pip install 'jobwise[workflows]'") from None
    root = path.resolve().parent

    async def source(uri: str, folders: list[str], importer: Any) -> Any:
        """The text of a file below the folder of the workflow."""
        file = Path(uri) if importer is None else Path(importer.pos.abspath).parent / uri
        if "://" in uri or (importer is not None and root not in file.resolve().parents):
            raise InputError(f"{path}: imports {uri[:100]!r}; only files below its folder are read")
        return WDL.ReadSourceResult(read_text(file), str(file.resolve()))

    try:
        return WDL.load(str(path), check_quant=False, read_source=source, import_max_depth=20)
    except InputError:
        raise
    except (
        WDL.Error.SyntaxError,
        WDL.Error.ImportError,
        WDL.Error.ValidationError,
        WDL.Error.MultipleValidationErrors,
    ) as error:
        inner: BaseException = error
        while isinstance(inner.__cause__, Exception):
            inner = inner.__cause__
        if isinstance(inner, InputError):
            raise InputError(str(inner)) from None
        first = next(iter(_of(inner, "exceptions") or ()), inner)
        line = _of(_of(first, "pos"), "line") or 0
        raise InputError(f"{path}{f':{line}' if line else ''}: {in_a_line(first)}") from None
    except (RecursionError, ValueError, KeyError, AttributeError, asyncio.CancelledError) as error:
        raise InputError(f"{path}: is no WDL document that can be read: {type(error).__name__}") from None


class _Flow:
    """Tasks and their parents as they are found."""

    def __init__(self, path: Path, counts: dict[str, int]):
        self.path, self.counts, self.edges = path, counts, 0
        self.rows: list[dict] = []
        self.parents: list[set[str]] = []
        self.variables: set[str] = set()

    def expand(self, flow: Any, prefix: str, above: set[str]) -> set[str]:
        """Add the tasks of a workflow that begins after the tasks `above`; what its end waits for."""
        first = len(self.rows)
        nodes: dict[str, tuple[Any, tuple]] = {}  # calls and declarations, and the sections around them

        def walk(body: list, around: tuple) -> None:
            for node in body:
                if hasattr(node, "body"):
                    walk(node.body, (*around, node))
                else:
                    nodes[node.workflow_node_id] = (node, around)

        walk([*(flow.inputs or []), *flow.body], ())
        sizes: dict[str, int] = {}
        made: dict[tuple, set[str]] = {}

        def copies(sections: tuple) -> int:
            """Return the number of runs of these sections' content."""
            product = 1
            for s in sections:
                product *= self._count(s, nodes, copies, sizes) if hasattr(s, "variable") else 1
            if product > MOST_TASKS:
                raise InputError(f"{self.path}: more than {MOST_TASKS:,} tasks")
            return product

        def ends(name: str, k: int, inside: tuple) -> set[str]:
            """Return the last tasks of node `name`, seen from copy k of the content of the sections `inside`."""
            name = name.removeprefix("gather-")
            if name.startswith("gather-"):
                return ends(name, k, inside)
            if name not in nodes:
                return set()
            node, around = nodes[name]
            shared = 0
            while shared < min(len(around), len(inside)) and around[shared] is inside[shared]:
                shared += 1
            per, of = copies(around[shared:]), k // copies(inside[shared:])
            return set().union(*(copy(name, of * per + i) for i in range(per)))

        def copy(name: str, k: int) -> set[str]:
            if (name, k) not in made:
                made[name, k] = set()  # a circle cannot be: the document was checked
                node, around = nodes[name]
                waits = set(node.workflow_node_dependencies)
                for s in around:  # what depends on something in a section waits for what the section waits for
                    if not any(x in nodes and s in nodes[x][1] for x in waits):
                        waits |= set(s.workflow_node_dependencies)
                parents = set().union(*(ends(x, k, around) for x in waits)) or above
                if type(node).__name__ != "Call":
                    made[name, k] = parents
                else:
                    total = copies(around)
                    made[name, k] = self._call(node, f"{prefix}{node.name}{f'[{k}]' if total > 1 else ''}", parents)
            return made[name, k]

        for name in _in_order(nodes):  # so that nothing is asked for deep down
            for k in range(copies(nodes[name][1])):
                copy(name, k)
        waited = set().union(*self.parents[first:])  # its end waits for those that nothing in it waits for
        return {row["name"] for row in self.rows[first:]} - waited or above

    def _call(self, node: Any, own: str, parents: set[str]) -> set[str]:
        if type(node.callee).__name__ == "Workflow":
            return self.expand(node.callee, f"{own}/", parents)
        self.edges += len(parents)
        if len(self.rows) >= MOST_TASKS or self.edges > MOST_EDGES:
            raise InputError(f"{self.path}: more than {MOST_TASKS:,} tasks or {MOST_EDGES:,} edges")
        self.rows.append({"name": own, "program": node.callee.name} | _needs(node.callee))
        self.parents.append(parents)
        return {own}

    def _count(self, scatter: Any, nodes: dict, copies: Any, sizes: dict[str, int]) -> int:
        """Return the number of runs of a scatter."""
        name, at = scatter.variable, scatter.workflow_node_id
        self.variables.add(name)
        if at not in sizes:
            known = self.counts.get(name)
            if known is None:
                known = _length(scatter.expr)
            if known is None:
                gathered = [x.removeprefix("gather-") for x in scatter.workflow_node_dependencies if x.startswith("gather-")]
                known = max((copies(nodes[x][1]) for x in gathered if x in nodes), default=1)
            if not 0 <= known <= MOST_TASKS:
                raise InputError(f"{self.path}: a scatter runs {known} times; 0 to {MOST_TASKS:,} are expected")
            sizes[at] = known
        return sizes[at]


def _in_order(nodes: dict[str, tuple[Any, tuple]]) -> list[str]:
    """The nodes of a workflow, those that others wait for first; also for what their sections wait for."""
    place = {name: k for k, name in enumerate(nodes)}
    edges = []
    for name, (node, around) in nodes.items():
        for x in set().union(*(s.workflow_node_dependencies for s in (node, *around))):
            while x.startswith("gather-"):
                x = x.removeprefix("gather-")
            if x in place and x != name:
                edges.append((place[x], place[name]))
    names = list(nodes)
    return [names[k] for k in graph(len(names), np.array(edges, np.int64)).order]


def _of(part: Any, key: str) -> Any:
    """Return the value of `key` in a part of a document; None where its class has no such key."""
    return getattr(part, key, None)


def _length(expr: Any) -> int | None:
    """Of `range(4)` and of array literals; None: not known."""
    if type(expr).__name__ == "Array":
        return len(expr.items)
    if _of(expr, "function_name") == "range" and (literal := _of(expr.arguments[0], "literal")) is not None:
        return int(literal.value)
    return None


def _needs(task: Any) -> dict:
    """Return the given cores, GPUs, memory and run time of a task."""
    declared = {d.name: d.expr for d in [*(task.inputs or []), *task.postinputs] if d.expr is not None}

    def literal(expr: Any, depth: int = 0) -> Any:
        """The constant that an expression stands for, by defaults of declarations up to 5 deep; None where there is none."""
        if expr is None or depth > 5:
            return None
        if (value := expr.literal) is not None:
            return value.value
        inner = expr.expr if type(expr).__name__ == "Get" and _of(expr, "member") is None else expr
        name = _of(inner, "name")
        return literal(declared.get(name), depth + 1) if isinstance(name, str) else None

    def number(key: str) -> float | None:
        try:
            return None if (value := literal(task.runtime.get(key))) is None else float(value)
        except ValueError:
            return None

    size = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?i?)B?\s*", str(literal(task.runtime.get("memory"))), re.I)
    seconds = literal((task.meta or {}).get("jobwise_seconds"))
    minutes = number("time_minutes") or 0
    return {
        "limit": minutes * 60.0,
        "runtime": float(seconds) if isinstance(seconds, (int, float)) else 1.0,
        "cores": number("cpu") or 1,
        "gpus": number("gpuCount") or 0,
        "memory": float(size[1]) * UNIT[size[2].lower()] if size else 0.0,
    }

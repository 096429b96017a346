"""WfFormat (WfCommons: Coleman et al., FGCS 128, 2022), JSON: versions 1.3 to 1.5 are read, 1.5 is written; and structures of
workflows, {"steps": [{"id", "depends_on", …}]}, which hold the dependencies of steps and nothing else.

Run times are those recorded. Cores are `coreCount` where it is given, else 1. Input and output are bytes read and written, or
else the sizes of the files.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from jobwise.errors import InputError
from jobwise.workloads.opened import read_bytes
from jobwise.workloads.workflows import Workflow, workflow

VERSIONS = ("1.2", "1.3", "1.4", "1.5")
MB = 1e6


def read(path: str | Path) -> Workflow:
    """The workflow of a JSON file (.gz, .xz too). Raises InputError."""
    data = read_bytes(path)
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: is no JSON file: {str(error) or type(error).__name__}") from None
    if isinstance(document, dict) and isinstance(document.get("steps"), list):
        return _structure(document, str(path))
    if not isinstance(document, dict) or not isinstance(document.get("workflow"), dict):
        raise InputError(f"{path}: is no workflow; WfFormat has the keys schemaVersion and workflow")
    version = str(document.get("schemaVersion", ""))
    if version not in VERSIONS:
        raise InputError(f"{path}: its schemaVersion is {version[:20]!r}; {', '.join(VERSIONS)} are read")
    name = document.get("name")
    name = name if isinstance(name, str) else Path(path).name.split(".")[0]
    return _checked(str(path), name, document["workflow"], version)


def _checked(path: str, name: str, document: dict, version: str) -> Workflow:
    if "specification" in document:
        described, known = _list(path, document["specification"], "tasks"), {}
        for x in _list(path, document.get("execution") or {}, "tasks", needed=False):
            known[str(x.get("id"))] = x
        files = _list(path, document["specification"], "files", needed=False)
        sizes = {str(f.get("id")): f.get("sizeInBytes", 0) for f in files}
    else:  # before 1.5
        described, known, sizes = _list(path, document, "tasks" if "tasks" in document else "jobs"), {}, {}
    rows, above, ids = [], [], {}
    for x in described:
        own = str(x.get("id") or x.get("name") or "")
        if not own:
            raise InputError(f"{path}: a task has neither id nor name")
        ids[str(x.get("name", own))] = own
        rows.append(_task(path, own, x, known.get(own, x), sizes))
    there = {row["name"] for row in rows}
    parents: dict[str, list] = {row["name"]: [] for row in rows}
    for x, row in zip(described, rows, strict=True):
        for key in ("parents", "children"):
            others = x.get(key) or []
            if not isinstance(others, list):
                raise InputError(f"{path}: the {key} of task {row['name']!r} are no list")
            for other in map(str, others):
                other = other if other in there else ids.get(other, other)
                if other not in there:
                    raise InputError(f"{path}: task {row['name']!r} has among its {key} {other[:80]!r}, which is not there")
                child, parent = (row["name"], other) if key == "parents" else (other, row["name"])
                parents[child].append(parent)
    above = [parents[row["name"]] for row in rows]
    return replace(workflow(path, rows, above, source=f"WfFormat {version}"), name=name)


def _list(path: str, table: Any, key: str, needed: bool = True) -> list[dict]:
    entries = table.get(key) if isinstance(table, dict) else None
    if entries is None and not needed:
        return []
    if not isinstance(entries, list) or not all(isinstance(x, dict) for x in entries):
        raise InputError(f"{path}: its workflow has no list of {key}")
    return entries


def _task(path: str, own: str, x: dict, ran: dict, sizes: dict) -> dict:
    def first(*keys: str) -> float | None:
        for key in keys:
            for table in (ran, x):
                if (value := table.get(key)) is not None:
                    if not _number(value):
                        raise InputError(f"{path}: {key} of task {own!r} is {str(value)[:40]!r}; a number >= 0 is expected")
                    return float(value)
        return None

    def every(key: str) -> list:
        if not isinstance(entries := x.get(key) or [], list):
            raise InputError(f"{path}: the {key} of task {own!r} are no list")
        return entries

    memory, io = first("memoryInBytes"), [first("readBytes", "bytesRead"), first("writtenBytes", "bytesWritten")]
    if memory is None and (kilo := first("memory")) is not None:
        memory = kilo * 1024.0
    if io == [None, None]:
        files = [sizes.get(str(f), 0) for key in ("inputFiles", "outputFiles") for f in every(key)]
        files += [f.get("sizeInBytes", f.get("size", 0)) for f in every("files") if isinstance(f, dict)]
        io = [float(sum(f for f in files if _number(f)))]
    command = ran.get("command")
    command = command if isinstance(command, dict) else {}
    program = command.get("program") or re.sub(r"_ID\d+$|_\d+$", "", str(x.get("name", own)))
    return {
        "name": own,
        "program": str(program)[:200],
        "runtime": first("runtimeInSeconds", "runtime") or 0.0,
        "cores": first("coreCount", "cores") or 1,
        "memory": (memory or 0.0) / MB,
        "io": sum(v or 0.0 for v in io) / MB,
    }


def _number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < 1e18


def _structure(document: dict, path: str) -> Workflow:
    rows, above = [], []
    for x in document["steps"]:
        own = str(x.get("id") or "") if isinstance(x, dict) else ""
        if not own or not isinstance(x.get("depends_on", []), list):
            raise InputError(f"{path}: a step has no id, or depends_on is no list")
        rows.append({"name": own, "program": str(x.get("tool") or x.get("task") or own), "runtime": 1.0})
        above.append([str(p) for p in x.get("depends_on", [])])
    reading = ("The file says who waits for whom and nothing else: tasks take 1 s on one core.",)
    flow = workflow(path, rows, above, source=f"structure of {document.get('format', 'a workflow')}", reading=reading)
    return replace(flow, name=Path(path).name.split(".")[0])


def to_text(w: Workflow, now: datetime | None = None) -> str:
    """The workflow as WfFormat 1.5."""
    children: list[list[str]] = [[] for _ in w.names]
    parents: list[list[str]] = [[] for _ in w.names]
    for a, b in w.edges:
        children[a].append(w.names[b])
        parents[b].append(w.names[a])
    tasks = [
        {"name": n, "id": n, "parents": parents[i], "children": children[i], "inputFiles": [], "outputFiles": []}
        for i, n in enumerate(w.names)
    ]
    ran = [
        {
            "id": n,
            "runtimeInSeconds": float(t["runtime"]),
            "coreCount": int(t["cores"]),
            "memoryInBytes": int(t["memory"] * MB),
            "readBytes": int(t["io"] * MB),
            "command": {"program": w.programs[t["program"]]},
        }
        for n, t in zip(w.names, w.tasks, strict=True)
    ]
    when = (now or datetime.now(UTC)).isoformat(timespec="seconds")
    document = {
        "specification": {"tasks": tasks, "files": []},
        "execution": {"makespanInSeconds": 0, "executedAt": when, "tasks": ran},
    }
    return json.dumps({"name": w.name, "createdAt": when, "schemaVersion": "1.5", "workflow": document}, indent=1) + "\n"

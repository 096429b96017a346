"""The conformance tests of CWL 1.2 whose tool is a workflow: `python -m benchmarks.cwl_conformance FOLDER [NAME …]`.

FOLDER is a checkout of common-workflow-language/cwl-v1.2. Each test is one run by `jobwise mars run` on processes. Its
outputs are compared with those of the standard, files by their sha1. A test that should fail has to end with another code
than 0.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import yaml

TESTS, TIMEOUT_S = "conformance_tests.yaml", 180.0


def tests(file: Path) -> Iterator[tuple[Path, dict]]:
    """Yield (the folder of its file, the test), those of imported files, too."""
    for x in yaml.safe_load(file.read_text()):
        if "$import" in x:
            yield from tests(file.parent / x["$import"])
        else:
            yield file.parent, x


def is_workflow(tool: Path) -> bool:
    """Is a document a workflow, or does its `#main`?"""
    text = tool.read_text()
    document = json.loads(text) if tool.suffix == ".json" else yaml.safe_load(text)
    parts = document.get("$graph", [document]) if isinstance(document, dict) else document
    mains = [p for p in parts if p.get("id", "").lstrip("#") == "main"] or parts[:1]
    return any(p.get("class") == "Workflow" for p in mains)


def place(value: dict) -> Path:
    """Return where a file or folder of outputs lies."""
    return Path(unquote(str(value.get("location") or value.get("path", "")).removeprefix("file://")))


def differs(wanted: Any, got: Any, at: str = "") -> str:
    """Say where what came differs from what the standard wants; "" where it does not."""
    if wanted == "Any":
        return "" if got is not None else f"{at}: nothing"
    if isinstance(wanted, dict) and wanted.get("class") in ("File", "Directory"):
        return _file(wanted, got, at)
    if isinstance(wanted, dict):
        if not isinstance(got, dict) or set(wanted) - set(got) - {k for k, v in wanted.items() if v is None}:
            return f"{at}: {str(got)[:80]} for {str(wanted)[:80]}"
        return next((text for k, v in wanted.items() if (text := differs(v, got.get(k), f"{at}/{k}"))), "")
    if isinstance(wanted, list):
        if not isinstance(got, list) or len(got) != len(wanted):
            return f"{at}: {str(got)[:80]} for {str(wanted)[:80]}"
        return next(
            (text for k, (v, x) in enumerate(zip(wanted, got, strict=True)) if (text := differs(v, x, f"{at}/{k}"))), ""
        )
    return "" if wanted == got else f"{at}: {str(got)[:80]} for {str(wanted)[:80]}"


def _file(wanted: dict, got: Any, at: str) -> str:
    if not isinstance(got, dict) or got.get("class") != wanted["class"]:
        return f"{at}: {str(got)[:80]} for a {wanted['class']}"
    path = place(got)
    if wanted["class"] == "Directory":
        listing = got.get("listing") or [
            {"class": "Directory" if p.is_dir() else "File", "location": str(p), "basename": p.name}
            for p in sorted(path.iterdir())
        ]
        for x in wanted.get("listing", []):
            if all(differs(x, y) for y in listing):
                return f"{at}: no {x.get('location') or x.get('basename')} in the folder"
        return ""
    if not path.is_file():
        return f"{at}: {path} is not there"
    name = wanted.get("location") or wanted.get("path") or wanted.get("basename")
    if name not in (None, "Any") and got.get("basename", path.name) != Path(name).name:
        return f"{at}: {path.name} for {name}"
    data = path.read_bytes()
    if wanted.get("checksum", "Any") not in ("Any", f"sha1${hashlib.sha1(data).hexdigest()}") or wanted.get(
        "size", len(data)
    ) not in (
        "Any",
        len(data),
    ):
        return f"{at}: {len(data)} bytes, another content"
    return differs(wanted.get("secondaryFiles", []), got.get("secondaryFiles", []), f"{at}/secondaryFiles")


def run(base: Path, test: dict) -> str:
    """Run a test; why it failed, "" where it did not."""
    with tempfile.TemporaryDirectory() as state:
        words = [
            str(Path(sys.executable).with_name("jobwise")),
            "mars",
            "run",
            str(base / test["tool"]),
            "--executor",
            "processes",
            "--state",
            state,
        ]
        words += ["--inputs", str(base / test["job"])] if test.get("job") else []
        try:
            done = subprocess.run(words, capture_output=True, text=True, timeout=TIMEOUT_S)
        except subprocess.TimeoutExpired:
            return f"not done after {TIMEOUT_S:g} s"
        said = (done.stderr.strip() or done.stdout.strip()).splitlines()[-1:] or [""]
        if test.get("should_fail"):
            return "" if done.returncode else "it should fail"
        if done.returncode:
            return f"exit code {done.returncode}: {said[0][:300]}"
        return differs(test.get("output") or {}, json.loads((Path(state) / "engine0" / "outputs.json").read_text() or "{}"))


def main() -> int:
    """Run the tests; 1 where one failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", help="only these tests")
    parser.add_argument("--workers", type=int, default=2)
    args = parser.parse_args()
    every = [(base, x) for base, x in tests(args.folder / TESTS) if is_workflow(base / x["tool"].partition("#")[0])]
    every = [(base, x) for base, x in every if not args.names or x["id"] in args.names]
    with ThreadPoolExecutor(args.workers) as workers:
        said = list(workers.map(lambda x: run(*x), every))
    for (_, x), why in zip(every, said, strict=True):
        if why:
            print(f"{x['id']}: {why}")
    print(f"{sum(not why for why in said)} of {len(said)} tests of workflows pass")
    return int(any(said))


if __name__ == "__main__":
    sys.exit(main())

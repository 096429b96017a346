"""A file that a log is to be read from: how it begins, its lines, its JSON; whatever it is packed in."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO, cast

from jobwise.cluster import Cluster
from jobwise.errors import InputError
from jobwise.workloads import opened

HEAD = 65536  # bytes by which a format is known


@dataclass(frozen=True)
class LogFile:
    """A file that a log is to be read from. `source`: its name, `-` for standard input; `procs`: processors of the machine, if
    the user says so; `machine`: GPU racks that the jobs are for; `columns`, `fields`, `cluster`: what the user says of its
    columns (`tables.asked`), of the names that a table lacks, and of which cluster's jobs are wanted."""

    source: str
    procs: int | None = None
    machine: Cluster | None = None
    columns: str = ""
    fields: str = ""
    cluster: str = ""
    report: Callable[[int, int], None] | None = None  # called with (bytes, of bytes) as it is read

    @property
    def name(self) -> str:
        """The name of the log: the file's without its endings."""
        if self.source == "-":
            return "stdin"
        return re.sub(r"(\.(csv|txt|tsv|parquet|log|json|jsonl|acct|events|swf))?(\.gz|\.xz)?$", "", Path(self.source).name)

    @cached_property
    def _bytes(self) -> bytes:
        return opened.read_bytes(self.source)

    @cached_property
    def text(self) -> str:
        """The whole file as text, decompressed. Raises InputError for a binary one."""
        if b"\x00" in self._bytes[:HEAD]:
            raise InputError(f"{self.source}: looks like a binary file; a text file is expected")
        return opened.decoded(self._bytes)

    def open(self) -> AbstractContextManager[BinaryIO]:
        """Return it open, decompressed, to be read part by part. Raises InputError."""
        if self.source == "-":
            return cast(BinaryIO, io.BytesIO(self._bytes))
        return opened.stream(self.source, self.report)

    @cached_property
    def head(self) -> str:
        """How it begins, whole lines of it where there are any. Raises InputError for a binary file."""
        if self.source == "-":
            data = self._bytes[:HEAD]
        else:
            with opened.stream(self.source) as file:
                data = next(opened.blocks(file, self.source, HEAD), b"")[: 4 * HEAD]
        if b"\x00" in data:
            raise InputError(f"{self.source}: looks like a binary file; a text file is expected")
        return opened.decoded(data)

    @property
    def line(self) -> str:
        """The first line, at most 65,536 characters of it."""
        return self.head[:HEAD].split("\n", 1)[0]

    def lines(self, blank: bool = False) -> Iterator[tuple[int, str]]:
        """Yield its lines with their numbers; those of spaces alone only where `blank` says so."""
        number = 0
        with self.open() as file:
            for block in opened.blocks(file, self.source):
                for line in opened.decoded(block).split("\n"):
                    number += 1
                    if blank or line.strip():
                        yield number, line.rstrip("\r")
                number -= 1  # a block ends with the end of a line

    @property
    def start(self) -> bytes:
        """The first 4,096 bytes as they are on the disk; nothing of standard input."""
        if self.source == "-":
            return b""
        with open(self.source, "rb") as f:
            return f.read(4096)

    # ----------------------------------------------------------------- JSON

    @cached_property
    def document(self) -> Any:
        """Its JSON, or a list of that of its lines; None where it is none."""
        if self.head.lstrip()[:1] not in ("{", "["):
            return None
        try:
            return json.loads(self.text)
        except (ValueError, RecursionError):
            pass
        rows: list[Any] = []
        for line in filter(str.strip, self.text.split("\n")):
            try:
                rows.append(json.loads(line))
            except (ValueError, RecursionError):
                rows.append(None)  # a line that is cut
        return rows if any(isinstance(x, dict) for x in rows) else None

    @cached_property
    def _elements(self) -> list[Any]:
        """What stands in its JSON: in a list, in the list `jobs` or `items` of an object, or the values of an object."""
        x = self.document
        if isinstance(x, dict):
            inner = next((x[k] for k in ("jobs", "items") if isinstance(x.get(k), list)), None)
            whole = bool(x) and sum(isinstance(v, dict) for v in x.values()) * 2 > len(x)
            x = inner if inner is not None else list(x.values()) if whole else [x]
        return x if isinstance(x, list) else []

    @cached_property
    def objects(self) -> list[dict[str, Any]]:
        """The objects among the elements of its JSON."""
        return [x for x in self._elements if isinstance(x, dict)]

    @property
    def strays(self) -> int:
        """How many elements of its JSON are no objects, or lines that are cut."""
        return len(self._elements) - len(self.objects)

    @cached_property
    def keys(self) -> tuple[str, ...]:
        """The keys of the first objects of its JSON; none where it is none."""
        return tuple(dict.fromkeys(str(k) for x in self.objects[:20] for k in x))

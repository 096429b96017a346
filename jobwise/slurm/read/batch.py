"""Batch scripts: the options of their #SBATCH lines, and the line that another request would have."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from jobwise.errors import InputError, plain
from jobwise.site import Site
from jobwise.slurm.read.requests import by_line, options
from jobwise.workloads.fields import seconds

MOST_LINES = 10_000


class Batch(NamedTuple):
    """A batch script: `words` of its options, as sbatch takes them; `options` by their long names; CPUs and time limit (s)."""

    words: str
    options: dict[str, str]
    cpus: int
    limit: float


def read_batch(path: str) -> Batch:
    """Read the #SBATCH lines of a script, up to its first command, as sbatch does. Raises InputError: file:line, and what
    would be right."""
    try:
        text = Path(path).read_text(errors="replace")
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from None
    lines = text.splitlines()[:MOST_LINES]
    if not lines or not lines[0].startswith("#!"):
        raise InputError(f"{path}:1: a batch script begins with #! and the path of its shell")
    words: list[str] = []
    for i, line in enumerate(lines, 1):
        if line.strip() and not line.lstrip().startswith("#"):
            break
        if line.startswith("#SBATCH"):
            try:
                words += shlex.split(line.removeprefix("#SBATCH"), comments=True)
            except ValueError as error:
                raise InputError(f"{path}:{i}: {plain(line)[:60]!r}: {error}") from None
    asked = options(shlex.join(["sbatch", *words, "job.sh"]))
    if "time" not in asked:
        raise InputError(f"{path}: names no time limit; a line such as `#SBATCH --time=2:00:00` is expected")
    try:
        row = by_line(asked, (0, 0))
        limit = seconds(asked["time"])
    except ValueError as error:
        raise InputError(f"{path}: an option cannot be read: {error}") from None
    return Batch(shlex.join(words), asked, max(int(row[2]) * int(row[3]), 1), limit)


def line_of(fields: Mapping[str, Any], site: Site) -> str:
    """Return the #SBATCH line for the fields of another request; "" where one line does not say it."""
    changed = set(fields)
    if changed == {"partition"}:
        return f"#SBATCH --partition={site.partition_names[int(site.queues[int(fields['partition'])][0])]}"
    if changed == {"queue"}:
        return f"#SBATCH --qos={site.qos_names[int(fields['queue'])]}"
    if changed == {"walltime"}:
        minutes = int(fields["walltime"] // 60)
        return f"#SBATCH --time={minutes // 60}:{minutes % 60:02d}:00"
    return ""

"""Batch scripts: the options of their #SBATCH lines, and the lines that another request would have."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from jobwise.errors import InputError, plain
from jobwise.site import Site
from jobwise.slurm.read.requests import by_line, parsed
from jobwise.workloads.durations import seconds_of
from jobwise.workloads.fields import seconds

MOST_LINES = 10_000
LONGEST_S = 10 * 365.25 * 86_400  # of a time limit


class Batch(NamedTuple):
    """A batch script: `words` of its options, as sbatch takes them; `options` by their long names; CPUs; time limit (s), None:
    it names none."""

    words: str
    options: dict[str, str]
    cpus: int
    limit: float | None


def words_of(text: str, path: str) -> list[str]:
    """Return the words of the #SBATCH lines of a script, up to its first command, as sbatch reads them. Raises InputError:
    file:line, and what would be right."""
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
    return words


def read_batch(path: str, more: Sequence[str] = ()) -> Batch:
    """Read what the #SBATCH lines of a script ask for; `more` words of sbatch's command line count more. Raises InputError:
    file:line, and what would be right."""
    try:
        text = Path(path).read_text(errors="replace")
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from None
    words = [*words_of(text, path), *more]
    asked = parsed(words)[0]
    try:
        row = by_line(asked, (0, 0))
        limit = seconds(asked["time"]) if "time" in asked else None
    except ValueError as error:
        raise InputError(f"{path}: an option cannot be read: {error}") from None
    if limit is not None and not 60 <= limit <= LONGEST_S:
        raise InputError(
            f"{path}: a time limit of {plain(asked['time'])[:20]} cannot be predicted; one of a minute or more is expected"
        )
    return Batch(shlex.join(words), asked, max(int(row[2]) * int(row[3]), 1), limit)


def time_limit(text: str) -> float:
    """Return the s of a time limit as people write it, or as sbatch takes it with colons or days: 90m, 2:00:00, 1-12. Raises
    InputError; a bare number too, for to sbatch it is minutes."""
    try:
        limit = seconds(text) if ":" in text or "-" in text.strip("-") else seconds_of(text)
    except ValueError:
        limit = 0.0
    if limit < 60 or text.strip().isdecimal():
        raise InputError(f"--time {text[:20]!r}: a minute or more was expected, such as 90m, 12h, 2d or 2:00:00")
    return limit


def lines_of(fields: Mapping[str, Any], site: Site, ask: Any, again: bool = False) -> list[str]:
    """Return the #SBATCH lines for the fields of another request, of a job that asks for `ask` (a row of `Site.asks`): another
    ask is for half of it. `again`: its limit is the least (TimeMin) of a job that begins again."""
    if again:
        return [f"#SBATCH --time-min={int(fields['walltime'] // 60)}", "#SBATCH --requeue"]
    out = []
    if "partition" in fields:
        out.append(f"--partition={site.partition_names[int(site.queues[int(fields['partition'])][0])]}")
    if "queue" in fields:
        out.append(f"--qos={site.qos_names[int(fields['queue'])]}")
    if "ask" in fields:
        nodes, tasks = (-(-int(ask[k]) // 2) for k in ("nodes", "tasks"))
        out += [*([f"--nodes={nodes}"] if ask["nodes"] > 1 else []), f"--ntasks={tasks}"]
    if "walltime" in fields:
        minutes = int(fields["walltime"] // 60)
        out.append(f"--time={minutes // 60}:{minutes % 60:02d}:00")
    return [f"#SBATCH {x}" for x in out]

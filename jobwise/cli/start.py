"""`jobwise start`: three questions, and the three commands that answer yours; in a pipe the table of choices."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated, NamedTuple, Optional

import typer

from jobwise.cli.tables import print_table, say
from jobwise.errors import InputError, unknown

LOG, SITE, LIVE, NOTHING = "log", "site", "slurm", "nothing"
HAVE = {
    LOG: "a job log: SWF, sacct, PBS, LSF, CSV, …",
    SITE: "a folder with what Slurm's commands print (`jobwise slurm site` names them)",
    LIVE: "a Slurm on this machine",
    NOTHING: "nothing yet: jobs are generated",
}
KNOW = {
    "compare": "what another scheduler would have done",
    "start": "when jobs will start",
    "settings": "which settings, limits, nodes would help",
    "energy": "what it costs in energy, and what a cap would cost",
    "learn": "whether a learnt scheduler is better",
}
LOGS = ("*.swf", "*.swf.gz", "*.sacct", "*sacct*.txt*", "*.csv", "*.parquet", "*.json")
MOST = 200  # files that are looked at


class Way(NamedTuple):
    """What somebody has, wants to know, and the commands; {} is the file or folder."""

    have: str
    know: str
    commands: tuple[str, str, str]


WAYS = (
    Way(
        LOG,
        "compare",
        ("jobwise trace info {}", "jobwise compare {} --report out.html", "jobwise compare {} --split 0.7 --max-wait 1.2x"),
    ),
    Way(LOG, "start", ("jobwise trace info {}", "jobwise when {} --at 30d", "jobwise simulate {} --out schedule.csv")),
    Way(LOG, "settings", ("jobwise compare {} -p fcfs+easy -p jobwise", "jobwise policies", "jobwise slurm site")),
    Way(
        LOG,
        "energy",
        (
            "jobwise simulate {} --power table.toml",
            "jobwise compare {} --power table.toml --prices prices.csv",
            "jobwise simulate {} --power table.toml --cap 40kW",
        ),
    ),
    Way(
        LOG, "learn", ("jobwise train search {} --out runs/mine", "jobwise evaluate runs/mine {}", "jobwise probe runs/mine {}")
    ),
    Way(
        SITE,
        "compare",
        ("jobwise slurm fidelity {}", "jobwise slurm what-if {} -p fcfs+easy", "jobwise slurm what-if {} -p slurm -p saf+easy"),
    ),
    Way(SITE, "start", ("jobwise slurm fidelity {}", "jobwise slurm advise --folder {}", "jobwise slurm check {}")),
    Way(
        SITE,
        "settings",
        ("jobwise slurm fidelity {}", "jobwise slurm what-if {} --nodes 2", "jobwise slurm tune {} --max-wait 1.2x"),
    ),
    Way(
        SITE,
        "energy",
        (
            "jobwise slurm fidelity {}",
            "jobwise slurm what-if {} --power table.toml --cap 40kW",
            "jobwise slurm what-if {} --power table.toml --nodes 2",
        ),
    ),
    Way(
        SITE,
        "learn",
        ("jobwise slurm fidelity {}", "jobwise slurm what-if {} -p jobwise", "jobwise slurm tune {} --max-wait 1.2x"),
    ),
    Way(LIVE, "compare", ("jobwise slurm advise", "jobwise slurm site", "jobwise slurm shadow -p jobwise")),
    Way(
        LIVE, "start", ("jobwise slurm when --mine", "jobwise slurm fits --batch job.sh", "jobwise slurm when --mine --sooner")
    ),
    Way(LIVE, "settings", ("jobwise slurm advise --tune", "jobwise slurm site", "jobwise slurm shadow -p jobwise")),
    Way(LIVE, "energy", ("jobwise slurm site", "jobwise trace sacct-command", "jobwise policies")),
    Way(LIVE, "learn", ("jobwise slurm shadow -p jobwise", "jobwise slurm site", "jobwise slurm retrain --help")),
    Way(
        NOTHING,
        "compare",
        ("jobwise trace generate log.swf", "jobwise trace info log.swf", "jobwise compare log.swf --report out.html"),
    ),
    Way(NOTHING, "start", ("jobwise trace generate log.swf", "jobwise trace info log.swf", "jobwise when log.swf --at 1d")),
    Way(NOTHING, "settings", ("jobwise trace generate log.swf", "jobwise compare log.swf", "jobwise policies")),
    Way(
        NOTHING,
        "energy",
        (
            "jobwise trace generate log.swf",
            "jobwise simulate log.swf --power table.toml",
            "jobwise simulate log.swf --power table.toml --cap 40kW",
        ),
    ),
    Way(
        NOTHING,
        "learn",
        (
            "jobwise trace generate log.swf",
            "jobwise train search log.swf --out runs/mine --preset smoke",
            "jobwise evaluate runs/mine log.swf",
        ),
    ),
)


def lying_here(have: str, folder: Path) -> list[str]:
    """Return the files, or folders, of what somebody has that lie in a folder, by name."""
    if have == LOG:
        names = {p.name for pattern in LOGS for p in list(folder.glob(pattern))[:MOST] if p.is_file()}
        return sorted(names)
    if have == SITE:
        return sorted(p.parent.name or "." for p in list(folder.glob("*/sacct.txt"))[:MOST])
    return []


def ways(have: str, know: str, name: str) -> list[str]:
    """Return the commands, with the name of the file in them. Raises InputError for answers that are none."""
    for answer, known, what in ((have, HAVE, "what you have"), (know, KNOW, "what you want to know")):
        if answer not in known:
            raise unknown(what, answer, known)
    way = next(x for x in WAYS if (x.have, x.know) == (have, know))
    return [text.replace("{}", shlex.quote(name)) for text in way.commands]


def start(
    have: Annotated[Optional[str], typer.Option("--have", help=f"{', '.join(HAVE)}.")] = None,
    know: Annotated[Optional[str], typer.Option("--know", help=f"{', '.join(KNOW)}.")] = None,
    file: Annotated[Optional[str], typer.Option("--file", help="The log, or the site's folder.")] = None,
) -> None:
    """Ask what you have and what you want to know; print the three commands for it. It runs none of them.

    Examples:
        jobwise start
        jobwise start --have log --know energy --file log.swf.gz
    """
    asks = sys.stdin.isatty() and sys.stdout.isatty()
    if not asks and not (have and know):
        _table()
        return
    have = have or _chosen("What do you have?", HAVE)
    know = know or _chosen("What do you want to know?", KNOW)
    ways(have, know, "")
    name = file
    if not name and have in (LOG, SITE):
        may = asks and typer.confirm("May I look for it in this folder?", default=True)
        here = lying_here(have, Path()) if may or not asks else []
        name = here[0] if here else None
        if may:
            say(f"there {'is' if len(here) == 1 else 'are'} {', '.join(here[:8])}" if here else "there is none here")
    for text in ways(have, know, name or ("LOG" if have == LOG else "FOLDER")):
        print(text)


def _table() -> None:
    """Print the choices, each with one of its commands."""
    rows = [[x.have if x.know == "compare" else "", x.know, x.commands[1]] for x in WAYS]
    print_table("jobwise start --have … --know … prints three commands", ["have", "know", "one of them"], rows, left=3)
    for known in (HAVE, KNOW):
        for name, words in known.items():
            say(f"{name}: {words}")


def _chosen(question: str, known: dict[str, str]) -> str:
    """The answer to a question: a number or a word. Raises InputError for another one."""
    print(question)
    names = list(known)
    for k, name in enumerate(names, 1):
        print(f"  {k}  {name:9} {known[name]}")
    answer = typer.prompt("", prompt_suffix="> ", default="1").strip().lower()
    if answer.isdecimal() and 1 <= int(answer) <= len(names):
        return names[int(answer) - 1]
    if answer not in known:
        raise InputError(f"{answer!r}: one of {', '.join(names)}, or its number, is expected")
    return answer

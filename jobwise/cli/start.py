"""`jobwise start`: three questions, and the three commands that answer yours; in a pipe the table of choices."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated, Optional

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
STANDS_FOR = {LOG: "LOG", SITE: "FOLDER"}  # where the name is not known
LOGS = ("*.swf", "*.swf.gz", "*.sacct", "*sacct*.txt*", "*.csv", "*.parquet", "*.json")
MOST = 200  # files that are looked at


COMMANDS = {  # of what somebody has, of what they want to know: three; {} is the file or the folder
    LOG: {
        "compare": "trace info {}; compare {} --report out.html; compare {} --split 0.7 --max-wait 1.2x",
        "start": "trace info {}; when {} --at 30d; simulate {} --out schedule.csv",
        "settings": "compare {} -p fcfs+easy -p jobwise; policies; slurm site",
        "energy": "simulate {} --power table.toml; compare {} --power table.toml --prices prices.csv; "
        "simulate {} --power table.toml --cap 40kW",
        "learn": "train search {} --out runs/mine; evaluate runs/mine {}; probe runs/mine {}",
    },
    SITE: {
        "compare": "slurm fidelity {}; slurm what-if {} -p fcfs+easy; slurm what-if {} -p slurm -p saf+easy",
        "start": "slurm fidelity {}; slurm advise --folder {}; slurm check {}",
        "settings": "slurm fidelity {}; slurm what-if {} --nodes 2; slurm tune {} --max-wait 1.2x",
        "energy": "slurm fidelity {}; slurm what-if {} --power table.toml --cap 40kW; "
        "slurm what-if {} --power table.toml --nodes 2",
        "learn": "slurm fidelity {}; slurm what-if {} -p jobwise; slurm tune {} --max-wait 1.2x",
    },
    LIVE: {
        "compare": "slurm advise; slurm site; slurm shadow -p jobwise",
        "start": "slurm when --mine --sooner; slurm fits --batch job.sh; slurm fits --batch job.sh --partition all",
        "settings": "slurm advise --tune; slurm site; slurm shadow -p jobwise",
        "energy": "slurm site; trace sacct-command; policies",
        "learn": "slurm shadow -p jobwise; slurm site; slurm retrain --help",
    },
    NOTHING: {
        "compare": "trace generate log.swf; trace info log.swf; compare log.swf --report out.html",
        "start": "trace generate log.swf; trace info log.swf; when log.swf --at 1d",
        "settings": "trace generate log.swf; compare log.swf; policies",
        "energy": "trace generate log.swf; simulate log.swf --power table.toml; simulate log.swf --power table.toml --cap 40kW",
        "learn": "trace generate log.swf; train search log.swf --out runs/mine --preset smoke; evaluate runs/mine log.swf",
    },
}


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
    for answer, choices, what in ((have, HAVE, "what you have"), (know, KNOW, "what you want to know")):
        if answer not in choices:
            raise unknown(what, answer, choices)
    return [f"jobwise {text.replace('{}', shlex.quote(name))}" for text in COMMANDS[have][know].split("; ")]


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
    for text in ways(have, know, name or STANDS_FOR.get(have, "")):
        print(text)


def _table() -> None:
    """Print the choices, each with one of its commands."""
    rows = [
        [have if know == "compare" else "", know, ways(have, know, STANDS_FOR.get(have, ""))[1]]
        for have in COMMANDS
        for know in COMMANDS[have]
    ]
    print_table("jobwise start --have … --know … prints three commands", ["have", "know", "one of them"], rows, left=3)
    for choices in (HAVE, KNOW):
        for name, words in choices.items():
            say(f"{name}: {words}")


def _chosen(question: str, choices: dict[str, str]) -> str:
    """The answer to a question: a number or a word. Raises InputError for another one."""
    print(question)
    names = list(choices)
    for k, name in enumerate(names, 1):
        print(f"  {k}  {name:9} {choices[name]}")
    answer = typer.prompt("", prompt_suffix="> ", default="1").strip().lower()
    if answer.isdecimal() and 1 <= int(answer) <= len(names):
        return names[int(answer) - 1]
    if answer not in choices:
        raise InputError(f"{answer!r}: one of {', '.join(names)}, or its number, is expected")
    return answer

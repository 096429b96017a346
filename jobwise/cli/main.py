"""The command line: one module a command, put together here. Wrong use: one line, exit code 2."""

from __future__ import annotations

import os
import re
import signal
import sys
from contextlib import suppress
from typing import Annotated, Any

import typer

from jobwise import __version__, extensions
from jobwise.cli.help import CommandGroup
from jobwise.cli.later import Later
from jobwise.cli.tables import complain
from jobwise.errors import InputError, Interrupted, plain, unknown

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # threads that wait do not turn in circles: others use these cores too

ABOUT = "Replay a job log under other schedulers, compare them honestly, learn better ones."
COMMANDS = {  # command -> where its function is
    "simulate": "simulate:simulate",
    "compare": "compare:compare",
    "policies": "policies:policies",
    "train": "train:train",
    "evaluate": "evaluate:evaluate",
    "explain": "explain:explain",
    "probe": "probe:probe",
    "watch": "watch:watch",
    "when": "when:when",
    "warm-up": "warm_up:warm_up",
    "doctor": "doctor:doctor",
    "zoo": "zoo:zoo",
    "start": "start:start",
    "mcp": "mcp:mcp",
    "bench": "bench:bench",
    "export-onnx": "explain:export_onnx",
}
LIVE = {  # of `jobwise slurm --help`: what needs a cluster, and what does not
    "From a folder of Slurm's outputs": ("site", "fidelity", "what-if", "tune", "check"),
    "Beside a running Slurm, reading": ("when", "fits", "watch", "advise", "shadow"),
    "Beside a running Slurm, changing priorities": ("steer", "retrain"),
}
GROUPS = {  # group -> its help, its commands
    "trace": (
        "Look at, convert and generate job logs.",
        {
            "info": "trace:info",
            "convert": "trace:convert",
            "generate": "trace:generate",
            "forecast": "trace:forecast",
            "sacct-command": "trace:sacct_command",
        },
    ),
    "workflow": (
        "Look at, draw and convert workflows.",
        {"info": "workflow:info", "draw": "workflow:draw", "convert": "workflow:convert"},
    ),
    "mars": (
        "Run workflows; let models learn from logs.",
        {"run": "mars:run", "learn": "models:learn", "models": "models:models"},
    ),
    "slurm": (
        "Your own Slurm: simulated, and live.",
        {
            "when": "slurm_when:when",
            "fits": "slurm_fits:fits",
            "advise": "slurm_advise:advise",
            "watch": "slurm_shadow:watch",
            "shadow": "slurm_shadow:shadow",
            "steer": "slurm_steer:steer",
            "retrain": "slurm_retrain:retrain",
            "site": "slurm:site",
            "fidelity": "slurm:fidelity",
            "check": "slurm:check",
            "what-if": "slurm_changes:what_if",
            "tune": "slurm_changes:tune",
        },
    ),
    "telemetry": (
        "Read, forecast and judge what nodes report.",
        {
            "read": "telemetry:read",
            "info": "telemetry:info",
            "forecast": "telemetry:forecast",
            "risk": "telemetry:risk",
        },
    ),
}
SECTIONS = {  # of `jobwise --help`: title -> commands
    "Look at a log": ("trace", "simulate", "explain", "watch", "when"),
    "Compare schedulers": ("compare", "policies", "bench", "reproduce"),
    "Learn": ("train", "evaluate", "probe", "zoo", "export-onnx"),
    "Run workflows": ("workflow", "mars"),
    "Your Slurm, your nodes": ("slurm", "telemetry", "mcp"),
    "This installation": ("start", "doctor", "warm-up"),
}
BEGIN = (
    "jobwise compare LOG.swf.gz       what other schedulers would have done",
    "jobwise slurm site               your Slurm: prints commands that only read",
)


def _version(value: bool) -> None:
    if value:
        from jobwise.compiled.shipped import count, kind  # numba: half a second

        code = f"with machine code for {kind()}" if count() else "kernels are compiled at first use"
        print(f"jobwise {__version__} ({code})")
        raise typer.Exit()


def _options(version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True)] = False) -> None:
    """Replay a job log under other schedulers, and compare them honestly."""


def _later(commands: dict[str, str]) -> dict[str, Any]:
    """Return the commands of a table, not imported yet."""
    return {name: Later(name, f"jobwise.cli.{where}") for name, where in commands.items()}


def _built() -> Any:
    """Return the command line: the commands of the tables, and those of other packages."""
    root = typer.Typer(cls=CommandGroup, no_args_is_help=True, pretty_exceptions_enable=False, help=ABOUT)
    root.callback()(_options)
    group: Any = typer.main.get_command(root)
    group.sections, group.begin = SECTIONS, BEGIN
    group.commands |= _later(COMMANDS)
    others = sorted({*extensions.names("jobwise.commands")} - {*group.commands, *GROUPS})
    group.commands |= {name: Later(name, extensions.where("jobwise.commands", name), package=True) for name in others}
    for name, (about, commands) in GROUPS.items():
        own = group.commands[name] = CommandGroup(name=name, help=about, commands=_later(commands), no_args_is_help=True)
        own.sections = LIVE if name == "slurm" else {}
    return group


app = _built()


def main() -> None:
    """Entry point: errors of the user become one line and exit code 2. A Ctrl-C that was lost (Python cannot raise it while it
    frees an object) shows in the exit code all the same."""
    pressed: list[int] = []

    def interrupt(number: int, frame: Any) -> None:
        pressed.append(number)
        raise KeyboardInterrupt

    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, interrupt)
    code = run(sys.argv[1:])
    sys.exit(130 if pressed and not code else code)


def run(arguments: list[str]) -> int:
    """Run one command; the exit code: 0 done, 1 failed, 2 wrong use, 130 interrupted."""
    try:
        code = app(arguments, prog_name="jobwise", standalone_mode=False) or 0
        if code == 130:
            raise KeyboardInterrupt
        return code
    except InputError as error:
        complain(str(error))
        return 2
    except (KeyboardInterrupt, typer.Abort):
        complain("interrupted; nothing was written")
        return 130
    except Interrupted as error:
        complain(f"interrupted; {error}")
        return 130
    except BrokenPipeError:
        sys.stderr.close()
        return 1
    except OSError as error:
        place = "" if error.filename else " (a file that is being written: the output, a state folder, the temporary folder)"
        complain(f"{error}{place}")
        return 2
    except MemoryError:
        complain("out of memory; try fewer jobs")
        return 1
    except Exception as error:
        if not hasattr(error, "format_message"):  # the usage errors of typer's parser, whichever it is built on
            raise
        if type(error).__name__ == "NoArgsIsHelpError":  # a command that was asked for nothing
            with suppress(BrokenPipeError):
                print(error.format_message(), flush=True)
        elif line := _told(error):
            complain(line)
        return 2


RENAMED = {  # options by their names until 0.2
    "--shakes": "--replicas",
    "--shake-s": "--jitter",
    "--kill": "--end-at-limit",
    "--on": "--executor",
}


def _told(error) -> str:
    """What typer's parser says; for an unknown command with the nearest ones."""
    text = plain(" ".join(error.format_message().split()))
    if (option := re.match(r"No such option:? '?(--[\w-]+)", text)) and option[1] in RENAMED:
        return f"{option[1]} is called {RENAMED[option[1]]} now"
    if text.startswith("Got unexpected extra argument") and any("--folder" in p.opts for p in error.ctx.command.params):
        return f"{text}; a folder of outputs is named by --folder"
    if command := re.match(r"No such command '(.*?)'", text):
        known = [*(n for n in app.commands if n not in GROUPS), *(f"{g} {n}" for g, (_, own) in GROUPS.items() for n in own)]
        return str(unknown("command", command[1], known))
    return text

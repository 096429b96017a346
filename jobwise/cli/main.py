"""The command line: one module a command, put together here. Wrong use: one line, exit code 2."""

from __future__ import annotations

import os
import re
import signal
import sys
from typing import Annotated, Any

import typer

from jobwise import extensions
from jobwise.cli import (
    compare,
    doctor,
    evaluate,
    explain,
    mars,
    models,
    policies,
    simulate,
    slurm,
    slurm_advise,
    slurm_changes,
    slurm_retrain,
    slurm_shadow,
    slurm_steer,
    slurm_when,
    telemetry,
    trace,
    train,
    warm_up,
    watch,
    when,
    workflow,
    zoo,
)
from jobwise.cli.options import complain
from jobwise.errors import InputError, Interrupted, plain, unknown

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # threads that wait do not turn in circles: others use these cores too


def _name(command) -> str:
    return command.name or command.callback.__name__.replace("_", "-")


def _of_package(name: str):
    """Return a command of another package; one that says why, where it does not load."""
    try:
        return extensions.load("jobwise.commands", name)
    except InputError as error:
        why = error

        def broken() -> None:
            """Say why this command of another package does not load."""
            raise why

        return broken


app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Replay a job log under other schedulers, compare them honestly, learn better ones.",
)
for command in (simulate.simulate, compare.compare, policies.policies, train.train, evaluate.evaluate, explain.explain):
    app.command()(command)
app.command()(watch.watch)
app.command()(when.when)
app.command("warm-up")(warm_up.warm_up)
app.command()(doctor.doctor)
app.command()(zoo.zoo)
app.command("export-onnx")(explain.export_onnx)
for _command_name in sorted({*extensions.names("jobwise.commands")} - {_name(c) for c in app.registered_commands}):
    app.command(_command_name)(_of_package(_command_name))


def _group(name: str, help_text: str, *commands) -> typer.Typer:
    group = typer.Typer(no_args_is_help=True, help=help_text)
    for command in commands:
        group.command()(command)
    app.add_typer(group, name=name)
    return group


logs = _group("trace", "Look at, convert and generate job logs.", trace.info, trace.convert, trace.generate, trace.forecast)
logs.command("sacct-command")(trace.sacct_command)
_group("workflow", "Look at, draw and convert workflows.", workflow.info, workflow.draw, workflow.convert)
_group("mars", "Run workflows on a cluster; models that learn from a log.", mars.run, models.learn, models.models)
_group(
    "slurm",
    "A site's own Slurm: in the simulator, and live.",
    slurm_when.when,
    slurm_when.fits,
    slurm_advise.advise,
    slurm_shadow.watch,
    slurm_shadow.shadow,
    slurm_steer.steer,
    slurm_retrain.retrain,
    slurm.site,
    slurm.fidelity,
    slurm.check,
    slurm_changes.what_if,
    slurm_changes.tune,
)
about = "What nodes tell: read it, forecast it, see who will fail."
_group("telemetry", about, telemetry.read, telemetry.info, telemetry.forecast, telemetry.risk)


def main() -> None:
    """Entry point: errors of the user become one line and exit code 2. A Ctrl-C that was lost (Python cannot raise it while it
    frees an object) is told by the exit code all the same."""
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
        if line := _told(error):
            complain(line)
        return 2


def _told(error) -> str:
    """What typer's parser says; for an unknown command with the nearest ones."""
    text = plain(" ".join(error.format_message().split()))
    if command := re.match(r"No such command '(.*?)'", text):
        known = [_name(c) for c in app.registered_commands]
        known += [f"{g.name} {_name(c)}" for g in app.registered_groups for c in (g.typer_instance or app).registered_commands]
        return str(unknown("command", command[1], known))
    return text


def _version(value: bool) -> None:
    if value:
        from jobwise import __version__
        from jobwise.compiled.shipped import count, kind

        code = f"with machine code for {kind()}" if count() else "kernels are compiled at first use"
        print(f"jobwise {__version__} ({code})")
        raise typer.Exit()


@app.callback()
def options(version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True)] = False) -> None:
    """Replay a job log under other schedulers, and compare them honestly."""

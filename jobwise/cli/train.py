"""`jobwise train`: from a log to a policy."""

from __future__ import annotations

import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Optional

import typer

from jobwise.cli.groups import LogPart, Parallel, Powered, grouped
from jobwise.cli.options import LOG_HELP, Executor, Json, needs, open_log
from jobwise.cli.progress import progress
from jobwise.cli.tables import complain, print_json, say
from jobwise.errors import InputError, Interrupted
from jobwise.learn.run_settings import processes
from jobwise.policies.files import short
from jobwise.systems import configure, published, systems
from jobwise.systems import system as row_of
from jobwise.worlds.spec import generated

GENERATED = ", ".join(generated())
KNOWN = f"Published: {', '.join(published())}. Ours: {', '.join(x for x in systems() if x not in published())}"


@dataclass(frozen=True)
class Training:
    """Training: how long, how often and with what."""

    preset: Annotated[str, typer.Option("--preset", help="smoke (seconds), small (minutes), paper.")] = "small"
    variant: Annotated[str, typer.Option("--variant", help="Of a system with variants, one; a wrong name lists them.")] = ""
    config: Annotated[Optional[str], typer.Option("--config", help="TOML file with keys to change.")] = None
    seeds: Annotated[int, typer.Option("--seeds", min=1, max=1000, help="Train N times; the best is kept.")] = 1
    seed: Annotated[Optional[int], typer.Option("--seed", min=0, max=2**30, help="Default: 0.")] = None
    choices: Annotated[Optional[int], typer.Option("--choices", min=1, help="Budget: choices made.")] = None
    device: Annotated[str, typer.Option("--device", help="cpu, cuda, mps or auto.")] = "auto"
    collectors: Annotated[
        Optional[int],
        typer.Option("--collectors", min=1, max=1024, help="Batches collected by tasks (--executor). Default: 1."),
    ] = None
    executor: Executor = None
    threads: Annotated[Optional[int], typer.Option("--threads", min=1, max=1024, help="Default: 2.")] = None
    resume: Annotated[bool, typer.Option("--resume", help="Go on with an interrupted run.")] = False


@grouped
def train(
    system: Annotated[str, typer.Argument(help=f"{KNOWN}.", autocompletion=lambda: list(systems()))],
    log: Annotated[Optional[str], typer.Argument(metavar="LOG", help=f"{LOG_HELP} {GENERATED}: generated.")] = None,
    *,
    out: Annotated[str, typer.Option("--out", "-o", help="Run folder to make, e.g. runs/mine.")],
    training: Training = Training(),
    part: LogPart = LogPart(),
    power: Powered = Powered(),
    as_json: Json = False,
) -> None:
    """Learn a policy from a log, or from generated jobs. Of a log the first 70 % are learnt from; `evaluate` judges on the
    rest. The name of a published system trains its agent; with a + it is ours (deeprm+).

    Examples:
        jobwise train perjob log.swf.gz --out runs/mine --preset smoke
        jobwise train deeprm --out runs/deeprm --preset smoke
    """
    made = _checked(system, log, out, part.whole)
    w = None if log is None else open_log(log, part.procs, part.jobs, part.load, made)
    w = w if w is None else power.of(w)
    settings = configure(system, w, training.preset, training.variant)
    own = _toml(training.config)
    for key in ("learner", "encoding"):  # tables add to the system's
        if isinstance(own.get(key), dict) and key in type(settings).model_fields:
            own[key] = settings.model_dump()[key] | own[key]
    changes: dict[str, Any] = {"seed": training.seed, "threads": training.threads, "choices": training.choices}
    changes |= {"collectors": training.collectors}
    changes = {k: v for k, v in changes.items() if v is not None}
    if training.choices is not None and "episodes" in type(settings).model_fields:
        changes["episodes"] = None
    settings = settings.changed(**(own | changes))
    if training.resume and not any(Path(out).rglob("run.json")):
        complain(f"{out}: there is no run to go on with; a new one begins", "note")
    if not as_json:
        what = w.name if w is not None else "generated jobs"
        print(f"training {system} on {what} ({training.preset}); validation against the best fixed rule", flush=True)
    with progress(f"training {system}", share=True) as show, Parallel(training.executor, settings.threads).workers():
        last: dict = {}

        def report(k: int, line: dict) -> None:
            last.update(line)
            if "validation" in line and not as_json and not sys.stderr.isatty():
                print(_line(k, line), flush=True)
                if show:
                    show.said()
            if show:
                known = f": score {last['best']:.2f} (best rule {last['best_rule']:.2f})" if "best" in last else ""
                what = f"seed {k}{known}"
                show(int(1000 * (k + line["part"])), 1000 * training.seeds, what)

        try:
            policies = settings.train(
                w, out, seeds=training.seeds, device=training.device, resume=training.resume, report=report
            )
        except KeyboardInterrupt:
            kept = any(Path(out).rglob("checkpoint*.safetensors"))
            how = "goes on from its last checkpoint" if kept else "holds no checkpoint yet: it begins again"
            raise Interrupted(f"{out} {how} with --resume") from None
    rows = [
        p.about | {"policy": str(Path(out) / f"seed{k}" if training.seeds > 1 else Path(out))} for k, p in enumerate(policies)
    ]
    if as_json:
        print_json(
            {"system": system, "config": settings.model_dump(), "runs": rows, "notes": sorted({*map(short, rows)} - {""})}
        )
        return
    _say(rows)
    flags = [f"{k} {v}" for k, v in {"--procs": part.procs, "--jobs": part.jobs, "--load": part.load}.items() if v is not None]
    print("now: jobwise " + " ".join(_next(system, out, log, flags)))


def _checked(system: str, log: str | None, out: str, whole: bool) -> bool:
    """Return whether the system generates its jobs. `whole`: the log is taken as it is. Raises InputError."""
    names = systems()
    if log in names and system not in names:
        raise InputError(f"the system comes first: jobwise train {log} {system} --out {out}")
    row = row_of(system)
    generates = not row.on_log
    if row.needs:
        needs("learn", *row.needs)
    if log is None and not generates:
        raise InputError(f"which log is {system} to learn from? jobwise train {system} LOG --out {out}")
    if generates and not whole:
        raise InputError(f"{system} takes a log as it is: --procs, --jobs and --load are for the others")
    if not out or "+" in out:
        raise InputError(f"--out {out!r}: a run folder needs a name, without '+', which separates the options of a policy")
    if f"{system}+" in names and processes() == 1:
        complain(f"{system} is the published agent; ours is {system}+", "note")
    return generates


def _next(system: str, out: str, log: str | None, flags: list[str]) -> list[str]:
    """The command that goes on from here."""
    return ["evaluate", out, *([log] if log else []), *flags]


def _say(rows: list[dict]) -> None:
    """What became of each seed."""
    for r in rows:
        rule, value = r["best_rule"]
        text = f"best validation score {r['validation']:.2f}, best fixed rule {rule} {value:.2f}; smaller is better: "
        by = r["validation"] / value - 1
        ahead = f"{-by:.0%} better than the rule" if by < 0 else f"the rule is ahead by {by:.0%}"
        text += "as good as the rule" if round(100 * by) == 0 else ahead
        text += " on these jobs, which were kept back"
        if "serves" in r:
            text += f"; {'the model' if r['serves'] == 'model' else 'that rule'} would schedule"
        if "chosen" in r:
            text += f"; chosen on jobs kept back: {'what was searched' if r['chosen'] == 'searched' else 'its start'}"
        say(f"{r['policy']}: {text} ({r['choices']:,} choices)")
        if note := short(r):
            say(f"note: {r['policy']} {note}")
    if len(rows) > 1:
        kept = min(rows, key=lambda r: r["validation"])
        say(f"{Path(kept['policy']).parent} stands for {kept['policy']}, the best of them; each seed keeps other jobs back.")


def _toml(path: str | None) -> dict:
    if path is None:
        return {}
    try:
        return tomllib.loads(Path(path).read_text())
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: is no TOML: {error}") from None


def _line(k: int, line: dict) -> str:
    return (
        f"  seed {k}, {line['part']:4.0%}: score {line['validation']:8.2f}, best {line['best']:8.2f}, "
        f"best rule {line['best_rule']:8.2f}, {line['choices']:,} choices"
    )

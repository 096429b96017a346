"""`sbatch-asks`, in sbatch's place: asks `jobwise slurm fits` when a job would start, prints the answer to standard error, then
calls sbatch as it was called itself. It submits the job whatever the answer, and where there is none.

Of the environment: SBATCH (/usr/bin/sbatch) is sbatch itself; JOBWISE_FITS has more options of `slurm fits`; an answer takes
JOBWISE_SECONDS (8) at most, for Parsl waits 10 s for its sbatch, and holds for JOBWISE_MINUTES (3; 0: it does not) for jobs
that ask for the same; JOBWISE_ANSWERS is a file to which answers are added, with the time and the names of jobs, for tools that
hide what sbatch says.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from jobwise.errors import InputError, plain

DAY_S = 86_400.0
EARLIER = 8  # starts of the past that calibrate an answer: an eighth of the time of 60
NO_JOB = {"--help", "-h", "--usage", "--version", "-V"}
ALIKE = ("job-name", "J", "output", "o", "error", "e", "comment", "chdir", "D", "wrap", "parsable", "export")  # may differ


def main() -> None:
    """Ask when the job would start, then become sbatch."""
    words, sbatch = sys.argv[1:], os.environ.get("SBATCH", "/usr/bin/sbatch")
    with suppress(Exception):  # nothing that goes wrong here keeps a job from being submitted
        if not NO_JOB & set(words[: _options(words)]):
            try:
                name, answer = asked(words, _piped(words))
            except InputError as error:
                name, answer = "job", f"jobwise: {error}"
            print(answer, file=sys.stderr, flush=True)
            if file := os.environ.get("JOBWISE_ANSWERS"):
                with Path(file).open("a") as out:
                    now = time.strftime("%F %T")
                    out.write("".join(f"{now} {name}: {line}\n" for line in answer.splitlines()))
    try:
        os.execv(sbatch, [sbatch, *words])
    except OSError as error:
        sys.exit(f"sbatch-asks: {sbatch}: {error.strerror}")


def _options(words: list[str]) -> int:
    """How many of the words are options."""
    from jobwise.slurm.read.requests import parsed

    return parsed(words)[1]


def _piped(words: list[str]) -> str:
    """The script on standard input, "" where one is named; sbatch reads it again."""
    if _options(words) < len(words) or any(x.startswith("--wrap") for x in words) or sys.stdin is None or sys.stdin.isatty():
        return ""
    with tempfile.TemporaryFile() as file:
        file.write(data := sys.stdin.buffer.read())
        file.seek(0)
        os.dup2(file.fileno(), 0)  # sbatch's standard input
    return data.decode(errors="replace")


def asked(words: list[str], piped: str = "") -> tuple[str, str]:
    """(the name of the job, the answer to when it would start) of the words behind sbatch, and of a script that was `piped`."""
    from jobwise.slurm.read.batch import words_of
    from jobwise.slurm.read.requests import parsed

    options, count = parsed(words)
    script = words[count] if count < len(words) and "wrap" not in options else ""
    text = Path(script).read_text(errors="replace") if script else piped
    every = [*(words_of(text, script or "standard input") if text else ()), *words[:count]]  # the command line counts more
    options = parsed(every)[0]
    kept = _place(options)
    name = plain(" ".join(" ".join(filter(None, (_called(options, script), options.get("comment")))).split()))
    with _alone(kept):
        age = time.time() - kept.stat().st_mtime if kept.is_file() else float("inf")
        if age < 60 * float(os.environ.get("JOBWISE_MINUTES", "3")):
            how_old = f"{age:.0f} s" if age < 100 else f"{age / 60:.0f} min"
            first, *rest = kept.read_text().split("\n")
            return name, "\n".join([first + f" (as of {how_old} ago)" * (age > 10), *rest])
        answer = _fits([" ".join(x.split("\n")) for x in every])
        with suppress(OSError):
            for old in kept.parent.iterdir():
                if time.time() - old.stat().st_mtime > DAY_S:
                    old.unlink()
            own = kept.with_suffix(f".{os.getpid()}")
            own.write_text(answer)
            os.replace(own, kept)
    return name, answer


def _called(options: dict[str, str], script: str) -> str:
    """The name of a job."""
    return options.get("job-name") or options.get("J") or Path(script).name or "wrap"


@contextmanager
def _alone(kept: Path) -> Iterator[None]:
    """Keep others, who ask for the same, waiting within, as long as an answer may take: the first asks, and they have its
    answer."""
    end = time.monotonic() + _limit()
    with ExitStack() as stack:
        with suppress(OSError):  # where nothing can be kept each asks
            kept.parent.mkdir(parents=True, exist_ok=True)
            file = stack.enter_context(kept.with_suffix(".lock").open("w"))
            while time.monotonic() < end:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    time.sleep(0.05)
        yield


def _limit() -> float:
    """How long an answer may take, s."""
    return float(os.environ.get("JOBWISE_SECONDS", "8"))


def _place(options: dict[str, str]) -> Path:
    """The file of the answer to jobs that ask for the same of the same Slurm."""
    more = os.environ.get("JOBWISE_FITS", "")
    about = {k: v for k, v in os.environ.items() if k.startswith(("SBATCH_", "SLURM_C"))}
    asks = {k: v for k, v in options.items() if k not in ALIKE}
    key = json.dumps([asks, about, more, os.getcwd() if more else ""], sort_keys=True)
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "jobwise" / "asks" / hashlib.sha256(key.encode()).hexdigest()[:32]


def _fits(words: list[str]) -> str:
    """What `jobwise slurm fits` says of the options of a job, or why it says nothing."""
    limit = _limit()
    with tempfile.NamedTemporaryFile("w", suffix=".sh") as batch:
        batch.write(f"#!/bin/sh\n#SBATCH {shlex.join(words)}\n")
        batch.flush()
        command = [sys.executable, *f"-m jobwise.cli slurm fits --rough --earlier {EARLIER}".split(), "--batch", batch.name]
        command += shlex.split(os.environ.get("JOBWISE_FITS", ""))
        quiet = os.environ | {"JOBWISE_ANNOUNCE": "0"}
        try:
            done = subprocess.run(
                command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=limit, check=False, env=quiet
            )
        except subprocess.TimeoutExpired as error:
            why = "long queues take longer, and so does the time before `jobwise warm-up slurm starts`"
            early = (error.stdout or b"").decode(errors="replace").strip()  # bytes, whatever was asked for
            return early or f"jobwise: no answer within {limit:g} s (JOBWISE_SECONDS); {why}"
        said = [x for x in done.stdout.splitlines() if not x.startswith("roughly: ")]
        return "\n".join([*said, *done.stderr.splitlines()]).strip().replace(batch.name, "the job")


if __name__ == "__main__":
    main()

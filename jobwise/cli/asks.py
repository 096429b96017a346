"""`sbatch-asks`, in sbatch's place: asks `jobwise slurm fits` when a job would start, prints the answer to standard error, then
calls sbatch as it was called itself. It submits the job whatever the answer, and where there is none.

Of the environment: SBATCH (/usr/bin/sbatch) is sbatch itself; JOBWISE_FITS has more options of `slurm fits`; an answer takes
JOBWISE_SECONDS (5) at most, for Parsl waits 10 s for its sbatch, and holds for JOBWISE_MINUTES (5; 0: it does not) for jobs
that ask for the same; JOBWISE_ANSWERS is a file to which answers are added, with the names of jobs, for tools that hide what
sbatch says.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from jobwise.errors import InputError, plain

DAY_S = 86_400.0
ALIKE = ("job-name", "J", "output", "o", "error", "e", "comment", "chdir", "D", "wrap", "parsable", "export")  # may differ


def main() -> None:
    """Ask when the job would start, then become sbatch."""
    words, sbatch = sys.argv[1:], os.environ.get("SBATCH", "/usr/bin/sbatch")
    with suppress(Exception):  # nothing that goes wrong here keeps a job from being submitted
        try:
            name, answer = asked(words)
        except InputError as error:
            name, answer = "job", f"jobwise: {error}"
        print(answer, file=sys.stderr, flush=True)
        if file := os.environ.get("JOBWISE_ANSWERS"):
            with Path(file).open("a") as out:
                out.write("".join(f"{name}: {line}\n" for line in answer.splitlines()))
    try:
        os.execv(sbatch, [sbatch, *words])
    except OSError as error:
        sys.exit(f"sbatch-asks: {sbatch}: {error.strerror}")


def asked(words: list[str]) -> tuple[str, str]:
    """(the name of the job, the answer to when it would start) of the words behind sbatch."""
    from jobwise.slurm.read.batch import sbatch_words
    from jobwise.slurm.read.requests import parsed

    options, count = parsed(words)
    script = words[count] if count < len(words) and "wrap" not in options else ""
    every = [*(sbatch_words(script) if script else ()), *words[:count]]  # the command line counts more
    options = parsed(every)[0]
    kept = _place(options)
    name = options.get("job-name") or options.get("J") or Path(script).name or "wrap"
    name = plain(" ".join(name.split()))
    age = time.time() - kept.stat().st_mtime if kept.is_file() else float("inf")
    if age < 60 * float(os.environ.get("JOBWISE_MINUTES", "5")):
        return name, kept.read_text() + (
            f"\n(as of {age / 60:.0f} min ago, for a job that asks for the same)" if age > 60 else ""
        )
    answer, whole = _fits([" ".join(x.split("\n")) for x in every])
    if whole:
        with suppress(OSError):
            kept.parent.mkdir(parents=True, exist_ok=True)
            for old in kept.parent.iterdir():
                if time.time() - old.stat().st_mtime > DAY_S:
                    old.unlink()
            own = kept.with_suffix(f".{os.getpid()}")
            own.write_text(answer)
            os.replace(own, kept)
    return name, answer


def _place(options: dict[str, str]) -> Path:
    """The file of the answer to jobs that ask for the same of the same Slurm."""
    more = os.environ.get("JOBWISE_FITS", "")
    about = {k: v for k, v in os.environ.items() if k.startswith(("SBATCH_", "SLURM_C"))}
    asks = {k: v for k, v in options.items() if k not in ALIKE}
    key = json.dumps([asks, about, more, os.getcwd() if more else ""], sort_keys=True)
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "jobwise" / "asks" / hashlib.sha256(key.encode()).hexdigest()[:32]


def _fits(words: list[str]) -> tuple[str, bool]:
    """(what `jobwise slurm fits` says of the options of a job, whether it knew)."""
    limit = float(os.environ.get("JOBWISE_SECONDS", "5"))
    with tempfile.NamedTemporaryFile("w", suffix=".sh") as batch:
        batch.write(f"#!/bin/sh\n#SBATCH {shlex.join(words)}\n")
        batch.flush()
        command = [sys.executable, "-m", "jobwise.cli", "slurm", "fits", "--batch", batch.name]
        command += shlex.split(os.environ.get("JOBWISE_FITS", ""))
        try:
            done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=limit, check=False)
        except subprocess.TimeoutExpired:
            return f"jobwise: no answer within {limit:g} s", False
        said = (done.stdout + done.stderr).strip().replace(batch.name, "the job")
    return said, done.returncode == 0


if __name__ == "__main__":
    main()

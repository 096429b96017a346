"""Machine code that comes with a wheel: nothing is compiled, the schedule is the same, and other sources do not use it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import jobwise

PACKAGE = Path(jobwise.__file__).parent
OWN = ("JOBWISE_ANNOUNCE", "NUMBA_CACHE_DIR", "JOBWISE_COMPILER")
COMMAND = ["simulate", "log.swf", "-p", "sjf+easy", "--out"]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A copy of the package as a wheel installs it, a log, and what a compiler here makes of it."""
    place = tmp_path_factory.mktemp("wheel")
    for name in ("jobwise", "jobwise_experiments"):
        shutil.copytree(PACKAGE.parent / name, place / "site" / name, ignore=shutil.ignore_patterns("__pycache__"))
    own = {
        "JOBWISE_SHIP": str(place / "site" / "jobwise" / "compiled" / "code"),
        "NUMBA_CPU_NAME": "generic",
        "NUMBA_CPU_FEATURES": "",
    }
    ran(place, "trace", "generate", "log.swf", "--jobs", "300", "--procs", "64", "--load", "0.9")
    assert "compiling" in ran(place, *COMMAND, "compiled.csv", cache="made", **own)
    return place


def ran(place, *command, cache="other", **more):
    """What a command says on standard error, with a cache of its own."""
    environment = {k: v for k, v in os.environ.items() if k not in OWN}
    environment |= {"PYTHONPATH": str(place / "site"), "XDG_CACHE_HOME": str(place / cache)} | more
    done = subprocess.run(
        [sys.executable, "-m", "jobwise.cli", *command], cwd=place, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stderr


@pytest.mark.cli
def test_what_was_shipped_is_used_and_does_the_same(place):
    assert "compiling" not in ran(place, *COMMAND, "shipped.csv", cache="empty")
    assert (place / "shipped.csv").read_bytes() == (place / "compiled.csv").read_bytes()
    files = [f for f in (place / "empty").rglob("*") if f.is_file()]
    assert not files  # nothing was compiled here


@pytest.mark.cli
def test_version_and_doctor_say_it(place):
    environment = os.environ | {"PYTHONPATH": str(place / "site"), "XDG_CACHE_HOME": str(place / "empty")}
    for command, words in (["--version"], "with machine code for py3"), (["doctor"], "came with the package"):
        done = subprocess.run(
            [sys.executable, "-m", "jobwise.cli", *command],
            cwd=place,
            env=environment | {"COLUMNS": "300"},
            capture_output=True,
            text=True,
        )
        assert words in done.stdout, done.stdout + done.stderr


@pytest.mark.slow
def test_other_sources_and_damaged_code_are_compiled(place):
    code = next((place / "site" / "jobwise" / "compiled" / "code").iterdir())
    for file in code.iterdir():
        file.write_bytes(file.read_bytes()[:-9])
    assert "compiling" in ran(place, *COMMAND, "damaged.csv", cache="damaged")
    source = place / "site" / "jobwise" / "jobs.py"
    source.write_text(source.read_text() + "\n")
    assert "compiling" in ran(place, *COMMAND, "edited.csv", cache="edited")
    assert (place / "edited.csv").read_bytes() == (place / "damaged.csv").read_bytes() == (place / "compiled.csv").read_bytes()

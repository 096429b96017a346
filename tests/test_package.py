"""The wheel and the source archive: small, whole, and of use in an empty environment, with each extra alone. Slow: each extra is
installed anew.
"""

import json
import os
import subprocess
import sys
import tarfile
import zipfile
from importlib import metadata

import pytest
from conftest import ROOT

from benchmarks.peers.__main__ import Absent, interpreter
from jobwise import __version__
from jobwise.workloads import wfformat
from jobwise.workloads.workflows import workflow

TORCH = "torch==2.13.0"
MOST = 3e6  # bytes of the wheel
EXTRAS = {  # a command of each that needs it
    "": "simulate LOG --policy sjf+easy",
    "export": "compare LOG -p fcfs+easy -p sjf+easy --report out.html",
    "forecast": "trace forecast LOG",
    "learn": "train perjob LOG --out runs/mine --preset smoke",
    "workflows": "workflow draw flow.json --out flow.svg",
    "web": "policies",
    "ray": "compare LOG -p fcfs+easy -p sjf+easy --executor ray --threads 1",
}
CLEAN = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "JOBWISE_ANNOUNCE", "NUMBA_CACHE_DIR")}
pytestmark = pytest.mark.slow


def ran(*command, env=CLEAN, **more):
    """What a command prints; nothing but what is installed where it runs can be imported."""
    done = subprocess.run([str(x) for x in command], capture_output=True, text=True, env=env, **more)
    assert done.returncode == 0, (command, done.stdout[-2000:], done.stderr[-2000:])
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The folder with the wheel and the source archive, made from a copy without what is not in git."""
    folder = tmp_path_factory.mktemp("built")
    source = folder / "source"
    ran("git", "clone", "--quiet", "--shared", ROOT, source)
    ran(sys.executable, "-m", "build", "--outdir", folder / "dist", source)
    ran(sys.executable, source / "tools" / "platform_wheel.py", next((folder / "dist").glob("*-none-any.whl")))
    return folder / "dist"


def test_the_archives_hold_the_package_and_are_small(built):
    wheel, archive = next(built.glob("*-none-any.whl")), next(built.glob("*.tar.gz"))
    assert {w.stat().st_size <= MOST for w in built.glob("*.whl")} == {True}, [w.stat() for w in built.glob("*.whl")]
    names = zipfile.ZipFile(wheel).namelist()
    assert {"jobwise/py.typed", "jobwise/report/page.html", "jobwise/pretrained/general.safetensors"} <= {*names}
    modules = {p.relative_to(ROOT).as_posix() for p in (ROOT / "jobwise").rglob("*.py")}
    assert modules <= {*names} and not any(n.startswith(("tests/", "benchmarks/")) for n in names)
    with tarfile.open(archive) as held:
        assert f"jobwise-{__version__}/jobwise/sim/kernel.py" in held.getnames()


def python_of(version):
    """This Python, or another one that is at hand."""
    try:
        return sys.executable if version == "this" else interpreter([version])
    except Absent:
        pytest.skip(f"there is no Python {version} here")


@pytest.mark.parametrize(
    ("extra", "version"),
    [*((extra, "this") for extra in EXTRAS), ("", "3.12"), ("", "3.13")],
    ids=lambda x: x or "base",
)
def test_an_empty_environment_runs_what_an_extra_is_for(extra, version, built, tmp_path):
    wheel, place = next(built.glob("*-none-any.whl")), tmp_path / "here"
    place.mkdir()
    ran(python_of(version), "-m", "venv", tmp_path / "env")
    python, jobwise = tmp_path / "env" / "bin" / "python", tmp_path / "env" / "bin" / "jobwise"
    wanted = f"jobwise[{extra}] @ {wheel.as_uri()}" if extra else str(wheel)
    ran(python, "-m", "pip", "install", "--quiet", *([TORCH] if extra == "learn" else []), wanted)
    if extra != "learn":
        assert subprocess.run([str(python), "-c", "import torch"], capture_output=True, env=CLEAN).returncode, (
            "torch came along"
        )
    assert ran(jobwise, "--version", cwd=place) == f"jobwise {__version__} (kernels are compiled at first use)\n"
    assert (tmp_path / "env" / "share" / "man" / "man1" / "jobwise.1").exists()
    found = {f["what"]: f for f in json.loads(ran(jobwise, "doctor", "--json", cwd=place))["findings"]}
    assert found["packages"]["ok"] and (not extra or found[f"extra {extra}"]["ok"])
    ran(jobwise, "trace", "generate", "LOG", "--jobs", "600", "--procs", "64", cwd=place)
    tasks = [{"name": str(i), "runtime": 2.0 + i} for i in range(4)]
    (place / "flow.json").write_text(wfformat.to_text(workflow("flow", tasks, [[], ["0"], ["0"], ["1", "2"]])))
    ran(jobwise, *EXTRAS[extra].split(), cwd=place)


def test_pip_takes_the_wheel_with_machine_code_and_compiles_nothing(built, tmp_path):
    ran(sys.executable, "-m", "venv", tmp_path / "env")
    python, jobwise = tmp_path / "env" / "bin" / "python", tmp_path / "env" / "bin" / "jobwise"
    numba = metadata.version("numba")  # code is for the numba that it was made with
    ran(python, "-m", "pip", "install", "--quiet", "--find-links", built, f"jobwise=={__version__}", f"numba=={numba}")
    own = CLEAN | {"XDG_CACHE_HOME": str(tmp_path)}
    assert "with machine code" in ran(jobwise, "--version", env=own)
    ran(jobwise, "trace", "generate", tmp_path / "log.swf", "--jobs", "600", "--procs", "64", env=own)
    for policy in ("fcfs+easy", "saf+easy+guard24h", "jobwise"):
        done = subprocess.run(
            [jobwise, "simulate", tmp_path / "log.swf", "-p", policy], capture_output=True, text=True, env=own
        )
        assert done.returncode == 0 and "compiling" not in done.stderr, done.stderr

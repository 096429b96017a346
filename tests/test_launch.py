"""Launch pages: the script for a Slurm allocation on a real Slurm, the manifest as far as it can be read here."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import ROOT, real_slurm

import jobwise as jw
from jobwise.workloads.swf import write_swf

SCRIPT = ROOT / "docs" / "launch" / "ray.sbatch"
pytestmark = pytest.mark.xdist_group("parallel")


@pytest.fixture(scope="module")
def slurm():
    """The variables of a real Slurm of two nodes."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}:/usr/sbin"
    with real_slurm(2, 2) as folder:
        yield os.environ | {"SLURM_CONF": str(folder / "slurm.conf"), "PATH": path}


def ended(variables, job, seconds):
    """The state and exit code of a job, once it has ended."""
    begun = time.monotonic()
    while time.monotonic() - begun < seconds:
        said = subprocess.run(
            ["scontrol", "show", "job", job, "-o"], capture_output=True, text=True, env=variables, check=False
        )
        fields = dict(x.split("=", 1) for x in said.stdout.split() if "=" in x)
        if fields.get("JobState") not in ("PENDING", "RUNNING", "CONFIGURING", "COMPLETING", None):
            return fields["JobState"], fields["ExitCode"]
        time.sleep(1)
    raise AssertionError(f"job {job} has not ended: {said.stdout[-500:]}")


def submitted(variables, folder, *command):
    """The number of a job of the script."""
    return subprocess.run(
        ["sbatch", "--parsable", f"--chdir={folder}", "--output=out.txt", "--error=err.txt", str(SCRIPT), *command],
        capture_output=True,
        text=True,
        env=variables,
        check=True,
    ).stdout.strip()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="starts Slurm and Ray")
def test_an_allocation_has_a_cluster_of_its_own(slurm, tmp_path):
    pytest.importorskip("ray")
    write_swf(jw.lublin(400, 64, seed=1, load=0.9), str(tmp_path / "log.swf"))
    command = ["compare", "log.swf", "-p", "fcfs+easy", "-p", "sjf+easy", "--json"]
    job = submitted(slurm, tmp_path, "jobwise", *command)
    state = ended(slurm, job, 240)
    assert state == ("COMPLETED", "0:0"), (state, (tmp_path / "err.txt").read_text()[-2000:])
    here = subprocess.run(
        [sys.executable, "-m", "jobwise.cli", *command], capture_output=True, text=True, cwd=tmp_path, check=True
    )
    assert json.loads((tmp_path / "out.txt").read_text()) == json.loads(here.stdout)
    wrong = submitted(slurm, tmp_path, "jobwise", "compare", "nowhere.swf")
    assert ended(slurm, wrong, 240) == ("FAILED", "2:0")
    assert (tmp_path / "err.txt").read_text().count("nowhere.swf") >= 1
    left = subprocess.run(["pgrep", "-f", f"ray.*{slurm['SLURM_CONF']}"], capture_output=True, text=True, check=False)
    assert not left.stdout


@pytest.mark.cli
def test_the_script_says_how_it_is_used():
    done = subprocess.run(["bash", str(SCRIPT)], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "usage: sbatch ray.sbatch COMMAND OF JOBWISE" in done.stderr


def test_the_manifest_names_this_version():
    text = (ROOT / "docs" / "launch" / "raycluster.yaml").read_text()
    assert text.count(f"jobwise:{jw.__version__}") == 2 and "mode: token" in text

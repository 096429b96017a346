"""Scripts in Lua for a real Slurm: a cap on power, kept by licences; sbatch that says when a job would start."""

import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from conftest import ROOT, real_slurm, write_site

from jobwise.power.prices import Stepwise
from jobwise.power.setting import powered
from jobwise.power.table import PowerTable
from jobwise.slurm.judge.power_lines import cap_lines
from jobwise.workloads.sites import generated

pytestmark = [pytest.mark.slurm, pytest.mark.xdist_group("sites")]
SCRIPTS = ROOT / "integrations" / "slurm"
CORE = 10.0  # W


def until(asks, seconds=20.0):
    """Ask again until the answer is true; return it."""
    end = time.monotonic() + seconds
    while not (answer := asks()) and time.monotonic() < end:
        time.sleep(0.2)
    return answer


def test_a_cap_is_kept_by_a_real_slurm():
    """Four cores, a cap of two in use, of one in this half hour: two jobs run, then one, by the lines that are printed."""
    w = generated(jobs=50, nodes=10, cpus=8, load=0.9, seed=5)
    begin = np.floor(time.time() / 60) * 60
    cap = Stepwise(begin + np.array([-3600.0, 0.0, 1800.0]), 10 * 50 + CORE * np.array([2.0, 1.0, 2.0]))
    lines = cap_lines(powered(replace(w, origin=begin - 3600), PowerTable(idle=50, core=CORE), cap=cap))
    numbers = lines[1].partition(": ")[2]
    script = re.sub(r"local CORE, GPU, NODE = [\d, ]+", numbers + " ", (SCRIPTS / "job_submit.lua").read_text())
    conf = ["JobSubmitPlugins=lua", lines[0].partition(": ")[2]]
    with real_slurm(2, 2, conf, {"job_submit.lua": script}) as folder:
        env = os.environ | {"SLURM_CONF": str(folder / "slurm.conf")}

        def slurm(*words, env=env):
            return subprocess.run(words, capture_output=True, text=True, timeout=30, check=True, env=env).stdout

        def queue():
            return sorted(x.split() for x in slurm("squeue", "-h", "-t", "R,PD", "-o", "%T %r %W").splitlines())

        job = ["sbatch", "-n", "1", "-t", "9", "-o", "/dev/null", "--wrap", "sleep 300"]
        for _ in range(3):
            slurm(*job)
        two = [["PENDING", "Licenses", "watts:10"], *[["RUNNING", "None", "watts:10"]] * 2]
        assert until(lambda two=two: queue() == two), queue()
        slurm("scancel", "-u", str(os.geteuid()))
        assert until(lambda: not queue())
        zone, *words = shlex.split(next(x for x in lines if "reservation" in x))
        slurm(*words, env=env | dict([zone.split("=")]))
        for _ in range(2):
            slurm(*job)
        one = [["PENDING", "Licenses", "watts:10"], ["RUNNING", "None", "watts:10"]]
        assert until(lambda one=one: queue() == one), queue()


def test_a_hierarchical_resource_keeps_the_cap_from_25_11_on():
    """Four cores, a cap of two in use: a job on two nodes runs, the next waits, by the line that is printed."""
    program = shutil.which("slurmctld", path=f"{os.environ['PATH']}:/usr/sbin")
    said = subprocess.run([program, "-V"], capture_output=True, text=True, check=True).stdout if program else "none 0.0"
    if tuple(map(int, said.split()[-1].split(".")[:2])) < (25, 11):
        pytest.skip("a Slurm of 25.11 or later is not the one on PATH")
    w = generated(jobs=50, nodes=10, cpus=8, load=0.9, seed=5, version=251100)
    cap = Stepwise(np.array([-np.inf]), np.array([10 * 50 + 2 * CORE]))
    lines = cap_lines(powered(w, PowerTable(idle=50, core=CORE), cap=cap))
    resource = lines[-1].partition(": ")[2]
    resource = re.sub(r'nodes: \["[^"]*"\]', 'nodes: ["node[01-02]"]', resource)  # of this small Slurm
    script = re.sub(
        r"local CORE, GPU, NODE = [\d, ]+", lines[1].partition(": ")[2] + " ", (SCRIPTS / "job_submit.lua").read_text()
    )
    with real_slurm(2, 2, ["JobSubmitPlugins=lua"], {"job_submit.lua": script, "resources.yaml": resource + "\n"}) as folder:
        env = os.environ | {"SLURM_CONF": str(folder / "slurm.conf")}

        def slurm(*words):
            return subprocess.run(words, capture_output=True, text=True, timeout=30, check=True, env=env).stdout

        def states():
            return slurm("squeue", "-h", "-S", "i", "-o", "%T").split()

        slurm("sbatch", "-N", "2", "-n", "2", "-t", "9", "-o", "/dev/null", "--wrap", "sleep 300")
        assert until(lambda: states() == ["RUNNING"]), states()
        slurm("sbatch", "-n", "1", "-t", "9", "-o", "/dev/null", "--wrap", "sleep 300")
        time.sleep(5)
        assert states() == ["RUNNING", "PENDING"]
        assert "Total=20 Used=20" in slurm("scontrol", "show", "lic")


def test_sbatch_says_when_a_job_would_start(tmp_path):
    """The filter asks jobwise, prints its answer, and submits; without jobwise it submits too."""
    if os.environ.get("SLURM_ROOT"):
        pytest.skip("this Slurm lives in a system of its own, without jobwise")
    site = write_site(tmp_path / "site")
    last = max(int(x.split("|")[10]) for x in (site / "sacct.txt").read_text().splitlines()[1:])
    (site / "squeue.json").write_text('{"jobs": []}')
    (site / "now.txt").write_text(f"{last + 60}\n")
    script = {"cli_filter.lua": (SCRIPTS / "cli_filter.lua").read_text()}
    with real_slurm(2, 2, ["CliFilterPlugins=lua"], script) as folder:
        env = os.environ | {"SLURM_CONF": str(folder / "slurm.conf"), "JOBWISE_FITS": f"--folder {site}"}
        env |= {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
        job = ["sbatch", "-n", "2", "-t", "0:30:00", "-o", "/dev/null", "--wrap", "true"]
        done = subprocess.run(job, capture_output=True, text=True, timeout=60, check=False, env=env)
        assert done.returncode == 0 and done.stdout.startswith("Submitted batch job")
        assert re.match(r"2 CPUs for 30 min in batch: starts ", done.stderr), done.stderr
        more = ["sbatch", "--mem=100M", "--array=1-2", *job[1:]]
        done = subprocess.run(more, capture_output=True, text=True, timeout=60, check=False, env=env)
        assert done.returncode == 0 and done.stderr.rstrip().endswith(" (asked without --mem, --array)"), done.stderr
        bare = env | {"PATH": "/usr/bin:/bin"}
        done = subprocess.run(job, capture_output=True, text=True, timeout=60, check=False, env=bare)
        assert done.returncode == 0 and done.stdout.startswith("Submitted batch job") and done.stderr == ""

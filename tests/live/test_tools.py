"""Workflow tools themselves on a real Slurm, with sbatch-asks in sbatch's place. Slow: the tools are installed for it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import real_slurm
from test_live import cluster  # noqa: F401

TOOLS = ["snakemake==9.27.1", "snakemake-executor-plugin-slurm", "parsl"]
PARSL = """
import sys, parsl
from parsl.config import Config
from parsl.executors import HighThroughputExecutor
from parsl.launchers import SimpleLauncher
from parsl.providers import SlurmProvider

provider = SlurmProvider(
    partition="batch", nodes_per_block=1, cores_per_node=2, walltime="00:30:00", exclusive=False, cmd_timeout=60, launcher=SimpleLauncher(),
    worker_init=f"export PATH={sys.prefix}/bin:$PATH", init_blocks=1, max_blocks=1,
)
executor = HighThroughputExecutor(address="127.0.0.1", loopback_address="127.0.0.1", max_workers_per_node=1, provider=provider)


@parsl.python_app
def twice(x):
    return 2 * x


with parsl.load(Config(executors=[executor], run_dir="runs")):
    print("answer", twice(21).result(timeout=120))
"""
SNAKEFILE = """
rule a:
    output: "a.txt"
    threads: 2
    resources: runtime=30, slurm_partition="batch", mem_mb=100
    shell: "echo hi > {output}"
"""
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("sites")]


@pytest.fixture(scope="module")
def tools(tmp_path_factory):
    """The folder of the programs of an environment with the tools."""
    place = tmp_path_factory.mktemp("tools") / "env"
    subprocess.run([sys.executable, "-m", "venv", str(place)], check=True)
    done = subprocess.run([place / "bin" / "pip", "install", "--quiet", *TOOLS], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"the tools cannot be installed: {done.stderr[-200:]}")
    return place / "bin"


@pytest.fixture
def asking(cluster, tools, tmp_path):  # noqa: F811
    """Variables of a real Slurm whose `sbatch` asks first, about the jobs of a recorded cluster; its questions' answers."""
    own = tmp_path / "own"
    own.mkdir()
    answers = tmp_path / "answers"
    # Parsl and Snakemake hide what sbatch says: it is kept beside
    (own / "sbatch").write_text(f'#!/bin/sh\nexec {sys.executable} -m jobwise.cli.asks "$@" 2>>{answers}\n')
    (own / "sbatch").chmod(0o755)
    with real_slurm(2, 4) as folder:
        # Snakemake's executor takes SLURM_CONF out of the job
        (own / "srun").write_text(f'#!/bin/sh\nSLURM_CONF={folder}/slurm.conf exec /usr/bin/srun "$@"\n')
        (own / "srun").chmod(0o755)
        path = f"{own}:{tools}:{Path(sys.executable).parent}:{os.environ['PATH']}"
        asks = {"JOBWISE_FITS": f"--folder {cluster}", "JOBWISE_SECONDS": "60"}
        yield os.environ | {"SLURM_CONF": str(folder / "slurm.conf"), "PATH": path} | asks, answers


def test_parsl_on_a_real_slurm(asking, tools, tmp_path):
    variables, answers = asking
    (tmp_path / "work.py").write_text(PARSL)
    words = [str(tools / "python"), "work.py"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=240, check=False, env=variables, cwd=tmp_path)
    assert "answer 42" in done.stdout, done.stderr[-2000:]
    assert "2 CPUs for 30 min in batch: starts " in answers.read_text()


def test_snakemake_and_its_executor_for_slurm_on_a_real_slurm(asking, tools, tmp_path):
    variables, answers = asking
    (tmp_path / "Snakefile").write_text(SNAKEFILE)
    words = [
        str(tools / "snakemake"),
        "-j1",
        "--executor",
        "slurm",
        "--latency-wait",
        "10",
        "--slurm-init-seconds-before-status-checks",
        "3",
    ]
    words += ["--slurm-status-command", "squeue"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300, check=False, env=variables, cwd=tmp_path)
    assert done.returncode == 0 and (tmp_path / "a.txt").read_text() == "hi\n", done.stderr[-3000:]
    assert "2 CPUs for 30 min in batch: starts " in answers.read_text()

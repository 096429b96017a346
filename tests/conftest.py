"""Fixtures: where the real logs are, and small workloads."""

import multiprocessing.process
import os
import re
import shutil
import socket
import subprocess
import tempfile
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # two workers with two threads each wait for one another:
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # without turning in circles, which the other worker would pay for

import numpy as np  # noqa: E402
import pytest

from jobwise.cli import progress
from jobwise.cluster import pool
from jobwise.workload import workload

progress.Lines.EVERY_S = 3600.0  # on a busy machine lines of progress stand among what commands say; tests of them set it

TESTS = Path(__file__).resolve().parent
ROOT = TESTS.parent
SHARED = ROOT.parent / "shared"

PLAIN = os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0")  # kernels run as plain Python


SLOW_S = 4 * 3600  # the time limit of a slow test
PARTS = ("cli", "docs", "studies", "parallel", "slurm", "slow")  # marks of the tests that `make test` leaves to `make test-all`


def pytest_collection_modifyitems(items):
    """Slow tests have a time limit of their own. As plain Python, kernels warn where they let numbers overflow, which is meant."""
    for item in items:
        if item.get_closest_marker("slow"):
            item.add_marker(pytest.mark.timeout(SLOW_S))
        if PLAIN:
            item.add_marker(pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning"))


@pytest.fixture(autouse=True)
def no_child(request, monkeypatch):
    """A test that starts a process has a part: `make test` is quick."""
    if any(request.node.get_closest_marker(part) for part in PARTS):
        return

    def refused(*words, **settings):
        pytest.fail(f"this test starts a process: mark it with one of {', '.join(PARTS)}")

    monkeypatch.setattr(subprocess.Popen, "__init__", refused)
    monkeypatch.setattr(multiprocessing.process.BaseProcess, "start", refused)


def pytest_runtest_setup():
    """Output has the width that a pipe has, wherever the tests run (xdist sets COLUMNS in its workers)."""
    os.environ.pop("COLUMNS", None)


os.environ["JOBWISE_ANNOUNCE"] = ""  # what commands say on standard error is compared


def missing(what):
    """A test without its data is skipped; where data must be there (JOBWISE_REQUIRE_LOGS, in CI), it fails."""
    if os.environ.get("JOBWISE_REQUIRE_LOGS"):
        pytest.fail(f"{what}, and JOBWISE_REQUIRE_LOGS is set")
    pytest.skip(what)


def in_docs(page, kind, word=""):
    """The first block of code of a kind, with a word in it, of a page of docs/."""
    blocks = re.findall(rf"```{kind}\n(.*?)```", (ROOT / "docs" / page).read_text(), re.S)
    return next(x for x in blocks if word in x)


@pytest.fixture(scope="session")
def log():
    """A function name -> Workload that reads a real log, or skips the test where the logs are not at hand."""
    from jobwise.workloads.swf import read_swf

    def read(name):
        found = sorted((SHARED / "traces" / "swf").glob(f"{name}*.swf.gz"))
        if not found:
            missing(f"no log {name} in {SHARED / 'traces' / 'swf'}")
        return read_swf(found[0])

    return read


@pytest.fixture(scope="session")
def samples():
    folder = SHARED / "samples"
    if not folder.exists():
        missing(f"no samples in {folder}")
    return folder


@contextmanager
def real_slurm(nodes, cpus, lines=(), files=None):
    """The folder of a real Slurm that runs here, with its slurm.conf; skips the test where there is none. `lines`: more of
    slurm.conf; `files`: name -> text, beside it."""
    start, lacks = (
        SHARED / "slurm" / "start-test-cluster",
        pytest.fail if os.environ.get("JOBWISE_REQUIRE_SLURM") else pytest.skip,
    )
    if not start.exists() or shutil.which("slurmctld", path=os.environ["PATH"] + ":/usr/sbin") is None:
        lacks("there is no Slurm here")
    folder = Path(tempfile.mkdtemp(prefix="jobwise-slurm-"))
    folder.chmod(0o755)  # munge wants to be reached by all
    for name, text in (files or {}).items():
        (folder / name).write_text(text)
    more = [word for line in lines for word in ("-x", line)]
    words = [str(start), "-d", str(folder), "-p", str(_free_ports(10 + nodes)), *more, str(nodes), str(cpus)]
    try:
        begun = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
        if begun.returncode:
            lacks(f"Slurm does not start: {begun.stderr[-200:]}")
        yield folder
    finally:
        subprocess.run([str(start.with_name("stop-test-cluster")), str(folder)], capture_output=True, timeout=60, check=False)
        shutil.rmtree(folder, ignore_errors=True)


def _free_ports(count):
    """The first of so many neighbouring ports that nobody has: another run of the tests may have a Slurm, too."""
    for first in np.random.default_rng().permutation(np.arange(20_000, 32_000, 50)).tolist():
        with ExitStack() as taken, suppress(OSError):
            for port in range(first, first + count):
                taken.enter_context(socket.socket()).bind(("", port))
            return first
    pytest.fail("no free ports")


def random_workload(rng, jobs=40, procs=12, overruns=False, edges=None):
    """Small integers, many ties: what breaks schedulers."""
    asked = rng.integers(1, 50, jobs)
    used = rng.integers(1, 70, jobs) if overruns else np.minimum(rng.integers(1, 70, jobs), asked)
    runtime = np.where(rng.random(jobs) < 0.5, asked, used)
    size = np.minimum(rng.integers(1, procs + 1, jobs), rng.integers(1, procs + 1, jobs))
    submit = np.cumsum(rng.integers(0, 9, jobs))
    return workload(submit, size, runtime, asked, cluster=pool(procs), edges=edges, user=rng.integers(0, 4, jobs))


def play(sets, policy, world=None, seed=0):
    """Records of jobsets, in rows, under a trained policy of the world of slots or a rule of it."""
    from jobwise.simulate import simulate_many
    from jobwise.worlds.slots.policy import SlotsRule
    from jobwise.worlds.slots.world import SlotsSettings

    if isinstance(policy, str):
        policy = SlotsRule(policy, SlotsSettings.of(world or {}))
    return simulate_many(sets, policy, tick=1.0, seed=seed)


def asked(w, policy, seed=0):
    """The jobs after a simulation whose every decision was asked for, by views alone."""
    from jobwise.policies.scheduler import begin
    from jobwise.sim.simulation import Simulation

    sim, until = Simulation(w, tick=policy.tick or 1.0, seed=seed), np.inf
    run = begin(policy, sim.view())
    for _ in range(5000):
        if sim.done or not sim.advance(until):
            break
        until = sim.apply(run.decide(sim.view()))
    return sim.state.jobs[0]


def drained(steps):
    """What a generator returns when it is at its end."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value


def write_site(folder, jobs=60):
    """A small site's folder: four nodes, one of them with GPUs, and jobs that ran there first come, first served."""
    import jobwise as jw

    w = jw.lublin(jobs=jobs, procs=16, load=0.9, seed=2, users=4)
    r, t0 = jw.simulate(w, "fcfs"), 1_800_000_000
    folder.mkdir(parents=True, exist_ok=True)
    gres = ("(null)", "(null)", "(null)", "gpu:a100:2(S:0)")
    nodes = [f"NodeName=n{i + 1} CPUTot=4 RealMemory=8000 Gres={g} Weight=1 State=IDLE" for i, g in enumerate(gres)]
    (folder / "scontrol_node.txt").write_text("\n".join(nodes) + "\n")
    (folder / "scontrol_partition.txt").write_text("PartitionName=batch\n   MaxTime=UNLIMITED State=UP\n   Nodes=n[1-4]\n")
    told = "PriorityType = priority/multifactor\nPriorityWeightAge = 1000\nPriorityFlags = \nPriorityMaxAge = 1-00:00:00\n"
    (folder / "scontrol_config.txt").write_text(f"{told}SLURM_VERSION = 22.05.8\n")
    (folder / "sacctmgr_qos.txt").write_text("Name|Priority|MaxWall|GrpTRES|MaxTRESPU|MaxJobsPU|GrpJobs\nnormal|0|||||\n")
    names = "JobIDRaw|JobName|User|Account|Partition|QOS|State|Submit|Eligible|Start|End|ElapsedRaw|TimelimitRaw|NNodes|NCPUS"
    rows = [f"{names}|ReqCPUS|ReqMem|ReqTRES|AllocTRES|NodeList|SubmitLine"]
    for i in range(len(w)):
        n, run = int(w.jobs["request"][i, 0]), int(r.jobs["end"][i] - r.jobs["start"][i])
        submit, start = (t0 + int(r.jobs[k][i]) for k in ("submit", "start"))
        limit, tres = int(w.jobs["walltime"][i] // 60) + 1, f"cpu={n},mem=100M,node=1"
        who = f"{i + 1}|step{i}|u{w.jobs['user'][i]}|all|batch|normal|COMPLETED|{submit}|{submit}|{start}|{start + run}|{run}|{limit}"
        rows.append(f"{who}|1|{n}|{n}|100M|{tres}|{tres}|n1|sbatch -n {n} job.sh")
    (folder / "sacct.txt").write_text("\n".join(rows) + "\n")
    return folder


@pytest.fixture
def few_predictions(monkeypatch):
    """Few predictions of the past calibrate: each takes a tenth of a second."""
    monkeypatch.setattr("jobwise.live.starts.EARLIER", 2)


def programs(place, folder, **scripts):
    """Small programs in place of Slurm's commands, in a folder of their own: they print the files of `folder`; there is no
    sacctmgr and no sshare. `scripts`: what else one of them does."""
    answers = {
        "squeue": f"cat {folder}/squeue.json",
        "sacct": f"cat {folder}/sacct.txt",
        "sacctmgr": "exit 1",
        "sshare": "exit 1",
    }
    answers["scontrol"] = f'case "$2" in config|node|partition) cat {folder}/scontrol_$2.txt;; esac'
    place.mkdir()
    for name in ("sbatch", "sinfo", "scancel", "sprio", *answers):
        (place / name).write_text("\n".join(["#!/bin/sh", scripts.get(name, ""), answers.get(name, "")]) + "\n")
        (place / name).chmod(0o755)
    return f"{place}:/usr/bin:/bin"


@pytest.fixture(scope="session")
def site_folder(tmp_path_factory):
    """The folder of a small site with 300 jobs; nobody writes to it."""
    return write_site(tmp_path_factory.mktemp("small") / "site", jobs=300)


@pytest.fixture(scope="session")
def site(site_folder):
    """The small site, read."""
    from jobwise.slurm.read.site import read

    return read(site_folder)

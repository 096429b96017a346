"""What jobs ask for on sites of other people: types of GPUs, all memory, distinct nodes, dependencies on tasks, parts that start
together. Starts are computed by hand; waits were recorded on a real 22.05 and 26.05 where the test says so.

Modules: sim/site/distinct_nodes.py, sim/site/het_jobs.py, slurm/read/asks.py,
slurm/read/dependencies.py, slurm/read/hardware.py, slurm/read/requests.py.
"""

import numpy as np
import pytest
from small_sites import job, node, partition, write

import jobwise as jw
from jobwise.slurm.read.requests import types_of
from jobwise.slurm.read.site import not_simulated, read


def starts(folder, by=None):
    """Simulated starts, in the order of job numbers, to whole minutes."""
    w = read(folder)
    r = jw.simulate(w, "slurm")
    order = np.argsort(w.columns["job"])
    return [round(float(x) / 60) for x in r.jobs["start"][order]]


@pytest.mark.parametrize(
    ("text", "types"),
    [
        ("gpu:a100:2(S:0-1),gpu:v100:1", {"a100": 2, "v100": 1}),
        ("gpu:nvidia_a100_1g.5gb:7", {"nvidia_a100_1g.5gb": 7}),
        ("gres/gpu:v100=1", {"v100": 1}),
        ("a100", {"a100": 1}),
        ("gpu:2", {}),
        ("2", {}),
    ],
)
def test_types_of_gpus(text, types):
    assert types_of(text) == types


def test_a_job_waits_for_gpus_of_its_type(tmp_path):
    """Two jobs want the one A100, by line or by TRES; the V100 beside it stays idle."""
    nodes = [node("c1", Gres="gpu:a100:1"), node("c2", Gres="gpu:v100:1")]
    jobs = [
        job(1, 0, 0, 600, node="c1", gpus="gres/gpu=1", line="sbatch -n 1 --gres=gpu:a100:1 run.sh"),
        job(2, 0, 600, 600, node="c1", gpus="gres/gpu=1,gres/gpu:a100=1", line=""),
        job(3, 0, 0, 600, node="c2", gpus="gres/gpu=1", line="sbatch -n 1 --gpus=v100:1 run.sh"),
    ]
    folder = write(tmp_path / "s", jobs, nodes, [partition(nodes="c1,c2")], GresTypes="gpu")
    assert starts(folder) == [0, 10, 0]


def test_no_memory_is_all_memory(tmp_path):
    """--mem=0: as recorded on 22.05, two such jobs run one after the other, and a job with 1,000 MiB after them."""
    jobs = [
        job(k, 0, 0, 600, line=f"sbatch -n 1 --mem={m} run.sh", mem="1000M") for k, m in ((1, 0), (2, 0), (3, 1000), (4, 1000))
    ]
    assert starts(write(tmp_path / "s", jobs)) == [0, 10, 20, 20]


def test_cpus_and_memory_that_the_system_keeps(tmp_path):
    nodes = [node("c1", 4, 16000, CPUEfctv=2, MemSpecLimit=1000), node("c2", 4, 16000, CoreSpecCount=1)]
    w = read(write(tmp_path / "s", [job(1, 0, 0, 600)], nodes, [partition(nodes="c[1-2]")]))
    assert w.cluster.capacity.tolist() == [[2, 15000, 0], [3, 16000, 0]]


@pytest.mark.parametrize("key", [{"OverSubscribe": "EXCLUSIVE"}, {"OverSubscribe": "NO", "Exclusive": "NODE"}])  # 24.11, 26.05
def test_partitions_of_whole_nodes(tmp_path, key):
    jobs = [job(k, 0, 0, 600) for k in (1, 2)]
    assert starts(write(tmp_path / "s", jobs, partitions=[partition(**key)])) == [0, 10]


def test_linear_selection_gives_whole_nodes(tmp_path):
    assert starts(write(tmp_path / "s", [job(k, 0, 0, 600) for k in (1, 2)], SelectType="select/linear")) == [0, 10]


@pytest.mark.parametrize(("parameters", "second"), [("CR_CPU", 0), ("CR_Core", 0), ("CR_Socket", 10)])
def test_cpus_cores_sockets(tmp_path, parameters, second):
    """A node of 2 sockets, 2 cores each, 2 threads a core: four jobs of one CPU have four threads, cores, or sockets (of 2)."""
    nodes = [node("c1", 8, Sockets=2, CoresPerSocket=2, ThreadsPerCore=2)]
    jobs = [job(k, 0, 0, 600, line="", mem="10M") | {"AllocTRES": "", "NCPUS": ""} for k in (1, 2, 3, 4)]
    for j in jobs:
        j["NCPUS"] = {"CR_CPU": 1, "CR_Core": 2, "CR_Socket": 4}[parameters]
        j["AllocTRES"] = f"cpu={j['NCPUS']},mem=10M,node=1"
    assert starts(write(tmp_path / "s", jobs, nodes, SelectTypeParameters=parameters)) == [0, 0, second, second]


@pytest.mark.parametrize("limit", [{"MaxTRESPU": "node=1"}, {"GrpTRES": "node=1"}])
def test_a_limit_on_nodes_counts_each_node_once(tmp_path, limit):
    """As recorded on 22.05 and 26.05: four jobs of one CPU on one node of four are one node; the fifth would need another."""
    nodes = [node(n) for n in ("c1", "c2")]
    jobs = [job(k, 0, 0, 600, QOS="one", mem="10M") for k in range(1, 7)]
    folder = write(tmp_path / "s", jobs, nodes, [partition(nodes="c[1-2]")], [{"Name": "one", "Priority": 0} | limit])
    assert starts(folder) == [0, 0, 0, 0, 10, 10]


def test_a_limit_on_nodes_of_an_account_counts_each_node_once(tmp_path):
    assoc = [
        {"Cluster": "demo", "Account": "root", "User": "", "Share": 1, "ParentName": "", "GrpTRES": ""},
        {"Cluster": "demo", "Account": "lab", "User": "", "Share": 1, "ParentName": "root", "GrpTRES": "node=1"},
        {"Cluster": "demo", "Account": "lab", "User": "ann", "Share": 1, "ParentName": "", "GrpTRES": ""},
    ]
    nodes = [node(n) for n in ("c1", "c2")]
    jobs = [job(k, 0, 0, 600, mem="10M") for k in range(1, 7)]
    assert starts(write(tmp_path / "s", jobs, nodes, [partition(nodes="c[1-2]")], assoc=assoc)) == [0, 0, 0, 0, 10, 10]


def test_dependencies_on_tasks_and_names(tmp_path):
    """Tasks of array 10 run 5, 10, 15 minutes (recorded alike on 22.05): each task of 20 follows its own, job 30 follows the second,
    and jobs of one name with `singleton` follow each other."""
    jobs = [
        job(n, 0, 0, 300 * k, JobID=f"10_{k}", mem="10M", line="sbatch --array=1-3 -n 1 --mem=10M run.sh")
        for k, n in ((1, 11), (2, 12), (3, 10))
    ]
    jobs += [
        job(n, 0, 0, 60, JobID=f"20_{k}", mem="10M", line="sbatch --array=1-3 -d aftercorr:10 -n 1 --mem=10M run.sh")
        for k, n in ((1, 21), (2, 22), (3, 20))
    ]
    jobs += [job(30, 0, 0, 60, mem="10M", line="sbatch -n 1 --mem=10M -d afterok:10_2 run.sh")]
    jobs += [job(40 + k, 0, 0, 240, mem="10M", JobName="one", line="sbatch -n 1 --mem=10M -d singleton r.sh") for k in range(3)]
    folder = write(tmp_path / "s", jobs, [node("c1", 64)])
    found = dict(zip((10, 11, 12, 20, 21, 22, 30, 40, 41, 42), starts(folder), strict=True))
    assert found == {10: 0, 11: 0, 12: 0, 21: 5, 22: 10, 20: 15, 30: 10, 40: 0, 41: 4, 42: 8}


def test_dependencies_that_are_not_simulated_are_named(tmp_path):
    lines = ["run.sh", "-d after:1 run.sh", "-d after:1+5 run.sh", "-d afterok:1?afterok:2 run.sh"]
    jobs = [job(k + 1, 0, 0, 60, line=f"sbatch -n 1 {x}") for k, x in enumerate(lines)]
    text = "\n".join(read(write(tmp_path / "s", jobs)).cluster.site.guesses)
    assert "--dependency=after (the begin of a job) of 2 jobs" in text and "? (any one suffices) of 1 jobs" in text


def test_a_shortest_time_is_named(tmp_path):
    jobs = [job(1, 0, 0, 60, line="sbatch --time-min=10 -n 1 run.sh"), job(2, 0, 0, 60, line="sbatch --time=10 -n 1 run.sh")]
    assert not_simulated(read(write(tmp_path / "s", jobs))) == ["--time-min of 1 jobs"]


def test_parts_of_a_heterogeneous_job_start_together(tmp_path):
    """Part 1 needs all of c2, which job 1 has for 10 minutes; part 0 could start at once on c1, and waits for it."""
    nodes = [node("c1"), node("c2", Features="big", AvailableFeatures="big")]
    line = "sbatch -n 1 --mem=10M : -n 4 -C big run.sh"
    jobs = [
        job(1, 0, 0, 600, 4, limit=10, node="c2", line="sbatch -n 4 -C big run.sh", mem="10M"),
        job(2, 10, 600, 300, JobID="2+0", line=line, mem="10M"),
        job(3, 10, 600, 300, 4, JobID="2+1", node="c2", line=line, mem="10M", Constraints="big"),
    ]
    folder = write(tmp_path / "s", jobs, nodes, [partition(nodes="c[1-2]")])
    r = jw.simulate(read(folder), "slurm")
    one, other = sorted(r.jobs["start"])[1:]
    assert one == other and 600 <= one <= 632  # a backfill cycle starts them, every 30 s


def test_nodes_that_a_line_names(tmp_path):
    """Two named nodes are both of the job, though one would hold it; of fewer than are asked for, or gone, there is a word."""
    nodes = [node(n) for n in ("c1", "c2", "c3")]
    jobs = [
        job(1, 0, 0, 600, 4, nodes=2, node="c[1-2]", line="sbatch -n 4 --mem=10M -w c1,c2 run.sh", mem="10M"),
        job(2, 0, 600, 60, 4, node="c1", line="sbatch -n 4 --mem=10M -w c1 run.sh", mem="10M"),
        job(3, 0, 0, 60, 1, node="c3", line="sbatch -n 1 --mem=10M -w gone run.sh", mem="10M"),
        job(4, 0, 700, 60, 8, nodes=2, node="c[1-2]", line="sbatch -N 2 -n 8 --mem=10M -w c1 run.sh", mem="10M"),
    ]
    folder = write(tmp_path / "s", jobs, nodes, [partition(nodes="c[1-3]")])
    assert starts(folder)[:2] == [0, 10]
    text = "\n".join(read(folder).cluster.site.guesses)
    assert "1 jobs whose --nodelist names nodes that scontrol_node does not have" in text
    assert "--nodelist of fewer nodes than asked for, of 1 jobs" in text


def test_cpus_that_jobs_share(tmp_path):
    """OverSubscribe=FORCE:2: two jobs of four CPUs on a node of four at once, their memory is not shared; a job on two nodes stays
    on two."""
    force = [partition(nodes="c[1-2]", OverSubscribe="FORCE:2")]
    jobs = [job(k, 0, 0, 600, 4, mem="10M", line="") for k in range(1, 6)] + [job(6, 0, 0, 600, 8, nodes=2, mem="10M", line="")]
    folder = write(tmp_path / "s", jobs, [node("c1"), node("c2")], force)
    assert starts(folder) == [0, 0, 0, 0, 10, 10]
    assert any("FORCE:2 of main: each CPU of its nodes counts 2 times" in x for x in read(folder).cluster.site.guesses)
    jobs = [job(k, 0, 0, 600, 1, mem="16000M") for k in (1, 2)]
    assert starts(write(tmp_path / "t", jobs, partitions=[partition(OverSubscribe="FORCE:2")])) == [0, 10]

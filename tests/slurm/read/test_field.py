"""Sites as they are: rows that are odd, partitions that are gone, whole cores, whole nodes, nodes by name; what is not
simulated is named.

Modules: slurm/read/unsimulated.py.
"""

import numpy as np
import pytest
from conftest import ROOT, SHARED, missing
from small_sites import job, node, partition, write

import jobwise as jw
from jobwise.errors import InputError
from jobwise.slurm.read import unsimulated
from jobwise.slurm.read.asks import in_cores
from jobwise.slurm.read.site import _with_nodes, not_simulated, read

CASES = SHARED / "cases"


def case(name):
    if not CASES.is_dir():
        missing(f"no {CASES}")
    return read(CASES / name)


@pytest.mark.parametrize(
    ("name", "jobs"),
    [
        ("01-pipe-in-job-name/site", 6),
        ("02-multiline-submitline/site", 6),
        ("08-empty-partition/site", 6),
        ("15-latin1-name/site", 6),
    ],
)
def test_no_odd_row_or_record_is_fatal(name, jobs):
    w = case(name)
    assert len(w) == jobs and not w.dropped


@pytest.mark.parametrize(
    ("name", "wait"),  # computed by hand: cases/README.md
    [
        ("03-hyperthreads/site", 298),
        ("03-hyperthreads/site-no-submitline", 298),
        ("10-exclusive-partition/site", 449),
        ("12-partition-qos/site", 298),
        ("07-json-arrays/text", 75),
        ("07-json-arrays/json", 75),
        ("39-nodelist-exclude/site", 432),
    ],
)
def test_what_a_job_got_is_what_it_holds(name, wait):
    """Whole cores, whole nodes of an exclusive partition, the nodes that a line names: recorded and simulated waits agree."""
    w = case(name)
    r = jw.simulate(w, "slurm")
    assert w.columns["wait"].mean() == pytest.approx(wait, abs=1)
    assert (r.jobs["start"] - r.jobs["submit"]).mean() == pytest.approx(wait, abs=3)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("09-nested-accounts/as-printed", "no column ParentName"),
        ("08-empty-partition/site", "partition cloud has no nodes"),
        ("03-hyperthreads/site", "cores of 2 CPUs"),
    ],
)
def test_what_is_guessed_or_not_simulated_is_named(name, said):
    assert any(said in x for x in case(name).cluster.site.guesses)


def test_whole_cores():
    assert in_cores(1, 1, 2, 2) == [1, 2]  # one task of one CPU holds a core
    assert in_cores(2, 1, 2, 2) == [2, 1]  # two tasks share one
    assert in_cores(3, 1, 4, 2) == [1, 4]  # three hold two cores
    assert in_cores(1, 1, 0, 2) == [1, 2]  # nothing is known of what it got
    assert in_cores(2, 1, 8, 2) == [2, 4]  # it got more: tasks that share no core, and more of each


def test_partitions_without_nodes_are_left_out_and_nodes_that_are_gone_are_named():
    queues = [
        {"PartitionName": "a", "Nodes": "n[1-3]"},
        {"PartitionName": "b", "Nodes": "(null)"},
        {"PartitionName": "c", "Nodes": "ALL"},
    ]
    kept, said = _with_nodes(queues, ("n1", "n2"))
    assert [(r["PartitionName"], r["Nodes"]) for r in kept] == [("a", "n1,n2"), ("c", "n1,n2")]
    assert said == [
        "partition a: 1 of its nodes are not in scontrol_node (e.g. n3): without them",
        "partition b has no nodes: it is left out, and its jobs",
    ]
    with pytest.raises(ValueError, match="no partition has nodes"):
        _with_nodes(queues[1:2], ("n1",))


def test_keys_that_a_site_sets_are_named_with_how_many():
    rows = [{"PartitionName": "a", "LLN": "YES"}, {"PartitionName": "b", "LLN": "YES"}, {"PartitionName": "c", "LLN": "NO"}]
    assert unsimulated.of_records(rows, unsimulated.PARTITIONS, "partitions") == ["LLN=YES of a and 1 more partitions"]
    assert unsimulated.of_records(rows[2:], unsimulated.PARTITIONS, "partitions") == []


def test_jobs_of_a_partition_that_is_gone_are_counted(tmp_path, site_folder):
    import shutil

    folder = tmp_path / "site"
    shutil.copytree(site_folder, folder)
    text = (folder / "sacct.txt").read_text().split("\n")
    at = text[0].split("|").index("Partition")
    rows = [x.split("|") for x in text[1:] if x]
    for row in rows[:7]:
        row[at] = "retired"
    (folder / "sacct.txt").write_text("\n".join([text[0], *("|".join(r) for r in rows)]) + "\n")
    w = read(folder)
    assert w.dropped["of partitions that the site does not have (retired)"] == 7
    for row in rows:
        row[at] = "retired"
    (folder / "sacct.txt").write_text("\n".join([text[0], *("|".join(r) for r in rows)]) + "\n")
    with pytest.raises(InputError, match="partition 'retired', which the site does not have"):
        read(folder)
    assert np.all(w.jobs["submit"] >= 0)


KEYS = [
    x.partition(": ")[::2] for x in (ROOT / "tests/data/slurm_keys.txt").read_text().splitlines()
]  # version and output, its keys
TABLES = {
    "config": unsimulated.CONFIG,
    "partition": unsimulated.PARTITIONS,
    "node": unsimulated.NODES,
    "qos": unsimulated.QOS,
    "assoc": unsimulated.ASSOCIATIONS,
}


@pytest.mark.parametrize(("output", "keys"), KEYS, ids=[x for x, _ in KEYS])
def test_every_key_that_slurm_prints_is_in_a_table(output, keys):
    """22.05, 24.11 and 26.05, as `scontrol show` and `sacctmgr show` print them."""
    own = TABLES[output.split()[1]]
    assert [k for k in keys.split() if k.lower() not in own.known and k.lower() not in own.only] == []


@pytest.mark.parametrize("output", ["config", "partition", "node"])
def test_every_key_of_a_site_that_sets_all_is_read_harmless_or_named(output, tmp_path):
    """A folder that sets every key of 26.05, and one that no table has, to something unusual: the rest is named, with jobs."""
    keys, own = dict(KEYS)[f"26.05 {output}"].split(), TABLES[output]
    odd = {k: "unusual" for k in keys if k.lower() not in own.known} | {"BrandNewKey": "unusual"}
    if output == "config":
        w = read(write(tmp_path / "s", [job(1, 0, 0, 60)], **odd))
    elif output == "node":
        w = read(write(tmp_path / "s", [job(1, 0, 0, 60)], [node("c1", **odd)]))
    else:
        w = read(write(tmp_path / "s", [job(1, 0, 0, 60)], partitions=[partition(**odd)]))
    named = "\n".join(not_simulated(w)).lower()
    assert [k for k in odd if f"{k.lower()}=unusual" not in named] == []
    assert output == "config" or "(1 jobs)" in named

"""What versions of Slurm do otherwise, on small sites. Starts are computed by hand.

Modules: sim/site/node_choice.py, sim/site/slurm_ends.py, sim/site/slurm_plan.py, slurm/read/conf.py.
"""

import pytest
from small_sites import job, node, partition, write

import jobwise as jw
from jobwise.errors import InputError
from jobwise.slurm.judge.changes import changed
from jobwise.slurm.read.site import read

TWO = {"nodes": [node("c1"), node("c2")], "partitions": [partition(nodes="c[1-2]")]}


def starts(w):
    """Start (s) by job number."""
    return {int(n): float(j["start"]) for n, j in zip(w.columns["job"], jw.simulate(w, "slurm").jobs, strict=True)}


def two_nodes(folder):
    """Job 1 has 3 of 4 CPUs of c2. Job 2 asks for one CPU, job 3 for a whole node."""
    jobs = [
        job(1, 0, 0, 600, 3, node="c2", line="sbatch -n 3 -w c2 --mem=1000M run.sh"),
        job(2, 20, 20, 600),
        job(3, 40, 40, 100, 4, line="sbatch -N 1 -n 4 --mem=1000M run.sh"),
    ]
    return read(write(folder, jobs, **TWO, SLURM_VERSION="22.05.8"))


@pytest.mark.parametrize(("version", "at_once"), [("25.11.5", True), ("26.05.0", False)])
def test_a_job_of_one_node_takes_the_first_from_26_05_on(tmp_path, version, at_once):
    """Before that it takes the node with the fewest CPUs to spare, c2, and job 3 has c1 at once."""
    w = changed(two_nodes(tmp_path / "s"), [f"SLURM_VERSION={version}"])
    assert (starts(w)[3] <= 46) is at_once
    assert starts(w)[3] >= 600 or at_once


@pytest.mark.parametrize(("version", "soon"), [("22.05.8", True), ("24.11.5", True), ("25.05.0", True), ("25.05.1", False)])
def test_a_plan_begins_with_the_last_end_on_its_own_nodes_from_25_05_1_on(tmp_path, version, soon):
    """Job 3 needs all of a node. Job 1 on c1 ends by 610 s, job 2 on c2 by 626 s, in one group of ends. Up to 25.05.0 job 3 is
    planned on c1 from 620 s on, a whole minute, so job 4 of 540 s may go ahead of it on c1; later from 560 s on, so it may not."""
    jobs = [
        job(1, 5, 5, 600, 3, limit=10, node="c1", line="sbatch -n 3 -w c1 --mem=1000M run.sh"),
        job(2, 22, 22, 600, 4, limit=10, node="c2", line="sbatch -n 4 -w c2 --mem=1000M run.sh"),
        job(3, 30, 650, 100, 4, node="c1", line="sbatch -N 1 -n 4 --mem=1000M run.sh"),
        job(4, 40, 60, 100, 1, limit=9, node="c1"),
    ]
    done = starts(read(write(tmp_path / "s", jobs, **TWO, SLURM_VERSION=version)))
    assert 40 <= done[4] <= 75 if soon else done[4] >= 605


def test_an_upgrade_is_a_change_like_any_other(tmp_path):
    w = two_nodes(tmp_path / "s")
    assert starts(changed(w, ["SLURM_VERSION=26.05"]))[3] > starts(w)[3]


@pytest.mark.parametrize(("text", "number"), [("26.05.3", 260503), ("23.11", 231100), ("22.05.8-Bull.1.0", 220508)])
def test_versions_are_read_as_they_are_printed(tmp_path, text, number):
    w = read(write(tmp_path / "s", [job(1, 0, 0, 10)], SLURM_VERSION=text))
    assert w.cluster.known_site.settings["version"][0] == number


@pytest.mark.parametrize(
    ("known", "guess"),
    [
        ({}, "no SLURM_VERSION: the rules of 22.05"),
        ({"SLURM_VERSION": "25.11.2"}, "the rules of Slurm 25.11.2 were not recorded"),
        ({"SLURM_VERSION": "26.05.5"}, None),
    ],
)
def test_a_version_that_is_not_known_or_was_not_recorded_is_a_guess(tmp_path, known, guess):
    w = read(write(tmp_path / "s", [job(1, 0, 0, 10)], **known))
    assert [x for x in w.cluster.known_site.guesses if "rules of" in x] == [guess] * (guess is not None)


def test_what_is_no_version_is_refused(tmp_path):
    with pytest.raises(InputError, match="SLURM_VERSION.*'banana' is no version such as 26.05.3"):
        changed(two_nodes(tmp_path / "s"), ["SLURM_VERSION=banana"])

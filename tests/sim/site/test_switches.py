"""Nodes below switches on small sites: which are chosen, and how long a job waits for few of them. Starts are computed by hand.

Modules: sim/site/switches.py, slurm/read/tree.py.
"""

import numpy as np
import pytest
from small_sites import job, node, partition, write

import jobwise as jw
from jobwise.errors import InputError
from jobwise.sim.site.node_choice import choice_of
from jobwise.sim.site.node_sets import packed
from jobwise.sim.site.switches import levels, switches
from jobwise.slurm.read.site import files, not_simulated, read

TREE = {"TopologyPlugin": "topology/tree"}
TWO = "SwitchName=leaf0 Nodes=c[1-4]\nSwitchName=leaf1 Nodes=c[5-8]\nSwitchName=top Switches=leaf[0-1]\n"
EIGHT = [partition(nodes="c[1-8]")]


def nodes(weights=(1,) * 8):
    return [node(f"c{k + 1}", Weight=w) for k, w in enumerate(weights)]


def wide(number, submit, count, run=100, more="", limit=60):
    line = f"sbatch -N {count} -n {4 * count} --mem=10M {more} run.sh"
    return job(number, submit, submit, run, 4 * count, nodes=count, node=f"c[1-{count}]", mem="10M", line=line, limit=limit)


def on(number, name, run):
    line = f"sbatch -n 4 --nodelist={name} --mem=10M run.sh"
    return job(number, 0, 0, run, 4, node=name, mem="10M", line=line, limit=600)


def starts(folder):
    w = read(folder)
    r = jw.simulate(w, "slurm")
    return dict(zip([int(n) for n in w.columns["job"]], r.jobs["start"].tolist(), strict=True))


def chosen(folder, ask, taken=()):
    """The names of the nodes that the job in row `ask` gets, where those `taken` are not free."""
    w = read(folder)
    site, free = w.cluster.site, w.cluster.capacity.copy()
    free[[site.names.index(n) for n in taken]] = 0
    mine = site.asks[w.jobs["ask"][ask]]
    return [site.names[i] for i in choice_of(free, w.cluster.capacity, site)(mine, packed(np.ones(len(site.names))))]


def test_a_job_is_put_on_one_leaf_where_it_fits(tmp_path):
    """Without switches a job of 4 nodes gets c2 to c5, which lie beside each other; with them the four of the second leaf. One of
    3 nodes fills up the first, which suffices with the fewest nodes; one of 6 begins on the leaf with the most."""
    jobs = [wide(1, 0, 4), wide(2, 0, 3), wide(3, 0, 6)]
    plain, tree = write(tmp_path / "a", jobs, nodes(), EIGHT), write(tmp_path / "b", jobs, nodes(), EIGHT, switches=TWO, **TREE)
    assert chosen(plain, 0, ["c1"]) == ["c2", "c3", "c4", "c5"]
    assert chosen(tree, 0, ["c1"]) == ["c5", "c6", "c7", "c8"]
    assert chosen(tree, 1, ["c1"]) == ["c2", "c3", "c4"]
    assert chosen(tree, 2, ["c1"]) == ["c5", "c6", "c7", "c8", "c2", "c3"]


@pytest.mark.parametrize(("version", "then"), [("22.05.8", ["c13", "c14", "c1"]), ("24.11.5", ["c1", "c13", "c14"])])
def test_the_next_leaf(tmp_path, version, then):
    """Leaves of 1, 1, 4 and 2 free nodes, two and two below a switch; a job of 7 nodes begins on the third, below the switch with
    the most. For the other three no leaf suffices. Up to 24.05 the nodes already taken count as free above: the fourth is the
    nearest, and its switch seems to suffice. From 24.11 on they do not, and a nearer leaf has to suffice itself."""
    leaves = [f"SwitchName=leaf{k} Nodes=c[{4 * k + 1}-{4 * k + 4}]" for k in range(4)]
    upper = ["SwitchName=left Switches=leaf[0-1]", "SwitchName=right Switches=leaf[2-3]", "SwitchName=top Switches=left,right"]
    many = [node(f"c{k + 1}") for k in range(16)]
    text, all_ = "\n".join(leaves + upper), [partition(nodes="c[1-16]")]
    folder = write(tmp_path / "s", [wide(1, 0, 7)], many, all_, switches=text, SLURM_VERSION=version, **TREE)
    taken = ["c2", "c3", "c4", "c6", "c7", "c8", "c15", "c16"]
    assert chosen(folder, 0, taken) == ["c9", "c10", "c11", "c12", *then]


def test_nodes_of_the_smallest_weight_are_taken_first(tmp_path):
    """Six nodes are needed and five weigh least, on both leaves: all of these, then one more of the leaf with the first."""
    folder = write(tmp_path / "s", [wide(1, 0, 6)], nodes((1, 1, 9, 9, 1, 1, 1, 9)), EIGHT, switches=TWO, **TREE)
    assert chosen(folder, 0) == ["c1", "c2", "c5", "c6", "c7", "c3"]


def test_all_nodes_of_a_job_are_below_one_switch(tmp_path):
    """Without the upper switch a job of 5 nodes has nowhere to go, it is left out and counted; one of 4 has."""
    two = "\n".join(TWO.splitlines()[:2])
    folder = write(tmp_path / "s", [wide(1, 0, 4), wide(2, 0, 5)], nodes(), EIGHT, switches=two, **TREE)
    assert chosen(folder, 0, ["c1"]) == ["c5", "c6", "c7", "c8"]
    w = read(folder)
    assert w.columns["job"].tolist() == [1] and any("1 " in x for x in [w.left_out])


@pytest.mark.parametrize(
    ("more", "run", "parameters", "at"),
    [
        ("", 2000, "", 10),  # on two leaves at once
        ("--switches=1", 200, "", 200),  # c1 is free at 200 s
        ("--switches=1", 2000, "", 310),  # it waits for 5 minutes at most
        ("--switches=1@1:00", 2000, "", 70),  # for one minute, as it says
        ("--switches=1@1:00:00", 2000, "max_switch_wait=30", 40),  # for as long as the site lets it
        ("--switches=2", 2000, "", 10),
    ],
)
def test_a_job_waits_for_few_switches(tmp_path, more, run, parameters, at):
    """Jobs of 1 and 2 hold one node of each leaf for `run` s and longer; a job of 4 nodes comes at 10 s."""
    jobs = [on(1, "c1", run), on(2, "c5", 5000), wide(3, 10, 4, more=more)]
    folder = write(tmp_path / "s", jobs, nodes(), EIGHT, switches=TWO, SchedulerParameters=parameters, **TREE)
    assert at <= starts(folder)[3] <= at + 61  # a main pass over the whole queue comes once a minute


def test_only_those_who_ask_where_switches_are_optional(tmp_path):
    jobs = [wide(1, 0, 4), wide(2, 0, 4, more="--switches=1")]
    folder = write(tmp_path / "s", jobs, nodes(), EIGHT, switches=TWO, TopologyParam="TopoOptional", **TREE)
    assert chosen(folder, 0, ["c1"]) == ["c2", "c3", "c4", "c5"] and chosen(folder, 1, ["c1"]) == ["c5", "c6", "c7", "c8"]


def test_what_scontrol_prints_is_the_same(tmp_path):
    """Lines of `scontrol show topology`, whose upper switches have their nodes."""
    told = "".join(
        f"SwitchName={n} Level={k} LinkSpeed=1 Nodes={x}{more}\n"
        for n, k, x, more in (
            ("leaf0", 0, "c[1-4]", ""),
            ("leaf1", 0, "c[5-8]", ""),
            ("top", 1, "c[1-8]", " Switches=leaf[0-1]"),
        )
    )
    a = read(write(tmp_path / "a", [wide(1, 0, 4)], nodes(), EIGHT, switches=TWO, **TREE)).cluster.site
    b = read(write(tmp_path / "b", [wide(1, 0, 4)], nodes(), EIGHT, switches=told, **TREE)).cluster.site
    assert (a.switches == b.switches).all() and a.switch_parent.tolist() == b.switch_parent.tolist() == [2, 2, 2]
    assert levels(a.switch_parent).tolist() == [0, 0, 1]
    assert switches(a).apart.tolist() == [[0, 2, 1], [2, 0, 1], [1, 1, 0]]


def test_what_is_not_known_or_wrong_is_said(tmp_path):
    jobs = [wide(1, 0, 4)]
    lacking = read(write(tmp_path / "a", jobs, nodes(), EIGHT, **TREE)).cluster.site
    assert "scontrol_topology" in files(tmp_path / "a")[2]
    assert "scontrol_topology" not in files(write(tmp_path / "f", jobs, nodes(), EIGHT))[2]
    assert "no scontrol_topology: nodes are chosen as if there were no switches" in lacking.guesses
    fly = read(write(tmp_path / "b", jobs, nodes(), EIGHT, switches=TWO, TopologyParam="Dragonfly,RouteTree", **TREE))
    assert not_simulated(fly) == ["Dragonfly of TopologyParam"]
    few = read(write(tmp_path / "c", jobs, nodes(), EIGHT, switches=TWO.replace("5-8", "5-7"), **TREE)).cluster.site
    assert "1 nodes are on no switch (e.g. c8): jobs do not get them" in few.guesses
    for text, why in (
        (TWO.replace("leaf[0-1]", "leaf[0-2]"), "leaf2, which is not there"),
        (TWO + "SwitchName=top Switches=leaf0\n", "named twice"),
        ("SwitchName=a Switches=b\nSwitchName=b Switches=a\n", "above itself"),
    ):
        with pytest.raises(InputError, match=why):
            read(write(tmp_path / "d", jobs, nodes(), EIGHT, switches=text, **TREE))
    without = read(write(tmp_path / "e", jobs, nodes(), EIGHT, switches=TWO)).cluster.site
    assert not len(without.switches)

"""The conformance kit over every registered workload; `test_leaks`, `test_encoders` and `test_env` do policies, encoders, worlds.

Modules: testing.py.
"""

import re

import numpy as np
import pytest
from conftest import ROOT, random_workload

import jobwise as jw
from jobwise.testing import check_workload
from jobwise.workload import shake
from jobwise.workloads.dnn import with_networks
from jobwise.workloads.gpu import on_nodes
from jobwise.workloads.transform import scale_load, unseen

MADE = {
    "lublin": lambda: jw.lublin(200, procs=64, seed=1),
    "lublin with users": lambda: jw.lublin(200, procs=64, seed=1, users=5, estimates="users"),
    "deeprm": lambda: jw.deeprm(seed=1),
    "cush": lambda: jw.cush(seed=1),
    "edges": lambda: random_workload(np.random.default_rng(0), 60, 16, edges=[(0, 7), (7, 9), (3, 9)]),
    "rl-taps": lambda: jw.rltaps(60, 1),
    "distances": lambda: jw.distances(30, 0.5, 1),
    "affinities": lambda: jw.affinities(30, 0.5, 1, hidden=True),
    "GPUs of a log": lambda: with_networks(on_nodes(jw.lublin(200, procs=64, seed=1), 8), jw.gpu_racks([4, 4], work="lab")),
    "scaled": lambda: scale_load(jw.lublin(200, procs=64, seed=1), 0.9),
    "a part with a past": lambda: unseen(jw.lublin(200, procs=64, seed=1)),
    "on nodes": lambda: on_nodes(jw.lublin(200, procs=64, seed=1), 8),
    "shaken": lambda: shake(jw.lublin(200, procs=64, seed=1), 60.0, 3),
}


@pytest.mark.parametrize("name", MADE)
def test_workloads(name):
    check_workload(MADE[name]())


def test_a_broken_workload_is_found():
    for column, value in (("submit", -5.0), ("walltime", np.inf), ("start", 3.0), ("ran", 1.0), ("unmet", 2)):
        w = jw.lublin(50, procs=64, seed=1)
        w.jobs[column][7] = value
        with pytest.raises(AssertionError):
            check_workload(w)


def test_every_protocol_of_the_kit_has_its_page():
    docs = ROOT / "docs"
    for kind, page in (
        ("world", "add-a-world"),
        ("encoder", "add-an-encoder"),
        ("workload", "add-a-workload"),
        ("policy", "own-scheduler"),
    ):
        assert re.search(rf"\bcheck_{kind}\(", (docs / f"{page}.md").read_text()), page

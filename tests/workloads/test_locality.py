"""Locality profiles from a file: how much longer a type of jobs runs by how far it is spread; and preemptive LAS on nodes.

Modules: policies/attained.py.
"""

from __future__ import annotations

import gzip
import json

import numpy as np
import pytest
from conftest import SHARED

import jobwise as jw
from jobwise.cluster import Slowdown
from jobwise.errors import InputError
from jobwise.jobs import COMPUTE, DONE, NETWORK
from jobwise.metrics import fragmentation, normalised_turnaround
from jobwise.policies.attained import AttainedService
from jobwise.policies.names import resolve
from jobwise.testing import check_policy
from jobwise.workloads.jobsets import cush
from jobwise.workloads.locality import SHIPPED, Locality, gavel_jobs, measured, read_locality

TRACES = SHARED / "traces"
SPEEDS = TRACES / "gpu" / "gavel_throughputs.json.gz"
PROFILES = "type,spread,slowdown\nfar,0,1\nfar,0.5,1.2\nfar,1,2\nnear,0,1.5\nnear,1,1\n"


@pytest.fixture
def profiles(tmp_path) -> Locality:
    (tmp_path / "mine.csv").write_text(PROFILES)
    return read_locality(tmp_path / "mine.csv")


def test_a_job_runs_as_its_type_was_measured(profiles):
    """Four GPUs on four nodes of four: packed on one, spread over all, or between; linear between the points of the file."""
    assert profiles.names == ("far", "near") and profiles.kinds.tolist() == [NETWORK, COMPUTE]
    machine = jw.nodes(4, cpus=2, gpus=4)
    w = jw.workload(np.arange(2) * 100.0, np.tile([1, 4], (2, 1)), np.full(2, 30.0), cluster=machine)
    w = profiles.given(w, np.array([0, 1]))
    assert w.jobs["kind"].tolist() == [NETWORK, COMPUTE]  # what schedulers are told
    ran = {p: jw.simulate(w, f"fcfs+{p}").jobs for p in ("pack", "spread", "typed")}
    lengths = {p: (x["end"] - x["start"]).tolist() for p, x in ran.items()}
    assert lengths == {"pack": [30.0, 45.0], "spread": [60.0, 30.0], "typed": [30.0, 30.0]}
    busy = jw.workload(np.array([0.0, 1.0]), np.array([[1, 14], [1, 2]]), np.array([90.0, 30.0]), cluster=machine)
    busy = profiles.given(busy, np.array([-1, 0]))  # a job of no type holds 14 of 16 GPUs; two are left on one node
    assert np.diff(jw.simulate(busy, "fcfs+pack").jobs[["start", "end"]].tolist()[1]) == 30.0


def test_points_between_are_linear(profiles):
    machine = jw.nodes(5, cpus=4, gpus=4)
    w = profiles.given(jw.workload(np.zeros(1), np.array([[1, 4]]), np.full(1, 100.0), cluster=machine), np.array([0]))
    sigma = dict(zip(np.round(np.linspace(0, 1, 21), 2).tolist(), profiles.types[0], strict=True))
    assert sigma[0.25] == pytest.approx(1.1) and sigma[0.75] == pytest.approx(1.6)

    class OnThree:
        def reset(self, view): ...
        def ended(self, view, rows): ...
        def decide(self, view):
            return [jw.Start(int(j), ((0, (1, 2)), (1, (0, 1)), (2, (0, 1)))) for j in view.queue]

    end = jw.simulate(w, OnThree()).jobs["end"][0]  # three of up to four nodes: 2/3 of the way
    assert end == pytest.approx(100 * np.interp(2 / 3, np.linspace(0, 1, 21), profiles.types[0]), abs=1e-6)


def test_the_two_kinds_are_as_before():
    table = Slowdown(0.6, 0.3).table
    assert table[COMPUTE].tolist() == [1.3, 1.0] and table[NETWORK].tolist() == [1.0, 1.6]
    with pytest.raises(InputError, match="rows of two or more numbers"):
        Slowdown(types=((1.0, 2.0), (1.0,)))


def test_the_shipped_profiles_and_jobsets_of_them():
    v100 = read_locality("v100")
    assert len(v100.names) == 19 and 0 < (v100.kinds == COMPUTE).sum() < 5 and np.array(v100.types).max() > 5
    w = cush(50, 0.9, 3, locality="v100")
    plain = cush(50, 0.9, 3)
    assert np.array_equal(w.jobs["submit"], plain.jobs["submit"]) and np.array_equal(w.jobs["kind"], plain.jobs["kind"])
    assert (w.truth["kind"] >= 2).all() and len(set(w.truth["kind"].tolist())) > 5
    r = jw.simulate(w, "sjf+spread", tick=1.0)
    assert normalised_turnaround(r).mean() > normalised_turnaround(jw.simulate(w, "sjf+pack", tick=1.0)).mean()


@pytest.mark.skipif(not SPEEDS.is_file(), reason="no folder shared/traces with Gavel's measurements")
def test_the_shipped_profiles_are_those_of_gavels_measurements():
    rows = [f"{t},{s},{x}" for t, s, x in measured(json.loads(gzip.decompress(SPEEDS.read_bytes())))]
    assert SHIPPED["v100"].read_text().splitlines()[1:] == rows
    w = gavel_jobs(TRACES)
    assert len(w) == 861 and (w.truth["kind"] >= 2).mean() > 0.5 and w.dropped == {"no measured speed": 125}


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("type,spread\nx,0\n", r":1: there is no column 'slowdown'"),
        ("type,spread,slowdown\nx,2,1\n", r":2: spread is 2; 0 \(packed\) to 1"),
        ("type,spread,slowdown\nx,0,0.5\n", r":2: slowdown is 0.5; 1 \(at its best\)"),
        ("type,spread,slowdown\nx,0,1\nx,0,2\n", r":3: type 'x' has a second line for spread 0"),
        ("type,spread,slowdown\nx,0,1\n", r"type 'x' has no line for spread 1"),
        ("type,spread,slowdown\nx,0,many\n", r":2: slowdown is 'many'; a number"),
        ("type,spread,slowdown\n", r"has 0 types"),
    ],
)
def test_profiles_that_cannot_be(tmp_path, text, error):
    (tmp_path / "bad.csv").write_text(text)
    with pytest.raises(InputError, match=error):
        read_locality(tmp_path / "bad.csv")
    with pytest.raises(InputError, match="unknown file or locality profile"):
        read_locality("v10")


# ------------------------------------------------------------------ least attained service, with preemption


def test_two_queues_by_hand():
    """One GPU; a long job has its share of the first queue after 10 s, and makes room for the short one, then goes on."""
    machine = jw.nodes(1, cpus=1, gpus=1)
    w = jw.workload(np.array([0.0, 2.0]), np.ones((2, 2), int), np.array([30.0, 5.0]), cluster=machine)
    r = jw.simulate(w, AttainedService(10.0))
    assert r.jobs["start"].tolist() == [0.0, 10.0] and r.jobs["end"].tolist() == [35.0, 15.0] and r.preemptions == 1


def test_whoever_waits_long_comes_back_to_the_first_queue():
    """The long job ran for 4 s; after 8 s of waiting (twice as long) it goes before jobs that were submitted later."""
    machine = jw.nodes(1, cpus=1, gpus=1)
    submit, run = np.array([0.0, *np.arange(1.0, 60.0, 3.0)]), np.array([12.0, *np.full(20, 3.0)])
    w = jw.workload(submit, np.ones((21, 2), int), run, cluster=machine)
    patient, hasty = (jw.simulate(w, AttainedService(4.0, patience=p)).jobs["end"][0] for p in (1e5, 2.0))
    assert hasty < 40 < patient == 72  # or it is the last


def test_nobody_is_stopped_for_chunks_that_fit_nowhere():
    """Two jobs hold half of each node; a third wants a whole node, and stops one of them, not both for nothing."""
    machine = jw.nodes(2, cpus=2)
    w = jw.workload(
        np.array([0.0, 0.0, 1.0]),
        np.array([[1], [1], [2]]),
        np.array([50.0, 50.0, 5.0]),
        cluster=machine,
        chunks=np.array([1, 1, 1]),
    )
    r = jw.simulate(w, "tiresias:20+spread")
    assert (r.jobs["status"] == DONE).all() and r.preemptions <= 2 and r.jobs["end"].max() < 110
    many = [jw.workload(
        np.sort(rng.integers(0, 100, 40)).astype(float), 4 * rng.integers(1, 3, (40, 1)), rng.integers(1, 60, 40).astype(float),
        cluster=jw.nodes(3, cpus=8), chunks=rng.choice([0, 1, 2, 4], 40),
    ) for rng in map(np.random.default_rng, range(5))]  # fmt: skip
    assert all((jw.simulate(w, "tiresias:60+pack").jobs["status"] == DONE).all() for w in many)


def test_work_is_kept_and_nobody_is_lost():
    sets = [cush(40, 0.9, [7, i]) for i in range(4)]
    for w in sets:
        r = jw.simulate(w, "tiresias:20+typed", tick=1.0)
        assert (r.jobs["status"] == DONE).all() and r.preemptions > 0
        assert (r.jobs["ran"] >= r.runtime - 1e-6).all()  # all of its work, at its best or slower,
        assert (r.jobs["ran"] <= 1.6 * r.runtime + 1.0 + 1e-6).all()  # by 60 % at most, in whole rows
        assert np.isnan(fragmentation(r)) or 0 <= fragmentation(r) <= 1
    pool = jw.lublin(jobs=300, procs=64, load=0.9, estimates="users")
    check_policy("tiresias:36000", pool)


def test_names():
    assert resolve("tiresias").name == "tiresias:3600+first" and resolve("tiresias:40+pack").service == 40
    for name, error in {"tiresias:x": "is no number", "tiresias+near": "unknown placement", "tiresias:0": "cannot be"}.items():
        with pytest.raises(InputError, match=error):
            resolve(name)

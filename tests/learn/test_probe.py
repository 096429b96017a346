"""State use: planted policies that look at nothing, at one thing, at everything.

Modules: cli/probe.py, learn/probe.py.
"""

import json
from dataclasses import replace

import numpy as np
import pytest

import jobwise as jw
from jobwise.cli.main import run as cli
from jobwise.errors import InputError
from jobwise.learn.probe import HARDLY, NOT, USES, probe
from jobwise.policies.networks import Constant, Forward
from jobwise.worlds.window.encoders import make
from jobwise.worlds.window.settings import WindowSettings


@pytest.fixture(scope="module")
def log():
    return jw.lublin(12_000, 64, load=0.95, seed=3, estimates="users")


def per_job(w, **weights):
    """A network per job that weighs named features of RLScheduler's encoder."""
    encoder = make("rls", w.cluster, w.jobs, window=32)
    row = np.zeros((1, 8), np.float32)
    for name, weight in weights.items():
        row[0, encoder.features.index(name)] = weight
    network = Forward({"kind": "perjob", "sizes": [8, 1]}, {"net.0.weight": row, "net.0.bias": np.zeros(1, np.float32)})
    return jw.WindowPolicy(network, encoder, WindowSettings("pick", "easy"), "planted")


def in_rows(w, network=None):
    """A policy that sees SEM's state with 16 jobs that wait: by a network; else a planted one, the shortest first."""
    encoder = make("sem", w.cluster, w.jobs, window=16, largest=4)
    rows = encoder.shape[0]
    if network is None:
        weights = {"filter.weight": np.array([[0.0, 1.0]], np.float32), "filter.bias": np.zeros(1, np.float32)}
        dense = np.zeros((16, rows), np.float32)
        dense[np.arange(16), 2 * np.arange(16)] = -1.0  # of each job the time that it asks for
        weights |= {"net.0.weight": dense, "net.0.bias": np.zeros(16, np.float32)}
        network = Forward({"kind": "rows", "sizes": [rows, 16]}, weights)
    return replace(per_job(w), networks=(network,), encoder=encoder)


def test_a_planted_constant_policy_does_not_use_the_state(log):
    """Slot 2 whatever happens (0 where two jobs wait): no exchange changes a start, and it is its own twin."""
    use = probe(in_rows(log, Constant(np.eye(16)[2])), log)
    assert use.word == NOT and use.agreement == 1.0 and use.states >= 200
    assert set(use.exchanged) == {"", "queue", "time", "running"}
    assert all(x.change == 0.0 for x in use.exchanged.values())
    assert "does not use the state at all" in use.sentence()


def test_a_planted_good_policy_uses_the_state(log):
    """The shortest of sixteen first: no slot alone does that, and shown other moments it is a draw of lots."""
    use = probe(in_rows(log), log)
    assert use.word == USES, use.rows()
    assert use.exchanged[""].low > 0 and use.against_twin.high < 0 and use.decisions == 16
    assert use.exchanged["queue"].low > 0
    assert use.exchanged["time"].change == use.exchanged["running"].change == 0.0  # it does not weigh waits, or running jobs


def test_an_order_by_one_field_is_its_own_twin(log):
    """The shortest first sees the jobs, and states of other moments cost it; but it is an order by a field: hardly."""
    use = probe(per_job(log, walltime=-1.0), log)
    assert use.word == HARDLY and use.exchanged["queue"].low > 0
    assert use.twin == "smallest walltime first" and use.against_twin.change == 0.0


def test_the_same_seed_gives_the_same_numbers(log):
    policy = per_job(log, walltime=-1.0, fits=0.3)
    a, b, c = probe(policy, log, seed=1), probe(policy, log, seed=1), probe(policy, log, seed=2)
    assert a.to_dict() == b.to_dict()
    assert a.exchanged["queue"] != c.exchanged["queue"] and a.own == c.own


@pytest.mark.parametrize("name, groups", [("slots", "queue time running"), ("affinities", "room run times next counts queue")])
def test_policies_of_jobsets_play_unseen_jobsets(name, groups):
    use = probe(f"zoo:{name}")
    assert use.word == USES and "40 jobsets" in use.on
    assert " ".join(use.exchanged).split() == groups.split()


def test_what_cannot_be_probed(log):
    with pytest.raises(InputError, match="is no network"):
        probe("sjf+easy", log)
    with pytest.raises(InputError, match="on which log"):
        probe(per_job(log))
    with pytest.raises(InputError, match="name no log"):
        probe("zoo:slots", log)


def test_the_command(log, tmp_path, capsys):
    in_rows(log).save(tmp_path / "p.safetensors")
    jw.write_swf(log, tmp_path / "log.swf")
    assert cli(["probe", str(tmp_path / "p.safetensors"), str(tmp_path / "log.swf"), "--json"]) == 0
    numbers = json.loads(capsys.readouterr().out)
    assert numbers["state_use"] == "uses the state" and numbers["exchanged"]["state"]["low"] > 0
    assert cli(["probe", "fcfs+easy", str(tmp_path / "log.swf")]) == 2
    assert "is no network" in capsys.readouterr().err


def test_evaluate_reads_the_log_once_and_says_it_in_the_report(log, tmp_path, capsys, monkeypatch):
    """From standard input, too; where nothing is to be chosen the comparison stands, with the reason."""
    import io
    import sys

    in_rows(log).save(tmp_path / "p.safetensors")
    jw.write_swf(log, tmp_path / "log.swf")
    text = (tmp_path / "log.swf").read_text()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    words = ["evaluate", str(tmp_path / "p.safetensors"), "-", "-p", "fcfs+easy", "--replicas", "0"]
    assert cli([*words, "--report", str(tmp_path / "r.html")]) == 0
    assert (
        "uses the state: " in " ".join(capsys.readouterr().out.split())
        and "uses the state: " in (tmp_path / "r.html").read_text()
    )
    alone = jw.workload(np.arange(60) * 1e5, [1] * 60, [10.0] * 60, cluster=log.cluster)
    jw.write_swf(alone, tmp_path / "alone.swf")
    words[2] = str(tmp_path / "alone.swf")
    assert cli([*words, "--json"]) == 0
    numbers = json.loads(capsys.readouterr().out)
    assert numbers["state_use"] is None and "nothing to choose" in numbers["answer"][-1]

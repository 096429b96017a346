"""The table of peers: every peer says why it does not run or has a driver, and a driver's schedule is compared job by job."""

import sys
import tomllib

import numpy as np
import pytest
from conftest import ROOT

from benchmarks.peers import __main__ as peers
from jobwise.policies.names import resolve
from jobwise.simulate import simulate

TABLE = tomllib.loads((peers.HERE / "peers.toml").read_text())["peer"]
DRIVER = """import sys
sys.path.insert(0, {root!r})
from jobwise import read_swf, simulate
folder, log, processors, rule, out = sys.argv[1:6]
assert rule != "broken", "it does not know this rule"
r = simulate(read_swf(log), rule)
with open(out, "w") as file:
    file.write("seconds 0.5\\n")
    file.writelines(f"{{j + 1}} {{t + 100}}\\n" for j, t in enumerate(r.jobs["start"]))
"""


@pytest.mark.parametrize("peer", TABLE, ids=lambda x: x["name"])
def test_each_peer_has_a_driver_or_a_reason(peer):
    assert peer["about"] and peer["has"] and peer["licence"] and peer["source"]
    assert ("absent" in peer) != (peers.HERE / "drivers" / f"{peer['name']}.py").exists()
    for theirs, ours, *_ in peer.get("rules", ()):
        assert theirs and resolve(ours)


@pytest.mark.cli
def test_schedules_are_compared_job_by_job(tmp_path, monkeypatch):
    monkeypatch.setattr(peers, "WORK", tmp_path)
    monkeypatch.setattr(peers, "HERE", tmp_path)
    (tmp_path / "drivers").mkdir()
    (tmp_path / "drivers" / "own.py").write_text(DRIVER.format(root=str(ROOT)))
    peer, there = {"name": "own"}, peers.Peer([sys.executable], tmp_path)
    same = peers._row(peer, there, ["sjf+easy", "sjf+easy", ""], 60)
    assert same[5] == "100.0%" and same[6] == same[7] and same[-1] == ""  # it counts time from elsewhere
    other = peers._row(peer, there, ["fcfs+easy", "saf+easy", "another order", "exact"], 60)
    w, _ = peers._log(60, True)
    starts = [simulate(w, p).jobs["start"] for p in ("fcfs+easy", "saf+easy")]
    assert other[5] == f"{np.mean(starts[0] == starts[1]):.1%}" and other[3] == "run times" and other[-1] == "another order"
    assert "it does not know this rule" in peers._row(peer, there, ["broken", "fcfs", ""], 60)[5]


@pytest.mark.cli
def test_a_peer_without_its_python_or_its_checkout_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(peers, "WORK", tmp_path)
    with pytest.raises(peers.Absent, match="none of Python 1.5"):
        peers.install({"name": "x", "source": "https://localhost:1/x", "pythons": ["1.5"], "packages": []}, None)
    with pytest.raises(peers.Absent):
        peers.install({"name": "x", "source": "https://localhost:1/x", "pythons": ["3.11"], "packages": []}, None)
    with pytest.raises(peers.Absent, match="no package"):
        peers.install({"name": "x", "absent": "no package"}, None)

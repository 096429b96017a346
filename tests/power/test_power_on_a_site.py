"""Power on a site: what a cap costs and whom, and the lines that keep it in Slurm itself; energy that sacct counted.

Modules: slurm/judge/power_lines.py.
"""

import json
from dataclasses import replace

import numpy as np
import pytest
from conftest import write_site

from jobwise.cli import run
from jobwise.power.prices import Stepwise, read_cap
from jobwise.power.setting import powered
from jobwise.power.table import PowerTable
from jobwise.simulate import simulate
from jobwise.slurm.judge.power_lines import cap_lines
from jobwise.workloads.sacct import from_text
from jobwise.workloads.sites import generated

TABLE = PowerTable(idle=50, core=4, gpu=100)


def small(**more):
    return generated(jobs=600, nodes=20, cpus=8, load=0.9, seed=5, **more)


@pytest.mark.parametrize("policy", ["slurm", "fcfs+easy", "saf+conservative", "sjf"])
def test_a_site_never_exceeds_its_cap(policy):
    w = small()
    full = 20 * 50 + 160 * 4
    free = simulate(powered(w, TABLE), policy)
    x = powered(w, TABLE, cap=read_cap(f"{0.8 * full:.0f}W"))
    r = simulate(x, policy)
    assert free.energy.watts.max() > 0.8 * full >= r.energy.watts.max()
    assert r.summary()["hours_above_cap"] == 0.0 and r.summary()["wait"] > free.summary()["wait"]


def test_a_cap_that_changes_is_kept_on_a_site():
    w = replace(small(), origin=1e9)
    hours = 1e9 + 3600.0 * np.arange(0, 4000, 6)
    cap = Stepwise(hours, np.where(np.arange(len(hours)) % 2, 1350.0, 1640.0))
    x = powered(w, TABLE, cap=cap)
    truth = x.truth.copy()
    truth["runtime"] = np.minimum(truth["runtime"], np.maximum(x.jobs["walltime"], 1.0))  # none outlives its limit
    for policy in ("slurm", "fcfs+easy"):
        assert simulate(replace(x, truth=truth), policy).summary()["hours_above_cap"] == 0.0


def test_lines_for_slurm_keep_the_cap():
    w = small(version=251100)
    lines = cap_lines(powered(w, TABLE, cap=read_cap("1.4kW")))
    assert lines[0] == "slurm.conf, any version: Licenses=watts:400"
    assert lines[1] == "job_submit.lua (integrations/slurm): local CORE, GPU, NODE = 4, 100, 0"
    assert "resource: watts, mode: MODE_2" in lines[2] and "count: 400" in lines[2]
    assert len(cap_lines(powered(small(version=241100), TABLE, cap=read_cap("1.4kW")))) == 2
    over_time = Stepwise(1e9 + np.array([0.0, 3600.0, 7200.0]), np.array([1300.0, 1400.0, 1350.0]))
    held = cap_lines(powered(replace(w, origin=1e9), TABLE, cap=over_time))
    assert held[2].startswith("TZ=UTC scontrol create reservation StartTime=2001-09-09T01:46 Duration=60 Licenses=watts:100 ")


def test_what_if_says_what_a_cap_costs_and_whom(tmp_path, capsys):
    write_site(tmp_path / "site", jobs=300)
    (tmp_path / "t.toml").write_text("idle = 50\ncore = 10\nplus_minus = 0.1\n")
    words = ["slurm", "what-if", str(tmp_path / "site"), "--power", str(tmp_path / "t.toml"), "--replicas", "1"]
    assert run([*words, "--or", "nodes=1", "--json"]) == 0
    now = json.loads(capsys.readouterr().out)["changes"][0]["energy"]["present"]
    cap = f"{0.85 * 1000 * now['peak_power']:.0f}W"
    assert run([*words, "--cap", cap, "--or", "cap=1GW", "--json"]) == 0
    out = json.loads(capsys.readouterr().out)
    mine, free = out["changes"]
    assert (
        mine["energy"]["after"]["peak_power"] <= 0.851 * now["peak_power"] and mine["energy"]["after"]["hours_above_cap"] == 0
    )
    assert mine["wait"]["mean_s"] > mine["wait"]["present_s"] and mine["groups"]
    assert free["wait"]["change"] == 0.0 and free["energy"]["change"]["change"] == pytest.approx(0.0)
    assert run([*words, "--cap", cap, "--report", str(tmp_path / "r.html")]) == 0
    text = capsys.readouterr().out
    assert f"cap {cap}" in text and "Licenses=watts:" in text and "energy" in text
    assert run([*words, "--cap", "1W"]) == 2 and "the idle nodes alone draw" in capsys.readouterr().err
    assert run([*words[:-2], "--cap", "lots"]) == 2 and "a power such as 2.4MW" in capsys.readouterr().err


SACCT = """JobIDRaw|User|State|Submit|Eligible|Start|End|ElapsedRaw|TimelimitRaw|NNodes|NCPUS|ConsumedEnergyRaw
1|ann|COMPLETED|2026-01-01T00:00:00|2026-01-01T00:00:00|2026-01-01T00:00:00|2026-01-01T00:10:00|600|20|1|4|60000
2|ann|COMPLETED|2026-01-01T00:00:00|2026-01-01T00:00:00|2026-01-01T00:00:00|2026-01-01T00:10:00|600|20|1|4|18446744073709551614
3|bob|COMPLETED|2026-01-01T00:00:00|2026-01-01T00:00:00|2026-01-01T00:00:00|2026-01-01T00:10:00|600|20|1|4|
4|bob|COMPLETED|2026-01-01T00:00:00|2026-01-01T00:00:00|2026-01-01T00:00:00|2026-01-01T00:10:00|600|20|1|4|0
"""


def test_energy_that_slurm_counted_is_measured():
    """60,000 J in 600 s are 100 W; Slurm's mark for unknown, nothing and 0 are not known: the table says 4 x 20 W."""
    w = from_text(SACCT, "jobs.sacct")
    x = powered(w, PowerTable(core=20), predict=False)
    assert sorted(x.columns["adds"].tolist()) == [80.0, 80.0, 80.0, 100.0] and x.columns["measured"].sum() == 1
    assert "energy" not in from_text(SACCT.replace("|60000", "|"), "jobs.sacct").columns


def test_energy_of_steps_where_a_job_has_none_of_its_own():
    """Job 1: its own; 2: of extern, which has all; 3: the steps together are more than batch; 4: nothing is known."""
    head = "JobID|User|State|Submit|Eligible|Start|End|ElapsedRaw|TimelimitRaw|NNodes|NCPUS|ConsumedEnergyRaw"
    joules = {
        "1": 500,
        "1.batch": 90,
        "2": "",
        "2.batch": 70,
        "2.0": 60,
        "2.extern": 80,
        "3": 0,
        "3.batch": 50,
        "3.0": 40,
        "3.1": 45,
    }
    joules |= {"4": "", "4.batch": 0}  # of a job with two runs it is not known whose a step is
    t = "2026-01-01T00:00:00"
    rows = [f"{id}|a|COMPLETED|{t}|{t}|{t}|2026-01-01T00:10:00|600|20|1|2|{x}" for id, x in joules.items()]
    w = from_text("\n".join([head, *rows]) + "\n", "sacct.txt")
    assert w.columns["energy"].tolist() == [500, 80, 85, -1] and w.dropped["job steps"] == 8
    again = rows[2].replace("2026-01-01", "2026-01-02")
    w = from_text("\n".join([head, *rows, again]) + "\n", "sacct.txt")
    assert sorted(w.columns["energy"].tolist()) == [-1, -1, -1, 85, 500]

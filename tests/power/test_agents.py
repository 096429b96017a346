"""Agents that see prices: the slot of nobody, the encoder, the reward, and a network that is trained on them.

Modules: worlds/window/waiting.py.
"""

from dataclasses import replace

import numpy as np
import pytest

from jobwise.cli import run
from jobwise.cluster import pool
from jobwise.errors import InputError
from jobwise.power.prices import Prices, Stepwise, write_prices
from jobwise.power.setting import powered
from jobwise.power.table import PowerTable
from jobwise.simulate import simulate
from jobwise.workload import workload
from jobwise.workloads.lublin import lublin
from jobwise.workloads.swf import write_swf
from jobwise.worlds.window.settings import WindowSettings

HOUR = 3600.0
WAITS = WindowSettings(waits=True)


def priced(w, prices):
    steps = Stepwise(1e9 + HOUR * np.arange(len(prices)), np.array(prices, float))
    return powered(replace(w, origin=1e9), PowerTable(core=1000.0), Prices(steps, None))


def envs(w, **settings):
    pytest.importorskip("gymnasium")
    from jobwise.learn.env import WindowVectorEnv

    given = {"encoder": "priced", "act": WAITS, "jobs": len(w), "reward": "energy_cost"} | settings
    return WindowVectorEnv(1, w, **given)


def test_nobody_may_be_chosen_until_the_price_changes():
    """One job of 1 h at hours of 3, 2, 1, 1: shown with nobody. Waiting twice it starts in the third hour and costs 1, a part of
    the mean price of the three hours before the last step, 2."""
    e = envs(priced(workload([0], [1], [HOUR], cluster=pool(2)), [3, 2, 1, 1]), window=4)
    seen, info = e.reset(seed=0)
    assert info["action_mask"].tolist() == [[1, 1, 0, 0]]
    names = e.encoder.features
    first = dict(zip(names, seen[0, 0], strict=True))
    assert first["gain"] == pytest.approx(2 / 3) and first["nobody"] == 0 and seen[0, 1, names.index("nobody")] == 1
    mean = (3 + 2 + 22 * 1) / 24
    assert first["price"] == pytest.approx(3 / mean - 1, abs=1e-5) and first["cheapest"] == pytest.approx(
        1 / mean - 1, abs=1e-5
    )
    assert first["soon"] == pytest.approx(2 / 24)
    total = 0.0
    for action, over in ((1, False), (1, False), (0, True)):
        _, reward, ended, *_ = e.step(np.array([action]))
        total += reward[0]
        assert ended[0] == over
    assert total == pytest.approx(-1 / 2)


def test_at_once_it_costs_three():
    e = envs(priced(workload([0], [1], [HOUR], cluster=pool(2)), [3, 2, 1, 1]), window=4)
    e.reset(seed=0)
    assert e.step(np.array([0]))[1][0] == pytest.approx(-3 / 2)


def test_a_job_that_has_waited_a_day_is_not_asked_about():
    w = priced(workload([0, 0], [1, 1], [HOUR, HOUR], cluster=pool(2)), [5.0] * 30 + [1.0] * 3)
    e = envs(w, window=4)
    e.reset(seed=0)
    steps = 0
    while True:
        _, _, ended, _, _ = e.step(e.world.counts - 1)
        steps += 1
        if ended[0]:
            break
    assert 24 <= steps <= 26


def test_waiting_needs_prices_and_the_way_to_act():
    w = powered(workload([0], [1], [HOUR], cluster=pool(2)), PowerTable(core=1))
    with pytest.raises(InputError, match="no prices are known"):
        envs(w)
    with pytest.raises(InputError, match="agents that act by 'pick'"):
        WindowSettings("commit", waits=True)
    capped = powered(w, PowerTable(core=1), cap=Stepwise(np.array([-np.inf]), np.array([10.0])))
    with pytest.raises(InputError, match="knows of no cap"):
        envs(capped, act="pick")


def test_a_network_is_trained_on_prices_and_waits_on_its_own(tmp_path, capsys):
    pytest.importorskip("torch")
    w = replace(lublin(jobs=1500, procs=32, seed=2, load=0.5), origin=8e8)
    write_swf(w, tmp_path / "log.swf")
    hours = int(w.jobs["submit"][-1] // HOUR) + 500
    write_prices(str(tmp_path / "p.csv"), 8e8 - 8e8 % HOUR, 0.1 + 0.05 * np.sin(np.arange(hours)), np.full(hours, 300.0))
    (tmp_path / "t.toml").write_text("core = 10\n")
    power = ["--power", str(tmp_path / "t.toml"), "--prices", str(tmp_path / "p.csv")]
    log, out = str(tmp_path / "log.swf"), str(tmp_path / "run")
    words = ["train", "shift", log, *power, "--out", out, "--preset", "smoke", "--choices", "3000", "--threads", "1"]
    assert run(words) == 0, capsys.readouterr().err
    capsys.readouterr()
    assert run(["simulate", log, "-p", out, *power]) == 0, capsys.readouterr().err
    assert "energy cost" in capsys.readouterr().out
    assert run(["simulate", log, "-p", out]) == 2 and "no prices are known" in capsys.readouterr().err


def test_a_cap_is_refused_where_start_deadlines_know_of_none():
    w = powered(lublin(jobs=50, procs=32, seed=2), PowerTable(core=10), cap=Stepwise(np.array([-np.inf]), np.array([320.0])))
    for policy in ("jobwise", "saf+easy+trial", "fcfs+easy+promise1.2x"):
        with pytest.raises(InputError, match="know of no cap on power"):
            simulate(w, policy)

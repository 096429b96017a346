"""Jobs that are held for cheaper hours: by hand, within the time that their users grant, beside nothing, power-down, the oracle.

Modules: compare/shifting.py, power/flexible.py, sim/power.py, workloads/durations.py.
"""

from dataclasses import replace

import numpy as np
import pytest

from jobwise.cli import run
from jobwise.cluster import pool
from jobwise.compare.shifting import ROWS, shifted
from jobwise.errors import InputError
from jobwise.policies.names import resolve
from jobwise.power.flexible import flexible
from jobwise.power.prices import Prices, Stepwise
from jobwise.power.setting import powered
from jobwise.power.table import PowerTable
from jobwise.simulate import simulate
from jobwise.workload import workload
from jobwise.workloads.lublin import lublin
from jobwise.workloads.swf import write_swf

HOUR = 3600.0


def priced(w, prices, **table):
    """Hourly prices from the first submit on."""
    steps = Stepwise(1e9 + HOUR * np.arange(len(prices)), np.array(prices, float))
    return powered(replace(w, origin=1e9), PowerTable(**{"core": 1000.0} | table), Prices(steps, None))


def starts(w, policy):
    return simulate(w, policy).jobs["start"].tolist()


def test_a_job_is_held_for_a_cheaper_hour_within_its_time():
    """Hours cost 5, 4, 3, 2, 1, then 4. A job of 2 h is held no longer than it runs: it starts in the third hour; with 1 h at most in
    the second, with 30 min at once. One of 3 h starts in the third (3 + 2 + 1 = 6), not the fourth (2 + 1 + 4 = 7)."""
    two, three = (workload([0], [1], [n * HOUR], cluster=pool(2)) for n in (2, 3))
    prices = [5, 4, 3, 2, 1, 4, 4, 4]
    assert starts(priced(two, prices), "fcfs+easy+shift8h") == [2 * HOUR]
    assert starts(priced(two, prices), "fcfs+easy+shift1h") == [1 * HOUR]
    assert starts(priced(two, prices), "fcfs+easy+shift30m") == [0]
    assert starts(priced(three, prices), "fcfs+easy+shift8h") == [2 * HOUR]
    assert starts(priced(two, [3, 2.99, 2.98]), "fcfs+easy+shift8h") == [0]  # not worth it


def test_its_limit_counts_where_its_run_time_is_not_known():
    """It asks for 2 h, and runs for one: by its limit the second hour is best (2 + 1), by its true run time the third."""
    w = priced(workload([0], [1], [HOUR], [2 * HOUR], cluster=pool(2)), [3, 2, 1, 9, 9])
    assert starts(w, "fcfs+easy+shift8h") == [HOUR]
    assert starts(w, "fcfs+easy+shift8h+actual") == [2 * HOUR]


def test_a_held_job_is_in_nobodys_way():
    """The first job waits for the cheap hour; the second, which may not be held, starts at once, though it is behind it."""
    w = priced(workload([0, 10], [2, 2], [2 * HOUR, HOUR], cluster=pool(2)), [3, 2, 1, 1, 1])
    w.jobs["patience"][1] = 0.0
    assert starts(w, "fcfs+easy+shift8h") == [2 * HOUR, 10.0]


def test_a_job_that_has_waited_too_long_is_not_held():
    w = priced(workload([0], [1], [4 * HOUR], cluster=pool(2)), [3, 3, 3, 1, 1, 1, 1, 1])
    assert starts(w, "fcfs+easy+shift8h") == [3 * HOUR]
    assert starts(w, "fcfs+easy+guard2h+shift8h")[0] <= 3 * HOUR


def test_start_deadlines_go_before_prices():
    """Prices fall for days: without deadlines jobs are held up to a day, behind deadlines none waits much longer than 1.2 times the
    longest wait without prices (measured, not guaranteed)."""
    w = lublin(jobs=1500, procs=64, seed=2, load=0.8)
    w = priced(w, np.linspace(10, 0.1, 3000), cores=8, idle=50)
    first = simulate(w, "fcfs+easy").summary()["max_wait"]
    free = simulate(w, "smith+easy+shift24h").summary()["max_wait"]
    kept = simulate(w, "smith+easy+promise1.2x+shift24h").summary()["max_wait"]
    assert free > kept and kept <= 1.5 * first


def test_who_is_flexible_is_drawn_or_named():
    w = workload([0] * 1000, [1] * 1000, [10] * 1000, cluster=pool(8), queue=np.arange(1000) % 2)
    assert (flexible(w, "0.3").jobs["patience"] > 0).mean() == pytest.approx(0.3, abs=0.05)
    assert np.isinf(flexible(w, "0.3").jobs["patience"].max())
    named = flexible(w, "queue=1:4h").jobs["patience"]
    assert set(named[::2]) == {0.0} and set(named[1::2]) == {14400.0}
    for text, why in (
        ("2", "from 0 to 1"),
        ("queue=9", "no job has this queue"),
        ("colour=3", "are known"),
        ("0.3:x", "4h is"),
    ):
        with pytest.raises(InputError, match=why):
            flexible(w, text)


@pytest.mark.cli
def test_who_may_be_held_is_no_word_where_nothing_holds_jobs(tmp_path, capsys):
    """It would be read and ignored."""
    w = priced(workload([0] * 9, [1] * 9, [600] * 9, cluster=pool(8)), [0.3, 0.1, 0.2])
    write_swf(replace(w, origin=1e9), tmp_path / "log.swf")
    (tmp_path / "p.csv").write_text("time,price_eur\n2001-09-09T01:46:40Z,0.3\n2001-09-09T02:46:40Z,0.1\n")
    (tmp_path / "t.toml").write_text("core = 5\ncores = 4\n")
    words = ["simulate", str(tmp_path / "log.swf"), "--power", str(tmp_path / "t.toml"), "--prices", str(tmp_path / "p.csv")]
    assert run([*words, "--flexible", "0.3", "-p", "fcfs+easy"]) == 2
    assert "nothing here holds jobs: -p fcfs+easy+shift8h does" in capsys.readouterr().err
    assert run([*words, "--flexible", "0.3", "-p", "fcfs+easy+shift8h"]) == 0
    assert "costs are in EUR" in capsys.readouterr().out


def test_the_four_stand_side_by_side_and_the_oracle_saves_more():
    rng = np.random.default_rng(1)
    run = rng.uniform(2, 7, 500) * HOUR
    w = workload(
        np.sort(rng.uniform(0, 1000 * HOUR, 500)),
        rng.integers(1, 17, 500),
        run,
        run * rng.uniform(1, 1.6, 500),
        cluster=pool(64),
    )
    hours = 1200
    price = 0.1 + 0.06 * np.sin(2 * np.pi * np.arange(hours) / 24)
    w = priced(w, price, core=10.0, cores=8, idle=60, off=6, suspend=20, wake=120)
    x = shifted([w], resolve("fcfs+easy+shift12h"))
    costs = [x.total(k) for k in range(4)]
    assert costs[0] > costs[1] > costs[2] > costs[3]
    assert 0.2 < x.share() < 1.0 and [r[0] for r in x.rows()] == [*ROWS]
    assert x.mean(0, "max_wait") < x.mean(2, "max_wait") < x.mean(0, "max_wait") + 20 * HOUR
    assert x.to_dict()["rows"]["oracle"]["cost"] == pytest.approx(costs[3])
    assert "of what the oracle saves" in x.sentence()


def test_without_prices_nothing_is_held():
    w = powered(workload([0], [1], [10], cluster=pool(1)), PowerTable(core=1))
    with pytest.raises(InputError, match="no prices are known"):
        simulate(w, "fcfs+easy+shift8h")
    with pytest.raises(InputError, match="holds no jobs"):
        shifted([w], resolve("fcfs+easy"))

"""Trial runs: by hand, against the slow twin, and what must hold in every schedule.

Modules: sim/pool/items.py, sim/pool/trials.py, sim/trial_runs.py.
"""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from naive_trials import Twin, busy, table

import jobwise as jw
from jobwise.cli.main import run
from jobwise.errors import InputError
from jobwise.simulate import simulate
from jobwise.workloads.transform import restartable

RULES = {  # name: (order, backfilling, guard in s, quantum in s, share kept)
    "fcfs+easy+trial": ("fcfs", "easy", np.inf, 60.0, 0.0),
    "fcfs+trial": ("fcfs", "none", np.inf, 60.0, 0.0),
    "saf+easy+trial10s": ("saf", "easy", np.inf, 10.0, 0.0),
    "saf+easy+guard1h+trialx20%": ("saf", "easy", 3600.0, 60.0, 0.2),
    "wfp3+easy+trial5sx10%": ("wfp3", "easy", np.inf, 5.0, 0.1),
    "lxf+trial10%": ("lxf", "none", np.inf, 60.0, 0.1),
    "random+easy+trial30s": ("random", "easy", np.inf, 30.0, 0.0),
}


@pytest.mark.parametrize("name", RULES)
@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), share=st.sampled_from([0.3, 1.0]), cost=st.sampled_from([0.0, 30.0]))
def test_equals_the_slow_twin(name, seed, share, cost):
    w = busy(seed, share=share)
    order, backfill, guard, quantum, kept = RULES[name]
    want = Twin(table(w), 16, order, backfill, guard, quantum, kept, cost).run()
    got = simulate(w, name, restart_cost_s=cost)
    assert got.jobs["start"].tolist() == [j["start"] for j in want.jobs]
    assert got.jobs["end"].tolist() == [j["end"] for j in want.jobs]
    assert (got.trials, got.shown, got.preemptions) == (want.trials, want.shown, want.kills)
    assert got.lost == pytest.approx(want.lost)


def test_by_hand():
    """Four processors. Job 0 holds 3 for 100 s. Job 1 wants 4, job 2 asks for 1 for 500 s and ends after 10: it is tried at
    once, and has left before anybody needs its processor. Job 3 (1 for 500 s) is tried next, and stopped when job 1 starts."""
    w = jw.workload([0, 0, 1, 2], [3, 4, 1, 1], [100, 50, 10, 400], [100, 50, 500, 500], cluster=jw.pool(4))
    r = simulate(w, "fcfs+easy+trial")
    assert r.jobs["start"].tolist() == [0, 100, 1, 150] and r.jobs["end"].tolist() == [100, 150, 11, 550]
    assert (r.trials, r.shown, r.preemptions) == (2, 1, 1)
    assert r.lost == 100 - 11  # job 3 ran from 11 to 100
    assert r.jobs["restarts"].tolist() == [0, 0, 0, 1]
    plain = simulate(w, "fcfs+easy")
    assert plain.jobs["start"].tolist() == [0, 100, 150, 150]


def test_a_trial_run_whose_turn_comes_goes_on_and_its_limit_counts_from_its_begin():
    """Job 2 is tried at 1 and starts at 100 by order: it goes on, and ends at 301; job 3 of the whole machine follows then."""
    w = jw.workload([0, 0, 1, 1], [3, 4, 1, 4], [100, 50, 300, 5], [100, 50, 300, 5], cluster=jw.pool(4))
    w.jobs["restartable"][1] = False
    r = simulate(w, "smallest+easy+trial")
    assert r.jobs["start"].tolist() == [0, 301, 1, 351] and r.preemptions == 0 and r.trials == 0  # it is backfilled at once
    w = jw.workload([0, 0, 1], [3, 2, 1], [100, 50, 300], [100, 50, 300], cluster=jw.pool(4))
    r = simulate(w, "fcfs+trial")  # without backfilling job 2 waits behind job 1
    assert r.jobs["start"].tolist() == [0, 100, 1] and (r.trials, r.shown, r.preemptions) == (1, 0, 0)


def test_what_must_not_be_begun_again_never_is():
    w = busy(3)
    w.jobs["restartable"] = np.arange(len(w)) % 2
    r = simulate(w, "fcfs+easy+trial")
    assert r.preemptions > 0 and (r.jobs["restarts"][w.jobs["restartable"] == 0] == 0).all()
    w.jobs["restartable"] = 0
    assert np.array_equal(simulate(w, "fcfs+easy+trial").jobs["start"], simulate(w, "fcfs+easy").jobs["start"])


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6), name=st.sampled_from([*RULES, "jobwise+trial"]))
def test_no_processor_is_held_twice_and_all_work_is_done(seed, name):
    w = busy(seed, jobs=60)
    r = simulate(w, name.replace("jobwise+trial", "smith-aged+easy+express2%+promise1.2x+trial"))
    assert (r.jobs["end"] - r.jobs["start"] == w.truth["runtime"]).all()
    events = np.concatenate([r.jobs["start"], r.jobs["end"]])
    change = np.concatenate([r.jobs["request"][:, 0], -r.jobs["request"][:, 0]])
    order = np.lexsort((change, events))
    assert np.cumsum(change[order]).max() <= 16
    assert r.preemptions == r.jobs["restarts"].sum()
    ran_once = r.trials - r.shown - r.preemptions  # those whose turn came
    assert 0 <= ran_once <= len(w)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_where_jobs_end_at_their_request_first_come_first_served_starts_nobody_later(seed):
    """Without backfilling nothing that a trial run changes can delay anybody: the queue is served in order, and each job ends
    no later than it did."""
    w = busy(seed, jobs=60)
    with_trials, without = simulate(w, "fcfs+trial"), simulate(w, "fcfs")
    assert (with_trials.jobs["end"] <= without.jobs["end"]).all()


def test_a_trial_run_is_no_look_into_the_future():
    """Other run times of jobs that have not ended by then change no decision before."""
    w = busy(11)
    r = simulate(w, "saf+easy+trial")
    for moment in np.quantile(r.jobs["end"], [0.2, 0.5, 0.8]):
        other = replace(w, truth=w.truth.copy())
        late = r.jobs["end"] > moment
        other.truth["runtime"][late] = np.maximum(w.truth["runtime"][late], moment - r.jobs["start"][late] + 1.0) + 77.0
        again = simulate(other, "saf+easy+trial")
        early = ~late
        assert np.array_equal(again.jobs["start"][early], r.jobs["start"][early])


def test_a_node_that_fails_takes_trial_runs_with_it():
    w = replace(busy(5), cluster=jw.pool(16).with_outages([(3000.0, 0, 0), (3600.0, 0, 1)]))
    r = simulate(w, "fcfs+easy+trial")
    assert not np.isnan(r.jobs["end"]).any() and r.lost > 0


def test_names_are_canonical_and_wrong_ones_are_told():
    for name, canonical in {"saf+easy+trial60s": "saf+easy+trial", "saf+trial2%": "saf+trial2%", "saf+trial30sx2%": "saf+trial30sx2%",
                            "saf+trial1m": "saf+trial", "saf+trial2h2%": "saf+trial7200sx2%"}.items():  # fmt: skip
        assert jw.resolve(name).name == canonical and jw.resolve(canonical).trial == jw.resolve(name).trial
    for name, word in {"saf+conservative+trial": "needs", "saf+trial0s": "cannot be", "saf+trial100%": "cannot be"}.items():
        with pytest.raises(InputError, match=word):
            jw.resolve(name)
    with pytest.raises(InputError, match="is for pools"):
        simulate(jw.workload([0], [[1]], [1], [1], cluster=jw.nodes(2, cpus=1)), "saf+easy+trial")


def test_a_record_tells_of_its_trial_runs_and_others_do_not():
    w = jw.workload([0, 0, 1, 2], [3, 4, 1, 1], [100, 50, 10, 400], [100, 50, 500, 500], cluster=jw.pool(4))
    s = simulate(w, "fcfs+easy+trial").summary()
    assert (s["trial_runs"], s["ended_in_a_trial_run"], s["stopped_trial_runs"]) == (2, 1, 1)
    assert s["work_done_twice"] == pytest.approx(89 / (300 + 200 + 10 + 400))
    assert s["processor_hours_held"] == pytest.approx((910 + 89) / 3600)
    assert "trial_runs" not in simulate(w, "fcfs+easy").summary()


def test_a_restart_costs_what_it_costs():
    """Job 3 is stopped once: its second run takes 30 s longer, which is waiting, not work."""
    w = jw.workload([0, 0, 1, 2], [3, 4, 1, 1], [100, 50, 10, 400], [100, 50, 500, 500], cluster=jw.pool(4))
    r = simulate(w, "fcfs+easy+trial", restart_cost_s=30.0)
    assert r.jobs["end"].tolist() == [100, 150, 11, 580]
    assert jw.metrics.wait(r)[3] == 580 - 2 - 400


def test_the_share_of_jobs_that_take_part_is_drawn_and_what_is_assumed_is_told(tmp_path, capsys):
    log = tmp_path / "log.swf"
    lines = [f"{j + 1} {j * 7} -1 {20 + j % 50} {1 + j % 4} -1 -1 {1 + j % 4} 900 -1 1 1 1 -1 -1 -1 -1 -1" for j in range(400)]
    log.write_text("; MaxProcs: 4\n" + "\n".join(lines) + "\n")
    assert run(["simulate", str(log), "-p", "fcfs+easy+trial"]) == 0
    assert "takes all 400 jobs as ones that may be stopped and begun again" in "".join(capsys.readouterr())
    counts = []
    for share in ("0", "0.3", "1"):
        assert run(["simulate", str(log), "-p", "fcfs+easy+trial", "--restartable", share, "--json"]) == 0
        counts.append(json.loads(capsys.readouterr().out)["summary"].get("trial_runs", 0))
    assert counts[0] == 0 < counts[1] < counts[2]
    assert run(["compare", str(log), "-p", "fcfs+easy", "-p", "jobwise+trial", "--window", "100", "--json"]) == 0
    assert any("jobwise+trial takes all" in x for x in json.loads(capsys.readouterr().out)["notes"])
    half = restartable(jw.read_swf(log), 0.5, seed=1)
    assert 150 < half.jobs["restartable"].sum() < 250
    with pytest.raises(InputError, match="a share is 0 to 1"):
        restartable(half, 1.5)

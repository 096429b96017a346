"""What changes on the way: relative guards, gates. Compiled loop == asked loop, nothing unseen is used, bounds hold."""

import numpy as np
import pytest
from conftest import drained

import jobwise as jw
from jobwise.errors import InputError
from jobwise.jobs import past_dtype
from jobwise.policies.gate import ENOUGH, Gate, replays
from jobwise.policies.names import resolve
from jobwise.policies.relative_guard import Lately
from jobwise.sim.simulation import Simulation
from jobwise.simulate import asked, record, simulate
from jobwise.workload import workload


@pytest.fixture(scope="module")
def log():
    return jw.lublin(jobs=2200, procs=64, seed=1, load=0.95, estimates="users", users=12)


NAMES = [
    "saf+easy+guard0.8x",
    "smith+easy+guard1.2x",
    "unicef+guard0.5x",
    "sjf+easy+predicted",
    "wfp3+predicted+guard9h",
    "unicef+easy+predicted+guard1x",
    "gated:unicef+easy,smith+easy,smith-aged+easy+guard1x",
    "gated:lxf+easy+guard0.8x,smith+easy+guard1.2x,sjf+easy,1.5x",
]


@pytest.mark.parametrize("name", NAMES)
def test_compiled_and_asked_decide_the_same(log, name):
    part = log.take(slice(1200, 1700))
    assert resolve(name).name == name
    fast, policy, sim = simulate(part, name), resolve(name), Simulation(part)
    assert policy.is_compiled(part.cluster)
    looks = drained(asked(sim, policy))
    slow = record(sim.state, 0, part, part.cluster, policy)
    assert np.array_equal(fast.jobs["start"], slow.jobs["start"])
    if name.startswith("gated"):
        assert fast.looks == tuple(looks) and len(fast.looks) >= 1


def test_a_relative_guard_keeps_waits_near_those_of_fcfs(log):
    fcfs = simulate(log, "fcfs+easy").summary()["max_wait"]
    free = simulate(log, "saf+easy").summary()["max_wait"]
    found = [simulate(log, f"saf+easy+guard{t}x").summary()["max_wait"] for t in (0.3, 1)]
    assert free > 2 * fcfs
    assert found[0] < found[1] < free and found[0] < 1.5 * fcfs


def test_lately_is_the_longest_wait_of_first_come_first_served(log):
    """With everything ended it is that of a replay; jobs that still wait count with their wait so far."""
    part = log.take(slice(0, 1500))
    r = simulate(part, "fcfs+easy")
    past = np.zeros(0, past_dtype)
    wait = (r.jobs["start"] - r.jobs["submit"]).max()
    assert Lately(past, part.cluster).look(r.jobs, float(r.jobs["end"].max())) == pytest.approx(wait)
    assert Lately(past, part.cluster).look(r.jobs[:0], 0.0) == 0.0
    cluster = jw.pool(2)
    w = workload([0, 1, 5], [2, 2, 2], [100, 10, 10], cluster=cluster)
    jobs = w.jobs.copy()
    jobs["start"][0], jobs["due"][0] = 0, 100
    assert Lately(past, cluster).look(jobs, 50.0) == pytest.approx(49.0)  # half of the request is over: the next starts at 50


def test_a_gate_falls_back_until_enough_has_ended(log):
    few = log.take(slice(0, 300))
    r = simulate(few, "gated:saf+easy,smith+easy")
    assert len(few.past) == 0 and ENOUGH > 300
    assert [x.chosen for x in r.looks] == ["saf+easy"] and "ended" in r.looks[0].reason
    assert np.array_equal(r.jobs["start"], simulate(few, "saf+easy").jobs["start"])


def test_a_gate_switches_where_a_candidate_is_plainly_better(log):
    part = log.take(slice(1500, 2000))
    r = simulate(part, "gated:ljf+easy,saf+easy")
    assert r.looks[0].chosen == "saf+easy" and r.looks[0].ratio < 0.7 and "better" in r.looks[0].reason
    assert np.array_equal(r.jobs["start"], simulate(part, "saf+easy").jobs["start"])
    same = simulate(part, "gated:saf+easy,ljf+easy")
    assert [x.chosen for x in same.looks] == ["saf+easy"]


def test_a_bound_excludes_who_starves(log):
    part = log.take(slice(1500, 2000))
    free = simulate(part, "gated:fcfs+easy,saf+easy").looks[0]
    bound = simulate(part, "gated:fcfs+easy,saf+easy,1x").looks[0]
    assert free.chosen == "saf+easy" and bound.chosen == "fcfs+easy" and bound.longest <= bound.bound
    last = simulate(part, "gated:sjf+easy,saf+easy,1x").looks[0]  # not even the fallback keeps the bound
    assert last.chosen == "fcfs+easy"


def test_a_gate_replays_jobs_that_ended_and_nothing_else(log):
    part = log.take(slice(1500, 1600))
    gate = Gate([resolve("fcfs+easy"), resolve("saf+easy")], 1.2)
    recent = np.sort(part.past, order="submit")
    (w, again) = replays(recent, part.past[:0], part.cluster, gate)
    assert len(w) == len(again) == len(recent)
    assert sorted(w.truth["runtime"]) == sorted(part.past["runtime"]) and (part.past["end"] < 0).all()
    assert len(replays(recent, part.past[:0], part.cluster, Gate(gate.candidates))) == 2 * 8


def test_predictions_and_truths_take_the_place_of_requests_in_the_order(log):
    exact = log.take(slice(None))
    exact.jobs["walltime"] = exact.truth["runtime"]
    same = simulate(exact, "saf").jobs["start"]
    assert np.array_equal(simulate(log, "saf+actual").jobs["start"], same)
    assert not np.array_equal(simulate(log, "saf").jobs["start"], same)
    found = {e: simulate(log, f"sjf+easy-sjbf{e}").summary()["bounded_slowdown"] for e in ("", "+predicted", "+actual")}
    assert found["+actual"] < found["+predicted"] != found[""]
    area = [simulate(log, f"saf+easy{e}").summary()["bounded_slowdown"] for e in ("+actual", "+predicted", "")]
    assert area == sorted(area)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("gated:", "empty name"),
        ("gated:saf+easy", "at least one candidate"),
        ("gated:saf+easy,fcfs+conservative", "cannot be replayed"),
        ("gated:saf+easy,sjf+easy,0.5x", "1 or more"),
        ("gated:saf+easy,,sjf+easy", "empty name"),
        ("smith+easy+predicted", "does not go with orders that know"),
        ("saf+conservative+predicted", "needs built-in"),
        ("saf+easy+guard0x", "more than 0"),
        ("saf+guard1x+guard2x", "two choices"),
    ],
)
def test_nonsense_is_one_line(name, says):
    with pytest.raises(InputError, match=says):
        resolve(name)


def test_relative_guards_and_gates_take_pools():
    w = jw.lublin(jobs=30, procs=8, seed=0)
    nodes = jw.nodes(8, processors=1)
    for name in ("saf+easy+guard1x", "gated:saf+easy,sjf+easy"):
        with pytest.raises(InputError, match="pool"):
            simulate(w, name, nodes)


def stubbed(monkeypatch, gate, told):
    """What a gate judges where candidate k does `told[k]`: (bounded slowdowns of the blocks, longest waits [shakes], s)."""
    from jobwise.policies import gate as module

    replicas = replays(np.sort(gate_past(), order="submit"), gate_past()[:0], jw.pool(64), gate)
    names, per = [p.name for p in gate.candidates], len(replicas) // gate.shakes
    order = iter([*names, *names])

    def trial(bench, rule, weights, trials, which, times, pieces):
        blocks, longest = told[names.index(next(order))]
        found = np.zeros((len(which), module.replay_batch.RESULTS + pieces))
        found[:, module.replay_batch.RESULTS :] = np.resize(np.asarray(blocks, float), (len(which), pieces))
        if per > 1:
            found[:, module.replay_batch.RESULTS] = np.resize(np.asarray(blocks, float), len(which))
        found[:, module.replay_batch.LONGEST] = np.repeat(longest, per)
        return found

    monkeypatch.setattr(module.replay_batch, "trial", trial)
    return gate._judge(replicas)


def gate_past():
    w = jw.lublin(jobs=700, procs=64, seed=1, load=0.9)
    return w.take(slice(600, None)).past


def test_a_gate_switches_only_where_a_candidate_is_better_by_more_than_chance(monkeypatch):
    even, uneven = [10.0] * 8, [5, 15, 3, 16, 4, 17, 2, 14]  # a mean of 9.5, block by block half or twice as much
    gate = Gate([resolve("fcfs+easy"), resolve("saf+easy")])
    calm = [0.0, 0.0]
    assert stubbed(monkeypatch, gate, [(even, calm), (uneven, calm)]).chosen == "fcfs+easy"
    assert stubbed(monkeypatch, gate, [(even, calm), ([9.5, 9.4, 9.6, 9.5, 9.4, 9.5, 9.6, 9.5], calm)]).chosen == "saf+easy"


def test_a_gates_bound_is_that_of_the_replicas_together_not_of_the_kindest(monkeypatch):
    gate = Gate([resolve("fcfs+easy"), resolve("saf+easy")], 1.2)
    fine, better = [10.0] * 8, [5.0] * 8
    replicas = replays(np.sort(gate_past(), order="submit"), gate_past()[:0], jw.pool(64), gate)
    from jobwise.sim import replay_batch

    fcfs = replay_batch.prepare(replicas).longest
    bound = 1.2 * max(fcfs.mean(), 3600.0)
    assert stubbed(monkeypatch, gate, [(fine, fcfs), (better, [0.9 * bound, 0.9 * bound])]).chosen == "saf+easy"
    assert stubbed(monkeypatch, gate, [(fine, fcfs), (better, [0.5 * bound, 1.9 * bound])]).chosen == "fcfs+easy"


def test_a_gate_looks_at_the_jobs_that_were_submitted_last(monkeypatch):
    from jobwise.policies import gate as module

    class Seen(Exception):
        pass

    def looking(recent, before, *more):
        raise Seen(recent, before)

    monkeypatch.setattr(module, "replays", looking)
    past = np.sort(gate_past(), order="end")
    with pytest.raises(Seen) as found:
        Gate([resolve("fcfs+easy"), resolve("saf+easy")], trail=ENOUGH + 20).choose(past, jw.pool(64), 0)
    recent, before = found.value.args
    latest = np.sort(past["submit"])[-(ENOUGH + 20) :]
    assert np.array_equal(np.sort(recent["submit"]), latest) and (before["end"] < recent["submit"][0]).all()


def test_a_gate_leaves_out_jobs_that_are_larger_than_the_machine_is_now():
    """A machine may have been larger: its jobs of then are nobody's to replay."""
    past = np.sort(gate_past(), order="end")
    past["size"][::20] = 128
    policy, look = Gate([resolve("fcfs+easy"), resolve("saf+easy")]).choose(past, jw.pool(64), 0)
    assert look.chosen == policy.name and np.isfinite(look.longest)

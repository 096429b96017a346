"""Promises about waits and the express lane: the shadow, who is urgent, who is express; nothing that is known too early.

Modules: compare/bounds.py, policies/promised.py, policies/recommended.py, sim/lists/ranked.py, sim/pool/deadlines.py,
sim/pool/promised_pass.py.
"""

import json
from dataclasses import replace

import naive
import numpy as np
import pytest
from conftest import drained, random_workload
from hypothesis import given, settings
from hypothesis import strategies as st

import jobwise as jw
from jobwise.cli import run
from jobwise.errors import InputError
from jobwise.jobs import past_dtype
from jobwise.metrics import wait
from jobwise.policies.names import resolve
from jobwise.policies.replay import remembering
from jobwise.sim.lists import ranked
from jobwise.sim.pool import deadlines, promise, promised_pass, scored_pool
from jobwise.sim.simulation import Simulation
from jobwise.simulate import asked, record, simulate
from jobwise.testing import check_policy
from jobwise.workloads.gpu import on_nodes

pytestmark = pytest.mark.xdist_group("forecast")


def believing(w):
    """The same jobs after three hundred that ran for as long as they had asked, none of which waited: requests are believed."""
    past = np.zeros(300, past_dtype)
    past["submit"] = np.arange(300) * 1e4 - 1e7
    past["runtime"] = past["walltime"] = np.random.default_rng(0).integers(20, 9000, 300)
    past["size"], past["end"] = 1, past["submit"] + past["runtime"]
    return replace(w, past=past)


def promised(express=0.0, promise=1.1):
    return replace(resolve("smith+easy"), label="mine", express=express, promise=promise)


def ran(w, policy, at_every=lambda s, b: None):
    """A replay, instant by instant; its memory."""
    sim = Simulation(w)
    b = remembering(sim.state, 0, policy, w.past)
    while scored_pool.run(sim.state, 0, b, policy.rule, 1):
        at_every(sim.state, b)
    return b, sim.state


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_the_shadow_of_who_knows_run_times_is_fcfs_with_easy(seed):
    w = random_workload(np.random.default_rng(seed), jobs=60, procs=8)
    w.jobs["walltime"] = np.maximum(w.truth["runtime"], 1.0)
    b, s = ran(believing(w), promised())
    promise.catch_up(b.promise, 1e9)
    fcfs = simulate(w, "fcfs+easy")
    assert np.allclose(b.promise.s.jobs[0]["start"], fcfs.jobs["start"], atol=1e-6)
    promise.foresee(b.promise, 1e9)
    assert b.promise.due["bound"] == pytest.approx(np.maximum(np.maximum.accumulate(wait(fcfs)), promise.LEAST))


def test_the_shadow_learns_how_long_jobs_ran():
    """It believed in 100 s; when the first job ends after 10 s here, it ends there."""
    w = jw.workload([0, 0, 0], [4, 4, 4], [10, 20, 30], [100, 100, 100], cluster=jw.pool(4))
    b, s = ran(believing(w), promised())
    promise.catch_up(b.promise, 1e9)
    assert b.promise.s.jobs[0]["start"].tolist() == [0, 10, 30]


def test_urgent_jobs_go_first_and_express_ones_before_them():
    """A wide job and a stream of narrow ones that smith prefers: without a promise the wide one is last."""
    rows = [(0.0, 4, 1000.0), (1.0, 4, 1000.0)] + [(2.0 + 50 * i, 1, 200.0) for i in range(200)]
    submit, size, run = (np.array(x) for x in zip(*rows, strict=True))
    w = jw.workload(submit, size, run, cluster=jw.pool(4))
    waits = {p: float(wait(simulate(w, q))[1]) for p, q in (("none", promised(promise=np.inf)), ("promise", promised()))}
    fcfs = float(wait(simulate(w, "fcfs+easy"))[1])
    assert waits["promise"] <= fcfs * 1.3 and waits["none"] > 3 * waits["promise"]
    order = resolve("ljf+easy")
    kept, free = (wait(simulate(w, p)).max() for p in (replace(order, promise=1.0), order))
    assert kept <= free


@pytest.mark.parametrize("slack", [0.3, 0.7, 1.5])
def test_a_deadline_is_so_many_times_the_longest_wait_so_far(slack):
    """Of the jobs that were submitted up to it, in the virtual schedule; urgent are those that are planned near it."""
    w = jw.lublin(400, procs=64, seed=5, load=1.1, estimates="users")
    checked, urgent = [0], [0]

    def look(s, b):
        m, now = b.promise.memory[0], float(s.sims["now"][0])
        rows = b.item["row"][: int(b.count[0])]
        if m["renewed"] != now or len(rows) < 2:
            return
        due, shadow = b.promise.due, b.promise.s.jobs[0]["start"]
        bound = np.maximum.accumulate(due["bound"][: int(m["bounded"])])
        assert np.array_equal(bound, due["bound"][: len(bound)])
        begun = np.flatnonzero(~np.isnan(shadow))
        assert (due["bound"][begun] >= shadow[begun] - w.jobs["submit"][begun] - 1e-6).all()
        known = rows[np.isfinite(due["deadline"][rows])]
        checked[0] += len(known)
        urgent[0] += int(due["urgent"][known].sum())
        assert due["deadline"][known] == pytest.approx(w.jobs["submit"][known] + (1 + slack) * due["bound"][known])
        late = due["planned"][known] > due["deadline"][known]
        assert (due["urgent"][known][late] == 1).all() and (due["limit"][known] >= due["planned"][known]).all()

    ran(w, promised(promise=1.0 + slack), look)
    assert checked[0] > 100 and urgent[0] > 10


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6))
def test_a_plan_is_that_of_the_slow_twin(seed):
    """Each job, in order, at the first time at which it fits for as long as it asks, running jobs and earlier ones beside."""
    rng, total, now = np.random.default_rng(seed), 16, 1000.0
    running, free, held = ranked.build(16), total, []
    for row in range(int(rng.integers(0, 8))):
        n = int(rng.integers(1, 5))
        if n <= free:
            free -= n
            end = now + float(rng.integers(-50, 300))
            ranked.insert(running, end, row, n, 0.0)
            held.append((now, max(end, now + 1.0), n, True))
    t = deadlines.room_for(64)
    size = deadlines.copied(t, deadlines.of_requests(t, running, free, now))
    for _ in range(12):
        n, run = int(rng.integers(1, 18)), float(rng.integers(1, 200))
        at, size = deadlines.place(t, size, n, run)
        want = naive.earliest(naive.step_function(now, free, held), n, run)
        assert at == want
        if at < np.inf:
            held.append((at, at + run, n, False))


def test_nobody_goes_ahead_where_another_would_be_late():
    """Four processors: two are free, a job of all four is due soon. A long narrow job waits, though it fits; a short one starts."""
    rows = [(0.0, 2, 2000.0), (1.0, 4, 100.0), (2.0, 2, 9000.0), (3.0, 2, 500.0)]
    submit, size, run = (np.array(x) for x in zip(*rows, strict=True))
    w = jw.workload(submit, size, run, cluster=jw.pool(4))
    order = resolve("ljf+easy+promise1.2x")
    starts = {p.name: simulate(w, p).jobs["start"] for p in (order, resolve("ljf+easy"))}
    assert starts["ljf+easy"].tolist() == [0, 9002, 2, 2000]
    assert starts[order.name].tolist() == [0, 2000, 2100, 3]
    assert simulate(w, "ljf+easy+promise3x").jobs["start"].tolist() == [0, 2000, 2100, 3]
    sim = Simulation(w)
    playing = resolve("ljf+easy+promise3x").begin(sim.view())
    for _ in range(4):
        sim.advance()
        view = sim.view()
        playing.ended(view, view.ended)
        if view.now < 3:
            sim.apply(playing.decide(view))
    why = {x["job"]: x["why"] for x in playing.explain(view)}
    assert why[1] == "must start in 0.8 h, would in 0.6 h" and "not now: job 1 would be late" in why[2] and "late" not in why[3]


@pytest.mark.parametrize("name", ["saf+easy+promise1.2x", "fcfs+easy+express2%+promise1.2x", "ljf+easy+promise1.2x"])
@pytest.mark.parametrize("seed", range(3))
def test_deadlines_are_kept_where_requests_are_exact(name, seed):
    w = jw.lublin(1500, procs=128, seed=seed, load=1.0)
    base, r = wait(simulate(w, "fcfs+easy")), wait(simulate(w, name))
    assert r.max() <= 1.2 * base.max() < wait(simulate(w, name.split("+promise")[0].replace("fcfs", "sjf"))).max()


def test_express_jobs_hold_half_of_the_machine_at_most():
    w = jw.lublin(1500, procs=64, seed=3, load=0.95)
    w = w.take(slice(500, None))
    held = []

    def look(s, b):
        lane = np.flatnonzero(b.promise.lane)
        assert b.promise.memory["held"][0] == s.jobs[0]["request"][lane, 0].sum() <= 32
        held.append(len(lane))

    b, s = ran(w, promised(express=0.1), look)
    assert max(held) > 2 and b.promise.memory["held"][0] == 0
    seen = b.memory.recent[: int(b.memory.ended[0]), 0]
    assert seen.min() <= b.promise.memory["limit"][0] < seen.max()


def test_the_lane_is_the_share_of_the_work():
    w = jw.lublin(2500, procs=64, seed=4, load=0.8)
    b, _ = ran(w, promised(express=0.2))
    recent = b.memory.recent[: min(int(b.memory.ended[0]), 2000)]
    promise.look(b.promise, b.memory._replace(ended=b.memory.ended + 100))
    inside = recent[:, 0] <= b.promise.memory["limit"][0]
    assert 0.15 < recent[inside, 1].sum() / recent[:, 1].sum() <= 0.2 and inside.mean() > 0.4


def test_names_and_refusals():
    p = resolve("smith-aged+easy+express1%+promise1.1x")
    assert (p.express, p.promise, p.name) == (0.01, 1.1, "smith-aged+easy+express1%+promise1.1x")
    assert not resolve("fcfs+easy+promise1.2x").is_static
    for bad in ("fcfs+easy+promise0.5x", "saf+conservative+promise1x", "saf+easy+express200%"):
        with pytest.raises(InputError):
            resolve(bad)
    w = jw.lublin(30, procs=16, seed=1)
    with pytest.raises(InputError, match="pools of processors"):
        simulate(on_nodes(w, 4), "saf+easy+promise1.1x")


def test_promises_do_not_peek():
    w = jw.lublin(500, procs=64, seed=2, load=0.95, estimates="users")
    w.jobs["user"] = np.random.default_rng(0).integers(0, 5, len(w))
    for name in ("saf+easy+promise1x", "smith-aged+easy+express5%+promise1.1x"):
        check_policy(name, w.take(slice(200, None)))


ASKED = [
    "fcfs+easy+promise1.1x",
    "saf+easy+guard2h+promise1.3x",
    "saf+express10%",
    "lxf+easy-sjbf+promise1x",
    "unicef+easy+predicted+promise1.2x",
    "smith+easy+express3%+promise1.1x",
    "smith-aged+easy+express1%+promise1.1x",
    "jobwise",
]


@pytest.mark.parametrize("name", ASKED)
def test_asked_view_by_view_it_decides_the_same(name):
    w = jw.lublin(2200, procs=64, seed=1, load=0.95, estimates="users", users=12).take(slice(1200, 1500))
    fast, policy, sim = simulate(w, name), resolve(name), Simulation(w)
    assert policy.name == name and policy.is_compiled(w.cluster)
    drained(asked(sim, policy))
    slow = record(sim.state, 0, w, w.cluster, policy)
    assert np.array_equal(fast.jobs["start"], slow.jobs["start"])


@pytest.mark.parametrize("name", ["jobwise", "smith+easy", "saf+easy+express3%+promise1.1x"])
@pytest.mark.parametrize("how", ["ticks", "outages"])
def test_also_with_ticks_and_outages(name, how):
    w = jw.lublin(2200, procs=64, seed=1, load=0.95, estimates="users", users=12).take(slice(1200, 1500))
    told = {"tick": 60.0} if how == "ticks" else {}
    if how == "outages":
        end = w.jobs["submit"][-1]
        down = [(end * k / 10, 0, 0) for k in range(1, 9)] + [(end * k / 10 + 600, 0, 1) for k in range(1, 9)]
        w = replace(w, cluster=w.cluster.with_outages(down))
    fast, sim = simulate(w, name, **told), Simulation(w, **told)
    drained(asked(sim, resolve(name)))
    assert np.array_equal(fast.jobs["start"], sim.state.jobs["start"][0])
    assert how == "ticks" or fast.jobs["restarts"].sum() > 3


def test_the_shadow_grows_with_the_jobs(monkeypatch):
    """Beyond the room it began with."""
    import jobwise.policies.promised as shadow

    monkeypatch.setattr(shadow, "ROOM", 64)
    w, name = jw.lublin(600, procs=64, seed=7, load=0.9, estimates="users", users=9), "saf+easy+express3%+promise1.1x"
    sim, fast = Simulation(w), simulate(w, name)
    drained(asked(sim, resolve(name)))
    assert np.array_equal(fast.jobs["start"], sim.state.jobs["start"][0])


def test_it_may_begin_in_the_middle():
    """What has happened is told to the shadow: with exact requests its starts are those of FCFS with EASY."""
    w = believing(jw.lublin(400, procs=64, seed=8, load=1.0))
    w.jobs["walltime"] = np.maximum(w.truth["runtime"], 1.0)
    fcfs, sim = simulate(w, "fcfs+easy"), Simulation(w)
    for _ in range(500):
        sim.advance()
        sim.apply(resolve("fcfs+easy").decide(sim.view()))
    run, now = promised().begin(sim.view()), sim.view().now
    while not sim.done and sim.advance():
        if len(sim.view().ended):
            run.ended(sim.view(), sim.view().ended)
        sim.apply(run.decide(sim.view()))
    q = run._promised._q
    late = fcfs.jobs["start"] > now
    assert late.sum() > 50
    assert np.allclose(q.s.jobs["start"][0, : len(w)][late], fcfs.jobs["start"][late], rtol=0, atol=1e-6)


def test_what_we_recommend():
    p = resolve("jobwise")
    assert p.name == "jobwise" and (p.promise, p.express) == (1.2, 0.02)
    w = jw.lublin(3000, procs=64, seed=5, load=0.95, estimates="users", users=9).take(slice(1500, None))
    base, kept = simulate(w, "fcfs+easy"), simulate(w, p)
    assert np.array_equal(kept.jobs["start"], simulate(w, "smith-aged+easy+express2%+promise1.2x").jobs["start"])
    assert kept.summary()["bounded_slowdown"] < 0.7 * base.summary()["bounded_slowdown"]
    assert wait(kept).max() < 1.4 * wait(base).max()
    for bad, text in (
        ("jobwise+easy", "chooses backfilling"),
        ("jobwise+promise1x", "alone"),
    ):
        with pytest.raises(InputError, match=text):
            resolve(bad)
    assert resolve("JOBWISE").name == "jobwise"
    tasks = jw.workload([0, 1], [1, 1], [5, 5], cluster=jw.pool(2), edges=np.array([[0, 1]]))
    with pytest.raises(InputError, match="wait for no others"):
        simulate(tasks, "jobwise")
    sim = Simulation(tasks)
    sim.advance()
    sim.advance()
    with pytest.raises(InputError, match="wait for no others"):
        resolve("jobwise").decide(sim.view())


def test_a_promise_is_explained(capsys, tmp_path):
    from jobwise.workloads.swf import write_swf

    w = jw.lublin(600, procs=64, seed=4, load=1.1, estimates="users")
    write_swf(w, tmp_path / "log.swf")
    name = "smith+easy+express2%+promise1x"
    assert run(["explain", name, str(tmp_path / "log.swf"), "--choice", "800", "--top", "99", "--json"]) == 0
    found = [x["why"] for x in json.loads(capsys.readouterr().out)["jobs"]]
    words = [x.split(":")[0] if x.split(":")[0] in ("express", "urgent") else "by order" for x in found]
    assert {"express", "urgent", "by order"} == set(words)
    assert words == sorted(words, key=["express", "urgent", "by order"].index)  # in the order in which they may start
    assert all(x.startswith("must start in") for x, word in zip(found, words, strict=True) if word == "by order")
    assert run(["explain", name, str(tmp_path / "log.swf"), "--choice", "800", "--top", "99"]) == 0
    assert "must start in" in capsys.readouterr().out


def test_a_promise_shortens_the_longest_wait(log):
    w = log("SDSC-SP2").take(slice(40_000, 50_000))
    free = simulate(w, "smith+easy")
    kept = simulate(w, "smith+easy+express1%+promise1.1x")
    base = wait(simulate(w, "fcfs+easy")).max()
    assert wait(kept).max() < 2 * base < 0.7 * wait(free).max()


@pytest.mark.parametrize("name", ["smith+easy", "general+easy", "saf+easy+guard2h"])
def test_a_promise_that_nobody_needs_changes_nothing(name):
    w = jw.lublin(600, procs=32, seed=5, load=0.9, estimates="users").take(slice(200, None))
    policy = resolve(name)
    a, b = simulate(w, policy), simulate(w, replace(policy, promise=1e9))
    assert np.array_equal(a.jobs["start"], b.jobs["start"])


def test_the_lane_is_empty_at_the_end_also_where_jobs_began_again():
    w = jw.lublin(800, procs=32, seed=6, load=0.9)
    end = w.jobs["submit"][-1]
    down = [(end * k / 10, 0, 0) for k in range(1, 9)] + [(end * k / 10 + 600, 0, 1) for k in range(1, 9)]
    w = replace(w, cluster=w.cluster.with_outages(down))
    b, s = ran(w, promised(express=0.1))
    assert s.jobs[0]["restarts"].sum() > 3 and b.promise.memory["held"][0] == 0 and not b.promise.lane.any()
    assert (b.memory.group["running"] == 0).all()


def test_what_promises_are_not_for():
    w = jw.workload([0, 1], [1, 1], [5, 5], cluster=jw.pool(2), edges=np.array([[0, 1]]))
    with pytest.raises(InputError, match="wait for no others"):
        simulate(w, "saf+easy+promise1.1x")
    wide = jw.lublin(300, procs=128, seed=1)
    small = replace(jw.lublin(100, procs=32, seed=1), past=wide.take(slice(200, None)).past)
    assert len(simulate(small, "saf+easy+promise1.1x").jobs) == 100


def test_a_report_shows_what_bounds_cost(tmp_path, capsys):
    """A curve for each order that may have a promise, guards left out; the numbers are those of simulations."""
    from jobwise.compare.bounds import BOUNDS
    from jobwise.workloads.transform import shake

    w = jw.lublin(700, procs=64, seed=4, load=1.0, estimates="users", users=9)
    c = jw.compare(w, ["fcfs+easy", "saf+easy", "saf+easy+guard2h", "fcfs+conservative", "jobwise"], replicas=2, trade_off=True)
    assert list(c.curves) == ["fcfs+easy", "saf+easy", "jobwise"]
    assert [x.bound for x in c.curves["saf+easy"]] == list(BOUNDS)
    r = [simulate(shake(w, c.jitter_s, [0, k]), "saf+easy+promise1.5x").summary() for k in range(2)]
    point = c.curves["saf+easy"][3]
    assert point.bounded_slowdown == pytest.approx(np.mean([x["bounded_slowdown"] for x in r]))
    assert point.largest == pytest.approx(max(a["max_wait"] / b["max_wait"] for a, b in zip(r, c.replays[0], strict=True)))
    assert c.to_dict()["bounds"]["jobwise"][2]["bound"] == 1.2
    c.write_report(tmp_path / "out.html")
    page = (tmp_path / "out.html").read_text()
    assert "What a bound on waits costs" in page and "Trade-off between slowdown and longest wait for several bounds" in page
    assert not jw.compare(w, ["fcfs+easy"], replicas=0).curves


def running(*jobs):
    """Running jobs (end by request, processors)."""
    blocks = ranked.build(16)
    for row, (end, n) in enumerate(jobs):
        ranked.insert(blocks, end, row, n, 0.0)
    return blocks


def test_a_second_reservation_leaves_room_for_the_first():
    """Eight processors; four are free from 100 on, all from 200 on. The first reservation takes six of them from 200 to 300.
    A job of four needs ten then: it fits only when nothing is left that frees them. One of two fits beside the first."""
    w = jw.workload([0.0], [1], [10.0], cluster=jw.pool(8))
    b, _ = ran(w, promised())
    q, blocks = b.promise, running((100.0, 4), (200.0, 4))
    q.memory["slots"] = 0
    promise.reserve(q, blocks, 6, 100.0, 0, 0.0)
    assert (q.slot[0]["at"], q.slot[0]["end"], q.slot[0]["extra"]) == (200.0, 300.0, 2)
    promise.reserve(q, blocks, 4, 100.0, 0, 0.0)
    assert q.slot[1]["at"] == np.inf
    q.memory["slots"] = 1
    promise.reserve(q, blocks, 2, 100.0, 0, 0.0)
    assert (q.slot[1]["at"], q.slot[1]["extra"]) == (200.0, 0)
    q.memory["slots"] = 1
    q.slot[0]["at"], q.slot[0]["end"] = 20.0, 90.0  # over before anything is free
    promise.reserve(q, blocks, 4, 100.0, 0, 0.0)
    assert (q.slot[1]["at"], q.slot[1]["extra"]) == (100.0, 0)


def test_a_bound_is_ten_minutes_at_least():
    w = jw.workload([0.0, 1.0, 2.0], [4, 4, 4], [100.0, 100.0, 2000.0], cluster=jw.pool(4))
    w.jobs["walltime"][:] = w.truth["runtime"]
    b, _ = ran(w, promised())
    promise.catch_up(b.promise, 1e9)
    promise.foresee(b.promise, 1e9)
    assert b.promise.due["bound"].tolist() == [600.0, 600.0, 600.0]  # they wait for 0, 99 and 198 s


def test_to_explain_a_promise_changes_nothing():
    """Whoever asks why at every instant has the same schedule, and the same bounds, deadlines and plan."""
    name = "saf+easy+express3%+promise1.1x"
    w = jw.lublin(400, procs=64, seed=5, load=1.1, estimates="users", users=9)
    kept = []
    for asks in (False, True):
        sim = Simulation(w)
        run = resolve(name).begin(sim.view())
        while not sim.done and sim.advance():
            view = sim.view()
            if len(view.ended):
                run.ended(view, view.ended)
            if asks:
                run.explain(view)  # it takes note of the events of the view
                q = run._promised._q
                known = q.memory.copy(), q.due.copy()
                run.explain(view)
                for a, b in zip(known, (q.memory, q.due), strict=True):
                    assert all(np.array_equal(a[k], b[k], equal_nan=a[k].dtype.kind == "f") for k in a.dtype.names)
            sim.apply(run.decide(view))
        kept.append((sim.state.jobs["start"][0].tobytes(), run._promised._q.due["deadline"].tobytes()))
    assert kept[0] == kept[1]


def test_a_run_that_begins_in_the_middle_knows_how_long_jobs_ran():
    """They asked for 1,000 s and ran for 10: who begins after their end has the virtual schedule of who was there."""
    rows = [(20.0 * i, 4, 10.0) for i in range(10)] + [(200.0, 4, 500.0), (201.0, 4, 10.0)]
    submit, size, run = (np.array(x) for x in zip(*rows, strict=True))
    w = jw.workload(submit, size, run, np.full(12, 1000.0), cluster=jw.pool(4))
    sim, policy = Simulation(w), resolve("fcfs+easy+promise1.2x")
    whole = policy.begin(sim.view())
    while sim.view().now < 200.0 and sim.advance():
        whole.ended(sim.view(), sim.view().ended)
        sim.apply(whole.decide(sim.view()))
    late = policy.begin(sim.view())
    late.decide(sim.view())
    a, b = (x._promised._q.s.jobs["start"][0, :10] for x in (whole, late))
    assert a.tolist() == b.tolist() == [20.0 * i for i in range(10)]


def test_forecasts_are_made_for_those_whom_no_guard_holds():
    """Who has waited for longer than the guard goes first by that alone: no forecast is spent on it, and the order holds."""
    w = jw.lublin(500, procs=64, seed=3, load=1.2, estimates="users", users=9)
    name = "smith+easy+guard1h+express3%+promise1.1x"
    sim, fast = Simulation(w), simulate(w, name)
    drained(asked(sim, resolve(name)))
    assert np.array_equal(fast.jobs["start"], sim.state.jobs["start"][0])


def test_who_goes_ahead_spends_the_room_of_the_others():
    """A job of 60 s fits a room of 100 s and leaves 40; the next of 60 s has to be looked at, and does not spend it unseen."""
    w = jw.lublin(400, procs=64, seed=5, load=1.1, estimates="users")
    seen = []

    def look(s, b):
        m = b.promise.memory[0]
        for i in range(int(b.count[0])):
            x = b.item[i]
            planned = b.promise.due[x["row"]]["planned"]
            if seen or x["score"] == -np.inf or x["plain"] <= promise.URGENT or planned <= s.sims["now"][0]:
                continue
            before = m["room"], m["soft_room"]
            m["room"] = m["soft_room"] = 1.5 * x["run"]
            assert promised_pass.late_by(s, 0, b, i) == promised_pass.FITS
            seen.append((m["room"] / x["run"], m["soft_room"] / x["run"]))
            m["room"], m["soft_room"] = before

    ran(w, promised(), look)
    assert seen == [(pytest.approx(0.5), pytest.approx(0.5))]

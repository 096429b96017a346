"""No policy and no encoder knows what a scheduler cannot: not from the truth, nor from the order of ends, nor from the future."""

from dataclasses import replace

import numpy as np
import pytest
from conftest import random_workload

import jobwise as jw
from jobwise.cluster import nodes, pool
from jobwise.policies.loglinear import INDICES
from jobwise.policies.names import resolve
from jobwise.sim.lists.orders import CODES
from jobwise.sim.simulation import Simulation
from jobwise.testing import check_policy, poison, restore
from jobwise.workload import workload
from jobwise.worlds.window.settings import WindowSettings

MORE = [
    "sjf+conservative",
    "wfp3+easy-sjbf+guard2h",
    "sjf+greedy+commit",
    "sjf+easy+predicted",
    "lxf+easy+predicted+guard1h",
    "general+easy",
    "jobwise",
]


@pytest.fixture(scope="module")
def log():
    return jw.lublin(jobs=1500, procs=64, seed=1, load=1.0, estimates="users", users=12)


@pytest.fixture(scope="module")
def short(log):
    return log.take(slice(900, 1300))


@pytest.mark.parametrize("order", [*CODES, *INDICES])
def test_orders_do_not_peek(order, short):
    check_policy(f"{order}+easy", short, long_jobs=2, passes=20)


@pytest.mark.parametrize("name", MORE)
def test_policies_do_not_peek(name, short):
    check_policy(name, short, long_jobs=2, passes=20)


@pytest.mark.xdist_group("learning")
def test_trained_policies_do_not_peek(short):
    from jobwise.policies.networks import Forward
    from jobwise.worlds.window import encoders
    from jobwise.worlds.window.policy import WindowPolicy

    rng, N = np.random.default_rng(0), short.cluster.processors
    encoder = encoders.make("perjob", short.cluster, short.jobs, 16)
    shape = {"net.0.weight": (8, 15), "net.0.bias": (8,), "net.2.weight": (1, 8), "net.2.bias": (1,)}
    weights = {k: rng.normal(size=v).astype(np.float32) for k, v in shape.items()}
    check_policy(WindowPolicy(Forward({"kind": "perjob", "sizes": [15, 8, 1]}, weights), encoder), short, 2, 20)
    encoder = encoders.make("sem", short.cluster, short.jobs, 10, largest=8)
    rows = encoder.shape[0]
    weights = {"filter.weight": rng.normal(size=(1, 2)), "filter.bias": rng.normal(size=1)}
    weights |= {
        "net.0.weight": rng.normal(size=(12, rows)),
        "net.2.weight": rng.normal(size=(10, 12)),
        "net.2.bias": rng.normal(size=10),
    }
    weights = {k: v.astype(np.float32) for k, v in weights.items()}
    forward = Forward({"kind": "rows", "sizes": [rows, 12, 10]}, weights)
    check_policy(WindowPolicy(forward, encoder, WindowSettings("reserve")), short, 2, 20)
    assert N == 64


@pytest.mark.parametrize("name", ["sjf+easy+actual", "sjf+easy-oracle"])
def test_those_who_know_run_times_are_caught(name, short):
    with pytest.raises(AssertionError, match="times as long"):
        check_policy(name, short, long_jobs=6, passes=0)


def test_a_users_peeking_policy_is_caught(short):
    class Peeks:
        """Starts first what is most like the last job to come: it has found the rest of the table behind the view."""

        def reset(self, view): ...

        def ended(self, view, rows): ...

        def decide(self, view):
            whole, free = view.table.base[0], view.free.sum()
            come = whole["walltime"][-1]
            for job in sorted(view.queue, key=lambda j: abs(view.jobs["walltime"][j] - come)):
                if view.jobs["request"][job, 0] <= free:
                    free -= view.jobs["request"][job, 0]
                    yield jw.Start(int(job))

    with pytest.raises(AssertionError, match="later jobs are others"):
        check_policy(Peeks(), short, long_jobs=2, passes=0)


def test_the_first_running_row_ends_next_no_more_often_than_by_chance():
    w = jw.lublin(jobs=1200, procs=128, seed=3, load=1.0, estimates="users")
    policy, sim, first, chance, seen = resolve("fcfs+easy"), Simulation(w), 0, 0.0, 0
    while sim.advance():
        view = sim.view()
        if len(view.running) > 1:
            finish = sim.state.truth[0]["finish"][view.running]
            first += finish[0] == finish.min()
            chance += (finish == finish.min()).mean()
            seen += 1
        assert (np.diff(view.running) > 0).all()
        sim.apply(policy.decide(view))
    assert seen > 500 and first <= chance


def test_views_hide_outages_to_come_and_are_read_only():
    machine = nodes(4, cpus=2).with_outages([(5.0, 1, 0), (9.0, 1, 1)])
    w = workload([0, 1, 2], [2, 2, 2], [10, 10, 10], cluster=machine)
    sim = Simulation(w)
    sim.advance()
    view = sim.view()
    assert len(view.cluster.outages) == 0 and len(sim.cluster.outages) == 2
    for name in ("jobs", "slices"):
        assert not getattr(view, name).flags.writeable


def test_a_hidden_state_gives_the_same_view():
    """The poison of the test above reaches whatever is hidden: a view made of the poisoned state is the same."""
    w = random_workload(np.random.default_rng(4), jobs=40)
    sim, policy, rng = Simulation(w), resolve("sjf+easy"), np.random.default_rng(0)
    moved = 0
    while sim.advance():
        clean, before = sim.view(), sim.state.lists.copy()
        saved = poison(sim.state, rng)
        moved += not np.array_equal(before, sim.state.lists)
        assert np.isnan(sim.state.truth["runtime"]).all()
        hidden = sim.view()
        for field in ("jobs", "queue", "running", "ended", "free"):
            assert getattr(clean, field).tobytes() == getattr(hidden, field).tobytes(), field
        restore(sim.state, saved)
        sim.apply(policy.decide(clean))
    assert moved > 5


def test_history_of_a_log_without_waits_comes_from_a_replay():
    """A window's past holds no job that had not ended under first come, first served with EASY."""
    w = jw.lublin(jobs=1500, procs=64, seed=2, load=1.1, estimates="users")
    r = jw.simulate(w, "fcfs+easy")
    part = w.take(slice(1000, None))
    now = w.jobs["submit"][1000]
    ended = r.jobs["end"][:1000] < now
    assert len(part.past) == (r.jobs["end"] < now).sum() and ended.sum() < 990
    assert part.past["end"].max() < 0 and np.allclose(
        np.sort(part.past["runtime"]), np.sort(w.truth["runtime"][r.jobs["end"] < now])
    )
    naive = (w.jobs["submit"] + w.truth["runtime"] < now).sum()
    assert naive > len(part.past)  # what was counted before


def test_gpu_kinds_do_not_tell_run_times():
    from jobwise.workloads.gpu import kind_of, on_nodes

    assert kind_of(np.array([1, 2, 4, 8, 16, 3])).tolist() == [0, 1, 0, 1, 0, 1]
    w = jw.lublin(jobs=200, procs=64, seed=1)
    other = jw.lublin(jobs=200, procs=64, seed=1)
    other.truth["runtime"] *= 2
    assert np.array_equal(on_nodes(w, 8).jobs["kind"], on_nodes(other, 8).jobs["kind"])
    assert pool(4).is_pool


def moved(w, policy, shares=(0.3, 0.6), seed=0):
    """How many starts before a time T, or ends, are others where jobs that had not ended at T run for longer: of the jobs of a
    world of rows, whose policies have no conformance kit. Requests stay."""
    rng, r = np.random.default_rng(seed), jw.simulate(w, policy)
    count = 0
    for share in shares:
        now = float(np.quantile(r.jobs["start"][~np.isnan(r.jobs["start"])], share))
        truth = w.truth.copy()
        late = ~(r.jobs["end"] <= now)
        truth["runtime"][late] *= rng.uniform(1.5, 4.0, int(late.sum()))
        if "left" in (truth.dtype.names or ()):
            truth["left"] = truth["runtime"]
        other = jw.simulate(replace(w, truth=truth), policy)
        for key in ("start", "end"):
            before = r.jobs[key] <= now
            count += int((r.jobs[key][before] != other.jobs[key][before]).sum())
        assert late.sum() > 3 and not np.array_equal(r.jobs["end"], other.jobs["end"], equal_nan=True)
    return count


def asking(w, seed=1):
    """The same jobs, which ask for up to three times what they take."""
    jobs = w.jobs.copy()
    jobs["walltime"] = w.truth["runtime"] * np.random.default_rng(seed).uniform(1.0, 3.0, len(w))
    return replace(w, jobs=jobs)


@pytest.mark.xdist_group("learning")
@pytest.mark.parametrize("rule", ["slot", "both", "sjf", "tetris", "fair", "greedy", "srpt", "las"])
def test_rules_of_gpus_do_not_peek(rule):
    """Run times are known to the simulator alone: what is left of a job is what it asked for less what was done."""
    assert moved(asking(jw.rltaps(60, 3)), f"gpus:{rule}") == 0


def test_whoever_knows_what_is_left_of_gpu_jobs_is_caught():
    """A control: told the run times as requests, the rule that goes by what is left starts others."""
    w = asking(jw.rltaps(60, 3))
    jobs = w.jobs.copy()
    jobs["walltime"] = w.truth["runtime"]
    a, b = (jw.simulate(x, "gpus:sjf").jobs["start"] for x in (w, replace(w, jobs=jobs)))
    assert not np.array_equal(a, b, equal_nan=True)


@pytest.mark.xdist_group("learning")
@pytest.mark.parametrize("rule", ["lb", "fewest", "greedy", "learned", "patient"])
def test_rules_of_nodes_do_not_peek(rule):
    from jobwise.policies.names import resolve as named

    for seed in (0, 1):
        w = jw.affinities(seed=seed)
        late = w.jobs["submit"] > np.median(w.jobs["submit"])
        jobs = w.jobs.copy()
        jobs["submit"][late] += 1.0  # later arrivals are others
        r, other = (jw.simulate(x, named(f"nodes:{rule}")) for x in (w, replace(w, jobs=jobs)))
        now = float(np.median(w.jobs["submit"]))
        before = r.jobs["start"] <= now
        assert before.sum() > 5 and np.array_equal(r.jobs["start"][before], other.jobs["start"][before]), rule


def test_the_recommended_policy_does_not_peek(log):
    check_policy("jobwise", log.take(slice(700, 1200)), long_jobs=2, passes=10)


def test_orders_of_workflows_do_not_peek():
    from test_models import flow_of

    from jobwise.workloads.streams import stream

    flows = [flow_of(n) for n in (60, 90, 40, 70)]
    w = stream(flows, [0, 20, 60, 90], 8)
    w = asking(w)
    for rule in ("flow-work", "flow-sjf", "flow-bound", "rank", "flow-work+reserve0.1x10s"):
        assert moved(w, rule) == 0, rule


def test_the_rule_of_an_origin_is_chosen_on_the_jobs_before_it(monkeypatch):
    """Whatever a baseline replays to be chosen came before the origin."""
    from jobwise.compare import baselines
    from jobwise.compare.origins import origins

    w, seen = jw.lublin(jobs=1200, procs=64, load=0.9, seed=5, estimates="users"), []
    real = baselines.simulate

    def noticing(x, *more, **settings):
        seen.append(float(x.offset + x.jobs["submit"].max()))
        return real(x, *more, **settings)

    monkeypatch.setattr(baselines, "simulate", noticing)
    for count in (2, 1):
        seen.clear()
        o = origins(w, ["fcfs+easy"], count, window_jobs=60, replicas=1, jitter_s=5.0)
        latest = w.jobs["submit"][int(o.at[-1] * len(w)) - 1]
        assert len(seen) > 50 and max(seen) <= latest + 5.0

"""The graph network over the tasks of workflows: messages by hand, the rule it begins as, tasks kept waiting, files, search."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_listing import Asked
from test_workflows import random_flow

import jobwise as jw
from jobwise.cli.main import run
from jobwise.errors import InputError
from jobwise.metrics import workflows
from jobwise.policies import flow_net
from jobwise.policies.flow_net import BASES, FlowNet
from jobwise.policies.list_scheduler import ListScheduler
from jobwise.policies.names import load, resolve
from jobwise.sim.dag import graph
from jobwise.sim.flow_net import ALL, FLOW, HEADS, OWN, ROUNDS, D, N, asked, blank, embedded
from jobwise.sim.flows import flows as sim_flows
from jobwise.workloads.gpu import on_nodes
from jobwise.workloads.streams import flows_of, stream


def random_stream(seed, cores=8, most=25):
    rng = np.random.default_rng(seed)
    flows = [random_flow(rng, int(rng.integers(1, most))) for _ in range(int(rng.integers(1, 6)))]
    cores = max([cores, *(int(f.tasks["cores"].max()) for f in flows)])
    return stream(flows, np.sort(rng.uniform(0, 60, len(flows))), cores)


def random_net(seed, size=0.5):
    return blank(seed) + np.random.default_rng([seed, 1]).normal(0, size, N)


def test_messages_by_hand():
    """Plain Python, edge by edge."""
    w = random_stream(5)
    net, J, units = random_net(3), len(w), w.cluster.processors
    g, f = graph(J, w.edges), sim_flows(w.jobs)
    jobs, span = w.jobs, np.maximum(w.jobs["walltime"], 1.0)
    rank = np.maximum(jobs["rank"], span)
    children, parents = ([[] for _ in range(J)] for _ in range(2))
    for a, b in w.edges.tolist():
        children[a].append(b)
        parents[b].append(a)
    x = np.zeros((J, OWN))
    for j in range(J):
        kin = np.flatnonzero(jobs["flow"] == jobs["flow"][j])
        x[j] = [np.log(span[j]) / 10, np.log(jobs["request"][j, 0] + 1) / np.log(units + 1), rank[j] / rank[kin].max(),
                span[j] / span[kin].max(), np.log(len(children[j]) + 1) / 5, np.log(len(parents[j]) + 1) / 5,
                jobs["level"][j] / max(jobs["level"][kin].max(), 1)]  # fmt: skip
    at = OWN * D + D
    h = np.maximum(x @ net[: OWN * D].reshape(OWN, D) + net[OWN * D : at], 0)
    for _ in range(ROUNDS):
        A, B, C = net[at : at + 3 * D * D].reshape(3, D, D)
        b, new = net[at + 3 * D * D : at + 3 * D * D + D], np.zeros((J, D))
        for j in range(J):
            below = h[children[j]].mean(axis=0) if children[j] else np.zeros(D)
            above = h[parents[j]].mean(axis=0) if parents[j] else np.zeros(D)
            new[j] = np.maximum(h[j] @ A + below @ B + above @ C + b, 0)
        h, at = new, at + 3 * D * D + D
    assert at == HEADS
    assert embedded(jobs, f.of, f.table, g.first, g.child, net, units) == pytest.approx(h)
    flow, cluster = np.array([0.3, 0.2, -0.1, 0.5]), np.array([0.9, 0.4, 0.2])
    U, V = net[HEADS : HEADS + FLOW * D].reshape(FLOW, D), net[HEADS + FLOW * D : HEADS + (FLOW + ALL) * D].reshape(ALL, D)
    o1, o2 = net[N - 2 * D - 2 : N - D - 1], net[N - D - 1 :]
    for j in range(J):
        z = np.maximum(h[j] + flow @ U + cluster @ V, 0)
        more, free = asked(net, h[j], tuple(flow), tuple(cluster))
        assert more == pytest.approx(z @ o1[:D] + o1[D])
        assert free == pytest.approx(min(max(0.5 * (z @ o2[:D] + o2[D]), 0), 0.9))


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from(BASES), st.booleans())
def test_it_begins_as_the_rule(seed, base, reserve):
    w = random_stream(seed)
    more = {"reserve": (0.25, 20.0)} if reserve else {}
    rule, net = ListScheduler(base, **more), ListScheduler(FlowNet("net", blank(seed % 7), base), **more)
    assert np.array_equal(jw.simulate(w, rule).jobs["start"], jw.simulate(w, net).jobs["start"])


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.floats(0.0, 3.0))
def test_whole_replays_are_what_views_decide_and_nothing_is_left(seed, size):
    w = random_stream(seed, most=12)
    policy = ListScheduler(FlowNet("net", random_net(seed % 100, size), "flow-work"))
    r = jw.simulate(w, policy)
    begin, end = r.jobs["start"], r.jobs["end"]
    assert not np.isnan(end).any() and all(begin[b] >= end[a] for a, b in w.edges)
    assert np.array_equal(begin, jw.simulate(w, Asked(policy)).jobs["start"])


def test_a_task_waits_while_its_start_would_leave_too_little():
    net = blank()
    net[N - 1] = 1.0  # every task asks that half of the machine stays free
    w = random_stream(11, cores=10)
    r = jw.simulate(w, ListScheduler(FlowNet("half", net, "flow-work")))
    begin, end, size = r.jobs["start"], r.jobs["end"], w.jobs["request"][:, 0]
    waited = 0
    for t in np.unique(begin):
        running = size[(begin <= t) & (end > t)].sum()
        alone = ((begin <= t) & (end > t)).sum() == 1
        assert alone or running <= w.cluster.processors / 2
        waited += alone
    free = jw.simulate(w, "flow-work")
    assert workflows(r)["slowdown"].mean() > workflows(free)["slowdown"].mean()


def test_rows_may_come_in_any_order():
    (f,) = flows_of(random_stream(21, most=60))[:1]
    p = np.random.default_rng(0).permutation(len(f))
    back = np.argsort(p)
    other = type(f)("shuffled", f.tasks[p], back[f.edges], tuple(f.names[i] for i in p), f.programs)
    a, b = (stream([x], cluster=8) for x in (f, other))
    x, y = (FlowNet("net", random_net(1), "flow-work").attach(w.jobs, w.edges, 8).seen for w in (a, b))
    assert x[p] == pytest.approx(y)


def test_files_and_names(tmp_path):
    order = FlowNet("mine", random_net(2), "flow-sjf", {"start": "flow-sjf"})
    flow_net.save(order, (0.1, 60.0), tmp_path / "policy.safetensors")
    w, found = random_stream(3), resolve(str(tmp_path))
    assert found.name.endswith("reserve0.1x60s") and found.about["start"] == "flow-sjf"
    one = ListScheduler(order, reserve=(0.1, 60.0))
    assert np.array_equal(jw.simulate(w, found).jobs["start"], jw.simulate(w, one).jobs["start"])
    for wrong in ({"shape": [1]}, {"base": "rank"}, {"reserve": ["x", 1]}, {"reserve": [2.0, 1.0]}):
        meta, weights, *_ = jw.policies.files.read(tmp_path)
        jw.policies.files.write(tmp_path / "bad.safetensors", meta | wrong, weights)
        with pytest.raises(InputError, match=r"bad\.safetensors"):
            load(tmp_path / "bad.safetensors")
    for net, base in ((np.zeros(3), "flow-work"), (np.full(N, np.nan), "flow-work"), (blank(), "sjf")):
        with pytest.raises(InputError, match="order x"):
            FlowNet("x", net, base)
    with pytest.raises(InputError, match="pools of processors"):
        jw.simulate(on_nodes(w, 2), one)
    with pytest.raises(InputError, match="keeps tasks waiting itself"):
        ListScheduler(order, "easy")


def test_training_goes_on_where_it_was_stopped(tmp_path, capsys, monkeypatch):
    folder = tmp_path / "flows"
    folder.mkdir()
    for k in range(3):
        rows = [{"id": f"t{i}", "depends_on": [f"t{i // 2}"] if i else []} for i in range(5 + 4 * k)]
        (folder / f"w{k}.json").write_text(json.dumps({"steps": rows}))
    assert run(["train", "flow-net", str(folder), "--procs", "4", "--out", str(tmp_path / "a"), "--preset", "smoke"]) == 0
    told = capsys.readouterr().out
    assert "chosen on jobs kept back" in told
    kept = json.loads((tmp_path / "a" / "checkpoint.json").read_text())
    assert kept["state"]["generation"] == 2
    (tmp_path / "b").mkdir()
    from jobwise.systems import flow_net as system

    states = []
    real = system.write_whole

    def keep(path, data):
        states.append(data) if str(path).endswith("checkpoint.json") else None
        real(path, data)

    monkeypatch.setattr(system, "write_whole", keep)
    assert run(["train", "flow-net", str(folder), "--procs", "4", "--out", str(tmp_path / "c"), "--preset", "smoke"]) == 0
    assert [json.loads(x)["state"]["generation"] for x in states] == [1, 2]
    (tmp_path / "b" / "checkpoint.json").write_text(states[0])
    (tmp_path / "b" / "run.json").write_text((tmp_path / "a" / "run.json").read_text())
    again = ["train", "flow-net", str(folder), "--procs", "4", "--out", str(tmp_path / "b"), "--preset", "smoke", "--resume"]
    assert run(again) == 0
    a, b = (load(tmp_path / x).order.net for x in "ab")
    assert np.array_equal(a, b)
    capsys.readouterr()
    (tmp_path / "b" / "policy.safetensors").unlink()
    for wrong in ("{", '{"rule": "flow-work"}', '{"rule": "flow-work", "state": {"weights": [], "sum": []}}'):
        (tmp_path / "b" / "checkpoint.json").write_text(wrong)
        assert run(again) == 2
        error = capsys.readouterr().err
        assert "checkpoint.json" in error and error.count("\n") == 1
    assert run(["train", "flow-net", str(folder), "--procs", "4", "--out", str(tmp_path / "a"), "--preset", "smoke"]) == 2
    assert "--resume" in capsys.readouterr().err

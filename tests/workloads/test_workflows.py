"""Workflows: files, graphs, orders, bundles, signatures, HEFT, commands.

Modules: cli/workflow.py, report/graph.py, sim/dag.py, sim/lists/flows.py, workloads/bundles.py, workloads/cwl.py,
workloads/signatures.py, workloads/streams.py, workloads/wdl.py, workloads/wfformat.py.
"""

import copy
import functools
import gzip
import json
import operator
import sys

import numpy as np
import pytest
from conftest import SHARED, missing
from hypothesis import given, settings
from hypothesis import strategies as st
from naive_flows import replay

import jobwise as jw
from jobwise.cli import run
from jobwise.errors import InputError
from jobwise.sim.dag import components, earliest, graph, levels, ranks
from jobwise.sim.lists.flows import flows, note
from jobwise.workloads import cwl, wdl, wfformat
from jobwise.workloads.bundles import bundled, classes, in_two
from jobwise.workloads.signatures import signature, similarity
from jobwise.workloads.source import open_workflow
from jobwise.workloads.streams import arrivals, stream
from jobwise.workloads.workflows import Workflow, task_dtype, workflow

ORDERS = ("rank", "level", "flow-fcfs", "flow-work", "flow-sjf", "flow-bound", "flow-path", "flow-work-path", "flow-share")
FOLDER = SHARED / "traces" / "workflows"
INSTANCES = sorted(FOLDER.glob("*.json.gz")) if FOLDER.is_dir() else [None]
STRUCTURES = sorted(FOLDER.glob("*.structure.json")) if FOLDER.is_dir() else [None]


def need(path):
    return path or missing(f"no workflows in {FOLDER}")


def random_flow(rng, count=12, name="random"):
    """Small integers, many ties."""
    tasks = np.zeros(count, task_dtype)
    tasks["runtime"], tasks["cores"] = rng.integers(1, 9, count), rng.integers(1, 4, count)
    tasks["estimate"] = rng.integers(1, 9, count)
    tasks["memory"], tasks["io"] = rng.integers(0, 9, count), rng.integers(0, 9, count)
    edges = [(a, b) for a in range(count) for b in range(a + 1, count) if rng.random() < 0.2]
    return Workflow(name, tasks, np.array(edges).reshape(-1, 2), tuple(f"t{i}" for i in range(count)), ("p",))


# ------------------------------------------------------------------ files


@pytest.mark.parametrize("path", INSTANCES, ids=lambda p: p and p.name)
def test_instances_have_the_tasks_and_edges_of_their_files(path):
    told = json.loads(gzip.decompress(need(path).read_bytes()))["workflow"]
    w = jw.open_workflow(path)
    tasks = told["specification"]["tasks"]
    assert len(w) == len(tasks) and len(w.edges) == sum(len(set(t["parents"])) for t in tasks)
    seconds = {t["id"]: t["runtimeInSeconds"] for t in told["execution"]["tasks"]}
    assert dict(zip(w.names, w.tasks["runtime"], strict=True)) == seconds
    names = set(map(tuple, [(w.names[a], w.names[b]) for a, b in w.edges]))
    assert names == {(p, t["id"]) for t in tasks for p in t["parents"]}
    again = wfformat._checked("again", w.name, json.loads(wfformat.to_text(w))["workflow"], "1.5")
    assert again.names == w.names and (again.edges == w.edges).all() and (again.tasks["runtime"] == w.tasks["runtime"]).all()


def test_older_versions(tmp_path):
    """1.3 and 1.4 have everything in one list."""
    task = {
        "name": "a",
        "id": "ID1",
        "runtime": 3.5,
        "cores": 2.0,
        "memory": 1000,
        "files": [{"link": "input", "size": 5_000_000}],
    }
    child = {"name": "b", "runtimeInSeconds": 2, "parents": ["a"], "bytesRead": 1e6}
    for version in ("1.3", "1.4"):
        file = tmp_path / "w.json"
        file.write_text(json.dumps({"schemaVersion": version, "name": "w", "workflow": {"tasks": [task, child]}}))
        w = jw.open_workflow(file)
        assert w.tasks["runtime"].tolist() == [3.5, 2] and w.tasks["cores"].tolist() == [2, 1] and w.edges.tolist() == [[0, 1]]
        assert w.tasks["memory"][0] == pytest.approx(1.024) and w.tasks["io"].tolist() == [5, 1]


def test_children_alone_are_edges(tmp_path):
    tasks = [{"name": "a", "runtime": 1, "children": ["b", "c"]}, {"name": "b", "runtime": 1}, {"name": "c", "runtime": 1}]
    file = tmp_path / "w.json"
    file.write_text(json.dumps({"schemaVersion": "1.4", "name": "w", "workflow": {"tasks": tasks}}))
    assert sorted(jw.open_workflow(file).edges.tolist()) == [[0, 1], [0, 2]]
    file.write_text(file.read_text().replace('"name": "b",', '"name": "b", "parents": ["a"],'))  # said twice: one edge
    assert sorted(jw.open_workflow(file).edges.tolist()) == [[0, 1], [0, 2]]


def as_cwl(told):
    """A CWL document of a structure; what a step depends on is an input each."""
    lines = [f"cwlVersion: {(told['format'].split() + ['v1.2'])[1]}", "class: Workflow"]
    lines += ["requirements: [{class: ScatterFeatureRequirement}]", "inputs: {start: File}", "outputs: {}", "steps:"]
    for s in told["steps"]:
        sources = {f"i{k}": f"{p}/out" for k, p in enumerate(s["depends_on"])} or {"i0": "start"}
        lines += [f"  {s['id']}:", f"    run: {s['tool'] or 'tool.cwl'}", "    out: [out]", "    in:"]
        lines += [f"      {k}: {v}" for k, v in sources.items()] + (["    scatter: i0"] if s.get("scatter") else [])
    return "\n".join(lines) + "\n"


def as_wdl(told):
    lines, tasks = ["version 1.0", "workflow main {"], []
    for s in told["steps"]:
        name, inputs = s["id"].split(".")[-1], [f"i{k} = {p.split('.')[-1]}.out" for k, p in enumerate(s["depends_on"])]
        lines += [f"  call {name} {{ input: {', '.join(inputs)} }}" if inputs else f"  call {name}"]
        told_inputs = "".join(f" File i{k} " for k in range(len(inputs)))
        tasks += [
            f'task {name} {{ input {{{told_inputs}}} command <<< >>> output {{ File out = "x" }} runtime {{ cpu: 2 memory: "3 GB" }} }}'
        ]
    return "\n".join([*lines, "}", *tasks]) + "\n"


@pytest.mark.parametrize("path", STRUCTURES, ids=lambda p: p and p.name)
def test_structures_read_alike_as_they_are_and_as_documents(path, tmp_path):
    told = json.loads(need(path).read_text())
    names = {s["id"] for s in told["steps"]}
    edges = {(p, s["id"]) for s in told["steps"] for p in s["depends_on"]}
    w = jw.open_workflow(path)
    assert set(w.names) == names and {(w.names[a], w.names[b]) for a, b in w.edges} == edges
    kind, text = ("cwl", as_cwl) if told["format"].startswith("CWL") else ("wdl", as_wdl)
    file = tmp_path / f"w.{kind}"
    file.write_text(text(told))
    w = jw.open_workflow(file)
    assert {n.split(".")[-1] for n in names} == set(w.names)
    assert {(w.names[a], w.names[b]) for a, b in w.edges} == {(a.split(".")[-1], b.split(".")[-1]) for a, b in edges}


CWL = """
cwlVersion: v1.2
class: Workflow
$namespaces: {jobwise: "https://jobwise#"}
requirements: [{class: ScatterFeatureRequirement}, {class: SubworkflowFeatureRequirement}]
inputs: {a: File}
outputs: []
steps:
  split: {run: split.cwl, in: {x: a}, out: [parts]}
  blast:
    run:
      class: CommandLineTool
      baseCommand: blast
      inputs: {p: File}
      outputs: {hit: File}
      requirements: {ResourceRequirement: {coresMin: 4, ramMin: 1000}, ToolTimeLimit: {timelimit: 600}}
    scatter: p
    in: {p: split/parts}
    out: [hit]
    hints: [{class: "jobwise:Estimate", seconds: 30, count: 3}]
  merge: {run: inner.cwl, in: {hits: blast/hit}, out: [out]}
  report: {run: report.cwl, in: {x: merge/out}, out: []}
"""
INNER = """
cwlVersion: v1.2
class: Workflow
inputs: {hits: File}
outputs: {out: {type: File, outputSource: b/o}}
steps:
  a: {run: a.cwl, in: {x: hits}, out: [o]}
  b: {run: b.cwl, in: {x: a/o}, out: [o]}
"""


def edges_of(w):
    return {(w.names[a], w.names[b]) for a, b in w.edges}


@pytest.mark.parametrize(
    "tool, step, cores",
    [
        ("requirements", "requirements", 4),  # the tool is nearer
        ("hints", "requirements", 8),  # a requirement beats a hint
        ("requirements", "hints", 4),
        ("hints", "hints", 4),
    ],
)
def test_a_need_of_a_cwl_tool_beats_that_of_its_step(tool, step, cores, tmp_path):
    """CWL 1.2, 5.2: requirements override hints; of the same kind the one of the process itself counts."""
    (tmp_path / "w.cwl").write_text(
        f"cwlVersion: v1.2\nclass: Workflow\ninputs: []\noutputs: []\nsteps:\n  one:\n    in: []\n    out: []\n"
        f"    {step}: {{ResourceRequirement: {{coresMin: 8}}}}\n    run:\n      class: CommandLineTool\n"
        f"      baseCommand: x\n      inputs: []\n      outputs: []\n      {tool}: {{ResourceRequirement: {{coresMin: 4}}}}\n"
    )
    assert cwl.read(tmp_path / "w.cwl").tasks["cores"].tolist() == [cores]


def test_cwl_scatters_subworkflows_and_needs(tmp_path):
    (tmp_path / "w.cwl").write_text(CWL)
    (tmp_path / "inner.cwl").write_text(INNER)
    w = cwl.read(tmp_path / "w.cwl")
    blasts = [f"blast[{k}]" for k in range(3)]
    expected = {("split", b) for b in blasts} | {(b, "merge/a") for b in blasts} | {("merge/a", "merge/b")}
    assert edges_of(w) == expected | {("merge/b", "report")}
    task = w.tasks[w.names.index("blast[1]")]
    assert (task["runtime"], task["estimate"], task["cores"]) == (30, 600, 4) and task["memory"] == pytest.approx(1048.576)
    assert len(cwl.read(tmp_path / "w.cwl", {"blast": 7})) == len(w) + 4 and w.notes == {
        f"tool {x}.cwl not found": 1 for x in ("split", "a", "b", "report")
    }
    with pytest.raises(InputError, match="'merge' is no scattered step; those are blast"):
        cwl.read(tmp_path / "w.cwl", {"merge": 2})


WDL = """version 1.0
import "inner.wdl" as inner
workflow main {
  input { Array[File] xs }
  call split { input: x = xs[0] }
  scatter (p in split.parts) {
    Int one = 1
    call blast { input: p = p, k = one }
    call clean { input: h = blast.hit }
  }
  scatter (i in range(2)) { call four { input: i = i } }
  if (length(xs) > 1) { call merge { input: hits = clean.out, f = four.o } }
  call inner.sub { input: x = split.parts[0] }
}
task split { input { File x } command <<< >>> output { Array[File] parts = glob("*") } runtime { cpu: 2 memory: "4 GiB" } }
task blast { input { File p Int k Int c = 8 } command <<< >>> output { File hit = "h" } runtime { cpu: c } meta { jobwise_seconds: 45 } }
task clean { input { File h } command <<< >>> output { File out = "h" } }
task four { input { Int i } command <<< >>> output { File o = "h" } }
task merge { input { Array[File] hits Array[File] f } command <<< >>> output { File o = "h" } }
"""
INNER_WDL = """version 1.0
workflow sub { input { File x } call a { input: x = x } call b { input: x = a.o } output { File o = b.o } }
task a { input { File x } command <<< >>> output { File o = "h" } }
task b { input { File x } command <<< >>> output { File o = "h" } }
"""


def test_wdl_scatters_conditionals_subworkflows_and_needs(tmp_path):
    (tmp_path / "w.wdl").write_text(WDL)
    (tmp_path / "inner.wdl").write_text(INNER_WDL)
    w = wdl.read(tmp_path / "w.wdl", {"p": 2})
    pairs = {("split", f"blast[{k}]") for k in range(2)} | {(f"blast[{k}]", f"clean[{k}]") for k in range(2)}
    pairs |= {(f"{n}[{k}]", "merge") for n in ("clean", "four") for k in range(2)}
    assert edges_of(w) == pairs | {("split", "sub/a"), ("sub/a", "sub/b")}
    task = w.tasks[w.names.index("blast[0]")]
    assert (task["runtime"], task["cores"]) == (45, 8) and w.tasks["memory"][w.names.index("split")] == pytest.approx(
        4 * 1073.741824
    )
    with pytest.raises(InputError, match="no variable of a scatter"):
        wdl.read(tmp_path / "w.wdl", {"q": 2})


def test_swf_with_preceding_jobs(tmp_path):
    file = tmp_path / "w.swf"
    file.write_text("; MaxProcs: 4\n" + "".join(
        f"{j} {10 * j} -1 5 1 -1 -1 1 9 -1 1 1 1 1 1 1 {p} 7\n" for j, p in ((1, -1), (2, 1), (3, 1), (4, 99))
    ))  # fmt: skip
    w = jw.open_workflow(file)
    assert w.edges.tolist() == [[0, 1], [0, 2]] and w.notes == {"preceding jobs that are not in the log": 1}


DEEP = "a: " + "[" * 60
BAD = {
    "circle.json": (json.dumps({"schemaVersion": "1.3", "workflow": {"tasks": [{"name": "a", "parents": ["b"]}, {"name": "b", "parents": ["a"]}]}}), "circle"),
    "parent.json": (json.dumps({"schemaVersion": "1.3", "workflow": {"tasks": [{"name": "a", "parents": ["b"]}]}}), "not there"),
    "twice.json": (json.dumps({"schemaVersion": "1.3", "workflow": {"tasks": [{"name": "a"}, {"name": "a"}]}}), "two tasks"),
    "itself.json": (json.dumps({"schemaVersion": "1.3", "workflow": {"tasks": [{"name": "a", "parents": ["a"]}]}}), "itself"),
    "version.json": (json.dumps({"schemaVersion": "9", "workflow": {"tasks": []}}), "schemaVersion"),
    "empty.json": (json.dumps({"schemaVersion": "1.4", "workflow": {"tasks": []}}), "no tasks"),
    "negative.json": (json.dumps({"schemaVersion": "1.4", "workflow": {"tasks": [{"name": "a", "runtime": -3}]}}), "runtime"),
    "text.json": ("nonsense", "no JSON"),
    "deep.json": ("[" * 100_000, "no JSON"),
    "list.json": ("[1]", "no workflow"),
    "deep.cwl": (DEEP, "deeper"),
    "alias.cwl": ("a: &x [1]\nb: *x\n", "aliases"),
    "import.cwl": ("cwlVersion: v1.2\nclass: Workflow\ninputs: {$import: /etc/passwd}\noutputs: []\nsteps: []\n", "only files below"),
    "tool.cwl": ("cwlVersion: v1.2\nclass: CommandLineTool\ninputs: []\noutputs: []\n", "Workflow is expected"),
    "other.cwl": ("a: 1\n", "no CWL document"),
    "circle.cwl": ("cwlVersion: v1.2\nclass: Workflow\ninputs: []\noutputs: []\nsteps:\n  a: {run: x, in: {i: b/o}, out: [o]}\n  b: {run: x, in: {i: a/o}, out: [o]}\n", "circle"),
    "tasks.wdl": ("version 1.0\ntask a { command <<< >>> }\n", "no workflow"),
    "missing.wdl": ("version 1.0\nworkflow a { call b }\n", "No such task"),
    "web.wdl": ('version 1.0\nimport "https://example.org/x.wdl"\nworkflow a { }\n', "below its folder"),
    "up.wdl": ('version 1.0\nimport "../x.wdl"\nworkflow a { }\n', "below its folder"),
    "bomb.wdl": ("version 1.0\nworkflow a { scatter (i in range(900000000)) { call b { input: i = i } } }\ntask b { input { Int i } command <<< >>> }\n", "runs 900000000"),
    "wide.wdl": ("version 1.0\nworkflow a { scatter (i in range(5000)) { scatter (j in range(5000)) { call b } } }\ntask b { command <<< >>> }\n", "more than"),
    "syntax.wdl": ("version 1.0\nworkflow {", "syntax.wdl"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_files_are_one_line(name, tmp_path, capsys):
    text, said = BAD[name]
    (tmp_path / name).write_text(text)
    assert run(["workflow", "info", str(tmp_path / name)]) == 2
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1 and name.split(".")[0] in error


def test_long_chains_are_read(tmp_path):
    """More steps than Python nests calls, written last first."""
    count = sys.getrecursionlimit() + 50
    calls = "\n".join(
        f"  call t as t{i} {{ input: x = t{i - 1}.y }}" if i else "  call t as t0 { input: x = 1 }"
        for i in reversed(range(count))
    )
    (tmp_path / "w.wdl").write_text(
        f"version 1.0\nworkflow a {{\n{calls}\n}}\ntask t {{ input {{ Int x }} command <<< >>> output {{ Int y = 1 }} }}\n"
    )
    steps = "".join(
        f"  s{i}: {{run: t.cwl, in: {{x: {f's{i - 1}/o' if i else 'a'}}}, out: [o]}}\n" for i in reversed(range(count))
    )
    (tmp_path / "w.cwl").write_text(f"cwlVersion: v1.2\nclass: Workflow\ninputs: {{a: File}}\noutputs: []\nsteps:\n{steps}")
    for kind in ("wdl", "cwl"):
        w = jw.open_workflow(tmp_path / f"w.{kind}")
        assert len(w) == count == w.levels.max() + 1


def leaves(told, at=()):
    for key in told if isinstance(told, dict) else range(len(told)) if isinstance(told, list) else ():
        yield (*at, key)
        yield from leaves(told[key], (*at, key))


TASKS = [{"name": "a", "id": "a", "parents": [], "children": ["b"], "inputFiles": ["f"], "outputFiles": []}, {"name": "b", "id": "b", "parents": ["a"], "children": []}]  # fmt: skip
RAN = [{"id": "a", "runtimeInSeconds": 2, "coreCount": 1, "memoryInBytes": 5, "readBytes": None, "command": {"program": "p"}}]
OLD = {"name": "a", "runtime": 3, "cores": 2, "memory": 7, "files": [{"link": "input", "size": 5}], "parents": []}
GOOD = (
    {"name": "n", "schemaVersion": "1.5", "workflow": {"specification": {"tasks": TASKS, "files": [{"id": "f", "sizeInBytes": 3}]}, "execution": {"tasks": RAN}}},
    {"name": "n", "schemaVersion": "1.3", "workflow": {"tasks": [OLD]}},
    {"format": "CWL", "steps": [{"id": "a", "tool": "t", "depends_on": []}, {"id": "b", "depends_on": ["a"]}]},
)  # fmt: skip


@pytest.mark.parametrize("good", GOOD, ids=("1.5", "1.3", "structure"))
def test_a_workflow_file_that_is_damaged_anywhere_is_one_line_or_read(good, tmp_path):
    file, refused = tmp_path / "w.json", 0
    for at in leaves(good):
        for bad in (None, 5, -1, 1e400, 10**400, "x", [], [5], {}, [[]], True, float("nan")):
            damaged = copy.deepcopy(good)
            functools.reduce(operator.getitem, at[:-1], damaged)[at[-1]] = bad
            file.write_text(json.dumps(damaged))
            try:
                jw.open_workflow(file)
            except InputError as error:
                refused += 1
                assert "\n" not in str(error) and "w.json" in str(error), (at, bad)
    assert refused > 20


def test_a_workflow_that_is_a_part_of_itself_is_refused(tmp_path):
    text = "cwlVersion: v1.2\nclass: Workflow\ninputs: []\noutputs: []\nsteps:\n  a: {run: %s, in: [], out: []}\n"
    (tmp_path / "a.cwl").write_text(text % "b.cwl")
    (tmp_path / "b.cwl").write_text(text % "a.cwl")
    with pytest.raises(InputError, match="part of itself"):
        cwl.read(tmp_path / "a.cwl")


# ------------------------------------------------------------------ graphs and orders


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6))
def test_levels_ranks_and_parts_are_those_of_networkx(seed):
    import networkx as nx

    rng = np.random.default_rng(seed)
    w = random_flow(rng, int(rng.integers(1, 25)))
    g = nx.DiGraph()
    g.add_nodes_from(range(len(w)))
    g.add_edges_from(w.edges.tolist())
    own = graph(len(w), w.edges)
    place = np.argsort(own.order)
    assert all(place[a] < place[b] for a, b in w.edges)
    assert [{int(i) for i in np.flatnonzero(w.levels == k)} for k in range(w.levels.max() + 1)] == [
        set(x) for x in nx.topological_generations(g)
    ]
    seconds = w.tasks["runtime"]
    heavy = nx.DiGraph([("in", i, {"weight": 0}) for i in g] + [(i, ("out", i), {"weight": seconds[i]}) for i in g])
    heavy.add_edges_from((("out", a), b, {"weight": 0}) for a, b in w.edges.tolist())
    assert w.critical_path == nx.dag_longest_path_length(heavy) == (earliest(own, seconds) + ranks(own, seconds)).max()
    assert components(len(w), w.edges).max() + 1 == nx.number_weakly_connected_components(g)
    way = w.longest_way()
    assert seconds[way].sum() == w.critical_path and all(g.has_edge(a, b) for a, b in zip(way[:-1], way[1:], strict=True))
    assert (levels(own) == w.levels).all()


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from(ORDERS), st.sampled_from([(0.0, np.inf), (0.3, 4.0), (0.6, 2.0)]))
def test_orders_of_workflows_do_what_their_slow_twin_does(seed, order, reserve):
    rng = np.random.default_rng(seed)
    made = [random_flow(rng, int(rng.integers(1, 9))) for _ in range(int(rng.integers(1, 6)))]
    w = stream(made, np.sort(rng.integers(0, 20, len(made))), 6)
    name = order + (f"+reserve{reserve[0]:g}x{reserve[1]:g}s" if reserve[0] else "")
    keys = {"submit": "submit", "walltime": "walltime", "flow": "flow"}
    tasks = [{k: float(j[v]) for k, v in keys.items()} for j in w.jobs]
    for t, j, x in zip(tasks, w.jobs, w.truth, strict=True):
        t |= {"procs": int(j["request"][0]), "runtime": float(x["runtime"])}
    r = jw.simulate(w, name)
    assert r.jobs["start"].tolist() == replay(tasks, [tuple(e) for e in w.edges.tolist()], 6, order, reserve)
    for a, b in w.edges:
        assert r.jobs["end"][a] <= r.jobs["start"][b]
    for f, flow in enumerate(made):
        of = r.jobs[r.jobs["flow"] == f]
        assert of["end"].max() - of["submit"].min() >= max(flow.critical_path, flow.work / 6) - 1e-9


@pytest.mark.parametrize("order", ORDERS)
def test_a_policy_that_is_asked_does_the_same(order):
    rng = np.random.default_rng(3)
    w = stream([random_flow(rng, 14) for _ in range(6)], np.arange(6) * 4.0, 6)

    class Asked:
        def __init__(self):
            self.one = jw.resolve(f"{order}+easy")

        def reset(self, view):
            self.one.reset(view)

        def decide(self, view):
            return self.one.decide(view)

        def ended(self, view, rows):
            self.one.ended(view, rows)

    assert (jw.simulate(w, Asked()).jobs["start"] == jw.simulate(w, f"{order}+easy").jobs["start"]).all()


def test_scores_are_explained():
    from jobwise.sim.simulation import Simulation

    rng = np.random.default_rng(3)
    sim = Simulation(stream([random_flow(rng, 5), random_flow(rng, 30)], cluster=4))
    sim.advance()
    told = jw.resolve("flow-work").explain(sim.view())
    rows = [x["job"] for x in told]
    assert (
        sim.view().jobs["flow"][rows[0]] == 0
        and told[0]["score"] < told[-1]["score"]
        and len(set(rows)) == len(sim.view().queue)
    )


def test_what_is_left_of_a_workflow_is_kept_up_to_date():
    rng = np.random.default_rng(8)
    w = stream([random_flow(rng, 20) for _ in range(4)], cluster=9)
    jobs, f = w.jobs.copy(), flows(w.jobs)
    from jobwise.jobs import DONE, FAILED

    for row in rng.permutation(len(w))[:40]:
        jobs["status"][row] = FAILED if row % 5 == 0 else DONE
        note(f, jobs, np.array([row], np.int32))
        fresh = flows(jobs)
        assert np.allclose(f.table["work"], fresh.table["work"]) and (f.table["path"] == fresh.table["path"]).all()


# ------------------------------------------------------------------ analysis


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 6), st.integers(1, 12))
def test_bundles_hold_every_task_once_and_keep_the_order(seed, most, cores):
    rng = np.random.default_rng(seed)
    w = random_flow(rng, int(rng.integers(1, 40)))
    cores = max(cores, int(w.tasks["cores"].max()))
    b = bundled(w, cores, most)
    assert b.tasks["cores"].sum() == w.tasks["cores"].sum() and b.tasks["cores"].max() <= cores
    assert len(w) >= len(b) >= len(w) / most and b.critical_path >= w.critical_path
    assert b.levels.max() == w.levels.max()
    if most == 1:
        assert len(b) == len(w) and len(b.edges) == len(w.edges)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6))
def test_a_cut_in_two_keeps_the_order(seed):
    rng = np.random.default_rng(seed)
    w = random_flow(rng, int(rng.integers(2, 40)))
    second = in_two(len(w), w.edges, w.levels)
    assert 0 < second.sum() < len(w) and not any(second[a] and not second[b] for a, b in w.edges)


def test_classes_and_signatures():
    rng = np.random.default_rng(1)
    w = random_flow(rng, 30)
    assert set(classes(w, 8, weights=(1, 0, 0))) == {0} and set(classes(w, 8, weights=(0, 0, 1))) <= {0, 2}
    other = random_flow(rng, 300)
    a, b = signature(w, 8), signature(other, 8)
    assert similarity(a, a) == pytest.approx(1.0) and similarity(a, b) == similarity(b, a) < 0.85
    order = rng.permutation(len(w))
    place = np.argsort(order)
    same = Workflow("same", w.tasks[order], place[w.edges], tuple(w.names[i] for i in order), w.programs)
    assert similarity(a, signature(same, 8)) == pytest.approx(1.0)
    with pytest.raises(InputError):
        classes(w, 8, weights=(1, -1, 0))


def test_streams():
    rng = np.random.default_rng(2)
    made = [random_flow(rng, 10), random_flow(rng, 5)]
    w = arrivals(made, 40, 16, load=0.5, seed=4)
    again = arrivals(made, 40, 16, load=0.5, seed=4)
    assert w.jobs.tobytes() == again.jobs.tobytes() and w.jobs["flow"].max() == 39
    begins = np.array([w.jobs["submit"][w.jobs["flow"] == f] for f in range(3)], dtype=object)
    assert all(len(set(x)) == 1 for x in begins)
    exact = arrivals(made, 40, 16, load=0.5, seed=4, estimate=0.0)
    assert (exact.jobs["walltime"] == exact.truth["runtime"]).all() and (w.truth["runtime"] == exact.truth["runtime"]).all()
    with pytest.raises(InputError, match="stream of 0"):
        arrivals(made, 0, 16)
    with pytest.raises(InputError, match="requests"):
        stream(made, cluster=1)


def test_the_commands(tmp_path, capsys):
    made = workflow(
        "w", [{"name": "a", "runtime": 2}, {"name": "b", "runtime": 3}, {"name": "c", "runtime": 1}], [[], ["a"], ["a"]]
    )
    (tmp_path / "flows").mkdir()
    file = tmp_path / "flows" / "w.json"
    file.write_text(wfformat.to_text(made))
    assert run(["workflow", "info", str(file), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["tasks"], told["edges"], told["critical_path"], told["rank_schedule"]) == (3, 2, 5.0, 5.0)
    for ending in ("svg", "png", "pdf"):
        assert run(["workflow", "draw", str(file), "-o", str(tmp_path / f"p.{ending}")]) == 0
    assert (
        run(["workflow", "convert", str(file), str(tmp_path / "w.dot")]) == 0
        and '"a" -> "b"' in (tmp_path / "w.dot").read_text()
    )
    assert run(["workflow", "convert", str(file), str(tmp_path / "b.json"), "--bundle", "4"]) == 0
    assert run(["workflow", "convert", str(file), str(tmp_path / "b.json")]) == 2  # it exists
    capsys.readouterr()
    assert (
        run(["workflow", "info", str(file), "--count", "x"]) == 2
        and run(["workflow", "info", str(file), "--count", "x=2"]) == 2
    )
    capsys.readouterr()
    assert run(["simulate", str(file), "-p", "flow-work", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["summary"]["makespan"] == 5.0
    assert run(["simulate", str(tmp_path / "flows"), "--procs", "8", "-p", "flow-bound", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["summary"]["jobs"] == 600


def test_no_schedule_of_a_workflow_is_shorter_than_its_bound():
    """The longer of the longest way and all work on all cores: eight tasks of 10 s side by side on two cores take 40 s."""
    from jobwise import metrics
    from jobwise.workloads.streams import stream

    tasks = [{"name": f"t{i}", "runtime": 10.0} for i in range(8)]
    wide = jw.simulate(stream([workflow("wide", tasks, [[]] * 8)], cluster=2), "fcfs")
    found = metrics.workflows(wide)
    assert found["bound"].tolist() == [40.0] and found["slowdown"].tolist() == [1.0]
    assert wide.summary()["workflow_slowdown"] == 1.0
    chain = [[], ["t0"], ["t1"], ["t2"], ["t3"], ["t4"], ["t5"], ["t6"]]
    long = jw.simulate(stream([workflow("long", tasks, chain)], cluster=2), "fcfs")
    assert metrics.workflows(long)["bound"].tolist() == [80.0]
    both = [{"name": "a", "runtime": 10.0, "cores": 2}, {"name": "b", "runtime": 10.0}, {"name": "c", "runtime": 10.0}]
    r = jw.simulate(stream([workflow("both", both, [[], [], []])], cluster=4), "fcfs")
    assert metrics.workflows(r)["bound"].tolist() == [10.0]  # 40 core-seconds on four cores


def test_a_cwl_source_that_nothing_makes_is_refused(tmp_path):
    (tmp_path / "w.cwl").write_text(
        "cwlVersion: v1.2\nclass: Workflow\ninputs: {a: File}\noutputs: []\nsteps:\n"
        "  sort: {run: t.cwl, in: {x: a}, out: [o]}\n  count: {run: t.cwl, in: {x: sortt/o}, out: [o]}\n"
    )
    with pytest.raises(InputError, match="w.cwl: step count: unknown source 'sortt/o'; did you mean sort/o"):
        cwl.read(tmp_path / "w.cwl")


@pytest.mark.parametrize(("method", "tasks"), [("dotproduct", 8), ("flat_crossproduct", 11), ("nested_crossproduct", 11)])
def test_a_scatter_over_two_arrays_counts_what_its_method_multiplies(tmp_path, method, tasks):
    """2 + 3 tasks, then max(2, 3) or 2 x 3."""
    made = "hints: [{class: 'jobwise:Estimate', count: %d}]"
    (tmp_path / "w.cwl").write_text(
        "cwlVersion: v1.2\nclass: Workflow\nrequirements: {ScatterFeatureRequirement: {}}\ninputs: {xs: 'int[]', ys: 'int[]'}\n"
        f"outputs: []\nsteps:\n  a: {{run: t.cwl, scatter: n, in: {{n: xs}}, out: [o], {made % 2}}}\n"
        f"  b: {{run: t.cwl, scatter: n, in: {{n: ys}}, out: [o], {made % 3}}}\n"
        f"  c: {{run: t.cwl, scatter: [one, two], scatterMethod: {method}, in: {{one: a/o, two: b/o}}, out: [o]}}\n"
    )
    assert len(cwl.read(tmp_path / "w.cwl")) == tasks


def test_what_a_document_imports_is_read_with_it(tmp_path):
    """Requirements and types of files beside it; not what is above its folder, and no circle."""
    flow = "cwlVersion: v1.2\nclass: Workflow\nrequirements: [{{$import: {}}}]\ninputs: {{n: 'types.yml#size'}}\noutputs: []\nsteps:\n"
    flow += "  one: {{run: tool.cwl, in: {{n: n}}, out: []}}\n"
    (tmp_path / "types.yml").write_text("- {name: size, type: record, fields: {a: {type: int}}}\n")
    (tmp_path / "reqs.yml").write_text("class: SchemaDefRequirement\ntypes: [{$import: types.yml}]\n")
    (tmp_path / "own.yml").write_text("class: ResourceRequirement\ncoresMin: {$import: own.yml}\n")
    for k in range(30):  # each is read twice by the one before
        twice = f"{{a: {{$import: wide{k + 1}.yml}}, b: {{$import: wide{k + 1}.yml}}}}\n"
        (tmp_path / f"wide{k}.yml").write_text(twice if k < 29 else "{}\n")
    tool = "cwlVersion: v1.2\nclass: CommandLineTool\nrequirements: [{class: ResourceRequirement, coresMin: 3}]\ninputs: []\noutputs: []\n"
    (tmp_path / "tool.cwl").write_text(tool)
    (tmp_path / "w.cwl").write_text(flow.format("reqs.yml"))
    assert cwl.read(tmp_path / "w.cwl").tasks["cores"].tolist() == [3]
    for other, why in (
        ("../reqs.yml", "only files below"),
        ("own.yml", "or itself"),
        ("wide0.yml", "or itself"),
        ("none.yml", "only files below"),
    ):
        (tmp_path / "w.cwl").write_text(flow.format(other))
        with pytest.raises(InputError, match=why):
            cwl.read(tmp_path / "w.cwl")


PACKED = """cwlVersion: v1.2
$graph:
- {class: CommandLineTool, id: tool, requirements: {ResourceRequirement: {coresMin: 2}}, inputs: {n: int}, outputs: {o: stdout}}
- class: Workflow
  id: inner
  inputs: {n: int}
  outputs: []
  steps: {a: {run: '#tool', in: {n: n}, out: [o]}, b: {run: '#tool', in: {n: n}, out: [o]}}
- class: Workflow
  id: main
  requirements: {SubworkflowFeatureRequirement: {}}
  inputs: {n: int}
  outputs: []
  steps: {first: {run: '#inner', in: {n: n}, out: []}, last: {run: '#tool', in: {n: n}, out: [o]}}
"""


def test_parts_of_a_packed_document(tmp_path):
    """`main`, or the part that is named behind #; a workflow that is a part of itself is refused."""
    (tmp_path / "w.cwl").write_text(PACKED)
    assert sorted(cwl.read(tmp_path / "w.cwl").names) == ["first/a", "first/b", "last"]
    assert sorted(open_workflow(f"{tmp_path}/w.cwl#inner").names) == ["a", "b"]
    assert open_workflow(f"{tmp_path}/w.cwl#inner").tasks["cores"].tolist() == [2, 2]
    with pytest.raises(InputError, match="unknown part 'iner'; did you mean inner"):
        open_workflow(f"{tmp_path}/w.cwl#iner")
    with pytest.raises(InputError, match="a CommandLineTool; a Workflow is expected"):
        open_workflow(f"{tmp_path}/w.cwl#tool")
    (tmp_path / "w.cwl").write_text(PACKED.replace("b: {run: '#tool'", "b: {run: '#main'"))
    with pytest.raises(InputError, match="main is a part of itself"):
        cwl.read(tmp_path / "w.cwl")

"""The rules of the house that a test can check."""

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest
from conftest import TESTS, random_workload
from packaging.requirements import Requirement

import jobwise
from jobwise.policies.names import resolve
from jobwise.sim.lists.orders import CODES
from jobwise.sim.simulation import Simulation
from jobwise.testing import poison, restore

ROOT = Path(jobwise.__file__).parent
# each may import from its own layer and those before it
LAYERS = [
    ["errors", "extensions", "listeners", "compiled", "files", "site", "cluster", "jobs", "decision", "parallel"],
    ["sim"],
    ["metrics", "workload"],
    ["record", "workloads", "worlds", "power"],
    ["policies"],
    ["worlds/*/policy"],
    ["names", "simulate"],
    ["compare", "testing", "starts"],
    ["learn", "forecast", "registration"],
    ["systems"],
    ["report", "slurm", "telemetry", "streaming"],
    ["live", "workflows"],
    ["cli"],
]
LEVEL = {name: i for i, layer in enumerate(LAYERS) for name in layer}
FILES = sorted(ROOT.rglob("*.py"))


def part(path):
    """The name in LAYERS of a file, or of a module "a.b"."""
    parts = (path.relative_to(ROOT).with_suffix("") if isinstance(path, Path) else Path(*path.split("."))).parts
    if parts[0] == "worlds" and parts[-1] == "policy":
        return "worlds/*/policy"
    return "names" if parts[:2] == ("policies", "names") else parts[0]


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_go_down(path):
    if path.parent == ROOT and path.name == "__init__.py":
        return
    for node in ast.walk(ast.parse(path.read_text())):
        names = [node.module] if isinstance(node, ast.ImportFrom) and node.module else []
        if isinstance(node, ast.ImportFrom) and node.module == "jobwise":
            names = [f"jobwise.{a.name}" for a in node.names]
        if isinstance(node, ast.Import):
            names = [a.name for a in node.names]
        for name in names:
            if name.startswith("jobwise."):
                other = part(name.removeprefix("jobwise."))
                assert other == "__version__" or LEVEL[other] <= LEVEL[part(path)], f"{path} imports {name}"


def test_torch_is_imported_where_learning_happens_alone():
    for path in FILES:
        if re.search(r"^\s*(import|from) torch\b", path.read_text(), re.M):
            assert part(path) == "learn", path


@pytest.mark.cli
def test_import_is_light():
    code = "import sys, jobwise; print([m for m in ('numpy', 'numba', 'torch', 'matplotlib', 'pandas') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"


@pytest.mark.cli
def test_the_command_line_starts_light():
    """Every command pays for what `jobwise.cli.main` imports, commands of other packages too."""
    code = "import sys, jobwise.cli.main; print([m for m in ('numba', 'scipy', 'torch', 'matplotlib', 'pandas') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"


def test_public_names_exist():
    for name in jobwise.__all__:
        assert getattr(jobwise, name) is not None
    assert callable(jobwise.simulate) and callable(jobwise.compare)
    with pytest.raises(AttributeError):
        jobwise.nonsense  # noqa: B018


def test_state_changes_in_the_kernel_alone():
    """No other file of the simulator, and nothing above it, writes to a state's tables."""
    write = re.compile(r"\bs\.(sims|jobs|truth|lists|nodes|slices|child)\[[^=\n]*\](\[[^=\n]*\])*\s*[-+]?=[^=]")
    for path in FILES:
        if (
            path.name
            in (
                "kernel.py",
                "queued.py",
                "allocations.py",
                "rates.py",
                "state.py",
                "reset.py",
                "moving.py",
                "trial_runs.py",
                "testing.py",
            )
        ):  # queued, allocations, rates and trial_runs are the kernel's, state, reset and moving put jobs into it, testing poisons it
            continue
        assert not write.search(path.read_text()), path


def test_truth_is_read_in_the_simulator_and_in_reports_of_workloads_alone():
    may = {
        "sim",
        "jobs",
        "workload",
        "workloads",
        "simulate",
        "worlds",
        "learn",
        "testing",
        "forecast",
        "report",
        "streaming",
        "power",
    }
    for path in FILES:
        if part(path) not in may:
            assert "truth" not in re.sub(r'""".*?"""', "", path.read_text(), flags=re.S), path


@pytest.mark.parametrize("order", CODES)
def test_a_poisoned_truth_changes_no_decision(order):
    """Every policy decides the same in a world whose truth is NaN."""
    w = random_workload(np.random.default_rng(4), jobs=30)
    for rule in ("easy", "conservative", "easy-sjbf", "greedy"):
        policy, sim, rng = resolve(f"{order}+{rule}"), Simulation(w), np.random.default_rng(0)
        for _ in range(12):
            sim.advance()
            clean = list(policy.decide(sim.view()))
            saved = poison(sim.state, rng)  # before the view is made: also the order of ends, and the jobs to come
            assert list(policy.decide(sim.view())) == clean
            restore(sim.state, saved)
            sim.apply(clean)


def test_views_cannot_be_written_and_hide_the_future():
    sim = Simulation(random_workload(np.random.default_rng(4), jobs=30))
    sim.advance()
    view = sim.view()
    with pytest.raises(ValueError, match="read-only"):
        view.jobs["walltime"] = 0
    assert len(view.jobs) < 30 and (view.jobs["submit"] <= view.now).all()


def test_public_functions_are_documented():
    for path in FILES:
        tree = ast.parse(path.read_text())
        assert ast.get_docstring(tree), path
        for node in tree.body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_") and path.name != "state.py":
                assert ast.get_docstring(node) or isinstance(node, ast.ClassDef), f"{path}:{node.lineno} {node.name}"


@pytest.mark.parametrize(
    ("what", "pattern"),
    {
        "splitmix64": "0xBF58476D1CE4E5B9",
        "policy format": "jobwise policy 1",
        "tau": r"^\w+ = 10\.0\b",
        "extra processors": r"got - n\b",
        "may start behind a reservation": r"n <= extra or end <= shadow",
        "classic rules": r'"wfp3", "unicef", "lxf"\)',
    }.items(),
)
def test_what_everybody_needs_is_defined_once(what, pattern):
    found = [
        p
        for p in FILES
        for line in p.read_text().splitlines()
        if not line.lstrip().startswith('"""') and re.search(pattern, line)
    ]
    assert len(found) == 1, (what, found)


def test_no_drawers_for_odds_and_ends():
    for path in FILES:
        assert path.stem not in ("utils", "base", "common", "helpers")


def test_same_seed_same_bytes():
    from jobwise.simulate import simulate

    w = random_workload(np.random.default_rng(4), jobs=60)
    assert simulate(w, "random+easy", seed=5).jobs.tobytes() == simulate(w, "random+easy", seed=5).jobs.tobytes()


def test_the_house_stays_small():
    """Files, functions, constructors, rooms, and what a newcomer reads first."""
    lines = {path: path.read_text().splitlines() for path in FILES}
    sizes = sorted(map(len, lines.values()))
    assert sizes[-1] <= 450 and sizes[len(sizes) // 2] <= 120
    assert len([p for p in FILES if p.parent == ROOT and p.name != "__init__.py"]) <= 14 and len(LAYERS) <= 13
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef):
                said = ast.get_docstring(node, clean=False) or ""  # the docstring of a public function names each parameter
                assert node.end_lineno - node.lineno - said.count("\n") < 80, f"{path}: {node.name}"
                if node.name == "__init__":
                    assert len(node.args.args) + len(node.args.kwonlyargs) - 1 <= 10, path
    page = (ROOT.parent / "docs" / "concepts.md").read_text()
    path = re.findall(r"^\d\. `jobwise/([\w/]+\.py)`", page, re.M)
    assert len(path) == 6 and sum(len(lines[ROOT / name]) for name in path) <= 1100


POLICY_CLASSES = {  # class -> the folder in which its type may be asked for
    **dict.fromkeys(("ListScheduler", "Index", "Learned", "NeuralPolicy", "TablePolicy", "Chooser"), "policies"),
    **{
        f"{w.title()}{kind}": f"worlds/{w}"
        for w in ("window", "slots", "gpus", "nodes")
        for kind in ("Settings", "Policy", "Rule")
    },
}


def test_nobody_asks_for_the_type_of_a_policy_or_of_a_world_but_its_own_folder():
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "isinstance":
                for name in {n.id for n in ast.walk(node.args[1]) if isinstance(n, ast.Name)} & set(POLICY_CLASSES):
                    folder = POLICY_CLASSES[name]
                    assert path.is_relative_to(ROOT / folder), f"{path.relative_to(ROOT)}:{node.lineno} asks for {name}"


def test_names_say_what_a_value_is():
    """No variable or parameter of a function says only that a value exists."""
    for path in FILES:
        for function in ast.walk(ast.parse(path.read_text())):
            if isinstance(function, ast.FunctionDef | ast.Lambda):
                for node in ast.walk(function):
                    name = node.arg if isinstance(node, ast.arg) else node.id if isinstance(node, ast.Name) else ""
                    stored = isinstance(node, ast.arg) or isinstance(getattr(node, "ctx", None), ast.Store)
                    assert not (stored and name in ("found", "told", "seen", "given")), (
                        f"{path.relative_to(ROOT)}:{node.lineno}"
                    )


def test_nothing_of_jobwise_imports_its_experiments():
    for path in FILES:
        assert not re.search(r"^\s*(import|from) jobwise_experiments", path.read_text(), re.M), path


def test_docstrings_are_sentences():
    """More than four words, and none begins with Who or As: it says what a thing is, or what a function returns or does."""
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and (text := ast.get_docstring(node)):
                assert len(text.split()) > 4, f"{path.relative_to(ROOT)}:{node.lineno} {node.name}"
                public = not node.name.startswith("_") and path.parent.name != "cli"
                assert not (public and text.split()[0] in ("Who", "As")), f"{path.relative_to(ROOT)}:{node.lineno} {node.name}"


def test_short_names_mean_one_thing():
    """docs/short-names.md: each parameter of one or two letters of a compiled function is there, and has one class."""
    rows = re.findall(r"^\| (`[^|]+) \| ([^|]+) \| ([^|]+) \|$", (ROOT.parent / "docs" / "short-names.md").read_text(), re.M)
    classes = {name: re.findall(r"`(\w+)`", owner) for names, owner, _ in rows for name in re.findall(r"`(\w+)`", names)}
    fields = {}
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef) and any(ast.unparse(b) == "NamedTuple" for b in node.bases):
                fields.setdefault(node.name, set()).update(x.target.id for x in node.body if isinstance(x, ast.AnnAssign))
    assert {c for own in classes.values() for c in own} <= set(fields), "a class of the page is none"
    used = set()
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.FunctionDef) or not COMPILED & {
                ast.unparse(d).split("(")[0] for d in node.decorator_list
            }:
                continue
            short = {a.arg for a in node.args.args if len(a.arg) <= 2}
            assert short <= set(classes), f"{path}: {node.name} has parameters that docs/short-names.md does not explain"
            used |= short
            for x in ast.walk(node):
                if isinstance(x, ast.Attribute) and isinstance(x.value, ast.Name) and x.value.id in short and x.attr != "copy":
                    own = set().union(*(fields[c] for c in classes[x.value.id])) if classes[x.value.id] else set()
                    assert x.attr in own, (
                        f"{path}: {node.name}: {x.value.id}.{x.attr}: the page says that it is {classes[x.value.id]}"
                    )
    assert used == set(classes), "the page explains names that no compiled function has"


COMPILED = {"kernel", "inlined", "allocating"}


UNTYPED = ("cli", "compiled", "learn", "worlds")  # packages whose functions need not say the types of all that they take


def test_functions_say_what_they_take_and_return():
    """Outside UNTYPED, all but compiled ones: their types are those of the tables."""

    def plain(node):
        for x in ast.iter_child_nodes(node):
            if isinstance(x, ast.FunctionDef) and COMPILED & {ast.unparse(d).split("(")[0] for d in x.decorator_list}:
                continue
            if isinstance(x, ast.FunctionDef):
                yield x
            yield from plain(x)

    for path in FILES:
        for x in plain(ast.parse(path.read_text())) if path.relative_to(ROOT).parts[0] not in UNTYPED else ():
            a = x.args
            takes = [*a.posonlyargs, *a.args, *a.kwonlyargs, *filter(None, (a.vararg, a.kwarg))]
            untyped = [y.arg for y in takes if y.annotation is None and y.arg not in ("self", "cls")]
            says = x.returns is not None or x.name.startswith("__")
            assert says and not untyped, f"{path.relative_to(ROOT)}:{x.lineno} {x.name}: {untyped or 'its result'}"


LINES = {  # most lines of a package; raised only by a commit whose message says what left
    "top": 2440,
    "cli": 5755,
    "compare": 2400,
    "compiled": 550,
    "forecast": 1100,
    "learn": 5110,
    "live": 4105,
    "parallel": 800,
    "policies": 2915,
    "power": 790,
    "report": 1880,
    "sim": 10_770,
    "slurm": 6_170,
    "starts": 815,
    "streaming": 350,
    "systems": 1640,
    "telemetry": 1000,
    "workflows": 2315,
    "workloads": 7120,
    "worlds": 7920,
}


def test_packages_keep_to_their_lines():
    lines = dict.fromkeys(LINES, 0)
    for path in FILES:
        parts = path.relative_to(ROOT).parts
        lines[parts[0] if len(parts) > 1 else "top"] += len(path.read_text().splitlines())
    assert not {k: n for k, n in lines.items() if n > LINES[k]}


OWNERS = 1  # class names with two owners; it only falls


def test_a_class_name_has_one_owner():
    owners = {}
    for path in FILES:
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                owners.setdefault(node.name, []).append(str(path.relative_to(ROOT)))
    several = {name: places for name, places in owners.items() if len(places) > 1}
    assert len(several) <= OWNERS, several


def test_no_docstring_names_a_file_that_is_gone():
    there = {
        p.as_posix()
        for folder in ("jobwise", "tests", "examples", "docs", "tools")
        for p in (ROOT.parent / folder).rglob("*.py")
    }
    users = {"mine.py", "file.py", "own.py"}  # of examples
    for path in FILES:
        for name in re.findall(r"`((?:\w+/)*\w+\.py)\b", path.read_text()):
            assert name in users or any(x.endswith(f"/{name}") for x in there), f"{path.relative_to(ROOT)} names {name}"


def test_a_module_has_a_test_that_is_found_by_its_name():
    """tests/a/b/test_name.py tests a/b/name.py; any other module stands in the last paragraph, `Modules: …`, of a test file."""
    modules = {p.relative_to(ROOT).as_posix() for p in FILES if p.stem not in ("__init__", "__main__")}
    tested = set()
    for path in TESTS.rglob("test_*.py"):
        tested.add(path.with_name(path.name.removeprefix("test_")).relative_to(TESTS).as_posix())
        last = (ast.get_docstring(ast.parse(path.read_text())) or "").split("\n\n")[-1]
        if last.startswith("Modules:"):
            assert last.endswith("."), f"{path}: its last paragraph ends without a full stop"
            names = last.removeprefix("Modules:").removesuffix(".").replace("\n", " ").strip().split(", ")
            assert names == sorted(set(names)), f"{path} names its modules in another order, or twice"
            assert not set(names) - modules, f"{path} names modules that are not there: {sorted(set(names) - modules)}"
            tested.update(names)
    assert not modules - tested, f"no test is found by the names of {sorted(modules - tested)}"


def test_wheels_have_every_file_of_the_packages():
    """A file that is no module is in a wheel where `package-data` names it."""
    data = tomllib.loads((ROOT.parent / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]
    files = [p for name in data for p in (ROOT.parent / name).rglob("*") if p.is_file() and "__pycache__" not in p.parts]
    others = [p.relative_to(ROOT.parent).parts for p in files if p.suffix != ".py"]
    assert len(others) > 10
    for name, *inner in others:
        assert any(Path(*inner).match(pattern) for pattern in data[name]), inner


def test_the_lock_has_what_the_package_asks_for():
    """uv.lock knows the same requirements, and its versions satisfy them (`uv lock` writes it anew)."""
    project = tomllib.loads((ROOT.parent / "pyproject.toml").read_text())["project"]
    lock = {x["name"]: x for x in tomllib.loads((ROOT.parent / "uv.lock").read_text())["package"]}
    asked = [Requirement(x) for x in (*project["dependencies"], *sum(project["optional-dependencies"].values(), []))]
    known = {(x["name"], x.get("specifier", "")) for x in lock["jobwise"]["metadata"]["requires-dist"]}
    for x in asked:
        if x.name != "jobwise":
            assert (x.name, str(x.specifier)) in known and x.specifier.contains(lock[x.name]["version"]), x
    assert len(known) <= len({x.name for x in asked})

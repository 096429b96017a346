"""A world of another package (`examples/which_world`) gets every command, with no edit in jobwise.

Modules: workloads/readers.py, worlds/spec.py.
"""

import json
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest
from conftest import ROOT

import jobwise as jw
from jobwise import extensions
from jobwise.cli import run
from jobwise.errors import InputError
from jobwise.registration import register_environments
from jobwise.systems import systems
from jobwise.worlds.spec import generated, kinds, worlds

EXAMPLE = ROOT / "examples" / "which_world"


def installed(folder: Path, name: str, points: dict[str, dict[str, str]]) -> None:
    """Write what an installer leaves of a package: its metadata and entry points."""
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    lines = [f"[{group}]\n" + "".join(f"{k} = {v}\n" for k, v in table.items()) for group, table in points.items()]
    (info / "entry_points.txt").write_text("\n".join(lines))


@pytest.fixture
def which(tmp_path, monkeypatch):
    """The example package, installed."""
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    installed(tmp_path, "which_world", project["entry-points"])
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.syspath_prepend(str(EXAMPLE))
    extensions._points.cache_clear()
    yield
    extensions._points.cache_clear()
    sys.modules.pop("which_world", None)


def test_a_world_of_another_package_is_known_everywhere(which):
    assert "which" in worlds() and "which" in systems() and "which" in generated() and "which" in kinds()
    assert "which" not in json.dumps(sorted(str(p) for p in Path(jw.__file__).parent.rglob("*which*")))


def test_it_simulates_compares_and_is_listed(which, tmp_path, capsys):
    w = jw.lublin(jobs=300, procs=32, load=1.0, seed=3)
    for rule in ("fcfs", "sjf"):
        assert (jw.simulate(w, f"which:{rule}").jobs["start"] == jw.simulate(w, f"{rule}+easy").jobs["start"]).all()
    assert run(["simulate", "which:2", "-p", "which:sjf", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["policy"] == "which:sjf"
    log = tmp_path / "log.swf"
    jw.write_swf(w, log)
    order = ["compare", str(log), "-p", "fcfs+easy", "-p", "which:sjf", "--window", "30", "--replicas", "0", "--json"]
    assert run(order) == 0 and json.loads(capsys.readouterr().out)["policies"][1]["policy"] == "which:sjf"
    assert run(["policies"]) == 0 and "which:sjf" in capsys.readouterr().out
    with pytest.raises(InputError, match="did you mean sjf"):
        jw.resolve("which:sjff")


@pytest.mark.cli
def test_it_trains_is_evaluated_and_filmed(which, tmp_path, capsys):
    folder = str(tmp_path / "run")
    assert run(["train", "which", "--out", folder, "--preset", "smoke"]) == 0
    assert run(["train", "which", "--out", folder, "--preset", "smoke"]) == 2
    capsys.readouterr()
    assert run(["evaluate", folder, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert set(found["policies"]) == {"fcfs", "sjf", "run"}
    assert found["policies"]["run"]["slowdown"] <= 1.05 * min(found["policies"][r]["slowdown"] for r in ("fcfs", "sjf"))
    assert run(["evaluate", folder, "-p", "sjf"]) == 0 and "mean bounded slowdown" in capsys.readouterr().out
    for what in ("which:sjf", folder):
        film = tmp_path / f"{Path(what).name}.gif"
        assert run(["watch", what, "--out", str(film), "--rows", "5"]) == 0 and film.read_bytes()[:3] == b"GIF"


def test_it_is_an_environment(which):
    gymnasium = pytest.importorskip("gymnasium")
    from jobwise.testing import check_world

    register_environments()
    envs = gymnasium.make_vec("jobwise/Which-v0", num_envs=3, workload=jw.lublin(jobs=200, procs=32, load=1.0, seed=1), jobs=20)
    seen, _ = envs.reset(seed=1)
    assert seen.shape == (3, 2)
    total = sum(envs.step(np.array([0, 1, k % 2]))[1] for k in range(30))
    assert (total <= 0).all() and total.min() < 0
    one = gymnasium.make("jobwise/Which-v0", jobs=10)
    one.reset(seed=2)
    assert one.step(1)[0].shape == (2,)
    import which_world

    check_world(which_world.WhichEpisodes(jw.lublin(jobs=100, procs=32, load=1.0, seed=1), 4, 10), which_world.Load())


def test_readers_and_encoders_of_other_packages(tmp_path, monkeypatch, capsys):
    (tmp_path / "outside.py").write_text(
        "import jobwise as jw\n"
        "from jobwise.worlds.window.perjob import rls\n"
        "class Lines:\n"
        "    def knows(self, path, head):\n        return head.startswith('LINES')\n"
        "    def read(self, path, procs):\n"
        "        rows = [list(map(float, x.split())) for x in path.read_text().splitlines()[1:]]\n"
        "        return jw.workload(*map(list, zip(*rows)), cluster=jw.pool(procs or 8), name=path.name)\n"
        "LINES = Lines()\n"
        "def mine(cluster, jobs, window=8):\n    return rls(cluster, jobs, window=window)\n"
    )
    points = {"jobwise.readers": {"lines": "outside:LINES"}, "jobwise.encoders": {"mine": "outside:mine"}}
    installed(tmp_path, "outside", points)
    monkeypatch.syspath_prepend(str(tmp_path))
    extensions._points.cache_clear()
    (tmp_path / "log.lines").write_text("LINES submit size runtime\n0 4 10\n1 8 5\n")
    assert run(["simulate", str(tmp_path / "log.lines"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["summary"]["jobs"] == 2
    from jobwise.worlds.window import encoders

    w = jw.lublin(jobs=50, procs=16, seed=1)
    assert encoders.make("mine", w.cluster, w.jobs, 8).shape == encoders.make("rls", w.cluster, w.jobs, 8).shape
    with pytest.raises(InputError, match="mine"):
        encoders.make("mint", w.cluster, w.jobs, 8)
    extensions._points.cache_clear()
    sys.modules.pop("outside", None)


@pytest.mark.parametrize("content", [b"\x00\x01LOG", b"4|10|0|0|0|0|0\n", b'{"jobs": []}', b"JobID,Submit\n1,0\n"])
def test_a_reader_of_another_package_is_asked_where_none_of_ours_can_read(content, tmp_path, monkeypatch, capsys):
    """Binary files, pipes, JSON, commas: formats that ours recognise, or refuse, and cannot read."""
    (tmp_path / "formats.py").write_text(
        "import jobwise as jw\n"
        "class Any:\n"
        "    def knows(self, path, head):\n        return path.suffix == '.any'\n"
        "    def read(self, path, procs):\n        return jw.workload([0.0], [1], [5.0], cluster=jw.pool(procs or 4))\n"
        "ANY = Any()\n"
    )
    installed(tmp_path, "formats", {"jobwise.readers": {"any": "formats:ANY"}})
    monkeypatch.syspath_prepend(str(tmp_path))
    extensions._points.cache_clear()
    for ending, code in (("any", 0), ("other", 2)):
        (tmp_path / f"log.{ending}").write_bytes(content)
        assert run(["simulate", str(tmp_path / f"log.{ending}"), "--json"]) == code
    printed = capsys.readouterr()
    assert json.loads(printed.out)["summary"]["jobs"] == 1 and printed.err.count("\n") == 1
    extensions._points.cache_clear()
    sys.modules.pop("formats", None)


def test_a_world_that_names_its_systems_in_the_old_way_is_one_line(tmp_path, monkeypatch):
    (tmp_path / "oldworld.py").write_text(
        "from jobwise.worlds.spec import WorldSpec\n"
        "SPEC = WorldSpec('old', policy='old', env='old:Old', ids=('Old',), systems={'old': 'old:configure'})\n"
    )
    installed(tmp_path, "oldworld", {"jobwise.worlds": {"old": "oldworld:SPEC"}})
    monkeypatch.syspath_prepend(str(tmp_path))
    extensions._points.cache_clear()
    assert "old" not in worlds()
    with pytest.raises(InputError, match=r"'old' of the package oldworld does not load: .*tuple of SystemSpec"):
        jw.resolve("old:sjf")
    extensions._points.cache_clear()
    sys.modules.pop("oldworld", None)


def test_a_reader_a_system_and_a_command_of_another_package_are_rows(tmp_path, monkeypatch, capsys):
    (tmp_path / "rows.py").write_text(
        "import jobwise as jw\n"
        "from jobwise.systems.perjob import configure\n"
        "from jobwise.workloads.readers import SourceSpec\n"
        "from jobwise.worlds.spec import SystemSpec\n"
        "def lines(file):\n"
        "    rows = [list(map(float, x.split())) for x in file.text.splitlines()[1:]]\n"
        "    return jw.workload(*map(list, zip(*rows)), cluster=jw.pool(file.procs or 8), name='lines')\n"
        "LINES = SourceSpec('lines', lambda file: file.line.startswith('LINES'), lines)\n"
        "def configured(log, preset):\n    return configure(log, preset).changed(system='other', hidden=[4])\n"
        "OTHER = SystemSpec('other', 'rows:configured', 'Nobody, 2026', needs=('torch',))\n"
        "def hello(name: str = 'you') -> None:\n    'Say hello to somebody, by name.'\n    print(f'hello {name}')\n"
    )
    points = {
        "jobwise.readers": {"lines": "rows:LINES"},
        "jobwise.systems": {"other": "rows:OTHER"},
        "jobwise.commands": {"hello": "rows:hello", "gone": "rows:nothing"},
    }
    installed(tmp_path, "rows", points)
    monkeypatch.syspath_prepend(str(tmp_path))
    extensions._points.cache_clear()
    try:
        (tmp_path / "log.lines").write_text("LINES submit size runtime\n0 4 10\n1 8 5\n")
        assert run(["simulate", str(tmp_path / "log.lines"), "--procs", "16", "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["summary"]["jobs"] == 2
        from jobwise.systems import configure, published, system

        w = jw.lublin(jobs=400, procs=16, seed=1)
        assert system("other").paper and "other" in published() and configure("other", w, "smoke").hidden == [4]
        main = sys.modules["jobwise.cli.main"]
        monkeypatch.setattr(main, "app", main._built())
        assert run(["hello", "--name", "all"]) == 0 and capsys.readouterr().out == "hello all\n"
        assert run(["--help"]) == 0 and "Say hello to somebody" in capsys.readouterr().out
        assert run(["gone"]) == 2 and "'gone' of the package rows does not load" in capsys.readouterr().err
    finally:
        extensions._points.cache_clear()
        sys.modules.pop("rows", None)

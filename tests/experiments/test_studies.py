"""Every published study runs to its report at the preset smoke, with its tables and figures."""

import ast
import re
from pathlib import Path

import pytest
from conftest import SHARED, missing

import jobwise_experiments
from jobwise.cli import run
from jobwise.errors import InputError
from jobwise_experiments import STUDIES as STUDY_MODULES
from jobwise_experiments import claims
from jobwise_experiments.study import Arms, Study, sections_of

STUDIES = {  # name: (sections at least, tables at least, figures at least)
    "deeprm": (7, 5, 4),
    "cush": (8, 8, 4),
    "rl-taps": (10, 9, 4),
    "telemetry": (8, 8, 3),
    "sem": (11, 11, 5),
    "rlscheduler": (3, 2, 0),
    "learners": (2, 1, 1),
    "mars": (10, 12, 5),
    "promise": (5, 5, 1),
    "trial": (6, 6, 1),
    "quality": (4, 3, 0),
    "left-out": (1, 1, 0),
    "state-use": (6, 5, 1),
    "power": (4, 4, 0),
}
NO_LOGS = ("deeprm", "cush", "rl-taps", "telemetry")


@pytest.mark.studies
@pytest.mark.parametrize("preset", ["smoke", pytest.param("small", marks=pytest.mark.slow)])  # small: hours, most of them
@pytest.mark.parametrize("name", STUDIES)
def test_a_study_ends_with_its_report(name, preset, tmp_path, capsys):
    logs = SHARED / "traces" / ("swf" if name not in NO_LOGS else "")
    if name not in NO_LOGS and not logs.is_dir():
        missing(f"no logs in {logs}")
    words = ["reproduce", name, "--preset", preset, "--seeds", "1", "--threads", "1", "--out", str(tmp_path)]
    words += ["--device", "auto"]
    wanted = name not in NO_LOGS or (name == "cush" and logs.is_dir())
    assert run(words + (["--logs", str(logs)] if wanted else [])) == 0, capsys.readouterr().err
    page, text = (tmp_path / "report.html").read_text(), (tmp_path / "report.md").read_text()
    sections, tables, figures = STUDIES[name]
    assert page.count("<section>") >= sections and page.count("<table") >= tables and page.count("<svg") >= figures
    drawn = re.findall(r"^!\[.+\]\((figures/.+\.svg)\)$", text, re.M)
    assert len(drawn) >= figures and len(set(drawn)) == len(drawn)
    assert all((tmp_path / x).read_text().startswith("<svg") and "xmlns" in (tmp_path / x).read_text() for x in drawn)
    assert re.match(
        rf"`jobwise reproduce {name} --preset {preset}.*`, jobwise [\d.]+(, commit \w+(-dirty)?)?, \d{{4}}-\d\d-\d\d", text
    )
    assert not any(
        "$" in x for svg in re.findall(r"<svg.*?</svg>", page, re.S) for x in re.findall(r"<text[^>]*>([^<]*)<", svg)
    )
    assert name in ("promise", "trial", "power") or sections_of("presets")[preset][0] in text
    assert "nan" not in re.sub(r"[a-z]*finan\w*|\w*nan[a-z]+", "", " ".join(re.findall(r"<td>([^<]*)</td>", page)))
    out = capsys.readouterr().out
    assert f"report: {tmp_path}" in out


def test_the_table_of_claims_is_what_the_pages_say():
    """`python -m jobwise_experiments.claims` writes it; it fails where a page has lost a cell that a claim names."""
    written = (claims.PAGES / "README.md").read_text().split("\n", 3)[3]
    assert written == "\n".join(claims.page()) + "\n", "python -m jobwise_experiments.claims writes it anew"
    assert all(len(row) == len(claims.COLUMNS) and all(row[:6]) for row in claims.rows())
    with pytest.raises(InputError, match="no row"):
        claims._cell("x\n## A\n\n| a | b |\n|---|---|\n| 1 | 2 |\n", "A", {"a": "3"}, "b")


def test_every_section_of_the_prose_is_asked_for():
    """A section without rows in the code would be lost, one without words ends in an error; each column has its format."""
    folder = Path(jobwise_experiments.__file__).parent
    asked, pages = set(), {file.stem for file in (folder / "prose").glob("*.md")}
    for path in sorted(folder.glob("*.py")):
        page = path.stem if path.stem in pages else path.stem.split("_")[0]  # parts of a study are named after it
        for node in ast.walk(ast.parse(path.read_text())):
            if (
                isinstance(node, ast.Call)
                and getattr(node.func, "attr", "") == "section"
                and isinstance(node.args[0], ast.Constant)
            ):
                asked.add((page, node.args[0].value))
    there = set()
    for file in sorted((folder / "prose").glob("*.md")):
        for title, (words, tables) in sections_of(file.stem).items():
            there.add((file.stem, title))
            assert words and all(len(columns) == len(formats) for columns, formats in tables), title
    assert asked == {x for x in there if x[0] != "presets"} and len(there) > 45
    assert {title for name, title in there if name == "presets"} == {"smoke", "small"}
    assert {file.stem for file in (folder / "anchors").glob("*.toml")} <= set(STUDY_MODULES.values())


def test_experiments_use_public_names_alone():
    for path in Path(jobwise_experiments.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom):
                assert not any(part.startswith("_") for a in node.names for part in a.name.split(".")), path


def test_rows_are_formatted_by_the_columns_of_the_prose(tmp_path):
    """Several names stand for as many columns; text stays as it is, None is an empty cell; arms are compared in pairs."""
    s = Study("cush", tmp_path, None, "smoke", 1, 1, None)
    x = Arms({"a": {"slowdown": [2.0, 4.0]}, "b": [{"slowdown": [1.0, 2.0]}, {"slowdown": [1.0, 2.0]}]})
    assert x.best(x) == "b" and x.ratio("a", "b", "slowdown") == 2 and x.change("a", "a") == ""
    assert x.change("b", "a").startswith("-50.0%")
    rows = [["1", "sjf", 1.0, 2, None]]
    section = s.section("Turnaround by mix of types", [], rows, count=3, rate=0.9, places=("pack", "spread", "typed"))
    assert section.tables[1].columns == ["compute / network", "order", "pack", "spread", "typed"]
    assert section.tables[1].rows == [["1", "sjf", "1.000", "2.000", ""]] and "3 unseen jobsets" in section.text
    with pytest.raises(KeyError):
        s.section("Turnaround by mix of types", [], [], places=("pack",))


@pytest.mark.studies
def test_a_part_of_a_study_runs_alone(tmp_path, capsys):
    words = ["reproduce", "rl-taps", "--preset", "smoke", "--seeds", "1", "--out", str(tmp_path)]
    assert run([*words, "--part", "pictures"]) == 0
    text = (tmp_path / "report.md").read_text()
    assert "--part pictures" in text and text.count("\n## ") == 2  # with what is said of the preset
    capsys.readouterr()
    for wrong, expected in (
        ([*words, "--part", "picture"], "did you mean pictures"),
        ([*words, "--part", "published-x"], "published"),
    ):
        assert run(wrong) == 2
        assert expected in capsys.readouterr().err
    assert (
        run(["reproduce", "telemetry", "--preset", "smoke", "--seeds", "1", "--out", str(tmp_path / "t"), "--part", "one"]) == 2
    )
    assert "need each other" in capsys.readouterr().err


def test_what_does_not_fit_the_memory_is_not_run(tmp_path, monkeypatch, log):
    from jobwise_experiments import sem_cost

    assert 1e8 < sem_cost.memory() < 1e14
    monkeypatch.setattr(sem_cost, "memory", lambda: 3e6)
    s = Study("sem", tmp_path, None, "smoke", 1, 1, None)
    w = log("ALCF-Theta")
    points = {name: [] for name in sem_cost.KINDS}
    row = sem_cost._row(s, w, "training", 1, points)
    assert row[0] == w.cluster.processors and row[4].startswith("needs") and row[6].startswith("needs")
    assert len(points["SEM"]) == 1 and not points["DRAS, layers scaled"] and sem_cost._law(points["SEM"]) == ""
    assert sem_cost._law([(4360, 1.0), (8720, 4.0)]).startswith("N^2.00, 64.0 ms at 34,880")


def test_a_training_says_how_long_it_will_take(tmp_path):
    said = []
    s = Study("deeprm", tmp_path, None, "smoke", 1, 1, lambda done, total, words: said.append(words))
    from jobwise.systems.deeprm import published

    s.train(published("smoke").changed(jobsets=2, validation_jobsets=1, runs=2), None, "run", 0)
    assert any(re.search(r"training run, [\d.]+%, about 1 min left", x) for x in said)

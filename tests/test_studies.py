"""Every published study runs to its report at the preset smoke, with its tables and figures."""

import ast
import re
from pathlib import Path
from string import Formatter

import pytest
from conftest import SHARED, missing

import jobwise_experiments
from jobwise.cli import run
from jobwise_experiments import study
from jobwise_experiments.study import SHORT

STUDIES = {  # name: (sections at least, tables at least, figures at least)
    "deeprm": (6, 4, 3),
    "cush": (7, 7, 3),
    "rl-taps": (10, 9, 4),
    "telemetry": (8, 8, 3),
    "sem": (11, 11, 5),
    "rlscheduler": (3, 2, 0),
    "learners": (2, 1, 1),
    "mars": (7, 7, 3),
    "forest": (1, 1, 0),
    "forecast": (6, 6, 0),
    "quality": (6, 5, 0),
}
NO_LOGS = ("deeprm", "cush", "rl-taps", "telemetry")


@pytest.mark.parametrize("name", STUDIES)
def test_a_study_ends_with_its_report(name, tmp_path, capsys):
    logs = SHARED / "traces" / "swf"
    if name not in NO_LOGS and not logs.is_dir():
        missing(f"no logs in {logs}")
    words = ["reproduce", name, "--preset", "smoke", "--seeds", "1", "--threads", "1", "--out", str(tmp_path)]
    assert run(words + ([] if name in NO_LOGS else ["--logs", str(logs)])) == 0, capsys.readouterr().err
    page, text = (tmp_path / "report.html").read_text(), (tmp_path / "report.md").read_text()
    sections, tables, figures = STUDIES[name]
    assert page.count("<section>") >= sections and page.count("<table") >= tables and page.count("<svg") >= figures
    assert re.match(
        rf"`jobwise reproduce {name} --preset smoke.*`, jobwise [\d.]+(, commit \w+(-dirty)?)?, \d{{4}}-\d\d-\d\d", text
    )
    assert not any(
        "$" in x for svg in re.findall(r"<svg.*?</svg>", page, re.S) for x in re.findall(r"<text[^>]*>([^<]*)<", svg)
    )
    assert name == "forest" or SHORT["smoke"] in text
    assert "nan" not in re.sub(r"[a-z]*finan\w*|\w*nan[a-z]+", "", " ".join(re.findall(r"<td>([^<]*)</td>", page)))
    out = capsys.readouterr().out
    assert f"report: {tmp_path}" in out


def test_the_words_of_studies_have_their_values():
    """Each section of prose/*.md is asked for once or more, with just the values that it names; none is asked for that is not there."""
    folder = Path(jobwise_experiments.__file__).parent
    asked = {}
    for path in sorted(folder.glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "prose":
                name, section = (x.value for x in node.args)
                asked.setdefault((name, section), []).append({k.arg for k in node.keywords})
    there = {}
    for file in sorted((folder / "prose").glob("*.md")):
        for section, text in study._sections(file.stem).items():
            there[file.stem, section] = {name for _, name, _, _ in Formatter().parse(text) if name}
    assert asked.keys() == there.keys() and len(there) > 25
    for key, calls in asked.items():
        assert all(values == there[key] for values in calls), key
    assert {file.stem for file in (folder / "anchors").glob("*.toml")} == {
        "deeprm",
        "rlscheduler",
        "rltaps",
        "sem",
        "telemetry",
    }

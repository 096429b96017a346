"""Every Python block of the README and the docs runs, and so does every example."""

import gzip
import re
import runpy
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from conftest import ROOT, in_docs

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCKS = [(p.name, i, code) for p in PAGES for i, code in enumerate(re.findall(r"```python\n(.*?)```", p.read_text(), re.S))]


def _marked(block):
    learns = any(word in block[2] for word in ("Window", "Encoder", "Policy"))
    grid = "SlotsEnv" in block[2]
    marks = [pytest.mark.xdist_group("grid" if grid else "learning")] if learns or grid else []
    marks += [pytest.mark.docs] if block[1] else []  # the first block of each page runs with `make test`
    return pytest.param(*block, marks=marks, id=f"{block[0]}-{block[1]}")


@pytest.mark.parametrize(("page", "number", "code"), [_marked(b) for b in BLOCKS])
def test_blocks_run(page, number, code, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # some write files
    exec(compile(code, f"{page}, block {number}", "exec"), {"__name__": "docs"})


def test_examples_of_docstrings_run():
    """What stands behind >>> in the docstrings of public names."""
    import doctest

    import jobwise as jw

    examples = [x for name in jw.__all__ for x in doctest.DocTestFinder(recurse=False).find(getattr(jw, name), name, globs={})]
    examples = [x for x in examples if x.examples]
    assert len(examples) >= 4
    for example in examples:
        assert doctest.DocTestRunner(verbose=False).run(example).failed == 0, example.name


def test_public_functions_name_their_parameters():
    """Each parameter of a public function stands under Parameters, by its name."""
    import inspect

    import jobwise as jw

    for name in jw.__all__:
        thing = getattr(jw, name)
        if inspect.isclass(thing):
            continue
        text, said = inspect.getdoc(thing), []
        for line in text.split("Parameters\n----------\n")[1].split("\n\n")[0].split("\n"):
            if line and not line.startswith(" "):
                said += [x.strip().lstrip("*") for x in line.split(" : ")[0].split(",")]
        assert said == list(inspect.signature(thing).parameters), name


def test_own_schedulers_are_short():
    """Under 30 lines for both kinds together."""
    own = next(code for page, _, code in BLOCKS if page == "own-scheduler.md" and "NightOnly" in code)
    assert len(own.strip().splitlines()) < 30


@pytest.mark.parametrize("name", ["own_order.py", "own_policy.py"])
def test_examples_run(name, capsys):
    runpy.run_path(str(ROOT / "examples" / name), run_name="__main__")
    out = capsys.readouterr().out
    assert len(out.strip()) and len((ROOT / "examples" / name).read_text().splitlines()) < 45


def test_links_lead_somewhere():
    for page in PAGES:
        for target in re.findall(r"\]\((?!http)([^)#]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


GENERATED = [*sorted((ROOT / "docs" / "studies").glob("*.md")), *sorted((ROOT / "benchmarks").glob("*.md"))]
UNIT = r"(?:%|million|M jobs|days|months|hours|h|s|ms|rows|times|jobs per second)"


def test_every_number_of_the_readme_is_in_a_generated_table():
    """Numbers with a unit, in text and in tables; sizes that are settings (1,024 jobs, 70 %) stand in the docs instead."""
    page = re.sub(r"```.*?```", "", (ROOT / "README.md").read_text(), flags=re.S)
    every = "\n".join(p.read_text() for p in GENERATED)
    settings = {"30 %", "70 %", "95 %", "24h", "24 h", "0.8x", "5 %", "60 seconds"}
    found = set(re.findall(rf"[-+−]?\d[\d,.]*\s?{UNIT}(?![\w])", page)) - settings
    assert len(found) > 10
    for number in found:
        digits = re.match(r"[-+−]?[\d,.]*\d", number)[0]
        whole = rf"(?<![\d.,]){re.escape(digits)}(?![\d]|[.,]\d)"
        assert re.search(whole, every), f"{number!r} of README.md stands in no generated table"
    for cell in re.findall(r"\[[-+]\d+%, [-+]\d+%\]", page):
        assert cell in every


def test_a_number_that_no_table_holds_is_noticed():
    """The test above can fail: changed by a digit, numbers of the README stand in no table."""
    every = "\n".join(p.read_text() for p in GENERATED)
    for wrong in ("515.3", "94.41", "27.71", "-65% [-72%, -56%]"):
        assert not re.search(rf"(?<![\d.,]){re.escape(wrong)}(?![\d]|[.,]\d)", every)


def test_what_the_readme_generates_is_what_its_generator_makes():
    """The tables and the sentences, made anew from the tables of the studies, are the README's to the letter."""
    from benchmarks import first_screen

    page = (ROOT / "README.md").read_text()
    for name, made in (
        ("table", first_screen.headed(first_screen.worth())),
        ("bounds", first_screen.bounds()),
        ("systems", first_screen.systems()),
        ("short", first_screen.short()),
    ):
        assert page.split(f"<!-- {name} -->\n")[1].split(f"\n<!-- /{name} -->")[0] == made, name


@pytest.mark.docs
def test_what_the_readmes_python_prints_is_real():
    from benchmarks import first_screen

    page = (ROOT / "README.md").read_text()
    assert page.split("<!-- python -->\n```text\n")[1].split("\n```\n<!-- /python -->")[0] == first_screen.printed()


def test_the_help_of_the_recommended_policy_claims_no_more_than_the_study():
    from jobwise.policies.names import RECOMMENDED

    study = (ROOT / "docs" / "studies" / "promise.md").read_text()
    shown = float(re.search(r"in 95 % of all cells the longest wait is at most ([\d.]+) times", study)[1])
    said = float(re.search(r"within ([\d.]+) times those of fcfs\+easy in 95 %", RECOMMENDED["jobwise"])[1])
    assert shown <= said <= shown + 0.05


def test_generated_pages_say_when_and_by_what_they_were_made():
    for page in GENERATED:
        head = page.read_text()[:600]
        assert re.search(r"`[^`]+`", head) and re.search(r"commit [0-9a-f]{7}", head) and re.search(r"\d{4}-\d\d-\d\d", head), (
            page.name
        )


def test_the_readmes_table_is_the_studys():
    """One method per column, every log in a row or said to be missing, nothing retyped."""
    page, study = (ROOT / "README.md").read_text(), (ROOT / "docs" / "studies" / "promise.md").read_text()
    rows = [x for x in page.split("<!-- table -->")[1].split("<!-- /table -->")[0].split("\n") if x.startswith("| `")]
    parts = [x for x in study.split("\n## ") if x.startswith(("Bounds", "Against"))]
    lines = [x for part in parts for x in part.split("\n") if x.startswith("| ")]
    from jobwise_experiments.promise import LOGS

    names = [row.strip("|").split("|")[0].strip(" `") for row in rows]
    left = re.findall(r"Left out: (.*?)\.\n", study)[0]
    assert len(names) >= 4
    for log in LOGS:
        shown = any(n.startswith(log) for n in names)
        assert shown or (log in left and log in page), f"the README neither shows {log} nor says that it is missing"
    for row, name in zip(rows, names, strict=True):
        told = set(re.findall(r"[-+]?[\d.]+%?", " ".join(x for x in lines if x.startswith(f"| {name}"))))
        for number in re.findall(r"[-+]?[\d.]+%?", row.split("|", 2)[2]):
            assert number in told, (name, number)


def test_the_readmes_outputs_are_real():
    page, real = (ROOT / "README.md").read_text(), (ROOT / "benchmarks" / "FIRST_SCREEN.md").read_text()
    for name, least in (("what-if", 8), ("bullets", 3), ("caption", 1), ("python", 5)):
        block = page.split(f"<!-- {name} -->")[1].split(f"<!-- /{name} -->")[0]
        lines = [x for x in block.split("\n") if x.strip() and "```" not in x]
        assert len(lines) >= least
        for line in lines:
            assert line in real, line


def test_the_readme_is_short():
    """1,100 words with code and tables, no block over 15 lines, Python on the first two screens."""
    text = (ROOT / "README.md").read_text()
    assert len(text.split()) <= 1100
    assert max(len(block.split("\n")) for block in re.findall(r"```.*?\n(.*?)\n```", text, re.S)) <= 15
    assert text[: text.index("```python")].count("\n") < 60


COMMANDS = list(
    dict.fromkeys(
        line.removeprefix("$ ").split("   #")[0].strip()
        for page in PAGES
        for block in re.findall(r"```(?:console)?\n(.*?)```", page.read_text(), re.S)
        for line in block.split("\n")
        if re.match(r"(\$ )?jobwise ", line)
    )
)
LIVE = re.compile(
    r"jobwise (slurm (when|fits|advise|watch|shadow|steer|retrain|check)|warm-up|doctor|reproduce|mars run sort|mcp)"
)


def _examples():
    """The examples of the help of every command."""
    from jobwise.cli.help import parted
    from jobwise.cli.main import app

    every = [c for x in app.commands.values() for c in getattr(x, "commands", {"": x}).values()]
    return [x for c in every for x in parted(c.help)[1]]


EXAMPLES = _examples()
COMMANDS = [x for x in COMMANDS if x not in ("jobwise slurm when", "jobwise mcp")]  # a cluster, an assistant
COMMANDS += [x for x in EXAMPLES if x not in COMMANDS and not LIVE.match(x)]
WDL = """version 1.0
task t { input { Int n } command { echo ~{n} } output { String s = read_string(stdout()) } }
workflow w { input { Int n } call t { input: n = n } output { String s = t.s } }
"""
SERIAL = """import sys
now, out = 0.0, open(sys.argv[3], "w")
for job, submit, _, run in (map(float, x.split()[:4]) for x in open(sys.argv[1]) if x[0] != ";"):
    now = max(now, submit)
    print(int(job), now, file=out)
    now += run
"""  # one job after the other
FIRST = [c for c in COMMANDS if c.startswith("jobwise train search")]
SLOW = re.compile(
    r"train (perjob|cush|deeprm|sem)|runs/(network|cush)|reproduce|torchrun|--origins|report out.html|trace forecast|telemetry (risk|forecast)"
)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with a small log under the names that the docs use, and the runs that they train."""
    from conftest import write_site

    import jobwise as jw
    from jobwise.workloads import wfformat
    from jobwise.workloads.catalogue import LOGS
    from jobwise.workloads.swf import write_swf
    from jobwise.workloads.workflows import workflow

    folder = tmp_path_factory.mktemp("place")
    w = replace(jw.lublin(jobs=1200, procs=64, load=1.0, seed=3, estimates="users", users=12), origin=8e8)
    for name in ("log.swf.gz", "LOG", Path(LOGS["sdsc-sp2"]).name):
        write_swf(w, folder / f"{name}.swf" if name == "LOG" else folder / name)
    (folder / "LOG.swf").rename(folder / "LOG")
    tasks = [{"name": str(i), "runtime": 2.0 + i} for i in range(4)]
    text = wfformat.to_text(workflow("montage", tasks, [[], ["0"], ["0"], ["1", "2"]]))
    (folder / "montage.json.gz").write_bytes(gzip.compress(text.encode()))
    (folder / "folder").mkdir()
    (folder / "folder" / "w.json").write_text(text)
    rows = [f"{300 * t},node{n},load,{10 + np.sin(t / 20) + (7 * t + n) % 5}" for n in range(2) for t in range(400)]
    (folder / "nodes.csv").write_text("\n".join(["time,node,metric,value", *rows]) + "\n")
    failed = [f"{300 * t},node{t % 2}" for t in range(15, 400, 25)]
    (folder / "failures.csv").write_text("\n".join(["time,node", *failed]) + "\n")
    write_site(folder / "site", jobs=300)
    from jobwise.compare.bench import LOGS as BENCH
    from jobwise.power.prices import write_prices

    for name in set(BENCH) - {"sdsc-sp2"}:
        shutil.copy(folder / Path(LOGS["sdsc-sp2"]).name, folder / Path(LOGS[name]).name)
    (folder / "mine.py").write_text(in_docs("bench.md", "python", "widest_first"))
    (folder / "serial.py").write_text(SERIAL)
    (folder / "others.toml").write_text(
        f'[serial]\ncommand = ["{sys.executable}", "serial.py", "{{log}}", "{{processors}}", "{{out}}"]\n'
    )
    (folder / "table.toml").write_text(in_docs("power.md", "toml"))
    write_prices(str(folder / "prices.csv"), 8e8 - 8e8 % 3600, 0.1 + 0.05 * np.sin(np.arange(2000)), np.full(2000, 300.0))
    steps = "  cut: {run: cut.cwl, in: {x: a}, out: [o]}\n  align: {run: align.cwl, scatter: x, in: {x: cut/o}, out: [o]}\n"
    head = "cwlVersion: v1.2\nclass: Workflow\nrequirements: [{class: ScatterFeatureRequirement}]\ninputs: {a: File}\noutputs: []\n"
    (folder / "assembly.cwl").write_text(f"{head}steps:\n{steps}")
    tool = "cwlVersion: v1.2\nclass: CommandLineTool\ninputs: {x: File}\n"
    (folder / "cut.cwl").write_text(
        f"{tool}baseCommand: [touch, p1, p2]\noutputs: {{o: {{type: 'File[]', outputBinding: {{glob: 'p*'}}}}}}\n"
    )
    (folder / "align.cwl").write_text(f"{tool}baseCommand: echo\nstdout: o.txt\noutputs: {{o: stdout}}\n")
    (folder / "values.yml").write_text("a: {class: File, path: LOG}\n")
    (folder / "assembly.wdl").write_text(WDL)
    (folder / "values.json").write_text('{"w.n": 2}')
    return folder


def _do(command, place, monkeypatch, capsys):
    import shlex

    from jobwise.cli import run

    monkeypatch.chdir(place)
    monkeypatch.setenv("JOBWISE_CACHE", str(place))
    here = "processes" if "--inputs" in command else "simulator"  # own commands run; without a Slurm
    words = shlex.split(re.sub(r"--sbatch '[^']*'", "", command.replace("--executor slurm", f"--executor {here}")))[1:]
    if words[:2] == ["mars", "run"]:
        words += ["--learn", "200", "--poll", "0.05"]
    if words[0] == "train":
        words += ["--preset", "smoke", "--threads", "1"]  # threads of two workers wait for one another
    if words[:2] == ["train", "mars"]:
        words += ["--choices", "2000"]
    if words[:2] == ["mars", "learn"]:
        words += ["--preset", "smoke", "--choices", "200", "--window", "400"]
    if any(w in ("--out", "--report", "-o") for w in words) and words[0] not in ("train", "reproduce"):
        words.append("--force")
    if words[:2] in (["trace", "generate"], ["trace", "convert"], ["workflow", "convert"], ["export-onnx", "runs/network"]):
        words += ["--force"] * ("--force" not in words)  # an earlier command may have written the same file
    code = run(words)
    assert code == 0, (command, capsys.readouterr().err)


def _trained(place, monkeypatch, capsys, name):
    if (place / "runs" / name / "policy.safetensors").exists():
        return
    (place / "runs").mkdir(exist_ok=True)
    command = next(c for c in COMMANDS if c.startswith("jobwise train") and f"runs/{name}" in c)
    _do(command, place, monkeypatch, capsys)


@pytest.mark.docs
@pytest.mark.xdist_group("learning")
@pytest.mark.parametrize("command", [pytest.param(c, marks=[pytest.mark.slow] if SLOW.search(c) else []) for c in COMMANDS])
def test_every_command_of_the_docs_runs(command, place, monkeypatch, capsys):
    """On a small log; training with the preset smoke. `reproduce` is held to its arguments alone: a study takes minutes."""
    if "reproduce" in command:
        from jobwise.report.sections import Section
        from jobwise_experiments import study

        monkeypatch.setattr(study, "reproduce", lambda name, *a, **k: [Section(name, "")])
        (place / re.search(r"--out (\S+)", command)[1]).mkdir(parents=True, exist_ok=True)
    if re.search(r"models( |/|$)", command) and "mars learn" not in command and not (place / "models").exists():
        _do(next(c for c in COMMANDS if "mars learn" in c), place, monkeypatch, capsys)
    for name in ("mine", "network", "cush", "mars", "affinities"):
        if f"runs/{name}" in command and not command.startswith("jobwise train"):
            _trained(place, monkeypatch, capsys, name)
    found = re.search(r"train .* --out (runs/\w+)", command)
    if found and (place / found[1]).exists():
        import shutil

        shutil.rmtree(place / found[1])
    (place / "runs").mkdir(exist_ok=True)
    _do(command, place, monkeypatch, capsys)


def test_what_trial_runs_are_worth_stands_in_their_study():
    """Percentages with intervals on the page of trial runs are those of the study's page."""
    page, study = ((ROOT / "docs" / x).read_text() for x in ("systems/trial.md", "studies/trial.md"))
    numbers = re.findall(r"[-+]\d+% \[[^\]]+\]", page)
    assert len(numbers) >= 2 and all(x in study for x in numbers)

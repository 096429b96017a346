"""Workflows that run commands of their own: CWL by cwltool, WDL by miniwdl, lists of commands; on processes of this machine.

Modules: workflows/engine_runs.py, workflows/engines/containers.py, workflows/engines/cwl.py, workflows/engines/cwl_jobs.py, workflows/engines/desk.py,
workflows/engines/lines.py, workflows/engines/wdl.py, workflows/processes.py, workloads/lines.py.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from benchmarks import word_count
from benchmarks.word_count import CWL, WDL, total
from jobwise.cli import run
from jobwise.slurm.client import SlurmError
from jobwise.workflows.engines.containers import RUNTIMES, inside
from jobwise.workflows.engines.desk import Asked, Desk, Stopped, requests, short
from jobwise.workflows.processes import LocalProcesses
from jobwise.workloads.source import open_workflow

pytestmark = pytest.mark.cli  # engines


@pytest.fixture(scope="module", autouse=True)
def _without_containers(tmp_path_factory):
    """No program that runs containers is found, whatever this machine has: tests bring stand-ins of their own."""
    if not any(map(shutil.which, RUNTIMES)):
        yield
        return
    place = tmp_path_factory.mktemp("path")
    for folder in os.environ["PATH"].split(":"):
        for program in Path(folder).iterdir() if Path(folder).is_dir() else ():
            if program.name not in RUNTIMES and not (place / program.name).is_symlink():
                (place / program.name).symlink_to(program)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", str(place))
        yield


def written(folder, kind):
    """The words of a command that runs the workflow of `benchmarks.word_count` on processes, its state beside it."""
    words = ["mars", "run", *word_count.written(folder, kind), "--executor", "processes", "--procs", "4"]
    return [*words, "--state", str(folder / "state"), "--poll", "0.1", "--json"]


@pytest.mark.parametrize("kind", ["cwl", "wdl"])
def test_a_workflow_runs_its_own_commands_through_kills(tmp_path, kind):
    """Killed twice with -9: every task runs once, the sum is right; run again, nothing runs."""
    words = [sys.executable, "-m", "jobwise.cli", *written(tmp_path, kind)]
    claims = tmp_path / "state" / "claims"
    for more in (3, 4):
        job = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        begun = len(list(claims.glob("*"))) if claims.exists() else 0
        for _ in range(2400):  # kernels may have to be compiled first
            if claims.exists() and len(list(claims.glob("*"))) >= begun + more:
                break
            time.sleep(0.05)
        job.send_signal(signal.SIGKILL)
        job.wait()
    assert 5 <= len(list(claims.glob("*"))) < 14
    done = subprocess.run(words, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert (result["tasks"], result["done"], result["failed"], result["never_run"]) == (14, 14, 0, 0)
    assert total(result) == "1000"
    assert sorted((tmp_path / "marks").read_text().split()) == [f"x{k:02d}" for k in range(12)]  # each once
    again = json.loads(subprocess.run(words, capture_output=True, text=True, timeout=100).stdout)
    assert 14 <= again["submitted"] == result["submitted"] <= 16  # a kill may hit a task that was about to be submitted
    assert total(again) == "1000"
    assert len((tmp_path / "marks").read_text().split()) == 12


@pytest.mark.parametrize("kind", ["cwl", "wdl"])
def test_requests_reach_the_manager(tmp_path, kind, monkeypatch, capsys):
    asked, real = {}, LocalProcesses.submit

    def submit(self, script, *, name, **more):
        asked[name] = script, more
        return real(self, script, name=name, **more)

    monkeypatch.setattr(LocalProcesses, "submit", submit)
    assert run([*written(tmp_path, kind), "-p", "fcfs"]) == 0
    said = capsys.readouterr()
    assert total(json.loads(said.out)) == "1000"
    assert kind == "wdl" or "hints at containers" in said.err
    split, *counts = (more for _, more in asked.values())
    assert split["cores"] == 2 and split["memory_mb"] == pytest.approx(104.8576)
    assert split.get("minutes") == (None if kind == "cwl" else 2)
    assert counts[3]["cores"] == 1 and counts[3]["memory_mb"] == pytest.approx(67.1, abs=0.1)
    assert counts[3].get("minutes") == (2 if kind == "cwl" else None)


def test_what_fails_is_said(tmp_path, capsys):
    words = written(tmp_path, "cwl")
    (tmp_path / "words.cwl").write_text(CWL.replace("sleep 0.4", "exit 3"))
    assert run(words) == 1
    said = capsys.readouterr()
    result = json.loads(said.out)
    assert result["failed"] == 12 and result["never_run"] == 0 and "count" in said.err and "exit code 3" in said.err
    (tmp_path / "words.cwl").write_text(CWL)  # what was changed runs anew, the split does not
    assert run(words) == 0
    assert json.loads(capsys.readouterr().out)["submitted"] == 14 and result["submitted"] == 1 + 12 * 2
    assert len(list((tmp_path / "state" / "claims").iterdir())) == 1 + 12 * 2 + 13  # the split did not run again
    (tmp_path / "b").mkdir()
    words = written(tmp_path / "b", "wdl")
    (tmp_path / "b" / "words.wdl").write_text(WDL.replace("sleep 0.4", "exit 3"))
    assert run(words) == 1
    said = capsys.readouterr().err
    assert "count" in said and "3" in said and "Traceback" not in said


def _one(tmp_path, capsys, words, *expected):
    assert run(words) == 2
    said = capsys.readouterr().err.strip()
    assert said.count("\n") == 0 and all(x in said for x in expected), said


def test_workflows_that_cannot_be_run(tmp_path, capsys):
    words = written(tmp_path, "cwl")
    file = tmp_path / "words.cwl"
    where = words.index("--inputs")
    without = words[:where] + words[where + 2 :]
    _one(tmp_path, capsys, without, "words.cwl", "has no value", "--inputs")
    _one(tmp_path, capsys, [*without, "--inputs", str(tmp_path / "none.yml")], "no such file")
    (tmp_path / "in.yml").write_text("text: {class: File, path: nowhere.txt}\nmarks: x\n")
    _one(tmp_path, capsys, words, "there is no", "nowhere.txt")
    file.write_text(
        CWL.replace("      hints:\n        DockerRequirement: {dockerPull: debian}\n", "").replace(
            "        ToolTimeLimit: {timelimit: 120}\n", "        DockerRequirement: {dockerPull: debian}\n"
        )
    )
    _one(tmp_path, capsys, words, "words.cwl", "DockerRequirement")
    file.write_text(CWL.replace("StepInputExpressionRequirement: {}", "TelepathyRequirement: {}"))
    _one(tmp_path, capsys, words, "words.cwl", "TelepathyRequirement")
    file.write_text(
        "cwlVersion: v1.2\nclass: Workflow\ninputs: []\noutputs: []\nsteps: {a: {run: {class: Operation, inputs: [], outputs: []}, in: [], out: []}}\n"
    )
    _one(tmp_path, capsys, without, "Operation")
    (tmp_path / "b").mkdir()
    words = written(tmp_path / "b", "wdl")
    where = words.index("--inputs")
    _one(tmp_path, capsys, words[:where] + words[where + 2 :], "words.wdl", "text")
    (tmp_path / "b" / "in.json").write_text("{")
    _one(tmp_path, capsys, words, "in.json", "no JSON")
    (tmp_path / "b" / "in.json").write_text('{"words.text": "text.txt", "words.marks": "m", "words.parts": "many"}')
    _one(tmp_path, capsys, words, "in.json")
    _one(tmp_path, capsys, [*words, "--inputs", "more.json"], "--inputs is there 2 times")
    _one(
        tmp_path,
        capsys,
        ["mars", "run", str(tmp_path / "b" / "words.wdl"), "--state", "x", "--executor", "slurm", "--gpus", "2"],
        "--gpus",
    )


CONTAINED = {
    "cwl": """cwlVersion: v1.2
class: Workflow
inputs: []
outputs: {said: {type: File, outputSource: say/said}}
steps:
  say:
    run:
      class: CommandLineTool
      requirements: {DockerRequirement: {dockerPull: debian}}
      baseCommand: [echo, bare]
      inputs: []
      stdout: said.txt
      outputs: {said: stdout}
    in: []
    out: [said]
""",
    "wdl": """version 1.0
task say {
  command { echo bare }
  output { File said = stdout() }
  runtime { docker: "debian:12" }
}
workflow w { if (true) { call say } }
""",
    "1.wdl": """version 1.1
task say {
  command <<< echo bare >>>
  output { File said = stdout() }
  runtime { container: "debian:12" }
}
workflow w { scatter (i in range(1)) { call say } }
""",
}


NAMED = {"cwl": "the tool echo bare", "wdl": "task say", "1.wdl": "task say"}


@pytest.mark.parametrize("kind", CONTAINED)
def test_a_container_is_refused_or_said_to_be_done_without(tmp_path, kind, capsys, monkeypatch):
    monkeypatch.setattr("jobwise.workflows.engines.containers.RUNTIMES", {})  # wherever this is run
    file = tmp_path / f"w.{kind}"
    file.write_text(CONTAINED[kind])
    words = ["mars", "run", str(file), "--executor", "processes", "--state", str(tmp_path / "s"), "--poll", "0.05", "--json"]
    _one(tmp_path, capsys, words, "w.", NAMED[kind], "container", "--bare runs")
    assert not list((tmp_path / "s").glob("stamps/*"))  # nothing has run
    assert run([*words, "--bare"]) == 0
    told = capsys.readouterr()
    assert json.loads(told.out)["done"] == 1 and f"{NAMED[kind]} asks for a container, and ran without one" in told.err


STAND_INS = {  # option words with a value, and the one that ends them
    "apptainer": ({"--bind", "--pwd"}, "--pwd"),
    "podman": ({"--volume", "--workdir", "--device"}, "--workdir"),
    "ch-run": ({"--bind", "--cd"}, "--cd"),
}


def stand_in(folder, name):
    """A program that notes how it was called, and runs the command behind the image in the folder that it was told."""
    valued, place = STAND_INS[name]
    (folder / "bin").mkdir()
    file = folder / "bin" / name
    file.write_text(f"""#!{sys.executable}
import os, sys
words = sys.argv[1:]
open({str(folder / "called")!r}, "a").write(repr(words) + chr(10))
at = 0 if {name!r} == "ch-run" else 1
while words[at].startswith("-"):
    if words[at] == {place!r}:
        os.chdir(words[at + 1])
    at += 2 if words[at] in {sorted(valued)!r} else 1
rest = words[at + 1 :]
rest = rest[1:] if rest[0] == "--" else rest
os.execvp(rest[0], rest)
""")
    file.chmod(0o755)
    return str(folder / "bin")


@pytest.mark.parametrize("kind", CONTAINED)
@pytest.mark.parametrize("name", STAND_INS)
def test_a_container_is_used_where_something_runs_one(tmp_path, kind, name, capsys, monkeypatch):
    """The image of the task, its folders at their own paths, its command behind them; nothing is said of running bare."""
    monkeypatch.setenv("PATH", f"{stand_in(tmp_path, name)}:{os.environ['PATH']}")
    file = tmp_path / f"w.{kind}"
    file.write_text(CONTAINED[kind])
    words = ["mars", "run", str(file), "--executor", "processes", "--state", str(tmp_path / "s"), "--poll", "0.05", "--json"]
    assert run(words) == 0
    told = capsys.readouterr()
    assert json.loads(told.out)["done"] == 1 and "without one" not in told.err
    called = eval((tmp_path / "called").read_text().splitlines()[0])
    image = "debian" if kind == "cwl" else "debian:12"
    assert (f"docker://{image}" if name == "apptainer" else image) in called
    assert any(f"{tmp_path / 's'}" in x and ":" in x for x in called)  # a folder of the run, at the same path inside


def test_what_a_container_sees_and_its_environment(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "x").write_text("1")
    (tmp_path / "task" / "out").mkdir(parents=True)
    told = inside(
        "podman", "debian", ["wc", "x"], str(tmp_path / "task" / "out"), [str(tmp_path / "data" / "x")], {"A": "1"}, 1
    )
    task, data = str(tmp_path / "task"), str(tmp_path / "data" / "x")
    assert told[-4:] == ["env", "A=1", "wc", "x"] and told[told.index("debian") - 1] == f"{task}/out"
    assert f"{task}:{task}" in told and f"{data}:{data}" in told and "nvidia.com/gpu=all" in told
    own = inside("apptainer", "/images/a.sif", ["true"], str(tmp_path / "task" / "out"), [], {}, 1)
    assert own[:3] == ["apptainer", "exec", "--nv"] and own[-2:] == ["/images/a.sif", "true"]


def test_a_hint_at_a_container_that_is_built_is_a_note(tmp_path, capsys, monkeypatch):
    """No image to run: the tool runs on the nodes as they are, and that is said."""
    monkeypatch.setenv("PATH", f"{stand_in(tmp_path, 'podman')}:{os.environ['PATH']}")
    (tmp_path / "w.cwl").write_text(
        CONTAINED["cwl"].replace(
            "requirements: {DockerRequirement: {dockerPull: debian}}",
            "hints: {DockerRequirement: {dockerFile: FROM debian, dockerImageId: mine}}",
        )
    )
    words = [
        "mars",
        "run",
        str(tmp_path / "w.cwl"),
        "--executor",
        "processes",
        "--state",
        str(tmp_path / "s"),
        "--poll",
        "0.05",
    ]
    assert run([*words, "--json"]) == 0
    assert "hints at a container that is built or loaded" in capsys.readouterr().err and not (tmp_path / "called").exists()


def test_a_condition_leaves_out_what_it_excludes(tmp_path, capsys):
    (tmp_path / "w.cwl").write_text("""cwlVersion: v1.2
class: Workflow
requirements: {InlineJavascriptRequirement: {}}
inputs: {go: {type: boolean, default: false}}
outputs: []
steps:
  maybe:
    run: {class: CommandLineTool, baseCommand: "false", inputs: {go: boolean}, outputs: []}
    when: $(inputs.go)
    in: {go: go}
    out: []
  sure:
    run: {class: CommandLineTool, baseCommand: "false", successCodes: [1], inputs: [], outputs: []}
    in: []
    out: []
""")
    words = ["mars", "run", str(tmp_path / "w.cwl"), "--executor", "processes", "--poll", "0.05", "--json"]
    assert run([*words, "--state", str(tmp_path / "s")]) == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["tasks"], result["done"], result["never_run"]) == (1, 1, 0)


def test_lists_of_commands(tmp_path, capsys):
    file = tmp_path / "some.commands"
    file.write_text(
        "# a list\n#: cores=2 memory=50 minutes=1\ntouch 'a b'\n\n#: gpus=1\nsh -c 'echo $CUDA_VISIBLE_DEVICES > g'\n"
    )
    flow = open_workflow(file)
    assert flow.tasks["cores"].tolist() == [2, 1] and flow.tasks["limit"].tolist() == [60, 0] and flow.tasks["gpus"][1] == 1
    words = ["mars", "run", str(file), "--executor", "processes", "--procs", "2", "--poll", "0.05", "--json"]
    assert run([*words, "--gpus", "2", "--state", str(tmp_path / "s"), "-p", "manager"]) == 0
    assert (tmp_path / "a b").exists() and (tmp_path / "g").read_text() == "0\n"
    assert json.loads(capsys.readouterr().out)["outputs"][str(file)]["codes"] == {"line3": 0, "line6": 0}
    file.write_text("true\nfalse\n")
    assert run([*words, "--state", str(tmp_path / "f"), "--retries", "0"]) == 1
    assert "1 of 2 failed, first line2" in capsys.readouterr().err
    for text, expected in (
        ("a 'b\n", ":1:"),
        ("#: cores=x\na\n", ":1:"),
        ("#: ports=2\na\n", "cores=N"),
        ("# none\n", "0 commands"),
    ):
        file.write_text(text)
        _one(tmp_path, capsys, [*words, "--state", str(tmp_path / "x")], "some.commands", expected)
    file.write_text("#: cores=3\ntrue\n")
    _one(tmp_path, capsys, [*words, "--state", str(tmp_path / "y")], "3", "2")


def test_processes(tmp_path):
    """First come, first served; time limits; GPUs; dependencies; what does not fit; taken up by another run."""
    p = LocalProcesses(tmp_path / "p", 2, gpus=2, memory=1000)

    def until(*states, pool=p):
        for _ in range(200):
            pool.wait(0.02)
            if [j.state for j in pool.jobs()] == list(states):
                return
        raise AssertionError([j.state for j in pool.jobs()])

    out = tmp_path / "out"
    two = {"cores": 2, "output": str(out), "folder": str(tmp_path)}
    p.submit("#!/bin/sh\necho $CUDA_VISIBLE_DEVICES; pwd\n", name="a", gpus=2, **two)
    b = p.submit("#!/bin/sh\nexit 3\n", name="b", **two)
    p.submit("#!/bin/sh\necho never\n", name="c", after=[b], **two)
    until("COMPLETED", "FAILED", "CANCELLED")
    assert out.read_text() == f"0,1\n{tmp_path}\n" and [j.code for j in p.jobs()] == [0, 3, 0]
    assert p.nodes()[0].free == 2 and p.cores() == (2, 2)
    for wrong in ({"cores": 3}, {"memory_mb": 2000}, {"gpus": 3}, {"more": ["--qos=high"]}):
        with pytest.raises(SlurmError):
            p.submit("#!/bin/sh\n", name="x", **wrong)
    d = p.submit("#!/bin/sh\nsleep 100\n", name="d")
    p.table[d].seconds = 0.1
    until("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT")
    e = p.submit("#!/bin/sh\nsleep 1; echo over\n", name="e", **two)
    f = p.submit("#!/bin/sh\necho then\n", name="f", **two)
    other = LocalProcesses(tmp_path / "p", 2)  # as after a kill: e runs on, f waits
    assert [j.state for j in other.jobs()][-2:] == ["RUNNING", "PENDING"]
    until("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "COMPLETED", "COMPLETED", pool=other)
    assert out.read_text().endswith("over\nthen\n") and e < f
    g = other.submit("#!/bin/sh\nsleep 100\n", name="g")
    other.cancel([g])
    assert other.jobs()[-1].state == "CANCELLED"
    (tmp_path / "p" / "000009.json").write_text("{}")
    with pytest.raises(ValueError, match="000009.json"):
        LocalProcesses(tmp_path / "p")


def test_a_process_that_was_begun_at_a_kill_is_not_begun_again(tmp_path):
    """Killed between the start of a process and the line that says so: the process has written its number down."""
    p = LocalProcesses(tmp_path, 1)
    a = p.submit("#!/bin/sh\necho once >> once; sleep 0.5\n", name="a", folder=str(tmp_path))
    file = tmp_path / f"{a:06d}.json"
    entry = json.loads(file.read_text()) | {"process": 0, "born": 0}
    file.write_text(json.dumps(entry))
    time.sleep(0.1)
    q = LocalProcesses(tmp_path, 1)
    assert q.jobs()[0].state == "RUNNING" and q.table[a].process == p.table[a].process
    os.waitpid(q.table[a].process, 0)
    assert q.jobs()[0].state == "COMPLETED" and (tmp_path / "once").read_text() == "once\n"
    file.write_text(json.dumps(entry | {"devices": []}))
    (tmp_path / f"{a:06d}.process").unlink()
    assert LocalProcesses(tmp_path, 1).table[a].job.state == "PENDING"


def test_a_desk():
    desk = Desk()
    assert [desk.key("a b"), desk.key("a b"), desk.key("c")] == ["a_b", "a_b+2", "c"]
    task = Asked(
        "k", "s", ["echo", "a b"], "/", output="/o o", environment={"A": "1 2"}, options=("--qos=x",), gpus=1, seconds=61
    )
    assert task.words() == ["env", "A=1 2", "echo", "a b"] and task.redirections() == " > '/o o'"
    assert task.requests() == {"gpus": 1, "minutes": 61 / 60} and requests(5, 0, 0) == {"memory_mb": 5.0}
    codes = []
    desk.ask(task, codes.append)
    assert desk.take() == [task] and desk.take() == []
    desk.ended("k", 4), desk.ended("k", 5)
    assert codes == [4]
    desk.close()
    with pytest.raises(Stopped):
        desk.run(task)


def test_what_the_manager_refuses_is_one_line(tmp_path, capsys):
    file = tmp_path / "g.commands"
    file.write_text("#: gpus=2\ntrue\n")
    words = ["mars", "run", str(file), "--executor", "processes", "--procs", "2", "--poll", "0.05"]
    for k, more in enumerate(([], ["-p", "manager"], ["--gpus", "3", "--sbatch", "-p batch"])):
        _one(tmp_path, capsys, [*words, *more, "--state", str(tmp_path / f"{k}")], "GPUs")
    assert len(list((tmp_path / "0" / "claims").iterdir())) == 0
    _one(tmp_path, capsys, ["mars", "run", str(file), "--inputs", "x", "--state", str(tmp_path / "s")], "--inputs goes with")


@pytest.mark.parametrize("kind", ["cwl", "wdl"])
def test_what_was_changed_runs_anew(tmp_path, kind, capsys):
    """An input of the same name and size with other contents; outputs of before are gone where a run fails."""
    words = written(tmp_path, kind)
    assert run(words) == 0 and total(json.loads(capsys.readouterr().out)) == "1000"
    (tmp_path / "text.txt").write_text("".join(f"{i}\n" for i in range(500)))
    assert run(words) == 0 and total(json.loads(capsys.readouterr().out)) == "500"
    file = tmp_path / f"words.{kind}"
    file.write_text(file.read_text().replace("sleep 0.4", "exit 4"))
    assert run(words) == 1
    outputs = tmp_path / "state" / "engine0" / "outputs.json"
    assert not outputs.exists() or "total.txt" not in outputs.read_text()


def test_more_copies_than_foretold_under_mars(tmp_path, capsys):
    words = written(tmp_path, "cwl")
    assert run([*words, "-p", "mars"]) == 0
    assert total(json.loads(capsys.readouterr().out)) == "1000"


def test_a_task_that_failed_is_tried_again_by_another_run(tmp_path, capsys):
    file = tmp_path / "l.commands"
    file.write_text("test -e there\n")
    words = ["mars", "run", str(file), "--executor", "processes", "--poll", "0.05", "--json", "--state", str(tmp_path / "s")]
    assert run([*words, "--retries", "0"]) == 1 and "what tasks printed" in capsys.readouterr().err
    (tmp_path / "there").touch()
    assert run([*words, "--retries", "0"]) == 0
    assert json.loads(capsys.readouterr().out)["submitted"] == 2


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x89\xfe\x00",
        b"text: {class: File, path: 3}\n",
        b"text: 3\n",
        b"- 1\n",
        b"text: {class: File, location: 'http://nowhere/x'}\n",
        b"text: {class: File, path: tools}\n",
    ],
)
def test_bad_values_of_cwl_inputs_are_one_line(tmp_path, content, capsys):
    words = written(tmp_path, "cwl")
    (tmp_path / "in.yml").write_bytes(content + (b"marks: m\n" if content.endswith(b"}\n") or content == b"text: 3\n" else b""))
    _one(tmp_path, capsys, words, "")


def test_names_with_spaces_and_long_ones(tmp_path, capsys):
    words = written(tmp_path, "cwl")
    (tmp_path / "text.txt").rename(tmp_path / "my 'own' text.txt")
    (tmp_path / "in.yml").write_text(f"text: {{class: File, location: \"my%20'own'%20text.txt\"}}\nmarks: {tmp_path}/m\n")
    assert run(words) == 0 and total(json.loads(capsys.readouterr().out)) == "1000"
    (tmp_path / "in.yml").write_text(f"text: {{class: File, path: text.txt}}\nmarks: {tmp_path}/m\nextra: 3\n")
    (tmp_path / "text.txt").touch()
    assert run(words) == 0 and "has values that no input takes: 'extra'" in capsys.readouterr().err
    assert len(short("a" * 400)) == 150 and short("a" * 400) != short("a" * 401) and short("a b") == "a_b"


def test_an_engine_that_is_not_installed(tmp_path, monkeypatch, capsys):
    words = written(tmp_path, "cwl")
    monkeypatch.delitem(sys.modules, "jobwise.workflows.engines.cwl", raising=False)
    monkeypatch.setitem(sys.modules, "cwltool", None)
    _one(tmp_path, capsys, words, "needs cwltool", "jobwise[workflows]")


def test_a_changed_input_of_the_same_name_and_size_runs_anew(tmp_path, capsys):
    words = written(tmp_path, "cwl")
    assert run(words) == 0 and total(json.loads(capsys.readouterr().out)) == "1000"
    text = (tmp_path / "text.txt").read_text()
    lines = text.splitlines()
    half = "".join(f"{a} {b}\n" for a, b in zip(lines[::2], lines[1::2], strict=True))
    assert len(half) == len(text)
    (tmp_path / "text.txt").write_text(half)
    assert run(words) == 0 and total(json.loads(capsys.readouterr().out)) == "500"


@pytest.mark.parametrize("named, mb", [("ramMin: 100", 104.8576), ("ramMax: 100", 104.8576), ("coresMin: 1", None)])
def test_memory_is_asked_for_where_either_bound_of_it_is_named(tmp_path, named, mb, monkeypatch, capsys):
    """cwltool's own default of 256 MiB is nobody's request."""
    asked, real = [], LocalProcesses.submit
    monkeypatch.setattr(LocalProcesses, "submit", lambda self, script, **more: asked.append(more) or real(self, script, **more))
    (tmp_path / "w.cwl").write_text(
        CONTAINED["cwl"].replace(
            "requirements: {DockerRequirement: {dockerPull: debian}}", f"requirements: {{ResourceRequirement: {{{named}}}}}"
        )
    )
    words = [
        "mars",
        "run",
        str(tmp_path / "w.cwl"),
        "--executor",
        "processes",
        "--state",
        str(tmp_path / "s"),
        "--poll",
        "0.05",
    ]
    assert run(words) == 0
    assert asked[0].get("memory_mb") == (None if mb is None else pytest.approx(mb))


def test_an_expression_that_fails_is_one_line(tmp_path):
    """Its traceback, of cwltool and its sandbox, is in the engine's log alone."""
    import shutil

    if shutil.which("node") is None:
        pytest.skip("no Node.js here, which CWL's expressions need")
    (tmp_path / "w.cwl").write_text("""cwlVersion: v1.2
class: Workflow
requirements: {InlineJavascriptRequirement: {}, StepInputExpressionRequirement: {}}
inputs: {n: {type: int, default: 3}}
outputs: []
steps:
  s:
    run: {class: CommandLineTool, baseCommand: "true", inputs: {m: int}, outputs: []}
    in: {m: {source: n, valueFrom: "${ throw 'no good'; }"}}
    out: []
""")
    words = ["mars", "run", "w.cwl", "--executor", "processes", "--state", "s", "--poll", "0.05", "--json"]
    done = subprocess.run(
        [sys.executable, "-m", "jobwise.cli", *words], cwd=tmp_path, capture_output=True, text=True, timeout=300
    )
    lines = [x for x in done.stderr.splitlines() if not x.startswith("jobwise: compiling")]
    assert done.returncode == 1 and "step s" in lines[0] and len(lines) == 2, done.stderr
    assert "no good" in (tmp_path / "s" / "engine0" / "engine.log").read_text()


def test_a_tool_that_leaves_no_output_has_failed(tmp_path, capsys):
    """Its exit code is 0: what was to come of it is not there."""
    file = tmp_path / "a.cwl"
    tool = "class: CommandLineTool, inputs: [], outputs: {o: {type: File, outputBinding: {glob: there.txt}}}"
    after = f"class: CommandLineTool, inputs: {{x: File?}}, outputs: [], baseCommand: [touch, {tmp_path / 'after'}]"
    steps = f"steps: {{s: {{in: [], out: [o], run: {{{tool}, baseCommand: 'true'}}}}, t: {{in: {{x: s/o}}, out: [], run: {{{after}}}}}}}"
    file.write_text(f"cwlVersion: v1.2\nclass: Workflow\ninputs: []\noutputs: []\n{steps}\n")
    words = ["mars", "run", str(file), "--executor", "processes", "--poll", "0.05", "--json", "--state", str(tmp_path / "s")]
    assert run(words) == 1
    said = capsys.readouterr()
    assert "there.txt" in said.err and "Traceback" not in said.err and not (tmp_path / "after").exists()
    file.write_text(file.read_text().replace("baseCommand: 'true'", "baseCommand: [touch, there.txt]"))
    assert run(words) == 0 and (tmp_path / "after").exists()


@pytest.mark.parametrize(("runtime", "tries"), [("maxRetries: 1", 2), ("preemptible: 1", 2), ("cpu: 1", 1)])
def test_a_wdl_task_is_tried_as_often_as_it_says(tmp_path, runtime, tries, capsys):
    there = tmp_path / "there"
    text = f"version 1.0\nworkflow w {{ call t }}\ntask t {{ command <<< test -e {there} || {{ touch {there}; exit 1; }} >>>\n"
    (tmp_path / "w.wdl").write_text(f"{text} runtime {{ {runtime} }} }}\n")
    words = ["mars", "run", str(tmp_path / "w.wdl"), "--executor", "processes", "--poll", "0.05", "--retries", "0", "--json"]
    assert run([*words, "--state", str(tmp_path / "s")]) == (0 if tries == 2 else 1)
    assert json.loads(capsys.readouterr().out)["submitted"] == tries


def test_a_job_that_is_ended_leaves_no_process_behind(tmp_path):
    """Cancelled, over its limit, or over with a child that runs on in the background."""
    p = LocalProcesses(tmp_path / "p", 3)
    ids = {}
    for name, rest in (("cancelled", "wait"), ("late", "wait"), ("over", "exit 0")):
        script = (
            f"#!/bin/sh\nsleep 300 &\necho $! > {tmp_path / name}.new; mv {tmp_path / name}.new {tmp_path / name}\n{rest}\n"
        )
        ids[name] = p.submit(script, name=name)
    end = time.monotonic() + 30
    while not all((tmp_path / name).exists() for name in ids) and time.monotonic() < end:
        p.wait(0.02)
    children = [int((tmp_path / name).read_text()) for name in ids]
    p.table[ids["late"]].seconds = 0.01
    p.cancel([ids["cancelled"]])
    while any(j.state == "RUNNING" for j in p.jobs()) and time.monotonic() < end:
        p.wait(0.02)
    assert [j.state for j in p.jobs()] == ["CANCELLED", "TIMEOUT", "COMPLETED"]

    def runs(process):
        try:
            return psutil.Process(process).status() != psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return False

    while any(map(runs, children[:2])) and time.monotonic() < end:
        time.sleep(0.02)
    assert not any(map(runs, children[:2]))
    if runs(children[2]):
        os.kill(children[2], signal.SIGKILL)


def test_secondary_files_are_found_beside_their_file(tmp_path, capsys):
    """The values name the file alone; its index lies beside it, as cwltool has it."""
    tool = "class: CommandLineTool, baseCommand: ls, arguments: [$(inputs.bam.path).bai], stdout: seen.txt"
    (tmp_path / "w.cwl").write_text(
        "cwlVersion: v1.2\nclass: Workflow\ninputs: {bam: {type: File, secondaryFiles: .bai}}\n"
        "outputs: {seen: {type: File, outputSource: one/seen}}\nsteps:\n  one:\n    in: {bam: bam}\n    out: [seen]\n"
        f"    run: {{{tool}, inputs: {{bam: {{type: File, secondaryFiles: .bai}}}}, outputs: {{seen: {{type: stdout}}}}}}\n"
    )
    for name in ("a.bam", "a.bam.bai"):
        (tmp_path / name).write_text("x")
    (tmp_path / "in.yml").write_text("bam: {class: File, location: a.bam}\n")
    words = ["mars", "run", str(tmp_path / "w.cwl"), "--inputs", str(tmp_path / "in.yml"), "--executor", "processes"]
    assert run([*words, "--state", str(tmp_path / "s"), "--poll", "0.05"]) == 0
    out = capsys.readouterr().out
    assert f"seen: {tmp_path}/s/engine0/outputs/seen.txt" in "".join(out.split("\n")) or "seen.txt" in out
    assert "a.bam.bai" in (tmp_path / "s" / "engine0" / "outputs" / "seen.txt").read_text()

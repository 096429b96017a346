"""Hostile files: policies, logs, names. One line, no escape sequences, no bombs, no downloads in the clear.

Modules: errors.py, workflows/ledger.py.
"""

import gzip
import json
import lzma
import shutil

import numpy as np
import pytest
from safetensors.numpy import save
from test_report import scripts_are_ours
from test_swf import line, text

from jobwise.cli import run
from jobwise.errors import InputError, plain
from jobwise.policies.names import load
from jobwise.workloads import catalogue, opened

NASTY = [
    'x" onload="alert(1)',
    "$\\frac",
    "[red]b[/red]",
    "\x1b[2J\x1b[31m",
    "\u202egnp.exe",
    "<script>alert(1)</script>",
    "a\nb",
]


def test_control_characters_are_spelt_out():
    assert plain("\x1b[2J") == "\\x1b[2J" and plain("ü – 字\n") == "ü – 字\n" and "\u202e" not in plain("\u202egnp.exe")


@pytest.mark.parametrize("name", NASTY)
def test_a_hostile_policy_file(name, tmp_path, capsys):
    for meta in (
        {"format": "jobwise policy 1", "kind": "index", "features": [name], "about": {}},
        {"format": name},
        {"format": "jobwise policy 1", "kind": name, "encoder": {"name": name, "settings": {name: 1}}, "act": {}, "about": {}},
        {"format": "jobwise policy 1", "kind": "grid", "world": {name: 1}},
        [name],
    ):
        path = tmp_path / "p.safetensors"
        path.write_bytes(save({"weights": np.zeros(3)}, {"jobwise": json.dumps(meta)}))
        with pytest.raises(InputError):
            load(path)
        assert run(["explain", str(path), "sdsc-none"]) == 2
        err = capsys.readouterr().err
        assert err.count("\n") == 1 and "\x1b" not in err and "\u202e" not in err


@pytest.mark.parametrize("name", [n for n in NASTY if "/" not in n and "\n" not in n])
def test_a_hostile_log(name, tmp_path, capsys):
    folder = tmp_path / "d"
    folder.mkdir()
    path = folder / f"{name}.swf"
    path.write_text(text(*(line(i, 10 * i, run=30 + i, walltime=100, requested=1 + i % 4) for i in range(1, 40))))
    assert run(["simulate", str(path)]) == 0
    out = capsys.readouterr().out
    assert "\x1b" not in out and "\u202e" not in out and plain(name)[:6] in out.replace("\n", "")
    assert run(["compare", str(path), "-p", "fcfs", "-p", "sjf", "--report", str(tmp_path / "r.html")]) == 0
    page = (tmp_path / "r.html").read_text()
    assert scripts_are_ours(page) and "\x1b" not in page and "\u202e" not in page
    assert "\x1b" not in capsys.readouterr().out
    path.write_text(f"{name} not a log")
    assert run(["simulate", str(path)]) == 2
    assert "\x1b" not in capsys.readouterr().err


def test_sacct_users_are_names_and_text(tmp_path, capsys):
    from jobwise.workloads.sacct import read_sacct

    head = "JobIDRaw|User|Account|Partition|QOS|State|Submit|Start|End|ElapsedRaw|TimelimitRaw|NCPUS\n"
    rows = "".join(
        f"{i}|{('anna', '<b>x</b>', chr(27) + '[2J')[i % 3]}|a|p|q|COMPLETED|2026-01-01T00:{i:02d}:00|2026-01-01T01:00:00||60||2\n"
        for i in range(20)
    )
    path = tmp_path / "jobs.sacct"
    path.write_text(head + rows)
    w = read_sacct(path)
    assert set(w.names["user"].values()) == {"anna", "<b>x</b>", "\x1b[2J"}
    assert w.notes["without a requested time (their run time stands in)"] == 20 and any("guessed" in k for k in w.notes)
    assert "allocated CPUs" in w.reading[0]
    assert run(["compare", str(path), "-p", "fcfs", "-p", "sjf", "--report", str(tmp_path / "r.html")]) == 0
    page = (tmp_path / "r.html").read_text()
    assert (
        "user anna" in page
        and "<b>x</b>" not in page
        and scripts_are_ours(page)
        and "\x1b" not in page
        and "2026-01-01" in page
    )
    assert "allocated CPUs" in page and "requested if &gt; 0" not in page


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress])
def test_a_bomb_is_one_line(pack, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(opened, "MOST_STREAMED", 1 << 20)
    path = tmp_path / "bomb.swf.gz"
    path.write_bytes(pack(b" " * (1 << 21)))
    assert run(["simulate", str(path)]) == 2
    assert "holds more than 1 MiB" in capsys.readouterr().err


def test_downloads_are_by_https(tmp_path, monkeypatch):
    monkeypatch.setenv("JOBWISE_CACHE", str(tmp_path))
    for address in ("http://example.org/logs", "ftp://example.org", "file:///etc", "http://127.0.0.1.example.org"):
        monkeypatch.setenv("JOBWISE_ARCHIVE", address)
        with pytest.raises(InputError, match="https alone"):
            catalogue.fetch("sdsc-sp2")
    assert catalogue.ARCHIVE.startswith("https://")


def test_a_file_that_is_no_python_is_no_policy(tmp_path):
    from jobwise.policies.names import resolve

    (tmp_path / "x.pyx").write_text("f = 1")
    with pytest.raises(InputError, match="no Python file"):
        resolve(f"{tmp_path / 'x.pyx'}:f")


def ledger(folder, **first):
    """A state folder of `jobwise mars run` whose ledger somebody else has written."""
    folder.mkdir(parents=True)
    head = {"event": "begin", "run": "jw0123abcd", "time": 0.0, "tasks": 1, "edges": 0, "name": "w"} | first
    (folder / "ledger.jsonl").write_text(json.dumps(head) + "\n")
    return folder


@pytest.mark.parametrize(
    "first",
    [
        {"run": "x; touch PWNED #"},
        {"run": "jw0123abcd; id"},
        {"run": "$(touch PWNED)"},
        {"run": "../../x"},
        {"run": None},
        {"run": "jw0123abcd", "time": "now"},
        {"time": float("nan")},
    ],
)
def test_a_ledger_cannot_put_words_into_batch_scripts(first, tmp_path):
    from jobwise.workflows import ledger as book

    state = ledger(tmp_path / "state", **first)
    with pytest.raises(InputError, match=r"ledger.jsonl:1: "):
        book.read(state / "ledger.jsonl", 1)


def test_a_damaged_ledger_is_one_line(tmp_path):
    from jobwise.workflows import ledger as book

    for wrong, told in [
        ({"event": "submit", "task": 9, "try": 1}, "no task"),
        ({"event": "submit", "task": 0, "try": "1"}, "try"),
        ({"event": "id", "task": 0, "try": 1, "id": "7;id"}, "id"),
        ({"event": "end", "task": 0, "try": 1, "state": "fine", "start": 0, "end": 1}, "state"),
        ({"event": "run", "task": 0}, "event"),
        ([1], "no record"),
    ]:
        state = ledger(tmp_path / told.replace(" ", ""))
        with open(state / "ledger.jsonl", "a") as file:
            file.write(json.dumps(wrong) + "\n")
        with pytest.raises(InputError, match=rf"ledger.jsonl:2: .*{told}"):
            book.read(state / "ledger.jsonl", 1)
    state = ledger(tmp_path / "cut")
    with open(state / "ledger.jsonl", "a") as file:
        file.write('{"event": "submit", "ta')  # a kill has cut the last line
    assert len(book.read(state / "ledger.jsonl", 1)) == 1


@pytest.mark.cli
def test_names_in_batch_scripts_are_quoted(tmp_path):
    import shlex
    import subprocess

    from jobwise.workflows.task import script

    folder = tmp_path / "it's; touch PWNED"
    for name in ("claims", "stamps"):
        (folder / name).mkdir(parents=True)
    text = script(folder, "jw0; touch PWNED", ["printf", "%s", "a b; touch PWNED"])
    done = subprocess.run(["sh"], input=text, cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout == "a b; touch PWNED" and not list(tmp_path.rglob("PWNED")), text
    assert shlex.split(text.splitlines()[1])[1] == str(folder / "claims" / "jw0; touch PWNED")
    assert (folder / "stamps" / "jw0; touch PWNED").read_text().split()[2] == "0"


def test_lists_of_nodes_are_bounded(tmp_path, capsys):
    from jobwise.slurm.read.text import nodes

    assert nodes("n[01-03,7],x") == ["n01", "n02", "n03", "n7", "x"]
    assert nodes("r[1-2]n[8-9]s") == ["r1n8s", "r1n9s", "r2n8s", "r2n9s"]
    for hostile in (
        "a[0-4999][0-4999]",
        "a[0-99999],b[0-99999],c[0-99999]",
        "a[0-9][0-9][0-9][0-9][0-9][0-9]",
        "a[0-999999999999]",
    ):
        with pytest.raises(ValueError):
            nodes(hostile)
    for wrong in ("a[1-", "a[x]", "a[-1-2]", "a[1-2-3]"):
        if wrong != "a[1-":  # no bracket is closed: a name
            with pytest.raises(ValueError):
                nodes(wrong)
    head = "JobIDRaw|JobName|User|Account|Partition|QOS|State|Submit|Eligible|Start|End|ElapsedRaw|TimelimitRaw|NNodes|NCPUS|ReqCPUS|ReqMem|ReqTRES|AllocTRES|NodeList|SubmitLine"
    row = (
        "1|a|u|x|p|q|COMPLETED|1800000000|1800000000|1800000010|1800000020|10|1|1|1|1|1M|cpu=1|cpu=1|a[0-4999][0-4999]|sbatch x"
    )
    (tmp_path / "sacct.txt").write_text(f"{head}\n{row}\n")
    assert run(["slurm", "site", str(tmp_path)]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1 and "sacct.txt" in err and "more than" in err


def test_telemetry_is_unpacked_up_to_a_limit(tmp_path, capsys, monkeypatch):
    from jobwise.telemetry import read

    monkeypatch.setattr(read, "MOST_BYTES", 1 << 20)
    monkeypatch.setattr(read, "MOST_HEAD", 1 << 12)
    bomb = tmp_path / "bomb.csv.gz"
    bomb.write_bytes(gzip.compress(b"time,value\n" + b"1,2\n" * (1 << 19)))
    assert run(["telemetry", "info", str(bomb)]) == 2
    assert "holds more than 1 MiB" in capsys.readouterr().err
    line = tmp_path / "line.csv.gz"
    line.write_bytes(gzip.compress(b"x" * (1 << 19)))
    assert run(["telemetry", "info", str(line)]) == 2
    assert "line.csv.gz:1: " in capsys.readouterr().err
    import pandas

    monkeypatch.setattr(read, "MOST_BYTES", 1 << 10)
    pandas.DataFrame({"time": np.arange(5000), "value": 0.0}).to_parquet(tmp_path / "bomb.parquet")
    assert run(["telemetry", "info", str(tmp_path / "bomb.parquet")]) == 2
    assert "too many to read" in capsys.readouterr().err


def test_tables_of_speeds_are_checked(tmp_path, monkeypatch):
    from jobwise.workloads import dnn

    rows = "job_type,total_steps,arrival_time_s,num_gpus\nResNet-18 (batch size 32),100,5,1\n"
    (tmp_path / "jobs.csv").write_text(rows)
    file = tmp_path / "gavel_throughputs.json.gz"
    for content in (
        "[" * 100_000,
        '{"p100": {"----1": {"null": 1}}}',
        '{"p100": {"(1, 2)": {"null": 1}}}',
        '{"p100": 3}',
        "nonsense",
    ):
        file.write_bytes(gzip.compress(content.encode()))
        with pytest.raises(InputError, match=r"gavel_throughputs.json.gz: "):
            dnn.read_gavel(tmp_path / "jobs.csv")
    monkeypatch.setattr(dnn, "MOST_BYTES", 1 << 10)
    file.write_bytes(gzip.compress(b" " * (1 << 20)))
    with pytest.raises(InputError, match="holds more than"):
        dnn.read_gavel(tmp_path / "jobs.csv")


@pytest.mark.cli
def test_compiled_code_is_not_read_from_a_folder_that_others_may_write(tmp_path):
    """What is read from there is run."""
    import os
    import subprocess
    import sys

    def kept(folder):
        code = "from jobwise.compiled import cache as k; print(k.FOLDER)"
        env = os.environ | {"NUMBA_CACHE_DIR": str(folder)}
        done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
        return done.stdout.strip(), done.stderr

    for mode, safe in ((0o700, True), (0o755, True), (0o775, False), (0o777, False)):
        folder = tmp_path / f"{mode:o}"
        folder.mkdir()
        folder.chmod(mode)
        found, said = kept(folder)
        assert (found == str(folder)) == safe and ("others may write" in said) == (not safe), oct(mode)
    env = os.environ | {"XDG_CACHE_HOME": str(tmp_path / "new")}
    code = "import os; os.umask(0); from jobwise.compiled import cache as k; print(oct(os.stat(k.FOLDER).st_mode)[-3:])"
    assert subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True).stdout.strip() == "700"


def test_what_a_state_folder_runs_cannot_be_put_there_by_others(tmp_path, capsys):
    """Scripts of jobs that wait are run as they stand in the folder: it must be the user's own."""
    from jobwise.files import own_folder
    from jobwise.workflows.processes import LocalProcesses

    flow = tmp_path / "a.commands"
    flow.write_text("true\n")
    state = tmp_path / "new" / "state"
    words = ["mars", "run", str(flow), "--executor", "processes", "--poll", "0.05", "--state"]
    assert run([*words, str(state)]) == 0 and state.stat().st_mode & 0o777 == 0o700
    assert (state / "processes").stat().st_mode & 0o777 == 0o700
    for place in (state, state / "processes", state / "engine0"):
        place.chmod(0o770)
        capsys.readouterr()
        assert run([*words, str(state)]) == 2
        assert f"{place}: others may write to it" in capsys.readouterr().err
        place.chmod(0o750)  # others may read
    assert run([*words, str(state)]) == 0
    victim = tmp_path / "victim"
    (victim / "outputs").mkdir(parents=True)
    (victim / "outputs" / "keep").touch()
    shutil.rmtree(state / "engine0")
    (state / "engine0").symlink_to(victim)
    assert run([*words, str(state)]) == 2 and "is a link" in capsys.readouterr().err
    assert (victim / "outputs" / "keep").exists()
    job = next((state / "processes").glob("*.json"))
    job.chmod(0o666)  # as where the folder was once open to others
    assert run([*words, str(state)]) == 2 and f"{job}: is a link, or others" in capsys.readouterr().err
    job.rename(tmp_path / "moved")
    job.symlink_to(tmp_path / "moved")
    with pytest.raises(InputError, match="is a link, or others"):
        LocalProcesses(state / "processes")
    (tmp_path / "linked").symlink_to(victim)
    with pytest.raises(InputError, match="is a link"):
        LocalProcesses(tmp_path / "linked")
    with pytest.raises(InputError, match="no folder that can be used"):
        own_folder(flow)


def test_values_of_inputs_are_bounded(tmp_path, capsys):
    """Nine aliases nine deep are 1 KiB, and 387 million values."""
    tool = "{class: CommandLineTool, baseCommand: 'true', inputs: [], outputs: []}"
    head = "cwlVersion: v1.2\nclass: Workflow\ninputs: {a: Any}\noutputs: []\n"
    (tmp_path / "w.cwl").write_text(f"{head}steps: {{s: {{run: {tool}, in: [], out: []}}}}\n")
    bomb = ["a: &a0 [x, x, x, x, x, x, x, x, x]"]
    bomb += [f"b{k}: &a{k} [{', '.join([f'*a{k - 1}'] * 9)}]" for k in range(1, 10)]
    deep = f"a: {'[' * 2000}{']' * 2000}"
    words = ["mars", "run", str(tmp_path / "w.cwl"), "--executor", "processes", "--state", str(tmp_path / "s"), "--inputs"]
    for yaml, said in (("\n".join(bomb), "in.yml:2: YAML aliases are not read"), (deep, "in.yml:1: is nested deeper than")):
        (tmp_path / "in.yml").write_text(yaml)
        assert run([*words, str(tmp_path / "in.yml")]) == 2
        assert said in capsys.readouterr().err

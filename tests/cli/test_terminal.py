"""Tables in a real terminal: every number readable at 80, 100 and 150 columns.

Modules: cli/tables.py.
"""

import os
import pty
import re
import subprocess
import sys

import pytest

import jobwise as jw
from jobwise.workloads.swf import write_swf

POLICIES = ["fcfs+easy", "saf+easy+guard24h", "fcfs+conservative", "smith-requested-aged+easy"]


def shown(arguments, columns):
    """What a command, or a text of Python, prints on a terminal of so many columns."""
    parent, child = pty.openpty()
    environment = os.environ | {"COLUMNS": str(columns), "LINES": "50", "TERM": "xterm", "NO_COLOR": "1"}
    process = subprocess.Popen(
        [sys.executable, *(("-m", "jobwise.cli", *arguments) if isinstance(arguments, list) else ("-c", arguments))],
        stdout=child,
        stderr=subprocess.DEVNULL,
        env=environment,
        close_fds=True,
    )
    os.close(child)
    out = b""
    while True:
        try:
            part = os.read(parent, 65536)
        except OSError:
            break
        if not part:
            break
        out += part
    os.close(parent)
    assert process.wait() == 0
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", out.decode()).replace("\r", "")


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    path = tmp_path_factory.mktemp("log") / "some-cluster-2026-cleaned.swf"
    write_swf(jw.lublin(jobs=1500, procs=64, load=1.0, seed=3, estimates="users"), path)
    return str(path)


@pytest.mark.cli
@pytest.mark.parametrize("columns", [80, 100, 150])
def test_a_comparison_is_readable(log, columns):
    told = [x for p in POLICIES for x in ("-p", p)]
    out = shown(["compare", log, *told, "--replicas", "1", "--window", "90"], columns)
    assert "…" not in out
    assert all(len(line.rstrip()) <= columns for line in out.split("\n"))
    head, table = out.split("scheduler  ", 1)
    assert "in one continuous replay" in " ".join(head.split()) and "Its longest wait is" in table
    names = " ".join(x.split("  ")[0].strip() for x in table.split("\n")).replace("+ ", "+").replace("- ", "-")
    for name in POLICIES:
        assert name in names, f"{name} is not to be read at {columns} columns"
        first = re.split(r"(?<=[+-])", name)[0] if columns < 110 else name
        assert any(x.strip().startswith(first) and len(re.findall(r"\d\.\d", x)) >= 3 for x in table.split("\n")), name
    assert re.search(r"[-+]\d+% \[[-+]\d+%, [-+]\d+%\]", table)


@pytest.mark.cli
@pytest.mark.parametrize("columns", [80, 150])
def test_other_tables_are_readable(log, columns):
    for command in (["simulate", log], ["trace", "info", log], ["policies"]):
        out = shown(command, columns)
        assert "…" not in out and all(len(line.rstrip()) <= columns for line in out.split("\n")), command


@pytest.mark.cli
def test_no_number_is_cut_where_headings_are_wider_than_the_terminal():
    heads, cells = [f"heading{i:02d}" for i in range(9)], [f"3,{i:02d}7" for i in range(9)]
    out = shown(f"from jobwise.cli.tables import print_table; print_table('', {heads}, [{cells}])", 80)
    assert all(x in out for x in (*heads[1:], *cells)) and all(len(x.rstrip()) <= 80 for x in out.split("\n"))


def test_output_to_a_pipe_keeps_to_columns(capsys, monkeypatch):
    from jobwise.cli.tables import print_table, say

    rows = [["a", "words " * 20], ["b", "x"]]
    print_table("title", ["name", "value"], rows, left=2)
    say("words " * 40)
    assert max(map(len, capsys.readouterr().out.splitlines())) > 100
    monkeypatch.setenv("COLUMNS", "60")
    print_table("title", ["name", "value"], rows, left=2)
    say("words " * 40)
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 60 and sum(x.count("words") for x in lines) == 60


@pytest.mark.cli
def test_a_shell_completes_policies_and_systems():
    def completed(words):
        bash = {"_JOBWISE_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
        line = [sys.executable, "-c", "from jobwise.cli.main import app; app(prog_name='jobwise')"]
        return set(subprocess.run(line, env=os.environ | bash, capture_output=True, text=True).stdout.split())

    assert completed("jobwise compare x.swf -p sa") == {"saf"}
    assert {"saf+guard24h", "saf+greedy"} <= completed("jobwise simulate x.swf --policy saf+g")
    assert "zoo:sdsc-sp2" in completed("jobwise explain zoo") and "deeprm+" in completed("jobwise train dee")

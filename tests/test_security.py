"""Hostile files: policies, logs, names. One line, no escape sequences, no bombs, no downloads in the clear."""

import gzip
import json
import lzma

import numpy as np
import pytest
from safetensors.numpy import save
from test_swf import line, text

from jobwise.cli import run
from jobwise.errors import InputError, plain
from jobwise.policies.names import load
from jobwise.workloads import catalogue, swf

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
    assert "<script" not in page and "\x1b" not in page and "\u202e" not in page
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
    assert "user anna" in page and "<b>x</b>" not in page and "\x1b" not in page and "2026-01-01" in page
    assert "allocated CPUs" in page and "requested if &gt; 0" not in page


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress])
def test_a_bomb_is_one_line(pack, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(swf, "MOST_BYTES", 1 << 20)
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

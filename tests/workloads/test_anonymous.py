"""A log without names is the same log: the same starts under any scheduler that asks for no names."""

import numpy as np
import pytest
from test_swf import line, text

from jobwise.cli import run
from jobwise.simulate import simulate
from jobwise.workloads.anonymous import Names, anonymous
from jobwise.workloads.lublin import lublin
from jobwise.workloads.source import open_log
from jobwise.workloads.swf import from_text


def test_the_same_schedules_and_nobodys_number(tmp_path, capsys):
    w = lublin(2000, 64, seed=3, load=0.9, estimates="users", users=40)
    a = anonymous(w)
    for policy in ("fcfs+easy", "smith+easy", "saf+easy+guard6h"):
        assert np.array_equal(simulate(w, policy).jobs["start"], simulate(a, policy).jobs["start"])
    pairs = set(zip(w.jobs["user"].tolist(), a.jobs["user"].tolist(), strict=True))
    assert len(pairs) == len({x for x, _ in pairs}) == len({y for _, y in pairs})  # one to one
    assert any(x != y for x, y in pairs) and len(a.past) == 0 and a.names == {}


def test_a_key_is_drawn_anew_and_kept_by_nobody():
    many = range(500)
    a, b = Names().ranks(many), Names().ranks(many)
    assert a != b and sorted(a.values()) == sorted(b.values()) == list(range(1, 501))
    assert "key" not in repr(Names())


def test_what_a_file_says_beside_is_dropped(tmp_path, capsys):
    rows = [line(900 + k, 10 * k, user=70 + k) for k in range(3)]
    rows[2] = rows[2].rsplit(" ", 2)[0] + " 900 5"  # the third follows the first
    header = "; Computer: Secret\n; Note: of Ann\n; MaxProcs: 8\n; UnixStartTime: 1000\n"
    (tmp_path / "a.swf").write_text(text(*rows, header=header))
    out = tmp_path / "b.swf"
    assert run(["trace", "convert", str(tmp_path / "a.swf"), str(out), "--anonymize", "--shift", "7"]) == 0
    assert "Still in it: when jobs were submitted" in capsys.readouterr().err.replace("\n", " ")
    said = out.read_text()
    assert "Secret" not in said and "Ann" not in said and "UnixStartTime: 605800" in said and " 70 " not in said
    w = open_log(str(out))
    assert w.columns["job"].tolist() == [1, 2, 3] and w.columns["preceding"].tolist() == [-1, -1, 1]
    assert sorted(w.jobs["user"].tolist()) == [1, 2, 3] and w.cluster.processors == 8
    assert run(["trace", "convert", str(tmp_path / "a.swf"), "-", "--shift", "7"]) == 2
    assert "--shift goes with --anonymize" in capsys.readouterr().err


@pytest.mark.parametrize("absolute", [False, True])
def test_times_of_the_calendar_move(absolute):
    base = 1_600_000_000 if absolute else 0
    w = from_text(text(line(1, base), line(2, base + 60)), "x")
    a = anonymous(w, 86400.0)
    assert a.origin == w.origin + 86400 and a.jobs["submit"].tolist() == w.jobs["submit"].tolist()

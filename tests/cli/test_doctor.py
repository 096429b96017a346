"""`jobwise doctor`: what works, what is missing, and what mends it."""

import json
import os
import stat
import subprocess
import sys

import pytest

from jobwise.cli import doctor, run


def findings(capsys, code=0):
    assert run(["doctor", "--json"]) == code
    said = json.loads(capsys.readouterr().out)
    assert said["works"] == (code == 0)
    return {f["what"]: f for f in said["findings"]}


@pytest.mark.cli
def test_an_installation_that_works(capsys):
    found = findings(capsys)
    assert found["Python"]["ok"] and found["packages"]["state"].startswith("numpy ")
    assert {"extra learn", "extra forecast", "extra workflows", "extra web", "extra ray", "extra export"} <= found.keys()
    assert found["kernels"]["state"].startswith("compiled") and "cores" in found["machine"]["state"]
    assert run(["doctor"]) == 0
    assert "Everything that jobwise needs is here." in capsys.readouterr().out


@pytest.mark.cli
def test_a_package_that_is_missing_or_too_old_is_named_with_what_mends_it(capsys, monkeypatch):
    known = doctor.metadata.version

    def version(name):
        if name == "torch":
            raise doctor.metadata.PackageNotFoundError(name)
        return "1.2" if name == "lightgbm" else known(name)

    monkeypatch.setattr(doctor.metadata, "version", version)
    found = findings(capsys)
    assert not found["extra learn"]["ok"] and found["extra learn"]["state"] == "missing: torch"
    assert found["extra learn"]["mend"] == "pip install 'jobwise[learn]'"
    assert found["extra forecast"]["state"] == "missing: lightgbm 1.2 (at least 4.5)"
    monkeypatch.setattr(doctor.metadata, "version", lambda name: "0.1" if name == "numpy" else known(name))
    found = findings(capsys, code=1)
    assert found["packages"]["needed"] and "numpy 0.1 (at least 2.0)" in found["packages"]["state"]


def program(folder, name, text, code=0):
    file = folder / name
    file.write_text(f"#!/bin/sh\necho '{text}'{' >&2' if code else ''}\nexit {code}\n")
    file.chmod(file.stat().st_mode | stat.S_IXUSR)


@pytest.mark.cli
def test_slurm_as_it_is_here(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert not findings(capsys)["Slurm"]["ok"]
    for name in doctor.SLURM:
        program(tmp_path, name, "slurm 22.05.8")
    found = findings(capsys)["Slurm"]
    assert found["ok"] and found["state"] == "slurm 22.05.8"
    (tmp_path / "sprio").unlink()
    found = findings(capsys)["Slurm"]
    assert not found["ok"] and found["state"] == "slurm 22.05.8; missing: sprio"
    program(tmp_path, "sinfo", "fatal: no cluster", 1)
    assert findings(capsys)["Slurm"]["state"].startswith("fatal: no cluster")


@pytest.mark.cli
@pytest.mark.parametrize("off", [False, True])
def test_kernels_that_cannot_be_kept_or_do_not_compile(tmp_path, off):
    open_to_all = tmp_path / "cache"
    open_to_all.mkdir()
    open_to_all.chmod(0o777)
    more = {"NUMBA_DISABLE_JIT": "1"} if off else {"NUMBA_CACHE_DIR": str(open_to_all)}
    script = "import sys; from jobwise.cli import run; sys.exit(run(['doctor', '--json']))"
    done = subprocess.run([sys.executable, "-c", script], env=os.environ | more, capture_output=True, text=True, check=True)
    found = {f["what"]: f for f in json.loads(done.stdout)["findings"]}["kernels"]
    assert not found["ok"] and ("as Python" if off else "anew") in found["state"]

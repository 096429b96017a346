"""Kernels are compiled once, kept, and never stale; plain njit gives the same.

Modules: compiled/cache.py, compiled/linking.py.
"""

import ast
import os
import pickle
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from jobwise import compiled
from jobwise.compiled import allocating, inlined, kernel, shipped
from jobwise.compiled import cache as kernel_cache

# imported by modules with kernels, for what is no kernel's
NO_KERNELS = {"decision.py", "errors.py", "files.py", "workload.py", "record.py", "metrics.py", "listeners.py", "extensions.py"}
NO_KERNELS |= {"workloads/catalogue.py", "workloads/swf.py", "workloads/transform.py"}
LEAF = "from jobwise.compiled import kernel\n\n\n@kernel\ndef leaf(x):\n    return x[0] + {}\n"
ROOT = """import numpy as np
from jobwise.compiled import kernel
from leaf import leaf

@kernel
def root(x):
    return leaf(x)

if __name__ == "__main__":
    print(root(np.zeros(1, np.{})))
"""


def run_root(folder, dtype="float64", **more):
    (folder / "root.py").write_text(ROOT.format(dtype))
    told = os.environ | {"NUMBA_CACHE_DIR": str(folder / "cache"), "JOBWISE_ANNOUNCE": "1"} | more
    return subprocess.run([sys.executable, str(folder / "root.py")], env=told, capture_output=True, text=True, check=True)


@pytest.mark.cli
@pytest.mark.parametrize("compiler", ["parts", "plain"])
def test_an_edit_never_meets_a_stale_kernel(tmp_path, compiler):
    """Not even an edit of a kernel in another file, which numba's own cache does not see."""
    if compiler == "parts" and compiled.NJIT:
        pytest.skip("this version of numba is compiled plainly")
    (tmp_path / "leaf.py").write_text(LEAF.format("1.0"))
    first, second = (run_root(tmp_path, JOBWISE_COMPILER=compiler) for _ in range(2))
    assert first.stdout == second.stdout == "1.0\n"
    assert "compiling" in first.stderr and not second.stderr, "the second run finds the kernel compiled"
    (tmp_path / "leaf.py").write_text(LEAF.format("2.0"))
    assert run_root(tmp_path, JOBWISE_COMPILER=compiler).stdout == "2.0\n"


def cut(data):
    return data[:100]


def one_byte_else(data):
    return data[:2000] + bytes([data[2000] ^ 1]) + data[2001:]


def another_object(data):
    return pickle.dumps((1, 2))


def code_that_runs(data):
    """An object whose unpickling leaves a file, without the hash of whoever has written it."""
    return bytes(32) + b"cos\nsystem\n(S'touch RAN'\ntR."


@pytest.mark.cli
@pytest.mark.parametrize("damage", [cut, one_byte_else, another_object, code_that_runs])
def test_a_damaged_file_of_the_cache_is_compiled_again(tmp_path, monkeypatch, damage):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "leaf.py").write_text(LEAF.format("1.0"))
    run_root(tmp_path)
    files = list((tmp_path / "cache").rglob("*.nbc"))
    for file in files:
        file.write_bytes(damage(file.read_bytes()))
    assert files and run_root(tmp_path).stdout == "1.0\n"
    assert not run_root(tmp_path).stderr and not (tmp_path / "RAN").exists()


@pytest.mark.cli
def test_a_cache_that_cannot_be_written_is_said_once_and_all_runs(tmp_path):
    """A full disk: here no file may be larger than nothing."""
    (tmp_path / "leaf.py").write_text(LEAF.format("1.0"))
    (tmp_path / "root.py").write_text(ROOT.format("float64"))
    code = "import resource as r, runpy; r.setrlimit(r.RLIMIT_FSIZE, (0, 0)); runpy.run_path('root.py', run_name='__main__')"
    told = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "cache"), "JOBWISE_ANNOUNCE": "0", "PYTHONPATH": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], env=told, capture_output=True, text=True, cwd=tmp_path)
    assert done.stdout == "1.0\n" and done.stderr.count("\n") == 1
    assert "cache" in done.stderr and "cannot be kept there" in done.stderr


CALLS = """import numpy as np
from jobwise.streaming import sums
bins = np.zeros(sums.BINS, np.int64)
sums.count(np.ones(3), bins)
print(sums.__file__, bins.sum())"""


@pytest.mark.cli
def test_two_copies_of_the_same_sources_share_what_they_compile(tmp_path):
    """Two checkouts of one commit; a third with another source compiles for itself."""
    told = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "cache"), "JOBWISE_ANNOUNCE": "1"}
    said = []
    for name in ("first", "second", "third"):
        shutil.copytree(shipped.PACKAGE, tmp_path / name / "jobwise", ignore=shutil.ignore_patterns("__pycache__", "code"))
        if name == "third":
            with open(tmp_path / name / "jobwise" / "sim" / "sums.py", "a") as file:
                file.write("\nOTHER = 1\n")
        env = told | {"PYTHONPATH": str(tmp_path / name)}
        done = subprocess.run([sys.executable, "-c", CALLS], env=env, capture_output=True, text=True, check=True, cwd=tmp_path)
        assert str(tmp_path / name) in done.stdout
        said.append("compiling" in done.stderr)
    assert said == [True, False, True]


@pytest.mark.cli
def test_signatures_have_files_of_their_own(tmp_path):
    """So two processes that compile at once cannot write one's code under the other's signature."""
    (tmp_path / "leaf.py").write_text(LEAF.format("1.0"))
    run_root(tmp_path)
    run_root(tmp_path, "int64")
    assert len(list((tmp_path / "cache").rglob("root.root*.nbc"))) == 2
    assert run_root(tmp_path).stdout == "1.0\n" and not run_root(tmp_path, "int64").stderr


def test_the_cache_folder_follows_every_source_of_kernels():
    """What a module with kernels imports of this package, it may compile into them."""
    known = set(shipped.sources())
    for path in known | {p for p in shipped.PACKAGE.rglob("*.py") if "jobwise.compiled import" in p.read_text()}:
        assert path in known, f"{path.name} has kernels: name it in shipped.SOURCES"
        for node in ast.parse(path.read_text()).body:  # imports at the top: kernels take no others
            if not isinstance(node, ast.ImportFrom) or not (node.module or "").startswith("jobwise."):
                continue
            found = shipped.PACKAGE.joinpath(*node.module.split(".")[1:])
            names = (
                [found.with_suffix(".py")]
                if found.with_suffix(".py").exists()
                else [found / f"{a.name}.py" for a in node.names]
            )
            assert {n for n in names if n.exists()} <= known | {shipped.PACKAGE / n for n in NO_KERNELS}, path


def test_threads_that_call_first_together():
    @inlined
    def twice(x):
        return 2 * x

    @kernel
    def both(x):
        return twice(x) + twice(x)

    @allocating
    def made(n):
        return np.full(n, both(n))

    with ThreadPoolExecutor(8) as pool:
        assert [int(a[0]) for a in pool.map(made, range(1, 40))] == [4 * n for n in range(1, 40)]


def test_narrow_integers_and_constants_share_a_part():
    @kernel
    def part(x, k):
        return x[k]

    @kernel
    def whole(x, k):
        return part(x, k) + part(x, 1) + part(x, np.int32(0))

    x = np.arange(3.0)
    assert whole(x, np.int8(2)) == 3.0 and whole(x, 2) == 3.0
    if not compiled.NJIT:
        assert len(part.part.signatures) <= 1  # none where the whole comes from the cache


@pytest.mark.slow  # the continuous integration plays the golden logs with plain njit
def test_plain_njit_gives_the_same():
    """The switch for numba versions that `linking.py` does not know; CI plays the golden logs with it."""
    code = """import jobwise as jw
from jobwise import compiled
assert compiled.NJIT is {}
print(jw.simulate(jw.lublin(300, seed=1), "sjf+easy").jobs["start"].tolist())"""
    plain = subprocess.run(
        [sys.executable, "-c", code.format(True)],
        env=os.environ | {"JOBWISE_COMPILER": "plain"},
        capture_output=True,
        text=True,
    )
    here = subprocess.run([sys.executable, "-c", code.format(compiled.NJIT)], env=os.environ, capture_output=True, text=True)
    assert plain.stdout == here.stdout != "", plain.stderr + here.stderr


@pytest.mark.cli
def test_old_folders_of_kernels_go(tmp_path):
    """An update leaves a folder behind: only the newest few stay."""
    for i in range(9):
        (tmp_path / "jobwise" / f"kernels-{i}").mkdir(parents=True)
        os.utime(tmp_path / "jobwise" / f"kernels-{i}", (i, i))
    told = {k: v for k, v in os.environ.items() if k != "NUMBA_CACHE_DIR"} | {"XDG_CACHE_HOME": str(tmp_path)}
    code = "from jobwise.compiled import cache; print(cache.FOLDER)"
    made = subprocess.run([sys.executable, "-c", code], env=told, capture_output=True, text=True, check=True).stdout.strip()
    found = {f.name for f in (tmp_path / "jobwise").iterdir()}
    assert found == {Path(made).name} | {f"kernels-{i}" for i in range(9 - kernel_cache.KEPT, 9)}

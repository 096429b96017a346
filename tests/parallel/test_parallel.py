"""Tasks in threads, processes, on Ray and by other executors: the same results, and nothing left behind.

Modules: parallel/local.py, parallel/on_ray.py, parallel/pool.py, parallel/tasks.py.
"""

import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import jobwise as jw
from jobwise.cli.main import run
from jobwise.errors import InputError
from jobwise.parallel import current, threads, workers
from jobwise.parallel.pool import Pool

ENGINES = ("threads", "processes", "ray")
pytestmark = [pytest.mark.parallel, pytest.mark.xdist_group("parallel")]


def square(x):
    return x * x


def slow_first(x):
    time.sleep(0.2 if x == 0 else 0.0)
    return x


def third_is_wrong(folder, x):
    (Path(folder) / str(x)).touch()
    if x == 2:
        raise InputError("the third is wrong")
    time.sleep(0.05)
    return x


def killed_once(folder, x):
    """Kill the worker at task 3, the first time."""
    mark = Path(folder) / "killed"
    if x == 3 and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return x


def total(held, x):
    return float(held.get().jobs["submit"].sum()) + x


def within(x):
    with current() as crew:
        return crew.map(square, range(x))


@pytest.mark.parametrize("on", ["processes", "ray"])
def test_a_killed_worker_is_replaced(on, tmp_path, capfd):
    if on == "ray":
        pytest.importorskip("ray")
    with workers(on, 2) as crew:
        assert crew.map(partial(killed_once, str(tmp_path)), range(12)) == list(range(12))
    assert (tmp_path / "killed").exists()
    assert not capfd.readouterr().out  # results alone stand on standard output


def always_killed(x):
    os.kill(os.getpid(), signal.SIGKILL)


def half_sent(folder, size, x):
    """The first time that task 1 ends, its worker dies when half of its result has been sent."""
    mark = Path(folder) / "killed"
    if x == 1 and not mark.exists():
        mark.touch()

        def send(self, buffer, write=os.write):
            write(self._handle, bytes(buffer[: len(buffer) // 2]))
            os.kill(os.getpid(), signal.SIGKILL)

        multiprocessing.connection.Connection._send = send
    return x, b"x" * size


@pytest.mark.skipif(sys.platform == "win32", reason="pipes of another kind")
@pytest.mark.parametrize("count", [1, 2])
def test_a_worker_that_dies_in_the_middle_of_a_result_breaks_the_pool_at_once(count, tmp_path):
    with Pool(count, multiprocessing.get_context("forkserver")) as pool:
        wait([pool.submit(slow_first, 0) for _ in range(count)])  # all processes are there
        task, begun = partial(half_sent, str(tmp_path), 40_000), time.monotonic()
        with pytest.raises(BrokenProcessPool):  # where a task is handed in, or where its result is asked for
            for future in [pool.submit(task, x) for x in range(1, 4)]:
                future.result(timeout=30)
        assert time.monotonic() - begun < 10  # it is a hundredth of a second; without the guard it never ends
        with pytest.raises(BrokenProcessPool):
            pool.submit(square, 2)


@pytest.mark.skipif(sys.platform == "win32", reason="pipes of another kind")
@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("home", [False, True])
def test_what_half_a_result_loses_is_done_again(count, home, tmp_path):
    with workers("processes", count) as crew:
        results = crew.map(partial(half_sent, str(tmp_path), 300_000), range(6), home=home)
    assert [x for x, _ in results] == list(range(6)) and (tmp_path / "killed").exists()


def test_workers_that_die_again_and_again_are_one_line():
    with workers("processes", 2) as crew, pytest.raises(InputError, match="3 times workers were killed"):
        crew.map(always_killed, range(3))


def test_any_executor_will_do():
    with ThreadPoolExecutor(3) as executor, workers(executor, 3) as crew:
        assert crew.map(square, range(5)) == [0, 1, 4, 9, 16]
        with current() as same:
            assert same is crew


def test_who_names_no_engine_gets_what_suits_the_tasks():
    with current(4) as own:
        assert own.in_process and own.count == 4
    with workers(None, 3) as nobody, current(4) as three, current(4, "processes") as apart:
        assert nobody is None and three.in_process and not apart.in_process and three.count == apart.count == 3
    with workers("threads", 1) as one, current(4, "processes") as same, threads(2) as two:
        assert same is one and two.count == 2


def largest(shared):
    return float(shared.get()[0].max())


def test_a_value_is_stored_as_long_as_it_lives_or_a_task_holds_it():
    with workers("processes", 1) as crew:
        files = lambda: len(list(Path(crew._folder.name).iterdir()))  # noqa: E731
        x = np.arange(1000.0)
        shared = crew.put(x)
        assert crew.put(x) is shared and files() == 1
        assert crew.map(largest, [crew.put([x + k]) for k in range(3)]) == [999.0, 1000.0, 1001.0]  # only the tasks hold these
        assert files() == 1
        del x
        assert crew.map(square, [2]) == [4] and float(shared.get().max()) == 999.0  # a task may hold it still
        del shared
        assert files() == 0


def test_other_versions_on_ray_are_one_line(monkeypatch):
    pytest.importorskip("ray")
    import numba

    monkeypatch.setattr(numba, "__version__", "0.1")
    with pytest.raises(InputError, match=r"other versions: numba .* there, 0\.1 here"), workers("ray", 1):
        pass


def test_dask_is_one_of_them():
    distributed = pytest.importorskip("distributed")
    settings = {"n_workers": 1, "threads_per_worker": 2, "processes": False, "dashboard_address": None}
    with distributed.Client(**settings) as client, workers(client.get_executor(), 2) as crew:
        w = jw.lublin(50, 16, seed=1)
        assert crew.map(partial(total, crew.put(w)), [0.0]) == [float(w.jobs["submit"].sum())]


@pytest.mark.parametrize(
    ("on", "count", "words"),
    [
        ("cloud", 2, "known are threads, processes, ray"),
        ("threads:4", 2, "known are"),
        ("threads", 0, "one at least"),
        ("ray://nowhere", 2, "an address is expected"),
        ("ray://127.0.0.1:1", 2, "nothing answers there"),
    ],
)
def test_wrong_engines_are_one_line(on, count, words):
    if on.startswith("ray"):
        pytest.importorskip("ray")
    with pytest.raises(InputError, match=words), workers(on, count):
        pass


def test_what_cannot_be_sent_is_one_line():
    w = jw.lublin(60, 16, seed=1)
    mine = jw.ListScheduler(lambda jobs, now: jobs["walltime"], "easy")
    with workers("processes", 2), pytest.raises(InputError, match="processes cannot be sent this"):
        jw.compare(w, ["fcfs+easy", mine], replicas=0)


def kinds():
    """A comparison, with rules that join, in every engine."""
    w = jw.lublin(1200, 64, seed=3)
    policies = ["fcfs+easy", "sjf+easy", "jobwise", "smith-aged+easy"]
    for on in ENGINES:
        if on == "ray":
            pytest.importorskip("ray")
        with workers(on, 2):
            yield jw.compare(w, policies, since=0.5, replicas=2, hindsight=False)


def test_comparisons_are_the_same_everywhere():
    first, *others = kinds()
    for other in others:
        assert other.policies == first.policies
        assert repr(other.logged) == repr(first.logged) and repr(other.replays) == repr(first.replays)
        assert all(np.array_equal(other.windows[m], first.windows[m]) for m in first.windows)
        assert np.array_equal(other.blocks, first.blocks)
        for a, b in zip(first.records, other.records, strict=True):
            assert all(np.array_equal(a.jobs[f], b.jobs[f], equal_nan=True) for f in a.jobs.dtype.names)
            assert len(b.workload) == len(a.workload)


def test_the_command_says_where(capfd, tmp_path):
    log = str(tmp_path / "log.swf")
    jw.write_swf(jw.lublin(300, 32, seed=1), log)
    words = ["compare", log, "-p", "fcfs+easy", "-p", "sjf+easy", "--replicas", "1", "--json"]
    texts = []
    for more in ([], ["--executor", "processes"], ["--threads", "1"]):
        assert run([*words, *more]) == 0
        texts.append(capfd.readouterr().out)
    assert texts[0] == texts[1] == texts[2]
    assert run([*words, "--executor", "moon"]) == 2 and "known are" in capfd.readouterr().err


DRIVER = """
import os, signal, time, sys
from multiprocessing import get_context
signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background has it ignored
from jobwise.parallel import workers
from jobwise.parallel.pool import Pool
def wait(x):
    open(os.path.join(sys.argv[1], str(os.getpid())), "w").close()
    time.sleep(60)
if __name__ == "__main__":
"""
BEGINS = {
    "workers": """
    with workers("processes", 2) as crew:
        crew.map(wait, range(4))
""",
    "pool": """
    with Pool(2, get_context("spawn")) as pool:
        [pool.submit(wait, x) for x in range(2)]
        time.sleep(60)
""",
}


def there(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="no /proc here")
@pytest.mark.parametrize("begin", BEGINS)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_driver_that_ends_leaves_no_process(number, begin, tmp_path):
    script, marks = tmp_path / "driver.py", tmp_path / "marks"
    script.write_text(DRIVER + BEGINS[begin])
    marks.mkdir()
    driver = subprocess.Popen([sys.executable, str(script), str(marks)], stderr=subprocess.DEVNULL)
    try:
        begun = time.monotonic()
        while len(list(marks.iterdir())) < 2 and time.monotonic() - begun < 60:
            time.sleep(0.05)
        pids = [int(p.name) for p in marks.iterdir()]
        assert len(pids) == 2
        driver.send_signal(number)
        driver.wait(30)
    finally:
        driver.kill()
        driver.wait()
    begun = time.monotonic()
    while any(map(there, pids)) and time.monotonic() - begun < 20:
        time.sleep(0.05)
    assert not any(map(there, pids))


# ------------------------------------------------------------------ the same in every engine, which stays until the end


@pytest.fixture(scope="module", params=ENGINES)
def crew(request):
    if request.param == "ray":
        pytest.importorskip("ray")
    with workers(request.param, 2) as crew:
        yield crew


def test_results_are_in_order_and_counted(crew):
    counted = []
    assert crew.map(slow_first, range(20), counted.append) == list(range(20)) and sum(counted) == 20
    assert crew.map(square, []) == [] and crew.map(square, range(3), compiled=False) == [0, 1, 4]
    results = crew.each(square, range(5))
    assert next(results) == 0 and list(results) == [1, 4, 9, 16]


def test_a_task_may_have_tasks(crew):
    assert crew.map(within, [3, 4]) == [[0, 1, 4], [0, 1, 4, 9]]


def test_the_first_error_stops_the_rest(crew, tmp_path):
    with pytest.raises(InputError, match="the third is wrong"):
        crew.map(partial(third_is_wrong, str(tmp_path)), range(200))
    assert len(list(tmp_path.iterdir())) < 150
    assert crew.map(square, range(4)) == [0, 1, 4, 9]  # and they go on


def test_what_tasks_share_is_stored_once(crew):
    w = jw.lublin(50, 16, seed=1)
    held = crew.put(w)
    if not crew.in_process:
        assert crew.put(w) is held
    want = float(w.jobs["submit"].sum())
    assert crew.map(partial(total, held), range(4)) == [want + k for k in range(4)]


# ------------------------------------------------------------------ a cluster that runs already


def free_ports(count):
    taken = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [s.getsockname()[1] for s in taken]
    for s in taken:
        s.close()
    return ports


@pytest.fixture
def head(tmp_path):
    """A head of Ray with a token: {how it is reached: address}, and the variables of a driver that may."""
    pytest.importorskip("ray")
    port, client = free_ports(2)
    token = tmp_path / "token"
    token.write_text("5" * 64)
    may = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(token)}
    words = ["start", "--head", "--block", f"--port={port}", f"--ray-client-server-port={client}", "--num-cpus=2"]
    with tempfile.TemporaryDirectory(prefix="ray", dir="/tmp") as folder:  # names of sockets are short
        words += ["--include-dashboard=false", "--disable-usage-stats", f"--temp-dir={folder}"]
        variables = os.environ | may | {"PYTHONPATH": str(Path(__file__).parent)}
        command = [sys.executable, "-m", "ray.scripts.scripts", *words]
        with subprocess.Popen(command, env=variables, start_new_session=True, stdout=subprocess.DEVNULL) as started:
            try:
                begun = time.monotonic()
                while not all(map(listens, (port, client))) and time.monotonic() - begun < 60:
                    time.sleep(0.2)
                yield {"client": f"ray://127.0.0.1:{client}", "joined": f"ray:127.0.0.1:{port}"}, may
            finally:
                started.send_signal(signal.SIGTERM)
                started.wait(30)


def listens(port):
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True


JOIN = """
import sys
from test_parallel import square
from jobwise.cli.tables import complain
from jobwise.errors import InputError
from jobwise.parallel import workers
try:
    with workers(sys.argv[1]) as crew:
        print(crew.count, crew.map(square, range(5)))
except InputError as error:
    complain(str(error))
    sys.exit(2)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="starts a cluster of Ray")
def test_a_running_cluster_takes_those_that_have_its_token(head, tmp_path):
    addresses, may = head
    for address in addresses.values():
        for token, code in ((may["RAY_AUTH_TOKEN_PATH"], 0), (str(tmp_path / "other"), 2)):
            (tmp_path / "other").write_text("6" * 64)
            more = may | {"RAY_AUTH_TOKEN_PATH": token, "PYTHONPATH": os.pathsep.join([*sys.path, str(Path(__file__).parent)])}
            done = subprocess.run(
                [sys.executable, "-c", JOIN, address],
                capture_output=True,
                text=True,
                timeout=120,
                env=os.environ | more,
                check=False,
            )
            assert done.returncode == code, (address, done.stderr[-800:])
            if code:
                assert "no Ray cluster lets jobwise in" in done.stderr and done.stderr.count("\n") == 1
            else:
                assert done.stdout.strip() == "2 [0, 1, 4, 9, 16]"


def killed_now_and_then(folder, x):
    """Kill the worker at tasks 2, 5, 8 and 11, once each."""
    mark = Path(folder) / str(x)
    if x % 3 == 2 and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return x


def test_workers_that_die_now_and_then_do_not_stop_the_work(tmp_path):
    """Four of them die, with tasks done in between: only three deaths in a row are too many."""
    with workers("processes", 1) as crew:
        assert crew.map(partial(killed_now_and_then, str(tmp_path)), range(12)) == list(range(12))
    assert len(list(tmp_path.iterdir())) == 4


def changes_it(shared, x):
    a = shared.get()
    a[0] += 1.0
    return float(a[0]), float(a[1])


@pytest.mark.parametrize("count", [1, 2])
def test_what_a_task_writes_into_a_shared_array_is_its_own(count):
    a = np.array([1.0, 7.0])
    with workers("processes", count) as crew:
        found = crew.map(partial(changes_it, crew.put(a)), range(4))
    assert a.tolist() == [1.0, 7.0] and {x for _, x in found} == {7.0} and min(x for x, _ in found) == 2.0

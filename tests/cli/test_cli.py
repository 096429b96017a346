"""The command line as its users meet it: what works, and forty ways to be wrong that each end in one line and exit 2.

Modules: cli/compare.py, cli/groups.py, cli/main.py, cli/options.py, cli/policies.py, cli/progress.py, cli/samples.py,
cli/simulate.py, cli/trace.py, cli/warm_up.py, files.py.
"""

import gzip
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager

import pytest
from test_swf import BAD, HEADER, line, text

from jobwise.cli import run
from jobwise.cli.options import logs_like
from jobwise.errors import InputError

GOOD = text(*(line(i, 10 * i, run=30 + i, walltime=100, requested=1 + i % 4) for i in range(1, 30)))


@pytest.fixture
def good(tmp_path):
    path = tmp_path / "good.swf"
    path.write_text(GOOD)
    return str(path)


def wrong(capsys, arguments, *parts):
    """The command exits 2 with one line that has all `parts`."""
    assert run([str(a) for a in arguments]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1 and err.startswith("jobwise: "), err
    for part in parts:
        assert part in err, err


def test_simulate(good, tmp_path, capsys):
    assert run(["simulate", good, "--policy", "sjf+easy", "--json", "--out", str(tmp_path / "s.csv")]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["policy"] == "sjf+easy" and found["summary"]["jobs"] == 29
    assert (tmp_path / "s.csv").read_text().startswith("job,submit,start,end")
    assert run(["simulate", good]) == 0
    assert "bounded slowdown" in capsys.readouterr().out


def test_compare_and_report(good, tmp_path, capsys):
    report = tmp_path / "r.html"
    assert run(["compare", good, "-p", "fcfs+easy", "-p", "sjf+easy", "--window", "5", "--report", str(report)]) == 0
    assert "sjf+easy" in capsys.readouterr().out and "</html>" in report.read_text()
    assert run(["compare", good, "-p", "fcfs+easy", "-p", "sjf+easy", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["policies"]) == 2
    assert run(["compare", good, "--json", "--replicas", "1"]) == 0  # what we recommend is there unasked
    assert [x["policy"] for x in json.loads(capsys.readouterr().out)["policies"]][-1] == "jobwise"
    told = ["-p", "fcfs+easy", "-p", "general+easy", "--split", "0.5", "--max-wait", "1.5x", "--replicas", "1"]
    assert run(["compare", good, *told]) == 0
    out = capsys.readouterr().out.replace("\n", " ")
    out = " ".join(out.split())
    assert "hardly a queue" in out or "at most 1.5 was asked for" in out
    assert run(["compare", good, *told[2:], "--json"]) == 0  # the bound is one of FCFS with EASY, named or not
    found = json.loads(capsys.readouterr().out)
    assert found["policies"][0]["policy"] == "fcfs+easy" and "general+easy" in [x["policy"] for x in found["policies"]]
    wrong(capsys, ["compare", good, "--max-wait", "1.2x"], "--split or --origins")
    wrong(capsys, ["compare", good, "--split", "0.5", "--max-wait", "much"], "a factor is expected")


def test_trace_commands(good, tmp_path, capsys):
    assert run(["trace", "info", good, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["statistics"]["jobs"] == 29
    assert run(["trace", "info", good]) == 0
    out = tmp_path / "o.swf.gz"
    assert run(["trace", "convert", good, str(out), "--jobs", "10", "--load", "0.5", "--replicate", "2"]) == 0
    assert gzip.decompress(out.read_bytes()).count(b"\n") > 20
    assert run(["trace", "convert", good, str(tmp_path / "a.swf"), "--split", "0.7"]) == 0
    assert (tmp_path / "a.swf.rest").exists()
    assert run(["trace", "convert", good, str(tmp_path / "m.swf"), "--merge", good, "--jitter", "5"]) == 0
    assert run(["trace", "generate", str(tmp_path / "g.swf"), "--jobs", "50", "--procs", "16", "--users", "3"]) == 0
    capsys.readouterr()
    assert run(["trace", "sacct-command", "--start", "2026-02-01"]) == 0
    assert "-S 2026-02-01" in capsys.readouterr().out
    assert run(["--version"]) == 0


@pytest.mark.cli
def test_standard_input_and_output(good):
    done = subprocess.run(
        [sys.executable, "-m", "jobwise.cli", "trace", "convert", "-", "-"], input=GOOD.encode(), capture_output=True
    )
    assert done.returncode == 0 and done.stdout.decode() == GOOD


@pytest.mark.parametrize("what", BAD)
def test_bad_logs(what, tmp_path, capsys):
    content, message = BAD[what]
    message = "is in no format that jobwise knows" if what in ("prose", "html") else message
    path = tmp_path / "bad.swf"
    path.write_text(content)
    wrong(capsys, ["simulate", path], "bad.swf", message)


POLICIES = {
    "order": ("jfs+easy", "did you mean"),
    "option": ("sjf+eazy", "did you mean easy"),
    "two rules": ("sjf+easy+greedy", "two choices of backfill"),
    "two placements": ("sjf+pack+spread", "two choices of placement"),
    "guard without unit": ("sjf+guard24", "unknown option 'guard24'"),
    "guard of nothing": ("sjf+guard0h", "more than 0"),
    "empty": ("", "unknown order ''"),
    "commit to all": ("sjf+conservative+commit", "+commit does not go with +conservative"),
    "no file": ("none.py:order", "there is no file"),
    "ONNX": ("mine.onnx", "name the run folder"),
}


@pytest.mark.parametrize("what", POLICIES)
def test_bad_policies(what, good, capsys):
    policy, message = POLICIES[what]
    wrong(capsys, ["simulate", good, "--policy", policy], message)


OWN = {
    "raises": ("def order(jobs, now):\n    return 1 / 0", "mine.py:2: order 'order' failed at time"),
    "nonsense": ("def order(jobs, now):\n    return 'soon'", "could not convert string"),
    "too few": ("def order(jobs, now):\n    return [1.0, 2.0, 3.0]", "one score per job"),
    "nan": ("def order(jobs, now):\n    return jobs['submit'] * float('nan')", "returned NaN for job"),
    "syntax": ("def order(jobs, now)\n    pass", "mine.py:1: SyntaxError"),
    "no such name": ("def orders(jobs, now):\n    return now", "did you mean orders"),
    "not callable": ("order = 5", "neither an order function nor a policy"),
    "writes": ("def order(jobs, now):\n    jobs['walltime'] = 0\n    return now / 0", "failed at time"),
    "exits": ("import sys\ndef order(jobs, now):\n    sys.exit(0)", "SystemExit"),
    "complex": ("def order(jobs, now):\n    return jobs['submit'] * 1j", "complex"),
    "two lines": ("def order(jobs, now):\n    raise Exception('two\\nlines')", "two lines"),
    "arguments": ("def order():\n    return 0", "mine.py:1: order 'order' failed at time"),
    "policy raises": (
        "class order:\n    def reset(self, view): pass\n    def ended(self, view, rows): pass\n"
        "    def decide(self, view): raise KeyError('x')", "mine.py:4: policy"),
    "policy nonsense": (
        "class order:\n    def reset(self, view): pass\n    def ended(self, view, rows): pass\n"
        "    def decide(self, view): return 7", "a list of decisions is expected"),
    "policy lazy": (
        "class order:\n    def reset(self, view): pass\n    def ended(self, view, rows): pass\n"
        "    def decide(self, view): return []", "left 29 jobs waiting for ever"),
    "policy greedy": (
        "from jobwise import Start\nclass order:\n    def reset(self, view): pass\n    def ended(self, view, rows): pass\n"
        "    def decide(self, view): return [Start(j) for j in view.queue] * 2", "cannot start job"),
}  # fmt: skip


@pytest.mark.parametrize("what", OWN)
def test_bad_schedulers_of_ones_own(what, good, tmp_path, capsys):
    source, message = OWN[what]
    path = tmp_path / "mine.py"
    path.write_text(source + "\n")
    wrong(capsys, ["simulate", good, "--policy", f"{path}:order"], message)


def test_bad_arguments(good, tmp_path, capsys, monkeypatch):
    wrong(capsys, ["simulat", good], "unknown command 'simulat'", "did you mean simulate?")
    wrong(capsys, ["simulate"], "Missing argument")
    wrong(capsys, ["simulate", good, "--polic", "x"], "No such option")
    wrong(capsys, ["simulate", good, "--jobs", "many"], "--jobs", "integer")
    wrong(capsys, ["simulate", good, "--jobs", "0"], "--jobs")
    wrong(capsys, ["simulate", good, "--load", "-1"], "cannot scale the load")
    wrong(capsys, ["simulate", good, "--procs", "1"], "cannot run its largest job")
    wrong(capsys, ["simulate", tmp_path / "none.swf"], "no such file")
    wrong(capsys, ["simulate", tmp_path], "is a folder")
    wrong(capsys, ["simulate", "sdsc-sp3"], "did you mean sdsc-sp2")
    wrong(capsys, ["simulate", good, "--out", "x.doc"], "cannot write .doc")
    wrong(capsys, ["simulate", good, "--out", tmp_path / "no" / "x.csv"], "there is no folder")
    wrong(capsys, ["simulate", good, "--evalys", tmp_path], "is a folder")
    wrong(capsys, ["compare", good, "--window", "999"], "does not fit")
    wrong(capsys, ["compare", good, "-p", "sjf", "-p", "sjf"], "named twice")
    wrong(capsys, ["compare", good, "--report", tmp_path / "no" / "r.html"], "there is no folder")
    wrong(capsys, ["compare", good, "--report", tmp_path / "r.html", "--day", "99"], "day 99 is not in the log")
    wrong(capsys, ["trace", "convert", good, tmp_path / "x.swf", "--begin", "9"], "no job is submitted between")
    wrong(capsys, ["trace", "convert", good, tmp_path / "x.swf", "--split", "1"], "leaves one side empty")
    wrong(capsys, ["trace", "convert", good, "-", "--split", "0.5"], "two files")
    wrong(capsys, ["trace", "generate", tmp_path / "x.swf", "--procs", "1"], "--procs")
    wrong(capsys, ["trace", "generate", tmp_path / "x.swf", "--classes", "three"], "typeless")
    wrong(capsys, ["simulate", good, "--out", ""], "empty")
    wrong(capsys, ["compare", good, "--report", good], "would overwrite the log itself")
    wrong(capsys, ["trace", "convert", good, good], "would overwrite the log itself")
    wrong(capsys, ["simulate", good, "--out", tmp_path / "a.csv", "--evalys", tmp_path / "a.csv"], "would overwrite")
    wrong(capsys, ["simulate", "x" * 5000], "too long")
    wrong(capsys, ["simulate", good, "--seed", "-1"], "--seed")
    wrong(capsys, ["trace", "convert", good, tmp_path / "x.swf", "--split", "nan"], "leaves one side empty")
    assert list(tmp_path.iterdir()) == [tmp_path / "good.swf"]  # nothing was left behind


@contextmanager
def no_root():
    """Within, this process has the rights of an ordinary user: root may write everywhere."""
    ids = os.getresuid()
    if ids[1] == 0:
        os.setresuid(65534, 65534, 0)
    try:
        yield
    finally:
        os.setresuid(*ids)


def test_unwritable_folder(good, tmp_path, capsys):
    folder = tmp_path / "closed"
    folder.mkdir(mode=0o555)
    assert run(["simulate", good, "--json"]) == 0  # all modules are there
    capsys.readouterr()
    here = os.getcwd()
    os.chdir(tmp_path)  # pytest's folders are for their owner alone
    tmp_path.chmod(0o755)
    try:
        with no_root():
            wrong(capsys, ["simulate", "good.swf", "--out", "closed/x.csv"], "closed is not writable")
    finally:
        os.chdir(here)


@pytest.mark.cli
def test_an_interrupt_that_python_loses_is_told_by_the_exit_code(good):
    """Ctrl-C while an object is freed: Python prints it and goes on, to the end of the command."""
    code = f"""
import os, signal, sys
import jobwise.cli; m = sys.modules["jobwise.cli.main"]
signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background has it ignored
real = m.run
class Freed:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)
def run(arguments):
    Freed()
    return real(arguments)
m.run, sys.argv = run, ["jobwise", "trace", "info", {good!r}]
m.main()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 130 and "KeyboardInterrupt" in done.stderr and "29" in done.stdout


def test_a_disk_that_fills_up_is_named(good, tmp_path, capsys, monkeypatch):
    """Errors of writing have no name of a file; whoever writes says it."""
    from jobwise.files import writing

    with pytest.raises(InputError, match=r"here/x: cannot be written: No space left"), writing("here/x"):
        raise OSError(28, "No space left on device")
    for name in ("here", "here/x", "here/x/seed0"):
        with pytest.raises(InputError, match=rf"^{name}: cannot be written: Permission denied"), writing("here/x"):
            raise PermissionError(13, "Permission denied", name)
    with pytest.raises(PermissionError, match="other"), writing("here/x"):  # a program that is run, a file that is read
        raise PermissionError(13, "Permission denied", "other")
    with pytest.raises(BrokenPipeError), writing("here/x"):
        raise BrokenPipeError(32, "Broken pipe")

    def full(*given, **more):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("jobwise.cli.simulate.open_log", full)
    wrong(capsys, ["simulate", good], "No space left on device", "a file that is being written")


def test_a_full_disk_leaves_the_old_file(good, tmp_path, capsys, monkeypatch):
    out = tmp_path / "s.csv"
    out.write_text("old")

    def full(fd):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    wrong(capsys, ["simulate", good, "--out", out, "--force"], "No space left")
    assert out.read_text() == "old" and len(list(tmp_path.iterdir())) == 2


@pytest.mark.cli
def test_ctrl_c_ends_cleanly(tmp_path):
    path = tmp_path / "slow.py"
    path.write_text(
        "import time\ndef order(jobs, now):\n    print('up', flush=True)\n    time.sleep(0.2)\n    return jobs['submit']\n"
    )
    log = tmp_path / "good.swf"
    log.write_text(GOOD)
    command = [
        sys.executable,
        "-m",
        "jobwise.cli",
        "simulate",
        str(log),
        "-p",
        f"{path}:order",
        "--out",
        str(tmp_path / "s.csv"),
    ]
    # a shell's background jobs ignore Ctrl-C, and what they start inherits it
    listening = lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)  # noqa: E731
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = subprocess.Popen(command, **pipes, text=True, preexec_fn=listening)
    assert process.stdout.readline() == "up\n"
    time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130 and err == "jobwise: interrupted; nothing was written\n"
    assert not (tmp_path / "s.csv").exists()


def test_nothing_is_overwritten_unasked(good, tmp_path, capsys):
    out = tmp_path / "there.csv"
    for arguments in (
        ["simulate", good, "--out", out],
        ["simulate", good, "--evalys", out],
        ["trace", "convert", good, out],
        ["trace", "generate", out],
    ):
        out.write_text("precious")
        wrong(capsys, arguments, "exists already; --force")
        assert out.read_text() == "precious"
    page = tmp_path / "r.html"
    page.write_text("precious")
    wrong(capsys, ["compare", good, "-p", "fcfs", "--report", page], "exists already")
    assert run([str(x) for x in ["simulate", good, "--out", out, "--force"]]) == 0 and out.read_text().startswith("job,")


def test_dead_ends_name_the_way_out(good, tmp_path, capsys):
    wrong(capsys, ["simulate", good, "-p", "sjf", "-p", "fcfs"], "takes one policy", "jobwise compare")
    wrong(capsys, ["simulate", good, "-p", "sjf+easy+pack"], "is for clusters of nodes, not for pools")
    wrong(capsys, ["compare", good, "--report", tmp_path / "r.pdf"], "*.html")
    wrong(capsys, ["watch", "sjf", "--out", tmp_path / "f.mp4"], "*.gif")
    wrong(capsys, ["compare", good, "--origins", "3", "--split", "0.5"], "--origins")
    wrong(capsys, ["train", good, "search", "--out", tmp_path / "run"], "the system comes first")
    wrong(capsys, ["train", "serch", good, "--out", tmp_path / "run"], "did you mean search")
    wrong(capsys, ["evaluate", good, "runs/mine"], "the run comes first: jobwise evaluate runs/mine")
    wrong(capsys, ["trace", "generate", tmp_path / "x.swf", "--jobs", "99999999999"], "too many")
    wrong(capsys, ["trace", "sacct-command", "--start", "2026-02-31"], "a day of the calendar")
    wrong(capsys, ["trace", "sacct-command", "--start", "2026-03-01", "--end", "2026-02-01"], "is after")
    wrong(capsys, ["tracee"], "did you mean")
    other = tmp_path / "folder"
    other.mkdir()
    (other / "thesis.tex").write_text("precious")
    assert run(["train", "search", good, "--out", str(other)]) == 2
    assert "holds other files (thesis.tex)" in capsys.readouterr().err and len(list(other.iterdir())) == 1
    for odd, parts in {
        "JobID,User,State\n1,a,COMPLETED\n": ("commas", "sacct -a"),
        "JobID           User\n1 a\n": ("spaces", "sacct -a"),
        "1|1|a|b|c|d|COMPLETED|2026-01-01T00:00:00\n": ("without the line of names",),
        "submit_timestamp,duration_s,num_gpus,virtual_cluster\n2017-09-04 10:30:41,1,1,a\n": ("6c71a0",),
        '{"jobs": []}': ("is JSON of no kind that is known",),
    }.items():
        (tmp_path / "odd.txt").write_text(odd)
        wrong(capsys, ["simulate", tmp_path / "odd.txt"], *parts)


def test_names_are_found_whatever_their_case(good, capsys):
    assert run(["simulate", good, "-p", "FCFS+EASY", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["policy"] == "fcfs+easy"


def test_every_name_is_listed(capsys):
    """`jobwise policies` has a line for every name that the grammar knows."""
    from jobwise.policies.names import described

    assert run(["policies", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == described()
    assert run(["policies"]) == 0 and "shortest requested time first" in capsys.readouterr().out


def test_what_the_log_says_is_shown_beside(tmp_path, capsys):
    path = tmp_path / "waits.swf"
    rows = [line(i, 100 * i, wait=50 * i, run=100, walltime=100, requested=2) for i in range(1, 20)]
    path.write_text(text(*rows).replace("; MaxProcs", "; UnixStartTime: 86400\n; MaxProcs"))
    assert run(["simulate", str(path)]) == 0
    out = capsys.readouterr().out
    assert "as recorded" in out and "950.000" in out
    assert run(["compare", str(path), "-p", "fcfs+easy", "-p", "sjf"]) == 0
    assert "as recorded" in capsys.readouterr().out
    assert run(["trace", "info", str(path)]) == 0
    out = capsys.readouterr().out
    assert "1970-01-02 00:01:40" in out and "recorded max wait" in out


def test_guesses_and_gaps_are_said(tmp_path, capsys):
    path = tmp_path / "bare.swf"
    path.write_text("".join(line(i, 10 * i, run=30, walltime=-1, requested=i % 5 + 1) + "\n" for i in range(1, 9)))
    assert run(["simulate", str(path)]) == 0
    err = capsys.readouterr().err
    assert "8 jobs without a requested time" in err and "processors guessed from the largest job, 5" in err


def test_a_log_without_a_header_is_fine(tmp_path):
    path = tmp_path / "bare.swf"
    path.write_text(GOOD.replace(HEADER, ""))
    assert run(["simulate", str(path), "--json"]) == 0


@pytest.mark.cli
def test_warm_up_prepares_the_families_named(tmp_path):
    """In processes of their own; what they compiled is then there."""
    told = os.environ | {"XDG_CACHE_HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-m", "jobwise.cli", "warm-up", "forecasts", "--workers", "1"],
        env=told,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0 and "functions compiled" in done.stderr and "ready in" in done.stderr, done.stderr
    assert list(tmp_path.rglob("*.nbc"))
    wrong = subprocess.run([sys.executable, "-m", "jobwise.cli", "warm-up", "serch"], env=told, capture_output=True, text=True)
    assert wrong.returncode == 2 and "did you mean search" in wrong.stderr


def test_long_work_says_so_where_there_is_no_terminal(monkeypatch, capsys):
    """A line every few seconds on standard error, and none once the work is over or where lines are not wanted."""
    from jobwise.cli import progress

    monkeypatch.setattr(progress.Lines, "EVERY_S", 0.2)
    monkeypatch.setenv("JOBWISE_ANNOUNCE", "1")
    with progress.progress("comparing") as show:
        show(3, 8, "sjf")
        said, until = "", time.monotonic() + 30
        while not said and time.monotonic() < until:
            time.sleep(0.1)
            said = capsys.readouterr().err
    assert "jobwise: comparing: sjf 3 of 8" in said
    capsys.readouterr()
    time.sleep(0.8)
    assert capsys.readouterr().err == ""
    monkeypatch.setenv("JOBWISE_ANNOUNCE", "0")
    with progress.progress("comparing") as show:
        assert show is None


@pytest.mark.cli
@pytest.mark.parametrize("world", ["window", "slots", "gpus", "nodes"])
def test_the_samples_of_the_worlds_step(world):
    """What `warm-up` steps to compile a world runs: an environment of four, once."""
    pytest.importorskip("gymnasium")
    from jobwise.cli import samples

    assert getattr(samples, world)() is None


def test_a_shell_completes_logs_by_name_and_by_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sdsc-mine.swf").touch()
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "a[1].swf").touch()
    assert logs_like("sdsc-") == ["sdsc-blue", "sdsc-ds", "sdsc-sp2", "sdsc-mine.swf"]
    assert (
        logs_like("ru") == ["runs/"]
        and logs_like("./runs/") == ["./runs/a[1].swf"]
        and logs_like("runs/a[") == ["runs/a[1].swf"]
    )
    assert logs_like(str(tmp_path / "s")) == [str(tmp_path / "sdsc-mine.swf")] and logs_like("no/such") == []

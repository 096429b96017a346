"""The benchmark: schedules of others are checked, looking ahead is found, and an entry is added in ten lines.

Modules: cli/bench.py, compare/bench.py, compare/outside.py, report/bench.py, workloads/later.py.
"""

import json
import re
import sys
from dataclasses import dataclass, replace

import numpy as np
import pytest
from conftest import in_docs

import jobwise as jw
from jobwise.cli import run
from jobwise.cluster import pool
from jobwise.compare.bench import Policied, Standings, peeks, score, task
from jobwise.compare.outside import Outside, read_outside, starts
from jobwise.errors import InputError
from jobwise.policies.names import resolve
from jobwise.report.bench import of_bench
from jobwise.report.page import write_study
from jobwise.workload import workload
from jobwise.workloads.later import later_months, scheduled
from jobwise.workloads.swf import write_swf

FCFS = """import heapq, sys
rows = [list(map(float, x.split())) for x in open(sys.argv[1]) if x[0] != ";"]
free, running, now, out = int(sys.argv[2]), [], 0.0, open(sys.argv[3], "w")
for job, submit, run, size in [(int(x[0]), x[1], x[3], int(x[7])) for x in rows]:
    now = max(now, submit)
    while running and (running[0][0] <= now or free < size):
        end, n = heapq.heappop(running)
        now, free = max(now, end), free + n
    heapq.heappush(running, (now + run, size))
    free = free - size
    print(job, now, file=out)
"""
SERIAL = """import sys
rows = [list(map(float, x.split())) for x in open(sys.argv[1]) if x[0] != ";"]
now, out, left = 0.0, open(sys.argv[3], "w"), [(x[1], x[{column}], x[3], int(x[0])) for x in rows]
while left:
    now = max(now, min(left)[0])
    job = min((x for x in left if x[0] <= now), key=lambda x: x[1])
    left.remove(job)
    print(job[3], now, file=out)
    now += job[2]
"""


def three():
    """Two jobs that fit beside each other, one that does not, on 4 processors."""
    return workload(
        np.array([0.0, 0, 5]), np.array([2, 2, 4]), np.array([10.0, 20, 10]), np.array([10.0, 20, 10]), cluster=pool(4)
    )


def program(folder, name, text):
    """A program of an entry, as a file."""
    (folder / f"{name}.py").write_text(text)
    return Outside(name, (sys.executable, str(folder / f"{name}.py"), "{log}", "{processors}", "{out}"))


def test_a_schedule_of_others_is_checked_and_measured():
    """Waits 0, 0, 15; slowdowns 1, 1, 2.5: a mean of 1.5; the machine is needed for 30 s of 4 processors."""
    r = scheduled(three(), np.array([0.0, 0, 20]), "theirs")
    s = r.summary()
    assert s["bounded_slowdown"] == pytest.approx(1.5) and s["max_wait"] == 15 and s["makespan"] == 30
    assert r.jobs["end"].tolist() == [10, 20, 30]


@pytest.mark.parametrize(
    "start, says",
    [
        ([0.0, 0, 19], "its jobs hold 6 of 4 processors"),
        ([0.0, 0, 4], "job 3 starts at 4 s, before its submit at 5 s"),
        ([0.0, np.nan, 20], "1 jobs do not start .the first: 2"),
        ([0.0, np.inf, 20], "1 jobs do not start"),
        ([0.0, 0, 1e15], "job 3 starts at 1e.15 s, later than if all ran one after the other"),
    ],
)
def test_a_schedule_that_cannot_be_is_refused(start, says):
    with pytest.raises(InputError, match=f"theirs: {says}"):
        scheduled(three(), np.array(start), "theirs")


def test_lines_of_a_schedule():
    """Lines of jobs, with spaces or commas; others, and jobs that are none, are skipped."""
    assert starts("seconds 3.5\n1 0\n2,7.5\n9 1\nx 2\n3 late\n", 3).tolist()[:2] == [0.0, 7.5]
    assert np.isnan(starts("3 late\n", 3)[2])


@pytest.mark.cli
def test_who_looks_ahead_is_found(tmp_path):
    """A program that takes the job with the shortest run time; one that takes the shortest request does not look ahead."""
    w = jw.lublin(jobs=120, procs=8, load=0.9, estimates="users", seed=3)
    w = replace(w, truth=w.truth.copy(), jobs=w.jobs.copy())
    w.jobs["request"][:] = 8
    w.truth["runtime"] = np.maximum(np.minimum(np.ceil(w.truth["runtime"]), w.jobs["walltime"]), 1.0)
    w.jobs["submit"] = np.floor(w.jobs["submit"] / 10)  # a queue
    moved = {}
    for name, column in (("shortest-run", 3), ("shortest-request", 8)):
        entry = program(tmp_path, name, SERIAL.format(column=column))
        moved[name] = peeks(entry, [entry.record(w)] * 5)
    assert moved["shortest-run"][0] > 0 and moved["shortest-request"][0] == 0 and moved["shortest-request"][1] > 20
    own = Policied(resolve("sjf+easy"), "sjf+easy")
    assert peeks(own, [own.record(w)] * 5)[0] == 0
    calm = jw.lublin(jobs=20, procs=1000, load=0.01, seed=1)  # nothing waits: who would look ahead is not to be told
    assert peeks(own, [own.record(calm)] * 5) == (0, 0)


@dataclass(frozen=True)
class Knowing:
    """Orders the queue by the true run times, and starts whatever fits: what a program can do that reads the log's."""

    name: str = "knowing"
    key: str = "knowing"
    source: str = ""

    def record(self, w):
        run, size, submit = w.truth["runtime"], w.jobs["request"][:, 0], w.jobs["submit"]
        start, ends, free, now, at, queue = np.full(len(w), np.nan), [], w.cluster.processors, 0.0, 0, []
        while at < len(w) or queue:
            now = min([*submit[at : at + 1].tolist(), *(e for e, _ in ends)])
            free += sum(n for e, n in ends if e <= now)
            ends = [x for x in ends if x[0] > now]
            while at < len(w) and submit[at] <= now:
                queue.append(at)
                at += 1
            for j in sorted(queue, key=lambda j: run[j]):
                if size[j] <= free:
                    start[j], free = now, free - size[j]
                    ends.append((now + run[j], size[j]))
                    queue.remove(j)
        return scheduled(w, start, self.name)

    def flattered(self, w):
        return ""


@pytest.mark.parametrize("jobs", [200, 500, 1500])
@pytest.mark.parametrize("seed", [0, 1])
def test_who_orders_by_true_run_times_is_found_on_short_logs_too(jobs, seed):
    w = jw.lublin(jobs=2 * jobs, procs=128, load=0.9, estimates="users", seed=seed)
    _, later = later_months(w, 0.5, jobs)
    entry = Knowing()
    moved, tried = peeks(entry, [entry.record(later)] * 5)
    assert moved > 3 and tried > 3, (moved, tried)


@pytest.mark.cli
def test_a_program_and_the_same_rule_of_ours_have_one_score(tmp_path):
    w = jw.lublin(jobs=400, procs=32, load=0.9, estimates="users", seed=4)
    t = task("made", w, tmp_path / "made")
    assert len(t.logs) == 5 and len(t.logs[0]) == 120
    ours, theirs = score(Policied(resolve("fcfs"), "fcfs"), t), score(program(tmp_path, "fcfs", FCFS), t)
    assert theirs.error == "" and theirs.numbers == pytest.approx(ours.numbers) and np.allclose(theirs.slow, ours.slow)
    assert theirs.moved == ours.moved == 0


def test_orders_of_the_page(tmp_path):
    """The best first; who looked ahead, who learnt from these jobs, who did not run stand behind."""
    t = task("made", jw.lublin(jobs=300, procs=32, load=1.0, estimates="users", seed=4), tmp_path / "made")
    entries = [Policied(resolve(x), x) for x in ("fcfs+easy", "fcfs", "saf+easy", "sjf+easy")]
    scores = [[score(x, t)] for x in entries]
    assert [x[0].error for x in scores] == [""] * 4
    scores[3][0] = scores[3][0]._replace(moved=7)
    s = Standings(entries, [t], scores)
    names = [entries[e].name for e in s.ranked()]
    assert names[-1] == "sjf+easy" and names.index("saf+easy") < names.index("fcfs")
    scores[2][0] = scores[2][0]._replace(error="it broke")
    s = Standings(entries, [t], scores)
    assert s.ran(2) == [] and s.verdicts[0][2] == ""
    names = [entries[e].name for e in s.ranked()]
    assert max(names.index("fcfs+easy"), names.index("fcfs")) < names.index("saf+easy")


@pytest.mark.cli  # a report names the commit
def test_whoever_enters_takes_nobodys_verdict_away(tmp_path):
    """The same verdicts on the fixed entries with thirty more; a name cannot forge a cell of the page."""
    t = task("made", jw.lublin(jobs=3000, procs=32, load=1.0, estimates="users", seed=4), tmp_path / "made")
    entries = [Policied(resolve(x), x) for x in ("fcfs+easy", "fcfs", "saf+easy")]
    scores = [[score(x, t)] for x in entries]
    alone = Standings(entries, [t], scores, fixed=3)
    crowd = Standings([*entries, *entries[:1] * 30], [t], [*scores, *scores[:1] * 30], fixed=3)
    assert "worse" in alone.verdicts[0] and crowd.verdicts[0][:3] == alone.verdicts[0]
    scores[1] = [scores[1][0]._replace(error="it | broke")]
    named = [entries[0], Outside("fcfs | 9 | ", ("x",), "a | b"), entries[2]]
    sections = of_bench(Standings(named, [t], scores, fixed=1)).sections(None)
    write_study("bench", sections, tmp_path)
    rows = [x for x in (tmp_path / "report.md").read_text().splitlines() if x.startswith(r"| fcfs \|")]
    assert {len(re.findall(r"(?<!\\)\|", x)) for x in rows} == {9}


def test_a_bad_entry_makes_no_queue(tmp_path):
    """Where the fixed entries have none, nothing is claimed of them, whoever else enters."""
    t = task("made", jw.lublin(jobs=3000, procs=32, load=0.8, estimates="users", seed=4), tmp_path / "made")
    entries = [Policied(resolve(x), x) for x in ("fcfs+easy", "saf+easy")]
    scores = [[score(x, t)] for x in entries]
    scores = [[x._replace(numbers=x.numbers | {"bounded_slowdown": 1.1})] for (x,) in scores]
    bad = [scores[0][0]._replace(numbers=scores[0][0].numbers | {"bounded_slowdown": 900.0}, slow=scores[0][0].slow * 900)]
    s = Standings([*entries, entries[0]], [t], [*scores, bad], fixed=2)
    assert s.verdicts[0][1:] == ["too few jobs to say"] * 2


@pytest.mark.cli
def test_an_entry_is_added_in_ten_lines(tmp_path, monkeypatch, capsys):
    """From an empty folder; then with the example of the docs, and with a program; what has a score is not run again."""
    monkeypatch.chdir(tmp_path)
    for k in (1, 2):
        write_swf(jw.lublin(jobs=200, procs=32, load=0.95, estimates="users", users=5, seed=k), f"log{k}.swf")
    words = ["bench", "--log", "log1.swf", "--log", "log2.swf"]
    assert run(words) == 0
    assert "Over all logs" in capsys.readouterr().out
    kept = {p: p.stat().st_mtime_ns for p in (tmp_path / "bench").glob("*/*.json")}
    assert len(kept) == 24  # twelve entries on two logs
    text = in_docs("bench.md", "python", "widest_first")
    (tmp_path / "mine.py").write_text(text)
    (tmp_path / "theirs.py").write_text(FCFS)
    (tmp_path / "bad.py").write_text("print('no schedule')\n")
    tables = [
        f'[{x}]\ncommand = ["{sys.executable}", "{x}.py", "{{log}}", "{{processors}}", "{{out}}"]\n' for x in ("theirs", "bad")
    ]
    (tmp_path / "others.toml").write_text("".join(tables))
    assert len(text.splitlines()) <= 10
    assert run([*words, "-p", "mine.py:widest_first+easy", "--outside", "others.toml", "--json"]) == 0
    out = json.loads(capsys.readouterr().out)
    by = {x["entry"]: x for x in out["entries"]}
    assert {p: p.stat().st_mtime_ns for p in kept} == kept
    assert by["mine.py:widest_first+easy"]["sees_nothing"] and set(out["order"]) == set(by)
    for log in ("log1", "log2"):
        mine, ours, theirs = (by[x]["logs"][log] for x in ("mine.py:widest_first+easy", "fcfs", "theirs"))
        assert mine["bounded_slowdown"] >= 1 and theirs["bounded_slowdown"] == pytest.approx(ours["bounded_slowdown"])
        assert by["bad"]["logs"][log]["error"] == "bad: it wrote no schedule"
    for name in ("report.html", "report.md", "results.json"):
        assert "widest_first" in (tmp_path / "bench" / name).read_text()
    (tmp_path / "theirs.py").write_text("raise SystemExit('broken')\n")  # another program has no score yet
    assert run([*words, "--outside", "others.toml", "--json"]) == 0
    by = {x["entry"]: x for x in json.loads(capsys.readouterr().out)["entries"]}
    assert by["theirs"]["logs"]["log1"]["error"] == "theirs: broken"


@pytest.mark.parametrize(
    "text, says",
    [
        ("", "names no program"),
        ("[a]\ncommand = 'x'\n", "command is a list of words"),
        ("[a]\ncommand = ['x', '{log}']\n", "{out} is not among the words"),
        ("[a]\nrun = ['x']\n", "a table of command, limit_s, source is expected"),
        ("a = 1\n", "a table of command, limit_s, source is expected"),
        ("[a]\ncommand = ['x', '{log}', '{out}']\nlimit_s = 'long'\n", "limit_s is a number of seconds"),
        ("[a]\ncommand = ['x', '{log}', '{out}']\nlimit_s = inf\n", "limit_s is a number of seconds"),
        ("[a]\ncommand = ['x', '{log}', '{out}']\nlimit_s = true\n", "limit_s is a number of seconds"),
        ("[a\n", "others.toml: "),
    ],
)
def test_a_wrong_table_of_programs_is_said_in_a_line(tmp_path, text, says):
    (tmp_path / "others.toml").write_text(text)
    with pytest.raises(InputError) as error:
        read_outside(str(tmp_path / "others.toml"))
    assert says in str(error.value) and str(error.value).startswith(str(tmp_path))


@pytest.mark.cli
def test_what_goes_wrong_is_said(tmp_path, capsys):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.txt").write_text("mine")
    assert run(["bench", "--out", str(tmp_path / "full")]) == 2
    assert "holds something else" in capsys.readouterr().err
    assert run(["bench", "-p", "fcfs", "-p", "fifo-nothing"]) == 2
    assert run(["bench", "--out", str(tmp_path / "b"), "--outside", str(tmp_path / "none.toml")]) == 2
    assert "No such file" in capsys.readouterr().err
    nobody = Outside("nobody", (str(tmp_path / "nothing"), "{log}", "{out}"))
    with pytest.raises(InputError, match="nobody: .*No such file"):
        nobody.record(three())

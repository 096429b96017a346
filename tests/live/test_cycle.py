"""The cycle of a running cluster: whom it asks, what sinks get, what ends it; one run of a policy for many looks.

Modules: live/sinks/told.py.
"""

import pytest
from conftest import programs
from test_live import cluster  # noqa: F401

from jobwise.cli import run
from jobwise.errors import InputError
from jobwise.live import sources
from jobwise.live.cycle import Cycle, Sink
from jobwise.live.sinks.told import Told
from jobwise.policies.names import resolve

pytestmark = [pytest.mark.xdist_group("sites"), pytest.mark.usefixtures("few_predictions")]


@pytest.mark.slurm
@pytest.mark.parametrize(
    "words",
    [
        ["watch", "--web", "127.0.0.1:0"],
        ["shadow", "--state", "STATE", "--web", "127.0.0.1:0"],
        ["steer", "--state", "STATE", "--web", "127.0.0.1:0", "--place"],
        ["steer", "--state", "STATE"],
    ],
    ids=lambda words: " ".join(words[::4]),
)
def test_a_policy_begins_once_in_ten_cycles(words, tmp_path, cluster, monkeypatch, capsys):  # noqa: F811
    from jobwise.policies import scheduler

    told = {"scontrol": '[ -z "$1" ] && cat > /dev/null', "sprio": "printf '9004|10|0\\n9005|10|0\\n9006|10|0\\n'"}
    monkeypatch.setenv("PATH", programs(tmp_path / "bin", cluster, **told))
    begun = []

    def begin(policy, view):
        begun.append(policy.name)
        return scheduler.begin(policy, view)

    monkeypatch.setattr("jobwise.live.wishes.begin", begin)
    name = "saf+easy+pack" if "--place" in words else "jobwise"
    own = [str(tmp_path / "state") if x == "STATE" else x for x in words]
    assert run(["slurm", *own, "-p", name, "--every", "0s", "--cycles", "10"]) == 0
    said = capsys.readouterr()
    assert not any(x in said.err for x in ("trying again", "the page: ", "the journal: ", "what is told: "))
    assert begun == [name]


class Source:
    """A cluster that is the same at each look, or does not answer."""

    def __init__(self, folder, silent=()):
        self.now, self.silent, self.count = sources.look(folder), set(silent), 0

    def look(self):
        self.count += 1
        if self.count in self.silent:
            raise InputError("squeue: no answer")
        return self.now


class Kept(Sink):
    """Keeps what it is given; fails at some of the turns, ends at one."""

    title = "what is kept"

    def __init__(self, fails=(), off=0, stop=10**9):
        self.fails, self.off, self.stop, self.turns, self.problems, self.news = set(fails), off, stop, [], [], []

    @property
    def stopped(self):
        return len(self.turns) >= self.stop

    def take(self, turn):
        if turn.n in self.fails:
            raise InputError("the disk is full")
        self.turns.append(turn.n)
        turn.off = turn.off or turn.n == self.off

    def failed(self, problem, looked):
        self.problems.append((problem, looked))

    def learnt(self, news):
        self.news.append(news)


def test_each_sink_gets_each_look(cluster):  # noqa: F811
    first, second = Kept(), Kept()
    assert Cycle(Source(cluster), resolve("sjf"), [first, second]).run(0.0, 3)
    assert first.turns == second.turns == [1, 2, 3] and not first.problems


def test_where_the_source_or_the_first_sink_fails_the_look_is_lost(cluster):  # noqa: F811
    first, second = Kept(fails=[3]), Kept()
    assert Cycle(Source(cluster, silent=[2]), resolve("sjf"), [first, second]).run(0.0, 4)
    assert first.turns == second.turns == [1, 4]
    assert first.problems == second.problems == [("squeue: no answer", False), ("the disk is full", False)]


def test_where_another_sink_fails_the_rest_goes_on(cluster):  # noqa: F811
    first, second, third = Kept(), Kept(fails=[2]), Kept()
    assert Cycle(Source(cluster), resolve("sjf"), [first, second, third]).run(0.0, 3)
    assert first.turns == third.turns == [1, 2, 3] and second.turns == [1, 3]
    assert first.problems == [("what is kept: the disk is full", True)]


def test_a_guard_rail_ends_it_and_says_so(cluster):  # noqa: F811
    sink = Kept(off=2)
    assert not Cycle(Source(cluster), resolve("sjf"), [sink]).run(0.0) and sink.turns == [1, 2]


def test_a_sink_may_stop_it(cluster):  # noqa: F811
    sink = Kept(stop=2)
    assert Cycle(Source(cluster), resolve("sjf"), [sink]).run(0.0) and sink.turns == [1, 2]
    assert Cycle(Source(cluster), resolve("sjf"), [Kept(stop=0)]).run(600.0)  # before the first look


def test_what_is_learnt_ranks_from_the_next_look_on(cluster):  # noqa: F811
    class Learns(Kept):
        def take(self, turn):
            super().take(turn)
            names.append(turn.wishes.policy.name)
            if turn.n == 2:
                turn.follows, turn.news = resolve("fcfs"), "fcfs ranks from now on"

    names: list[str] = []
    first = Kept()
    assert Cycle(Source(cluster), resolve("sjf"), [first, Learns()]).run(0.0, 4)
    assert names == ["sjf", "sjf", "fcfs", "fcfs"] and first.news == ["fcfs ranks from now on"]


def test_what_is_told(cluster):  # noqa: F811
    said, complaints = [], []
    sink = Told(lambda turn: said.append(turn.n), said.append, complaints.append)
    Cycle(Source(cluster, silent=[1]), resolve("sjf"), [Kept(), sink, Kept(fails=[2])]).run(0.0, 2)
    sink.learnt("news")
    assert said == [2, "news"] and complaints == ["squeue: no answer; trying again", "what is kept: the disk is full"]

"""What a policy wants, look after look: one run, which begins anew only where it must."""

import pytest
from test_live import cluster, job  # noqa: F401
from test_shadow import Looks, started

from jobwise.live.wishes import Unranked, Wishes
from jobwise.policies.names import resolve

pytestmark = pytest.mark.xdist_group("sites")


@pytest.fixture
def looks(cluster):  # noqa: F811
    return Looks(cluster)


class Counted:
    """A policy whose runs, and the jobs that these were told have ended, are counted; it fails while `fails`."""

    def __init__(self, name):
        self.policy, self.begun, self.told, self.asked, self.fails = resolve(name), 0, [], 0, False

    def __getattr__(self, name):
        return getattr(self.policy, name)

    def begin(self, view):
        self.begun += 1
        run = self.policy.begin(view)
        return Run(self, run)


class Run:
    """A run that tells its policy what it is asked."""

    def __init__(self, own, run):
        self.own, self.run = own, run

    def ended(self, view, rows):
        self.own.told.append(len(rows))
        self.run.ended(view, rows)

    def explain(self, view):
        self.own.asked += 1
        if self.own.fails:
            raise ZeroDivisionError("oh")
        return self.run.explain(view)

    def decide(self, view):
        return self.run.decide(view)


def test_one_run_goes_on_from_look_to_look(looks):
    policy, last = Counted("smith+easy"), None
    for k in range(10):
        last = Wishes(policy, looks.look(), last)
        assert last.order == last.order and set(last.starts) == set() and policy.asked == k + 1
        looks.at(30.0)
    assert policy.begun == 1 and policy.told == [0] * 9


def test_a_look_at_which_nobody_asked_is_part_of_the_next(looks):
    """What happened before it is told with what happened after."""
    policy = Counted("smith+easy")
    first = Wishes(policy, looks.look())
    assert first.order
    looks.at(30.0, started(9005, 4, "n4"))  # 9003 ends
    second = Wishes(policy, looks.look(), first)
    looks.at(30.0)
    third = Wishes(policy, looks.look(), second)
    assert third.order and policy.begun == 1 and policy.told == [1]


def test_a_run_that_failed_is_asked_once_and_begins_anew(looks):
    policy = Counted("sjf+easy")
    policy.fails = True
    first = Wishes(policy, looks.look())
    for _ in range(2):
        with pytest.raises(ZeroDivisionError, match="oh"):
            assert first.order
    assert policy.asked == 1
    policy.fails = False
    assert Wishes(policy, looks.look(), first).order and policy.begun == 2


def test_another_policy_has_a_run_of_its_own(looks):
    one, two = Counted("sjf+easy"), Counted("fcfs+easy")
    first = Wishes(one, looks.look())
    assert first.order[0]["job"] == 9006
    assert Wishes(two, looks.look(), first).order[0]["job"] == 9004 and (one.begun, two.begun) == (1, 1)


@pytest.mark.parametrize("name", ["jobwise", "sjf+easy+promise1.2x"])
def test_who_is_cancelled_is_promised_nothing_any_more(looks, name):
    """The wide job is gone: the run goes on, and ranks and promises as one does that never knew it."""
    policy = Counted(name)
    first = Wishes(policy, looks.look())
    assert 9004 in {x["job"] for x in first.order}
    looks.at(30.0, lambda jobs, now: [x for x in jobs if x["job_id"] != 9004])
    later, fresh = Wishes(policy, looks.look(), first), Wishes(policy, looks.look())
    assert later.order == fresh.order and later.starts == fresh.starts and policy.begun == 2


def test_a_run_that_begins_anew_sees_the_new_queue(looks):
    """One asks for something else now: the run would go by what it asked for."""
    policy = Counted("jobwise")
    first = Wishes(policy, looks.look())
    assert 9004 in {x["job"] for x in first.order}
    looks.at(30.0, lambda jobs, now: [x | {"time_limit": 10} if x["job_id"] == 9004 else x for x in jobs])
    later = Wishes(policy, looks.look(), first)
    assert later.order == Wishes(policy, looks.look()).order and policy.begun == 3


@pytest.mark.parametrize("name", ["sjf+easy", "saf+conservative", "saf+easy+pack", "sjf+learned", "wfp3+easy", "zoo:sdsc-sp2"])
def test_a_run_that_goes_on_wants_what_a_fresh_one_wants(looks, name):
    """These remember nothing that counts here: jobs have ended, started and come, and one was cancelled meanwhile."""
    policy, change = Counted(name), started(9005, 4, "n4")
    last = Wishes(policy, looks.look())
    assert _both(last)[1] == {}
    looks.at(60.0, lambda jobs, now: [*change(jobs, now), job(9011, 2, 10, now, waited=5)])
    later, fresh = Wishes(policy, looks.look(), last), Wishes(policy, looks.look())
    assert _both(later) == _both(fresh) and policy.begun == 2
    looks.at(60.0, lambda jobs, now: [x for x in jobs if x["job_id"] not in (9001, 9004)])
    after, fresh = Wishes(policy, looks.look(), later), Wishes(policy, looks.look())
    assert _both(after) == _both(fresh) and after.starts and policy.begun == 3


def _both(wishes):
    """(order, or why there is none; starts)."""
    try:
        order = [x["job"] for x in wishes.order]
    except Unranked as error:
        order = str(error)
    return order, wishes.starts

"""What a policy of a user's own is asked for beside its three methods, and what holds where it says nothing."""

import numpy as np
import pytest
from conftest import random_workload

import jobwise as jw
from jobwise.errors import InputError
from jobwise.policies.names import resolve, with_options
from jobwise.policies.scheduler import Scheduler, begin, scheduler


class Oldest:
    """First come, first served, with no more than the three methods."""

    def __init__(self):
        self.resets = self.over = 0

    def reset(self, view):
        self.resets += 1

    def ended(self, view, rows):
        self.over += len(rows)

    def decide(self, view):
        free, out = int(view.free[0, 0]), []
        for j in view.queue:
            if (n := int(view.jobs["request"][j, 0])) > free:
                break
            free -= n
            out.append(jw.Start(int(j)))
        return out


class Hourly(Oldest):
    """The same, at the beginning of each hour alone, under a name of its own, for small machines."""

    name, tick, about = "hourly", 3600.0, None

    def check(self, cluster):
        if cluster.processors > 12:
            raise InputError("hourly is for small machines")


def test_three_methods_are_enough():
    w, own = random_workload(np.random.default_rng(1)), Oldest()
    r = jw.simulate(w, own)
    assert r.policy == "Oldest" and np.array_equal(r.jobs["start"], jw.simulate(w, "fcfs").jobs["start"])
    assert own.resets == 1 and own.over == len(w)
    whole = scheduler(own)
    assert isinstance(whole, Scheduler) and whole.tick == 0 and whole.about == {} and not whole.is_compiled(w.cluster)
    assert whole.on_site is None and not whole.resumes(w.cluster) and scheduler(whole) is whole


def test_what_a_policy_says_of_itself_holds():
    w = random_workload(np.random.default_rng(2))
    r = jw.simulate(w, Hourly())
    assert resolve(Hourly()).about == {} and r.policy == "hourly" and (r.jobs["start"] % 3600 == 0).all()
    with pytest.raises(InputError, match="small machines"):
        jw.simulate(random_workload(np.random.default_rng(2), procs=16), Hourly())


def test_what_it_does_not_say_it_cannot_do():
    own = resolve(Oldest())
    with pytest.raises(InputError, match="Oldest decides everything itself"):
        with_options(own, {"backfill": "easy"})
    with pytest.raises(InputError, match="only list schedulers stream"):
        own.check_stream()
    with pytest.raises(InputError, match="takes no start deadlines"):
        own.promising(1.2)


def test_a_run_of_its_own_is_asked():
    class Counting(Oldest):
        def begin(self, view):
            self.runs = [*getattr(self, "runs", []), Oldest()]
            return self.runs[-1]

    from jobwise.sim.simulation import Simulation

    w, own = random_workload(np.random.default_rng(3)), Counting()
    jw.simulate(w, own)
    assert len(own.runs) == 1 and own.runs[0].over == len(w) and own.over == 0
    assert begin(own, Simulation(w).view()) is own.runs[1]

"""Trial runs that an agent chooses: those of a rule are the schedule of the slow twin; every reward is as if starts alone counted.

Modules: worlds/window/passes.py, worlds/window/queue.py, worlds/window/settings.py.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from naive_trials import Twin, busy, table

import jobwise as jw
from jobwise.errors import InputError
from jobwise.learn.env import WindowVectorEnv
from jobwise.sim.state import allocate
from jobwise.simulate import simulate
from jobwise.worlds.window.settings import WindowSettings
from jobwise.worlds.window.world import Windows


class Chosen(Twin):
    """The agent's rule also says who is tried; nobody is stopped for a trial; who came last is stopped first."""

    def yielding(self, job):
        return []

    def start_trials(self):
        while able := [j for j in self.waiting if j["may_again"] and not j["trial"] and j["procs"] <= self.free()]:
            job = min(able, key=self.key)
            self.begin(job)
            job["trial"] = True
            self.trials += 1

    def victim(self):
        return max((j for j in self.waiting if j["trial"]), key=lambda j: j["row"])


def by_rule(w, name="saf"):
    """The state in which a rule leaves windows with trial runs."""
    world = Windows(WindowSettings("pick", tries=True), allocate([w], w.cluster), 128)
    more = world.begin()
    while more:
        more = world.advance(world.by_rule(name).astype(np.int64))
    return world.state


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), share=st.sampled_from([0.4, 1.0]))
def test_a_rule_in_windows_makes_the_schedule_of_the_slow_twin(seed, share):
    w = busy(seed, jobs=80, share=share)
    want = Chosen(table(w), 16, "saf", "easy").run()
    got = by_rule(w)
    assert got.jobs[0]["start"].tolist() == [j["start"] for j in want.jobs]
    one = got.sims[0]
    assert (one["trials"], one["shown"], one["preemptions"]) == (want.trials, want.shown, want.kills)
    assert one["lost"] == pytest.approx(want.lost)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_rewards_add_up_to_the_slowdown_of_the_record(seed):
    """What is paid for waiting, less what is paid back, is the sum of bounded slowdowns, whoever was tried and stopped."""
    w = busy(seed, jobs=40)
    envs = WindowVectorEnv(1, w, jobs=len(w), shake_s=0.0, encoder="rls", act=WindowSettings("pick", tries=True), window=128)
    envs.reset(seed=0)
    slowed, over = 0.0, False
    while not over:
        _, _, done, cut, _ = envs.step(envs.world.by_rule("saf").astype(np.int64))
        report = envs.world.transition[0]
        slowed, over = slowed + report["slowed"], bool(done[0] or cut[0])
    wanted = Chosen(table(w), 16, "saf", "easy").run().jobs
    waits = np.array([j["start"] - j["submit"] for j in wanted])
    slowdowns = jw.metrics.bounded(waits + w.truth["runtime"], w.truth["runtime"])
    assert report["total"] == pytest.approx(slowdowns.sum(), rel=1e-9)
    assert slowed == pytest.approx((slowdowns - 1).sum(), rel=1e-6)


def test_a_trained_policy_takes_trial_runs_and_says_so(tmp_path):
    w = busy(3, jobs=80)
    policy = jw.resolve("zoo:sdsc-sp2+trial")
    assert policy.name == "zoo:sdsc-sp2+trial" and policy.world.tries
    r = simulate(w, policy)
    assert r.trials > 0 and simulate(w, "zoo:sdsc-sp2").trials == 0
    policy.save(tmp_path / "own.safetensors")
    again = jw.resolve(str(tmp_path / "own.safetensors"))
    assert again.world.tries and np.array_equal(simulate(w, again).jobs["start"], r.jobs["start"])
    with pytest.raises(InputError, match=r"\+trial alone"):
        jw.resolve("zoo:sdsc-sp2+trial2%")


def test_trial_runs_are_for_pools_and_for_agents_that_pick():
    with pytest.raises(InputError, match="act by 'pick'"):
        WindowSettings("reserve", tries=True)

"""Data-parallel collection: the same run wherever its batches are collected, after workers die, and after a stop.

Modules: learn/collect.py.
"""

import signal
import threading

import numpy as np
import psutil
import pytest
from safetensors.numpy import load_file

torch = pytest.importorskip("torch")

import jobwise as jw  # noqa: E402
from jobwise.errors import InputError  # noqa: E402
from jobwise.learn.collect import collect, joined  # noqa: E402
from jobwise.learn.run import TrainingRun  # noqa: E402
from jobwise.systems import configure  # noqa: E402

pytestmark = [pytest.mark.parallel, pytest.mark.xdist_group("parallel")]
SHORT = {"simulations": 8, "choices": 2_000, "validations": 2}


@pytest.fixture(scope="module")
def log():
    return jw.lublin(1_200, 32, seed=4, load=0.9)


def short(system, log, **changes):
    """A run of a second."""
    c = configure(system, log, "smoke")
    windows = {"jobs": 32, "validation_windows": 2} if hasattr(c, "validation_windows") else {}
    few = {"jobsets": 4, "validation_jobsets": 2, "iterations": None} if hasattr(c, "jobsets") else {}
    return c.changed(**(SHORT | windows | few | {"collectors": 2, "threads": 1} | changes))


def left(folder):
    """The bytes of what a run leaves, but for how long it took."""
    weights = load_file(folder / "policy.safetensors")
    return [(folder / "metrics.jsonl").read_bytes(), *(weights[k].tobytes() for k in sorted(weights))]


def trained(config, log, folder, on):
    with jw.workers(on, 2):
        config.train(log, folder)
    return left(folder)


@pytest.mark.parametrize("system", ["perjob", "dras", "cush+", "rl-taps", "distances+"])
def test_where_batches_are_collected_changes_nothing(system, log, tmp_path):
    c = short(system, log) if system in ("perjob", "dras") else short(system, None, learner={"learner": "ppo", "steps": 16})
    w = log if system in ("perjob", "dras") else None
    assert trained(c, w, tmp_path / "a", "threads") == trained(c, w, tmp_path / "b", "processes")
    assert trained(c.changed(collectors=1), w, tmp_path / "c", "threads") != left(tmp_path / "a")


def test_batches_play_other_simulations(log, tmp_path):
    one, two = TrainingRun(short("perjob", log), log, tmp_path / "a").trainer.envs.snapshot()["parts"]
    assert one["random"] != two["random"]
    assert any(one["arrays"][k].tobytes() != two["arrays"][k].tobytes() for k in one["arrays"])


@pytest.mark.slow
def test_ray_collects_the_same(log, tmp_path):
    pytest.importorskip("ray")
    c = short("perjob", log)
    assert trained(c, log, tmp_path / "a", "threads") == trained(c, log, tmp_path / "b", "ray")


def test_a_collector_that_dies_is_replaced(log, tmp_path):
    c = short("perjob", log, choices=6_000)
    whole = trained(c, log, tmp_path / "a", "threads")
    killed = []

    def kill():
        while len(killed) < 2 and not over.wait(0.2):
            lines = tmp_path / "b" / "metrics.jsonl"
            mine = [p for p in psutil.Process().children(recursive=True) if _plays(p)]
            if mine and lines.exists() and len(lines.read_text().splitlines()) > 1 + 2 * len(killed):
                mine[0].send_signal(signal.SIGKILL)
                killed.append(mine[0].pid)

    over, killer = threading.Event(), threading.Thread(target=kill)
    killer.start()
    try:
        assert trained(c, log, tmp_path / "b", "processes") == whole
    finally:
        over.set()
        killer.join()
    assert killed, "the run ended before a worker could be killed"


def _plays(process):
    """Is it a worker of a pool? Its parent is the fork server."""
    try:
        return "forkserver" in " ".join(process.parent().cmdline()) and process.cpu_times().user > 0.05
    except (psutil.Error, AttributeError):
        return False


def test_a_stopped_run_goes_on_with_other_workers(log, tmp_path):
    c = short("perjob", log, choices=6_000, validations=6)
    whole = trained(c, log, tmp_path / "a", "threads")

    class Stop(Exception):
        pass

    def stop(line):
        if line["updates"] == 7:
            raise Stop

    with jw.workers("processes", 2), pytest.raises(Stop):
        run = TrainingRun(c, log, tmp_path / "b")
        run.run(stop)
    run.trainer.envs.close()
    with jw.workers("threads", 2):
        c.train(log, tmp_path / "b", resume=True)
    assert left(tmp_path / "b") == whole


@pytest.mark.parametrize("steps", [5, None])
def test_joined_rollouts_show_what_the_parts_show(log, steps):
    trainers = [short("perjob", log, collectors=1, seed=k, jobs=5 + 3 * k).trainer(log, "cpu") for k in range(2)]
    for t in trainers:
        t.begin()
    parts = [collect(t.envs, t.agent, steps) for t in trainers]
    both, E = joined(parts), [t.envs.num_envs for t in trainers]
    T = max(len(p.there) for p in parts)
    assert both.there.shape == (T, sum(E)) and both.there.sum() == sum(p.there.sum() for p in parts)
    for t, part, first in zip(trainers, parts, (0, E[0]), strict=True):
        own = np.flatnonzero(part.there.reshape(-1))
        step, e = np.divmod(own, part.there.shape[1])
        all_of = step * sum(E) + first + e
        mine, ours = part.seen(own, True, t.agent.device), both.seen(all_of, True, t.agent.device)
        assert torch.equal(mine.x, ours.x) and torch.equal(mine.counts, ours.counts)
        assert (part.actions[own] == both.actions[all_of]).all()
        assert (part.rewards.reshape(-1)[own] == both.rewards.reshape(-1)[all_of]).all()


@pytest.mark.parametrize(
    ("system", "changes", "text"),
    [
        ("perjob", {"collectors": 3}, "8 simulations cannot be shared by 3 collectors"),
        ("rl-a3c", {"learner": {"learner": "a3c"}}, "one rollout at a time, not with a3c"),
        ("deeprm", {}, "the runs of reinforce on jobsets are shared by torchrun"),
        ("rl-taps", {"fresh": 2, "learner": {"learner": "ppo"}}, "are played in one batch, not by collectors"),
    ],
)
def test_what_collectors_do_not_do_is_said(system, changes, text, log):
    w = log if system in ("perjob", "rl-a3c") else None
    with pytest.raises(InputError, match=text):
        short(system, w, **changes).trainer(w, "cpu")


def test_no_batch_is_left_behind(log, tmp_path):
    from jobwise.learn import collectors

    trained(short("perjob", log), log, tmp_path / "a", "threads")
    assert not collectors._here

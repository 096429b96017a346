"""Files that an earlier version wrote stay valid: policies schedule what they scheduled then, run folders can be gone on with.

`tests/data/version0.1` was written by commit 8c548b6: a policy of each kind of file, a run folder, `starts.json`.
"""

import hashlib
import json
import shutil

import numpy as np
import pytest
from conftest import TESTS

import jobwise as jw
from jobwise.policies.names import load
from jobwise.sim.state import NEWER
from jobwise.systems import configure
from jobwise.workloads.jobsets import TEST

FOLDER = TESTS / "data" / "version0.1"
JOBSETS = {  # policy: the system whose jobsets it schedules
    "deeprm": "deeprm+",
    "cush": "cush+",
    "rl-taps": "rl-taps+",
    "rl-taps-network": "rl-taps+",
    "distances": "distances+",
    "node-costs": "affinities+",
}
LOGS = ("perjob", "rlscheduler", "mars", "search")


def digest(name: str) -> str:
    """Return a digest of the starts (s, to the millisecond) under the stored policy `name`."""
    policy = load(FOLDER / f"{name}.safetensors")
    if name in JOBSETS:
        w = configure(JOBSETS[name], None, "smoke").sets(TEST, 1)[0]
    else:
        w = jw.lublin(jobs=400, procs=64, load=0.9, seed=1, estimates="users", users=12)
    start = jw.simulate(w, policy).jobs["start"]
    return hashlib.sha256(np.round(start * 1000).astype("<i8").tobytes()).hexdigest()[:16]


@pytest.mark.parametrize("name", [*JOBSETS, *LOGS])
def test_stored_policies_schedule_what_they_scheduled(name):
    if name in ("perjob", "rlscheduler", "mars", "deeprm", "cush", "distances", "rl-taps-network"):
        assert load(FOLDER / f"{name}.safetensors").about["system"] == name.removesuffix("-network")
    assert digest(name) == json.loads((FOLDER / "starts.json").read_text())[name]


def test_a_stored_run_folder_is_whole_and_resumes(tmp_path):
    """The run had ended: going on with it changes nothing, and does not ask for another configuration."""
    pytest.importorskip("torch")
    run = tmp_path / "rl-taps"
    shutil.copytree(FOLDER / "run", run)
    before = (run / "policy.safetensors").read_bytes()
    configure("rl-taps+", None, "smoke").train(None, run, resume=True)
    assert (run / "policy.safetensors").read_bytes() == before


def older(key, array):
    """An array of an environment as version 0.1 stored it."""
    if key == "state_lists":
        return np.ascontiguousarray(array[:, :3])
    if key not in NEWER:
        return array
    later = {name for name, shape in NEWER[key][-1].items() if shape is None}
    kept = [(n, array.dtype[n].base, array.dtype[n].shape) for n in array.dtype.names if n not in later]
    old = np.zeros(array.shape, np.dtype(kept, align=True))
    for name in old.dtype.names:
        old[name] = array[name]
    return old


@pytest.mark.parametrize("world", ["Window", "Slots", "Gpus", "Nodes"])
def test_a_training_that_an_earlier_version_was_interrupted_in_goes_on(world):
    """Simulations had fewer fields and fewer lists then: environments go on to the same observations and rewards."""
    gymnasium = pytest.importorskip("gymnasium")
    log = jw.lublin(400, procs=32, load=0.9, seed=1)
    works = {"Window": log, "Slots": jw.deeprm(seed=1), "Gpus": jw.rltaps(20), "Nodes": jw.distances()}
    more = {"Nodes": {"encoder": "distance", "places": 2}}.get(world, {})
    make = lambda: gymnasium.make_vec(f"jobwise/{world}-v0", num_envs=2, workload=works[world], **more).unwrapped  # noqa: E731
    envs, again = make(), make()
    envs.reset(seed=3)
    envs.action_space.seed(1)
    actions = [envs.action_space.sample() for _ in range(30)]
    for a in actions[:10]:
        envs.step(a)
    kept = envs.snapshot()
    kept["arrays"] = {k: older(k, v) for k, v in kept["arrays"].items()}
    again.reset(seed=9)
    again.restore(kept)
    for a in actions[10:]:
        one, other = envs.step(a), again.step(a)
        assert np.array_equal(one[0], other[0]) and np.array_equal(one[1], other[1])

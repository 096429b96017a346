"""Every trainer on a GPU, at the preset smoke; skipped where there is none. Modules: learn/agent.py, learn/gpus.py, learn/slots.py."""

import numpy as np
import pytest

import jobwise as jw
from jobwise.policies.neural import NeuralPolicy
from jobwise.systems import configure, systems

torch = pytest.importorskip("torch")
TRAINED = [n for n, row in systems().items() if n not in ("search", "rl-taps+")]  # those search formulas


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here: no trainer was run on one")
@pytest.mark.parametrize("name", TRAINED)
def test_a_trainer_learns_on_a_gpu(name, tmp_path):
    """It ends, its weights are finite, and the policy plays without torch."""
    log = jw.lublin(jobs=600, procs=64, seed=0, load=1.0) if systems()[name].on_log else None
    policy = configure(name, log, "smoke").changed(threads=1).train(log, tmp_path / "run", device="cuda")[0]
    assert isinstance(policy, NeuralPolicy)
    assert all(np.isfinite(x).all() for network in policy.networks for x in network.weights.values())
    if log is not None:
        assert len(jw.simulate(log, policy).jobs) == 600

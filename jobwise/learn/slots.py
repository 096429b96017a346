"""Learning in the world of slots: the trainer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from jobwise.compare.fingerprint import sketch
from jobwise.errors import InputError, Unfinished
from jobwise.learn.agent import Agent
from jobwise.learn.env import SlotsVectorEnv
from jobwise.learn.jobset_run import JobsetTrainer
from jobwise.learn.run_folder import parts
from jobwise.learn.slots_config import SlotsConfig
from jobwise.metrics import normalised_turnaround
from jobwise.policies.chooser import LIMIT
from jobwise.policies.networks import Forward
from jobwise.policies.neural import NeuralPolicy
from jobwise.simulate import simulate_many
from jobwise.workload import Workload
from jobwise.worlds.slots.policy import SlotsPolicy, SlotsRule, row_s
from jobwise.worlds.slots.world import SlotsSettings


class SlotsTrainer(JobsetTrainer):
    """One or two networks that choose slots (and placements), and the jobsets they learn from."""

    config: SlotsConfig

    def __init__(self, config: SlotsConfig, log: Workload | None, device: str):
        super().__init__(config, log, device)
        if config.second:
            if not (self.by_jobset and len(config.placements) > 1):
                raise InputError("a second network goes with the learner reinforce, and with placements to choose from")
            own = replace(self.settings, actor_lr=config.placer_lr or self.settings.actor_lr)
            self.centred = config.centred
            self.placer = Agent(self._second(), self.encoder, own, config.seed + 1, device)
        self.sketch = sketch(list(parts(log)[:2])) if log is not None else []  # generated jobs are drawn again every time

    def environments(self, size: int, train: list[Workload]) -> Callable[..., SlotsVectorEnv]:
        """Return the maker of `size` simulations of these jobsets."""
        same = {**self.config.world, "reward": self.config.reward, "copy": False, "threads": self.config.threads}
        return partial(SlotsVectorEnv, size, train, **same)

    def network(self) -> dict:
        """The spec of the network that chooses slots."""
        c, shape = self.config, self.encoder.shape
        actions = c.slots + 1 if c.second else self.one.void + 1
        if c.network == "slots":
            if not self.encoder.per_slot:
                raise InputError(f"a slots network goes with the encoder slots, not {c.encoder}")
            return {"kind": "slots", "sizes": [shape[1], *c.hidden, 1 if c.second else len(c.placements)]}
        if c.network == "image":
            if len(shape) != 3:
                raise InputError(f"an image network goes with the encoders cush and cush-backlog, not {c.encoder}")
            if c.encoder == "cush-backlog":
                return {"kind": "image", "sizes": [shape[0] - 1, *shape[1:], actions], "norm": c.norm, "side": True}
            return {"kind": "image", "sizes": [*shape, actions], "norm": c.norm}
        return {"kind": "mlp", "sizes": [int(np.prod(shape)), *c.hidden, actions], "init": c.init}

    def _second(self) -> dict:
        c = self.config
        shape = (c.slots + 1, c.rows, int(self.one.cluster.capacity.sum()))
        return {"kind": "image", "sizes": [*shape, len(c.placements)], "norm": c.norm}

    def _score(self, policy: Any, limit: int = LIMIT) -> float:
        if isinstance(policy, str):
            policy = SlotsRule(policy, SlotsSettings.of(self.config.world))
        try:
            records = simulate_many(self.validation, replace(policy, limit=limit), tick=1.0, seed=self.config.seed)
        except Unfinished:
            return float("inf")
        return float(np.mean([normalised_turnaround(r, self.config.compat_floor).mean() for r in records]))

    def best_rule(self) -> tuple[str, float]:
        """The fixed rule that does best in validation, and its mean slowdown."""
        return min(((r, self._score(r)) for r in self.config.rules() if not r.endswith("typed")), key=lambda x: x[1])

    def validate(self, policy: NeuralPolicy) -> dict[str, float]:
        """The mean slowdown on the validation jobsets."""
        return {"validation": self._score(policy, 2000)}

    def policy(self, weights: list[dict[str, np.ndarray]], about: dict) -> NeuralPolicy:
        """The policy with these weights."""
        known = self.about() | ({"trained_on": self.sketch} if self.sketch else {})
        networks = tuple(Forward(a.network, w) for a, w in zip(self.agents, weights, strict=True))
        c, units = self.config, self.one.cluster.total.tolist()
        encoder = {"name": c.encoder, "slots": c.slots, "backlog": c.backlog, "rows": c.rows}
        encoder |= {"shape": list(self.encoder.shape), "units": units}
        about = known | about
        return SlotsPolicy(networks, encoder, SlotsSettings.of(c.world), c.system, about, greedy=False, tick=row_s(about))

"""Learning which node a job goes to, on jobsets: the trainer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from functools import partial

import numpy as np

from jobwise.errors import InputError
from jobwise.learn.env import NodesVectorEnv
from jobwise.learn.jobset_run import JobsetTrainer
from jobwise.learn.nodes_config import NodesConfig
from jobwise.policies.networks import Forward
from jobwise.policies.neural import NeuralPolicy
from jobwise.policies.played import played
from jobwise.workload import Workload
from jobwise.worlds.nodes.policy import NodesPolicy, NodesRule


class NodesTrainer(JobsetTrainer):
    """A network that places jobs, and the jobsets it learns from. Where the factors are the same in all of them, one that looks
    at run times begins with those of the first training jobsets (`prior`), as the rules that learn do."""

    config: NodesConfig

    prior: np.ndarray | None = None

    def environments(self, size: int, train: list[Workload]) -> Callable[..., NodesVectorEnv]:
        """Return the maker of `size` simulations of these jobsets."""
        c = self.config
        self.prior = c.rule("learned").prior if c.network == "slots" and not c.varies else None
        same = c.model_dump(include={"limit", "encoder", "encoder_settings", "reward", "threads"})
        return partial(NodesVectorEnv, size, train, copy=False, prior=self.prior, **same, **asdict(c.world))

    def network(self) -> dict:
        """The spec: a softmax over the joint actions, or over the nodes and waiting."""
        c, shape, world = self.config, self.encoder.shape, self.one.world
        if (c.network == "slots") != self.encoder.per_slot:
            raise InputError("the network slots goes with the encoder nodes, mlp with distance and affinity")
        if c.network == "slots":
            return {"kind": "slots", "sizes": [shape[1], *c.hidden, 1]}
        return {"kind": "mlp", "sizes": [int(np.prod(shape)), *c.hidden, world.actions], "init": c.init}

    def measured(self, policy: NodesRule | NeuralPolicy) -> float:
        """The mean time in the system, rows, on the validation jobsets."""
        z = played(self.validation, policy, 0.0, self.config.limit, self.config.seed)
        return float(np.mean(z["total"] / z["started"]))

    def best_rule(self) -> tuple[str, float]:
        """The rule that does best in validation of those that know no affinities, and its mean time in the system."""
        return min(((r, self.measured(self.config.rule(r))) for r in self.config.rules()), key=lambda x: x[1])

    def validate(self, policy: NeuralPolicy) -> dict[str, float]:
        """The mean time in the system on the validation jobsets."""
        return {"validation": self.measured(policy)}

    def policy(self, weights: list[dict[str, np.ndarray]], about: dict) -> NeuralPolicy:
        """The policy with these weights; it takes the most probable action."""
        c, networks = self.config, tuple(Forward(a.network, w) for a, w in zip(self.agents, weights, strict=True))
        if self.prior is not None:
            about = about | {"prior": {k: self.prior[k].round(3).tolist() for k in ("count", "mean")}}
        return NodesPolicy(networks, self.encoder.metadata(), c.world, c.system, self.about() | about, True, 1.0)

"""Learning to assign GPUs on job sequences: the trainer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from functools import partial

import numpy as np

from jobwise.errors import InputError
from jobwise.learn.env import GpusVectorEnv
from jobwise.learn.gpus_config import GpusConfig
from jobwise.learn.jobset_run import JobsetTrainer
from jobwise.learn.knapsack import Scored
from jobwise.policies.networks import Forward
from jobwise.policies.neural import NeuralPolicy
from jobwise.workload import Workload
from jobwise.workloads.jobsets import TRAIN
from jobwise.worlds.gpus.encoder import OWN
from jobwise.worlds.gpus.links import ABOUT
from jobwise.worlds.gpus.policy import GpusPolicy
from jobwise.worlds.slots.tables import jobsets

WIDTH = 64  # of the network of pairs


class GpusTrainer(Scored, JobsetTrainer):
    """A network that assigns GPUs, and the job sequences it learns from."""

    config: GpusConfig

    drawn = 0  # how often the sequences were drawn anew

    def __init__(self, config: GpusConfig, log: Workload | None, device: str):
        if config.fresh and config.logged:
            raise InputError("sequences that are drawn anew (fresh) are generated; windows of a log are not")
        if config.fresh and config.collectors > 1:
            raise InputError("sequences that are drawn anew (fresh) are played in one batch, not by collectors")
        super().__init__(config, log, device)
        self.agent.narrow = self.one.world.narrow if config.counts else None

    def environments(self, size: int, train: list[Workload]) -> Callable[..., GpusVectorEnv]:
        """Return the maker of `size` simulations of these sequences."""
        c = self.config
        same = c.model_dump(include={"row_s", "restart_cost_s", "limit", "encoder", "reward", "threads"})
        return partial(GpusVectorEnv, size, train, copy=False, **same, **asdict(c.world))

    def update(self, updates: int) -> dict:
        """One iteration; of a stream, now and then on sequences never seen before."""
        fresh = self.config.fresh
        if fresh and (drawn := updates // fresh) != self.drawn:
            self.one.workloads, self.drawn = self.config.sets(TRAIN, self.config.jobsets, fresh=drawn), drawn
            self.one.world.play_others(self.one.workloads, jobsets(self.one.workloads))
        return super().update(updates)

    def network(self) -> dict:
        """The spec: a softmax over the places for every GPU, or over numbers of GPUs for every job. Raises InputError."""
        shape, world = self.encoder.shape, self.one.world
        if (self.config.network == "slots") != self.config.counts or self.config.counts != self.encoder.per_slot:
            raise InputError("the network slots, counts, and the encoder gpu-jobs go together, mlp with the encoder rl-taps")
        if (self.config.network == "pairs") != self.encoder.per_gpu or (self.encoder.per_gpu and self.config.leave):
            raise InputError("the network pairs and the encoder gpu-links go together, and not with leave")
        if self.encoder.per_gpu:
            width = self.config.hidden[0] if self.config.hidden else WIDTH
            return {"kind": "pairs", "sizes": [self.config.slots, OWN, ABOUT, width]}
        if self.config.counts:
            return {"kind": "slots", "sizes": [shape[1], *self.config.hidden, world.actions], "classes": world.actions}
        outputs = world.actions * world.action_shape[0]
        sizes = [int(np.prod(shape)), *(self.config.hidden or [round(1.5 * outputs)]), outputs]
        return {"kind": "mlp", "sizes": sizes, "init": self.config.init, "classes": world.actions}

    def policy(self, weights: list[dict[str, np.ndarray]], about: dict) -> NeuralPolicy:
        """The policy with these weights; it takes the most probable place for every GPU."""
        c, networks = self.config, tuple(Forward(a.network, w) for a, w in zip(self.agents, weights, strict=True))
        return GpusPolicy(networks, self.encoder.metadata(), c.world, c.system, self.about() | about, True, c.row_s)

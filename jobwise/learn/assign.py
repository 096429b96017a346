"""Learning to assign GPUs: the configuration of a run on job sequences, and its trainer."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal

import numpy as np
from pydantic import Field

from jobwise import __version__
from jobwise.cluster import Cluster
from jobwise.learn.env import AssignVectorEnv
from jobwise.learn.evolution import Search, answer, begin, generation
from jobwise.learn.jobset_run import JobsetConfig, JobsetTrainer
from jobwise.policies.assignments import AssignmentRule, named, played
from jobwise.policies.networks import Forward
from jobwise.policies.neural import NeuralPolicy
from jobwise.sim.replay_batch import BOUNDED, RESULTS
from jobwise.sim.topology import gpu_racks
from jobwise.workload import Workload
from jobwise.workloads import dnn
from jobwise.workloads.jobsets import TRAIN, VALIDATION
from jobwise.worlds.assignment_world import Assignment
from jobwise.worlds.gpu_rules import RULES, THETA
from jobwise.worlds.slot_tables import jobsets


class AssignConfig(JobsetConfig):
    """Everything that decides what a run that assigns GPUs becomes. TOML files have the same keys."""

    system: str = "rl-taps"
    racks: list[int] = [2, 2, 2, 2]  # machines in each
    gpus: int = Field(4, ge=1)  # of a machine
    links: dict[str, Any] = {}  # of the topology, e.g. {"curve": "ring"}
    work: Literal["seed", "lab"] = "seed"
    steps: int = Field(400, ge=1)  # rows with arrivals
    rate: float = Field(1.0, gt=0)  # arrivals a row
    fresh: int = Field(0, ge=0)  # iterations after which the sequences are drawn anew (streaming); 0: never
    row_s: float = Field(dnn.ROW_S, gt=0)
    restart_cost_s: float = Field(0.0, ge=0)
    costs: list[float] = []  # of the knapsack instead: sequence after sequence takes the next
    limit: int = Field(1000, ge=1)  # rows of a sequence (T_max)
    mode: str = "full"
    leave: bool = False
    elastic: bool = True
    masked: bool = False
    encoder: str = "rl-taps"
    counts: bool = False  # the network says how many GPUs each job has
    network: Literal["mlp", "slots", "knapsack"] = "knapsack"  # knapsack: the weights of the rule `learned`, by evolution
    pairs: int = Field(8, ge=1)  # of directions tried in a generation of evolution, each on `drawn` sequences
    sigma: list[float] = [0.15, 0.05]  # their size, at the beginning and at the end
    rate_of_change: list[float] = [0.3, 0.1]
    reward: str = "rl-taps"
    warm_rule: str = "slot"

    def trainer(self, log: Workload | None, device: str) -> AssignTrainer:
        """What a run asks: see `jobwise.learn.run.Trainer`."""
        return (KnapsackTrainer if self.network == "knapsack" else AssignTrainer)(self, log, device)

    @property
    def machine(self) -> Cluster:
        """The cluster."""
        return gpu_racks(self.racks, self.gpus, work=self.work, **self.links)

    @property
    def world(self) -> Assignment:
        """The settings of the world."""
        return Assignment.of(self.model_dump())

    def cost(self, which: np.ndarray) -> np.ndarray:
        """[K] s that a restart takes in these sequences."""
        return np.array(self.costs or [self.restart_cost_s])[which % max(len(self.costs), 1)]

    def rules(self) -> list[str]:
        """The fixed rules to be measured against, as policies are named."""
        return [f"gpus:{r}" for r in RULES]

    def sets(self, part: int, count: int, log: Workload | None = None, fresh: int = 0) -> list[Workload]:
        """`count` sequences to train on, validate or test with, of a stream the `fresh`-th. Raises InputError."""
        return [dnn.rltaps(self.steps, [part, fresh, i], machine=self.machine, rate=self.rate) for i in range(count)]


class Scored:
    """What is measured of policies that assign GPUs."""

    def score(self, policy: AssignmentRule | NeuralPolicy) -> float:
        """The mean slowdown on the validation sequences (geometric over sequences, whose costs may differ)."""
        cost = self.config.cost(np.arange(len(self.validation)))
        z = played(self.validation, policy, cost, self.config.limit, self.config.seed)
        return float(np.exp(np.log(z["total"] / z["started"]).mean()))

    def best_rule(self) -> tuple[str, float]:
        """The fixed rule that does best in validation, and its mean slowdown."""
        return min(((r, self.score(named(r))) for r in self.config.rules()), key=lambda x: x[1])

    def validate(self, policy: NeuralPolicy) -> dict[str, float]:
        """The mean slowdown on the validation sequences."""
        return {"validation": self.score(policy)}


class AssignTrainer(Scored, JobsetTrainer):
    """A network that assigns GPUs, and the job sequences it learns from."""

    drawn = 0  # how often the sequences were drawn anew

    def environments(self, size: int, train: list[Workload]) -> AssignVectorEnv:
        """`size` simulations of these sequences."""
        c = self.config
        same = {k: getattr(c, k) for k in ("row_s", "restart_cost_s", "limit", "encoder", "reward", "threads")}
        world = {k: getattr(c, k) for k in ("slots", "mode", "leave", "elastic", "masked", "counts")}
        return AssignVectorEnv(size, train, copy=False, **same, **world)

    def begin(self) -> None:
        """Reset the environments."""
        super().begin()
        self.agent.narrow = self.envs.world.narrow if self.config.counts else None

    def update(self, updates: int) -> dict:
        """One iteration; of a stream, now and then on sequences never seen before."""
        c = self.config
        if c.fresh and (drawn := updates // c.fresh) != self.drawn:
            sets, self.drawn = c.sets(TRAIN, c.jobsets, fresh=drawn), drawn
            self.envs.workloads = sets
            self.envs.world.play_others(sets, jobsets(sets))
        return super().update(updates)

    def network(self) -> dict:
        """The spec: a softmax over the places for every GPU, or over numbers of GPUs for every job."""
        shape, world = self.encoder.shape, self.envs.world
        if self.config.network == "slots":
            return {"kind": "slots", "sizes": [shape[1], *self.config.hidden, world.actions], "classes": world.actions}
        outputs = world.actions * world.action_shape[0]
        sizes = [int(np.prod(shape)), *(self.config.hidden or [round(1.5 * outputs)]), outputs]
        return {"kind": "mlp", "sizes": sizes, "init": self.config.init, "classes": world.actions}

    def policy(self, weights: list[dict[str, np.ndarray]], about: dict) -> NeuralPolicy:
        """The policy with these weights; it takes the most probable place for every GPU."""
        networks = tuple(Forward(a.network, w) for a, w in zip(self.agents, weights, strict=True))
        c = self.config
        return NeuralPolicy(networks, self.encoder.metadata(), c.world, c.system, self.about() | about, True, c.row_s)


class KnapsackTrainer(Scored):
    """The weights of the rule `learned`, found by evolution strategies on whole sequences: see `jobwise.learn.run.Trainer`."""

    def __init__(self, config: AssignConfig, log: Workload | None, device: str):
        self.config, self.log, self.recent = config, config.learns_from(log), []
        self.ground = Sequences(config)
        self.validation = config.sets(VALIDATION, config.validation_jobsets)
        self.budget = [("updates", config.iterations)]
        self.search = Search(
            config.iterations or 1, config.pairs, config.drawn or 8, tuple(config.sigma), tuple(config.rate_of_change)
        )
        self.envs, self.found = self.ground, begin(np.zeros(THETA))
        self.base = np.ones(self.ground.count)

    def begin(self) -> None:
        """Measure the rule that the search begins at, on every sequence."""
        self.base = self.ground.measure(np.zeros((1, THETA)), np.arange(self.ground.count))[0, :, BOUNDED]

    def update(self, updates: int) -> dict:
        """One generation."""
        self.found = generation(self.ground, self.found, self.base, self.search, self.config.seed)
        played = self.found["replays"]
        return {"fitness": self.found["fitness"], "choices": played * self.config.steps, "episodes": played}

    def weights(self) -> dict[str, np.ndarray]:
        """What has been found so far."""
        return {"theta": answer(self.found)[None]}

    def policy(self, weights: dict[str, np.ndarray], about: dict) -> AssignmentRule:
        """The rule with these weights."""
        c = self.config
        about = {"system": c.system, "config": c.model_dump(), "jobwise": __version__} | about
        theta = np.asarray(weights["theta"], float)
        return AssignmentRule("learned", c.world, tick=c.row_s, theta=theta, label=c.system, about=about)

    def state(self) -> dict:
        """Where the search stands."""
        return {k: self.found[k] for k in ("generation", "weights", "sum", "summed")} | {"base": self.base.tolist()}

    def restore(self, state: dict) -> None:
        """Go on from it."""
        self.base, self.found = np.array(state.pop("base")), state


class Sequences:
    """Sequences to search on: the `Ground` of `jobwise.learn.evolution`."""

    def __init__(self, config: AssignConfig):
        self.config, self.sets = config, config.sets(TRAIN, config.jobsets)
        self.count, self.longest = len(self.sets), np.ones(len(self.sets))
        self._workers = ThreadPoolExecutor(config.threads)

    def measure(self, weights: np.ndarray, which: np.ndarray, times: float = np.inf) -> np.ndarray:
        """[K, len(which), RESULTS] of K weights [K, THETA] on these sequences: their mean slowdowns."""
        out = np.zeros((len(weights), len(which), RESULTS))

        def some(part: np.ndarray) -> None:
            c, n = self.config, len(which)
            theta = np.repeat(weights[part], n, axis=0)
            policy = AssignmentRule("learned", c.world, tick=c.row_s, theta=theta)
            every = np.tile(which, len(part))
            z = played([self.sets[i] for i in every], policy, c.cost(every), c.limit)
            out[part, :, BOUNDED] = (z["total"] / z["started"]).reshape(len(part), n)

        list(self._workers.map(some, np.array_split(np.arange(len(weights)), min(self.config.threads, len(weights)))))
        return out

    def snapshot(self) -> dict:
        """Nothing: sequences do not change."""
        return {}

    def restore(self, snapshot: dict) -> None:
        """Nothing to restore."""

    def close(self) -> None:
        """Stop the threads."""
        self._workers.shutdown()

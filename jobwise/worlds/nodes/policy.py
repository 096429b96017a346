"""Policies of the world of nodes: rules, `nodes:RULE[+OPTION…][@60s]` (seconds in a row, 1 by default), also such that have
learnt what jobs cost where, networks, files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from jobwise.cluster import Cluster
from jobwise.errors import InputError, unknown
from jobwise.policies import files, parts
from jobwise.policies.chooser import LIMIT, Choose, Chooser
from jobwise.policies.parts import NUMBER, Part
from jobwise.policies.tables import TablePolicy, read
from jobwise.workload import Workload
from jobwise.worlds import World
from jobwise.worlds.nodes.encoder import MAKERS
from jobwise.worlds.nodes.passes import seen_dtype
from jobwise.worlds.nodes.rules import RULES
from jobwise.worlds.nodes.world import NodesEpisodes, NodesSettings, NodesWorld

PREFIX, HEADING = "nodes", "jobs on nodes that suit them or not"
DOCS = {
    "lb": "every job on one node: the emptiest",
    "fewest": "the node with the fewest jobs so far",
    "random": "a random node that has room",
    "robin": "the next node round that has room",
    "first": "the first node that has room",
    "greedy": "the node where the job runs shortest, knowing all factors (nobody does)",
    "oracle": "the same, and waits for a better node",
    "learned": "by what jobs of a kind took on each node so far",
    "patient": "the same, and waits for a better node",
    "safest": "the node that is least likely to fail, as it is forecast",
}
_HEAD = "options of nodes:RULE"


def _count(field: str, example: str, doc: str, usual: int) -> Part:
    return Part(_HEAD, field, example, doc, usual=usual, pattern=rf"{field}(\d{{1,9}})", read=lambda m: int(m[1]),
                write=lambda n: f"{field}{n}")  # fmt: skip


PARTS = (
    _count("places", "places2", "jobs in the buffer (1)", 1),
    _count("kinds", "kinds5", "applications whose run times are told apart (3)", 3),
    Part(_HEAD, "explore", "explore0.5", "standard errors that `learned` takes off what it has measured (0)", usual=0.0,
         pattern=rf"explore{NUMBER}", read=lambda m: float(m[1]), write=lambda x: f"explore{x:g}"),
    Part(_HEAD, "burst", "burst", "time stands still as long as jobs are placed", True, False),
    Part(_HEAD, "avoid", "avoid0.5", "nodes whose forecast risk is larger are not used (1)", usual=1.0,
         pattern=r"avoid(0?\.\d{1,15}|0)", read=lambda m: float(m[1]),
         write=lambda x: f"avoid{x:.10f}".rstrip("0").rstrip(".")),
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class NodesRule(Chooser):
    """A rule of `jobwise.worlds.nodes.rules` in the world of buffers. `prior` [kinds, N] of `seen_dtype`: how long jobs took
    so far; None: nothing is known. `tick`: s in a row."""

    spec, jobsets = "nodes", True

    rule: str
    world: NodesSettings = field(default_factory=NodesSettings)
    explore: float = 0.0
    tick: float = 1.0
    limit: float = LIMIT
    prior: np.ndarray | None = field(default=None, repr=False)
    label: str = ""
    about: dict = field(default_factory=dict)  # what it was trained on

    def __post_init__(self):
        if self.rule not in RULES:
            raise unknown("rule", self.rule, RULES)
        if not (0 < self.tick < np.inf and 0 <= self.explore < 1e6):
            raise InputError(f"policy {self.rule}: a row takes more than 0 s, explore is >= 0; not {self.tick}, {self.explore}")

    @property
    def name(self) -> str:
        """The name as in `nodes:learned+places2+explore0.5@60s`."""
        options = parts.words(PARTS, {**asdict(self.world), "explore": self.explore})
        return self.label or parts.rows_name(PREFIX, self.rule, options, self.tick, 1.0)

    def attach(self, s, cluster: Cluster) -> NodesWorld:
        """Return its world over the simulations of `s`, what is known put in. Raises InputError."""
        world = super().attach(s, cluster)
        if self.prior is not None:
            _check_prior(self, world.buffer.prior.shape)
            world.buffer.prior[:] = self.prior
        return world

    def episodes(self, sets: Sequence[Workload], cost_s: float | np.ndarray, limit: int) -> NodesEpisodes:
        """Return its world over whole jobsets, one each."""
        return NodesEpisodes(len(sets), sets, self.world, limit, True, self.prior)

    def chooser(self, world: World, cluster: Cluster) -> Choose:
        """Return the function that places jobs by the rule."""
        return lambda world: world.by_rule(self.rule, self.explore)

    def learnt(self, sets: Sequence[Workload], limit: int = 10_000) -> NodesRule:
        """Return the rule after it has scheduled these jobsets one after the other, and seen how long jobs took."""
        prior = self.prior
        for i, w in enumerate(sets):
            world = NodesEpisodes(1, [w], self.world, limit, True, prior)
            world.seed_rules(i)
            world.begin_with(np.zeros(1, np.int64))
            while not world.done.all():
                world.step(world.by_rule(self.rule, self.explore), False, 0, 1)
            prior = world.buffer.seen[0].copy()
        return replace(self, prior=prior)

    def save(self, path: str | Path) -> None:
        """Write the policy file, whole or not at all."""
        meta = {"kind": "costs", "rule": self.rule, "world": asdict(self.world), "explore": self.explore, "tick": self.tick}
        known = {k: self.prior[k].astype(np.float32) for k in ("count", "mean")} if self.prior is not None else {}
        files.write(path, meta | {"about": {"label": self.label, **self.about}}, known)


def _check_prior(policy: NodesRule, shape: tuple[int, ...]) -> None:
    """Raises InputError where run times that are known are of other kinds or nodes than [kinds, N] = `shape`."""
    prior: Any = policy.prior
    if prior.shape != shape:
        text = f"knows {prior.shape[0]} kinds of jobs on {prior.shape[1]} nodes"
        raise InputError(f"policy {policy.name}: {text}; here are {list(shape)}")


@dataclass(frozen=True, eq=False)
class NodesPolicy(TablePolicy):
    """A network that says which node a job goes to. Run times known from training (`prior`) are used on those nodes alone."""

    spec, encoders = "nodes", MAKERS

    @property
    def prior(self) -> np.ndarray | None:
        """[kinds, N] of `seen_dtype`: how long jobs of each kind took on each node in training; None: nothing is known."""
        known = self.about.get("prior")
        if not known:
            return None
        prior = np.zeros(np.shape(known["count"]), seen_dtype)
        prior["count"], prior["mean"] = known["count"], known["mean"]
        return prior

    def _fitting(self, shape: tuple[int, ...]) -> np.ndarray | None:
        prior = self.prior
        return prior if prior is not None and prior.shape == shape else None

    def attach(self, s, cluster: Cluster) -> NodesWorld:
        """Return its world over the simulations of `s`; what was learnt of other nodes is not put in."""
        world = super().attach(s, cluster)
        if (prior := self._fitting(world.buffer.prior.shape)) is not None:
            world.buffer.prior[:] = prior
        return world

    def episodes(self, sets: Sequence[Workload], cost_s: float | np.ndarray, limit: int) -> NodesEpisodes:
        """Return its world over whole jobsets, one each."""
        prior = self._fitting((self.world.kinds, len(sets[0].cluster.capacity)))
        return NodesEpisodes(len(sets), sets, self.world, limit, True, prior)


def network_from_file(meta: dict, weights: dict[str, np.ndarray], label: str) -> Any:
    """Return the network of a file that has been read. Raises InputError, KeyError, TypeError, ValueError for damaged ones."""
    if prior := meta["about"].get("prior"):
        count, mean = (np.asarray(prior[k], float) for k in ("count", "mean"))
        if count.shape != mean.shape or count.ndim != 2 or not np.isfinite([count, mean]).all():
            raise ValueError("what was learnt of run times is two tables alike")
    return read(NodesPolicy, NodesSettings(**meta["world"]), meta, weights, label)


def rule_from_file(meta: dict, weights: dict[str, np.ndarray], label: str) -> NodesRule:
    """The policy of a file that has been read. Raises InputError, KeyError, TypeError, ValueError for damaged ones."""
    prior, world, label = None, NodesSettings(**meta["world"]), str(label)
    if weights:
        count, mean = weights["count"], weights["mean"]
        if count.shape != mean.shape or count.ndim != 2 or len(count) != world.kinds:
            raise ValueError(f"counts and means of {world.kinds} kinds of jobs are two tables alike")
        if not (np.isfinite([count, mean]).all() and (count >= 0).all() and (mean >= 0).all()):
            raise ValueError("counts and means are finite and >= 0")
        prior = np.zeros(count.shape, seen_dtype)
        prior["count"], prior["mean"] = count, mean
    return NodesRule(meta["rule"], world, float(meta["explore"]), float(meta["tick"]), LIMIT, prior, label, dict(meta["about"]))


def named(policy: str) -> NodesRule:
    """Return the policy of a name `nodes:…`. Raises InputError."""
    rule, options, tick = parts.split(policy, PREFIX, "nodes:learned+explore0.5@60s", 1.0)
    if rule not in DOCS:
        raise unknown("rule", rule, DOCS, f"policy {policy!r}: ")
    world = parts.read(PARTS, policy, options)
    explore = world.pop("explore", 0.0)
    return NodesRule(rule, NodesSettings(**world), explore, tick)


def rows() -> dict[str, str]:
    """Return {example: what it does} of the rules and options."""
    return {f"{PREFIX}:{rule}": doc for rule, doc in DOCS.items()} | parts.examples(PARTS, PREFIX, DOCS, named)

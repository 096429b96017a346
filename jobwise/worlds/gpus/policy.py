"""Policies of the world of GPUs: rules, `gpus:RULE[+OPTION…][@60s]` (seconds in a row, 48.3 by default), networks, files."""

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
from jobwise.policies.neural import sound
from jobwise.policies.parts import Part
from jobwise.policies.tables import TablePolicy, read
from jobwise.workload import Workload
from jobwise.workloads.dnn import ROW_S
from jobwise.worlds import Live, World
from jobwise.worlds.gpus.encoders import MAKERS
from jobwise.worlds.gpus.episodes import GpusEpisodes
from jobwise.worlds.gpus.knapsack import THETA
from jobwise.worlds.gpus.layouts import LAYOUTS
from jobwise.worlds.gpus.live import LiveGpus
from jobwise.worlds.gpus.rules import PICKERS, RULES
from jobwise.worlds.gpus.world import NO_THETA, GpusSettings
from jobwise.worlds.rows import taken

FIXED: dict[str, Any] = {"mode": "none", "elastic": False}  # the world of those that pick jobs at their requests
PREFIX, HEADING = "gpus", "jobs on GPU racks"
DOCS = {
    "fifo": "jobs at their requests, in order of submit, never moved (RL-TAPS's baseline)",
    "sjf": "the same, the shortest first",
    "tetris": "the same, the largest that fits first",
    "random": "the same, in random order",
    "one": "one GPU each",
    "greedy": "more GPUs, block by block, where they add most speed each",
    "fair": "GPU by GPU to the job furthest behind its fair share",
    "speed": "an exact knapsack over the numbers of GPUs: the most speed",
    "slot": "a knapsack: the most speed, and a price for slots",
    "root": "a knapsack: the sum of the roots of the speeds",
    "index": "a knapsack: speed over work left",
    "both": "a knapsack: speed over work left, and a price for slots; the strongest without tuning",
    "srpt": "a knapsack: the shortest work left first",
    "las": "a knapsack: the least service so far first",
}
_HEAD = "options of gpus:RULE"
PARTS = (
    Part(_HEAD, "mode", "none", "preemption: never", "none"),
    Part(_HEAD, "mode", "partial", "preemption: a job keeps some of its GPUs", "partial"),
    Part(_HEAD, "mode", "full", "preemption: any (the default of all but the first four)", "full"),
    Part(_HEAD, "leave", "leave", "started jobs leave their slots", True, False),
    Part(_HEAD, "slots", "slots32", "so many slots (10)", usual=10, pattern=r"slots(\d{1,9})", read=lambda m: int(m[1]),
         write=lambda n: f"slots{n}"),
    Part(_HEAD, "elastic", "fixed", "jobs have the GPUs that they ask for", False),
    Part(_HEAD, "layout", "pack", "which GPUs: the smallest free part that holds the job", "pack"),
    Part(_HEAD, "layout", "left", "which GPUs: the lowest numbers", "left"),
    Part(_HEAD, "layout", "random", "which GPUs: from a random one on", "random"),
)  # fmt: skip


class OnGpus:
    """The common part of rules and networks of this world."""

    world: Any
    tick: float

    spec, jobsets = "gpus", True

    @property
    def moves_jobs(self) -> bool:
        """Does it pause jobs that run, or change their GPUs?"""
        return self.world.mode != "none"

    def explained(self: Any, world: Any, cluster: Cluster) -> list[dict]:
        """The jobs that start now, in the order of their places, then those that wait, first come, first served."""
        waits = world.waiting
        world.advance(self.chooser(world, cluster)(world))
        starts = [p for p in waits if p in world.gpus.has[0]]
        ranked = [*starts, *(p for p in waits if p not in starts)]
        why = dict.fromkeys(starts, "starts now")
        return [
            {"action": p, "score": -float(k), "why": why.get(p, "waits"), "features": {}, "moved": {}}
            for k, p in enumerate(ranked)
        ]

    def live(self, cluster: Cluster) -> Live:
        """Return its world at the instants of a live cluster."""
        return LiveGpus(self.world, cluster, self.tick)

    def episodes(self, sets: Sequence[Workload], cost_s: float | np.ndarray, limit: int) -> GpusEpisodes:
        """Return its world over whole job sequences, one each."""
        return GpusEpisodes(len(sets), sets, self.world, self.tick, 0.0, limit, True)


@dataclass(frozen=True, eq=False)
class GpusRule(OnGpus, Chooser):
    """A rule of `jobwise.worlds.gpus.rules` in the world of assignments. `tick`: s in a row."""

    rule: str
    world: GpusSettings = field(default_factory=GpusSettings)
    layout: str = "pack"
    tick: float = ROW_S
    limit: float = LIMIT
    theta: np.ndarray = field(default_factory=lambda: NO_THETA, repr=False)  # [1 or E, THETA], of the rule `learned`
    label: str = ""
    about: dict = field(default_factory=dict)  # what it was trained on

    def __post_init__(self):
        if self.rule not in RULES:
            raise unknown("rule", self.rule, RULES)
        if self.layout not in LAYOUTS:
            raise unknown("layout", self.layout, LAYOUTS)
        if not 0 < self.tick < np.inf:
            raise InputError(f"policy {self.rule}: a row takes more than 0 s, not {self.tick}")

    @property
    def name(self) -> str:
        """The name as in `gpus:slot+partial+leave@60s`."""
        options = parts.words(PARTS, _values(self), _values(_usual(self.rule)))
        return self.label or parts.rows_name(PREFIX, self.rule, options, self.tick, ROW_S)

    def check(self, cluster: Cluster) -> None:
        """Raises InputError for a cluster whose nodes are not single GPUs."""
        self.world.check(cluster)

    def chooser(self, world: World, cluster: Cluster) -> Choose:
        """Return the function that assigns GPUs by the rule."""
        return lambda world: world.by_rule(self.rule, self.layout, self.theta)

    def with_slots(self, slots: int) -> GpusRule:
        """Return the rule with `slots` slots."""
        return replace(self, world=replace(self.world, slots=slots))

    def save(self, path: str | Path) -> None:
        """Write the policy file, whole or not at all."""
        meta = {"kind": "knapsack", "rule": self.rule, "world": asdict(self.world), "layout": self.layout, "tick": self.tick}
        files.write(path, meta | {"about": {"label": self.label, **self.about}}, {"theta": self.theta.astype(np.float32)})


@dataclass(frozen=True, eq=False)
class GpusPolicy(OnGpus, TablePolicy):
    """A network that says which GPU works for which job, or how many each has (`counts`)."""

    encoders = MAKERS

    def picker(self, world: World, encoder, out: np.ndarray, dice: np.ndarray | None):
        """Return what chooses; of counts job after job, so that no more GPUs are given than there are."""
        best = super().picker(world, encoder, out, dice)
        if not self.world.counts:
            return best
        return lambda world: world.narrow(sound(self.forward(out)), world.masks.astype(bool))


def network_from_file(meta: dict, weights: dict[str, np.ndarray], label: str) -> Any:
    """Return the network of a file that has been read. Raises InputError, KeyError, TypeError, ValueError for damaged ones."""
    return read(GpusPolicy, GpusSettings(**meta["world"]), meta, weights, label)


def rule_from_file(meta: dict, weights: dict[str, np.ndarray], label: str) -> GpusRule:
    """The policy of a file that has been read. Raises InputError, KeyError, TypeError, ValueError for damaged ones."""
    theta = weights["theta"].astype(float)
    if theta.shape != NO_THETA.shape or not np.isfinite(theta).all():
        raise ValueError(f"the knapsack has {THETA} finite numbers")
    tick, about = float(meta["tick"]), dict(meta["about"])
    return GpusRule(meta["rule"], GpusSettings(**meta["world"]), meta["layout"], tick, LIMIT, theta, label, about)


def _usual(rule: str) -> GpusRule:
    if rule in PICKERS:
        return GpusRule(rule, GpusSettings(**FIXED), "left")
    return GpusRule(rule, layout="left" if rule == "greedy" else "pack")


def _values(rule: GpusRule) -> dict[str, Any]:
    world = taken(rule.world, ("mode", "leave", "slots", "elastic"))
    return world | {"layout": rule.layout}


def named(policy: str) -> GpusRule:
    """Return the policy of a name `gpus:…`. Raises InputError."""
    rule, options, tick = parts.split(policy, PREFIX, "gpus:slot+partial@60s", ROW_S)
    if rule not in DOCS:  # what is learned comes from a file
        raise unknown("rule", rule, DOCS, f"policy {policy!r}: ")
    values = _values(_usual(rule)) | parts.read(PARTS, policy, options)
    layout = values.pop("layout")
    return GpusRule(rule, GpusSettings(**values), layout, tick)


def rows() -> dict[str, str]:
    """Return {example: what it does} of the rules and options."""
    return {f"{PREFIX}:{rule}": doc for rule, doc in DOCS.items()} | parts.examples(PARTS, PREFIX, DOCS, named)

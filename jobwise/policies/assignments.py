"""The rules of the world of assignments as policies, `gpus:RULE[+OPTION…][@60s]`.

Options: a mode (none, partial, full), `leave` (started jobs leave their slots), `slots32` (so many, 10 by default), `fixed`
(jobs have the GPUs that they ask for), a layout (pack, left, random). `@60s`: seconds in a row, 48.3 by default.
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import numpy as np

from jobwise.cluster import Cluster
from jobwise.errors import InputError, unknown
from jobwise.policies import files
from jobwise.policies.chooser import LIMIT, Choose, Chooser
from jobwise.workloads.dnn import ROW_S
from jobwise.worlds import World
from jobwise.worlds.assignment_world import NO_THETA, Assignment
from jobwise.worlds.gpu_knapsack import THETA
from jobwise.worlds.gpu_layouts import LAYOUTS
from jobwise.worlds.gpu_rules import PICKERS, RULES
from jobwise.worlds.gpu_tables import MODES

FIXED = {"mode": "none", "elastic": False}  # the world of those that pick jobs at their requests


@dataclass(frozen=True, eq=False)
class AssignmentRule(Chooser):
    """A rule of `jobwise.worlds.gpu_rules` in the world of assignments. `tick`: s in a row."""

    rule: str
    world: Assignment = field(default_factory=Assignment)
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
        """As in `gpus:slot+partial+leave@60s`."""
        usual, w = _usual(self.rule), self.world
        parts = [self.rule] + [w.mode] * (w.mode != usual.world.mode) + ["leave"] * w.leave
        parts += [f"slots{w.slots}"] * (w.slots != 10) + ["fixed"] * (usual.world.elastic and not w.elastic)
        parts += [self.layout] * (self.layout != usual.layout)
        return self.label or f"gpus:{'+'.join(parts)}" + (f"@{self.tick:g}s" if self.tick != ROW_S else "")

    def check(self, cluster: Cluster) -> None:
        """Raises InputError for a cluster whose nodes are not single GPUs."""
        self.world.check(cluster)

    def chooser(self, world: World, cluster: Cluster) -> Choose:
        """The rule."""
        return lambda world: world.by_rule(self.rule, self.layout, self.theta)

    def with_options(self, chosen: dict) -> AssignmentRule:
        """Raises InputError: there are none for a policy that is trained."""
        raise InputError(f"policy {self.name} decides everything itself; +{'+'.join(map(str, chosen.values()))} does not apply")

    def with_slots(self, slots: int) -> AssignmentRule:
        """The same with so many slots."""
        return replace(self, world=replace(self.world, slots=slots))

    def save(self, path: str | Path) -> None:
        """Write the policy file, whole or not at all."""
        meta = {"kind": "knapsack", "rule": self.rule, "world": asdict(self.world), "layout": self.layout, "tick": self.tick}
        files.write(path, meta | {"about": {"label": self.label, **self.about}}, {"theta": self.theta.astype(np.float32)})


def from_file(parts: dict, weights: dict[str, np.ndarray], label: str) -> AssignmentRule:
    """The policy of a file that has been read. Raises InputError, KeyError, TypeError, ValueError for damaged ones."""
    theta = weights["theta"].astype(float)
    if theta.shape != NO_THETA.shape or not np.isfinite(theta).all():
        raise ValueError(f"the knapsack has {THETA} finite numbers")
    tick, about = float(parts["tick"]), dict(parts["about"])
    return AssignmentRule(parts["rule"], Assignment(**parts["world"]), parts["layout"], tick, LIMIT, theta, label, about)


def _usual(rule: str) -> AssignmentRule:
    if rule in PICKERS:
        return AssignmentRule(rule, Assignment(**FIXED), "left")
    return AssignmentRule(rule, layout="left" if rule == "greedy" else "pack")


def named(policy: str) -> AssignmentRule:
    """The policy of a name `gpus:…`. Raises InputError."""
    found = re.fullmatch(r"gpus:([^@]+)(?:@(\d+(?:\.\d+)?)s)?", policy)
    if not found:
        raise InputError(f"policy {policy!r}: a rule and its options are expected, e.g. gpus:slot+partial@60s")
    rule, *options = found[1].split("+")
    if rule not in RULES[:-1]:  # what is learned comes from a file
        raise unknown("rule", rule, RULES[:-1], f"policy {policy!r}: ")
    usual = _usual(rule)
    world = {k: getattr(usual.world, k) for k in ("slots", "mode", "leave", "elastic")}
    layout, tick = usual.layout, float(found[2] or ROW_S)
    for option in options:
        if option in MODES:
            world["mode"] = option
        elif option in LAYOUTS:
            layout = option
        elif count := re.fullmatch(r"slots(\d+)", option):
            world["slots"] = int(count[1])
        elif option in ("leave", "fixed"):
            world |= {"leave": True} if option == "leave" else {"elastic": False}
        else:
            raise unknown("option", option, [*MODES, *LAYOUTS, "leave", "fixed", "slots32"], f"policy {policy!r}: ")
    return AssignmentRule(rule, Assignment(**world), layout, tick)

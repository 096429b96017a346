"""The rules of the world of slots as policies: `slots:RULE[+PLACEMENT][@600s]`."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from jobwise.cluster import Cluster
from jobwise.errors import unknown
from jobwise.policies.chooser import LIMIT, Choose, Chooser
from jobwise.worlds import World
from jobwise.worlds.slot_rules import RULES
from jobwise.worlds.slots_world import Slots


@dataclass(frozen=True, eq=False)
class SlotRule(Chooser):
    """RULE[+PLACEMENT] of `jobwise.worlds.slot_rules` in the world of slots, e.g. `sjf`, `tetris+pack`. `tick`: s in a row."""

    rule: str
    settings: Slots = field(default_factory=Slots)
    tick: float = 1.0
    limit: float = LIMIT

    def __post_init__(self):
        if self.rule.partition("+")[0] not in RULES:
            raise unknown("rule", self.rule.partition("+")[0], RULES)

    @property
    def name(self) -> str:
        """As in `slots:sjf+pack@600s`."""
        return f"slots:{self.rule}" + (f"@{self.tick:g}s" if self.tick != 1 else "")

    @property
    def world(self) -> Slots:
        """The world, with its one placement."""
        placement = self.rule.partition("+")[2] or self.settings.placements[0]
        return replace(self.settings, order="", masked=True, ask_always=True, placements=(placement,))

    def chooser(self, world: World, cluster: Cluster) -> Choose:
        """The rule."""
        return lambda world: world.by_rule(self.rule.partition("+")[0])

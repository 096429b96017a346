"""The rules of the world of slots as policies: `slots:RULE[+PLACEMENT][@600s]`."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from jobwise.cluster import Cluster
from jobwise.errors import unknown
from jobwise.policies import parts
from jobwise.policies.chooser import LIMIT, Choose, Chooser
from jobwise.worlds import World
from jobwise.worlds.slot_rules import RULES
from jobwise.worlds.slots_world import Slots

PREFIX, HEADING = "slots", "jobs in slots, on a grid of time"
DOCS = {
    "fcfs": "first come, first served, of the jobs in the slots that fit now (DeepRM's world)",
    "sjf": "the shortest first",
    "tetris": "best fit to what is free",
    "saf": "the smallest area first",
    "drf": "the smallest dominant share first",
    "las": "the least service so far first",
    "random": "any slot, or none",
    "hold": "the shortest first, large jobs held back",
}


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
        return parts.rows_name(PREFIX, self.rule, [], self.tick, 1.0)

    @property
    def world(self) -> Slots:
        """The world, with its one placement."""
        placement = self.rule.partition("+")[2] or self.settings.placements[0]
        return replace(self.settings, order="", masked=True, ask_always=True, placements=(placement,))

    def chooser(self, world: World, cluster: Cluster) -> Choose:
        """The rule."""
        return lambda world: world.by_rule(self.rule.partition("+")[0])


def named(policy: str) -> SlotRule:
    """Return the policy of a name `slots:RULE[+PLACEMENT][@600s]`. Raises InputError."""
    rule, options, tick = parts.split(policy, PREFIX, "slots:sjf+pack@600s", 1.0)
    return SlotRule("+".join([rule, *options]), Slots(reserve=False), tick)


def rows() -> dict[str, str]:
    """Return {example: what it does} of the rules and options."""
    shown = {f"{PREFIX}:{rule}": doc for rule, doc in DOCS.items()}
    return shown | {f"{PREFIX}:sjf+pack@600s": "a placement (first, pack, spread, …), and rows of 600 s (1 s)"}

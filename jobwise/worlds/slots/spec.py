"""The world of slots, as the rest of jobwise knows it."""

from jobwise.worlds.spec import WorldSpec

BOTH = (("", "configure"), ("+", "ours"))  # of a paper, and ours
SPEC = WorldSpec(
    "slots",
    policy="jobwise.worlds.slots.policy",
    env="jobwise.learn.env:Slots",
    ids=("Slots", "Grid"),
    kinds={"slots": "from_file", "grid": "from_file"},
    config="jobwise.learn.slots_config:SlotsConfig",
    systems={f"{name}{ours}": f"jobwise.systems.{name}:{function}" for name in ("deeprm", "cush") for ours, function in BOTH},
    generated=dict.fromkeys(("deeprm", "cush"), "jobwise.workloads.made:slots"),
    films="deeprm+",
    bare=True,
)

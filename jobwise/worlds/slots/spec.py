"""The world of slots, as the rest of jobwise knows it."""

from jobwise.worlds.spec import WorldSpec

SPEC = WorldSpec(
    "slots",
    policy="jobwise.worlds.slots.policy",
    env="jobwise.learn.env:Slots",
    ids=("Slots", "Grid"),
    kinds={"slots": "from_file", "grid": "from_file"},
    config="jobwise.learn.slots_config:SlotsConfig",
    systems={"deeprm": "jobwise.systems.deeprm:configure", "cush": "jobwise.systems.cush:configure"},
    generated=dict.fromkeys(("deeprm", "cush"), "jobwise.workloads.made:slots"),
    films="deeprm",
    bare=True,
)

"""The world of slots, as the rest of jobwise knows it."""

from jobwise.worlds.spec import SystemSpec, WorldSpec

SPEC = WorldSpec(
    "slots",
    policy="jobwise.worlds.slots.policy",
    env="jobwise.learn.env:Slots",
    ids=("Slots", "Grid"),
    kinds={"slots": "from_file", "grid": "from_file"},
    config="jobwise.learn.slots_config:SlotsConfig",
    systems=(
        SystemSpec("deeprm", "jobwise.systems.deeprm:configure", "Mao et al., HotNets'16", on_log=False),
        SystemSpec("deeprm+", "jobwise.systems.deeprm:ours", on_log=False),
        SystemSpec(
            "cush",
            "jobwise.systems.cush:configure",
            "Domeniconi et al., DRL4KDD'19",
            on_log=False,
            variants="jobwise.systems.cush:TRAINED",
        ),
        SystemSpec("cush+", "jobwise.systems.cush:ours", on_log=False),
    ),
    generated=dict.fromkeys(("deeprm", "cush"), "jobwise.workloads.made:slots"),
    films="deeprm+",
    bare=True,
)

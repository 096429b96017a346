"""The world of GPUs, as the rest of jobwise knows it."""

from jobwise.worlds.spec import WorldSpec

SPEC = WorldSpec(
    "gpus",
    policy="jobwise.worlds.gpus.policy",
    env="jobwise.learn.env:Gpus",
    ids=("Gpus", "Assign"),
    kinds={"gpus": "network_from_file", "knapsack": "rule_from_file"},
    config="jobwise.learn.gpus_config:GpusConfig",
    systems={
        "rl-taps": "jobwise.systems.rltaps:configure",
        "rl-taps+": "jobwise.systems.rltaps:ours",
        "rl-taps-pairs": "jobwise.systems.rltaps:pairs",
    },
    generated={"rl-taps": "jobwise.workloads.made:gpus"},
    films="rl-taps+",
)

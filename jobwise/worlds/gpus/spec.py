"""The world of GPUs, as the rest of jobwise knows it."""

from jobwise.worlds.spec import SystemSpec, WorldSpec

SPEC = WorldSpec(
    "gpus",
    policy="jobwise.worlds.gpus.policy",
    env="jobwise.learn.env:Gpus",
    ids=("Gpus", "Assign"),
    kinds={"gpus": "network_from_file", "knapsack": "rule_from_file"},
    config="jobwise.learn.gpus_config:GpusConfig",
    systems=(
        SystemSpec("rl-taps", "jobwise.systems.rltaps:configure", "Ryu et al., CASCON 2020", on_log=False),
        SystemSpec("rl-taps+", "jobwise.systems.rltaps:ours", on_log=False),
        SystemSpec("rl-taps-pairs", "jobwise.systems.rltaps:pairs", on_log=False),
    ),
    generated={"rl-taps": "jobwise.workloads.made:gpus"},
    films="rl-taps+",
)

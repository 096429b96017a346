"""The world of nodes, as the rest of jobwise knows it."""

from jobwise.worlds.spec import SystemSpec, WorldSpec

SLIDES = "telemetry-driven placement"
SPEC = WorldSpec(
    "nodes",
    policy="jobwise.worlds.nodes.policy",
    env="jobwise.learn.env:Nodes",
    ids=("Nodes", "Place"),
    kinds={"nodes": "network_from_file", "costs": "rule_from_file"},
    config="jobwise.learn.nodes_config:NodesConfig",
    systems=(
        SystemSpec("distances", "jobwise.systems.telemetry:distances", SLIDES, on_log=False),
        SystemSpec("distances+", "jobwise.systems.telemetry:our_distances", on_log=False),
        SystemSpec("affinities", "jobwise.systems.telemetry:affinities", SLIDES, on_log=False),
        SystemSpec("affinities+", "jobwise.systems.telemetry:our_affinities", on_log=False),
        SystemSpec("failing", "jobwise.systems.telemetry:failing", on_log=False),
    ),
    generated=dict.fromkeys(("distances", "affinities", "failing"), "jobwise.workloads.made:nodes"),
    films="affinities+",
)

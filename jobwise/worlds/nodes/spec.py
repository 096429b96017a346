"""The world of nodes, as the rest of jobwise knows it."""

from jobwise.worlds.spec import WorldSpec

SYSTEMS = ("distances", "affinities", "failing")
SPEC = WorldSpec(
    "nodes",
    policy="jobwise.worlds.nodes.policy",
    env="jobwise.learn.env:Nodes",
    ids=("Nodes", "Place"),
    kinds={"nodes": "network_from_file", "costs": "rule_from_file"},
    config="jobwise.learn.nodes_config:NodesConfig",
    systems={name: f"jobwise.systems.telemetry:{name}" for name in SYSTEMS}
    | {f"{name}+": f"jobwise.systems.telemetry:our_{name}" for name in SYSTEMS[:2]},
    generated=dict.fromkeys(SYSTEMS, "jobwise.workloads.made:nodes"),
    films="affinities+",
)

"""The world of windows of a queue, as the rest of jobwise knows it."""

from jobwise.worlds.spec import SystemSpec, WorldSpec

SPEC = WorldSpec(
    "window",
    policy="jobwise.worlds.window.policy",
    env="jobwise.learn.env:Window",
    ids=("Window", "Batch"),
    rules=False,
    kinds={"": "from_file"},
    systems=(
        SystemSpec("perjob", "jobwise.systems.perjob:configure"),
        SystemSpec("shift", "jobwise.systems.perjob:configure_shift"),
        SystemSpec("sem", "jobwise.systems.sem:configure_sem", "Li, Fan, Papka, Lan"),
        SystemSpec("sem+", "jobwise.systems.sem:our_sem"),
        SystemSpec("dras", "jobwise.systems.sem:configure_dras", "Fan et al., IPDPS'21"),
        SystemSpec("dras+", "jobwise.systems.sem:our_dras"),
        SystemSpec("dras2", "jobwise.systems.sem:configure_dras2", "Fan et al., IPDPS'21"),
        SystemSpec("dras-dql", "jobwise.systems.sem:configure_dql", "Fan et al., IPDPS'21"),
        SystemSpec("rlscheduler", "jobwise.systems.rlscheduler:configure", "Zhang et al., SC'20"),
        SystemSpec("search", "jobwise.systems.search:configure", needs=()),
        SystemSpec("mars", "jobwise.systems.rla3c:configure", "Baheri, Guan, arXiv:2005.01584"),
        SystemSpec("mars+", "jobwise.systems.rla3c:ours"),
        SystemSpec("rl-a3c", "jobwise.systems.rla3c:configure_plain", "Baheri, Guan, arXiv:2005.01584"),
    ),
)

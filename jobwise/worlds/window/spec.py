"""The world of windows of a queue, as the rest of jobwise knows it."""

from jobwise.worlds.spec import WorldSpec

SPEC = WorldSpec(
    "window",
    policy="jobwise.worlds.window.policy",
    env="jobwise.learn.env:Window",
    ids=("Window", "Batch"),
    rules=False,
    kinds={"": "from_file"},
)

"""Where jobs come from: a file per source, and transformations."""

GENERATED = ("deeprm", "cush", "rl-taps", "distances", "affinities", "failing")  # names of generated jobs

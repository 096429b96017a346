"""Where jobs come from: a file per source, and transformations."""

GENERATED = ("deeprm", "cush", "rl-taps", "distances", "affinities")  # names of generated jobs
